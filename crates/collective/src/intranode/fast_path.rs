//! The fast path: a blocking barrier, or a short data movement or reduction of elements without
//! gaps, among ranks that poll each other's flag lines.
//!
//! The steps are those of [`cells`] and [`reduce_cells`](super::reduce::cells), on the same memory,
//! but executed in sequence, without a future and without reference counts ([`FastSlot`]). Such
//! a call takes little longer than the transfer of a cache line between two cores, so every
//! instruction shows. Any unusual case takes the slow path. All ranks decide this alike, from their
//! settings and the length, or use the same phases on both paths.

use mica_memory::{Region, RegionRef, Shape, View};
use mica_node::area::INLINE;
use mica_node::counters::{LiveCounters, TrafficClass};
use mica_policy::collective::Algorithm;
use mica_policy::collective::Collective;

use super::cells::{self, RootMembers};
use super::run::{block_on, waiting_in};
use crate::intranode::cells::parts::Parts;
use crate::intranode::choice::fast_limits::FastPath;
use crate::intranode::protocol::fast_slot::FastSlot;
use crate::intranode::protocol::group::NodeGroup;
use crate::intranode::protocol::header::OperationKind;
use crate::late;
use crate::members::Members;
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

/// Where the payload of a member is: in its line or in its cell.
#[inline(always)]
fn payload<'a>(slot: FastSlot<'a>, member: usize, bytes: usize) -> RegionRef<'a> {
    match bytes <= INLINE {
        true => slot.inline_region(member),
        false => slot.cell(member),
    }
}

/// As [`payload`] of this rank, for it to write.
#[inline(always)]
fn own_payload(slot: FastSlot<'_>, bytes: usize) -> Result<RegionRef<'_>> {
    match bytes <= INLINE {
        true => Ok(slot.inline_region(slot.me())),
        false => slot.cell_to_write(slot.me()),
    }
}

/// A blocking barrier; `None` if it must take the slow path.
#[inline]
pub fn barrier(members: &Members) -> Option<Result<()>> {
    let opened = open(members, |limits| limits.barrier)?;
    let counted = (Collective::Barrier, 0, 0);
    Some(run(&opened, members, counted, |slot| {
        slot.publish();
        wait_for_all(members, slot)?;
        slot.accept_headers()
    }))
}

/// A blocking broadcast of `bytes` bytes at `region`; `None` if it must take the slow path.
#[inline]
pub fn bcast(members: &Members, region: &Region, bytes: usize, root: usize) -> Option<Result<()>> {
    let opened = open(members, |limits| takes(bytes, limits.bcast))?;
    let brought = opened.brought_by(root, bytes)?;
    let kind = OperationKind::from(Collective::Bcast).rooted(root);
    let counted = (kind, bytes, brought);
    Some(run(&opened, members, counted, |slot| {
        if root == slot.me() {
            region.at(0).copy_to(own_payload(slot, bytes)?, bytes);
            slot.publish();
            return Ok(());
        }
        slot.announce();
        wait_for(members, slot, root)?;
        slot.accept_header(root)?;
        if slot.bytes(root) == bytes {
            payload(slot, root, bytes).copy_to(region.at(0), bytes);
            return Ok(());
        }
        // A message of another length takes the general algorithm.
        let view = dense(region, bytes);
        block_on(
            members.context(),
            cells::bcast(&slot.operation_slot(), &view, root, RootMembers::ALL, 0),
        )
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
        let me = slot.me();
        let Some(result) = result else {
            send.at(0).copy_to(own_payload(slot, bytes)?, bytes);
            slot.publish_for(root);
            return Ok(());
        };
        slot.announce();
        let part = |member: usize| result.at(member * bytes);
        send.at(0).copy_to(part(me), bytes);
        for member in cells::after(slot.group()) {
            wait_for(members, slot, member)?;
            slot.accept_header(member)?;
            if slot.bytes(member) != bytes {
                let parts = Parts::Each(parts_of(result, bytes, slot.size()));
                let whole = slot.operation_slot();
                let gather = cells::gather(&whole, None, Some(&parts), root, RootMembers::ALL, 0);
                return block_on(members.context(), gather);
            }
            payload(slot, member, bytes).copy_to(part(member), bytes);
        }
        slot.accept_headers()
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
    let size = opened.group.size();
    let brought = opened.brought_by(root, bytes * size)?;
    let counted = (OperationKind::from(Collective::Scatter).rooted(root), bytes, brought);
    Some(run(&opened, members, counted, |slot| {
        let me = slot.me();
        let in_line = cells::fits_in_line(bytes, size);
        let place = |member: usize| match in_line {
            true => {
                let line = slot.inline_region(root);
                line.at(cells::place_for(root, member, size) * bytes)
            }
            false => slot.cell(member).at(0),
        };
        if let Some(send) = send {
            for member in cells::after(slot.group()) {
                if !in_line {
                    slot.cell_to_write(member)?;
                }
                send.at(member * bytes).copy_to(place(member), bytes);
            }
            slot.publish();
            send.at(me * bytes).copy_to(result.at(0), bytes);
            return Ok(());
        }
        slot.announce();
        wait_for(members, slot, root)?;
        slot.accept_header(root)?;
        if slot.bytes(root) == bytes {
            place(me).copy_to(result.at(0), bytes);
            return Ok(());
        }
        let view = dense(result, bytes);
        let whole = slot.operation_slot();
        let scatter = cells::scatter(&whole, None, Some(&view), root, (RootMembers::ALL, true), 0);
        block_on(members.context(), scatter)
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
    let part = |member: usize| result.at(member * bytes);
    let counted = (Collective::Allgather, bytes, bytes);
    Some(run(&opened, members, counted, |slot| {
        let me = slot.me();
        send.at(0).copy_to(own_payload(slot, bytes)?, bytes);
        slot.publish();
        send.at(0).copy_to(part(me), bytes);
        for member in cells::after(slot.group()) {
            wait_for(members, slot, member)?;
            slot.accept_header(member)?;
            slot.expect_bytes(member, bytes)?;
            payload(slot, member, bytes).copy_to(part(member), bytes);
        }
        slot.accept_headers()
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
    let size = opened.group.size();
    let counted = (Collective::Alltoall, bytes, bytes * size);
    Some(run(&opened, members, counted, |slot| {
        let me = slot.me();
        let in_line = cells::fits_in_line(bytes, size);
        let share = cells::share_of_half(slot.group());
        let stride = if in_line { bytes } else { share };
        let place = |writer: usize, reader: usize| cells::place_for(writer, reader, size) * stride;
        let block = |member: usize| match in_line {
            true => slot.inline_region(member),
            false => slot.cell(member),
        };
        if !in_line {
            slot.cell_to_write(me)?;
        }
        let mine = block(me);
        for member in cells::after(slot.group()) {
            send.at(member * bytes).copy_to(mine.at(place(me, member)), bytes);
        }
        slot.publish();
        send.at(me * bytes).copy_to(result.at(me * bytes), bytes);
        for member in cells::after(slot.group()) {
            wait_for(members, slot, member)?;
            slot.accept_header(member)?;
            slot.expect_bytes(member, bytes)?;
            block(member).at(place(member, me)).copy_to(result.at(member * bytes), bytes);
        }
        slot.accept_headers()
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
        send.at(0).copy_to(own_payload(slot, bytes)?, bytes);
        slot.publish();
        fold_all(members, slot, send, result, bytes, kernel)
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
        let Some(result) = result else {
            send.at(0).copy_to(own_payload(slot, bytes)?, bytes);
            slot.publish_for(root);
            return Ok(());
        };
        slot.announce();
        fold_all(members, slot, send, result, bytes, kernel)
    }))
}

/// A blocking reduction of `total` bytes, in elements of `element` bytes, by a predefined operator,
/// of which member `m` gets `bytes_of(m)` bytes; `None` if it must take the slow path. `result` is
/// not `send`.
#[inline]
pub fn reduce_scatter(
    members: &Members,
    send: &Region,
    result: &Region,
    (total, bytes_of): (usize, impl Fn(usize) -> usize),
    (element, kernel): (usize, Kernel),
) -> Option<Result<()>> {
    let longest = (0..members.size()).map(&bytes_of).max()?;
    let opened = open(members, |limits| takes(longest, limits.reduce_scatter))?;
    let size = opened.group.size();
    // As in `reduce_cells::reduce_scatter`, where a longer block goes in pieces.
    let room = opened.group.cell_bytes() / 2 / element / size * element;
    if longest > room {
        return None;
    }
    let counted = (Collective::ReduceScatter, total, total);
    Some(run(&opened, members, counted, |slot| {
        let me = slot.me();
        let cell = slot.cell_to_write(me)?;
        let (mut from, mut mine) = (0, 0);
        for member in 0..size {
            let bytes = bytes_of(member);
            match member == me {
                true => mine = from,
                false => send.at(from).copy_to(cell.at(member * room), bytes),
            }
            from += bytes;
        }
        slot.publish();
        wait_for_all(members, slot)?;
        slot.accept_headers()?;
        slot.expect_bytes_of_all(total)?;
        let operand = |member: usize| match member == me {
            true => send.at(mine),
            false => slot.cell(member).at(me * room),
        };
        fold(size, operand, result, bytes_of(me), kernel);
        Ok(())
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
        let me = slot.me();
        send.at(0).copy_to(own_payload(slot, bytes)?, bytes);
        slot.publish();
        for member in 0..me {
            wait_for(members, slot, member)?;
            slot.accept_header(member)?;
            slot.expect_bytes(member, bytes)?;
        }
        fold(me + 1, whole(slot, send, bytes), result, bytes, kernel);
        Ok(())
    }))
}

/// Waits until all have published, and reduces their operands.
#[inline(always)]
fn fold_all(
    members: &Members,
    slot: FastSlot<'_>,
    send: &Region,
    result: &Region,
    bytes: usize,
    kernel: Kernel,
) -> Result<()> {
    wait_for_all(members, slot)?;
    slot.accept_headers()?;
    slot.expect_bytes_of_all(bytes)?;
    let operand = whole(slot, send, bytes);
    fold(slot.size(), operand, result, bytes, kernel);
    Ok(())
}

/// The operand of each member, of `bytes` bytes. What this rank has published is in the others'
/// caches by now, so it reads its own operand from the source buffer.
#[inline(always)]
fn whole<'a>(
    slot: FastSlot<'a>,
    send: &'a Region,
    bytes: usize,
) -> impl Fn(usize) -> RegionRef<'a> {
    move |member| match member == slot.me() {
        true => send.at(0),
        false => payload(slot, member, bytes),
    }
}

/// Reduces the operands of the first `members` members to `result`, as
/// [`Reduction::fold`](crate::reduction::Reduction) does: the last one, then those
/// before it.
#[inline(always)]
fn fold<'a>(
    members: usize,
    operand: impl Fn(usize) -> RegionRef<'a>,
    result: &Region,
    bytes: usize,
    kernel: Kernel,
) {
    let last = members - 1;
    for member in (0..members).rev() {
        let operand = operand(member); // one call, so that it is inlined
        match member == last {
            true => operand.copy_to(result.at(0), bytes),
            false => operand.combine_into(result.at(0), bytes, kernel),
        }
    }
}

/// Whether a fast path for at most `most` bytes takes `bytes` bytes; 0 bytes never do.
#[inline(always)]
fn takes(bytes: usize, most: usize) -> bool {
    bytes.wrapping_sub(1) < most
}

/// A contiguous view of `bytes` bytes.
#[cold]
fn dense(region: &Region, bytes: usize) -> View {
    region.clone().view(Shape::Contiguous { bytes })
}

/// Views of `parts` parts of `bytes` bytes each.
#[cold]
fn parts_of(region: &Region, bytes: usize, parts: usize) -> Vec<View> {
    let part = |i: usize| dense(&region.offset((i * bytes) as isize), bytes);
    (0..parts).map(part).collect()
}

/// Runs an operation that announces `bytes` bytes to the others, and counts `brought` bytes as
/// contributed.
#[inline(always)]
fn run(
    opened: &FastCall<'_>,
    members: &Members,
    (kind, bytes, brought): (impl Into<OperationKind>, usize, usize),
    work: impl FnOnce(FastSlot<'_>) -> Result<()>,
) -> Result<()> {
    let group = opened.group;
    count(opened, brought);
    let slot = FastSlot::begin(group, kind.into(), bytes, |number| {
        wait_until_free(members, group, number)
    })?;
    let result = work(slot);
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
