//! The predictor on worlds whose answer is known.

use fastrand::Rng;

use super::*;
use crate::analysis::cluster::TimeClass;

/// Two links. Each is now and then busy for a while; a call by schedule 0 needs link 0, one by
/// schedule 1 link 1, and takes `slow` times as long if that is busy when it begins.
struct TwoLinks {
    rng: Rng,
    now: f64,
    /// Until when each link is in its state, and whether it is busy.
    until: [f64; 2],
    busy: [bool; 2],
    lasts: f64,
    slow: f64,
}

impl TwoLinks {
    fn new(seed: u64, lasts: f64, slow: f64) -> TwoLinks {
        TwoLinks {
            rng: Rng::with_seed(seed),
            now: 0.0,
            until: [0.0; 2],
            busy: [true; 2],
            lasts,
            slow,
        }
    }

    fn advance(&mut self, seconds: f64) {
        self.now += seconds;
        for link in 0..2 {
            while self.until[link] <= self.now {
                self.busy[link] = !self.busy[link];
                let mean = if self.busy[link] { self.lasts } else { 20.0 };
                self.until[link] += mean * (0.5 + self.rng.f64());
            }
        }
    }
}

impl PredictorWorld for TwoLinks {
    fn load(&mut self, link: usize) -> f64 {
        self.advance(0.0);
        f64::from(u8::from(self.busy[link])) + 0.2 * self.rng.f64()
    }

    fn wait(&mut self, seconds: f64) {
        self.advance(seconds);
    }

    fn call(&mut self, schedule: usize) -> f64 {
        self.advance(0.0);
        let seconds = if self.busy[schedule] { self.slow } else { 1.0 };
        self.advance(seconds);
        seconds
    }
}

/// 200 calls in each of 20 worlds.
const TRIAL: PayoffTrial = PayoffTrial { calls: 200, first_seed: 0, worlds: 20 };

/// A predictor for a schedule, learnt in a world of its own.
fn predictor(schedule: usize, lasts: f64, slow: f64) -> SchedulePredictor {
    let (_, features, durations) = learnt(schedule, lasts, slow);
    let columns: Vec<&[f64]> = features.iter().map(Vec::as_slice).collect();
    let time = |class: &TimeClass| if *class == TimeClass::Long { slow } else { 1.0 };
    let seconds: Vec<f64> = durations.iter().map(time).collect();
    SchedulePredictor::learn(&columns, &durations, &seconds)
}

/// A tree for a schedule, learnt in a world of its own.
fn learnt(schedule: usize, lasts: f64, slow: f64) -> (DecisionTree, Vec<Vec<f64>>, Vec<TimeClass>) {
    let mut world = TwoLinks::new(99, lasts, slow);
    let mut features = vec![Vec::new(), Vec::new()];
    let mut durations = Vec::new();
    for _ in 0..400 {
        (0..2).for_each(|link| features[link].push(world.load(link)));
        durations.push(if world.call(schedule) > 1.0 { TimeClass::Long } else { TimeClass::Short });
    }
    let columns: Vec<&[f64]> = features.iter().map(Vec::as_slice).collect();
    let tree = DecisionTree::learn(&columns, &durations, &(0..400).collect::<Vec<usize>>());
    (tree, features, durations)
}

#[test]
fn beats_the_constant_guess_where_load_tells() {
    let (tree, features, durations) = learnt(0, 6.0, 5.0);
    assert_eq!(tree.links(), [0]);
    let columns: Vec<&[f64]> = features.iter().map(Vec::as_slice).collect();
    let validation = validate(&columns, &durations, 200, 3).unwrap();
    assert!(validation.beats_constant, "{validation:?}");
    assert!(validation.accuracy > 0.98 && validation.constant < 0.95, "{validation:?}");
    assert_eq!(validation.confusion.iter().flatten().sum::<usize>(), 400);
}

#[test]
fn does_not_beat_the_constant_guess_on_noise() {
    let mut beats = 0;
    for seed in 0..20 {
        let mut rng = Rng::with_seed(seed);
        let mut column = || (0..400).map(|_| rng.f64()).collect::<Vec<f64>>();
        let (one, two, time) = (column(), column(), column());
        let duration = |time: &f64| match time {
            t if *t > 0.97 => TimeClass::Long,
            t if *t > 0.90 => TimeClass::Medium,
            _ => TimeClass::Short,
        };
        let durations: Vec<TimeClass> = time.iter().map(duration).collect();
        beats += u32::from(validate(&[&one, &two], &durations, 200, seed).unwrap().beats_constant);
    }
    assert!(beats <= 1, "{beats} of 20");
    assert!(validate(&[&[1.0; 100]], &[TimeClass::Short; 100], 10, 0).is_none());
}

#[test]
fn reads_three_links_at_most() {
    let mut rng = Rng::with_seed(4);
    let columns: Vec<Vec<f64>> = (0..8).map(|_| (0..500).map(|_| rng.f64()).collect()).collect();
    let durations: Vec<TimeClass> = (0..500)
        .map(|call| {
            let high = columns.iter().filter(|column| column[call] > 0.6).count();
            [TimeClass::Short, TimeClass::Medium, TimeClass::Long][high / 3]
        })
        .collect();
    let features: Vec<&[f64]> = columns.iter().map(Vec::as_slice).collect();
    let tree = DecisionTree::learn(&features, &durations, &(0..500).collect::<Vec<usize>>());
    assert!((1..=3).contains(&tree.links().len()), "{:?}", tree.links());
}

#[test]
fn choosing_pays_where_schedules_use_other_links() {
    let predictors = [0, 1].map(|schedule| predictor(schedule, 6.0, 5.0));
    let runs = choosing(|seed| TwoLinks::new(seed, 6.0, 5.0), &predictors, 0, TRIAL);
    assert_eq!(runs.against_best.verdict, PayoffVerdict::Pays, "{runs:?}");
    assert!(runs.against_fixed.saved >= runs.against_best.saved, "{runs:?}");
    assert!(runs.alone.iter().all(|seconds| *seconds > 1.0));
}

/// Idle links: schedule 0 takes 2 s, schedule 1 takes 1 s.
struct Idle;

impl PredictorWorld for Idle {
    fn load(&mut self, _link: usize) -> f64 {
        0.0
    }

    fn wait(&mut self, _seconds: f64) {}

    fn call(&mut self, schedule: usize) -> f64 {
        [2.0, 1.0][schedule]
    }
}

#[test]
fn choosing_takes_the_faster_schedule_if_both_are_predicted_short() {
    let predictors = [2.0, 1.0].map(|seconds| SchedulePredictor {
        seconds: [seconds, 10.0, 20.0],
        ..predictor(0, 6.0, 5.0)
    });
    let runs = choosing(|_| Idle, &predictors, 0, TRIAL);
    assert_eq!(runs.alone, [2.0, 1.0]);
    assert_eq!((runs.against_fixed.saved, runs.against_best.saved), (0.5, 0.0));
}

#[test]
fn postponing_pays_only_if_the_wait_is_shorter_than_the_delay() {
    let limits = PostponeLimits { step: 0.5, readings: 100 };
    let run = |lasts, slow| {
        let tree = learnt(0, lasts, slow).0;
        postponing(|seed| TwoLinks::new(seed, lasts, slow), &tree, limits, TRIAL)
    };
    // A busy link of 1 s makes a call 20 s long: wait. One of 40 s makes it 2 s long: do not.
    let (short, long) = (run(1.0, 20.0), run(40.0, 2.0));
    assert_eq!(short.verdict, PayoffVerdict::Pays, "{short:?}");
    assert_eq!(long.verdict, PayoffVerdict::Costs, "{long:?}");
    assert!(long.waiting > 0.1);
    assert!(long.saved_in_calls > long.saved, "{long:?}");
}

#[test]
fn features_come_from_the_call_before() {
    assert_eq!(rates_before(&[1.0, 2.0, 4.0], &[&[10.0, 10.0, 10.0]]), [[0.0, 10.0, 5.0]]);
}
