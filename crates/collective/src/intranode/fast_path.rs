//! The fast path: a blocking barrier, or a short data movement or reduction of elements without
//! gaps, among ranks that poll each other's flag lines.
//!
//! The algorithms are those of [`cells`] and [`reduce`](super::reduce::cells), on the same memory,
//! but compiled for a [`SpinningSlot`]: one piece, waits that spin, no reference counts. Each such
//! future is ready when it is polled for the first time ([`now`]), and nothing of it is left but
//! the steps. Such a call takes little longer than the transfer of a cache line between two cores,
//! so every instruction shows. Any unusual case takes the slow path. All ranks decide this alike,
//! from their settings and the length, or use the same phases on both paths.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use mica_memory::{Region, RegionRef, Shape, View};
use mica_node::area::INLINE;
use mica_node::counters::{LiveCounters, TrafficClass};
use mica_policy::collective::Algorithm;
use mica_policy::collective::Collective;

use super::cells::messages::{Dense, DenseParts};
use super::cells::parts::Parts;
use super::cells::{self, RootMembers};
use super::reduce::cells::{self as reductions, DenseOperand};
use super::run::{block_on, waiting_in};
use crate::intranode::choice::fast_limits::FastPath;
use crate::intranode::protocol::fast_slot::FastSlot;
use crate::intranode::protocol::group::NodeGroup;
use crate::intranode::protocol::header::OperationKind;
use crate::intranode::protocol::shared_slot::{AlgorithmEnd, SharedSlot};
use crate::late;
use crate::members::Members;
use crate::reduction::ScanKind;
use mica_objects::error::Result;
use mica_objects::op::kernel::Kernel;
use mica_objects::process;

/// Maximum bytes of a cell that are prefetched for the next operation, in case it is of the same
/// kind.
const FETCH_MAX: usize = 1024;

/// Polls before the wait goes through the engine, which makes progress and yields.
const FAST_POLLS: u32 = 300;

/// The fast call on a communicator, if an operation that `takes` the fast path may use it now.
#[inline(always)]
pub(super) fn open(
    members: &Members,
    takes: impl FnOnce(&FastPath) -> bool,
) -> Option<FastCall<'_>> {
    let local = members.known_local()?;
    if !takes(&local.fast_path) || late::is_on() {
        return None;
    }
    Some(FastCall { group: local.group.as_ref()?, counters: &local.counters })
}

/// A communicator's node group and counters, for an operation on the fast path.
pub(super) struct FastCall<'a> {
    group: &'a NodeGroup,
    counters: &'a LiveCounters,
}

impl<'a> FastCall<'a> {
    #[inline(always)]
    pub fn group(&self) -> &'a NodeGroup {
        self.group
    }

    /// Bytes that this rank contributes, where the root contributes `bytes`; `None` if there is no
    /// such root.
    #[inline(always)]
    fn brought_by(&self, root: usize, bytes: usize) -> Option<usize> {
        let is_there = root < self.group.size();
        is_there.then_some(if root == self.group.me() { bytes } else { 0 })
    }
}

/// An operation whose waits spin, and then block.
struct SpinningSlot<'a> {
    slot: FastSlot<'a>,
    members: &'a Members,
}

impl SharedSlot for SpinningSlot<'_> {
    const ONE_PIECE: bool = true;

    #[inline(always)]
    fn group(&self) -> &NodeGroup {
        self.slot.group()
    }

    #[inline(always)]
    fn announce(&self) {
        self.slot.announce();
    }

    #[inline(always)]
    fn publish(&self, _: u32) {
        self.slot.publish();
    }

    #[inline(always)]
    fn publish_for(&self, _: u32, member: usize) {
        self.slot.publish_for(member);
    }

    fn publish_for_some(&self, _: u32, _: impl Iterator<Item = usize>) {
        unreachable!("a group with a tree has no fast path")
    }

    #[inline(always)]
    fn reached(&self, member: usize, _: u32) -> impl Future<Output = Result<()>> {
        let met = wait_for(self.members, self.slot, member);
        std::future::ready(met.and_then(|()| self.slot.accept_header(member)))
    }

    #[inline(always)]
    fn all_reached(&self, _: u32) -> impl Future<Output = Result<()>> {
        let met = wait_for_all(self.members, self.slot);
        std::future::ready(met.and_then(|()| self.slot.accept_headers()))
    }

    #[inline(always)]
    fn heard_all(&self) -> Result<()> {
        self.slot.accept_headers()
    }

    #[inline(always)]
    fn bytes(&self, member: usize) -> usize {
        self.slot.bytes(member)
    }

    #[inline(always)]
    fn expect_bytes(&self, member: usize, bytes: usize) -> Result<()> {
        self.slot.expect_bytes(member, bytes)
    }

    #[inline(always)]
    fn prepare(&self, member: usize) -> Result<()> {
        self.slot.prepare_cell(member)
    }

    #[inline(always)]
    fn half(&self, member: usize, _: usize) -> RegionRef<'_> {
        self.slot.cell(member)
    }

    #[inline(always)]
    fn line(&self, member: usize) -> RegionRef<'_> {
        self.slot.inline_region(member)
    }

    #[inline(always)]
    fn loaded(&self, _: usize, _: usize) {} // recorded calls take the slow path

    #[inline(always)]
    fn stored(&self, _: usize, _: usize) {}
}

/// What an algorithm on a [`SpinningSlot`] comes to.
#[inline(always)]
fn now<T>(algorithm: impl Future<Output = T>) -> T {
    match pin!(algorithm).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result,
        Poll::Pending => unreachable!("all waits are over when they return"),
    }
}

/// A blocking barrier; `None` if it must take the slow path.
#[inline]
pub fn barrier(members: &Members) -> Option<Result<()>> {
    let opened = open(members, |limits| limits.barrier)?;
    let counted = (Collective::Barrier, 0, 0);
    Some(run(&opened, members, counted, |slot| now(cells::barrier(slot))))
}

/// A blocking broadcast of `bytes` bytes at `region`; `None` if it must take the slow path.
#[inline]
pub fn bcast(members: &Members, region: &Region, bytes: usize, root: usize) -> Option<Result<()>> {
    let opened = open(members, |limits| takes(bytes, limits.bcast))?;
    let brought = opened.brought_by(root, bytes)?;
    let counted = (OperationKind::from(Collective::Bcast).rooted(root), bytes, brought);
    Some(run(&opened, members, counted, |slot| {
        let message = Dense { at: region.at(0), bytes };
        match now(cells::bcast(slot, &message, root, RootMembers::ALL, 0))? {
            AlgorithmEnd::Done => Ok(()),
            AlgorithmEnd::Unequal => {
                let (whole, view) = (slot.slot.operation_slot(), view_of(region, bytes));
                finish(members, cells::bcast(&whole, &view, root, RootMembers::ALL, 0))
            }
        }
    }))
}

/// A blocking gather of `bytes` bytes of each rank to the root's `result`; `None` if it must take
/// the slow path. `result` does not overlap `send`.
#[inline]
pub fn gather(
    members: &Members,
    send: &Region,
    result: Option<&Region>,
    bytes: usize,
    root: usize,
) -> Option<Result<()>> {
    let opened = open(members, |limits| takes(bytes, limits.gather))?;
    opened.brought_by(root, bytes)?;
    let counted = (OperationKind::from(Collective::Gather).rooted(root), bytes, bytes);
    Some(run(&opened, members, counted, |slot| {
        let own = Dense { at: send.at(0), bytes };
        let parts = result.map(|result| DenseParts { at: result.at(0), bytes });
        let gather = cells::gather(slot, Some(&own), parts.as_ref(), root, RootMembers::ALL, 0);
        match now(gather)? {
            AlgorithmEnd::Done => Ok(()),
            AlgorithmEnd::Unequal => {
                let whole = slot.slot.operation_slot();
                let parts = result.map(|result| parts_of(result, bytes, slot.size()));
                let all = RootMembers::ALL;
                finish(members, cells::gather(&whole, None, parts.as_ref(), root, all, 0))
            }
        }
    }))
}

/// A blocking scatter of `bytes` bytes for each rank from the root's `send`; `None` if it must take
/// the slow path. `result` does not overlap `send`.
#[inline]
pub fn scatter(
    members: &Members,
    send: Option<&Region>,
    result: &Region,
    bytes: usize,
    root: usize,
) -> Option<Result<()>> {
    let opened = open(members, |limits| takes(bytes, limits.scatter))?;
    let brought = opened.brought_by(root, bytes * opened.group.size())?;
    let counted = (OperationKind::from(Collective::Scatter).rooted(root), bytes, brought);
    Some(run(&opened, members, counted, |slot| {
        let own = Dense { at: result.at(0), bytes };
        let parts = send.map(|send| DenseParts { at: send.at(0), bytes });
        let known = (RootMembers::ALL, true);
        match now(cells::scatter(slot, parts.as_ref(), Some(&own), root, known, 0))? {
            AlgorithmEnd::Done => Ok(()),
            AlgorithmEnd::Unequal => {
                let (whole, view) = (slot.slot.operation_slot(), view_of(result, bytes));
                let parts: Option<&Parts> = None;
                finish(members, cells::scatter(&whole, parts, Some(&view), root, known, 0))
            }
        }
    }))
}

/// A blocking allgather of `bytes` bytes of each rank; `None` if it must take the slow path.
/// `result` does not overlap `send`.
#[inline]
pub fn allgather(
    members: &Members,
    send: &Region,
    result: &Region,
    bytes: usize,
) -> Option<Result<()>> {
    let opened = open(members, |limits| takes(bytes, limits.allgather))?;
    let counted = (Collective::Allgather, bytes, bytes);
    Some(run(&opened, members, counted, |slot| {
        let (own, parts) =
            (Dense { at: send.at(0), bytes }, DenseParts { at: result.at(0), bytes });
        now(cells::allgather(slot, Some(&own), &parts, 0))
    }))
}

/// A blocking all-to-all of `bytes` bytes for each pair; `None` if it must take the slow path.
/// `result` does not overlap `send`.
#[inline]
pub fn alltoall(
    members: &Members,
    send: &Region,
    result: &Region,
    bytes: usize,
) -> Option<Result<()>> {
    let opened = open(members, |limits| takes(bytes, limits.alltoall))?;
    let counted = (Collective::Alltoall, bytes, bytes * opened.group.size());
    Some(run(&opened, members, counted, |slot| {
        let [send, receive] = [send, result].map(|region| DenseParts { at: region.at(0), bytes });
        now(cells::alltoall(slot, Some(&send), &receive, Some(bytes), 0))
    }))
}

/// A blocking allreduce of `bytes` bytes, by a predefined operator; `None` if it must take the slow
/// path. `result` is not `send`.
#[inline]
pub fn allreduce(
    members: &Members,
    send: &Region,
    result: &Region,
    bytes: usize,
    kernel: Kernel,
) -> Option<Result<()>> {
    let opened = open(members, |limits| takes(bytes, limits.allreduce))?;
    let counted = (Collective::Allreduce, bytes, bytes);
    Some(run(&opened, members, counted, |slot| {
        let operand = DenseOperand { own: send.at(0), count: bytes, element: 1, kernel };
        now(reductions::reduce_short::<false, _>(slot, &operand, Some(&result.at(0)), 0, 0))
    }))
}

/// A blocking reduction of `bytes` bytes to the root's `result`, by a predefined operator; `None`
/// if it must take the slow path. `result` is not `send`.
#[inline]
pub fn reduce(
    members: &Members,
    send: &Region,
    result: Option<&Region>,
    bytes: usize,
    kernel: Kernel,
    root: usize,
) -> Option<Result<()>> {
    let opened = open(members, |limits| takes(bytes, limits.reduce))?;
    opened.brought_by(root, bytes)?;
    let counted = (OperationKind::from(Collective::Reduce).rooted(root), bytes, bytes);
    Some(run(&opened, members, counted, |slot| {
        let operand = DenseOperand { own: send.at(0), count: bytes, element: 1, kernel };
        let result = result.map(|result| result.at(0));
        now(reductions::reduce_short::<true, _>(slot, &operand, result.as_ref(), root, 0))
    }))
}

/// A blocking reduction of `total` elements of `element` bytes, by a predefined operator, of which
/// member `m` gets `count_of(m)`; `None` if it must take the slow path. `result` is not `send`.
#[inline]
pub fn reduce_scatter(
    members: &Members,
    send: &Region,
    result: &Region,
    (total, count_of): (usize, impl Fn(usize) -> usize),
    (element, kernel): (usize, Kernel),
) -> Option<Result<()>> {
    let longest = (0..members.size()).map(&count_of).max()?;
    let opened = open(members, |limits| takes(longest * element, limits.reduce_scatter))?;
    let operand = DenseOperand { own: send.at(0), count: total, element, kernel };
    // A longer block goes in pieces.
    if longest > reductions::scattered_piece(opened.group, &operand) {
        return None;
    }
    let counted = (Collective::ReduceScatter, total * element, total * element);
    Some(run(&opened, members, counted, |slot| {
        now(reductions::reduce_scatter_beside(slot, &operand, count_of, &result.at(0), 0))
    }))
}

/// A blocking scan of `bytes` bytes, by a predefined operator; `None` if it must take the slow
/// path. `result` is not `send`.
#[inline]
pub fn scan(
    members: &Members,
    send: &Region,
    result: &Region,
    bytes: usize,
    kernel: Kernel,
) -> Option<Result<()>> {
    let opened = open(members, |limits| takes(bytes, limits.scan))?;
    let counted = (Collective::Scan, bytes, bytes);
    Some(run(&opened, members, counted, |slot| {
        let operand = DenseOperand { own: send.at(0), count: bytes, element: 1, kernel };
        now(reductions::scan(slot, &operand, &result.at(0), ScanKind::Inclusive, 0))
    }))
}

/// Polls an algorithm for messages of any length to its end. Blocks.
#[cold]
fn finish(members: &Members, algorithm: impl Future<Output = Result<AlgorithmEnd>>) -> Result<()> {
    block_on(members.context(), async { algorithm.await.map(drop) })
}

/// Whether a fast path for at most `most` bytes takes `bytes` bytes; 0 bytes never do.
#[inline(always)]
fn takes(bytes: usize, most: usize) -> bool {
    bytes.wrapping_sub(1) < most
}

/// A contiguous view of `bytes` bytes.
#[cold]
fn view_of(region: &Region, bytes: usize) -> View {
    region.clone().view(Shape::Contiguous { bytes })
}

/// `parts` parts of `bytes` bytes each.
#[cold]
fn parts_of(region: &Region, bytes: usize, parts: usize) -> Parts {
    let part = |i: usize| view_of(&region.offset((i * bytes) as isize), bytes);
    Parts::Each((0..parts).map(part).collect())
}

/// Runs an operation that announces `bytes` bytes to the others, and counts `brought` bytes as
/// contributed.
#[inline(always)]
fn run(
    opened: &FastCall<'_>,
    members: &Members,
    (kind, bytes, brought): (impl Into<OperationKind>, usize, usize),
    work: impl FnOnce(&SpinningSlot<'_>) -> Result<()>,
) -> Result<()> {
    let group = opened.group;
    count(opened, brought);
    let slot = FastSlot::begin(group, kind.into(), bytes, |number| {
        wait_until_free(members, group, number)
    })?;
    let result = work(&SpinningSlot { slot, members });
    if result.is_err() {
        slot.announce_failed();
    }
    slot.finish(if brought > INLINE { brought.min(FETCH_MAX) } else { 0 });
    result
}

/// Counts an operation to which this rank contributes `brought` bytes.
#[inline(always)]
pub(super) fn count(opened: &FastCall<'_>, brought: usize) {
    opened.counters.count_collective(TrafficClass::Area, brought);
    opened.counters.count_algorithm(Algorithm::Shared as usize);
}

/// Waits until the memory that operation `number` uses is free.
#[cold]
fn wait_until_free(members: &Members, group: &NodeGroup, number: u64) -> Result<()> {
    wait_long(members, &|| group.is_free(number), &|| Ok(()))
}

/// Waits until `member` has published.
#[inline(always)]
fn wait_for(members: &Members, slot: FastSlot<'_>, member: usize) -> Result<()> {
    if slot.has_published(member) { Ok(()) } else { wait_long_for(members, slot, member) }
}

#[inline(never)]
fn wait_long_for(members: &Members, slot: FastSlot<'_>, member: usize) -> Result<()> {
    let whole = slot.operation_slot();
    wait_long(members, &|| slot.has_published(member), &|| whole.check_reachable(member, 1))
}

/// Waits until all others have published.
#[inline(always)]
pub(super) fn wait_for_all(members: &Members, slot: FastSlot<'_>) -> Result<()> {
    if slot.have_all_published() { Ok(()) } else { wait_long_for_all(members, slot) }
}

#[inline(never)]
fn wait_long_for_all(members: &Members, slot: FastSlot<'_>) -> Result<()> {
    let whole = slot.operation_slot();
    wait_long(members, &|| slot.have_all_published(), &|| whole.check_all_reachable(1))
}

/// Polls until `is_there`; after each failed poll, `may` checks that it can still happen.
#[inline(always)]
fn wait_long(
    members: &Members,
    is_there: &impl Fn() -> bool,
    may: &impl Fn() -> Result<()>,
) -> Result<()> {
    let engine = process::engine()?;
    if !engine.shares_core() {
        for _ in 0..FAST_POLLS {
            if is_there() {
                return Ok(());
            }
            std::hint::spin_loop();
        }
    }
    engine.watch(waiting_in(members.context()), || match is_there() {
        true => Some(Ok(())),
        false => may().err().map(Err),
    })?
}
