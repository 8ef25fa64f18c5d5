//! Measures the cost of the steps of collectives: runs `calibrate_coll` and forces the family of
//! algorithms that consists of the step.
//!
//! | figure | measured by |
//! |---|---|
//! | `sync_ns` | a barrier of two ranks through the shared area |
//! | `copy` | broadcasts between two ranks through the area, less stamps and first piece |
//! | `expose_ns` | a short broadcast between two ranks by direct copy, less its stamps |
//! | `round_ns` | a barrier of two ranks by messages, less its message |
//! | `switch_ns` | a barrier through the area of twice as many ranks as cores, less its stamps |
//! | `reduce_byte_ns` | `MPI_Reduce_local` |
//!
//! A figure that cannot be measured, because the program or the family is missing, keeps its value.

use mica_node::topology::{Level, available_cores};
use mica_node::{area, tunables};
use mica_policy::collective::formulas::load;
use mica_policy::collective::{
    Algorithm, Collective, CollectiveCall, CollectiveCosts, GroupSetting, LevelCosts, OperandOrder,
    Reachability,
};
use mica_policy::costs::level_name;
use mica_policy::tuning::{CollectiveTuning, LevelTuning};
use mica_policy::{PathCost, PathCosts};

use super::fit::{self, Point};
use super::measure::{NOISY, calm, rounded};
use super::plan::{CorePair, Pace};
use super::report::prices;
use super::run::{Installation, MeasuredCalls, RunError};
use crate::explain::time;
use crate::terminal;

/// The result of one figure.
pub struct StepOutcome {
    /// The level; `None`: all levels.
    pub level: Option<Level>,
    /// Its name in the tuning file.
    pub name: &'static str,
    /// The figure as text, and whether its times varied by more than [`NOISY`]; or why it keeps its
    /// value.
    pub result: Result<(String, bool), String>,
    /// The previous value.
    pub before: String,
}

/// Measures the figures of the tuning file's collective sections. `run` makes some calls and
/// returns the time of one; `messages` are the costs of messages as now known.
pub fn measure(
    pairs: &[CorePair],
    pace: Pace,
    before: &CollectiveCosts,
    messages: &PathCosts,
    run: &dyn Fn(&MeasuredCalls) -> Result<Point, RunError>,
) -> (CollectiveTuning, Vec<StepOutcome>) {
    let mut costs = before.clone();
    costs.messages = messages.clone();
    let mut steps = Steps { run, costs, figures: Vec::new() };
    let mut tuning = CollectiveTuning::default();
    for &pair in pairs {
        let measured = steps.level(pair, pace);
        if measured != LevelTuning::default() {
            tuning.levels.push((pair.level, measured));
        }
    }
    let Some(&nearest) = pairs.first() else { return (tuning, steps.figures) };
    tuning.round_ns = steps.round(nearest);
    tuning.reduce_byte_ns = steps.reduce(nearest);
    tuning.switch_ns = steps.switch(nearest.level, available_cores());
    (tuning, steps.figures)
}

struct Steps<'a> {
    run: &'a dyn Fn(&MeasuredCalls) -> Result<Point, RunError>,
    /// Includes the figures measured so far.
    costs: CollectiveCosts,
    figures: Vec<StepOutcome>,
}

/// The cell size by the default of `MICA_COLL_AREA`, which applies in the measuring jobs.
fn cell_bytes(ranks: usize) -> Option<usize> {
    area::cell_bytes(ranks, tunables::parse_bytes(tunables::COLL_AREA.default)?)
}

/// The nanoseconds that `algorithm` takes by the cost formulas.
fn predicted(costs: &CollectiveCosts, question: &CollectiveCall, algorithm: Algorithm) -> f64 {
    let setting = &question.setting;
    load(costs, question, algorithm).ns(setting.ranks, setting.cores, costs.switch_ns)
}

/// A call among ranks that can access each other's buffers.
pub fn question(
    collective: Collective,
    bytes: usize,
    level: Level,
    ranks: usize,
    cores: usize,
) -> CollectiveCall {
    CollectiveCall {
        collective,
        bytes,
        order: OperandOrder::Any,
        reach: Reachability::Windows,
        setting: GroupSetting { ranks, level, cores, area_cell: cell_bytes(ranks) },
    }
}

impl Steps<'_> {
    /// Measures the figures of a level.
    fn level(&mut self, pair: CorePair, pace: Pace) -> LevelTuning {
        let level = pair.level;
        let mut now = *self.costs.of(level);
        let mut measured = LevelTuning::default();

        let was = time(now.sync_ns);
        let found = self.call(&MeasuredCalls::between(pair, Collective::Barrier, 0, "shared"));
        let found = found.map(|point| noted(&point, point.ns));
        measured.sync_ns = self.note((Some(level), "sync_ns"), found, time_of, was);
        now.sync_ns = measured.sync_ns.unwrap_or(now.sync_ns);
        self.costs.set(level, now);

        let found = self.copy(pair, pace);
        let words = |copy: &PathCost| format!("{} a byte", prices(copy));
        let was = now.copy.as_ref().map_or_else(|| "as through cells".to_owned(), words);
        measured.copy = self.note((Some(level), "copy"), found, words, was);
        now.copy = measured.copy.or(now.copy);
        self.costs.set(level, now);

        let was = time(now.expose_ns);
        let short = 64;
        let found = self.call(&MeasuredCalls::between(pair, Collective::Bcast, short, "direct"));
        let rest = {
            let mut costs = self.costs.clone();
            costs.set(level, LevelCosts { expose_ns: 0.0, ..now });
            let question = question(Collective::Bcast, short, level, 2, 2);
            predicted(&costs, &question, Algorithm::Direct)
        };
        let found = found.map(|point| noted(&point, point.ns - rest));
        measured.expose_ns = self.note((Some(level), "expose_ns"), found, time_of, was);
        now.expose_ns = measured.expose_ns.unwrap_or(now.expose_ns);
        self.costs.set(level, now);
        measured
    }

    /// Measures the cost of a byte copied into the area or out of it.
    fn copy(&self, pair: CorePair, pace: Pace) -> Result<(PathCost, bool), String> {
        let longest = pace.choose(4 << 20, 64 << 20);
        let piece = cell_bytes(2).ok_or("no area has cells")? / 2;
        let sync_ns = self.costs.of(pair.level).sync_ns;
        let mut points = Vec::new();
        let mut noisy = false;
        for bytes in (16..=26).step_by(2).map(|bits| 1usize << bits) {
            if bytes > longest {
                break;
            }
            let point =
                self.call(&MeasuredCalls::between(pair, Collective::Bcast, bytes, "shared"))?;
            // Each piece has its stamp; no rank can copy the first piece out before it is copied
            // in.
            let stamps = bytes.div_ceil(piece) as f64 * sync_ns;
            points.push(Point {
                len: (bytes + piece) as u64,
                ns: (point.ns - stamps).max(0.1 * point.ns),
                ..point
            });
            noisy |= point.spread > NOISY;
        }
        let fit = fit::fit(&points, 0.0).map_err(|error| error.to_string())?;
        let prices: Vec<(u64, f64)> =
            fit.prices.iter().map(|&(from, ns)| (from, rounded(ns))).collect();
        let copy = PathCost::new(0.0, &prices);
        copy.flaw().map_or(Ok((copy, noisy)), Err)
    }

    /// Measures the time of a round of messages beyond its message.
    fn round(&mut self, pair: CorePair) -> Option<f64> {
        let was = time(self.costs.round_ns);
        let mut alone = self.costs.clone();
        alone.round_ns = 0.0;
        let question = question(Collective::Barrier, 0, pair.level, 2, 2);
        let message = predicted(&alone, &question, Algorithm::Dissemination);
        let found = self.call(&MeasuredCalls::between(pair, Collective::Barrier, 0, "messages"));
        let found = found.map(|point| noted(&point, point.ns - message));
        self.note((None, "round_ns"), found, time_of, was)
    }

    fn reduce(&mut self, pair: CorePair) -> Option<f64> {
        let was = format!("{} ns a byte", self.costs.reduce_byte_ns);
        // As long as a block that stays in a cache near the core.
        let bytes = 16 << 10;
        let found = self.call(&MeasuredCalls::local(pair, bytes));
        let found = found.map(|point| noted(&point, point.ns / bytes as f64));
        self.note((None, "reduce_byte_ns"), found, |ns| format!("{ns} ns a byte"), was)
    }

    /// Measures the time to switch between two ranks that share a core.
    fn switch(&mut self, level: Level, cores: usize) -> Option<f64> {
        let was = time(self.costs.switch_ns);
        let ranks = 2 * cores;
        let question = question(Collective::Barrier, 0, level, ranks, cores);
        let of = |switch_ns: f64| {
            let load = load(&self.costs, &question, Algorithm::Shared);
            load.ns(ranks, cores, switch_ns)
        };
        let (stamps, each) = (of(0.0), of(1.0) - of(0.0));
        let found = self.call(&MeasuredCalls::of_all(ranks, Collective::Barrier, "shared"));
        let found = found.map(|point| noted(&point, (point.ns - stamps) / each));
        self.note((None, "switch_ns"), found, time_of, was)
    }

    /// Records a figure. Returns it, if there is one.
    fn note<T: Copy>(
        &mut self,
        (level, name): (Option<Level>, &'static str),
        found: Result<(T, bool), String>,
        words: impl Fn(&T) -> String,
        before: String,
    ) -> Option<T> {
        let measured = found.as_ref().ok().map(|(value, _)| *value);
        let result = found.map(|(value, noisy)| (words(&value), noisy));
        self.figures.push(StepOutcome { level, name, result, before });
        measured
    }

    fn call(&self, calls: &MeasuredCalls) -> Result<Point, String> {
        calm(|| (self.run)(calls)).map_err(|error| error.to_string())
    }
}

/// A time that follows from a point, and whether that is noisy.
fn noted(point: &Point, ns: f64) -> (f64, bool) {
    (rounded(ns.max(0.0)), point.spread > NOISY)
}

fn time_of(ns: &f64) -> String {
    time(*ns)
}

/// The figures as a table.
pub fn table(figures: &[StepOutcome]) -> String {
    let mut table = terminal::table(" level | step of collectives |  | (before) | ");
    for figure in figures {
        let level = figure.level.map_or("any", level_name);
        let (now, remark) = match &figure.result {
            Ok((now, noisy)) => (now.as_str(), if *noisy { "noisy" } else { "" }),
            Err(why) => ("as before", why.lines().next().unwrap_or_default()),
        };
        let name = figure.name.trim_end_matches("_ns");
        table.add_row([&format!(" {level}"), name, now, &figure.before, remark]);
    }
    table.trim_fmt()
}

/// Runs the calls that [`measure`] asks for.
pub fn runner(
    installation: &Installation,
    seconds: f64,
) -> impl Fn(&MeasuredCalls) -> Result<Point, RunError> + '_ {
    move |calls| installation.call(calls, seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAIR: CorePair = CorePair { level: Level::Package, map_by: "l3" };

    /// The measurement that `truth` would give.
    fn time(truth: &CollectiveCosts, calls: &MeasuredCalls) -> Point {
        let cores = calls.pair.map_or(calls.ranks / 2, |_| 2);
        let MeasuredCalls { collective, bytes, ranks, .. } = *calls;
        let question = question(collective, bytes, PAIR.level, ranks, cores);
        let ns = match (collective, calls.family) {
            (Collective::Reduce, _) => truth.reduce_byte_ns * bytes as f64,
            (_, "shared") => predicted(truth, &question, Algorithm::Shared),
            (_, "direct") => predicted(truth, &question, Algorithm::Direct),
            (_, "messages") => predicted(truth, &question, Algorithm::Dissemination),
            (_, family) => panic!("{family} is not forced"),
        };
        Point { len: bytes as u64, ns, spread: 0.01 }
    }

    #[test]
    fn what_is_true_is_found() {
        let mut truth = CollectiveCosts::default();
        truth.switch_ns = 1900.0;
        truth.round_ns = 120.0;
        truth.reduce_byte_ns = 0.07;
        truth.set(
            PAIR.level,
            LevelCosts {
                sync_ns: 77.0,
                expose_ns: 333.0,
                copy: Some(PathCost::new(0.0, &[(0, 0.05), (4 << 20, 0.08)])),
            },
        );
        for pace in [Pace::Quick, Pace::Thorough] {
            let before = CollectiveCosts::default();
            let run = |calls: &MeasuredCalls| Ok(time(&truth, calls));
            let (tuning, figures) = measure(&[PAIR], pace, &before, &truth.messages, &run);
            let near = |found: Option<f64>, truth: f64| {
                let found = found.expect("was measured");
                assert!((found / truth - 1.0).abs() < 0.05, "{found} for {truth}");
            };
            near(tuning.switch_ns, truth.switch_ns);
            near(tuning.round_ns, truth.round_ns);
            near(tuning.reduce_byte_ns, truth.reduce_byte_ns);
            let [(level, found)] = tuning.levels[..] else {
                panic!("one level was measured: {tuning:?}")
            };
            assert_eq!(level, PAIR.level);
            near(found.sync_ns, 77.0);
            near(found.expose_ns, 333.0);
            let copy = found.copy.expect("was measured");
            for bytes in [64 << 10, 1 << 20, 4 << 20] {
                near(Some(copy.copy_ns(bytes, 1)), truth.copy_ns(PAIR.level, bytes, 0));
            }
            let text = table(&figures);
            for part in ["package", "sync", "77 ns", "0.05, ", "as through cells", "1.90 us"] {
                assert!(pace == Pace::Quick || text.contains(part), "{part}: {text}");
            }
        }
    }

    #[test]
    fn unmeasured_costs_stay_as_shipped() {
        let before = CollectiveCosts::default();
        let run = |_: &MeasuredCalls| Err(RunError::Messages);
        let (tuning, figures) = measure(&[PAIR], Pace::Quick, &before, &before.messages, &run);
        assert_eq!(tuning, CollectiveTuning::default());
        assert_eq!(figures.len(), 6);
        let text = table(&figures);
        assert!(text.contains("the collectives sent messages"), "{text}");
        assert_eq!(text.matches("as before").count(), 6, "{text}");
    }
}
