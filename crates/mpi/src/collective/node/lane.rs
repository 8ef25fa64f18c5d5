//! The fast lane: a blocking barrier, or a short broadcast, allgather, all-to-all or allreduce, among ranks that look at each other's
//! lines.
//!
//! The steps are those of [`cells`](super::cells) and [`reduce_cells`](super::reduce_cells), on the same [`Turn`], taken one after the other
//! without a future and without counting who uses what: such a call takes little longer than a line on its way between two
//! caches, and so every instruction shows. Whatever is out of the ordinary takes the usual way; all ranks decide that alike, from
//! their settings and the length, or meet in the same phases.

use std::borrow::Cow;

use mica_channel::area::INLINE;
use mica_channel::memory::{Region, Shape, combine, copy_bytes};
use mica_policy::collective::{Algorithm, Choices, Collective, Reach as Told};
use mica_protocol::{CollectiveTraffic, Way};

use super::cells::{self, share_of};
use super::reduce_cells::alone_max;
use super::team::{PATIENCE, Team, Turn};
use super::word::Kind;
use super::{block_on, waiting_in};
use crate::comm::Comm;
use crate::error::Result;
use crate::late;
use crate::op::kernel::Kernel;
use crate::process;

/// What may take the fast lane: longest messages in bytes, by collective.
#[derive(Debug, Clone, Copy, Default)]
pub struct Lane {
    barrier: bool,
    bcast: usize,
    allgather: usize,
    alltoall: usize,
    allreduce: usize,
}

/// Looks before others get a chance.
const LOOKS: u32 = 300;

impl Lane {
    /// What these choices send through an area anyway.
    pub fn new(choices: &Choices, reach: Told) -> Lane {
        let is_shared = |collective, bytes| {
            choices.algorithm(collective, bytes, true, reach) == Algorithm::Shared
        };
        // Lengths at which a choice may change.
        let lengths =
            (1..16).chain((4..28).flat_map(|octave| (4..8usize).map(move |n| n << octave >> 2)));
        let up_to = |collective, most: usize| {
            lengths
                .clone()
                .take_while(|&bytes| bytes <= most && is_shared(collective, bytes))
                .last()
                .unwrap_or(0)
        };
        let setting = choices.setting();
        let cell = setting.area_cell.unwrap_or(0);
        Lane {
            barrier: is_shared(Collective::Barrier, 0),
            bcast: up_to(Collective::Bcast, cell / 2),
            allgather: up_to(Collective::Allgather, cell / 2),
            alltoall: up_to(Collective::Alltoall, share_of(cell / 2, setting.ranks)),
            allreduce: up_to(Collective::Allreduce, alone_max(setting.ranks).min(cell)),
        }
    }
}

/// The team of a communicator, if an operation that `takes` the lane may use it now.
#[inline(always)]
fn open(comm: &Comm, takes: impl FnOnce(&Lane) -> bool) -> Option<Opened<'_>> {
    let local = comm.known_local()?;
    if !takes(&local.lane) || late::is_on() {
        return None;
    }
    Some(Opened {
        team: local.team.as_ref()?,
        traffic: &local.traffic,
    })
}

/// A communicator whose operation takes the lane.
struct Opened<'a> {
    team: &'a Team,
    traffic: &'a CollectiveTraffic,
}

/// Where the payload of a member is: in its line, or in its cell.
#[inline(always)]
fn payload<'a>(turn: &Turn<'a>, member: usize, bytes: usize) -> Cow<'a, Region> {
    match bytes <= INLINE {
        true => Cow::Borrowed(turn.inline_region(member)),
        false => Cow::Owned(turn.cell(member)),
    }
}

/// A blocking barrier; `None` if it must take the usual way.
#[inline]
pub fn barrier(comm: &Comm) -> Option<Result<()>> {
    let opened = open(comm, |lane| lane.barrier)?;
    let what = (Collective::Barrier, 0, 0);
    Some(run(&opened, comm, what, |turn| {
        turn.publish(1);
        wait_for_all(comm, turn)?;
        turn.learn_from_all()
    }))
}

/// A blocking broadcast of `bytes` bytes at `region`; `None` if it must take the usual way.
#[inline]
pub fn bcast(comm: &Comm, region: &Region, bytes: usize, root: usize) -> Option<Result<()>> {
    let opened = open(comm, |lane| bytes <= lane.bcast)?;
    if bytes == 0 || root >= opened.team.size() {
        return None;
    }
    let brought = if root == opened.team.me() { bytes } else { 0 };
    let kind = Kind::from(Collective::Bcast).rooted(root);
    let what = (kind, bytes, brought);
    Some(run(&opened, comm, what, |turn| {
        if root == turn.me() {
            copy_bytes(region, &payload(turn, root, bytes), bytes);
            turn.publish(1);
            return Ok(());
        }
        wait_for(comm, turn, root)?;
        turn.learn_from(root)?;
        if turn.bytes(root) == bytes {
            copy_bytes(&payload(turn, root, bytes), region, bytes);
            return Ok(());
        }
        // A message of another length is taken with all due care.
        let view = region.clone().view(Shape::Contiguous { bytes });
        block_on(comm.context(), cells::bcast(turn, &view, root, 0))
    }))
}

/// A blocking allgather of `bytes` bytes of each rank; `None` if it must take the usual way. `result` is apart from `send`.
#[inline]
pub fn allgather(comm: &Comm, send: &Region, result: &Region, bytes: usize) -> Option<Result<()>> {
    let opened = open(comm, |lane| bytes <= lane.allgather)?;
    if bytes == 0 {
        return None;
    }
    let part = |member: usize| result.offset((member * bytes) as isize);
    let what = (Collective::Allgather, bytes, bytes);
    Some(run(&opened, comm, what, |turn| {
        let me = turn.me();
        copy_bytes(send, &payload(turn, me, bytes), bytes);
        turn.publish(1);
        copy_bytes(send, &part(me), bytes);
        for member in cells::after(turn) {
            wait_for(comm, turn, member)?;
            turn.learn_from(member)?;
            turn.expect_bytes(member, bytes)?;
            copy_bytes(&payload(turn, member, bytes), &part(member), bytes);
        }
        Ok(())
    }))
}

/// A blocking all-to-all of `bytes` bytes for each pair; `None` if it must take the usual way. `result` is apart from `send`.
#[inline]
pub fn alltoall(comm: &Comm, send: &Region, result: &Region, bytes: usize) -> Option<Result<()>> {
    let opened = open(comm, |lane| bytes <= lane.alltoall)?;
    if bytes == 0 {
        return None;
    }
    let part = |region: &Region, member: usize| region.offset((member * bytes) as isize);
    let what = (Collective::Alltoall, bytes, bytes * opened.team.size());
    Some(run(&opened, comm, what, |turn| {
        let (me, size, piece) = (turn.me(), turn.size(), cells::share_of_half(turn));
        let place = |writer: usize, reader: usize| {
            let at = cells::place_for(writer, reader, size) * piece;
            turn.half(writer, 0).offset(at as isize)
        };
        for member in cells::after(turn) {
            copy_bytes(&part(send, member), &place(me, member), bytes);
        }
        turn.publish(1);
        copy_bytes(&part(send, me), &part(result, me), bytes);
        for member in cells::after(turn) {
            wait_for(comm, turn, member)?;
            turn.learn_from(member)?;
            turn.expect_bytes(member, bytes)?;
            copy_bytes(&place(member, me), &part(result, member), bytes);
        }
        Ok(())
    }))
}

/// A blocking allreduce of `bytes` bytes, by a predefined operator; `None` if it must take the usual way. `result` is not `send`.
#[inline]
pub fn allreduce(
    comm: &Comm,
    send: &Region,
    result: &Region,
    bytes: usize,
    kernel: Kernel,
) -> Option<Result<()>> {
    let opened = open(comm, |lane| bytes <= lane.allreduce)?;
    if bytes == 0 {
        return None;
    }
    let what = (Collective::Allreduce, bytes, bytes);
    Some(run(&opened, comm, what, |turn| {
        copy_bytes(send, &payload(turn, turn.me(), bytes), bytes);
        turn.publish(1);
        wait_for_all(comm, turn)?;
        turn.learn_from_all()?;
        turn.expect_bytes_of_all(bytes)?;
        // As `Reduction::fold`: the last operand, then the others before it.
        let last = turn.size() - 1;
        copy_bytes(&payload(turn, last, bytes), result, bytes);
        for member in (0..last).rev() {
            combine(&payload(turn, member, bytes), result, bytes, kernel);
        }
        Ok(())
    }))
}

/// Runs an operation that tells the others of `bytes` bytes, and counts as so many `brought`.
#[inline(always)]
fn run(
    opened: &Opened<'_>,
    comm: &Comm,
    (kind, bytes, brought): (impl Into<Kind>, usize, usize),
    work: impl FnOnce(&Turn<'_>) -> Result<()>,
) -> Result<()> {
    let Opened { team, traffic } = *opened;
    traffic.count(Way::Area, brought);
    let turn = Turn::new(team, team.reserve(false), kind.into(), true);
    wait(comm, || turn.is_free(), |_| Ok(()))?;
    turn.open(bytes);
    let result = work(&turn);
    turn.finish();
    result
}

/// Waits until `member` has published.
#[inline(always)]
fn wait_for(comm: &Comm, turn: &Turn<'_>, member: usize) -> Result<()> {
    wait(
        comm,
        || turn.has_reached(member, 1),
        |first| turn.may_come(member, 1, first),
    )
}

/// Waits until all others have published.
#[inline(always)]
fn wait_for_all(comm: &Comm, turn: &Turn<'_>) -> Result<()> {
    wait(
        comm,
        || turn.have_all_reached(1),
        |first| turn.may_all_come(1, first),
    )
}

/// Looks until `is_there`, as long as it `may` come; that is asked after some looks in vain, and told when it is the first time.
#[inline(always)]
fn wait(comm: &Comm, is_there: impl Fn() -> bool, may: impl Fn(bool) -> Result<()>) -> Result<()> {
    if is_there() {
        return Ok(());
    }
    wait_long(comm, &is_there, &may)
}

#[inline(never)]
fn wait_long(
    comm: &Comm,
    is_there: &dyn Fn() -> bool,
    may: &dyn Fn(bool) -> Result<()>,
) -> Result<()> {
    let engine = process::engine()?;
    if !engine.shares_core() {
        for _ in 0..LOOKS {
            if is_there() {
                return Ok(());
            }
            // Without the pause the processor reads ahead of the stamp, and does it all again when that changes (20 ns).
            std::hint::spin_loop();
        }
    }
    let mut looks = 0u32;
    engine.watch(waiting_in(comm.context()), || {
        if is_there() {
            return Some(Ok(()));
        }
        looks = looks.saturating_add(1);
        match looks < PATIENCE {
            true => None,
            false => may(looks == PATIENCE).err().map(Err),
        }
    })?
}
