//! What mpiexec says of its job to a tool that attaches.

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
        let mut rest = Remaining(bytes);
        let [version, name, host, command] =
            [rest.text()?, rest.text()?, rest.text()?, rest.text()?];
        let job = JobDescription {
            version,
            name,
            host,
            command,
            layout: rest.u64()?,
            started_ms: rest.u64()?,
            job_size: rest.u32()?,
            nodes: rest.u32()?,
            pids: rest.list()?,
        };
        rest.0.is_empty().then_some(job)
    }
}

/// What has not been decoded yet.
struct Remaining<'a>(&'a [u8]);

impl Remaining<'_> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*first)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn text(&mut self) -> Option<String> {
        let length = self.u32()? as usize;
        if length > TEXT_MAX {
            return None;
        }
        let (text, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(printable(text))
    }

    fn list(&mut self) -> Option<Vec<u32>> {
        let count = self.u32()? as usize;
        if count > PIDS_MAX {
            return None;
        }
        (0..count).map(|_| self.u32()).collect()
    }
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
