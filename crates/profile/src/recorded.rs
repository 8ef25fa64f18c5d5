//! The part of a profile that rank placement needs: the number of ranks and who sent how much to
//! whom. Read by `mpiexec --map-by profile:FILE` and `mica place`, of profiles that `mica profile`
//! wrote and of any JSON file with these fields.

use std::io::Read;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::model::FORMAT;

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
pub enum RecordedError {
    /// The file cannot be read.
    #[error("cannot read the profile {}: {reason}", file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// The system's error.
        reason: std::io::Error,
    },
    /// It is not a profile.
    #[error("{} is not a profile of `mica profile`: {what}", file.display())]
    Malformed {
        /// The file.
        file: PathBuf,
        /// What is wrong.
        what: String,
    },
}

/// Largest accepted file.
const BYTES_MAX: u64 = 4 << 30;

#[derive(Deserialize)]
struct File {
    format: u32,
    ranks: Vec<serde::de::IgnoredAny>,
    matrix: Vec<Row>,
}

#[derive(Deserialize)]
struct Row {
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
    pub fn read(file: &Path) -> Result<RecordedTraffic, RecordedError> {
        let failed = |reason| RecordedError::Read {
            file: file.to_owned(),
            reason,
        };
        let mut text = String::new();
        let opened = std::fs::File::open(file).map_err(failed)?;
        let mut limited = opened.take(BYTES_MAX);
        limited.read_to_string(&mut text).map_err(failed)?;
        RecordedTraffic::parse(&text).map_err(|what| RecordedError::Malformed {
            file: file.to_owned(),
            what,
        })
    }

    /// Parses the text of a profile. The error says what is wrong with it.
    ///
    /// # Errors
    /// If it is not JSON of this form, of another version, or names a rank that is not there.
    pub fn parse(text: &str) -> Result<RecordedTraffic, String> {
        let file: File = serde_json::from_str(text).map_err(|error| error.to_string())?;
        if file.format != FORMAT {
            let found = file.format;
            return Err(format!("its format is {found}; this reads {FORMAT}"));
        }
        let ranks = file.ranks.len();
        let beyond = |row: &&Row| row.from.max(row.to) as usize >= ranks;
        if let Some(row) = file.matrix.iter().find(beyond) {
            let (from, to) = (row.from, row.to);
            return Err(format!(
                "matrix has a pair from {from} to {to}, and there are {ranks} ranks"
            ));
        }
        let pairs = file.matrix.into_iter().map(|row| RecordedPair {
            from: row.from,
            to: row.to,
            messages: row.messages.saturating_add(row.collective_messages),
            bytes: row.bytes.saturating_add(row.collective_bytes),
        });
        Ok(RecordedTraffic {
            ranks,
            pairs: pairs.collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(
            bytes,
            rows.map(|row| row.bytes + row.collective_bytes)
                .sum::<u64>()
        );
        assert!(bytes > 0);
    }

    #[test]
    fn says_what_is_wrong_with_a_file() {
        let traffic = RecordedTraffic::parse(&file(FORMAT, ROW)).unwrap();
        assert_eq!((traffic.ranks, traffic.pairs[0].bytes), (2, 16));
        let far = ROW.replace("\"to\":1", "\"to\":2");
        for (text, words) in [
            ("{".to_owned(), "EOF"),
            ("{}".to_owned(), "missing field `format`"),
            (file(FORMAT + 1, ROW), "its format is 2"),
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
