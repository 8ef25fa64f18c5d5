//! The fast lane: a blocking barrier, or a short broadcast or allreduce, among ranks that look at each other's lines.
//!
//! The steps are those of [`cells`](super::cells) and [`reduce_cells`](super::reduce_cells), on the same [`Turn`], taken one after the other
//! without a future and without counting who uses what: such a call takes little longer than a line on its way between two
//! caches, and so every instruction shows. Whatever is out of the ordinary takes the usual way; all ranks decide that alike, from
//! their settings and the length, or meet in the same phases.

use std::borrow::Cow;

use mica_channel::area::INLINE;
use mica_channel::memory::{Region, combine, copy_bytes};
use mica_policy::collective::{Algorithm, Choices, Collective, Reach as Told};
use mica_protocol::{State, WaitKind, Waiting};

use super::reduce_cells::alone_max;
use super::team::{Team, Turn};
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
    allreduce: usize,
}

/// Looks without a pause, which would take longer than the line itself.
const EAGER_LOOKS: u32 = 30;

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
            allreduce: up_to(Collective::Allreduce, alone_max(setting.ranks).min(cell)),
        }
    }
}

/// The team of a communicator, if an operation that `takes` the lane may use it now.
#[inline(always)]
fn open(comm: &Comm, takes: impl FnOnce(&Lane) -> bool) -> Option<&Team> {
    let local = comm.known_local()?;
    (takes(&local.lane) && !late::is_on())
        .then_some(local.team.as_ref())
        .flatten()
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
    let team = open(comm, |lane| lane.barrier)?;
    Some(run(team, comm, Collective::Barrier, 0, |turn| {
        turn.publish(1);
        wait(comm, || turn.have_all_reached(1))?;
        turn.learn_from_all()
    }))
}

/// A blocking broadcast of `bytes` bytes at `region`; `None` if it must take the usual way.
#[inline]
pub fn bcast(comm: &Comm, region: &Region, bytes: usize, root: usize) -> Option<Result<()>> {
    let team = open(comm, |lane| bytes <= lane.bcast)?;
    if bytes == 0 || root >= team.size() {
        return None;
    }
    Some(run(team, comm, Collective::Bcast, bytes, |turn| {
        if root == turn.me() {
            copy_bytes(region, &payload(turn, root, bytes), bytes);
            turn.publish(1);
            return Ok(());
        }
        wait(comm, || turn.has_reached(root, 1))?;
        turn.learn_from(root)?;
        // A message of another length is read with the usual care.
        match turn.bytes(root) {
            sent if sent == bytes => copy_bytes(&payload(turn, root, bytes), region, bytes),
            _ => return Err(turn.disagreement(root, bytes)),
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
    let team = open(comm, |lane| bytes <= lane.allreduce)?;
    if bytes == 0 {
        return None;
    }
    Some(run(team, comm, Collective::Allreduce, bytes, |turn| {
        copy_bytes(send, &payload(turn, turn.me(), bytes), bytes);
        turn.publish(1);
        wait(comm, || turn.have_all_reached(1))?;
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

#[inline(always)]
fn run(
    team: &Team,
    comm: &Comm,
    collective: Collective,
    bytes: usize,
    work: impl FnOnce(&Turn<'_>) -> Result<()>,
) -> Result<()> {
    let turn = Turn::new(team, team.reserve(false), collective as u8 + 1, true);
    wait(comm, || turn.is_free())?;
    turn.open(bytes);
    let result = work(&turn);
    turn.finish();
    result
}

/// Looks until `is_there`.
#[inline(always)]
fn wait(comm: &Comm, is_there: impl Fn() -> bool) -> Result<()> {
    if is_there() {
        return Ok(());
    }
    wait_long(comm, &is_there)
}

#[inline(never)]
fn wait_long(comm: &Comm, is_there: &dyn Fn() -> bool) -> Result<()> {
    let engine = process::engine()?;
    if !engine.shares_core() {
        for look in 0..LOOKS {
            if is_there() {
                return Ok(());
            }
            if look > EAGER_LOOKS {
                std::hint::spin_loop();
            }
        }
    }
    let waiting = |state: &State| Waiting {
        kind: WaitKind::Collective,
        peer: -1,
        tag: -1,
        context: comm.context(),
        unexpected: state.unexpected_messages() as u32,
    };
    Ok(engine.watch(waiting, || is_there().then_some(()))?)
}
