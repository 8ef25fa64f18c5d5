//! Messages about the outcome of a job, and the exit status that follows.
//!
//! This file has the causes that end a job and the hang report; [`rank_end`] how one rank ended and
//! who is blamed. The tables at the end of a job are [`traffic`] and [`late`].

pub mod call_place;
pub mod cycles;
pub mod ended_ranks;
pub mod late;
pub mod rank_end;
pub mod traffic;

use std::fmt::{self, Write as _};
use std::io::Write as _;

use mica_node::process::Exit;
use mica_node::ranges::ranges;

use crate::report::cycles::cycles;
use crate::report::rank_end::{Cause, NodeReport, RankEnd, RankStage, signal_status};

/// Exit status when the launcher itself cannot do its work.
pub const INTERNAL: u8 = 1;
/// Exit status of a wrong command line.
pub const USAGE: u8 = 2;
/// Exit status of a job that ran out of time, as with timeout(1).
const TIMED_OUT: u8 = 124;

/// Writes to standard error. Its reader may have gone (`2>&1 | head`): the job goes on.
pub fn say(text: impl fmt::Display) {
    let _ = std::io::stderr().write_all(text.to_string().as_bytes());
}

/// A rank in words; `spawned` is the number of its job, if that was spawned.
pub fn rank_name(rank: u32, spawned: Option<u32>) -> String {
    match spawned {
        None => format!("rank {rank}"),
        Some(_) => format!("rank {rank} of {}", job_name(spawned)),
    }
}

/// A job in words.
pub fn job_name(spawned: Option<u32>) -> String {
    spawned.map_or("the job".to_owned(), |number| format!("spawned job {number}"))
}

/// A failed rank.
#[derive(Debug, Clone)]
pub struct RankFailure {
    pub rank: u32,
    /// Number of its job among the spawned ones, if it is one of these.
    pub spawned: Option<u32>,
    pub pid: u32,
    pub host: String,
    /// Its program, as typed.
    pub program: String,
    /// What happened.
    pub cause: Cause,
    /// How many other ranks will be ended.
    pub others: usize,
}

impl fmt::Display for RankFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RankFailure { rank, spawned, pid, host, program, cause, others } = self;
        let name = rank_name(*rank, *spawned);
        writeln!(f, "mpiexec: {name} (pid {pid} on {host}) {cause}.")?;
        writeln!(f, "mpiexec:   program: {program}")?;
        match others {
            0 => Ok(()),
            1 => writeln!(f, "mpiexec:   ending the other rank."),
            _ => writeln!(f, "mpiexec:   ending the {others} other ranks."),
        }
    }
}

/// The note about the first rank that left without `MPI_Finalize`, printed if the program is
/// checked.
pub fn departed_note(first: &RankFailure) -> String {
    let RankFailure { rank, spawned, pid, host, cause, .. } = first;
    let name = rank_name(*rank, *spawned);
    format!(
        "mpiexec: {name} (pid {pid} on {host}) {cause}; \
         MICA_CHECK=1 says so, since it does no harm as long as no other rank needs it.\n"
    )
}

/// Why the job was ended.
#[derive(Debug, Clone)]
pub enum Ending {
    /// A rank failed.
    Failed(RankFailure),
    /// The launcher was asked to stop by a signal.
    Signalled(i32),
    /// The job's time limit passed.
    TimedOut,
    /// A host was lost.
    HostLost,
    /// A rank of another job was lost that this one is connected with by MPI.
    PeerLost {
        /// The exit status that follows.
        status: u8,
    },
    /// Ranks could not be started.
    NotStarted {
        /// The exit status that follows.
        status: u8,
    },
}

impl Ending {
    /// The exit status of the job.
    pub fn status(&self) -> u8 {
        match self {
            Ending::Failed(failure) => failure.cause.status(),
            Ending::Signalled(number) => signal_status(*number),
            Ending::TimedOut => TIMED_OUT,
            Ending::HostLost => INTERNAL,
            Ending::NotStarted { status } | Ending::PeerLost { status } => *status,
        }
    }
}

/// The hang report: a headline, some lines for each rank that runs, and one for all ranks that have
/// ended in the same way.
pub fn hang_report(size: u32, report: &NodeReport) -> String {
    let running = report.lines.len();
    let mut text = format!("mpiexec: {running} of {size} ranks are running:\n");
    text.extend(report.lines.iter().map(|(_, line)| line.as_str()));
    let mut ends: Vec<&str> = report.ended.iter().map(|(_, end)| end.as_str()).collect();
    ends.sort_unstable();
    ends.dedup();
    for end in ends {
        let alike = report.ended.iter().filter(|(_, other)| other == end);
        let ranks: Vec<u32> = alike.map(|(rank, _)| *rank).collect();
        let who = match ranks[..] {
            [rank] => format!("rank {rank} has"),
            _ => format!("ranks {} have", ranges(ranks)),
        };
        text.push_str(&format!("mpiexec:   {who} ended: {end}\n"));
    }
    for cycle in cycles(&report.needs) {
        let _ = writeln!(text, "mpiexec:   cycle, in which each rank waits for the next: {cycle}");
    }
    text
}

/// How a rank ended, for the hang report's list of ended ranks.
pub fn end_text(exit: Exit, stage: RankStage) -> String {
    let how = match (exit, stage) {
        (_, RankStage::Aborted { code }) => Cause::Aborted { code }.to_string(),
        (Exit::Signal { number, core_dumped }, _) => {
            Cause::Killed { number, core_dumped }.to_string()
        }
        (Exit::Code(code), _) => Cause::Exited { code }.to_string(),
    };
    match stage {
        RankStage::NotInitialized => how + " without having called MPI_Init",
        RankStage::Running => how + " without having called MPI_Finalize",
        RankStage::Finalized => how + " after MPI_Finalize",
        RankStage::Aborted { .. } => how,
    }
}

/// Of the failures found at the same time, the one that is reported.
pub fn first_failure(ends: &[RankEnd]) -> Option<(u32, u32, Cause)> {
    let failures = ends.iter().filter_map(|end| Some((end.rank, end.pid, end.cause?)));
    failures.min_by_key(|(rank, _, cause)| (cause.order(), *rank))
}

/// The hang report's lines about a running rank. `waits_for` may have several lines.
pub fn hang_line(
    rank: u32,
    pid: u32,
    host: Option<&str>,
    stage: RankStage,
    waits_for: Option<String>,
) -> String {
    let place = host.map(|host| format!(" on {host}")).unwrap_or_default();
    let state = match (stage, waits_for) {
        (RankStage::NotInitialized, _) => "has not called MPI_Init".to_owned(),
        (RankStage::Finalized, _) => "has called MPI_Finalize".to_owned(),
        (RankStage::Aborted { code }, _) => format!("has called MPI_Abort with code {code}"),
        (RankStage::Running, Some(what)) => printable(&what),
        (RankStage::Running, None) => "is not waiting in MPI".to_owned(),
    };
    let state = state.replace('\n', "\nmpiexec:     ");
    format!("mpiexec:   rank {rank} (pid {pid}{place}): {state}\n")
}

/// The text of a rank without characters that could upset a terminal: the program chooses the names
/// of communicators.
fn printable(text: &str) -> String {
    let plain = |c: char| match c {
        '\n' => c,
        c if c.is_control() => '?',
        c => c,
    };
    text.chars().map(plain).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use mica_node::process::signal;

    fn cause(exit: Exit, stage: RankStage) -> Cause {
        Cause::of(exit, stage).unwrap()
    }

    #[test]
    fn ends_that_are_no_failure() {
        assert_eq!(Cause::of(Exit::Code(0), RankStage::NotInitialized), None);
        assert_eq!(Cause::of(Exit::Code(0), RankStage::Finalized), None);
    }

    #[test]
    fn statuses() {
        let killed = Exit::Signal { number: signal::SIGKILL, core_dumped: false };
        assert_eq!(cause(killed, RankStage::Running).status(), 137);
        assert_eq!(cause(Exit::Code(3), RankStage::Finalized).status(), 3);
        assert_eq!(cause(Exit::Code(0), RankStage::Running).status(), 1);
        let aborted = |code| cause(Exit::Code(0), RankStage::Aborted { code }).status();
        assert_eq!((aborted(0), aborted(-1), aborted(77), aborted(1000)), (1, 1, 77, 255));
        assert_eq!(Ending::Signalled(signal::SIGINT).status(), 130);
        assert_eq!(Ending::TimedOut.status(), 124);
    }

    #[test]
    fn a_kill_outranks_an_abort_and_both_outrank_an_exit() {
        let aborted = cause(Exit::Code(5), RankStage::Aborted { code: 5 });
        let killed = cause(Exit::Signal { number: 6, core_dumped: true }, RankStage::Running);
        let exited = cause(Exit::Code(1), RankStage::Running);
        assert!(killed.order() < aborted.order() && aborted.order() < exited.order());
    }

    #[test]
    fn the_block_names_everything() {
        let failure = RankFailure {
            rank: 3,
            spawned: None,
            pid: 4711,
            host: "node1".into(),
            program: "./solve -x".into(),
            cause: Cause::Killed { number: signal::SIGSEGV, core_dumped: true },
            others: 7,
        };
        let text = failure.to_string();
        assert_eq!(
            text,
            "mpiexec: rank 3 (pid 4711 on node1) was killed by signal 11 (SIGSEGV, invalid memory \
             access, core dumped).\nmpiexec:   program: ./solve -x\nmpiexec:   ending the 7 other \
             ranks.\n"
        );
        let text = RankFailure { spawned: Some(2), ..failure }.to_string();
        assert!(text.starts_with("mpiexec: rank 3 of spawned job 2 (pid 4711 on node1)"), "{text}");
    }

    #[test]
    fn the_hang_report_lists_who_runs_and_who_has_ended() {
        let end = |code| end_text(Exit::Code(code), RankStage::Finalized);
        let what = "waits in MPI_Waitall for 2 requests\na\u{1b}[31m\nb";
        let report = NodeReport {
            lines: vec![(3, hang_line(3, 77, None, RankStage::Running, Some(what.into())))],
            ended: vec![
                (0, end(0)),
                (1, end(0)),
                (4, end_text(Exit::Code(0), RankStage::NotInitialized)),
                (2, end(0)),
            ],
            needs: vec![(3, vec![5]), (5, vec![3, 0])],
        };
        assert_eq!(
            hang_report(5, &report),
            "mpiexec: 1 of 5 ranks are running:\n\
             mpiexec:   rank 3 (pid 77): waits in MPI_Waitall for 2 requests\n\
             mpiexec:     a?[31m\n\
             mpiexec:     b\n\
             mpiexec:   ranks 0-2 have ended: exited with code 0 after MPI_Finalize\n\
             mpiexec:   rank 4 has ended: exited with code 0 without having called MPI_Init\n\
             mpiexec:   cycle, in which each rank waits for the next: 3 -> 5 -> 3\n"
        );
    }

    #[test]
    fn shell_statuses_are_explained() {
        let text = Cause::Exited { code: 137 }.to_string();
        assert!(text.contains("SIGKILL"), "{text}");
        assert_eq!(Cause::Exited { code: 3 }.to_string(), "exited with code 3");
    }
}
