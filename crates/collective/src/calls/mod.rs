//! The collective calls: check the arguments, build this rank's schedule.
//!
//! One function serves the three forms of a call: the blocking one runs the schedule
//! ([`execute::run`]), the non-blocking one starts it ([`execute::start`]), the persistent one
//! keeps it ([`execute::persistent`]).
//!
//! [`execute::run`]: super::execute::run
//! [`execute::start`]: super::execute::start
//! [`execute::persistent`]: super::execute::persistent
//!
//! `None` in place of a send buffer (of a receive buffer in scatter) means `MPI_IN_PLACE`; a buffer
//! that is significant only at the root is `None` elsewhere.

mod checks;
mod reductions;

pub use reductions::{allreduce, exscan, reduce, reduce_scatter, reduce_scatter_block, scan};

use mica_memory::View;

use super::arguments::{BlockList, BufferArgument};
use super::inter::{self, InterSides};
use super::intranode::choice::plan::{CollectivePlan, plan};
use super::intranode::{CollectiveOperation, Parts};
use super::overlap;
use super::refused::{DivertedBuffer, refused};
use super::thresholds::MessageThresholds;
use super::two_level;
use crate::members::Members;
use checks::{needed, needed_for, place, root_only, rooted, spread};
use mica_objects::error::Result;

const LIMITS: MessageThresholds = MessageThresholds::DEFAULT;

/// `MPI_Barrier`, `MPI_Ibarrier`, `MPI_Barrier_init`.
pub fn barrier(members: &Members) -> Result<CollectivePlan> {
    if let Some(sides) = InterSides::of(members) {
        return Ok(inter::barrier(sides).into());
    }
    if let Some((layout, limits)) = spread(members)? {
        return two_level::barrier(layout, limits).map(CollectivePlan::Rounds);
    }
    plan(members, CollectiveOperation::Barrier)
}

/// `MPI_Bcast`, `MPI_Ibcast`, `MPI_Bcast_init`.
pub fn bcast(members: &Members, buffer: &BufferArgument, root: i32) -> Result<CollectivePlan> {
    if let Some(sides) = InterSides::of(members) {
        let schedule = inter::bcast(sides, &LIMITS, buffer.view()?, sides.root(root)?);
        return schedule.map(CollectivePlan::Rounds);
    }
    let me = place(members);
    let root = rooted(me, root)?;
    if let Some((layout, limits)) = spread(members)? {
        let schedule = two_level::bcast(layout, limits, buffer.view()?, root);
        return schedule.map(|schedule| schedule.rooted(Some(root)).into());
    }
    let view = buffer.view()?;
    plan(members, CollectiveOperation::Bcast { view, root })
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
    if let (Some(send), Some(receive)) = (send, receive)
        && let Err(error) = overlap::check_buffers((send, 1), (receive, me.size))
    {
        let (send, aside) = (send.copied(1)?, receive.aside(me.size)?);
        return refused(error, gather(members, Some(&send), Some(&aside), root as i32));
    }
    let send = send.map(BufferArgument::view).transpose()?;
    let blocks = receive.map(|b| b.blocks(me.size)).transpose()?;
    if let Some((layout, limits)) = spread(members)? {
        let schedule = two_level::gather(layout, limits, send, blocks.as_ref(), root);
        return schedule.map(|schedule| schedule.rooted(Some(root)).into());
    }
    let bytes = match (&send, &blocks) {
        (_, Some(blocks)) => Some(blocks.bytes()),
        (send, None) => send.as_ref().map(View::len),
    };
    let parts = blocks.map(|blocks| Parts::Even(blocks, me.size));
    plan(members, CollectiveOperation::Gather { send, parts, root, bytes })
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
    if let (Some(send), Some(receive)) = (send, &receive)
        && let Err(error) = overlap::check(&[send.view()?], &receive.views)
    {
        let (send, aside) = (send.copied(1)?, receive.aside(1)?);
        return refused(error, gatherv(members, Some(&send), Some(aside), root as i32));
    }
    let send = send.map(BufferArgument::view).transpose()?;
    let parts = receive.map(|r| Parts::Each(r.views));
    plan(members, CollectiveOperation::Gather { send, parts, root, bytes: None })
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
    if let (Some(send), Some(receive)) = (send, receive)
        && let Err(error) = overlap::check_buffers((send, me.size), (receive, 1))
    {
        let (send, aside) = (send.copied(me.size)?, receive.aside(1)?);
        return refused(error, scatter(members, Some(&send), Some(&aside), root as i32));
    }
    let blocks = send.map(|b| b.blocks(me.size)).transpose()?;
    let receive = receive.map(BufferArgument::view).transpose()?;
    if let Some((layout, limits)) = spread(members)? {
        let schedule = two_level::scatter(layout, limits, blocks.as_ref(), receive, root);
        return schedule.map(|schedule| schedule.rooted(Some(root)).into());
    }
    let bytes = match (&receive, &blocks) {
        (_, Some(blocks)) => Some(blocks.bytes()),
        (receive, None) => receive.as_ref().map(View::len),
    };
    let parts = blocks.map(|blocks| Parts::Even(blocks, me.size));
    plan(members, CollectiveOperation::Scatter { parts, receive, root, bytes })
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
    if let (Some(list), Some(receive)) = (&send, receive)
        && let Err(error) = overlap::check(&list.views, &[receive.view()?])
    {
        let (send, aside) = (list.copied(1)?, receive.aside(1)?);
        return refused(error, scatterv(members, Some(send), Some(&aside), root as i32));
    }
    let receive = receive.map(BufferArgument::view).transpose()?;
    let parts = send.map(|s| Parts::Each(s.views));
    plan(members, CollectiveOperation::Scatter { parts, receive, root, bytes: None })
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
    let me = place(members);
    if let Some(send) = send
        && let Err(error) = overlap::check_buffers((send, 1), (receive, me.size))
    {
        let (send, aside) = (send.copied(1)?, receive.aside(me.size)?);
        return refused(error, allgather(members, Some(&send), &aside));
    }
    let send = send.map(BufferArgument::view).transpose()?;
    let blocks = receive.blocks(me.size)?;
    if let Some((layout, limits)) = spread(members)? {
        return two_level::allgather_blocks(layout, limits, send, &blocks)
            .map(CollectivePlan::Rounds);
    }
    let parts = Parts::Even(blocks, me.size);
    plan(members, CollectiveOperation::Allgather { send, parts })
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
    if let Some(send) = send
        && let Err(error) = overlap::check(&[send.view()?], &receive.views)
    {
        let (send, aside) = (send.copied(1)?, receive.aside(1)?);
        return refused(error, allgatherv(members, Some(&send), aside));
    }
    let send = send.map(BufferArgument::view).transpose()?;
    if let Some((layout, limits)) = spread(members)? {
        return two_level::allgather(layout, limits, send, &receive.views)
            .map(CollectivePlan::Rounds);
    }
    let parts = Parts::Each(receive.views);
    plan(members, CollectiveOperation::Allgather { send, parts })
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
    let me = place(members);
    if let Some(send) = send
        && let Err(error) = overlap::check_buffers((send, me.size), (receive, me.size))
    {
        let (send, aside) = (send.copied(me.size)?, receive.aside(me.size)?);
        return refused(error, alltoall(members, Some(&send), &aside));
    }
    let send = send.map(|b| b.blocks(me.size)).transpose()?;
    let blocks = receive.blocks(me.size)?;
    if let Some((layout, limits)) = spread(members)? {
        return two_level::alltoall(layout, limits, send.as_ref(), &blocks)
            .map(CollectivePlan::Rounds);
    }
    let (send, receive) =
        (send.map(|send| Parts::Even(send, me.size)), Parts::Even(blocks, me.size));
    plan(members, CollectiveOperation::Alltoall { send, receive })
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
    if let Some(send) = &send
        && let Err(error) = overlap::check(&send.views, &receive.views)
    {
        let (send, aside) = (send.copied(1)?, receive.aside(1)?);
        return refused(error, alltoallv(members, Some(send), aside));
    }
    if let (Some(send), Some((layout, limits))) = (&send, spread(members)?) {
        let (send, receive) = (&send.views, &receive.views);
        return Ok(two_level::exchange(layout, limits, send, receive).into());
    }
    let send = send.map(|send| Parts::Each(send.views));
    let receive = Parts::Each(receive.views);
    plan(members, CollectiveOperation::Alltoall { send, receive })
}
