//! The choice of a collective's algorithm: the least estimate of those that are possible, unless a
//! tunable forces one.
//!
//! [`pick`] answers the algorithm and [`choose`] everything that led to it; both ask the same
//! function about each algorithm, and [`pick`] does not allocate. Lengths are judged by classes,
//! four to an octave, so that [`Choices`](super::Choices) can keep every answer in a small table
//! and still agree to the byte.

use std::fmt;

use mica_node::tunables::{self, BadValue, Tunable};

use super::costs::CollectiveCosts;
use super::formulas::load;
use super::{Algorithm, AlgorithmFamily, COLLECTIVES, Collective, CollectiveCall, Reachability};

/// Why an algorithm is out of the question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AlgorithmExclusion {
    /// The communicator has no shared area, where ranks also tell of their buffers.
    NoArea,
    /// Some buffers cannot be got at.
    NotReachable,
    /// There is nothing to copy.
    NoData,
    /// So few ranks do the same by another algorithm.
    FewRanks {
        /// Ranks with which it differs.
        least: usize,
        /// The other algorithm.
        same: Algorithm,
    },
    /// The vector cannot be divided among the ranks.
    TooShort {
        /// Bytes that it needs.
        least: usize,
    },
    /// It changes the order of operands.
    Reorders,
    /// Possible, but this variable forces another one.
    Forced {
        /// The variable.
        by: &'static str,
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
                write!(
                    f,
                    "with fewer than {least} ranks no better than {}",
                    same.name()
                )
            }
            AlgorithmExclusion::TooShort { least } => {
                write!(
                    f,
                    "fewer than {least} bytes cannot be divided among the ranks"
                )
            }
            AlgorithmExclusion::Reorders => {
                write!(
                    f,
                    "the operator does not commute, and it changes the order of operands"
                )
            }
            AlgorithmExclusion::Forced { by } => write!(f, "{by} forces another one"),
        }
    }
}

/// What the environment forces. [`ForcedAlgorithms::default`] is nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ForcedAlgorithms {
    family: Option<AlgorithmFamily>,
    algorithms: [Option<Algorithm>; COLLECTIVES],
}

impl ForcedAlgorithms {
    /// What `MICA_COLL` and the variables of the collectives say.
    ///
    /// # Errors
    /// When the value of one is none of its words.
    pub fn in_force() -> Result<ForcedAlgorithms, BadValue> {
        let mut forced = ForcedAlgorithms {
            family: AlgorithmFamily::parse(tunables::COLL.choice()?),
            ..ForcedAlgorithms::default()
        };
        for collective in Collective::ALL {
            let word = collective.tunable().choice()?;
            forced.algorithms[collective as usize] = Algorithm::parse(word);
        }
        Ok(forced)
    }

    /// This, with all collectives of a family.
    #[must_use]
    pub fn with_family(self, family: AlgorithmFamily) -> ForcedAlgorithms {
        ForcedAlgorithms {
            family: Some(family),
            ..self
        }
    }

    /// This, with an algorithm for a collective. One that the collective does not have forces
    /// nothing.
    #[must_use]
    pub fn with(mut self, collective: Collective, algorithm: Algorithm) -> ForcedAlgorithms {
        let has = collective.algorithms().contains(&algorithm);
        self.algorithms[collective as usize] = has.then_some(algorithm);
        self
    }

    /// What is wanted of a collective, the more special first: the variable, and whether an
    /// algorithm is wanted by it.
    fn wishes(&self, collective: Collective) -> [Option<ForcedValue>; 2] {
        [
            self.algorithms[collective as usize].map(|algorithm| ForcedValue {
                tunable: collective.tunable(),
                word: algorithm.name(),
            }),
            self.family.map(|family| ForcedValue {
                tunable: &tunables::COLL,
                word: family.name(),
            }),
        ]
    }
}

/// A value other than `auto` of a variable.
#[derive(Clone, Copy)]
struct ForcedValue {
    tunable: &'static Tunable,
    word: &'static str,
}

impl ForcedValue {
    fn accepts(&self, algorithm: Algorithm) -> bool {
        self.word == algorithm.name() || self.word == algorithm.family().name()
    }
}

/// What was found about an algorithm.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AlgorithmEstimate {
    /// The algorithm.
    pub algorithm: Algorithm,
    /// Nanoseconds that it takes; `None` if it is not possible.
    pub nanoseconds: Option<f64>,
    /// Why it is out of the question, if it is.
    pub ruled_out: Option<AlgorithmExclusion>,
}

/// A wish that could not be granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ForcedRefusal {
    /// The variable.
    pub variable: &'static str,
    /// Its value.
    pub value: &'static str,
    /// Why not; `None`: the collective has no such algorithm.
    pub why: Option<AlgorithmExclusion>,
}

impl fmt::Display for ForcedRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ForcedRefusal {
            variable, value, ..
        } = self;
        match self.why {
            Some(why) => write!(f, "{variable}={value} is not heeded: {why}"),
            None => write!(
                f,
                "{variable}={value} is not heeded: there is no such algorithm"
            ),
        }
    }
}

/// A choice with all that led to it.
#[derive(Debug, Clone, PartialEq)]
pub struct AlgorithmDecision {
    /// The algorithm.
    pub algorithm: Algorithm,
    /// What it takes.
    pub nanoseconds: f64,
    /// The length that was judged: the shortest of its class.
    pub judged_bytes: usize,
    /// All algorithms of the collective, in the order of [`Collective::algorithms`].
    pub estimates: Vec<AlgorithmEstimate>,
    /// The variable that forced it.
    pub forced_by: Option<&'static str>,
    /// What was asked for and could not be.
    pub refused: Vec<ForcedRefusal>,
}

/// Size classes of an octave.
const PER_OCTAVE: usize = 4;
/// Longer calls are judged as this long: 2 to this power.
pub(super) const OCTAVES: usize = 46;
/// Number of size classes: no bytes, and four to an octave.
pub(super) const CLASSES: usize = 1 + OCTAVES * PER_OCTAVE;

/// The class of calls of so many bytes.
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

/// The length by which calls of so many bytes are judged: the shortest one of their class.
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

/// Why an algorithm cannot be, if so.
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
        (ReduceScatter, Halving) => (!question.commutes).then_some(AlgorithmExclusion::Reorders),
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

/// Why an algorithm cannot be, or what it takes.
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

/// The question as it is judged.
fn judged_question(question: &CollectiveCall) -> CollectiveCall {
    CollectiveCall {
        bytes: judged(question.bytes),
        ..*question
    }
}

/// The least of the possible algorithms that `accepts` takes.
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

/// The algorithm, its time and the wish that was granted; of those that `accepts` takes.
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

/// The same of all algorithms.
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

/// The algorithm of a call whose ranks have told of their buffers, so that `question.reach` is
/// known: messages are out of the question by now, since all ranks have met in the area.
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

/// The algorithm of a call, as [`pick`] answers it, with the numbers for it and against the others.
pub fn choose(
    costs: &CollectiveCosts,
    question: &CollectiveCall,
    forced: &ForcedAlgorithms,
) -> AlgorithmDecision {
    let question = judged_question(question);
    let (algorithm, nanoseconds, granted) = decide_of_all(costs, &question, forced);
    let estimates = question.collective.algorithms().iter().map(|&algorithm| {
        match weigh(costs, &question, algorithm) {
            Err(why) => AlgorithmEstimate {
                algorithm,
                nanoseconds: None,
                ruled_out: Some(why),
            },
            Ok(ns) => AlgorithmEstimate {
                algorithm,
                nanoseconds: Some(ns),
                ruled_out: granted.filter(|wish| !wish.accepts(algorithm)).map(|wish| {
                    AlgorithmExclusion::Forced {
                        by: wish.tunable.env,
                    }
                }),
            },
        }
    });
    // The wishes before the one that was granted.
    let refused = forced.wishes(question.collective).into_iter().flatten();
    let refused = refused
        .take_while(|wish| granted.is_none_or(|granted| granted.tunable.env != wish.tunable.env))
        .map(|wish| {
            let mut wanted = question.collective.algorithms().iter();
            let wanted = wanted.find(|&&algorithm| wish.accepts(algorithm));
            ForcedRefusal {
                variable: wish.tunable.env,
                value: wish.word,
                why: wanted.and_then(|&algorithm| exclusion(&question, algorithm)),
            }
        });
    AlgorithmDecision {
        algorithm,
        nanoseconds,
        judged_bytes: question.bytes,
        refused: refused.collect(),
        estimates: estimates.collect(),
        forced_by: granted.map(|wish| wish.tunable.env),
    }
}
