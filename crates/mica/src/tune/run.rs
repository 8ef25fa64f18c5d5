//! Runs `calibrate` under `mpiexec` and reads what it says, and whether the messages went the way that is measured.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use mica_node::tunables;
use serde::Deserialize;

use super::fit::Point;
use super::plan::{Pair, Sample, Series};

/// The installation whose programs are run.
#[derive(Debug)]
pub struct Installation {
    mpiexec: PathBuf,
    calibrate: PathBuf,
}

/// A message could not be measured.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The installation lacks a program.
    #[error(
        "{0} is not there: mica tune needs an installed Mica (sh scripts/install.sh PREFIX, or --prefix)"
    )]
    Missing(PathBuf),
    /// A program does not start.
    #[error("{program}: {reason}")]
    Start {
        /// The program.
        program: PathBuf,
        /// What the system says.
        reason: std::io::Error,
    },
    /// The job failed.
    #[error("calibrate failed ({status}): {stderr}")]
    Failed {
        /// As `mpiexec` ended.
        status: std::process::ExitStatus,
        /// What it said.
        stderr: String,
    },
    /// Its output is not what it should be.
    #[error("calibrate printed {line:?}: {reason}")]
    Output {
        /// The line.
        line: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The messages went another way.
    #[error("not available: the messages went by {0}")]
    OtherWay(String),
}

/// What `calibrate` prints.
#[derive(Deserialize)]
struct Line {
    bytes: u64,
    block: u64,
    value: f64,
    low: f64,
    high: f64,
}

impl Installation {
    /// The one below `prefix`.
    pub fn below(prefix: &Path) -> Result<Installation, RunError> {
        let program = |path: &str| {
            let path = prefix.join(path);
            match path.is_file() {
                true => Ok(path),
                false => Err(RunError::Missing(path)),
            }
        };
        Ok(Installation {
            mpiexec: program("bin/mpiexec")?,
            calibrate: program("libexec/mica/calibrate")?,
        })
    }

    /// Measures one message of a series between a pair, which takes some `seconds`. A job of its own, so that its counters
    /// tell of this message alone.
    pub fn run(
        &self,
        pair: Pair,
        series: &Series,
        sample: &Sample,
        seconds: f64,
    ) -> Result<Point, RunError> {
        let mut command = Command::new(&self.mpiexec);
        command
            .args(["-n", "2", "--bind-to", "core", "--map-by", pair.map_by])
            .args(["--timeout", "30"])
            .arg(&self.calibrate)
            .args([seconds.to_string(), sample.argument()])
            .stdin(Stdio::null());
        // What the user has set is not to be measured.
        for tunable in tunables::all() {
            command.env_remove(tunable.env);
        }
        command
            .env("MICA_TUNING", "off")
            .env("MICA_STATS", "table")
            .envs(series.environment.iter().copied());
        let output = command.output().map_err(|reason| RunError::Start {
            program: self.mpiexec.clone(),
            reason,
        })?;
        let stderr = String::from_utf8_lossy(&output.stderr);
        if !output.status.success() {
            return Err(RunError::Failed {
                status: output.status,
                stderr: stderr.trim().to_owned(),
            });
        }
        match other_way(&stderr, series.counted_as) {
            Some(other) => Err(RunError::OtherWay(other)),
            None => point(&String::from_utf8_lossy(&output.stdout), sample),
        }
    }
}

/// The point in `calibrate`'s output about one message.
fn point(output: &str, sample: &Sample) -> Result<Point, RunError> {
    let wrong = |reason: String| RunError::Output {
        line: output.trim().to_owned(),
        reason,
    };
    let read: Line = serde_json::from_str(output).map_err(|error| wrong(error.to_string()))?;
    if (sample.len, sample.block) != (read.bytes, read.block) {
        return Err(wrong("another message than the one asked for".to_owned()));
    }
    Ok(Point {
        len: read.bytes,
        ns: read.value * 1000.0,
        spread: (read.high - read.low) / read.value,
    })
}

/// The ways that most bytes went by according to the table of `MICA_STATS`, if those `wanted` have less than nine tenths of
/// them: what is measured is what was asked for, or it is nothing.
fn other_way(table: &str, wanted: &[&str]) -> Option<String> {
    let rows: Vec<(&str, f64)> = table
        .lines()
        .filter_map(|line| {
            let mut words = line.strip_prefix("mpiexec:")?.split_whitespace();
            let name = words.next()?;
            let _messages: u64 = words.next()?.parse().ok()?;
            Some((name, words.next()?.parse().ok()?))
        })
        .collect();
    let all: f64 = rows.iter().map(|(_, bytes)| bytes).sum();
    let ours = rows.iter().filter(|(name, _)| wanted.contains(name));
    let ours: f64 = ours.map(|(_, bytes)| bytes).sum();
    if all > 0.0 && ours >= 0.9 * all {
        return None;
    }
    let others = rows.iter().filter(|(_, bytes)| *bytes > 0.1 * all);
    let names: Vec<&str> = others.map(|(name, _)| *name).collect();
    match names.is_empty() {
        true => Some("a way that was not counted".to_owned()),
        false => Some(names.join(" and ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "mpiexec: what 2 ranks sent\n\
        mpiexec:   channel     messages           bytes   share  way\n\
        mpiexec:   inline           317             115    0.0%  shared memory, in the ring's slot\n\
        mpiexec:   cells             26          900000   90.0%  shared memory, through cells\n\
        mpiexec:   direct             2           99885    9.9%  single copy by the kernel\n";

    #[test]
    fn only_what_went_the_way_asked_for_counts() {
        assert_eq!(other_way(TABLE, &["cells", "streamed"]), None);
        assert_eq!(other_way(TABLE, &["mapped"]), Some("cells".to_owned()));
        assert_eq!(other_way(TABLE, &["direct"]), Some("cells".to_owned()));
        assert!(other_way("nothing", &["cells"]).is_some());
    }

    #[test]
    fn a_line_is_the_sample_that_was_asked_for() {
        let line = "{\"measure\": \"calibrate\", \"bytes\": 64, \"block\": 16, \"value\": 2.0, \"low\": 1.9, \
                    \"high\": 2.2, \"min\": 1, \"max\": 3}\n";
        let sample = Sample { len: 64, block: 16 };
        let found = point(line, &sample).unwrap();
        assert_eq!((found.len, found.ns), (64, 2000.0));
        assert!((found.spread - 0.15).abs() < 1e-9);
        let twice = format!("{line}{line}");
        for (output, sample, word) in [
            (line, Sample { len: 64, block: 0 }, "another message"),
            ("hello", sample, "hello"),
            ("", sample, "EOF"),
            (&twice, sample, "trailing"),
        ] {
            let error = point(output, &sample).unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
    }

    #[test]
    fn an_installation_without_its_programs_is_named() {
        let error = Installation::below(Path::new("/no/such"))
            .unwrap_err()
            .to_string();
        assert!(error.contains("/no/such/bin/mpiexec"), "{error}");
    }
}
