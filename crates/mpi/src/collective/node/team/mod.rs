//! The ranks of one communicator on one node, and the operations that they have under way in their shared area.
//!
//! Each operation of a team has a number, and uses the area's memory of one *turn*: those of number modulo [`TURNS`](mica_channel::area::TURNS). Ranks begin
//! operations in the same order, as they call collectives in the same order, but may be in several at once (non-blocking
//! ones), each of which goes on by itself. What a rank writes for an operation may be overwritten for the one that is `TURNS`
//! later, which therefore begins with a look whether all have finished with it ([`Turn::begin`]). Mostly that is known: with each operation
//! a rank tells up to where it has finished all, and whoever waits for everybody learns it from the line that it reads anyway.
//!
//! | who | writes |
//! |---|---|
//! | each member | its own line, cell and mark; in a scatter the root writes the others' cells |
//! | all members | read every line; cells after the stamp that announces them |

mod turn;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use mica_channel::area::Area;
use mica_channel::direct::Reach;

use super::shape::Tree;
use super::word::{Kind, RootBefore};
use crate::late::{self, Arrival};

pub(super) use turn::PATIENCE;
pub use turn::Turn;

/// A communicator's ranks on this node.
#[derive(Debug)]
pub struct Team {
    area: Area,
    reach: Option<Reach>,
    /// How members are arranged where they are many; `None`: everybody looks at everybody.
    tree: Option<Tree>,
    /// Whether every member has a core for itself.
    has_cores: bool,
    /// Operations that this rank has begun; from bit 56 on the root of the last ([`RootBefore`]).
    begun: AtomicU64,
    /// Operations up to which it has finished all, times 256; in the low byte those finished beyond, from the next but one on.
    finished: AtomicU64,
    /// Operations that all members have finished, as far as this rank knows.
    safe: AtomicU64,
    /// A member has begun an operation that copies directly.
    asked_for_cma: AtomicBool,
    /// Whether all members can reach all others' memory by address.
    cma: OnceLock<bool>,
}

/// Bits of a number of operations beside which there is room.
const ROOT_AT: u32 = 56;

/// What is reserved for an operation when it is called: its place in the order.
#[derive(Debug, Clone)]
pub struct Ticket {
    number: u64,
    kind: Kind,
    before: RootBefore,
    by_address: bool,
    asks_for_cma: bool,
    /// The call that it belongs to, where late arrivals are counted.
    arrival: Option<Arc<Arrival>>,
}

impl Team {
    /// The team of an area's members. `reach` is how they reach each other's buffers, `has_cores` whether each has a core for
    /// itself.
    pub fn new(area: Area, reach: Option<Reach>, tree: Option<Tree>, has_cores: bool) -> Team {
        Team {
            area,
            reach,
            tree,
            has_cores,
            begun: AtomicU64::new(0),
            finished: AtomicU64::new(0),
            safe: AtomicU64::new(0),
            asked_for_cma: AtomicBool::new(false),
            cma: OnceLock::new(),
        }
    }

    /// Number of members.
    #[inline]
    pub fn size(&self) -> usize {
        self.area.members().len()
    }

    /// This rank's number among them.
    #[inline]
    pub fn me(&self) -> usize {
        self.area.me()
    }

    /// Bytes of a cell.
    #[inline]
    pub fn cell_bytes(&self) -> usize {
        self.area.cell_bytes()
    }

    /// How the members reach each other's buffers.
    pub(super) fn reach(&self) -> Option<&Reach> {
        self.reach.as_ref()
    }

    /// Whether every member has a core for itself.
    #[inline]
    pub fn has_cores(&self) -> bool {
        self.has_cores
    }

    /// The arrangement of many members.
    #[inline]
    pub(super) fn tree(&self) -> Option<&Tree> {
        self.tree.as_ref()
    }

    /// Takes the next place in the order of operations. To be called by all members in the same order, by one thread at a time
    /// (MPI 5.0, 6.14), who say alike what `kind` it is and whether it may copy `by_address`.
    #[inline]
    pub fn reserve(&self, kind: Kind, by_address: bool) -> Ticket {
        // Relaxed, and no read-modify-write: collectives on one communicator are called one after the other.
        let begun = self.begun.load(Ordering::Relaxed);
        let number = (begun & ((1 << ROOT_AT) - 1)) + 1;
        let root = kind.root_before().bits() << ROOT_AT;
        self.begun.store(root | number, Ordering::Relaxed);
        let asks_for_cma = by_address && !self.asked_for_cma.load(Ordering::Relaxed);
        if asks_for_cma {
            self.asked_for_cma.store(true, Ordering::Relaxed);
        }
        Ticket {
            number,
            kind,
            before: RootBefore::from_bits(begun >> ROOT_AT),
            by_address,
            asks_for_cma,
            arrival: late::current(),
        }
    }

    /// Operation `number` has gone wrong: if it was the last one, this is what the next says of
    /// it.
    #[cold]
    fn note_wrong(&self, number: u64, said: RootBefore) {
        let begun = self.begun.load(Ordering::Relaxed);
        if begun & ((1 << ROOT_AT) - 1) == number {
            let said = said.bits() << ROOT_AT;
            self.begun.store(said | number, Ordering::Relaxed);
        }
    }

    /// Notes that an operation is finished; any thread may be the one that finishes it.
    #[inline]
    fn finish(&self, number: u64) {
        let mut old = self.finished.load(Ordering::Relaxed);
        if old == (number - 1) << 8
            && self.begun.load(Ordering::Relaxed) & ((1 << ROOT_AT) - 1) == number
        {
            // It is the only one under way, so nobody else finishes any.
            self.finished.store(number << 8, Ordering::Relaxed);
            return self.tell_finished(number - 1, number);
        }
        loop {
            let new = after_finishing(old, number);
            // Relaxed: what the operation read and wrote is ordered by the mark's own release.
            match self.finished.compare_exchange_weak(
                old,
                new,
                Ordering::Relaxed,
                Ordering::Relaxed,
            ) {
                Ok(_) => {
                    if new >> 8 != old >> 8 {
                        self.tell_finished(old >> 8, new >> 8);
                    }
                    return;
                }
                Err(now) => old = now,
            }
        }
    }

    /// Tells the others that this rank has finished all operations up to `now`, and had up to `before`.
    #[inline]
    fn tell_finished(&self, before: u64, now: u64) {
        self.area.set_finished(now);
        if self.area.is_awaited(before) {
            self.wake_others();
        }
    }

    /// Wakes the other members, if they sleep, after something was published.
    #[inline]
    fn wake_others(&self) {
        let me = self.me();
        self.area
            .wake_all((0..self.size()).filter(|&member| member != me));
    }

    /// Up to which operation this rank has finished all.
    #[inline]
    fn low(&self) -> u64 {
        self.finished.load(Ordering::Relaxed) >> 8
    }

    #[inline]
    fn raise_safe(&self, to: u64) {
        // Two threads that raise it at once may lose one of the two: then marks are looked at once more.
        if to > self.safe.load(Ordering::Relaxed) {
            self.safe.store(to, Ordering::Relaxed);
        }
    }

    /// Whether all members have finished operation `number`; looks at their marks if that is not known.
    fn is_safe(&self, number: u64) -> bool {
        if self.safe.load(Ordering::Relaxed) >= number {
            return true;
        }
        self.is_marked(number)
    }

    /// Whether all members' marks say so.
    #[cold]
    fn is_marked(&self, number: u64) -> bool {
        let look = || {
            let marks = (0..self.size()).map(|member| self.area.finished(member));
            let all = marks.min().unwrap_or(u64::MAX);
            self.raise_safe(all);
            all >= number
        };
        // Who finishes later is told that this rank waits for it: the next look of a rank that parks comes after that.
        look() || {
            self.area.await_finish(number);
            look()
        }
    }
}

/// The state of [`Team::finished`] after one more operation.
fn after_finishing(old: u64, number: u64) -> u64 {
    let (low, ahead) = (old >> 8, old & 0xff);
    if number != low + 1 {
        // At most `TURNS` operations are under way, so the bit is there.
        return old | 1 << (number - low - 2);
    }
    let run = u64::from(ahead.trailing_ones());
    (low + 1 + run) << 8 | ahead >> run >> 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_may_finish_in_any_order() {
        let finish = |order: &[u64]| {
            order
                .iter()
                .scan(0, |state, &number| {
                    *state = after_finishing(*state, number);
                    Some(*state >> 8)
                })
                .collect::<Vec<_>>()
        };
        assert_eq!(finish(&[1, 2, 3]), [1, 2, 3]);
        assert_eq!(finish(&[2, 1, 3]), [0, 2, 3]);
        assert_eq!(finish(&[4, 2, 3, 1, 5]), [0, 0, 0, 4, 5]);
        assert_eq!(finish(&[3, 1, 4, 2, 6, 5]), [0, 1, 1, 4, 4, 6]);
    }
}
