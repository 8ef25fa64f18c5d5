//! Studies on a modelled machine: how the share of the slowest calls depends on the background, and
//! whether the predictor pays there ([`ModelStudy`]).
//!
//! Sensitivity: the same calls under traffic of other intensities, one factor at a time around the
//! default: the part of a link that an I/O burst takes and the time between bursts; the number of
//! memory streams and how long they run. The default I/O was chosen to show the paper's 93 %, so
//! that number by itself shows nothing; the table says how far the choice carries it.
//!
//! Predictor: for each schedule a tree is learnt in a world of its own (load of every link before
//! each call, and the call's class), then used in worlds that it has not seen, with other seeds.

use mica_machine::ChipMachine;

use super::world::ModelWorld;
use crate::analysis::Columns;
use crate::analysis::cluster::{TimeClass, clusters};
use crate::analysis::distribution::distribution;
use crate::background::Background;
use crate::data::DataError;
use crate::intensity::{IoIntensity, StreamIntensity, TrafficIntensity};
use crate::model::observe_model;
use crate::predictor::payoff::{choosing, in_worlds, postponing};
use crate::predictor::{PayoffTrial, PostponeLimits, PredictorWorld, SchedulePredictor};
use crate::schedule::RecordedSchedule;
use crate::study::{BackgroundRow, ChoosingStudy, ModelStudy};

/// Seconds between two readings while a call is postponed. The shortest I/O burst is 8 ms.
const WAIT_STEP: f64 = 1e-3;

/// Readings after which a postponed call is made: about the longest I/O burst.
const WAITS_MAX: usize = 600;

/// Calls that a tree is learnt from: enough that some hundred are slow.
const LEARNT: usize = 1500;

/// Seeds of worlds that trees are learnt in are this far from those that they are used in.
const LEARNING_SEED: u64 = 1 << 32;

/// Intensities of I/O for the sensitivity table: share of a link, seconds between bursts.
pub const IO_INTENSITIES: [TrafficIntensity; 9] = {
    let IoIntensity { share, quiet } = IoIntensity::DEFAULT;
    [
        io(0.5, quiet),
        io(0.9, quiet),
        io(0.99, quiet),
        io(0.999, quiet),
        io(share, quiet),
        io(share, quiet / 4.0),
        io(share, quiet * 4.0),
        io(share, quiet * 16.0),
        io(share, quiet * 64.0),
    ]
};

/// The same for memory streams: streams from each chip, seconds that they run.
pub const STREAM_INTENSITIES: [TrafficIntensity; 6] = {
    let StreamIntensity { streams, time } = StreamIntensity::DEFAULT;
    [
        of_streams(streams, time),
        of_streams(streams * 4, time),
        of_streams(streams * 16, time),
        of_streams(streams * 64, time),
        of_streams(streams, time * 10.0),
        of_streams(streams * 64, time * 10.0),
    ]
};

const fn io(share: f64, quiet: f64) -> TrafficIntensity {
    TrafficIntensity::Io(IoIntensity { share, quiet })
}

const fn of_streams(streams: u32, time: f64) -> TrafficIntensity {
    TrafficIntensity::Streams(StreamIntensity { streams, time })
}

/// What is studied.
#[derive(Debug, Clone, Copy)]
pub struct StudyPlan<'a> {
    /// The machine.
    pub machine: &'a ChipMachine,
    /// Schedules of the same collective, length and number of ranks; the first is postponed.
    pub schedules: &'a [(&'a str, &'a RecordedSchedule)],
    /// The background of the uses of the predictor.
    pub background: &'a Background,
    /// Those of the sensitivity table.
    pub intensities: &'a [TrafficIntensity],
    /// Worlds, their calls, and their first seed.
    pub trial: PayoffTrial,
}

impl StudyPlan<'_> {
    /// Number of parts of the study, for a progress bar.
    pub fn steps(&self) -> u64 {
        self.intensities.len() as u64 + 3
    }
}

/// Runs all studies; `done` is called after each of [`StudyPlan::steps`] parts.
///
/// # Errors
/// If the numbers of the machine lead to times that are not finite.
pub fn study(plan: &StudyPlan, done: &(dyn Fn() + Sync)) -> Result<ModelStudy, DataError> {
    let mut sensitivity = Vec::new();
    for intensity in plan.intensities {
        sensitivity.push(sensitivity_row(plan, *intensity)?);
        done();
    }
    let schedules: Vec<&RecordedSchedule> =
        plan.schedules.iter().map(|(_, schedule)| *schedule).collect();
    let new_world = |seed| ModelWorld::new(plan.machine, &schedules, plan.background, seed);
    let learnt: Vec<(SchedulePredictor, f64)> = (0..schedules.len())
        .map(|schedule| learn(new_world(plan.trial.first_seed + LEARNING_SEED), schedule, plan))
        .collect();
    done();
    let limits = PostponeLimits { step: WAIT_STEP, readings: WAITS_MAX };
    let postponing = postponing(new_world, &learnt[0].0.tree, limits, plan.trial);
    done();
    let fixed = (0..learnt.len()).min_by(|a, b| learnt[*a].1.total_cmp(&learnt[*b].1));
    let predictors: Vec<SchedulePredictor> = learnt.into_iter().map(|(one, _)| one).collect();
    let runs = choosing(new_world, &predictors, fixed.unwrap_or(0), plan.trial);
    done();
    Ok(ModelStudy {
        sensitivity,
        calls: plan.trial.calls,
        worlds: plan.trial.worlds as usize,
        postponing,
        choosing: ChoosingStudy {
            schedules: plan.schedules.iter().map(|(name, _)| (*name).to_owned()).collect(),
            alone: runs.alone,
            against_best: runs.against_best,
            against_fixed: runs.against_fixed,
        },
    })
}

fn sensitivity_row(
    plan: &StudyPlan,
    intensity: TrafficIntensity,
) -> Result<BackgroundRow, DataError> {
    let background = Background::of(plan.machine, intensity);
    let schedule = plan.schedules[0].1;
    let runs = in_worlds(plan.trial, |seed| {
        let calls = plan.trial.calls;
        let observed = observe_model(plan.machine, schedule, &background, calls, seed)?;
        let all = distribution(&observed.calls.time);
        Ok(all.map_or((0.0, 0.0), |all| (all.slowest_share, all.max / all.median.max(1e-12))))
    });
    let runs: Vec<(f64, f64)> = runs.into_iter().collect::<Result<_, DataError>>()?;
    let shares = || runs.iter().map(|run| run.0);
    let worlds = runs.len().max(1) as f64;
    Ok(BackgroundRow {
        intensity,
        is_default: intensity.is_default(),
        slowest_share: shares().sum::<f64>() / worlds,
        least: shares().fold(f64::INFINITY, f64::min),
        highest: shares().fold(0.0, f64::max),
        longest: runs.iter().map(|run| run.1).sum::<f64>() / worlds,
    })
}

/// The predictor of a schedule, and the mean seconds of the calls learnt from.
fn learn(mut world: ModelWorld, schedule: usize, plan: &StudyPlan) -> (SchedulePredictor, f64) {
    let mut features: Vec<Vec<f64>> = vec![Vec::new(); plan.machine.links().len()];
    let mut seconds = Vec::new();
    for _ in 0..LEARNT.min(10 * plan.trial.calls) {
        for (link, column) in features.iter_mut().enumerate() {
            column.push(world.load(link));
        }
        seconds.push(world.call(schedule));
    }
    let columns: Vec<&[f64]> = features.iter().map(Vec::as_slice).collect();
    let (found, member) = clusters(&Columns { seconds: &seconds, loads: &columns });
    let classes: Vec<TimeClass> = member.iter().map(|at| found[*at].duration).collect();
    let mean = seconds.iter().sum::<f64>() / seconds.len().max(1) as f64;
    (SchedulePredictor::learn(&columns, &classes, &seconds), mean)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn studies_are_equal_for_equal_seeds_and_complete() {
        let machine = ChipMachine::named("upi-2").expect("shipped");
        let schedule = RecordedSchedule::shipped("barrier").expect("shipped");
        let background = Background::io(&machine);
        let plan = StudyPlan {
            machine: &machine,
            schedules: &[("one", &schedule), ("two", &schedule)],
            background: &background,
            intensities: &[IO_INTENSITIES.as_slice(), &STREAM_INTENSITIES].concat(),
            trial: PayoffTrial { calls: 20, first_seed: 3, worlds: 2 },
        };
        let parts = std::sync::atomic::AtomicU64::new(0);
        let count = || {
            parts.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        };
        let first = study(&plan, &count).expect("finite");
        assert_eq!(parts.into_inner(), plan.steps());
        assert_eq!(first, study(&plan, &|| ()).expect("finite"));
        assert_eq!(
            first.sensitivity.iter().filter(|row| row.is_default).count(),
            2,
            "of I/O and of streams"
        );
        // Two names of one schedule: neither can be better.
        assert_eq!(first.choosing.alone[0], first.choosing.alone[1]);
        assert!(first.choosing.against_best.saved.abs() < 1e-12);
    }
}
