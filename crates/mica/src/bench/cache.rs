//! Cache misses per message (chai 3.3.2, 6.2.3).
//!
//! Where the processor's counters are available, `perf stat` counts around the launcher. Elsewhere
//! every rank runs under valgrind's cachegrind, which simulates two levels ([`CACHES`]) for the
//! instructions of the process: it counts a library's own copies, but not what the kernel does for
//! it (a single copy by the kernel costs nothing). Both ways include start-up and exit, so a
//! program runs with few and with many messages, and the difference is the cost of the messages in
//! between.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use serde::Serialize;

use super::build::Builder;
use super::contestant::{Contestant, Cores};
use super::execute::{Executor, words};
use super::suite::CacheWalk;

/// The caches that cachegrind simulates on every machine, so that figures are comparable: 48 KiB
/// and 1 MiB, a current core.
const CACHES: [&str; 2] = ["--D1=49152,12,64", "--LL=1048576,16,64"];
/// Cachegrind is about fifty times slower than the processor.
const LIMIT: Duration = Duration::from_secs(600);

/// The misses of one contestant's run of a program.
#[derive(Debug, Clone, Serialize)]
pub struct Misses {
    pub name: String,
    pub contestant: String,
    /// Data misses per message, of both ranks.
    pub first_level: f64,
    pub last_level: f64,
    pub messages: u64,
    pub by: String,
}

/// The tool that counts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum MissCounter {
    /// Includes the kernel's misses if `kernel`; some systems permit only the process's own.
    Perf {
        kernel: bool,
    },
    Cachegrind,
}

/// Misses of the first and the last level.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct LevelMisses(f64, f64);

impl MissCounter {
    /// The best counter that this machine has.
    pub fn find(executor: &mut Executor) -> Result<MissCounter, String> {
        for kernel in [true, false] {
            let counter = MissCounter::Perf { kernel };
            if counter.count(executor, &[words(&["true"])], &BTreeMap::new()).is_ok() {
                return Ok(counter);
            }
        }
        let command = words(&["valgrind", "--version"]);
        let done = executor.succeed(&command, &BTreeMap::new(), LIMIT, 0);
        done.map(|_| MissCounter::Cachegrind).map_err(|_| {
            "cache misses need processor counters (perf) or valgrind; there is neither".to_owned()
        })
    }

    fn name(self) -> String {
        match self {
            MissCounter::Perf { kernel: true } => "perf, with the kernel".to_owned(),
            MissCounter::Perf { kernel: false } => "perf, without the kernel".to_owned(),
            MissCounter::Cachegrind => "cachegrind, without the kernel".to_owned(),
        }
    }

    /// Counts for one contestant.
    pub fn measure(
        self,
        executor: &mut Executor,
        builder: &Builder<'_>,
        contestant: &Contestant,
        walk: &CacheWalk,
        cores: usize,
    ) -> Result<Misses, String> {
        let binary = builder.compile(executor, Some(contestant), &walk.source, &[])?;
        let mut environment = contestant.environment();
        environment.extend(contestant.settings.clone());
        let mut run = |messages: u64| {
            let mut program = vec![binary.display().to_string()];
            let arguments = walk.args.iter();
            program.extend(arguments.map(|word| word.replace("{messages}", &messages.to_string())));
            let launcher = contestant.launch(walk.ranks, &Cores::Any(cores), Vec::new()).command;
            self.count(executor, &[launcher, program], &environment)
        };
        let (few, many) = (run(walk.few)?, run(walk.many)?);
        // `few` and `many` are messages of each rank.
        let messages = (walk.many - walk.few) * u64::from(walk.ranks);
        let each = |few: f64, many: f64| (many - few) / messages as f64;
        Ok(Misses {
            name: walk.name.clone(),
            contestant: contestant.name.clone(),
            first_level: each(few.0, many.0),
            last_level: each(few.1, many.1),
            messages,
            by: self.name(),
        })
    }

    /// The misses of a command. `parts` are the launcher and the program, or a single command. The
    /// counter goes before the launcher (perf) or between it and the program (cachegrind).
    fn count(
        self,
        executor: &mut Executor,
        parts: &[Vec<String>],
        env: &BTreeMap<String, String>,
    ) -> Result<LevelMisses, String> {
        let folder = executor.scratch().join("misses");
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let out = folder.join("count").display().to_string();
        let mut command = Vec::new();
        match self {
            MissCounter::Perf { kernel } => {
                let level = if kernel { "" } else { ":u" };
                let events = format!("L1-dcache-load-misses{level},cache-misses{level}");
                command.extend(words(&["perf", "stat", "-x,", "-e", &events, "-o", &out, "--"]));
                command.extend(parts.concat());
            }
            MissCounter::Cachegrind => {
                let file = format!("--cachegrind-out-file={out}.%p");
                let valgrind = ["valgrind", "-q", "--tool=cachegrind", "--cache-sim=yes", &file];
                let (program, launcher) = parts.split_last().expect("there is a program");
                command.extend(launcher.concat());
                command.extend(words(&valgrind));
                command.extend(words(&CACHES));
                command.extend(program.iter().cloned());
            }
        }
        executor.succeed(&command, env, LIMIT, 8)?;
        let mut sum = LevelMisses::default();
        let mut files = 0;
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let text = fs::read_to_string(entry.path()).unwrap_or_default();
            let counts = match self {
                MissCounter::Perf { .. } => from_perf(&text)?,
                MissCounter::Cachegrind => from_cachegrind(&text)?,
            };
            sum = LevelMisses(sum.0 + counts.0, sum.1 + counts.1);
            files += 1;
        }
        match files {
            0 => Err("the counter wrote nothing".to_owned()),
            _ => Ok(sum),
        }
    }
}

/// `perf stat -x,`: lines `value,unit,event,...`; an unavailable counter has text instead of a
/// value.
fn from_perf(text: &str) -> Result<LevelMisses, String> {
    let value = |event: &str| {
        let mut lines = text.lines().map(|line| line.split(',').collect::<Vec<_>>());
        let line = lines.find(|fields| fields.get(2).is_some_and(|name| name.starts_with(event)));
        let line = line.ok_or_else(|| format!("perf says nothing of {event}"))?;
        line[0].parse::<f64>().map_err(|_| format!("perf says '{}' of {event}", line[0]))
    };
    Ok(LevelMisses(value("L1-dcache-load-misses")?, value("cache-misses")?))
}

/// The `summary:` line, in the order that `events:` gives.
fn from_cachegrind(text: &str) -> Result<LevelMisses, String> {
    let line = |label: &str| {
        let mut lines = text.lines().filter_map(|line| line.strip_prefix(label));
        let line = lines.next().ok_or_else(|| format!("cachegrind's file has no '{label}'"))?;
        Ok::<Vec<&str>, String>(line.split_whitespace().collect())
    };
    let (events, values) = (line("events:")?, line("summary:")?);
    let value = |event: &str| {
        let place = events.iter().position(|name| *name == event);
        let value = place.and_then(|place| values.get(place)?.parse::<f64>().ok());
        value.ok_or_else(|| format!("cachegrind's file has no {event}"))
    };
    let first = value("D1mr")? + value("D1mw")?;
    Ok(LevelMisses(first, value("DLmr")? + value("DLmw")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_read() {
        let file = "desc: I1 cache: 32768 B\nevents: Ir I1mr ILmr Dr D1mr DLmr Dw D1mw DLmw\nfn=x\n\
            1 2 3\n\
            summary: 100 9 9 50 7 3 40 5 2\n";
        assert_eq!(from_cachegrind(file).unwrap(), LevelMisses(12.0, 5.0));
        assert!(from_cachegrind("events: Ir\n").unwrap_err().contains("summary:"));
        let perf = "# \
            started\n\n1200,,L1-dcache-load-misses:u,99,100.00,,\n34,,cache-misses:u,99,100.00,,\n";
        assert_eq!(from_perf(perf).unwrap(), LevelMisses(1200.0, 34.0));
        let none = "<not supported>,,L1-dcache-load-misses,0,100.00,,\n";
        assert!(from_perf(none).unwrap_err().contains("not supported"));
    }
}
