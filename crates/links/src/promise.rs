//! What the description of a machine promises for the observed calls, and the link whose slowness
//! would explain that they take longer.
//!
//! Statistics of one observation find what makes some calls slower than others; a link that is slow
//! in every call they cannot find. So the same schedule is modelled on the machine as described,
//! without other traffic. If the observed calls take at least [`SLOWER`] times as long, there are
//! these explanations: all parts of the machine are slower alike, or one link is, in both
//! directions, by as much as makes the modelled calls as long as the observed ones. Each is
//! modelled, and judged by when the ranks enter and leave a call: the relative error over all ranks
//! of the medians over the calls. Those that fit as well as the best, or within the noise of the
//! observation, are named together.

use mica_machine::ChipMachine;
use serde::Serialize;

use crate::background::Background;
use crate::data::{Calls, DataError, Observation};
use crate::model::ModelPlan;
use crate::schedule::RecordedSchedule;

/// Calls that take at most this many times the promised time are as promised: the model leaves out
/// what takes some time on any machine.
const SLOWER: f64 = 1.5;
/// Modelled calls: the first ones find the ranks in step, the later ones as consecutive calls do.
const MODELLED: usize = 5;
/// A link's bandwidth is divided by this at most.
const SLOWEST: f64 = 256.0;
/// A modelled call that differs from the observed one by less than this share lasts as long.
const EXACT: f64 = 1e-6;
/// Explanations whose errors are within this factor of the best one's fit equally well.
const SAME: f64 = 1.25;
/// So do those with errors below this: the model's own rounding.
const ROUNDING: f64 = 1e-5;
/// Links that a sentence names at most.
const NAMED: usize = 4;

/// Observed and promised times of a workload's calls.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Promise {
    /// The description's name.
    pub machine: String,
    /// Median seconds of a call as promised.
    pub promised: f64,
    /// Median seconds as observed.
    pub observed: f64,
    /// The relative error of the ranks' times if all parts are slower alike.
    pub error_alike: f64,
    /// That explains the ranks' times as well as any link does.
    pub fits_alike: bool,
    /// Links that explain the ranks' times as well as anything else does, the best first; none if
    /// the calls are as promised.
    pub suspects: Vec<SlowLink>,
}

/// A link that would explain the times if it were slower than described.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SlowLink {
    /// The chips at its ends.
    pub between: (usize, usize),
    /// The share of the described bandwidth that explains the time of the calls.
    pub bandwidth_share: f64,
    /// The relative error of the ranks' times.
    pub error: f64,
}

impl Promise {
    /// How many times as long as promised the calls take.
    pub fn slow_down(&self) -> f64 {
        self.observed / self.promised
    }

    /// Whether the calls take as long as promised, or what the model leaves out explains the rest.
    pub fn is_kept(&self) -> bool {
        self.slow_down() < SLOWER
    }

    /// A sentence for the user.
    pub fn text(&self) -> String {
        let us = |seconds: f64| format!("{:.1} us", seconds * 1e6);
        let times = format!("{} instead of {}", us(self.observed), us(self.promised));
        let machine = &self.machine;
        if self.is_kept() {
            return format!(
                "The median call takes {:.2} times what the description of {machine} promises \
                 ({times}): no link is slow in every call.",
                self.slow_down()
            );
        }
        let start = format!(
            "Every call is slow beside the description of {machine}: the median takes {:.1} times \
             as long as promised ({times})",
            self.slow_down()
        );
        let named = |link: &SlowLink| {
            let (from, to) = link.between;
            format!("link {from}-{to} at {:.0} % of its bandwidth", 100.0 * link.bandwidth_share)
        };
        let mut named: Vec<String> = self.suspects.iter().take(NAMED).map(named).collect();
        if self.suspects.len() > NAMED {
            named.push("some other link".to_owned());
        }
        match (named.is_empty(), self.fits_alike) {
            (true, _) => format!(
                "{start}, and no single link explains when the ranks enter and leave: processors, \
                 memory or the library are slower than described, or the ranks run elsewhere."
            ),
            (false, false) => format!(
                "{start}. When the ranks enter and leave is explained by {}.",
                named.join(", or by ")
            ),
            (false, true) => format!(
                "{start}. When the ranks enter and leave does not tell whether by all parts, or by \
                 {}.",
                named.join(", or by ")
            ),
        }
    }
}

/// Compares the calls of a workload with what `machine` promises for `schedule`.
///
/// # Errors
/// If the numbers of the machine lead to times that are not finite.
pub fn compare(
    observation: &Observation,
    workload: usize,
    machine: &ChipMachine,
    schedule: &RecordedSchedule,
) -> Result<Promise, DataError> {
    let chips = &observation.provenance.rank_chips;
    let chips: Vec<usize> = chips.iter().map(|&chip| chip as usize % machine.chips()).collect();
    let modelled = |machine: &ChipMachine| {
        let background = Background::none();
        let plan = ModelPlan {
            machine,
            schedule,
            background: &background,
            chips: chips.clone(),
            count: MODELLED,
            seed: 1,
        };
        let calls = plan.observe(&mut |_| ())?.calls;
        Ok::<RankTimes, DataError>(RankTimes::of(&calls, 0))
    };
    let observed = RankTimes::of(&observation.calls, workload);
    let promised = modelled(machine)?;
    let mut promise = Promise {
        machine: machine.name().to_owned(),
        promised: promised.call,
        observed: observed.call,
        error_alike: observed.error(&promised.scaled(observed.call / promised.call)),
        fits_alike: true,
        suspects: Vec::new(),
    };
    if promise.is_kept() {
        return Ok(promise);
    }
    for pair in 0..machine.links().len() / 2 {
        let slower = |log: f64| modelled(&machine.with_slower_link(pair, log.exp()));
        let Some((log, times)) = root(observed.call, &promised, slower)? else { continue };
        let link = machine.links()[2 * pair];
        promise.suspects.push(SlowLink {
            between: (link.from, link.to),
            bandwidth_share: (-log).exp(),
            error: observed.error(&times),
        });
    }
    promise.suspects.sort_by(|a, b| a.error.total_cmp(&b.error));
    let best = promise.suspects.iter().map(|link| link.error).fold(promise.error_alike, f64::min);
    let fits = |error: f64| error <= (best * SAME).max(observed.noise).max(ROUNDING);
    promise.fits_alike = fits(promise.error_alike);
    promise.suspects.retain(|link| fits(link.error));
    Ok(promise)
}

/// The logarithm of a link's slowness that makes the calls last `wanted` seconds, and their times
/// then; none if no slowness does. The time grows with the slowness, so this is a root between two
/// ends: found by false position (Illinois algorithm), on logarithmic scales.
fn root(
    wanted: f64,
    promised: &RankTimes,
    slower: impl Fn(f64) -> Result<RankTimes, DataError>,
) -> Result<Option<(f64, RankTimes)>, DataError> {
    let off = |times: &RankTimes| (times.call / wanted).ln();
    let (mut low, mut high) = (0.0, SLOWEST.ln());
    let (mut below, mut above) = (off(promised), off(&slower(high)?));
    if above < 0.0 {
        return Ok(None);
    }
    let mut side = 0;
    loop {
        let middle = (low * above - high * below) / (above - below);
        let times = slower(middle)?;
        let here = off(&times);
        if here.abs() < EXACT || high - low < EXACT {
            return Ok(Some((middle, times)));
        }
        // An end that stays twice weighs half.
        if here < 0.0 {
            (low, below) = (middle, here);
            above /= if side == -1 { 2.0 } else { 1.0 };
            side = -1;
        } else {
            (high, above) = (middle, here);
            below /= if side == 1 { 2.0 } else { 1.0 };
            side = 1;
        }
    }
}

/// When the ranks enter and leave a call, in seconds from its start: medians over the calls.
#[derive(Debug, Clone)]
struct RankTimes {
    call: f64,
    ranks: Vec<f64>,
    /// How well the medians are known: root mean square over the ranks of their standard errors
    /// (from the middle half of the calls), relative to the call's time.
    noise: f64,
}

impl RankTimes {
    fn of(calls: &Calls, workload: usize) -> RankTimes {
        let rows: Vec<usize> =
            (0..calls.len()).filter(|&call| calls.workload[call] as usize == workload).collect();
        // The median, and the width of the middle half over the root of the number.
        let of = |value: &dyn Fn(usize) -> f64| {
            let mut values: Vec<f64> = rows.iter().map(|&call| value(call)).collect();
            values.sort_by(f64::total_cmp);
            let at = |share: usize| values.get(values.len() * share / 4).copied().unwrap_or(0.0);
            (at(2), (at(3) - at(1)) / (values.len().max(1) as f64).sqrt())
        };
        let both = calls.rank_entry.iter().zip(&calls.rank_time);
        let (ranks, errors): (Vec<f64>, Vec<f64>) = both
            .flat_map(|(entry, time)| {
                [of(&|call| entry[call]), of(&|call| entry[call] + time[call])]
            })
            .unzip();
        let call = of(&|call| calls.time[call]).0;
        let squares: f64 = errors.iter().map(|error| (error / call).powi(2)).sum();
        RankTimes { call, noise: (squares / errors.len().max(1) as f64).sqrt(), ranks }
    }

    fn scaled(&self, factor: f64) -> RankTimes {
        let ranks = self.ranks.iter().map(|time| time * factor);
        RankTimes { call: self.call * factor, ranks: ranks.collect(), noise: self.noise }
    }

    /// Root mean square of the differences, relative to the call's time.
    fn error(&self, other: &RankTimes) -> f64 {
        let both = self.ranks.iter().zip(&other.ranks);
        let squares: f64 = both.map(|(a, b)| ((a - b) / self.call).powi(2)).sum();
        (squares / self.ranks.len().max(1) as f64).sqrt()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::observe_model;

    /// Calls on the paper's machine with one link at a share of its bandwidth, without other
    /// traffic; all are alike.
    fn planted(pair: usize, factor: f64) -> (ChipMachine, RecordedSchedule, Observation) {
        let machine = ChipMachine::named("x4600").expect("shipped");
        let schedule = RecordedSchedule::shipped("allreduce-16384-direct").expect("shipped");
        let slow = machine.with_slower_link(pair, factor);
        let observed = observe_model(&slow, &schedule, &Background::none(), 24, 1).expect("calls");
        (machine, schedule, observed)
    }

    #[test]
    fn link_that_is_always_slow_is_named() {
        let (machine, schedule, observed) = planted(1, 8.0);
        let promise = compare(&observed, 0, &machine, &schedule).expect("a comparison");
        let [link] = promise.suspects.as_slice() else {
            panic!("one link explains it: {promise:?}");
        };
        assert_eq!(link.between, (0, 2));
        assert!((0.124..0.126).contains(&link.bandwidth_share) && !promise.fits_alike, "{link:?}");
        let text = promise.text();
        assert!(
            text.contains("Every call is slow") && text.contains("by link 0-2 at 12 %"),
            "{text}"
        );
    }

    /// With noise of one part in a hundred no part can be told from another, and that is said.
    #[test]
    fn noise_leaves_open_which_part_is_slow() {
        let (machine, schedule, mut observed) = planted(1, 8.0);
        let calls = &mut observed.calls;
        let mut random = fastrand::Rng::with_seed(5);
        for call in 0..calls.time.len() {
            let factor = 1.0 + 0.02 * (random.f64() - 0.5);
            let columns = calls.rank_entry.iter_mut().chain(&mut calls.rank_time);
            columns.chain([&mut calls.time]).for_each(|column| column[call] *= factor);
        }
        let promise = compare(&observed, 0, &machine, &schedule).expect("a comparison");
        assert!(promise.fits_alike && promise.suspects.len() > NAMED, "{promise:?}");
        let text = promise.text();
        assert!(text.contains("does not tell") && text.contains("some other link"), "{text}");
    }

    #[test]
    fn machine_that_is_as_described_has_no_slow_link() {
        let (machine, schedule, observed) = planted(0, 1.0);
        let promise = compare(&observed, 0, &machine, &schedule).expect("a comparison");
        assert!(promise.is_kept() && promise.suspects.is_empty(), "{promise:?}");
        assert!(promise.text().contains("no link is slow in every call"), "{}", promise.text());
    }

    #[test]
    fn machine_that_is_slower_alike_blames_no_link() {
        let (machine, schedule, mut observed) = planted(0, 1.0);
        let calls = &mut observed.calls;
        let columns = calls.rank_entry.iter_mut().chain(&mut calls.rank_time);
        columns.chain([&mut calls.time]).flatten().for_each(|time| *time *= 3.0);
        let promise = compare(&observed, 0, &machine, &schedule).expect("a comparison");
        assert!((promise.slow_down() - 3.0).abs() < 0.2, "{promise:?}");
        assert!(promise.suspects.is_empty(), "{promise:?}");
        assert!(promise.text().contains("no single link explains"), "{}", promise.text());
    }
}
