//! The file of an observation: one line of JSON, the header, then the columns as little-endian
//! values one after another, without padding:
//!
//! ```text
//! {"format":"mica-links","version":2,"rows":2000,"columns":[{"name":"workload",...},...],...}\n
//! <2000 x u32> <2000 x f64> <2000 x f64> ...
//! ```
//!
//! The header is text, so `head -1` shows what a file holds, and any program finds a column by
//! adding up the widths of those before it (NumPy: `frombuffer` at that offset). The values are
//! binary because a run of 10,000 calls of 32 ranks has 110 columns: 9 MB this way, and exact; CSV
//! would take three times as much.
//!
//! Columns, in this order: `workload` (u32), `start`, `time`, then `rank_entry:R` and `rank_time:R`
//! for each rank, `link_bytes:L`, `background_bytes:L` and `account_bytes:L` for each link L of the
//! header's `links`, `moved_bytes` (all f64); [`Calls`] says what each is. A group may be missing
//! as a whole, except for `link_bytes`. A reader refuses a column that it does not know: a new one
//! is a new version.

use std::io::{BufRead, Read, Write};

use serde::{Deserialize, Serialize};

use crate::data::{CallWorkload, Calls, DataError, LinkSet, Observation, Provenance};
use crate::study::ModelStudy;

/// The `format` of the header.
const FORMAT: &str = "mica-links";

/// The version of the format that is written. Version 1 had no `account_bytes` and `moved_bytes`,
/// and is read too.
const VERSION: u32 = 2;

/// Bytes; the pairs of 64 ranks in 20 workloads take 2 MiB.
const HEADER_MAX: u64 = 64 << 20;

/// Rows allocated before a value has been read: a corrupt header must not exhaust the memory.
const ROWS_AT_ONCE: usize = 1 << 16;

/// The first line of a file.
#[derive(Debug, Serialize, Deserialize)]
struct FileHeader {
    format: String,
    version: u32,
    rows: usize,
    columns: Vec<ColumnHeader>,
    links: Vec<String>,
    workloads: Vec<CallWorkload>,
    provenance: Provenance,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    study: Option<ModelStudy>,
}

/// What a column of the file holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct ColumnHeader {
    name: String,
    unit: String,
    kind: ValueKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum ValueKind {
    U32,
    F64,
}

/// As much of the header as tells whether the rest can be understood.
#[derive(Debug, Deserialize)]
struct FormatVersion {
    format: String,
    version: u32,
}

impl Observation {
    /// Writes the observation in the file format of this module.
    ///
    /// # Errors
    /// If it is inconsistent ([`check`](Self::check)), or `out` cannot be written.
    pub fn write(&self, mut out: impl Write) -> Result<(), DataError> {
        self.check()?;
        let reals = self.calls.real_columns();
        let mut columns = vec![ColumnHeader {
            name: "workload".to_owned(),
            unit: "index".to_owned(),
            kind: ValueKind::U32,
        }];
        columns.extend(reals.iter().map(|(name, unit, _)| ColumnHeader {
            name: name.clone(),
            unit: (*unit).to_owned(),
            kind: ValueKind::F64,
        }));
        let header = FileHeader {
            format: FORMAT.to_owned(),
            version: VERSION,
            rows: self.calls.len(),
            columns,
            links: self.links.names().to_vec(),
            workloads: self.workloads.clone(),
            provenance: self.provenance.clone(),
            study: self.study.clone(),
        };
        serde_json::to_writer(&mut out, &header).map_err(|error| DataError::Io(error.into()))?;
        out.write_all(b"\n")?;
        for value in &self.calls.workload {
            out.write_all(&value.to_le_bytes())?;
        }
        for (_, _, column) in reals {
            let bytes: Vec<u8> = column.iter().flat_map(|v| v.to_le_bytes()).collect();
            out.write_all(&bytes)?;
        }
        Ok(out.flush()?)
    }

    /// Reads what [`write`](Self::write) has written.
    ///
    /// # Errors
    /// If `input` is no such file, ends early or is inconsistent.
    pub fn read(mut input: impl BufRead) -> Result<Observation, DataError> {
        let header = read_header(&mut input)?;
        let links = LinkSet::new(header.links)?;
        let mut calls = Calls::default();
        for column in &header.columns {
            let values = ColumnReader { name: &column.name, rows: header.rows };
            match (column.name.as_str(), column.kind) {
                ("workload", ValueKind::U32) => {
                    calls.workload = values.read(&mut input, u32::from_le_bytes)?;
                }
                (_, ValueKind::F64) => {
                    let place = place_of(&mut calls, &column.name)
                        .ok_or_else(|| values.error("unknown, or out of order"))?;
                    place.extend(values.read(&mut input, f64::from_le_bytes)?);
                }
                _ => return Err(values.error("unknown")),
            }
        }
        if input.read(&mut [0])? != 0 {
            return Err(DataError::Inconsistent(
                "there are bytes after the last column".to_owned(),
            ));
        }
        let observation = Observation {
            provenance: header.provenance,
            links,
            workloads: header.workloads,
            calls,
            study: header.study,
        };
        observation.check()?;
        Ok(observation)
    }
}

fn read_header(input: &mut impl BufRead) -> Result<FileHeader, DataError> {
    let mut line = Vec::new();
    input.take(HEADER_MAX).read_until(b'\n', &mut line)?;
    let known: FormatVersion = serde_json::from_slice(&line).map_err(DataError::Header)?;
    if known.format != FORMAT || !(1..=VERSION).contains(&known.version) {
        return Err(DataError::Version { format: known.format, version: known.version });
    }
    serde_json::from_slice(&line).map_err(DataError::Header)
}

/// The empty column with this name; `None` if it is unknown, filled, or not the next of its group.
fn place_of<'a>(calls: &'a mut Calls, name: &str) -> Option<&'a mut Vec<f64>> {
    let (group, index) = match name.split_once(':') {
        None => (name, None),
        Some((group, index)) => (group, Some(index.parse::<usize>().ok()?)),
    };
    let single = match group {
        "start" => Some(&mut calls.start),
        "time" => Some(&mut calls.time),
        "moved_bytes" => Some(&mut calls.moved_bytes),
        _ => None,
    };
    if let Some(column) = single {
        return (index.is_none() && column.is_empty()).then_some(column);
    }
    let columns = match group {
        "rank_entry" => &mut calls.rank_entry,
        "rank_time" => &mut calls.rank_time,
        "link_bytes" => &mut calls.link_bytes,
        "background_bytes" => &mut calls.background_bytes,
        "account_bytes" => &mut calls.account_bytes,
        _ => return None,
    };
    if index != Some(columns.len()) {
        return None;
    }
    columns.push(Vec::new());
    columns.last_mut()
}

/// Reads the values of one column.
struct ColumnReader<'a> {
    name: &'a str,
    rows: usize,
}

impl ColumnReader<'_> {
    fn error(&self, problem: &str) -> DataError {
        DataError::Column {
            column: self.name.to_owned(),
            rows: self.rows,
            problem: problem.to_owned(),
        }
    }

    fn read<T, const WIDTH: usize>(
        &self,
        input: &mut impl BufRead,
        value: impl Fn([u8; WIDTH]) -> T,
    ) -> Result<Vec<T>, DataError> {
        let mut values = Vec::with_capacity(self.rows.min(ROWS_AT_ONCE));
        for row in 0..self.rows {
            let mut bytes = [0; WIDTH];
            if input.read_exact(&mut bytes).is_err() {
                return Err(self.error(&format!("the file ends after {row}")));
            }
            values.push(value(bytes));
        }
        Ok(values)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::data::PairBytes;

    /// An observation of `rows` calls of 2 ranks on 2 links, with these values.
    fn observation(rows: usize, values: &[f64], background: bool) -> Observation {
        let column = |at: usize| -> Vec<f64> {
            (0..rows).map(|row| values[(row * 7 + at) % values.len()]).collect()
        };
        let workload = CallWorkload {
            collective: "allreduce".to_owned(),
            bytes: 16384,
            ranks: 2,
            schedule: String::new(),
            pairs: vec![PairBytes { from: 0, to: 1, bytes: 8192 }],
        };
        Observation {
            provenance: Provenance {
                machine: "two chips".to_owned(),
                seed: 7,
                rank_chips: vec![0, 1],
                ..Provenance::default()
            },
            links: LinkSet::new(vec!["0->1".to_owned(), "1->0".to_owned()]).expect("two names"),
            workloads: vec![workload],
            calls: Calls {
                workload: vec![0; rows],
                start: column(0),
                time: column(1),
                rank_entry: vec![column(2), column(3)],
                rank_time: vec![column(4), column(5)],
                link_bytes: vec![column(6), column(7)],
                background_bytes: if background { vec![column(8), column(9)] } else { Vec::new() },
                account_bytes: if background { Vec::new() } else { vec![column(10), column(11)] },
                moved_bytes: column(12),
            },
            study: None,
        }
    }

    fn written(observation: &Observation) -> Vec<u8> {
        let mut bytes = Vec::new();
        observation.write(&mut bytes).expect("consistent");
        bytes
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn reads_what_it_wrote(
            rows in 0usize..40,
            values in prop::collection::vec(-1e300f64..1e300, 1..20),
            background: bool,
        ) {
            let observation = observation(rows, &values, background);
            let read = Observation::read(&written(&observation)[..]).expect("as written");
            prop_assert_eq!(read, observation);
        }

        #[test]
        fn refuses_any_other_length(cut in 1usize..100_000, longer: bool) {
            let mut bytes = written(&observation(5, &[1.5, 2.5], true));
            match longer {
                true => bytes.push(0),
                false => bytes.truncate(bytes.len() - (1 + cut % (bytes.len() - 1))),
            }
            prop_assert!(Observation::read(&bytes[..]).is_err());
        }
    }

    fn error_of(bytes: &[u8]) -> String {
        Observation::read(bytes).expect_err("bad file").to_string()
    }

    #[test]
    fn names_what_is_wrong_with_a_file() {
        let bytes = written(&observation(3, &[1.0], true));
        let end = error_of(&bytes[..bytes.len() - 1]);
        assert!(end.contains("moved_bytes") && end.contains("after 2"), "{end}");
        assert!(error_of(b"call,time\n0,1\n").contains("no header"));
        assert!(error_of(br#"{"format":"mica-links","version":9}"#).contains("version 9"));
    }

    #[test]
    fn reads_files_of_version_1() {
        let mut observation = observation(3, &[1.5], true);
        observation.calls.moved_bytes.clear();
        let bytes = written(&observation);
        let old = String::from_utf8_lossy(&bytes[..60]).replace("\"version\":2", "\"version\":1");
        let bytes = [old.as_bytes(), &bytes[60..]].concat();
        assert_eq!(Observation::read(&bytes[..]).expect("version 1"), observation);
    }

    #[test]
    fn refuses_inconsistent_columns_when_writing() {
        let refused = |change: fn(&mut Observation)| {
            let mut observation = observation(3, &[1.0], true);
            change(&mut observation);
            observation.write(std::io::sink()).expect_err("inconsistent").to_string()
        };
        assert!(refused(|o| o.calls.workload[1] = 1).contains("workload 1 of 1"));
        assert!(refused(|o| o.calls.time[2] = f64::NAN).contains("time of call 2"));
        assert!(refused(|o| o.calls.rank_time[1].truncate(2)).contains("rank_time:1"));
        assert!(refused(|o| o.calls.link_bytes.truncate(1)).contains("1 columns"));
        assert!(refused(|o| o.calls.account_bytes = vec![Vec::new()]).contains("1 columns"));
        let twice = LinkSet::new(vec!["0->1".to_owned(), "0->1".to_owned()]);
        assert!(twice.expect_err("twice").to_string().contains("0->1"));
    }
}
