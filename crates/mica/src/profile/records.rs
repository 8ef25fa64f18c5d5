//! Reads what the ranks left: one file each, in the form that the head of
//! `crates/profile-preload/src/write.rs` describes.
//!
//! A file comes from a process that may have been killed while it wrote, so each line is checked:
//! one that cannot be read makes the file an error, which names it and the line.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::str::FromStr;

use mica_profile::ProfiledPlace;

/// The records of one rank.
#[derive(Debug, Default, PartialEq)]
pub struct RankRecords {
    pub rank: u32,
    pub size: u32,
    pub pid: u32,
    pub host: String,
    pub processor: String,
    /// Names the running kernel: ranks with equal names share a clock.
    pub boot: String,
    pub library: String,
    pub start_ns: u64,
    pub app_ns: u64,
    pub mpi_ns: u64,
    pub finalized: bool,
    pub place: Option<ProfiledPlace>,
    /// By the number that other lines use.
    pub sites: BTreeMap<u64, RecordedSite>,
    /// Stacks by the number that other lines use: the numbers of sites, the call's first.
    pub stacks: BTreeMap<u64, Vec<u64>>,
    pub calls: Vec<SiteCalls>,
    pub messages: Vec<RecordedMessage>,
    pub blocks: Vec<RecordedBlock>,
    pub arrivals: Vec<RecordedArrival>,
    pub spans: Vec<RecordedSpan>,
    /// Nanoseconds by reason.
    pub waits: Vec<(String, u64)>,
    pub dropped_spans: u64,
    pub dropped_arrivals: u64,
}

/// A call site.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum RecordedSite {
    /// Return address in an object, and those of the callers of the function, as far as they were
    /// asked for.
    Code { object: String, offset: u64, callers: Vec<(String, u64)> },
    /// A line of Python.
    Python { file: String, function: String, line: u32 },
}

/// Calls of one function at one site.
#[derive(Debug, PartialEq)]
pub struct SiteCalls {
    pub name: String,
    pub site: u64,
    pub count: u64,
    pub time_ns: u64,
    pub min_ns: u64,
    pub max_ns: u64,
    pub sends: u64,
    pub bytes: u64,
    pub comm_size: u32,
    pub durations: Vec<u64>,
}

/// Messages to one rank, of one class.
#[derive(Debug, PartialEq)]
pub struct RecordedMessage {
    pub name: String,
    /// `None` for collectives.
    pub peer: Option<u32>,
    pub class: u8,
    pub messages: u64,
    pub bytes: u64,
}

/// Blocks of collectives for one rank.
#[derive(Debug, PartialEq)]
pub struct RecordedBlock {
    pub peer: u32,
    pub messages: u64,
    pub bytes: u64,
}

/// The arrival at a collective.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordedArrival {
    pub comm: u64,
    pub size: u32,
    pub sequence: u64,
    pub name: String,
    pub site: u64,
    pub ns: u64,
    /// When the call returned.
    pub left_ns: u64,
    pub root: Option<u32>,
    pub kind: CollectiveWaiting,
}

/// Who waits for whom in a collective.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CollectiveWaiting {
    /// All for all.
    All,
    /// The others for the root.
    ForRoot,
    /// The root for all.
    Root,
}

/// One call on the time line.
#[derive(Debug, PartialEq)]
pub struct RecordedSpan {
    pub thread: u32,
    pub start_ns: u64,
    pub end_ns: u64,
    pub name: String,
    pub site: u64,
    pub bytes: u64,
    pub peer: Option<u32>,
    pub envelope: Option<RecordedEnvelope>,
}

/// What the messages of a call match by; the communicator by its key.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RecordedEnvelope {
    pub comm: u64,
    pub tag: i32,
    pub receive_tag: Option<i32>,
}

/// All records in a directory, by rank.
pub fn read_all(directory: &Path) -> Result<Vec<RankRecords>, String> {
    let fail = |error: std::io::Error| format!("{}: {error}", directory.display());
    let mut all = Vec::new();
    for entry in fs::read_dir(directory).map_err(fail)? {
        let path = entry.map_err(fail)?.path();
        // A file that is not whole has another name.
        if path.extension().is_some_and(|extension| extension == "mica-profile") {
            let text = fs::read(&path).map_err(fail)?;
            let text = String::from_utf8_lossy(&text);
            all.push(read(&text).map_err(|error| format!("{}: {error}", path.display()))?);
        }
    }
    Ok(of_one_job(all))
}

/// The ranks of the largest job, in order. A script may have run several, and ranks may have
/// started jobs of their own: each job's ranks replaced the files of those before it with as many
/// ranks.
fn of_one_job(mut all: Vec<RankRecords>) -> Vec<RankRecords> {
    let size = all.iter().map(|records| records.size).max().unwrap_or(0);
    all.retain(|records| records.size == size && records.rank < size);
    all.sort_by_key(|records| records.rank);
    all
}

/// The records in one file.
fn read(text: &str) -> Result<RankRecords, String> {
    let mut lines = text.lines().enumerate();
    if lines.next().map(|(_, line)| line) != Some("mica-profile\t2") {
        return Err("not a record of this version's profiler library".into());
    }
    let mut records = RankRecords::default();
    for (number, line) in lines {
        if line == "end" {
            records.resolve_stacks();
            return Ok(records);
        }
        let mut fields = Fields(line.split('\t'));
        records.take(&mut fields).ok_or_else(|| format!("line {}: {line:?}", number + 1))?;
    }
    Err("the end is missing".into())
}

/// The fields of a line, taken from the left.
struct Fields<'a>(std::str::Split<'a, char>);

impl Fields<'_> {
    fn text(&mut self) -> Option<String> {
        self.0.next().map(str::to_owned)
    }

    fn number<T: FromStr>(&mut self) -> Option<T> {
        self.0.next()?.parse().ok()
    }

    /// A rank, or `-`.
    fn rank(&mut self) -> Option<Option<u32>> {
        match self.0.next()? {
            "-" => Some(None),
            rank => rank.parse().ok().map(Some),
        }
    }
}

impl RankRecords {
    /// Reads a line. `None` if it cannot be read.
    fn take(&mut self, fields: &mut Fields<'_>) -> Option<()> {
        match fields.0.next()? {
            "rank" => {
                self.rank = fields.number()?;
                self.size = fields.number()?;
                self.pid = fields.number()?;
                self.host = fields.text()?;
                self.processor = fields.text()?;
                self.boot = fields.text()?;
            }
            "library" => self.library = fields.text()?,
            "time" => {
                self.start_ns = fields.number()?;
                self.app_ns = fields.number()?;
                self.mpi_ns = fields.number()?;
                self.finalized = fields.number::<u8>()? != 0;
            }
            "place" => {
                self.place = Some(ProfiledPlace {
                    cpu: fields.number()?,
                    core: fields.number()?,
                    cache: fields.number()?,
                    package: fields.number()?,
                });
            }
            "dropped" => {
                self.dropped_spans = fields.number()?;
                self.dropped_arrivals = fields.number()?;
            }
            kind => return self.take_entry(kind, fields),
        }
        Some(())
    }

    /// Makes a site of each stack.
    fn resolve_stacks(&mut self) {
        for (number, sites) in std::mem::take(&mut self.stacks) {
            let codes = sites.iter().filter_map(|site| match self.sites.get(site)? {
                RecordedSite::Code { object, offset, .. } => Some((object.clone(), *offset)),
                RecordedSite::Python { .. } => None,
            });
            let mut codes = codes.collect::<Vec<_>>().into_iter();
            if let Some((object, offset)) = codes.next() {
                let callers = codes.collect();
                self.sites.insert(number, RecordedSite::Code { object, offset, callers });
            }
        }
    }

    fn take_entry(&mut self, kind: &str, fields: &mut Fields<'_>) -> Option<()> {
        match kind {
            "code" => {
                let site = fields.number()?;
                let (offset, object) = (fields.number()?, fields.text()?);
                let code = RecordedSite::Code { object, offset, callers: Vec::new() };
                self.sites.insert(site, code);
            }
            "python" => {
                let site = fields.number()?;
                let (line, function, file) = (fields.number()?, fields.text()?, fields.text()?);
                let found = RecordedSite::Python { file, function, line };
                self.sites.insert(site, found);
            }
            "stack" => {
                let number = fields.number()?;
                let sites = fields.0.next()?.split(',').map(|n| n.parse().ok());
                self.stacks.insert(number, sites.collect::<Option<_>>()?);
            }
            "call" => self.calls.push(call(fields)?),
            "message" => self.messages.push(RecordedMessage {
                name: fields.text()?,
                peer: fields.rank()?,
                class: fields.number()?,
                messages: fields.number()?,
                bytes: fields.number()?,
            }),
            "block" => self.blocks.push(RecordedBlock {
                peer: fields.number()?,
                messages: fields.number()?,
                bytes: fields.number()?,
            }),
            "wait" => self.waits.push((fields.text()?, fields.number()?)),
            "arrival" => self.arrivals.push(arrival(fields)?),
            "span" => self.spans.push(RecordedSpan {
                thread: fields.number()?,
                start_ns: fields.number()?,
                end_ns: fields.number()?,
                name: fields.text()?,
                site: fields.number()?,
                bytes: fields.number()?,
                peer: fields.rank()?,
                envelope: envelope(fields)?,
            }),
            _ => return None,
        }
        Some(())
    }
}

fn call(fields: &mut Fields<'_>) -> Option<SiteCalls> {
    Some(SiteCalls {
        name: fields.text()?,
        site: fields.number()?,
        count: fields.number()?,
        time_ns: fields.number()?,
        min_ns: fields.number()?,
        max_ns: fields.number()?,
        sends: fields.number()?,
        bytes: fields.number()?,
        comm_size: fields.number()?,
        durations: fields.0.next()?.split(',').map(|n| n.parse().ok()).collect::<Option<_>>()?,
    })
}

/// Communicator, tag and the tag of what is received besides, or `-` where there is none.
fn envelope(fields: &mut Fields<'_>) -> Option<Option<RecordedEnvelope>> {
    let comm = match fields.0.next()? {
        "-" => return Some(None),
        key => key.parse().ok()?,
    };
    Some(Some(RecordedEnvelope {
        comm,
        tag: fields.0.next()?.parse().ok()?,
        receive_tag: match fields.0.next()? {
            "-" => None,
            tag => Some(tag.parse().ok()?),
        },
    }))
}

fn arrival(fields: &mut Fields<'_>) -> Option<RecordedArrival> {
    Some(RecordedArrival {
        comm: fields.number()?,
        size: fields.number()?,
        sequence: fields.number()?,
        name: fields.text()?,
        site: fields.number()?,
        ns: fields.number()?,
        left_ns: fields.number()?,
        root: fields.rank()?,
        kind: match fields.0.next()? {
            "all" => CollectiveWaiting::All,
            "for-root" => CollectiveWaiting::ForRoot,
            "root" => CollectiveWaiting::Root,
            _ => return None,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "mica-profile\t2\nrank\t1\t2\t77\ta\tb\tc\nlibrary\tMica 1\n\
        call\tMPI_Send\t5\t2\t30\t10\t20\t2\t16\t4\t0,0,0,1,1\ncode\t5\t99\t/x\n\
        message\tMPI_Send\t0\t4\t2\t16\ntime\t1\t2\t3\t1\nwait\tpeer\t70\ndropped\t0\t4\nend\n";

    #[test]
    fn reads_what_the_library_writes() {
        let records = read(TEXT).expect("a record");
        assert_eq!((records.rank, records.size, records.finalized), (1, 2, true));
        assert_eq!(records.calls[0].durations, [0, 0, 0, 1, 1]);
        assert_eq!(records.messages[0].peer, Some(0));
        assert_eq!(records.waits, [("peer".to_owned(), 70)]);
        let code = |callers| RecordedSite::Code { object: "/x".into(), offset: 99, callers };
        assert_eq!(records.sites[&5], code(Vec::new()));
        let stack = TEXT.replace("time\t1", "code\t6\t11\t/y\nstack\t7\t5,6\ntime\t1");
        let records = read(&stack).expect("a record");
        assert_eq!(records.sites[&7], code(vec![("/y".to_owned(), 11)]));
    }

    #[test]
    fn refuses_what_is_cut_off_or_broken() {
        for (text, word) in [
            (TEXT.replace("end\n", ""), "end"),
            (TEXT.replace("\t16\t4\t0", "\tx\t4\t0"), "line 4"),
            (TEXT.replace("message", "massage"), "line 6"),
            (TEXT.replace("profile\t2", "profile\t1"), "version"),
        ] {
            let error = read(&text).expect_err("refused");
            assert!(error.contains(word), "{error}");
        }
    }
}
