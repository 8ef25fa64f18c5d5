//! Compares the candidate's choices with the shipped ones: where they differ, both are measured as
//! a program would use them.
//!
//! Messages come first, level by level: a part is the cost of a path. Then collectives: a part is a
//! figure of the file's `[collective]` sections, and everything that was accepted of messages is
//! one more part, since collectives are chosen by those costs as well. Each comparison runs
//! `calibrate` or `calibrate_coll` in rounds, alternately with a tuning file of the subset and with
//! none.
//!
//! Cases that a ping-pong does not show are not compared: skewed receivers, overlap and ranks that
//! share cores. The same figures decide them, so they change only where another case was shown to
//! gain.

use std::path::Path;
use std::time::{Duration, Instant};

use mica_node::topology::{Level, available_cores};
use mica_policy::collective::{
    Algorithm, Collective, CollectiveCall, CollectiveCosts, ForcedAlgorithms, Reachability, pick,
};
use mica_policy::costs::level_name;
use mica_policy::tuning::{CollectiveTuning, LevelTuning, Tuning};
use mica_policy::{
    MessagePath, MessagePaths, OutgoingMessage, PathCost, PathCosts, Situation, Thresholds, choose,
};

use super::plan::{CorePair, Pace, SeriesMessage};
use super::run::{Installation, MeasuredCalls};
use super::steps;
use super::verify::{Candidate, TrialParts, TrialVerdict, Verified, VerifiedSize, median, verify};
use crate::explain::time;
use crate::terminal;

/// How long to measure.
#[derive(Debug, Clone, Copy)]
pub struct MeasuringEffort {
    /// Seconds of one run.
    pub seconds: f64,
    /// Runs of each side.
    pub rounds: usize,
    /// All comparisons begin within this time; half of it is for messages.
    pub time_limit: Duration,
    /// Number of cores.
    pub cores: usize,
}

impl MeasuringEffort {
    /// The effort at this pace.
    pub fn new(pace: Pace) -> MeasuringEffort {
        MeasuringEffort {
            seconds: pace.choose(0.02, 0.06),
            rounds: pace.choose(3, 5),
            time_limit: Duration::from_secs(pace.choose(15, 90)),
            cores: available_cores(),
        }
    }
}

/// Runs a probe: returns its nanoseconds with these figures, or `None` if it failed.
pub trait ProbeRuns {
    /// A message between a pair.
    fn message(
        &self,
        pair: CorePair,
        sample: &SeriesMessage,
        tuning: Option<&Tuning>,
    ) -> Option<f64>;
    /// A call of a collective.
    fn call(&self, calls: &MeasuredCalls, tuning: Option<&Tuning>) -> Option<f64>;
}

/// Runs programs of an installation, with files in a separate folder.
pub struct Jobs<'a> {
    /// The installation whose programs run.
    pub installation: &'a Installation,
    /// The folder for the tuning files of candidates.
    pub folder: &'a Path,
    /// Seconds of a run.
    pub seconds: f64,
}

impl Jobs<'_> {
    /// The value of `MICA_TUNING`.
    fn file(&self, tuning: Option<&Tuning>) -> Option<String> {
        let Some(tuning) = tuning else { return Some("off".to_owned()) };
        let file = self.folder.join("candidate.toml");
        std::fs::write(&file, tuning.to_string()).ok()?;
        Some(file.to_str()?.to_owned())
    }
}

impl ProbeRuns for Jobs<'_> {
    fn message(
        &self,
        pair: CorePair,
        sample: &SeriesMessage,
        tuning: Option<&Tuning>,
    ) -> Option<f64> {
        let file = self.file(tuning)?;
        let run = self.installation.run_as_chosen(pair, sample, self.seconds, &file);
        run.ok().map(|point| point.ns)
    }

    fn call(&self, calls: &MeasuredCalls, tuning: Option<&Tuning>) -> Option<f64> {
        let file = self.file(tuning)?;
        let run = self.installation.call_as_chosen(calls, self.seconds, &file);
        run.ok().map(|point| point.ns)
    }
}

/// Runs both sides alternately; the side that begins changes from round to round.
fn trial(rounds: usize, run: impl Fn(bool) -> Option<f64>) -> Option<VerifiedSize> {
    let mut trial = VerifiedSize { shipped: Vec::new(), tuned: Vec::new() };
    for round in 0..rounds {
        for tuned in [round % 2 == 1, round.is_multiple_of(2)] {
            let ns = run(tuned)?;
            if tuned { trial.tuned.push(ns) } else { trial.shipped.push(ns) }
        }
    }
    Some(trial)
}

/// A row of the table: what was compared, both choices and the result.
pub struct ComparisonRow {
    what: String,
    shipped: &'static str,
    tuned: &'static str,
    trial: Option<VerifiedSize>,
    is_accepted: bool,
}

/// Lengths at which messages are compared: half octaves.
fn lengths(longest: u64) -> impl Iterator<Item = u64> {
    let halves = (12..).map(|half| {
        let octave = 1u64 << (half / 2);
        if half % 2 == 0 { octave } else { octave + octave / 2 }
    });
    halves.take_while(move |&len| len <= longest)
}

/// Of each sequence of neighbours that differ in the same way, selects the first, the last and
/// every fourth sample.
fn thinned<T: Copy, K: PartialEq>(differing: &[(usize, T, K)]) -> Vec<T> {
    let mut accepted = Vec::new();
    for run in differing.chunk_by(|a, b| b.0 == a.0 + 1 && a.2 == b.2) {
        let last = run.len() - 1;
        let at = |&(n, _): &(usize, _)| n % 4 == 0 || n == last;
        accepted.extend(run.iter().enumerate().filter(at).map(|(_, d)| d.1));
    }
    accepted
}

struct MessageProbes<'a> {
    runs: &'a dyn ProbeRuns,
    effort: MeasuringEffort,
    until: Instant,
    pair: CorePair,
    /// The costs that were measured at this level.
    parts: Vec<(MessagePath, PathCost)>,
    tuning: &'a Tuning,
    situation: Situation,
    samples: Vec<SeriesMessage>,
}

impl MessageProbes<'_> {
    /// The shipped figures with a subset of the measured ones.
    fn subset(&self, parts: TrialParts) -> Tuning {
        let accepted = self.parts.iter().enumerate();
        let accepted = accepted.filter(|(n, _)| parts & 1 << n != 0);
        Tuning {
            machine: self.tuning.machine.clone(),
            costs: accepted.map(|(_, &(path, cost))| (self.pair.level, path, cost)).collect(),
            ..Tuning::default()
        }
    }

    /// The path of each sample with these costs, as the library chooses it: eager by thresholds,
    /// otherwise the path of least cost.
    fn paths(&self, costs: &PathCosts) -> Vec<MessagePath> {
        let thresholds = Thresholds::derive(costs, &self.situation);
        let asked = Situation {
            available: self.situation.available.intersection(MessagePaths::RENDEZVOUS),
            ..self.situation
        };
        let path = |sample: &SeriesMessage| {
            let len = sample.len as usize;
            let message = OutgoingMessage {
                pieces: sample.len.checked_div(sample.block).unwrap_or(1) as usize,
                ..OutgoingMessage::contiguous(len)
            };
            if len <= self.situation.limits.inline {
                MessagePath::Inline
            } else if len <= thresholds.ring_max {
                MessagePath::Ring
            } else if len <= thresholds.eager_max {
                MessagePath::Cells
            } else {
                choose(&message, &asked, costs)
            }
        };
        self.samples.iter().map(path).collect()
    }
}

impl Candidate for MessageProbes<'_> {
    type Probe = SeriesMessage;
    type Choice = MessagePath;

    fn parts(&self) -> usize {
        self.parts.len()
    }

    fn differing(&self, parts: TrialParts) -> Vec<(SeriesMessage, MessagePath)> {
        let shipped = self.paths(&PathCosts::default());
        let tuned = self.paths(&self.subset(parts).applied());
        let pairs = self.samples.iter().zip(shipped.into_iter().zip(tuned));
        let differing: Vec<_> = pairs
            .enumerate()
            .filter(|(_, (_, (shipped, tuned)))| shipped != tuned)
            .map(|(n, (&sample, paths))| (n, (sample, paths.1), paths))
            .collect();
        thinned(&differing)
    }

    fn measure(&mut self, sample: SeriesMessage, parts: TrialParts) -> Option<VerifiedSize> {
        if Instant::now() >= self.until {
            return None;
        }
        let subset = self.subset(parts);
        trial(self.effort.rounds, |tuned| {
            let tuning = tuned.then_some(&subset);
            self.runs.message(self.pair, &sample, tuning)
        })
    }
}

/// Returns the message costs that are accepted, those of each level that give a gain, and the total
/// gain. Adds the comparisons to `rows`.
pub fn messages(
    runs: &dyn ProbeRuns,
    effort: MeasuringEffort,
    pairs: &[CorePair],
    tuning: &Tuning,
    rows: &mut Vec<ComparisonRow>,
) -> (Vec<(Level, MessagePath, PathCost)>, f64) {
    let begin = Instant::now();
    let mut accepted = Vec::new();
    let mut gain = 0.0;
    for (n, &pair) in pairs.iter().enumerate() {
        let of_level = tuning.costs.iter().filter(|(level, ..)| *level == pair.level);
        let parts: Vec<(MessagePath, PathCost)> =
            of_level.map(|&(_, path, cost)| (path, cost)).collect();
        let measured: MessagePaths = parts.iter().map(|(path, _)| *path).collect();
        let blocks = [64, 256, 1 << 10, 4 << 10];
        let in_pieces = blocks.map(|block| SeriesMessage { len: 1 << 20, block });
        let whole = lengths(16 << 20).map(|len| SeriesMessage { len, block: 0 });
        let share = (n + 1) as u32;
        let mut candidate = MessageProbes {
            runs,
            effort,
            until: begin + effort.time_limit / 2 * share / pairs.len() as u32,
            pair,
            situation: Situation::waiting(pair.level, measured.union(MessagePaths::SHARED_MEMORY)),
            parts,
            tuning,
            samples: whole.chain(in_pieces).collect(),
        };
        let found = verify(&mut candidate);
        let shipped = candidate.paths(&PathCosts::default());
        let chosen = candidate.differing(found.accepted);
        for (sample, path, trial) in found.trials {
            let at = candidate.samples.iter().position(|s| *s == sample);
            rows.push(ComparisonRow {
                what: format!("{}, {}", level_name(pair.level), words(&sample)),
                shipped: at.map_or("", |at| shipped[at].name()),
                tuned: path.name(),
                trial,
                is_accepted: chosen.contains(&(sample, path)),
            });
        }
        accepted.extend(candidate.subset(found.accepted).costs);
        gain += found.gain;
    }
    (accepted, gain)
}

fn words(sample: &SeriesMessage) -> String {
    let bytes = mica_node::topology::readable_bytes(sample.len);
    match sample.block {
        0 => bytes,
        block => format!("{bytes} in pieces of {block}"),
    }
}

/// A figure of the collectives' sections.
#[derive(Debug, Clone, Copy)]
enum StepFigure {
    Switch(f64),
    Reduce(f64),
    Round(f64),
    Level(Level, LevelTuning),
}

/// The figures of these sections, one by one.
fn figures(tuning: &CollectiveTuning) -> Vec<StepFigure> {
    let of_level = |&(level, measured): &(Level, LevelTuning)| {
        let none = LevelTuning::default();
        let sync_ns = measured.sync_ns;
        let expose_ns = measured.expose_ns;
        let copy = measured.copy;
        [
            LevelTuning { sync_ns, ..none },
            LevelTuning { expose_ns, ..none },
            LevelTuning { copy, ..none },
        ]
        .into_iter()
        .filter(move |one| *one != none)
        .map(move |one| StepFigure::Level(level, one))
    };
    let general = [
        tuning.switch_ns.map(StepFigure::Switch),
        tuning.reduce_byte_ns.map(StepFigure::Reduce),
        tuning.round_ns.map(StepFigure::Round),
    ];
    let levels = tuning.levels.iter().flat_map(of_level);
    general.into_iter().flatten().chain(levels).collect()
}

/// The sections that have these figures.
fn sections(steps: impl Iterator<Item = StepFigure>) -> CollectiveTuning {
    let mut tuning = CollectiveTuning::default();
    for step in steps {
        match step {
            StepFigure::Switch(ns) => tuning.switch_ns = Some(ns),
            StepFigure::Reduce(ns) => tuning.reduce_byte_ns = Some(ns),
            StepFigure::Round(ns) => tuning.round_ns = Some(ns),
            StepFigure::Level(level, one) => {
                let at = tuning.levels.iter().position(|(of, _)| *of == level);
                let at = at.unwrap_or_else(|| {
                    tuning.levels.push((level, LevelTuning::default()));
                    tuning.levels.len() - 1
                });
                let all = &mut tuning.levels[at].1;
                all.sync_ns = one.sync_ns.or(all.sync_ns);
                all.expose_ns = one.expose_ns.or(all.expose_ns);
                all.copy = one.copy.or(all.copy);
            }
        }
    }
    tuning
}

struct CollectiveProbes<'a> {
    runs: &'a dyn ProbeRuns,
    effort: MeasuringEffort,
    until: Instant,
    /// The message costs that were accepted, and their gain: the first part, unless empty.
    messages: &'a [(Level, MessagePath, PathCost)],
    gain: f64,
    figures: Vec<StepFigure>,
    tuning: &'a Tuning,
    calls: Vec<(MeasuredCalls, CollectiveCall)>,
}

impl CollectiveProbes<'_> {
    fn has_messages(&self) -> usize {
        usize::from(!self.messages.is_empty())
    }

    fn subset(&self, parts: TrialParts) -> Tuning {
        let first = self.has_messages();
        let with_messages = first == 1 && parts & 1 != 0;
        let figures = self.figures.iter().enumerate();
        let figures = figures.filter(|(n, _)| parts & 1 << (n + first) != 0);
        Tuning {
            machine: self.tuning.machine.clone(),
            costs: if with_messages { self.messages.to_vec() } else { Vec::new() },
            collective: sections(figures.map(|(_, step)| *step)),
        }
    }

    fn algorithms(&self, costs: &CollectiveCosts) -> Vec<Algorithm> {
        let forced = ForcedAlgorithms::default();
        let questions = self.calls.iter();
        questions.map(|(_, question)| pick(costs, question, &forced)).collect()
    }
}

impl Candidate for CollectiveProbes<'_> {
    type Probe = usize;
    type Choice = Algorithm;

    fn parts(&self) -> usize {
        self.has_messages() + self.figures.len()
    }

    fn differing(&self, parts: TrialParts) -> Vec<(usize, Algorithm)> {
        let shipped = self.algorithms(&CollectiveCosts::default());
        let tuned = self.algorithms(&self.subset(parts).applied_to_collectives());
        let both = shipped.into_iter().zip(tuned).enumerate();
        both.filter(|(_, (shipped, tuned))| shipped != tuned)
            .map(|(at, (_, tuned))| (at, tuned))
            .collect()
    }

    fn bonus(&self, parts: TrialParts) -> f64 {
        if self.has_messages() == 1 && parts & 1 != 0 { self.gain } else { 0.0 }
    }

    fn measure(&mut self, at: usize, parts: TrialParts) -> Option<VerifiedSize> {
        if Instant::now() >= self.until {
            return None;
        }
        let subset = self.subset(parts);
        let calls = &self.calls[at].0;
        trial(self.effort.rounds, |tuned| self.runs.call(calls, tuned.then_some(&subset)))
    }
}

/// The calls that are compared: each collective between two ranks at each level, and among twice as
/// many ranks as there are cores.
fn calls(pairs: &[CorePair], cores: usize) -> Vec<(MeasuredCalls, CollectiveCall)> {
    let mut found = Vec::new();
    let many = 2 * cores.min(8);
    let places = pairs.iter().map(|&pair| (Some(pair), 2));
    let nearest = pairs.first().map_or(Level::SharedCache, |pair| pair.level);
    for (pair, ranks) in places.chain([(None, many)]) {
        let level = pair.map_or(nearest, |pair| pair.level);
        for collective in Collective::ALL {
            let bytes: &[usize] = match collective {
                Collective::Barrier => &[0],
                _ => &[8, 1 << 10, 16 << 10, 128 << 10, 1 << 20],
            };
            for &bytes in bytes {
                let calls = MeasuredCalls::as_chosen(pair, collective, bytes, ranks);
                let cores = cores.min(ranks);
                let question = steps::question(collective, bytes, level, ranks, cores);
                debug_assert_eq!(question.reach, Reachability::Windows);
                found.push((calls, question));
            }
        }
    }
    found
}

/// Returns all figures that are accepted, where `messages` are the accepted message costs and their
/// `gain`.
pub fn collectives(
    runs: &dyn ProbeRuns,
    effort: MeasuringEffort,
    pairs: &[CorePair],
    tuning: &Tuning,
    (messages, gain): (&[(Level, MessagePath, PathCost)], f64),
    rows: &mut Vec<ComparisonRow>,
) -> Tuning {
    let mut candidate = CollectiveProbes {
        runs,
        effort,
        until: Instant::now() + effort.time_limit / 2,
        messages,
        gain,
        figures: figures(&tuning.collective),
        tuning,
        calls: calls(pairs, effort.cores),
    };
    let Verified { accepted, trials, .. } = verify(&mut candidate);
    let shipped = candidate.algorithms(&CollectiveCosts::default());
    let chosen = candidate.differing(accepted);
    for (at, algorithm, trial) in trials {
        rows.push(ComparisonRow {
            what: candidate.calls[at].0.words(),
            shipped: shipped[at].name(),
            tuned: algorithm.name(),
            trial,
            is_accepted: chosen.contains(&(at, algorithm)),
        });
    }
    let accepted = candidate.subset(accepted);
    if accepted.costs.is_empty() {
        // The message costs lost more in collectives than they gained.
        let levels = pairs.iter().map(|pair| level_name(pair.level));
        let prefixes: Vec<String> = levels.map(|name| format!("{name}, ")).collect();
        for row in rows.iter_mut() {
            row.is_accepted &= !prefixes.iter().any(|prefix| row.what.starts_with(prefix));
        }
    }
    accepted
}

/// The comparisons as a table.
pub fn table(rows: &[ComparisonRow]) -> String {
    if rows.is_empty() {
        return " What was measured chooses everywhere as the shipped figures do.".to_owned();
    }
    let mut table = terminal::table(" compared | shipped |  | tuned |  | ");
    for row in rows {
        let (shipped, tuned, verdict) = match &row.trial {
            None => (String::new(), String::new(), "not measured: stays as shipped".to_owned()),
            Some(trial) => {
                (time(median(&trial.shipped)), time(median(&trial.tuned)), outcome(row, trial))
            }
        };
        let what = format!(" {}", row.what);
        table.add_row([&what, row.shipped, &shipped, row.tuned, &tuned, &verdict]);
    }
    table.trim_fmt()
}

/// The result of a comparison as text.
fn outcome(row: &ComparisonRow, trial: &VerifiedSize) -> String {
    let percent = 100.0 * (1.0 - trial.ratio()).abs();
    let verdict = match trial.verdict() {
        TrialVerdict::Better => format!("{percent:.0} % faster"),
        TrialVerdict::Worse => format!("{percent:.0} % slower"),
        TrialVerdict::Same => "no faster beyond noise".to_owned(),
    };
    verdict + if row.is_accepted { ": accepted" } else { ": stays as shipped" }
}

#[cfg(test)]
mod tests;
