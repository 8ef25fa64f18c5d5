//! The ranks of one communicator on one node, and the operations that they have under way in their
//! shared area.
//!
//! Each operation of a team has a number, and uses the area's memory of one *turn*: those of number
//! modulo [`TURNS`](mica_channel::area::TURNS). Ranks begin operations in the same order, as they
//! call collectives in the same order, but may be in several at once (non-blocking ones), each of
//! which goes on by itself. What a rank writes for an operation may be overwritten for the one that
//! is `TURNS` later, which therefore begins with a look whether all have finished with it
//! ([`OperationSlot::begin`]). Mostly that is known: with each operation a rank tells up to where
//! it has finished all, and whoever waits for everybody learns it from the line that it reads
//! anyway.
//!
//! | who | writes |
//! |---|---|
//! | each member | its own line, cell and mark; in a scatter the root writes the others' cells |
//! | all members | read every line; cells after the stamp that announces them |

mod turn;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use mica_channel::area::{Area, Completions};
use mica_channel::direct::PeerAccess;
use mica_policy::collective::Collective;

use mica_protocol::ThreadMode;

use super::header::{OperationKind, RootBefore};
use super::tree::MemberTree;
use crate::late::{self, ArrivalCount};

pub use turn::OperationSlot;

/// A communicator's ranks on this node.
#[derive(Debug)]
pub struct NodeGroup {
    area: Area,
    reach: Option<PeerAccess>,
    /// How members are arranged where they are many; `None`: everybody looks at everybody.
    tree: Option<MemberTree>,
    /// Whether every member has a core for itself.
    has_cores: bool,
    /// Operations that this rank has begun; from bit 56 on the root of the last ([`RootBefore`]).
    begun: AtomicU64,
    /// What this rank has completed.
    account: Completions,
    /// Whether several threads of this rank may be in the library.
    mode: &'static ThreadMode,
    /// A member has begun an operation that copies directly.
    asked_for_cma: AtomicBool,
    /// Whether all members can reach all others' memory by address.
    cma: OnceLock<bool>,
}

/// Bits of a number of operations beside which there is room.
const ROOT_AT: u32 = 56;

/// What is reserved for an operation when it is called: its place in the order.
#[derive(Debug, Clone)]
pub struct OperationTicket {
    number: u64,
    kind: OperationKind,
    before: RootBefore,
    by_address: bool,
    asks_for_cma: bool,
    /// The call that it belongs to, where late arrivals are counted.
    arrival: Option<Arc<ArrivalCount>>,
}

impl NodeGroup {
    /// The team of an area's members. `reach` is how they reach each other's buffers, `has_cores`
    /// whether each has a core for itself, and `mode` whether several threads of this rank may be
    /// in the library.
    pub fn new(
        area: Area,
        reach: Option<PeerAccess>,
        tree: Option<MemberTree>,
        has_cores: bool,
        mode: &'static ThreadMode,
    ) -> NodeGroup {
        NodeGroup {
            area,
            reach,
            tree,
            has_cores,
            begun: AtomicU64::new(0),
            account: Completions::new(),
            mode,
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

    /// The longest message, or part of one, that goes through cells: pieces are half a cell, or
    /// where each goes to one member a member's share of that, and the stamp counts them.
    pub fn most_bytes(&self, collective: Collective) -> usize {
        let half = self.cell_bytes() / 2;
        let piece = match collective {
            Collective::Alltoall => half / self.size(),
            _ => half,
        };
        piece.max(1).saturating_mul(turn::MOST_PIECES)
    }

    /// How the members reach each other's buffers.
    pub(super) fn reach(&self) -> Option<&PeerAccess> {
        self.reach.as_ref()
    }

    /// Whether every member has a core for itself.
    #[inline]
    pub fn has_cores(&self) -> bool {
        self.has_cores
    }

    /// The arrangement of many members.
    #[inline]
    pub(super) fn tree(&self) -> Option<&MemberTree> {
        self.tree.as_ref()
    }

    /// Takes the next place in the order of operations. To be called by all members in the same
    /// order, by one thread at a time (MPI 5.0, 6.14), who say alike what `kind` it is and whether
    /// it may copy `by_address`.
    #[inline]
    pub fn reserve(&self, kind: OperationKind, by_address: bool) -> OperationTicket {
        // Relaxed, and no read-modify-write: collectives on one communicator are called one after
        // the other.
        let begun = self.begun.load(Ordering::Relaxed);
        let number = (begun & ((1 << ROOT_AT) - 1)) + 1;
        let root = kind.root_before().bits() << ROOT_AT;
        self.begun.store(root | number, Ordering::Relaxed);
        let asks_for_cma = by_address && !self.asked_for_cma.load(Ordering::Relaxed);
        if asks_for_cma {
            self.asked_for_cma.store(true, Ordering::Relaxed);
        }
        OperationTicket {
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

    /// Completes an operation, and tells the others; any thread may be the one that does it.
    #[inline]
    fn finish(&self, number: u64) {
        if let Some(before) = self.area.complete(&self.account, number, self.mode)
            && self.area.is_awaited(before)
        {
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

    /// Up to which operation this rank has completed all.
    #[inline]
    fn low(&self) -> u64 {
        self.account.all_up_to()
    }

    #[inline]
    fn raise_safe(&self, to: u64) {
        self.account.raise_safe(to);
    }

    /// Whether all members have finished operation `number`; looks at their marks if that is not
    /// known.
    fn is_safe(&self, number: u64) -> bool {
        self.account.is_safe(number) || self.is_marked(number)
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
        // Who finishes later is told that this rank waits for it: the next look of a rank that
        // parks comes after that.
        look() || {
            self.area.await_finish(number);
            look()
        }
    }
}
