//! What a collective really moves: for each rank, the steps that it took in a call, as the library
//! recorded them (`MICA_RECORD_TRANSFERS`), and nothing that was written down from its source.
//!
//! A rank does its steps in order. It publishes phases, waits until another rank (or all others)
//! has published a phase, and between them copies from or to a rank's memory. These are the
//! library's own stamps, so the steps are the true dependency graph of the call: a transfer starts
//! when the rank that makes it has done its earlier steps.
//!
//! Records ([`RecordedSchedule::from_records`]) become schedules, which are stored as text
//! ([`RecordedSchedule::parse`], `Display`); [`SHIPPED`] were recorded on 32 ranks by
//! `crates/links/schedules/record.sh`. What is not recorded: a rank's copies within its own
//! buffers, and collectives by messages, which the module `described` makes from the library's
//! descriptions. The tree of short operations follows the machine that they were recorded
//! on. [`model`](crate::model) runs schedules.
//!
//! Invariant of a schedule: it can run to its end ([`RecordedSchedule::check`]).

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use crate::data::PairBytes;

/// The schedules that are shipped: name for the command line, and text.
pub const SHIPPED: &[(&str, &str)] = &include!("../schedules/list.rs");

/// Ranks; bounds the tables made for a schedule.
pub(crate) const RANKS_MAX: usize = 4096;

/// A call of a collective, as all its ranks carried it out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecordedSchedule {
    /// The collective: `allreduce`.
    pub collective: String,
    /// Bytes of a rank's buffer.
    pub bytes: u64,
    /// How the library moved them: `cells`, `mapped` or `direct`.
    pub path: String,
    /// Where it was recorded.
    pub command: String,
    /// The steps of each rank.
    pub steps: Vec<Vec<RecordedStep>>,
}

/// One step of a rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordedStep {
    /// Announces that the rank has reached a phase.
    Publish(u32),
    /// Waits until a rank has published this phase or a later one.
    Wait(u32, u32),
    /// Waits until all other ranks have.
    WaitAll(u32),
    /// Reads bytes from a rank's memory.
    Load(u32, u64),
    /// Writes bytes to a rank's memory.
    Store(u32, u64),
}

/// A schedule or a record cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ScheduleError {
    /// A line is malformed.
    #[error("line {line}: {text:?}: {problem}")]
    Line {
        /// Its number, from 1.
        line: usize,
        /// The line.
        text: String,
        /// What is wrong.
        problem: String,
    },
    /// A record lacks the call.
    #[error(
        "the record of rank {rank} has {found} calls of {collective} on {ranks} ranks; \
        call {wanted} was asked for"
    )]
    Missing {
        /// Whose record.
        rank: usize,
        /// The collective.
        collective: String,
        /// Number of ranks.
        ranks: usize,
        /// Calls in the record.
        found: usize,
        /// The call that was asked for, from 0.
        wanted: usize,
    },
    /// Ranks wait for each other, or for what is never published.
    #[error("rank {rank} waits forever for rank {for_rank} to publish phase {phase}")]
    Deadlock {
        /// Who waits.
        rank: usize,
        /// For whom.
        for_rank: usize,
        /// For which phase.
        phase: u32,
    },
    /// A number is out of range.
    #[error("{0}")]
    Range(String),
    /// No such schedule is shipped.
    #[error(
        "no schedule is named {name:?}; shipped are {}; an algorithm of messages is named \
        COLLECTIVE/ALGORITHM/BYTES/RANKS", known.join(", ")
    )]
    Unknown {
        /// The name that was asked for.
        name: String,
        /// The names that exist.
        known: Vec<&'static str>,
    },
}

impl RecordedSchedule {
    /// The shipped schedule of this name, or that of the algorithm of messages that it names
    /// ([`RecordedSchedule::described_by`]).
    ///
    /// # Errors
    /// If there is none.
    pub fn shipped(name: &str) -> Result<RecordedSchedule, ScheduleError> {
        match SHIPPED.iter().find(|(known, _)| *known == name) {
            Some((_, text)) => RecordedSchedule::parse(text),
            None => RecordedSchedule::described_by(name).unwrap_or_else(|| {
                Err(ScheduleError::Unknown {
                    name: name.to_owned(),
                    known: SHIPPED.iter().map(|(name, _)| *name).collect(),
                })
            }),
        }
    }

    /// Number of ranks.
    pub fn ranks(&self) -> usize {
        self.steps.len()
    }

    /// Call number `occurrence` (from 0) of `collective` in the records of all ranks, by rank.
    ///
    /// # Errors
    /// If a line is malformed, a record lacks the call, or the calls do not fit together.
    pub fn from_records(
        records: &[String],
        collective: &str,
        occurrence: usize,
        command: &str,
    ) -> Result<RecordedSchedule, ScheduleError> {
        let mut schedule = RecordedSchedule {
            collective: collective.to_owned(),
            command: command.to_owned(),
            ..RecordedSchedule::default()
        };
        for (rank, record) in records.iter().enumerate() {
            let calls = recorded_calls(record, collective, records.len())?;
            let found = calls.len();
            let call = calls.into_iter().nth(occurrence);
            let call = call.ok_or_else(|| ScheduleError::Missing {
                rank,
                collective: collective.to_owned(),
                ranks: records.len(),
                found,
                wanted: occurrence,
            })?;
            schedule.bytes = schedule.bytes.max(call.bytes);
            schedule.path = call.path;
            schedule.steps.push(call.steps);
        }
        schedule.check()?;
        Ok(schedule)
    }

    /// The schedule that this text, made by `Display`, describes.
    ///
    /// # Errors
    /// If a line is malformed, or the schedule cannot run to its end.
    pub fn parse(text: &str) -> Result<RecordedSchedule, ScheduleError> {
        let mut schedule = RecordedSchedule::default();
        for (number, line) in text.lines().enumerate() {
            schedule.read_line(line).map_err(|problem| ScheduleError::Line {
                line: number + 1,
                text: line.to_owned(),
                problem,
            })?;
        }
        schedule.check()?;
        Ok(schedule)
    }

    fn read_line(&mut self, line: &str) -> Result<(), String> {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match word {
            "" | "#" => {}
            "collective" => self.collective = rest.to_owned(),
            "bytes" => self.bytes = number(rest)?,
            "path" => self.path = rest.to_owned(),
            "command" => self.command = rest.to_owned(),
            "rank" if number::<usize>(rest)? == self.steps.len() => self.steps.push(Vec::new()),
            "rank" => return Err(format!("expected rank {}", self.steps.len())),
            _ => {
                let step = read_step(word, rest)?;
                self.steps.last_mut().ok_or("a step before the first rank")?.push(step);
            }
        }
        Ok(())
    }

    /// Checks that all ranks exist and that the steps can run to their end in some order.
    ///
    /// # Errors
    /// The first rank that would wait forever, or a number out of range.
    pub fn check(&self) -> Result<(), ScheduleError> {
        let ranks = self.ranks();
        if !(1..=RANKS_MAX).contains(&ranks) {
            return Err(ScheduleError::Range(format!("{ranks} ranks; expected 1 to {RANKS_MAX}")));
        }
        for step in self.steps.iter().flatten() {
            if let RecordedStep::Wait(member, _)
            | RecordedStep::Load(member, _)
            | RecordedStep::Store(member, _) = step
                && *member as usize >= ranks
            {
                return Err(ScheduleError::Range(format!("rank {member} of {ranks}")));
            }
        }
        let mut next = vec![0; ranks];
        let mut reached = vec![0; ranks];
        loop {
            let mut waiting = None;
            let mut has_moved = false;
            for rank in 0..ranks {
                while let Some(step) = self.steps[rank].get(next[rank]) {
                    if let Some((for_rank, phase)) = blocked(rank, *step, &reached) {
                        waiting = Some((rank, for_rank, phase));
                        break;
                    }
                    if let RecordedStep::Publish(phase) = step {
                        reached[rank] = reached[rank].max(*phase);
                    }
                    next[rank] += 1;
                    has_moved = true;
                }
            }
            match waiting {
                None => return Ok(()),
                Some((rank, for_rank, phase)) if !has_moved => {
                    return Err(ScheduleError::Deadlock { rank, for_rank, phase });
                }
                Some(_) => {}
            }
        }
    }

    /// Bytes that a call moves between each pair of different ranks.
    pub fn pairs(&self) -> Vec<PairBytes> {
        let mut sums: BTreeMap<(u32, u32), u64> = BTreeMap::new();
        for (me, steps) in (0..).zip(&self.steps) {
            for step in steps {
                let (from, to, bytes) = match *step {
                    RecordedStep::Load(member, bytes) => (member, me, bytes),
                    RecordedStep::Store(member, bytes) => (me, member, bytes),
                    _ => continue,
                };
                if from != to {
                    *sums.entry((from, to)).or_default() += bytes;
                }
            }
        }
        sums.into_iter().map(|((from, to), bytes)| PairBytes { from, to, bytes }).collect()
    }
}

/// Whom the step waits for, and for which phase, if it cannot be done yet.
fn blocked(rank: usize, step: RecordedStep, reached: &[u32]) -> Option<(usize, u32)> {
    let late = |member: &usize, phase: u32| *member != rank && reached[*member] < phase;
    match step {
        RecordedStep::Wait(member, phase) => {
            late(&(member as usize), phase).then_some((member as usize, phase))
        }
        RecordedStep::WaitAll(phase) => {
            let member = (0..reached.len()).find(|member| late(member, phase));
            member.map(|member| (member, phase))
        }
        _ => None,
    }
}

impl fmt::Display for RecordedSchedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "# schedule of mica links, recorded by MICA_RECORD_TRANSFERS")?;
        writeln!(f, "collective {}", self.collective)?;
        writeln!(f, "bytes {}", self.bytes)?;
        writeln!(f, "path {}", self.path)?;
        writeln!(f, "command {}", self.command)?;
        for (rank, steps) in self.steps.iter().enumerate() {
            writeln!(f, "rank {rank}")?;
            for step in steps {
                match step {
                    RecordedStep::Publish(phase) => writeln!(f, "publish {phase}")?,
                    RecordedStep::Wait(member, phase) => writeln!(f, "wait {member} {phase}")?,
                    RecordedStep::WaitAll(phase) => writeln!(f, "wait all {phase}")?,
                    RecordedStep::Load(member, bytes) => writeln!(f, "load {member} {bytes}")?,
                    RecordedStep::Store(member, bytes) => writeln!(f, "store {member} {bytes}")?,
                }
            }
        }
        Ok(())
    }
}

fn number<T: FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("{text:?} is not a number in range"))
}

fn read_step(word: &str, rest: &str) -> Result<RecordedStep, String> {
    let two = || rest.split_once(' ').ok_or("expected two values".to_owned());
    Ok(match word {
        "publish" => RecordedStep::Publish(number(rest)?),
        "wait" => match two()? {
            ("all", phase) => RecordedStep::WaitAll(number(phase)?),
            (member, phase) => RecordedStep::Wait(number(member)?, number(phase)?),
        },
        "load" => two().and_then(|(a, b)| Ok(RecordedStep::Load(number(a)?, number(b)?)))?,
        "store" => two().and_then(|(a, b)| Ok(RecordedStep::Store(number(a)?, number(b)?)))?,
        _ => return Err("unknown step".to_owned()),
    })
}

/// One rank's part in a recorded call.
#[derive(Debug, Default)]
struct RecordedPart {
    bytes: u64,
    path: String,
    steps: Vec<RecordedStep>,
}

/// The finished calls of `MPI_<collective>` on `ranks` ranks in one rank's record, in order.
fn recorded_calls(
    record: &str,
    collective: &str,
    ranks: usize,
) -> Result<Vec<RecordedPart>, ScheduleError> {
    let mut calls: Vec<RecordedPart> = Vec::new();
    let mut running: BTreeMap<&str, RecordedPart> = BTreeMap::new();
    for (index, line) in record.lines().enumerate() {
        let mut read = || -> Result<(), String> {
            let (operation, rest) = line.split_once(' ').ok_or("no operation")?;
            let (size, _) = operation.split_once('.').ok_or("no number of ranks")?;
            let (word, rest) = rest.split_once(' ').ok_or("no step")?;
            if number::<usize>(size)? != ranks {
                return Ok(());
            }
            match word {
                "begin" => {
                    let mut words = rest.split(' ');
                    let name = words.next().and_then(|name| name.strip_prefix("MPI_"));
                    let bytes = words.nth(1).ok_or("expected function, member and bytes")?;
                    if name.is_some_and(|name| name.eq_ignore_ascii_case(collective)) {
                        let call =
                            RecordedPart { bytes: number(bytes)?, ..RecordedPart::default() };
                        running.insert(operation, call);
                    }
                }
                "end" => {
                    if let Some(mut call) = running.remove(operation) {
                        call.path = rest.to_owned();
                        calls.push(call);
                    }
                }
                _ => {
                    if let Some(call) = running.get_mut(operation) {
                        call.steps.push(read_step(word, rest)?);
                    }
                }
            }
            Ok(())
        };
        read().map_err(|problem| ScheduleError::Line {
            line: index + 1,
            text: line.to_owned(),
            problem,
        })?;
    }
    Ok(calls)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shipped_schedules_run_and_are_written_as_they_were_read() {
        assert!(!SHIPPED.is_empty());
        for (name, text) in SHIPPED {
            let schedule = RecordedSchedule::parse(text).unwrap_or_else(|e| panic!("{name}: {e}"));
            assert_eq!(schedule.ranks(), 32, "{name}");
            assert_eq!(schedule.to_string(), *text, "{name}");
            let moves = schedule.pairs().iter().map(|pair| pair.bytes).sum::<u64>();
            assert_eq!(moves > 0, schedule.collective != "barrier", "{name}");
        }
    }

    /// Every rank needs every other rank's operand: the lower bound for what allreduce moves.
    #[test]
    fn recorded_allreduce_moves_every_operand() {
        let schedule = RecordedSchedule::shipped("allreduce-16384").expect("shipped");
        let (ranks, bytes) = (32, 16384);
        for rank in 0..ranks {
            let into = schedule.pairs().into_iter().filter(|pair| pair.to == rank);
            let sum: u64 = into.map(|pair| pair.bytes).sum();
            assert!(sum >= bytes * 31 / 32, "rank {rank}: {sum} bytes");
        }
    }

    fn records(lines: [&str; 2]) -> Vec<String> {
        lines.map(str::to_owned).to_vec()
    }

    #[test]
    fn takes_a_call_out_of_interleaved_records() {
        let first = "2.1 begin MPI_Barrier 0 0\n3.1 begin MPI_Bcast 0 8\n2.1 publish 1\n\
            2.2 begin MPI_Bcast 0 16\n2.1 wait all 1\n2.1 end cells\n2.2 store 0 16\n\
            2.2 publish 1\n2.2 end cells\n3.1 end cells\n";
        let second = "2.2 begin MPI_Bcast 1 16\n2.2 wait 0 1\n2.2 load 0 16\n2.2 end cells\n";
        let records = records([first, second]);
        let schedule =
            RecordedSchedule::from_records(&records, "bcast", 0, "test").expect("a bcast");
        assert_eq!(schedule.bytes, 16);
        assert_eq!(schedule.steps[0], [RecordedStep::Store(0, 16), RecordedStep::Publish(1)]);
        assert_eq!(schedule.pairs(), [PairBytes { from: 0, to: 1, bytes: 16 }]);
        assert_eq!(RecordedSchedule::parse(&schedule.to_string()).expect("written"), schedule);
        let missing =
            RecordedSchedule::from_records(&records, "bcast", 1, "test").expect_err("one call");
        assert!(missing.to_string().contains("rank 0 has 1 calls"), "{missing}");
    }

    #[test]
    fn names_what_is_wrong_with_a_schedule() {
        let error = |text: &str| RecordedSchedule::parse(text).expect_err("bad").to_string();
        let forever = error("rank 0\nwait 1 2\nrank 1\npublish 1\n");
        assert!(forever.contains("rank 0 waits forever for rank 1 to publish phase 2"));
        assert!(error("rank 0\nload 1 5\n").contains("rank 1 of 1"));
        assert!(error("rank 1\n").contains("expected rank 0"));
        assert!(error("rank 0\njump 3\n").contains("line 2"));
        assert!(error("publish 3\n").contains("before the first rank"));
        assert!(error("").contains("0 ranks"));
    }
}
