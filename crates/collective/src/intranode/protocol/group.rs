//! The ranks of one communicator on one node, and the operations that they have in progress in
//! their shared area.
//!
//! Each operation of a node group has a number, and uses the area's memory of one operation slot:
//! its number modulo [`OPERATION_SLOTS`]. Ranks begin operations in the same
//! order, as they call collectives in the same order. Several operations may be in progress at once
//! (non-blocking ones), and each advances by itself. What a rank writes for an operation may be
//! overwritten for the operation that is `OPERATION_SLOTS` later, which therefore first checks that
//! all members have finished the earlier one
//! ([`OperationSlot::begin`](super::slot::OperationSlot::begin)). Usually the rank already knows
//! this: with each operation a member announces the number up to which it has finished all
//! operations, and a rank that waits for all members learns this from the lines that it reads
//! anyway.
//!
//! | who | writes |
//! |---|---|
//! | each member | its own line, cell and mark; in a scatter the root writes the others' cells |
//! | all members | read every line; cells after the stamp that announces them |

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use mica_channel::direct::PeerAccess;
use mica_node::area::{Area, Completions, OPERATION_SLOTS};
use mica_policy::collective::Collective;
use mica_policy::select::CoreUse;

use mica_protocol::ThreadMode;

use super::account::{self, GroupSums, Sums};
use super::header::{OperationKind, RootBefore};
use super::tree::MemberTree;
use crate::late::{self, ArrivalCount};

/// A communicator's ranks on this node.
#[derive(Debug)]
pub struct NodeGroup {
    pub(in crate::intranode) area: Area,
    pub(in crate::intranode) reach: Option<PeerAccess>,
    /// The arrangement of members where there are many; `None`: each member polls all others.
    pub(in crate::intranode) tree: Option<MemberTree>,
    /// Whether every member has a core of its own.
    pub(in crate::intranode) has_cores: bool,
    /// Number of operations that this rank has begun; from bit 56 on, the root of the last one
    /// ([`RootBefore`]).
    pub(in crate::intranode) begun: AtomicU64,
    /// The operations that this rank has completed.
    pub(in crate::intranode) account: Completions,
    /// Whether several threads of this rank may be in the library.
    pub(in crate::intranode) mode: &'static ThreadMode,
    /// Whether an operation has begun that finds out about copies by address.
    pub(in crate::intranode) asked_for_cma: AtomicBool,
    /// Whether all members can reach all others' memory by address; unset until that is known.
    pub(in crate::intranode) cma: OnceLock<bool>,
    /// For the account of transfers: what the operations move; `None` if it is off.
    sums: Option<GroupSums>,
}

/// Bits of `begun` that count operations; the root lies above them.
const ROOT_AT: u32 = 56;

/// Bits of a stamp that number the phases of one operation.
pub(in crate::intranode) const PHASE_BITS: u32 = 24;

/// Maximum number of pieces of a message: a piece takes at most two phases, and an operation takes
/// a few more.
pub(in crate::intranode) const MOST_PIECES: usize = 1 << (PHASE_BITS - 2);

/// Whether an operation may copy by address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddressUse {
    /// Where all ranks agree.
    Allowed,
    /// Through windows, or the shared area.
    Never,
}

/// What is reserved for an operation when it is called: its place in the order of operations.
#[derive(Debug, Clone)]
pub struct ReservedOperation {
    pub(in crate::intranode) number: u64,
    pub(in crate::intranode) kind: OperationKind,
    pub(in crate::intranode) before: RootBefore,
    pub(in crate::intranode) by_address: AddressUse,
    pub(in crate::intranode) asks_for_cma: bool,
    /// The call that it belongs to, if late arrivals are counted.
    pub(in crate::intranode) arrival: Option<Arc<ArrivalCount>>,
}

impl NodeGroup {
    /// The node group of an area's members. `reach` is how they access each other's buffers,
    /// `cores` whether they share cores, and `mode` whether several threads of this
    /// rank may be in the library.
    pub fn new(
        area: Area,
        reach: Option<PeerAccess>,
        tree: Option<MemberTree>,
        cores: CoreUse,
        mode: &'static ThreadMode,
    ) -> NodeGroup {
        let members = area.members().len();
        NodeGroup {
            sums: account::is_on().then(|| GroupSums::new(members, OPERATION_SLOTS)),
            area,
            reach,
            tree,
            has_cores: cores == CoreUse::Own,
            begun: AtomicU64::new(0),
            account: Completions::new(),
            mode,
            asked_for_cma: AtomicBool::new(false),
            cma: OnceLock::new(),
        }
    }

    /// Where the bytes of the operation in slot `at` are added up, if they are.
    pub(in crate::intranode) fn sums_of(&self, at: usize) -> Option<Sums<'_>> {
        self.sums.as_ref().map(|sums| sums.slot(at))
    }

    /// Number of members.
    #[inline]
    pub fn size(&self) -> usize {
        self.area.members().len()
    }

    /// This rank's number among the members.
    #[inline]
    pub fn me(&self) -> usize {
        self.area.me()
    }

    /// The numbers of all members but this rank, in order.
    #[inline(always)]
    pub fn others(&self) -> impl Iterator<Item = usize> + use<> {
        let me = self.me();
        (0..self.size()).filter(move |&member| member != me)
    }

    /// Bytes of a cell.
    #[inline]
    pub fn cell_bytes(&self) -> usize {
        self.area.cell_bytes()
    }

    /// Bytes of half a cell.
    #[inline]
    pub fn half_bytes(&self) -> usize {
        self.cell_bytes() / 2
    }

    /// The longest message, or part of one, that fits through cells. A piece is half a cell; where
    /// each piece goes to one member, it is a member's share of that half. The stamp counts pieces.
    pub fn most_bytes(&self, collective: Collective) -> usize {
        let half = self.half_bytes();
        let piece = match collective {
            Collective::Alltoall => half / self.size(),
            _ => half,
        };
        piece.max(1).saturating_mul(MOST_PIECES)
    }

    /// How the members access each other's buffers.
    pub(in crate::intranode) fn reach(&self) -> Option<&PeerAccess> {
        self.reach.as_ref()
    }

    /// Whether every member has a core of its own.
    #[inline]
    pub fn has_cores(&self) -> bool {
        self.has_cores
    }

    /// The arrangement of members where there are many.
    #[inline]
    pub(in crate::intranode) fn tree(&self) -> Option<&MemberTree> {
        self.tree.as_ref()
    }

    /// Takes the next place in the order of operations. All members must call it in the same order,
    /// one thread at a time (MPI 5.0, 6.14), with the same `kind` and the same
    /// `by_address`.
    #[inline]
    pub fn reserve(&self, kind: OperationKind, by_address: AddressUse) -> ReservedOperation {
        let (number, before) = self.take_number(kind);
        let asks_for_cma =
            by_address == AddressUse::Allowed && !self.asked_for_cma.load(Ordering::Relaxed);
        if asks_for_cma {
            self.asked_for_cma.store(true, Ordering::Relaxed);
        }
        ReservedOperation {
            number,
            kind,
            before,
            by_address,
            asks_for_cma,
            arrival: late::current(),
        }
    }

    /// The number of the next operation, of this kind, and what it announces about the one before.
    #[inline(always)]
    pub(in crate::intranode) fn take_number(&self, kind: OperationKind) -> (u64, RootBefore) {
        let taken = self.take_number_if(kind, |_| true);
        taken.expect("any number is taken")
    }

    /// As [`take_number`](Self::take_number), if the number `is_wanted`.
    #[inline(always)]
    pub(in crate::intranode) fn take_number_if(
        &self,
        kind: OperationKind,
        is_wanted: impl FnOnce(u64) -> bool,
    ) -> Option<(u64, RootBefore)> {
        // Relaxed, and no read-modify-write: calls of collectives on one communicator do not
        // overlap.
        let begun = self.begun.load(Ordering::Relaxed);
        let number = (begun & ((1 << ROOT_AT) - 1)) + 1;
        is_wanted(number).then_some(())?;
        let root = kind.root_before().bits() << ROOT_AT;
        self.begun.store(root | number, Ordering::Relaxed);
        Some((number, RootBefore::from_bits(begun >> ROOT_AT)))
    }

    /// Operation `number` has failed: if it was the last one begun, the next operation announces
    /// `said` about it.
    #[cold]
    pub(in crate::intranode) fn note_wrong(&self, number: u64, said: RootBefore) {
        let begun = self.begun.load(Ordering::Relaxed);
        if begun & ((1 << ROOT_AT) - 1) == number {
            let said = said.bits() << ROOT_AT;
            self.begun.store(said | number, Ordering::Relaxed);
        }
    }

    /// Completes an operation and announces this to the others. Any thread may complete it.
    #[inline(always)]
    pub(in crate::intranode) fn finish(&self, number: u64) {
        if let Some(before) = self.area.complete(&self.account, number, self.mode)
            && self.area.is_awaited(before)
        {
            self.wake_awaiting();
        }
    }

    #[cold]
    #[inline(never)]
    fn wake_awaiting(&self) {
        self.wake_others();
    }

    /// Wakes the other members, if they sleep, after something was published.
    #[inline(always)]
    pub(in crate::intranode) fn wake_others(&self) {
        self.area.wake_all(self.others());
    }

    /// The number up to which this rank has completed all operations.
    #[inline]
    pub(in crate::intranode) fn low(&self) -> u64 {
        self.account.all_up_to()
    }

    #[inline]
    pub(in crate::intranode) fn raise_safe(&self, to: u64) {
        self.account.raise_safe(to);
    }

    /// Whether all members are done with the memory of the slot that operation `number` uses.
    #[inline(always)]
    pub(in crate::intranode) fn is_free(&self, number: u64) -> bool {
        let before = number.checked_sub(OPERATION_SLOTS as u64);
        before.is_none_or(|before| self.is_safe(before))
    }

    /// Whether all members have finished operation `number`; reads their finish marks if that is
    /// not known.
    pub(in crate::intranode) fn is_safe(&self, number: u64) -> bool {
        self.account.is_safe(number) || self.is_marked(number)
    }

    /// Whether all members' finish marks have reached `number`.
    #[cold]
    fn is_marked(&self, number: u64) -> bool {
        let look = || {
            let marks = (0..self.size()).map(|member| self.area.finished(member));
            let all = marks.min().unwrap_or(u64::MAX);
            self.raise_safe(all);
            all >= number
        };
        // Members that finish after this wake this rank. The marks are read again afterwards, so a
        // rank parks only after a read that follows the request.
        look() || {
            self.area.await_finish(number);
            look()
        }
    }
}
