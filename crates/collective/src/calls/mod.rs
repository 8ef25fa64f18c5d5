//! The collective calls: check the arguments, build this rank's schedule.
//!
//! One function serves the three forms of a call: the blocking one runs the schedule
//! ([`execute::run`]), the non-blocking one starts it ([`execute::start`]), the persistent one
//! keeps it ([`execute::PersistentCollective`]).
//!
//! [`execute::run`]: super::execute::run
//! [`execute::start`]: super::execute::start
//! [`execute::PersistentCollective`]: super::execute::PersistentCollective
//!
//! `None` in place of a send buffer (of a receive buffer in scatter) means `MPI_IN_PLACE`; a buffer
//! that is significant only at the root is `None` elsewhere.

mod checks;
mod reductions;

pub use checks::{place, rooted};
pub use reductions::{allreduce, exscan, reduce, reduce_scatter, reduce_scatter_block, scan};

use mica_memory::View;

use super::arguments::{BlockList, BufferArgument};
use super::inter::{self, InterSides};
use super::intranode::choice::plan::{CollectivePlan, plan};
use super::intranode::{CollectiveOperation, Parts};
use super::place::Blocks;
use super::refused::refused;
use super::thresholds::MessageThresholds;
use super::two_level;
use crate::members::Members;
use checks::{needed, needed_for, root_only, spread};
use mica_objects::error::Result;

const LIMITS: MessageThresholds = MessageThresholds::DEFAULT;

/// The plan of a collective of an intra-communicator, whose arguments are right one by one. It is
/// refused if what this rank sends shares bytes with what it receives into.
fn planned(members: &Members, operation: CollectiveOperation) -> Result<CollectivePlan> {
    match operation.check_apart(members.rank()) {
        Ok(()) => plan_at_levels(members, operation),
        Err(error) => {
            let diverted = operation.diverted(members.rank())?;
            refused(error, plan_at_levels(members, diverted))
        }
    }
}

/// The plan of a collective in two levels, where the members are on several nodes and that pays;
/// else in one.
fn plan_at_levels(members: &Members, operation: CollectiveOperation) -> Result<CollectivePlan> {
    if let Some((layout, limits)) = spread(members)?
        && let Some(schedule) = two_level::schedule(layout, limits, &operation)?
    {
        return Ok(schedule.into());
    }
    plan(members, operation)
}

/// `MPI_Barrier`, `MPI_Ibarrier`, `MPI_Barrier_init`.
pub fn barrier(members: &Members) -> Result<CollectivePlan> {
    match InterSides::of(members) {
        Some(sides) => Ok(inter::barrier(sides).into()),
        None => planned(members, CollectiveOperation::Barrier),
    }
}

/// `MPI_Bcast`, `MPI_Ibcast`, `MPI_Bcast_init`.
pub fn bcast(members: &Members, buffer: &BufferArgument, root: i32) -> Result<CollectivePlan> {
    if let Some(sides) = InterSides::of(members) {
        let schedule = inter::bcast(sides, &LIMITS, buffer.view()?, sides.root(root)?);
        return schedule.map(CollectivePlan::Rounds);
    }
    let root = rooted(place(members), root)?;
    planned(members, CollectiveOperation::Bcast { view: buffer.view()?, root })
}

/// `MPI_Gather`, `MPI_Igather`, `MPI_Gather_init`.
pub fn gather(
    members: &Members,
    send: Option<&BufferArgument>,
    receive: Option<&BufferArgument>,
    root: i32,
) -> Result<CollectivePlan> {
    if let Some(sides) = InterSides::of(members) {
        let root = sides.root(root)?;
        let send = needed_for(root, send)?.map(BufferArgument::view).transpose()?;
        let blocks = receive.map(|b| b.blocks(sides.remote)?.each(sides.remote));
        return Ok(inter::gather(sides, send, blocks.transpose()?, root).into());
    }
    let me = place(members);
    let root = rooted(me, root)?;
    root_only(me, root, &send)?;
    let send = send.map(BufferArgument::view).transpose()?;
    let blocks = receive.map(|b| b.blocks(me.size)).transpose()?;
    let bytes = bytes_of_each(blocks.as_ref(), send.as_ref());
    let parts = blocks.map(|blocks| Parts::Even(blocks, me.size));
    planned(members, CollectiveOperation::Gather { send, parts, root, bytes })
}

/// Bytes of each rank in a gather or scatter, which all ranks know: those of a block at the root,
/// else those of the rank's own part.
fn bytes_of_each(blocks: Option<&Blocks>, own: Option<&View>) -> Option<usize> {
    blocks.map(Blocks::bytes).or_else(|| own.map(View::len))
}

/// `MPI_Gatherv`, `MPI_Igatherv`, `MPI_Gatherv_init`.
pub fn gatherv(
    members: &Members,
    send: Option<&BufferArgument>,
    receive: Option<BlockList>,
    root: i32,
) -> Result<CollectivePlan> {
    if let Some(sides) = InterSides::of(members) {
        let root = sides.root(root)?;
        let send = needed_for(root, send)?.map(BufferArgument::view).transpose()?;
        return Ok(inter::gather(sides, send, receive.map(|r| r.views), root).into());
    }
    let me = place(members);
    let root = rooted(me, root)?;
    root_only(me, root, &send)?;
    let send = send.map(BufferArgument::view).transpose()?;
    let parts = receive.map(|r| Parts::Each(r.views));
    planned(members, CollectiveOperation::Gather { send, parts, root, bytes: None })
}

/// `MPI_Scatter`, `MPI_Iscatter`, `MPI_Scatter_init`.
pub fn scatter(
    members: &Members,
    send: Option<&BufferArgument>,
    receive: Option<&BufferArgument>,
    root: i32,
) -> Result<CollectivePlan> {
    if let Some(sides) = InterSides::of(members) {
        let root = sides.root(root)?;
        let blocks = send.map(|b| b.blocks(sides.remote)?.each(sides.remote));
        let receive = needed_for(root, receive)?.map(BufferArgument::view).transpose()?;
        return Ok(inter::scatter(sides, blocks.transpose()?, receive, root).into());
    }
    let me = place(members);
    let root = rooted(me, root)?;
    root_only(me, root, &receive)?;
    let blocks = send.map(|b| b.blocks(me.size)).transpose()?;
    let receive = receive.map(BufferArgument::view).transpose()?;
    let bytes = bytes_of_each(blocks.as_ref(), receive.as_ref());
    let parts = blocks.map(|blocks| Parts::Even(blocks, me.size));
    planned(members, CollectiveOperation::Scatter { parts, receive, root, bytes })
}

/// `MPI_Scatterv`, `MPI_Iscatterv`, `MPI_Scatterv_init`.
pub fn scatterv(
    members: &Members,
    send: Option<BlockList>,
    receive: Option<&BufferArgument>,
    root: i32,
) -> Result<CollectivePlan> {
    if let Some(sides) = InterSides::of(members) {
        let root = sides.root(root)?;
        let receive = needed_for(root, receive)?.map(BufferArgument::view).transpose()?;
        return Ok(inter::scatter(sides, send.map(|s| s.views), receive, root).into());
    }
    let me = place(members);
    let root = rooted(me, root)?;
    root_only(me, root, &receive)?;
    let receive = receive.map(BufferArgument::view).transpose()?;
    let parts = send.map(|s| Parts::Each(s.views));
    planned(members, CollectiveOperation::Scatter { parts, receive, root, bytes: None })
}

/// `MPI_Allgather`, `MPI_Iallgather`, `MPI_Allgather_init`.
pub fn allgather(
    members: &Members,
    send: Option<&BufferArgument>,
    receive: &BufferArgument,
) -> Result<CollectivePlan> {
    if let Some(sides) = InterSides::of(members) {
        let blocks = receive.blocks(sides.remote)?.each(sides.remote)?;
        return Ok(inter::allgather(sides, needed(send)?.view()?, &blocks).into());
    }
    let send = send.map(BufferArgument::view).transpose()?;
    let parts = Parts::Even(receive.blocks(members.size())?, members.size());
    planned(members, CollectiveOperation::Allgather { send, parts })
}

/// `MPI_Allgatherv`, `MPI_Iallgatherv`, `MPI_Allgatherv_init`.
pub fn allgatherv(
    members: &Members,
    send: Option<&BufferArgument>,
    receive: BlockList,
) -> Result<CollectivePlan> {
    if let Some(sides) = InterSides::of(members) {
        let send = needed(send)?.view()?;
        return Ok(inter::allgather(sides, send, &receive.views).into());
    }
    let send = send.map(BufferArgument::view).transpose()?;
    planned(members, CollectiveOperation::Allgather { send, parts: Parts::Each(receive.views) })
}

/// `MPI_Alltoall`, `MPI_Ialltoall`, `MPI_Alltoall_init`.
pub fn alltoall(
    members: &Members,
    send: Option<&BufferArgument>,
    receive: &BufferArgument,
) -> Result<CollectivePlan> {
    if let Some(sides) = InterSides::of(members) {
        let each = |buffer: &BufferArgument| buffer.blocks(sides.remote)?.each(sides.remote);
        let (send, receive) = (each(needed(send)?)?, each(receive)?);
        return Ok(inter::alltoall(sides, &LIMITS, &send, &receive).into());
    }
    let size = members.size();
    let parts = |buffer: &BufferArgument| buffer.blocks(size).map(|b| Parts::Even(b, size));
    let send = send.map(parts).transpose()?;
    planned(members, CollectiveOperation::Alltoall { send, receive: parts(receive)? })
}

/// `MPI_Alltoallv`, `MPI_Alltoallw` and their non-blocking and persistent forms.
pub fn alltoallv(
    members: &Members,
    send: Option<BlockList>,
    receive: BlockList,
) -> Result<CollectivePlan> {
    if let Some(sides) = InterSides::of(members) {
        let send = needed(send)?.views;
        return Ok(inter::alltoall(sides, &LIMITS, &send, &receive.views).into());
    }
    let send = send.map(|send| Parts::Each(send.views));
    planned(members, CollectiveOperation::Alltoall { send, receive: Parts::Each(receive.views) })
}
