//! Selects a collective's algorithm: the possible algorithm with the least estimate, unless a
//! tunable forces one.
//!
//! [`pick`] returns the algorithm and [`choose`] also the reasons; both evaluate each algorithm by
//! the same function, and [`pick`] does not allocate. Lengths are rounded down to size classes,
//! four to an octave, so that [`Choices`](super::Choices) can cache every answer in a small table
//! and still agree exactly.

use std::fmt;

use mica_node::tunables::{self, BadValue};

use super::costs::CollectiveCosts;
use super::formulas::load;
use super::{
    Algorithm, AlgorithmFamily, COLLECTIVES, Collective, CollectiveCall, OperandOrder, Reachability,
};

/// Why an algorithm is excluded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AlgorithmExclusion {
    /// The communicator has no shared area, where ranks also announce their buffers.
    NoArea,
    /// Some buffers cannot be accessed.
    NotReachable,
    /// There is nothing to copy.
    NoData,
    /// With this few ranks it is identical to another algorithm.
    FewRanks {
        /// Number of ranks from which on it differs.
        least: usize,
        /// The other algorithm.
        same: Algorithm,
    },
    /// The vector is too short to be divided among the ranks.
    TooShort {
        /// Bytes that are required.
        least: usize,
    },
    /// It changes the order of operands.
    Reorders,
    /// Possible, but this setting forces another one.
    Forced {
        /// The setting.
        by: ForcedValue,
    },
}

impl fmt::Display for AlgorithmExclusion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AlgorithmExclusion::NoArea => write!(f, "the communicator has no shared area"),
            AlgorithmExclusion::NotReachable => {
                write!(f, "ranks cannot get at one another's buffers")
            }
            AlgorithmExclusion::NoData => write!(f, "there is nothing to copy"),
            AlgorithmExclusion::FewRanks { least, same } => {
                write!(f, "with fewer than {least} ranks no better than {}", same.name())
            }
            AlgorithmExclusion::TooShort { least } => {
                write!(f, "fewer than {least} bytes cannot be divided among the ranks")
            }
            AlgorithmExclusion::Reorders => {
                write!(f, "the operator does not commute, and it changes the order of operands")
            }
            AlgorithmExclusion::Forced { by } => write!(f, "{by} forces another one"),
        }
    }
}

/// The algorithms that the environment forces. [`ForcedAlgorithms::default`] forces nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ForcedAlgorithms {
    family: Option<AlgorithmFamily>,
    algorithms: [Option<Algorithm>; COLLECTIVES],
}

impl ForcedAlgorithms {
    /// The value of `MICA_COLL`.
    ///
    /// # Errors
    /// If it is invalid.
    pub fn in_force() -> Result<ForcedAlgorithms, BadValue> {
        let list = tunables::COLL.list()?;
        let algorithm = |c: Collective| list.of(c.name()).and_then(Algorithm::parse);
        Ok(ForcedAlgorithms {
            family: AlgorithmFamily::parse(list.all()),
            algorithms: Collective::ALL.map(algorithm),
        })
    }

    /// These, with a family for all collectives.
    #[must_use]
    pub fn with_family(self, family: AlgorithmFamily) -> ForcedAlgorithms {
        ForcedAlgorithms { family: Some(family), ..self }
    }

    /// These, with an algorithm for a collective. An algorithm that the collective does not have
    /// forces nothing.
    #[must_use]
    pub fn with(mut self, collective: Collective, algorithm: Algorithm) -> ForcedAlgorithms {
        let has = collective.algorithms().contains(&algorithm);
        self.algorithms[collective as usize] = has.then_some(algorithm);
        self
    }

    /// The forced values for a collective, the more specific first.
    fn wishes(&self, collective: Collective) -> [Option<ForcedValue>; 2] {
        let algorithm = self.algorithms[collective as usize];
        [
            algorithm.map(|a| ForcedValue { collective: Some(collective), word: a.name() }),
            self.family.map(|family| ForcedValue { collective: None, word: family.name() }),
        ]
    }
}

/// A part of `MICA_COLL` other than `auto`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ForcedValue {
    /// The collective; `None`: all of them.
    pub collective: Option<Collective>,
    /// The algorithm, or the family.
    pub word: &'static str,
}

impl fmt::Display for ForcedValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}=", tunables::COLL.env)?;
        match self.collective {
            Some(collective) => write!(f, "{}={}", collective.name(), self.word),
            None => f.write_str(self.word),
        }
    }
}

impl ForcedValue {
    fn accepts(&self, algorithm: Algorithm) -> bool {
        self.word == algorithm.name() || self.word == algorithm.family().name()
    }
}

/// The evaluation of an algorithm.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AlgorithmEstimate {
    /// The algorithm.
    pub algorithm: Algorithm,
    /// Estimated nanoseconds; `None` if it is not possible.
    pub nanoseconds: Option<f64>,
    /// Why it is excluded, if it is.
    pub ruled_out: Option<AlgorithmExclusion>,
}

/// A forced value that could not be applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ForcedRefusal {
    /// The value.
    pub value: ForcedValue,
    /// Why not; `None`: the collective has no such algorithm.
    pub why: Option<AlgorithmExclusion>,
}

impl fmt::Display for ForcedRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ForcedRefusal { value, why } = self;
        match why {
            Some(why) => write!(f, "{value} is not heeded: {why}"),
            None => write!(f, "{value} is not heeded: there is no such algorithm"),
        }
    }
}

/// A choice with its reasons.
#[derive(Debug, Clone, PartialEq)]
pub struct AlgorithmDecision {
    /// The algorithm.
    pub algorithm: Algorithm,
    /// Estimated nanoseconds.
    pub nanoseconds: f64,
    /// The length used for the estimate: the shortest of its class.
    pub judged_bytes: usize,
    /// All algorithms of the collective, in the order of [`Collective::algorithms`].
    pub estimates: Vec<AlgorithmEstimate>,
    /// The value that forced it.
    pub forced_by: Option<ForcedValue>,
    /// The forced values that could not be applied.
    pub refused: Vec<ForcedRefusal>,
}

/// Size classes of an octave.
const PER_OCTAVE: usize = 4;
/// Longer calls are treated as if they had this length: 2 to this power.
pub(super) const OCTAVES: usize = 46;
/// Number of size classes: no bytes, and four to an octave.
pub(super) const CLASSES: usize = 1 + OCTAVES * PER_OCTAVE;

/// The size class of calls of `bytes` bytes.
#[inline]
pub(super) fn class_of(bytes: usize) -> usize {
    let Some(octave) = bytes.checked_ilog2() else {
        return 0;
    };
    if octave as usize >= OCTAVES {
        return CLASSES - 1;
    }
    // The two bits after the leading one.
    let quarter = ((bytes << 2) >> octave) & (PER_OCTAVE - 1);
    1 + octave as usize * PER_OCTAVE + quarter
}

/// The length used for the estimate of calls of `bytes` bytes: the shortest one of their class.
pub fn judged(bytes: usize) -> usize {
    match class_of(bytes) {
        0 => 0,
        class if class == CLASSES - 1 => (1 << (OCTAVES - 1)) / 4 * 7,
        _ => {
            let octave = bytes.ilog2();
            let unit = octave.saturating_sub(2);
            bytes >> unit << unit
        }
    }
}

/// Why an algorithm is excluded, if it is.
fn exclusion(question: &CollectiveCall, algorithm: Algorithm) -> Option<AlgorithmExclusion> {
    use Algorithm::{
        Binomial, Bruck, Direct, Exchange, Halving, Linear, Ring, ScatterRing, Shared,
    };
    use Collective::{Allgather, Allreduce, Alltoall, Gather, Reduce, ReduceScatter, Scatter};
    let setting = &question.setting;
    let differs_from = |least, same| {
        (setting.ranks < least).then_some(AlgorithmExclusion::FewRanks { least, same })
    };
    match (question.collective, algorithm) {
        (_, Shared | Direct) if setting.area_cell.is_none() => Some(AlgorithmExclusion::NoArea),
        (_, Direct) if question.reach == Reachability::None => {
            Some(AlgorithmExclusion::NotReachable)
        }
        (_, Direct) => (question.bytes == 0).then_some(AlgorithmExclusion::NoData),
        (_, ScatterRing) => differs_from(3, Binomial),
        (Gather | Scatter, Binomial) => differs_from(3, Linear),
        (Allgather, Ring) => differs_from(3, Bruck),
        (Alltoall, Bruck) => differs_from(4, Exchange),
        (ReduceScatter, Halving) => {
            (question.order == OperandOrder::ByRank).then_some(AlgorithmExclusion::Reorders)
        }
        (Reduce | Allreduce, Halving) => {
            let same = match question.collective {
                Reduce => Binomial,
                _ => Algorithm::Doubling,
            };
            let least = setting.ranks;
            differs_from(3, same).or_else(|| {
                (question.bytes < least).then_some(AlgorithmExclusion::TooShort { least })
            })
        }
        _ => None,
    }
}

/// The reason why an algorithm is excluded, or its estimated time.
fn weigh(
    costs: &CollectiveCosts,
    question: &CollectiveCall,
    algorithm: Algorithm,
) -> Result<f64, AlgorithmExclusion> {
    match exclusion(question, algorithm) {
        Some(why) => Err(why),
        None => {
            let setting = &question.setting;
            let load = load(costs, question, algorithm);
            Ok(load.ns(setting.ranks, setting.cores, costs.switch_ns))
        }
    }
}

/// The call with its length rounded down to the size class.
fn judged_question(question: &CollectiveCall) -> CollectiveCall {
    CollectiveCall { bytes: judged(question.bytes), ..*question }
}

/// The possible algorithm with the least estimate among those that `accepts` allows.
fn least(
    costs: &CollectiveCosts,
    question: &CollectiveCall,
    accepts: impl Fn(Algorithm) -> bool,
) -> Option<(Algorithm, f64)> {
    let mut best: Option<(Algorithm, f64)> = None;
    for &algorithm in question.collective.algorithms() {
        if accepts(algorithm)
            && let Ok(ns) = weigh(costs, question, algorithm)
            && best.is_none_or(|(_, least)| ns < least)
        {
            best = Some((algorithm, ns));
        }
    }
    best
}

/// The algorithm, its time and the forced value that was applied, among those that `accepts`
/// allows.
fn decide(
    costs: &CollectiveCosts,
    question: &CollectiveCall,
    forced: &ForcedAlgorithms,
    accepts: impl Fn(Algorithm) -> bool,
) -> Option<(Algorithm, f64, Option<ForcedValue>)> {
    for wish in forced.wishes(question.collective).into_iter().flatten() {
        let both = |algorithm| accepts(algorithm) && wish.accepts(algorithm);
        if let Some((algorithm, ns)) = least(costs, question, both) {
            return Some((algorithm, ns, Some(wish)));
        }
    }
    let (algorithm, ns) = least(costs, question, accepts)?;
    Some((algorithm, ns, None))
}

/// `decide` among all algorithms.
fn decide_of_all(
    costs: &CollectiveCosts,
    question: &CollectiveCall,
    forced: &ForcedAlgorithms,
) -> (Algorithm, f64, Option<ForcedValue>) {
    decide(costs, question, forced, |_| true).expect("messages carry every collective")
}

/// The algorithm of a call.
pub fn pick(
    costs: &CollectiveCosts,
    question: &CollectiveCall,
    forced: &ForcedAlgorithms,
) -> Algorithm {
    decide_of_all(costs, &judged_question(question), forced).0
}

/// The algorithm of a call whose ranks have announced their buffers, so that `question.reach` is
/// known. Algorithms of messages are excluded now, because all ranks have synchronised in the area.
/// [`Algorithm::Shared`] or [`Algorithm::Direct`].
pub fn pick_once_reachable(
    costs: &CollectiveCosts,
    question: &CollectiveCall,
    forced: &ForcedAlgorithms,
) -> Algorithm {
    let met = |algorithm: Algorithm| algorithm.family() != AlgorithmFamily::Messages;
    let decision = decide(costs, &judged_question(question), forced, met);
    decision.map_or(Algorithm::Shared, |(algorithm, ..)| algorithm)
}

/// The algorithm of a call, as [`pick`] returns it, with the estimates of all algorithms.
pub fn choose(
    costs: &CollectiveCosts,
    question: &CollectiveCall,
    forced: &ForcedAlgorithms,
) -> AlgorithmDecision {
    let question = judged_question(question);
    let (algorithm, nanoseconds, granted) = decide_of_all(costs, &question, forced);
    let estimates = question.collective.algorithms().iter().map(|&algorithm| {
        match weigh(costs, &question, algorithm) {
            Err(why) => AlgorithmEstimate { algorithm, nanoseconds: None, ruled_out: Some(why) },
            Ok(ns) => AlgorithmEstimate {
                algorithm,
                nanoseconds: Some(ns),
                ruled_out: granted
                    .filter(|wish| !wish.accepts(algorithm))
                    .map(|by| AlgorithmExclusion::Forced { by }),
            },
        }
    });
    // The forced values before the one that was applied.
    let refused = forced.wishes(question.collective).into_iter().flatten();
    let refused = refused.take_while(|wish| granted != Some(*wish)).map(|wish| {
        let mut wanted = question.collective.algorithms().iter();
        let wanted = wanted.find(|&&algorithm| wish.accepts(algorithm));
        ForcedRefusal {
            value: wish,
            why: wanted.and_then(|&algorithm| exclusion(&question, algorithm)),
        }
    });
    AlgorithmDecision {
        algorithm,
        nanoseconds,
        judged_bytes: question.bytes,
        refused: refused.collect(),
        estimates: estimates.collect(),
        forced_by: granted,
    }
}
