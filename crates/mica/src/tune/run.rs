//! Runs `calibrate` and `calibrate_coll` under `mpiexec`, parses their output, and checks that the
//! bytes took the measured path.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use mica_node::tunables;
use mica_policy::collective::Collective;
use mica_policy::costs::level_name;
use serde::Deserialize;

use super::fit::Point;
use super::plan::{CorePair, SampleSeries, SeriesMessage};

/// The installation whose programs are run.
#[derive(Debug)]
pub struct Installation {
    mpiexec: PathBuf,
    calibrate: PathBuf,
    calibrate_coll: PathBuf,
}

/// Why a message could not be measured.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The installation lacks a program.
    #[error(
        "{0} is not there: mica tune needs an installed Mica (make install PREFIX=DIR in \
        its source tree, or --prefix)"
    )]
    Missing(PathBuf),
    /// A program cannot be started.
    #[error("{program}: {reason}")]
    Start {
        /// The program.
        program: PathBuf,
        /// The error of the system.
        reason: std::io::Error,
    },
    /// The job failed.
    #[error("{program} failed ({status}): {stderr}")]
    Failed {
        /// The program.
        program: &'static str,
        /// The exit status of `mpiexec`.
        status: std::process::ExitStatus,
        /// Its standard error.
        stderr: String,
    },
    /// Its output is malformed.
    #[error("printed {line:?}: {reason}")]
    Output {
        /// The line.
        line: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The messages took another path.
    #[error("not available: the messages went by {0}")]
    OtherWay(String),
    /// Collectives sent messages.
    #[error("not available: the collectives sent messages")]
    Messages,
}

/// The calls of a collective to measure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MeasuredCalls {
    /// The collective.
    pub collective: Collective,
    /// Measures no call of it: each rank combines what a reduce would.
    pub is_local: bool,
    /// Bytes of each; none for a barrier.
    pub bytes: usize,
    /// The family that is forced by `MICA_COLL`.
    pub family: &'static str,
    /// Ranks.
    pub ranks: usize,
    /// The cores of two ranks; `None`: any.
    pub pair: Option<CorePair>,
}

impl MeasuredCalls {
    /// Calls between two ranks.
    pub fn between(
        pair: CorePair,
        collective: Collective,
        bytes: usize,
        family: &'static str,
    ) -> MeasuredCalls {
        MeasuredCalls { collective, is_local: false, bytes, family, ranks: 2, pair: Some(pair) }
    }

    /// `MPI_Reduce_local` on each rank.
    pub fn local(pair: CorePair, bytes: usize) -> MeasuredCalls {
        MeasuredCalls {
            is_local: true,
            ..MeasuredCalls::between(pair, Collective::Reduce, bytes, "auto")
        }
    }

    /// Calls among more ranks than there are cores.
    pub fn of_all(ranks: usize, collective: Collective, family: &'static str) -> MeasuredCalls {
        MeasuredCalls { family, ..MeasuredCalls::as_chosen(None, collective, 0, ranks) }
    }

    /// Calls with the algorithm that the library chooses.
    pub fn as_chosen(
        pair: Option<CorePair>,
        collective: Collective,
        bytes: usize,
        ranks: usize,
    ) -> MeasuredCalls {
        MeasuredCalls { collective, is_local: false, bytes, family: "auto", ranks, pair }
    }

    /// The name for `calibrate_coll`.
    fn name(&self) -> &'static str {
        if self.is_local { "reduce_local" } else { self.collective.name() }
    }

    /// A description for the report.
    pub fn words(&self) -> String {
        let name = self.name();
        let bytes = match self.bytes {
            0 => String::new(),
            bytes => format!(" of {}", mica_node::topology::readable_bytes(bytes as u64)),
        };
        let place = self.pair.map_or(String::new(), |pair| format!(", {}", level_name(pair.level)));
        format!("{name}{bytes}, {} ranks{place}", self.ranks)
    }
}

/// The output of `calibrate_coll`.
#[derive(Deserialize)]
struct CallsLine {
    collective: String,
    bytes: usize,
    ranks: usize,
    iterations: f64,
    value: f64,
    low: f64,
    high: f64,
}

/// The output of `calibrate`.
#[derive(Deserialize)]
struct CalibrateLine {
    bytes: u64,
    block: u64,
    value: f64,
    low: f64,
    high: f64,
}

impl Installation {
    /// The installation in `prefix`.
    pub fn below(prefix: &Path) -> Result<Installation, RunError> {
        let program = |path: &str| {
            let path = prefix.join(path);
            if path.is_file() { Ok(path) } else { Err(RunError::Missing(path)) }
        };
        Ok(Installation {
            mpiexec: program("bin/mpiexec")?,
            calibrate: program("libexec/mica/calibrate")?,
            // Without it messages can still be measured.
            calibrate_coll: prefix.join("libexec/mica/calibrate_coll"),
        })
    }

    /// Measures one message of a series between a pair for about `seconds`. It runs in its own job,
    /// so that the job's counters cover only this message.
    pub fn run(
        &self,
        pair: CorePair,
        series: &SampleSeries,
        sample: &SeriesMessage,
        seconds: f64,
    ) -> Result<Point, RunError> {
        let (stdout, stderr) = self.message(pair, sample, seconds, &series.environment)?;
        match other_path(&stderr, series.counted_as) {
            Some(other) => Err(RunError::OtherWay(other)),
            None => point(&stdout, sample),
        }
    }

    /// Measures a message on the path that the library chooses with this tuning file (or `off`).
    pub fn run_as_chosen(
        &self,
        pair: CorePair,
        sample: &SeriesMessage,
        seconds: f64,
        tuning: &str,
    ) -> Result<Point, RunError> {
        let (stdout, _) = self.message(pair, sample, seconds, &[("MICA_TUNING", tuning)])?;
        point(&stdout, sample)
    }

    fn message(
        &self,
        pair: CorePair,
        sample: &SeriesMessage,
        seconds: f64,
        environment: &[(&str, &str)],
    ) -> Result<(String, String), RunError> {
        let bound = ["-n", "2", "--bind-to", "core", "--map-by", pair.map_by];
        let arguments = [seconds.to_string(), sample.argument()];
        let program = &self.calibrate;
        self.job("calibrate", &bound, program, &arguments, environment)
    }

    /// Measures calls of a collective with one family of algorithms.
    pub fn call(&self, calls: &MeasuredCalls, seconds: f64) -> Result<Point, RunError> {
        let environment = [
            ("MICA_COLL", calls.family),
            // Buffers can be accessed by load and store from their first use on.
            ("MICA_MAPPED_MIN", "0"),
            ("MICA_MAPPED_AFTER", "0"),
        ];
        let (stdout, stderr) = self.collective(calls, seconds, &environment)?;
        calls_point(&stdout, &stderr, calls)
    }

    /// Measures calls of a collective with the algorithm that the library chooses with this tuning
    /// file (or `off`).
    pub fn call_as_chosen(
        &self,
        calls: &MeasuredCalls,
        seconds: f64,
        tuning: &str,
    ) -> Result<Point, RunError> {
        let (stdout, stderr) = self.collective(calls, seconds, &[("MICA_TUNING", tuning)])?;
        calls_point(&stdout, &stderr, calls)
    }

    fn collective(
        &self,
        calls: &MeasuredCalls,
        seconds: f64,
        environment: &[(&str, &str)],
    ) -> Result<(String, String), RunError> {
        if !self.calibrate_coll.is_file() {
            return Err(RunError::Missing(self.calibrate_coll.clone()));
        }
        let ranks = calls.ranks.to_string();
        let mut options = vec!["-n", &ranks];
        if let Some(pair) = calls.pair {
            options.extend(["--bind-to", "core", "--map-by", pair.map_by]);
        }
        let mut arguments = vec![seconds.to_string(), calls.name().to_owned()];
        if calls.bytes > 0 {
            arguments.push(calls.bytes.to_string());
        }
        let program = &self.calibrate_coll;
        self.job("calibrate_coll", &options, program, &arguments, environment)
    }

    /// Runs a job with these tunables and no others. Returns its output and its standard error,
    /// which contains the table of `MICA_STATS`.
    fn job(
        &self,
        name: &'static str,
        options: &[&str],
        program: &Path,
        arguments: &[String],
        environment: &[(&str, &str)],
    ) -> Result<(String, String), RunError> {
        let mut command = Command::new(&self.mpiexec);
        command
            .args(options)
            .args(["--timeout", "30"])
            .arg(program)
            .args(arguments)
            .stdin(Stdio::null());
        // The user's own settings must not affect the measurement.
        for variable in tunables::all().iter().flat_map(|tunable| tunable.variables()) {
            command.env_remove(variable);
        }
        command
            .env("MICA_TUNING", "off")
            .env("MICA_STATS", "table")
            .envs(environment.iter().copied());
        let output = command
            .output()
            .map_err(|reason| RunError::Start { program: self.mpiexec.clone(), reason })?;
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        if !output.status.success() {
            return Err(RunError::Failed {
                program: name,
                status: output.status,
                stderr: stderr.trim().to_owned(),
            });
        }
        Ok((String::from_utf8_lossy(&output.stdout).into_owned(), stderr))
    }
}

/// The point in `calibrate_coll`'s output for these calls. If a family other than messages is
/// forced, it is valid only with fewer messages than calls: a library without that family sends
/// messages instead.
fn calls_point(output: &str, stderr: &str, calls: &MeasuredCalls) -> Result<Point, RunError> {
    let wrong = |reason: String| RunError::Output { line: output.trim().to_owned(), reason };
    let read: CallsLine = serde_json::from_str(output).map_err(|error| wrong(error.to_string()))?;
    if (read.collective.as_str(), read.bytes, read.ranks)
        != (calls.name(), calls.bytes, calls.ranks)
    {
        return Err(wrong("other calls than those asked for".to_owned()));
    }
    // The rows that count the family's own calls.
    let own: &[&str] = match calls.family {
        "shared" => &["area"],
        "direct" => &["area", "mapped", "direct"],
        _ => &[],
    };
    let of_others = rows(stderr).filter(|row| !own.contains(&row.name));
    let sent: f64 = of_others.map(|row| row.messages).sum();
    if !own.is_empty() && sent >= read.iterations {
        return Err(RunError::Messages);
    }
    Ok(Point {
        len: read.bytes as u64,
        ns: read.value * 1000.0,
        spread: (read.high - read.low) / read.value,
    })
}

/// A row of the table of `MICA_STATS`.
struct StatsRow<'a> {
    name: &'a str,
    messages: f64,
    bytes: f64,
}

/// The rows about messages in a job's final output.
fn rows(table: &str) -> impl Iterator<Item = StatsRow<'_>> {
    table.lines().filter_map(|line| {
        let mut words = line.strip_prefix("mpiexec:")?.split_whitespace();
        let name = words.next()?;
        let messages: u64 = words.next()?.parse().ok()?;
        Some(StatsRow { name, messages: messages as f64, bytes: words.next()?.parse().ok()? })
    })
}

/// The point in `calibrate`'s output for one message.
fn point(output: &str, sample: &SeriesMessage) -> Result<Point, RunError> {
    let wrong = |reason: String| RunError::Output { line: output.trim().to_owned(), reason };
    let read: CalibrateLine =
        serde_json::from_str(output).map_err(|error| wrong(error.to_string()))?;
    if (sample.len, sample.block) != (read.bytes, read.block) {
        return Err(wrong("another message than the one asked for".to_owned()));
    }
    Ok(Point {
        len: read.bytes,
        ns: read.value * 1000.0,
        spread: (read.high - read.low) / read.value,
    })
}

/// The paths that most bytes took according to the table of `MICA_STATS`, if those `wanted` have
/// less than nine tenths of them: then the measurement is not valid.
fn other_path(table: &str, wanted: &[&str]) -> Option<String> {
    let rows: Vec<(&str, f64)> = rows(table).map(|row| (row.name, row.bytes)).collect();
    let all: f64 = rows.iter().map(|(_, bytes)| bytes).sum();
    let ours = rows.iter().filter(|(name, _)| wanted.contains(name));
    let ours: f64 = ours.map(|(_, bytes)| bytes).sum();
    if all > 0.0 && ours >= 0.9 * all {
        return None;
    }
    let others = rows.iter().filter(|(_, bytes)| *bytes > 0.1 * all);
    let names: Vec<&str> = others.map(|(name, _)| *name).collect();
    let none = "a path that was not counted";
    Some(if names.is_empty() { none.to_owned() } else { names.join(" and ") })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "mpiexec: what 2 ranks sent\n\
        mpiexec:   channel     messages           bytes   share  path\n\
        mpiexec:   inline           317             115    0.0%  shared memory, in the ring's \
        slot\n\
        mpiexec:   cells             26          900000   90.0%  shared memory, through cells\n\
        mpiexec:   direct             2           99885    9.9%  single copy by the kernel\n";

    #[test]
    fn counts_only_messages_on_the_requested_path() {
        assert_eq!(other_path(TABLE, &["cells", "streamed"]), None);
        assert_eq!(other_path(TABLE, &["mapped"]), Some("cells".to_owned()));
        assert_eq!(other_path(TABLE, &["direct"]), Some("cells".to_owned()));
        assert!(other_path("nothing", &["cells"]).is_some());
    }

    #[test]
    fn line_holds_the_requested_sample() {
        let line = "{\"measure\": \"calibrate\", \"bytes\": 64, \"block\": 16, \"value\": 2.0, \
                    \"low\": 1.9, \"high\": 2.2, \"min\": 1, \"max\": 3}\n";
        let sample = SeriesMessage { len: 64, block: 16 };
        let found = point(line, &sample).unwrap();
        assert_eq!((found.len, found.ns), (64, 2000.0));
        assert!((found.spread - 0.15).abs() < 1e-9);
        let twice = format!("{line}{line}");
        for (output, sample, word) in [
            (line, SeriesMessage { len: 64, block: 0 }, "another message"),
            ("hello", sample, "hello"),
            ("", sample, "EOF"),
            (&twice, sample, "trailing"),
        ] {
            let error = point(output, &sample).unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
    }

    #[test]
    fn calls_that_sent_messages_are_of_another_family() {
        let line = "{\"measure\": \"calibrate_coll\", \"collective\": \"bcast\", \"bytes\": 64, \
                    \"ranks\": 2, \"value\": 2.0, \"low\": 1.9, \"high\": 2.2, \"min\": 1, \
                        \"max\": 3, \"iterations\": 300}\n";
        let pair = CorePair { level: mica_node::topology::Level::SharedCache, map_by: "core" };
        let calls = |bytes, family| MeasuredCalls::between(pair, Collective::Bcast, bytes, family);
        // The table has 345 messages, and the calls themselves.
        let table = format!(
            "{TABLE}mpiexec:   area             600           38400    3.7%  collectives, through \
            a communicator's area\n"
        );
        assert!(calls_point(line, &table, &calls(64, "messages")).is_ok());
        for family in ["shared", "direct"] {
            let error = calls_point(line, &table, &calls(64, family)).unwrap_err();
            assert!(matches!(error, RunError::Messages), "{error}");
            let few = line.replace("300", "346");
            let found = calls_point(&few, &table, &calls(64, family)).unwrap();
            assert_eq!((found.len, found.ns), (64, 2000.0));
        }
        let error = calls_point(line, "", &calls(8, "shared")).unwrap_err();
        assert!(error.to_string().contains("other calls"), "{error}");
    }

    #[test]
    fn an_installation_without_its_programs_is_named() {
        let error = Installation::below(Path::new("/no/such")).unwrap_err().to_string();
        assert!(error.contains("/no/such/bin/mpiexec"), "{error}");
    }
}
