//! Decides which of the measured figures are accepted: those that make choices faster, as verified
//! by measuring.
//!
//! A fit deviates from its points, and that can decide between two paths of nearly the same cost.
//! So what was fitted is only a candidate. For every probe (a message of some length, a call of a
//! collective) at which the candidate and the shipped figures choose differently, both choices are
//! measured alternately, in several rounds, as a program would use them. Of all subsets of the
//! candidate's parts that choose worse nowhere, the one with the greatest gain is accepted; if none
//! gains, the shipped figures stay. A choice that could not be measured in time counts as unproven:
//! no subset with that choice is accepted.
//!
//! Pure except for [`Candidate::measure`], so that the tests run it with invented times.

use std::collections::HashMap;
use std::hash::Hash;

/// Gains below this fraction do not justify a figure in the tuning file; losses below it are noise,
/// whatever the rounds show.
pub const MARGIN: f64 = 0.03;

/// The verdict of the rounds on a choice beside the shipped one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrialVerdict {
    /// It is faster.
    Better,
    /// Neither faster nor slower is proven.
    Same,
    /// It is slower.
    Worse,
}

/// Times of the shipped choice and of another one: one pair for each round, measured one after the
/// other.
#[derive(Debug, Clone, PartialEq)]
pub struct VerifiedSize {
    /// Nanoseconds by the shipped figures.
    pub shipped: Vec<f64>,
    /// Nanoseconds by the candidate's, in the same rounds.
    pub tuned: Vec<f64>,
}

/// Lower quartile, median and upper quartile; of few values the extremes. NaN if there are none.
fn quartiles(values: &[f64]) -> [f64; 3] {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().saturating_sub(1);
    let at = |at: usize| sorted.get(at).copied().unwrap_or(f64::NAN);
    [at(last / 4), at(last.div_ceil(2)), at((3 * last).div_ceil(4))]
}

/// The median.
pub fn median(values: &[f64]) -> f64 {
    quartiles(values)[1]
}

impl VerifiedSize {
    /// The candidate's time divided by the shipped one's, round by round: a disturbance of a round
    /// affects both.
    fn ratios(&self) -> Vec<f64> {
        let pairs = self.tuned.iter().zip(&self.shipped);
        pairs.map(|(tuned, shipped)| tuned / shipped).collect()
    }

    /// The median ratio.
    pub fn ratio(&self) -> f64 {
        median(&self.ratios())
    }

    /// Faster or slower only if the median ratio differs from 1 by more than [`MARGIN`], and both
    /// three quarters of the rounds and the medians of the two sides agree in the direction.
    pub fn verdict(&self) -> TrialVerdict {
        let [low, middle, high] = quartiles(&self.ratios());
        let medians = median(&self.tuned) / median(&self.shipped);
        if middle < 1.0 - MARGIN && high < 1.0 && medians < 1.0 {
            TrialVerdict::Better
        } else if middle > 1.0 + MARGIN && low > 1.0 && medians > 1.0 {
            TrialVerdict::Worse
        } else {
            TrialVerdict::Same
        }
    }

    /// Its weight among other gains: the fraction of time that is gained, on a scale on which a
    /// gain and a loss of the same factor cancel.
    fn gain(&self) -> f64 {
        match self.verdict() {
            TrialVerdict::Better => -self.ratio().ln(),
            TrialVerdict::Same | TrialVerdict::Worse => 0.0,
        }
    }
}

/// A subset of the candidate's parts, as bits.
pub type TrialParts = u32;

/// The largest number of parts: above it there are too many subsets to search.
pub const PARTS_MAX: usize = 13;

/// Figures that may take the place of the shipped ones, in parts, and how each part is tried.
pub trait Candidate {
    /// A message or a call for which choices are compared.
    type Probe: ProbeKey;
    /// The path or algorithm that is chosen for it.
    type Choice: ProbeKey;

    /// Number of the candidate's parts.
    fn parts(&self) -> usize;

    /// The probes at which a subset chooses differently from the shipped figures, and its choices.
    fn differing(&self, parts: TrialParts) -> Vec<(Self::Probe, Self::Choice)>;

    /// An additional gain of a subset that was measured elsewhere.
    fn bonus(&self, _parts: TrialParts) -> f64 {
        0.0
    }

    /// Measures a probe with this subset and with the shipped figures. `None`: there is no time
    /// left, or it failed.
    fn measure(&mut self, probe: Self::Probe, parts: TrialParts) -> Option<VerifiedSize>;
}

/// The measurements and the result.
#[derive(Debug)]
pub struct Verified<P, C> {
    /// The parts that are accepted.
    pub accepted: TrialParts,
    /// The gain of the accepted parts.
    pub gain: f64,
    /// Every choice that was measured, in the order of measuring, with its times; `None` if it
    /// could not be measured.
    pub trials: Vec<(P, C, Option<VerifiedSize>)>,
}

/// A type that identifies a probe or a choice.
pub trait ProbeKey: Copy + Eq + Hash {}
impl<T: Copy + Eq + Hash> ProbeKey for T {}

/// The measurements of each choice; `None`: it could not be measured.
type Known<P, C> = HashMap<(P, C), Option<VerifiedSize>>;

/// A subset, and its choices that differ from those of the shipped figures.
struct Subset<P, C> {
    parts: TrialParts,
    differing: Vec<(P, C)>,
    bonus: f64,
}

/// The state of a subset.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Standing {
    gain: f64,
    /// The number of choices that were not measured yet.
    open: usize,
    /// True if it chooses worse somewhere, or a choice could not be measured.
    is_out: bool,
}

/// The assumed gain of a part in a subset with choices that were not measured yet: less than any
/// measured gain. Figures that were measured together fit each other better than a mixture with
/// shipped ones, so larger subsets are tried first.
const HOPE: f64 = 0.001;

/// Measures what is needed for the decision, and decides.
pub fn verify<A: Candidate>(candidate: &mut A) -> Verified<A::Probe, A::Choice> {
    let parts = candidate.parts();
    assert!(parts <= PARTS_MAX, "{parts} parts are too many");
    let subsets: Vec<Subset<A::Probe, A::Choice>> = (1..1 << parts)
        .map(|parts| Subset {
            parts,
            differing: candidate.differing(parts),
            bonus: candidate.bonus(parts),
        })
        .collect();
    let mut known: Known<A::Probe, A::Choice> = HashMap::new();
    let mut order = Vec::new();
    let (accepted, gain) = loop {
        let Some(subset) = best(&subsets, &known) else { break (0, 0.0) };
        let open = subset.differing.iter();
        let open: Vec<_> = open.filter(|key| !known.contains_key(key)).collect();
        if open.is_empty() {
            break (subset.parts, subset.standing(&known).gain);
        }
        for &(probe, choice) in open {
            let trial = candidate.measure(probe, subset.parts);
            let is_out = out(&trial);
            known.insert((probe, choice), trial);
            order.push((probe, choice));
            if is_out {
                // This subset cannot be accepted, whatever its other choices give.
                break;
            }
        }
    };
    let trials = order.into_iter().map(|(probe, choice)| {
        let trial = known.remove(&(probe, choice)).flatten();
        (probe, choice, trial)
    });
    Verified { accepted, gain, trials: trials.collect() }
}

fn out(trial: &Option<VerifiedSize>) -> bool {
    trial.as_ref().is_none_or(|trial| trial.verdict() == TrialVerdict::Worse)
}

/// The most promising subset that is not out: the one with the greatest gain, then with fewer
/// parts.
fn best<'a, P: ProbeKey, C: ProbeKey>(
    subsets: &'a [Subset<P, C>],
    known: &Known<P, C>,
) -> Option<&'a Subset<P, C>> {
    let candidates = subsets.iter().filter_map(|subset| {
        let standing = subset.standing(known);
        let hope = match standing.open {
            0 => 0.0,
            _ => HOPE * f64::from(subset.parts.count_ones()),
        };
        let worth = standing.gain + hope;
        (!standing.is_out && worth > 0.0).then_some((subset, worth))
    });
    let best = candidates.max_by(|(a, of_a), (b, of_b)| {
        let fewer = || b.parts.count_ones().cmp(&a.parts.count_ones());
        of_a.total_cmp(of_b).then_with(fewer)
    });
    best.map(|(subset, _)| subset)
}

impl<P: ProbeKey, C: ProbeKey> Subset<P, C> {
    fn standing(&self, known: &Known<P, C>) -> Standing {
        let mut standing = Standing { gain: self.bonus, open: 0, is_out: false };
        for key in &self.differing {
            match known.get(key) {
                None => standing.open += 1,
                Some(trial) => {
                    standing.is_out |= out(trial);
                    standing.gain += trial.as_ref().map_or(0.0, VerifiedSize::gain);
                }
            }
        }
        standing
    }
}

#[cfg(test)]
mod tests;
