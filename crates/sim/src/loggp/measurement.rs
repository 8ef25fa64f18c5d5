//! The output of `bench/src/loggp.c`, whose head defines the columns.

use serde::{Deserialize, Serialize};

use super::sharing::{self, AllowedProcessors, CoreSharing, LostProcessors};

/// The times of one size in one round, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LoggpSample {
    /// Bytes of the message.
    pub bytes: u64,
    /// The round.
    pub round: u32,
    /// Processor time of the send, start and completion.
    pub send: f64,
    /// Of its start alone.
    pub issue: f64,
    /// Processor time of the receive, start and completion.
    pub receive: f64,
    /// Of its completion alone.
    pub complete: f64,
    /// There and back.
    pub round_trip: f64,
    /// One message, and an empty answer.
    pub single: f64,
    /// A train of messages, and an empty answer.
    pub train: f64,
}

/// A run of the program.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// Ranks of the job.
    pub ranks: u32,
    /// Messages of a train.
    pub train: u32,
    /// Nanoseconds of a reading of the clock, which the times are without.
    pub clock_ns: f64,
    /// The MPI library.
    pub library: String,
    /// Where each rank may run, as far as the program says so.
    pub places: Vec<AllowedProcessors>,
    /// What the ranks that measure lost to other threads, if the program says so.
    pub lost: Option<LostProcessors>,
    /// The times.
    pub samples: Vec<LoggpSample>,
}

/// The output is not that of the program.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MeasurementError {
    /// There is no head.
    #[error(
        "not the output of loggp.c: the first line is {line:?}, not 'mica-loggp 1 RANKS TRAIN ...'"
    )]
    Head {
        /// The first line.
        line: String,
    },
    /// A line is not one of its lines.
    #[error("line {number} of the measurement is {line:?}: expected 10 numbers, or a place")]
    Line {
        /// Its number, from 1.
        number: usize,
        /// Its text.
        line: String,
    },
    /// A round has other sizes than the first.
    #[error("the measurement has {samples} lines for {sizes} sizes and {rounds} rounds: cut off")]
    CutOff {
        /// Lines.
        samples: usize,
        /// Different sizes.
        sizes: usize,
        /// Different rounds.
        rounds: usize,
    },
    /// Too few sizes for a fit.
    #[error("the measurement has {sizes} sizes: the fit of g and G needs 3 (--largest)")]
    FewSizes {
        /// Different sizes.
        sizes: usize,
    },
}

impl Measurement {
    /// Parses the program's output. Every round has every size once.
    ///
    /// # Errors
    /// If it is something else, or not whole.
    pub fn parse(text: &str) -> Result<Measurement, MeasurementError> {
        let mut lines = text.lines().enumerate();
        let first = lines.next().map_or("", |(_, line)| line);
        let mut measurement =
            head(first).ok_or_else(|| MeasurementError::Head { line: first.to_owned() })?;
        let data = lines.filter(|(_, line)| !line.trim().is_empty() && !line.starts_with("bytes "));
        for (number, line) in data {
            measurement.take(line).ok_or_else(|| MeasurementError::Line {
                number: number + 1,
                line: line.to_owned(),
            })?;
        }
        measurement.check()?;
        Ok(measurement)
    }

    /// Takes what a line behind the head says.
    fn take(&mut self, line: &str) -> Option<()> {
        match line.split_once(' ') {
            Some(("place", rest)) => {
                let (rank, place) = rest.split_once(' ')?;
                (rank.parse() == Ok(self.places.len())).then_some(())?;
                self.places.push(AllowedProcessors::parse(place)?);
            }
            Some(("switches", rest)) => {
                let (switches, exchanges) = rest.split_once(' ')?;
                let (switches, exchanges) = (switches.parse().ok()?, exchanges.parse().ok()?);
                self.lost = Some(LostProcessors { switches, exchanges });
            }
            _ => self.samples.push(sample(line)?),
        }
        Some(())
    }

    /// How ranks shared processors, if they did: then the times are not those of a channel.
    pub fn sharing(&self) -> Option<CoreSharing> {
        sharing::sharing(&self.places, self.lost)
    }

    /// Leaves out what the program says of processors: it ran on simulated ones.
    pub fn forget_sharing(&mut self) {
        self.places.clear();
        self.lost = None;
    }

    fn check(&self) -> Result<(), MeasurementError> {
        let (sizes, rounds) = (self.sizes().len(), self.rounds().len());
        let samples = self.samples.len();
        let mut keys: Vec<_> = self.samples.iter().map(|s| (s.round, s.bytes)).collect();
        keys.sort_unstable();
        keys.dedup();
        match () {
            () if sizes < 3 => Err(MeasurementError::FewSizes { sizes }),
            () if samples != sizes * rounds || keys.len() != samples => {
                Err(MeasurementError::CutOff { samples, sizes, rounds })
            }
            () => Ok(()),
        }
    }

    /// The sizes, ascending.
    pub fn sizes(&self) -> Vec<u64> {
        sorted(self.samples.iter().map(|sample| sample.bytes))
    }

    /// The rounds, ascending.
    pub fn rounds(&self) -> Vec<u32> {
        sorted(self.samples.iter().map(|sample| sample.round))
    }
}

fn sorted<T: Ord>(values: impl Iterator<Item = T>) -> Vec<T> {
    let mut values: Vec<T> = values.collect();
    values.sort_unstable();
    values.dedup();
    values
}

fn head(line: &str) -> Option<Measurement> {
    let mut words = line.split(' ');
    (words.next()? == "mica-loggp" && words.next()? == "1").then_some(())?;
    Some(Measurement {
        ranks: words.next()?.parse().ok()?,
        train: words.next()?.parse().ok().filter(|train| *train >= 2)?,
        clock_ns: words.next()?.parse().ok()?,
        library: words.collect::<Vec<_>>().join(" "),
        places: Vec::new(),
        lost: None,
        samples: Vec::new(),
    })
}

fn sample(line: &str) -> Option<LoggpSample> {
    let mut words = line.split_whitespace();
    let (bytes, round) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    let _repetitions: u64 = words.next()?.parse().ok()?;
    let mut time = || {
        let value: f64 = words.next()?.parse().ok()?;
        value.is_finite().then_some(value)
    };
    let sample = LoggpSample {
        bytes,
        round,
        send: time()?,
        issue: time()?,
        receive: time()?,
        complete: time()?,
        round_trip: time()?,
        single: time()?,
        train: time()?,
    };
    words.next().is_none().then_some(sample)
}
