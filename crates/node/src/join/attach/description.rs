//! What mpiexec says of its job to a tool that attaches.

use crate::byte_reader::ByteReader;

/// Maximum number of processes that a description lists; in larger jobs a tool learns them from
/// the segment, once the ranks have called `MPI_Init`.
const PIDS_MAX: usize = 16 << 10;
/// Maximum bytes of a text.
const TEXT_MAX: usize = 4 << 10;

/// The part of a job that one mpiexec, or one agent, runs on its node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobDescription {
    /// The version of Mica that runs the job.
    pub version: String,
    /// The layout of the segment
    /// ([`layout`](crate::segment::layout)).
    pub layout: u64,
    /// The name of the job, the same on all nodes.
    pub name: String,
    /// The name of this node in the job.
    pub host: String,
    /// The command line of the ranks.
    pub command: String,
    /// Ranks on all nodes.
    pub job_size: u32,
    /// Number of nodes.
    pub nodes: u32,
    /// When the job was started: milliseconds since 1970.
    pub started_ms: u64,
    /// The processes that were started as ranks of this node, in the order of their ranks.
    pub pids: Vec<u32>,
}

impl JobDescription {
    /// The description in bytes: numbers in little-endian order, texts and lists after their
    /// length.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut text = |text: &str| {
            let text = &text.as_bytes()[..text.floor_char_boundary(TEXT_MAX)];
            bytes.extend((text.len() as u32).to_le_bytes());
            bytes.extend(text);
        };
        for part in [&self.version, &self.name, &self.host, &self.command] {
            text(part);
        }
        bytes.extend(self.layout.to_le_bytes());
        bytes.extend(self.started_ms.to_le_bytes());
        bytes.extend(self.job_size.to_le_bytes());
        bytes.extend(self.nodes.to_le_bytes());
        let pids = &self.pids[..self.pids.len().min(PIDS_MAX)];
        bytes.extend((pids.len() as u32).to_le_bytes());
        bytes.extend(pids.iter().flat_map(|pid| pid.to_le_bytes()));
        bytes
    }

    /// The description in these bytes; `None` if there is none. Characters that a terminal might
    /// obey are replaced.
    pub fn decode(bytes: &[u8]) -> Option<JobDescription> {
        let mut rest = ByteReader(bytes);
        let mut text = || {
            let length = rest.u32()? as usize;
            (length <= TEXT_MAX).then(|| rest.bytes(length).map(printable))?
        };
        let [version, name, host, command] = [text()?, text()?, text()?, text()?];
        let job = JobDescription {
            version,
            name,
            host,
            command,
            layout: rest.u64()?,
            started_ms: rest.u64()?,
            job_size: rest.u32()?,
            nodes: rest.u32()?,
            pids: pids(&mut rest)?,
        };
        rest.0.is_empty().then_some(job)
    }
}

fn pids(rest: &mut ByteReader<'_>) -> Option<Vec<u32>> {
    let count = rest.u32()? as usize;
    if count > PIDS_MAX {
        return None;
    }
    (0..count).map(|_| rest.u32()).collect()
}

/// Text from another process, for a terminal.
pub fn printable(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let plain = |c: char| if c.is_control() { '?' } else { c };
    text.chars().map(plain).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_and_lists_are_cut() {
        let job = JobDescription {
            version: "1".to_owned(),
            layout: 1,
            name: String::new(),
            host: String::new(),
            command: "é".repeat(TEXT_MAX),
            job_size: 1 << 20,
            nodes: 1,
            started_ms: 0,
            pids: vec![3; PIDS_MAX + 5],
        };
        let bytes = job.encode();
        assert!(bytes.len() < super::super::ANSWER_MAX);
        let read = JobDescription::decode(&bytes).unwrap();
        assert_eq!(read.command.len(), TEXT_MAX);
        assert_eq!(read.pids.len(), PIDS_MAX);
    }

    #[test]
    fn lengths_beyond_the_bytes_are_refused() {
        assert_eq!(JobDescription::decode(&[0xff; 64]), None);
        let mut bytes = Vec::new();
        bytes.extend([0; 16]);
        bytes.extend([0; 24]);
        bytes.extend(1000u32.to_le_bytes());
        assert_eq!(JobDescription::decode(&bytes), None);
    }
}
