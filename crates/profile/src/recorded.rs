//! The part of a profile that rank placement needs: the number of ranks and who sent how much to
//! whom. Read by `mpiexec --map-by profile:FILE` and `mica place`, of profiles that `mica profile`
//! wrote, of observations of `mica links` (their first line has what a call moves between ranks),
//! and of any JSON file with a profile's fields.

use std::io::Read;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::model::check_format;

/// The traffic between the ranks of a recorded job.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecordedTraffic {
    /// Number of ranks of the job.
    pub ranks: usize,
    /// Pairs that talked; both ranks are below `ranks`.
    pub pairs: Vec<RecordedPair>,
}

/// What one rank sent to another, by messages, one-sided operations and collectives together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordedPair {
    /// Sender.
    pub from: u32,
    /// Receiver.
    pub to: u32,
    /// Messages.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// The traffic cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum TrafficError {
    /// The file cannot be read.
    #[error("cannot read the profile {}: {reason}", file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// The system's error.
        reason: std::io::Error,
    },
    /// It is not a profile.
    #[error(
        "{} is not a profile of `mica profile`, nor an observation of `mica links`: {what}",
        file.display()
    )]
    Malformed {
        /// The file.
        file: PathBuf,
        /// What is wrong.
        what: String,
    },
}

/// Largest accepted file.
const BYTES_MAX: u64 = 4 << 30;

/// The first bytes of an observation of `mica links` (`mica_links::file`).
const LINKS_BEGIN: &[u8] = br#"{"format":"mica-links""#;

/// As much of an observation's first line as placement reads.
#[derive(Deserialize)]
struct LinksHeader {
    rows: u64,
    workloads: Vec<LinksWorkload>,
}

#[derive(Deserialize)]
struct LinksWorkload {
    ranks: usize,
    pairs: Vec<(u32, u32, u64)>,
}

#[derive(Deserialize)]
struct File {
    format: u32,
    ranks: Vec<serde::de::IgnoredAny>,
    matrix: Vec<TrafficRow>,
}

#[derive(Deserialize)]
struct TrafficRow {
    from: u32,
    to: u32,
    messages: u64,
    bytes: u64,
    #[serde(default)]
    collective_messages: u64,
    #[serde(default)]
    collective_bytes: u64,
}

impl RecordedTraffic {
    /// Reads the file of a profile.
    ///
    /// # Errors
    /// If it cannot be read, or is not a profile.
    pub fn read(file: &Path) -> Result<RecordedTraffic, TrafficError> {
        let failed = |reason| TrafficError::Read { file: file.to_owned(), reason };
        let malformed = |what| TrafficError::Malformed { file: file.to_owned(), what };
        let mut bytes = Vec::new();
        let opened = std::fs::File::open(file).map_err(failed)?;
        let mut limited = opened.take(BYTES_MAX);
        limited.read_to_end(&mut bytes).map_err(failed)?;
        if bytes.starts_with(LINKS_BEGIN) {
            return RecordedTraffic::of_links(&bytes).map_err(malformed);
        }
        let text = String::from_utf8(bytes).map_err(|error| malformed(error.to_string()))?;
        RecordedTraffic::parse(&text).map_err(malformed)
    }

    /// Takes the traffic out of an observation of `mica links`: a line of JSON, then columns.
    fn of_links(bytes: &[u8]) -> Result<RecordedTraffic, String> {
        let line = bytes.split(|&byte| byte == b'\n').next().unwrap_or_default();
        let header: LinksHeader = serde_json::from_slice(line).map_err(|e| e.to_string())?;
        let calls = header.rows.max(1);
        let mut traffic = RecordedTraffic::default();
        for workload in header.workloads {
            traffic.ranks = traffic.ranks.max(workload.ranks);
            // A pair of a workload: what one call moves.
            let pairs = workload.pairs.into_iter().map(|(from, to, bytes)| RecordedPair {
                from,
                to,
                messages: calls,
                bytes: bytes.saturating_mul(calls),
            });
            traffic.pairs.extend(pairs);
        }
        if traffic.pairs.is_empty() {
            return Err("it does not know what its calls move between ranks".to_owned());
        }
        traffic.checked("a pair is")
    }

    /// The traffic, if all pairs are of its ranks; `pair` begins the error.
    fn checked(self, pair: &str) -> Result<RecordedTraffic, String> {
        let ranks = self.ranks;
        let beyond = |pair: &&RecordedPair| pair.from.max(pair.to) as usize >= ranks;
        let Some(RecordedPair { from, to, .. }) = self.pairs.iter().find(beyond) else {
            return Ok(self);
        };
        Err(format!("{pair} from {from} to {to}, and there are {ranks} ranks"))
    }

    /// Parses the text of a profile. The error says what is wrong with it.
    ///
    /// # Errors
    /// If it is not JSON of this form, of another version, or names a rank that is not there.
    pub fn parse(text: &str) -> Result<RecordedTraffic, String> {
        let file: File = serde_json::from_str(text).map_err(|error| error.to_string())?;
        check_format(file.format)?;
        let pairs = file.matrix.into_iter().map(|row| RecordedPair {
            from: row.from,
            to: row.to,
            messages: row.messages.saturating_add(row.collective_messages),
            bytes: row.bytes.saturating_add(row.collective_bytes),
        });
        let traffic = RecordedTraffic { ranks: file.ranks.len(), pairs: pairs.collect() };
        traffic.checked("matrix has a pair")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::FORMAT;

    const ROW: &str = r#"{"from":0,"to":1,"messages":2,"bytes":16}"#;

    fn file(format: u32, matrix: &str) -> String {
        format!(r#"{{"format":{format},"ranks":[{{"rank":0}},{{}}],"matrix":[{matrix}]}}"#)
    }

    #[test]
    fn reads_what_mica_profile_writes() {
        let profile = crate::Profile::example();
        let text = serde_json::to_string(&profile).unwrap();
        let traffic = RecordedTraffic::parse(&text).unwrap();
        assert_eq!(traffic.ranks, profile.ranks.len());
        let bytes: u64 = traffic.pairs.iter().map(|pair| pair.bytes).sum();
        let rows = profile.matrix.iter();
        assert_eq!(bytes, rows.map(|row| row.bytes + row.collective_bytes).sum::<u64>());
        assert!(bytes > 0);
    }

    #[test]
    fn reads_the_first_line_of_an_observation_of_links() {
        let file = |pairs: &str| {
            let workload = format!(r#"[{{"collective":"barrier","ranks":4,"pairs":[{pairs}]}}]"#);
            let head = r#"{"format":"mica-links","version":2,"rows":10,"workloads":"#;
            [format!("{head}{workload}}}\n").as_bytes(), &[0xff, 0, 0x80]].concat()
        };
        let traffic = RecordedTraffic::of_links(&file("[0,3,64]")).unwrap();
        let pair = RecordedPair { from: 0, to: 3, messages: 10, bytes: 640 };
        assert_eq!((traffic.ranks, &traffic.pairs[..]), (4, &[pair][..]));
        let error = |pairs: &str| RecordedTraffic::of_links(&file(pairs)).unwrap_err();
        assert!(error("[0,4,64]").contains("from 0 to 4, and there are 4 ranks"));
        assert!(error("").contains("does not know"));
    }

    #[test]
    fn says_what_is_wrong_with_a_file() {
        let traffic = RecordedTraffic::parse(&file(FORMAT, ROW)).unwrap();
        assert_eq!((traffic.ranks, traffic.pairs[0].bytes), (2, 16));
        let far = ROW.replace("\"to\":1", "\"to\":2");
        for (text, words) in [
            ("{".to_owned(), "EOF"),
            ("{}".to_owned(), "missing field `format`"),
            (file(FORMAT + 1, ROW), "its format is 3"),
            (file(FORMAT, &far), "from 0 to 2, and there are 2 ranks"),
            (file(FORMAT, "{}"), "missing field `from`"),
        ] {
            let what = RecordedTraffic::parse(&text).unwrap_err();
            assert!(what.contains(words), "{text}: {what}");
        }
        let missing = RecordedTraffic::read(Path::new("/nonexistent/p.json"));
        let missing = missing.unwrap_err().to_string();
        assert!(missing.contains("/nonexistent/p.json"), "{missing}");
    }
}
