//! The test list: one line for each test, in the style of MPICH's.
//!
//! ```text
//! program ranks=N,N,... [cores=N] [timeout=SECONDS] [fail=WORD,WORD,...] [nocma=no] [basic=no]
//! [nodes=no] [hosts=yes] [styles=STYLE,...] [KEY=VALUE ...] [-- ARGS ...]
//! ```

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::{FortranStyle, Job, Outcome, Traffic, WATCHDOG, without_table};

/// One line of the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The program's name in `tests/c` or `tests/fortran`.
    pub program: String,
    /// The program is run once for each of these numbers of ranks.
    pub ranks: Vec<u32>,
    /// Cores that a run keeps busy ([`Job::cores`]).
    pub cores: usize,
    /// The watchdog's limit for a run.
    pub timeout: Duration,
    /// If set, the run must fail and its output must contain this word, or all of these words
    /// (comma-separated).
    pub fail: Option<String>,
    /// Run again with process_vm_readv and process_vm_writev refused?
    pub nocma: bool,
    /// Run again under the basic design of the shared-memory channel?
    pub basic: bool,
    /// Run again on two virtual nodes?
    pub nodes: bool,
    /// Run again on two hosts?
    pub hosts: bool,
    /// Run again built for MPICH's ABI?
    pub mpich: bool,
    /// The styles in which a program in Fortran is compiled.
    pub styles: Vec<FortranStyle>,
    /// Variables in the environment.
    pub env: Vec<(String, String)>,
    /// The program's arguments.
    pub args: Vec<String>,
}

/// Reads a test list.
///
/// # Errors
/// Returns the line that is wrong, and why.
pub fn parse_list(text: &str) -> Result<Vec<Entry>, String> {
    let mut entries = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        entries.push(parse_line(line).map_err(|why| format!("line {}: {why}", number + 1))?);
    }
    Ok(entries)
}

fn parse_line(line: &str) -> Result<Entry, String> {
    let mut words = line.split_whitespace();
    let program = words.next().ok_or("no program")?.to_owned();
    let mut entry = Entry {
        program,
        ranks: Vec::new(),
        cores: 1,
        timeout: WATCHDOG,
        fail: None,
        nocma: true,
        basic: true,
        nodes: true,
        hosts: false,
        mpich: true,
        styles: FortranStyle::ALL.to_vec(),
        env: Vec::new(),
        args: Vec::new(),
    };
    while let Some(word) = words.next() {
        if word == "--" {
            entry.args = words.map(str::to_owned).collect();
            break;
        }
        let (key, value) =
            word.split_once('=').ok_or_else(|| format!("'{word}' is not KEY=VALUE"))?;
        let number = |v: &str| v.parse::<u32>().map_err(|e| format!("{key}={value}: {e}"));
        match key {
            "ranks" => entry.ranks = value.split(',').map(number).collect::<Result<_, _>>()?,
            "cores" => entry.cores = number(value)? as usize,
            "timeout" => entry.timeout = Duration::from_secs(number(value)?.into()),
            "styles" => {
                entry.styles = value.split(',').map(FortranStyle::of).collect::<Result<_, _>>()?;
            }
            "fail" => entry.fail = Some(value.to_owned()),
            "nocma" if value == "no" => entry.nocma = false,
            "basic" if value == "no" => entry.basic = false,
            "nodes" if value == "no" => entry.nodes = false,
            "mpich" if value == "no" => entry.mpich = false,
            "hosts" if value == "yes" => entry.hosts = true,
            "nocma" | "basic" | "nodes" | "mpich" => {
                return Err(format!("{key}={value}: only 'no' has a meaning"));
            }
            "hosts" => return Err(format!("hosts={value}: only 'yes' has a meaning")),
            _ if key.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_') => {
                entry.env.push((key.to_owned(), value.to_owned()));
            }
            _ => return Err(format!("unknown key '{key}'")),
        }
    }
    if entry.ranks.is_empty() || entry.ranks.contains(&0) {
        return Err("ranks= needs numbers from 1".to_owned());
    }
    Ok(entry)
}

/// The result of a run of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The run did what it should.
    Passed,
    /// The run gave a reason why it tested nothing.
    Skipped(String),
    /// The full report.
    Failed(String),
}

/// A run of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryRun {
    /// What became of it.
    pub verdict: Verdict,
    /// What it sent, if it was asked for the tables and ended well.
    pub traffic: Option<Traffic>,
    /// From its start to its end.
    pub wall: Duration,
    /// The processor time of all its processes.
    pub core: Duration,
}

impl Entry {
    /// Whether its variables only force rendezvous for shorter messages, whatever the channel.
    pub fn forces_requests(&self) -> bool {
        let [(eager, _), rest @ ..] = self.env.as_slice() else {
            return false;
        };
        eager == "MICA_EAGER_MAX" && rest.iter().all(|(name, _)| name.starts_with("MICA_DIRECT_"))
    }

    /// Runs it on `ranks` ranks, as built in `program`; `wrapper` is put before the program on
    /// mpiexec's command line.
    pub fn run(
        &self,
        program: &Path,
        mpiexec: Job,
        ranks: u32,
        wrapper: Option<&PathBuf>,
    ) -> EntryRun {
        let mut job = mpiexec
            .args(["-n", &ranks.to_string()])
            .args(wrapper)
            .args([program])
            .args(&self.args)
            .cores(self.cores)
            .limit(self.timeout);
        for (key, value) in &self.env {
            job = job.env(key, value);
        }
        let outcome = job.run();
        let verdict = self.judge(&outcome);
        let traffic = Traffic::read(&outcome.stderr);
        EntryRun { verdict, traffic, wall: outcome.wall, core: outcome.core }
    }

    fn judge(&self, outcome: &Outcome) -> Verdict {
        let ended_well = !outcome.hung() && outcome.survivors.is_empty();
        if let Some(word) = &self.fail {
            let said = word.split(',').all(|word| outcome.stderr.contains(word));
            if ended_well && outcome.code() != 0 && said && !outcome.stdout.contains("No Errors") {
                return Verdict::Passed;
            }
            return Verdict::Failed(format!("must fail and say '{word}':\n{}", outcome.report()));
        }
        // The library must be silent: any output on stderr is a failure as well.
        if ended_well && outcome.code() == 0 && without_table(&outcome.stderr).is_empty() {
            match outcome.stdout.trim_end() {
                "No Errors" => return Verdict::Passed,
                line if line.starts_with("SKIP: ") && !line.contains('\n') => {
                    return Verdict::Skipped(line["SKIP: ".len()..].to_owned());
                }
                _ => {}
            }
        }
        Verdict::Failed(outcome.report())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_with_everything() {
        let text = "# comment\n\nprog ranks=1,8 cores=2 timeout=5 MICA_DIRECT=off nocma=no \
                    basic=no -- 3 x=y\n";
        let list = parse_list(text).unwrap();
        assert_eq!(list.len(), 1);
        assert_eq!(list[0].program, "prog");
        assert_eq!(list[0].ranks, [1, 8]);
        assert_eq!(list[0].cores, 2);
        assert_eq!(list[0].timeout, Duration::from_secs(5));
        assert_eq!(list[0].env, [("MICA_DIRECT".to_owned(), "off".to_owned())]);
        assert_eq!(list[0].args, ["3", "x=y"]);
        assert!(!list[0].nocma && !list[0].basic);
    }

    #[test]
    fn mistakes_name_their_line() {
        for (text, why) in [
            ("\nprog", "line 2: ranks= needs numbers"),
            ("prog ranks=0", "line 1: ranks= needs numbers"),
            ("prog ranks=x", "line 1: ranks=x"),
            ("prog ranks=1 bogus=2", "line 1: unknown key 'bogus'"),
            ("prog ranks=1 basic=1", "line 1: basic=1: only 'no' has a meaning"),
            ("prog ranks=1 hosts=no", "line 1: hosts=no: only 'yes' has a meaning"),
            ("prog ranks=1 styles=f08,f77", "line 1: 'f77' is no style"),
            ("prog ranks=1 word", "line 1: 'word' is not KEY=VALUE"),
        ] {
            let message = parse_list(text).unwrap_err();
            assert!(message.starts_with(why), "{message}");
        }
    }
}
