//! Selects the path of a message: a pure function of the message, its situation and the costs.
//!
//! Each path is either excluded, for a reason that can be reported, or has an estimate; the least
//! estimate wins. The criterion is the time until the receiver has the bytes, or, if a rank has
//! something to compute meanwhile, the time that the copy takes from the two cores (chai-2009,
//! 7.2.2: decision by latency, decision by CPU utilization). Ranks that share a core run
//! alternately: work that two of them do concurrently on two cores takes the sum of both times.
//!
//! [`choose`] returns the path and [`select`] also the reasons; both evaluate the paths by the same
//! function, and neither allocates.

use std::fmt;

use mica_node::topology::Level;

use crate::costs::{MessagePath, MessagePaths, PATHS, PathCosts};

/// The message to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutgoingMessage {
    /// Its length in bytes.
    pub len: usize,
    /// Number of contiguous pieces of memory, on the side that has more; at least 1.
    pub pieces: usize,
    /// True if its sender must learn that it was matched (`MPI_Ssend`).
    pub synchronous: bool,
}

impl OutgoingMessage {
    /// An ordinary message of `len` contiguous bytes.
    pub const fn contiguous(len: usize) -> OutgoingMessage {
        OutgoingMessage { len, pieces: 1, synchronous: false }
    }
}

/// Limits of the eager paths, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EagerLimits {
    /// Longest message that fits a slot beside its header.
    pub inline: usize,
    /// Longest message that fits a ring's arena.
    pub ring: usize,
    /// Longest message that a receiver may have to keep as unexpected.
    pub eager: usize,
    /// The same while the receiver lags behind and has announced so ([`skew`](crate::skew)).
    pub eager_skewed: usize,
}

impl Default for EagerLimits {
    /// The limits of the channels as built, and the tunables' defaults.
    fn default() -> EagerLimits {
        EagerLimits { inline: 40, ring: 8 << 10, eager: 64 << 10, eager_skewed: 256 << 10 }
    }
}

/// Whether each rank of a node, or of a communicator there, has a core.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CoreUse {
    /// Each has a core of its own.
    Own,
    /// Ranks outnumber cores.
    Shared,
}

/// What is known of the two ranks when the path is selected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Situation {
    /// How far apart they are.
    pub level: Level,
    /// The paths that work between them (and for this message's buffers).
    pub available: MessagePaths,
    /// Limits of the eager paths.
    pub limits: EagerLimits,
    /// The peer waits for this message and can help to copy.
    pub peer_waiting: bool,
    /// The receiver has announced that it lags behind.
    pub skewed: bool,
    /// Ranks outnumber cores: the two may have to share one.
    pub oversubscribed: bool,
    /// The operation is non-blocking and there is something to compute meanwhile.
    pub overlap: bool,
}

impl Situation {
    /// Two ranks at `level` that both wait, each on its own core, with the default limits.
    pub fn waiting(level: Level, available: MessagePaths) -> Situation {
        Situation {
            level,
            available,
            limits: EagerLimits::default(),
            peer_waiting: true,
            skewed: false,
            oversubscribed: false,
            overlap: false,
        }
    }
}

/// The estimated cost of a path.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PathEstimate {
    /// Nanoseconds until the receiver has the bytes.
    pub elapsed_ns: f64,
    /// Nanoseconds of both cores together that are not available for computing.
    pub busy_ns: f64,
}

impl PathEstimate {
    fn of(&self, goal: Goal) -> f64 {
        match goal {
            Goal::Elapsed => self.elapsed_ns,
            Goal::Busy => self.busy_ns,
        }
    }
}

/// Which number of a [`PathEstimate`] the choice minimises.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Goal {
    /// A rank waits for the message.
    Elapsed,
    /// There is something to compute meanwhile.
    Busy,
}

/// Why a path is excluded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathExclusion {
    /// It does not work between these ranks, or not for these buffers.
    NotAvailable,
    /// The message is longer than the path's limit.
    TooLong {
        /// Bytes.
        limit: usize,
    },
    /// The message fits the slot that its header occupies anyway.
    FitsSlot,
    /// The sender of a synchronous message must learn of its match.
    Synchronous,
    /// It needs the other rank's core, and that rank is busy elsewhere.
    PeerBusy,
    /// It needs two cores, and the ranks may have only one.
    Oversubscribed,
    /// The receiver lags behind: the sender must not wait for it with a message up to this limit.
    Skewed {
        /// Bytes.
        limit: usize,
    },
}

impl fmt::Display for PathExclusion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PathExclusion::NotAvailable => write!(f, "not available between these ranks"),
            PathExclusion::TooLong { limit } => write!(f, "carries at most {limit} bytes"),
            PathExclusion::FitsSlot => write!(f, "the message fits the slot of its header"),
            PathExclusion::Synchronous => write!(f, "a synchronous send must learn of its match"),
            PathExclusion::PeerBusy => {
                write!(f, "the other rank is busy elsewhere and cannot help")
            }
            PathExclusion::Oversubscribed => {
                write!(f, "two cores are needed, and ranks outnumber cores")
            }
            PathExclusion::Skewed { limit } => {
                write!(f, "the receiver lags behind: up to {limit} bytes do not wait for it")
            }
        }
    }
}

/// The evaluation of one path.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum PathVerdict {
    /// It could carry the message.
    Possible(PathEstimate),
    /// It could not carry the message, or must not.
    RuledOut(PathExclusion),
}

/// A choice with its reasons.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PathDecision {
    /// The path.
    pub path: MessagePath,
    /// Its estimate.
    pub estimate: PathEstimate,
    /// The criterion that was minimised.
    pub goal: Goal,
    /// By path, in the order of [`MessagePath::ALL`].
    pub verdicts: [PathVerdict; PATHS],
}

impl PathDecision {
    /// Every path with its verdict.
    pub fn considered(&self) -> impl Iterator<Item = (MessagePath, &PathVerdict)> {
        MessagePath::ALL.into_iter().zip(&self.verdicts)
    }
}

/// Evaluates one path.
#[inline]
fn weigh(
    path: MessagePath,
    message: &OutgoingMessage,
    situation: &Situation,
    costs: &PathCosts,
) -> PathVerdict {
    match exclusion(path, message, situation) {
        Some(why) => PathVerdict::RuledOut(why),
        None => PathVerdict::Possible(estimate(path, message, situation, costs)),
    }
}

/// Why a path is excluded, if it is.
#[inline]
fn exclusion(
    path: MessagePath,
    message: &OutgoingMessage,
    situation: &Situation,
) -> Option<PathExclusion> {
    let Situation { available, limits, .. } = *situation;
    if !available.contains(path) {
        return Some(PathExclusion::NotAvailable);
    }
    let fits_slot = message.len <= limits.inline
        && !message.synchronous
        && available.contains(MessagePath::Inline);
    if fits_slot {
        // The header is sent in any case, and its slot has room: nothing can be cheaper, regardless
        // of a calibration.
        return (path != MessagePath::Inline).then_some(PathExclusion::FitsSlot);
    }
    let over = |limit: usize| (message.len > limit).then_some(PathExclusion::TooLong { limit });
    match path {
        MessagePath::Inline if message.synchronous => Some(PathExclusion::Synchronous),
        MessagePath::Inline => over(limits.inline),
        // In the ring a synchronous message carries its bytes and gets a reply.
        MessagePath::Ring => over(limits.ring),
        MessagePath::Cells if message.synchronous => Some(PathExclusion::Synchronous),
        MessagePath::Cells if situation.skewed => over(limits.eager_skewed.max(limits.eager)),
        MessagePath::Cells => over(limits.eager),
        _ => {
            let limit = limits.eager_skewed;
            let may_go = available.contains(MessagePath::Cells) && !message.synchronous;
            if situation.skewed && may_go && message.len <= limit {
                Some(PathExclusion::Skewed { limit })
            } else if path.needs_both() && !situation.peer_waiting {
                Some(PathExclusion::PeerBusy)
            } else if matches!(path, MessagePath::Cooperate | MessagePath::MappedCooperate)
                && situation.oversubscribed
            {
                Some(PathExclusion::Oversubscribed)
            } else {
                None
            }
        }
    }
}

/// Bytes that the sender may be ahead of its receiver through cells if ranks share cores: four
/// cells of 8 KiB (`mica_channel::shm`, the default of `MICA_CELL_BYTES`).
pub const SHARED_WINDOW: usize = 32 << 10;

/// Nanoseconds to hand a core to the other rank and back: twice the shipped `switch_ns` of
/// collectives.
const TURN_NS: f64 = 1400.0;

/// Additional nanoseconds of a message through cells if ranks share cores: once the window is full,
/// the sender waits until the receiver has run, and continues when it gets the core back.
#[inline]
fn turns_ns(path: MessagePath, len: usize) -> f64 {
    match path {
        MessagePath::Cells | MessagePath::Streamed => {
            TURN_NS * len.saturating_sub(SHARED_WINDOW) as f64 / SHARED_WINDOW as f64
        }
        _ => 0.0,
    }
}

/// The estimate of a path in this situation.
#[inline]
fn estimate(
    path: MessagePath,
    message: &OutgoingMessage,
    situation: &Situation,
    costs: &PathCosts,
) -> PathEstimate {
    let cost = costs.of(situation.level, path);
    let copy = cost.copy_ns(message.len, message.pieces);
    let shares = cost.sender + cost.receiver;
    // On one core the two ranks' shares run one after the other.
    let (parts, turns_ns) = match situation.oversubscribed {
        true => (shares.max(1.0), turns_ns(path, message.len)),
        false => (1.0, 0.0),
    };
    PathEstimate {
        elapsed_ns: cost.start_ns + copy * parts + turns_ns,
        busy_ns: cost.start_ns + copy * shares + turns_ns,
    }
}

fn goal(situation: &Situation) -> Goal {
    if situation.overlap { Goal::Busy } else { Goal::Elapsed }
}

/// The path of a message. Always one of `situation.available`, or, if none of them is possible,
/// [`MessagePath::Streamed`], which needs only shared memory and time.
#[inline]
pub fn choose(message: &OutgoingMessage, situation: &Situation, costs: &PathCosts) -> MessagePath {
    let goal = goal(situation);
    let mut best = (MessagePath::Streamed, f64::INFINITY);
    for path in situation.available.iter() {
        if let PathVerdict::Possible(estimate) = weigh(path, message, situation, costs)
            && estimate.of(goal) < best.1
        {
            best = (path, estimate.of(goal));
        }
    }
    best.0
}

/// The path of a message, as [`choose`] returns it, with the estimates of all paths.
pub fn select(message: &OutgoingMessage, situation: &Situation, costs: &PathCosts) -> PathDecision {
    let path = choose(message, situation, costs);
    PathDecision {
        path,
        estimate: estimate(path, message, situation, costs),
        goal: goal(situation),
        verdicts: MessagePath::ALL.map(|path| weigh(path, message, situation, costs)),
    }
}

#[cfg(test)]
mod tests;
