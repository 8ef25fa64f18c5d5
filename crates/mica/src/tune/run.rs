//! Runs `calibrate` under `mpiexec` and reads what it says, and whether the messages went the way that is measured.

use std::io::{BufRead, BufReader, Read};
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

/// A series could not be measured.
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
    #[error("not available here: the messages went by {0}")]
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

    /// Measures `samples` of a series between a pair, `seconds` each; calls `tick` after each. Points in the order of the
    /// samples.
    pub fn run(
        &self,
        pair: Pair,
        series: &Series,
        samples: &[Sample],
        seconds: f64,
        mut tick: impl FnMut(),
    ) -> Result<Vec<Point>, RunError> {
        let mut command = Command::new(&self.mpiexec);
        command
            .args(["-n", "2", "--bind-to", "core", "--map-by", pair.map_by])
            .args(["--timeout", "60"])
            .arg(&self.calibrate)
            .arg(seconds.to_string())
            .args(samples.iter().map(Sample::argument))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        // What the user has set is not to be measured.
        for tunable in tunables::all() {
            command.env_remove(tunable.env);
        }
        command
            .env("MICA_TUNING", "off")
            .env("MICA_STATS", "table")
            .envs(series.environment.iter().copied());
        let failed = |reason| RunError::Start {
            program: self.mpiexec.clone(),
            reason,
        };
        let mut job = command.spawn().map_err(failed)?;
        let mut errors = job.stderr.take().expect("stderr is piped");
        let errors = std::thread::spawn(move || {
            let mut text = Vec::new();
            let _ = errors.read_to_end(&mut text);
            String::from_utf8_lossy(&text).into_owned()
        });
        let mut lines = Vec::new();
        for line in BufReader::new(job.stdout.take().expect("stdout is piped")).lines() {
            lines.push(line.map_err(failed)?);
            tick();
        }
        let status = job.wait().map_err(failed)?;
        let stderr = errors.join().unwrap_or_default();
        if !status.success() {
            let stderr = stderr.trim().to_owned();
            return Err(RunError::Failed { status, stderr });
        }
        if let Some(other) = other_way(&stderr, series.counted_as) {
            return Err(RunError::OtherWay(other));
        }
        points(&lines, samples)
    }
}

/// The points that the lines are, one for each sample.
fn points(lines: &[String], samples: &[Sample]) -> Result<Vec<Point>, RunError> {
    let mut points = Vec::new();
    for line in lines {
        let wrong = |reason: String| RunError::Output {
            line: line.clone(),
            reason,
        };
        let read: Line = serde_json::from_str(line).map_err(|error| wrong(error.to_string()))?;
        let sample = samples.get(points.len());
        if sample.is_none_or(|s| (s.len, s.block) != (read.bytes, read.block)) {
            return Err(wrong("another message than the one asked for".to_owned()));
        }
        points.push(Point {
            len: read.bytes,
            ns: read.value * 1000.0,
            spread: (read.high - read.low) / read.value,
        });
    }
    match samples.get(points.len()) {
        None => Ok(points),
        Some(missing) => Err(RunError::Output {
            line: String::new(),
            reason: format!("nothing of the message {}", missing.argument()),
        }),
    }
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
    fn lines_are_the_samples_in_order() {
        let line = |bytes: u64, block: u64| {
            format!(
                "{{\"measure\": \"calibrate\", \"bytes\": {bytes}, \"block\": {block}, \"value\": 2.0, \
                 \"low\": 1.9, \"high\": 2.2, \"min\": 1, \"max\": 3}}"
            )
        };
        let samples = [Sample { len: 8, block: 0 }, Sample { len: 64, block: 16 }];
        let found = points(&[line(8, 0), line(64, 16)], &samples).unwrap();
        assert_eq!((found[0].len, found[0].ns), (8, 2000.0));
        assert!((found[1].spread - 0.15).abs() < 1e-9);
        for (lines, word) in [
            (vec![line(8, 0)], "nothing of the message 64/16"),
            (vec![line(8, 0), line(64, 0)], "another message"),
            (vec!["hello".to_owned()], "hello"),
            (
                vec![line(8, 0), line(64, 16), line(8, 0)],
                "another message",
            ),
        ] {
            let error = points(&lines, &samples).unwrap_err().to_string();
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
