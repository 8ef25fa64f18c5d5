//! The lines that ranks and launchers left (`crates/profile-preload/src/facts.rs`,
//! `crates/launch/src/report/ended_ranks.rs`).
//!
//! A file comes from a process that may have been killed while it wrote, so a last line without its
//! end is left out. Any other line that cannot be read is an error, which names it.

use std::collections::BTreeMap;
use std::str::FromStr;

use mica_profile::ProfiledPlace;

/// How a rank says that it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OwnEnd {
    /// `MPI_Finalize`, or the end of its last session.
    Finalized,
    /// `MPI_Abort`.
    Aborted {
        /// The code that it gave.
        code: i32,
    },
    /// `exit`, or the return of its main function.
    Exited,
}

/// An object that was loaded at the start.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadedRange {
    pub start: u64,
    pub end: u64,
    pub base: u64,
    pub path: String,
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

impl RecordedSite {
    /// A return address alone.
    pub fn code(object: String, offset: u64) -> RecordedSite {
        RecordedSite::Code { object, offset, callers: Vec::new() }
    }
}

/// What is known of a rank besides its tables.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RankFacts {
    pub rank: u32,
    pub size: u32,
    pub pid: u32,
    pub host: String,
    pub processor: String,
    /// Names the running kernel: ranks with equal names share a clock.
    pub boot: String,
    /// Equal for the ranks of a job, on one host at least.
    pub job: String,
    pub start_ns: u64,
    /// By the clock of all hosts.
    pub started_unix_ns: u64,
    pub program: String,
    pub library: String,
    pub place: Option<ProfiledPlace>,
    /// Names of the calls, by number.
    pub calls: Vec<String>,
    pub objects: Vec<LoadedRange>,
    /// By the number that other lines use.
    pub sites: BTreeMap<u64, RecordedSite>,
    pub groups: BTreeMap<u64, Vec<u32>>,
    /// Names of files by number.
    pub files: BTreeMap<u64, String>,
    /// Nanoseconds by reason.
    pub waits: BTreeMap<String, u64>,
    /// Why there was no room for more records.
    pub stopped: Option<String>,
    /// The last end, and when.
    pub end: Option<(OwnEnd, u64)>,
}

/// What a launcher says of a rank's end.
#[derive(Debug, Clone, PartialEq)]
pub struct EndedRank {
    pub job: String,
    pub rank: u32,
    pub pid: u32,
    pub ns: u64,
    pub how: String,
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
}

/// The lines that have an end.
fn whole_lines(text: &str) -> impl Iterator<Item = &str> {
    text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n'))
}

/// The lines of a launcher; those that cannot be read are left out.
pub fn read_ended(text: &str) -> Vec<EndedRank> {
    let read = |line: &str| {
        let mut fields = Fields(line.split('\t'));
        Some(EndedRank {
            job: fields.text()?,
            rank: fields.number()?,
            pid: fields.number()?,
            ns: fields.number()?,
            how: fields.text()?,
        })
    };
    whole_lines(text).filter_map(read).collect()
}

impl RankFacts {
    /// Reads a file.
    ///
    /// # Errors
    /// If it is none of this version, or a line cannot be read.
    pub fn read(text: &str) -> Result<RankFacts, String> {
        let mut lines = whole_lines(text).enumerate();
        if lines.next().map(|(_, line)| line) != Some("mica-profile\t2") {
            return Err("not a record of this version's profiler library".into());
        }
        let mut facts = RankFacts::default();
        for (number, line) in lines {
            let mut fields = Fields(line.split('\t'));
            facts.take(&mut fields).ok_or_else(|| format!("line {}: {line:?}", number + 1))?;
        }
        match facts.size > facts.rank {
            true => Ok(facts),
            false => Err("it does not say which rank it is of".into()),
        }
    }

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
            "job" => self.job = fields.text()?,
            "start" => {
                self.start_ns = fields.number()?;
                self.started_unix_ns = fields.number()?;
            }
            "program" => self.program = fields.text()?,
            "library" => self.library = fields.text()?,
            "place" => {
                self.place = Some(ProfiledPlace {
                    cpu: fields.number()?,
                    core: fields.number()?,
                    cache: fields.number()?,
                    package: fields.number()?,
                });
            }
            "calls" => self.calls = fields.0.by_ref().map(str::to_owned).collect(),
            "resumed" => self.end = None,
            "stopped" => self.stopped = Some(fields.text()?),
            kind => return self.take_entry(kind, fields),
        }
        Some(())
    }

    /// Makes a site of a stack, whose addresses are sites that were read before.
    fn take_stack(&mut self, number: u64, sites: &[u64]) {
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

    fn take_entry(&mut self, kind: &str, fields: &mut Fields<'_>) -> Option<()> {
        match kind {
            "object" => self.objects.push(LoadedRange {
                start: fields.number()?,
                end: fields.number()?,
                base: fields.number()?,
                path: fields.text()?,
            }),
            "code" => {
                let site = fields.number()?;
                let (offset, object) = (fields.number()?, fields.text()?);
                self.sites.insert(site, RecordedSite::code(object, offset));
            }
            "python" => {
                let site = fields.number()?;
                let (line, function, file) = (fields.number()?, fields.text()?, fields.text()?);
                self.sites.insert(site, RecordedSite::Python { file, function, line });
            }
            "stack" => {
                let site = fields.number()?;
                let of = fields.0.next()?.split(',').map(|site| site.parse().ok());
                self.take_stack(site, &of.collect::<Option<Vec<u64>>>()?);
            }
            "group" => {
                let (number, ranks) = (fields.number()?, fields.text()?);
                let ranks = ranks.split(',').filter(|rank| !rank.is_empty());
                let ranks = ranks.map(|rank| rank.parse().ok()).collect::<Option<_>>()?;
                self.groups.insert(number, ranks);
            }
            "file" => {
                let (number, name) = (fields.number()?, fields.text()?);
                self.files.insert(number, name);
            }
            "wait" => {
                let (reason, ns): (String, u64) = (fields.text()?, fields.number()?);
                *self.waits.entry(reason).or_default() += ns;
            }
            "end" => {
                let (how, ns) = (fields.text()?, fields.number()?);
                let how = match how.as_str() {
                    "finalized" => OwnEnd::Finalized,
                    "aborted" => OwnEnd::Aborted { code: fields.number()? },
                    "exited" => OwnEnd::Exited,
                    _ => return None,
                };
                // What follows an MPI_Abort follows from it.
                self.end.get_or_insert((how, ns));
            }
            _ => return None,
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "mica-profile\t2\nrank\t1\t2\t77\ta\tb\tc\njob\tmica:5\nstart\t10\t20\n\
        program\t./x -n 1\nlibrary\tMica 1\ncalls\tMPI_A\tMPI_B\nobject\t100\t200\t90\t/x\n\
        code\t150\t60\t/x\ngroup\t3\t0,1\ngroup\t4\t\nwait\tpeer\t70\nend\tfinalized\t90\n";

    #[test]
    fn reads_what_the_library_writes() {
        let facts = RankFacts::read(TEXT).expect("a record");
        assert_eq!((facts.rank, facts.size, facts.start_ns), (1, 2, 10));
        assert_eq!(facts.end, Some((OwnEnd::Finalized, 90)));
        assert_eq!((&facts.groups[&3][..], facts.groups[&4].len()), (&[0, 1][..], 0));
        assert_eq!(facts.sites[&150], RecordedSite::code("/x".into(), 60));
        let files = RankFacts::read(&format!("{TEXT}file\t0\tout.h5\n")).expect("a record").files;
        assert_eq!(files[&0], "out.h5");
        let text = format!("{TEXT}code\t160\t70\t/y\nstack\t7\t150,160\n");
        let callers = vec![("/y".to_owned(), 70)];
        let stack = RecordedSite::Code { object: "/x".into(), offset: 60, callers };
        assert_eq!(RankFacts::read(&text).expect("a record").sites[&7], stack);
        // A session that begins after the end is a part of the run, with waits of its own.
        let text = format!("{TEXT}resumed\t95\nwait\tpeer\t5\n");
        let facts = RankFacts::read(&text).expect("a record");
        assert_eq!((facts.end, facts.waits["peer"]), (None, 75));
    }

    #[test]
    fn leaves_out_a_last_line_that_was_cut_off() {
        let cut = TEXT.len() - "lized\t90\n".len();
        let facts = RankFacts::read(&TEXT[..cut]).expect("a record");
        assert_eq!((facts.end, facts.waits["peer"]), (None, 70));
        assert_eq!(read_ended("j\t1\t7\t5\twas killed\nj\t2\t8").len(), 1);
    }

    #[test]
    fn refuses_what_is_broken() {
        for (text, word) in [
            (TEXT.replace("\t100\t200", "\tx\t200"), "line 8"),
            (TEXT.replace("group", "grape"), "line 10"),
            (TEXT.replace("profile\t2", "profile\t1"), "version"),
            (TEXT.replace("rank\t1\t2", "rank\t2\t2"), "which rank"),
        ] {
            let error = RankFacts::read(&text).expect_err("refused");
            assert!(error.contains(word), "{error}");
        }
    }
}
