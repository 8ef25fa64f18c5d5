//! How profiled ranks ended, for `mica profile`: what a rank that was killed cannot say itself.
//!
//! The ranks' environment names the directory of the profiler's records
//! (`mica_profile::rank_tables`); each process that watches ranks appends a line for each to a file
//! there, named `HOST-PID.ended`. The fields are separated by tabs: the job's name, rank, process,
//! when its end was seen (`CLOCK_MONOTONIC`), and how it ended, in words.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use mica_node::process::Exit;
use mica_node::segment::monotonic_ns;

use crate::report::end_text;
use crate::report::rank_end::RankStage;
use crate::signals::signal_name;

/// How the process of a rank ended.
#[derive(Debug, Clone, Copy)]
pub struct ProcessEnd {
    pub rank: u32,
    pub pid: u32,
    /// How the process ended.
    pub exit: Exit,
    /// How far it was with MPI.
    pub stage: RankStage,
    /// Whether this launcher had asked it to end.
    pub asked: bool,
}

/// Appends the line of a rank to the file of `host` in this directory. Where it cannot be written
/// the profile lacks it: the job does not depend on that.
pub fn record(directory: &OsString, host: &str, job: &str, end: ProcessEnd) {
    let name = format!("{}-{}.ended", host.replace('/', "?"), std::process::id());
    let path = Path::new(directory).join(name);
    let file = OpenOptions::new().append(true).create(true).mode(0o600).open(path);
    let _ = file.and_then(|mut file| file.write_all(line(job, monotonic_ns(), end).as_bytes()));
}

fn line(job: &str, now: u64, end: ProcessEnd) -> String {
    let ProcessEnd { rank, pid, exit, stage, asked } = end;
    let how = match exit {
        Exit::Signal { number, .. } if asked => {
            format!("was ended by mpiexec ({})", signal_name(number))
        }
        _ => end_text(exit, stage),
    };
    format!("{}\t{rank}\t{pid}\t{now}\t{how}\n", job.replace(['\t', '\n'], "?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_how_a_rank_ended_and_who_ended_it() {
        let of = |exit, stage, asked| {
            line("a\tb", 5, ProcessEnd { rank: 1, pid: 7, exit, stage, asked })
        };
        let killed = Exit::Signal { number: 9, core_dumped: false };
        assert_eq!(
            of(killed, RankStage::Running, false),
            "a?b\t1\t7\t5\twas killed by signal 9 (SIGKILL) without having called MPI_Finalize\n"
        );
        assert_eq!(
            of(killed, RankStage::Running, true),
            "a?b\t1\t7\t5\twas ended by mpiexec (SIGKILL)\n"
        );
        let aborted = of(killed, RankStage::Aborted { code: 3 }, false);
        assert!(aborted.ends_with("\tcalled MPI_Abort with code 3\n"), "{aborted}");
    }
}
