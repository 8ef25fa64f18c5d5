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

use mica_channel::memory::{Region, View};

use super::arguments::{BlockList, BufferArgument, checked_count, in_place_away_from_root};
use super::inter::{self, InterSides, Root};
use super::intranode::plan::{CollectivePlan, plan};
use super::intranode::{CollectiveOperation, Parts};
use super::layout::RanksByNode;
use super::overlap;
use super::place::{Elements, RankPlace};
use super::reduction::Reduction;
use super::refused::{Aside, refused};
use super::scan::ScanKind;
use super::schedule::Schedule;
use super::thresholds::{MessageThresholds, TwoLevel};
use super::two_level;
use crate::comm::Comm;
use crate::constants as c;
use crate::datatype::Datatype;
use crate::error::{Error, Result};
use crate::op::Op;

const LIMITS: MessageThresholds = MessageThresholds::DEFAULT;

/// `MPI_Barrier`, `MPI_Ibarrier`, `MPI_Barrier_init`.
pub fn barrier(comm: &Comm) -> Result<CollectivePlan> {
    if let Some(sides) = InterSides::of(comm) {
        return Ok(inter::barrier(sides).into());
    }
    if let Some((layout, limits)) = spread(comm)? {
        return two_level::barrier(layout, limits).map(CollectivePlan::Rounds);
    }
    plan(comm, CollectiveOperation::Barrier)
}

/// `MPI_Bcast`, `MPI_Ibcast`, `MPI_Bcast_init`.
pub fn bcast(comm: &Comm, buffer: &BufferArgument, root: i32) -> Result<CollectivePlan> {
    if let Some(sides) = InterSides::of(comm) {
        let schedule = inter::bcast(sides, &LIMITS, buffer.view()?, sides.root(root)?);
        return schedule.map(CollectivePlan::Rounds);
    }
    let me = place(comm);
    let root = rooted(me, root)?;
    if let Some((layout, limits)) = spread(comm)? {
        return two_level::bcast(layout, limits, buffer.view()?, root).map(CollectivePlan::Rounds);
    }
    let view = buffer.view()?;
    plan(comm, CollectiveOperation::Bcast { view, root })
}

/// `MPI_Gather`, `MPI_Igather`, `MPI_Gather_init`.
pub fn gather(
    comm: &Comm,
    send: Option<&BufferArgument>,
    receive: Option<&BufferArgument>,
    root: i32,
) -> Result<CollectivePlan> {
    if let Some(sides) = InterSides::of(comm) {
        let root = sides.root(root)?;
        let send = needed_for(root, send)?
            .map(BufferArgument::view)
            .transpose()?;
        let blocks = receive.map(|b| b.blocks(sides.remote)?.each(sides.remote));
        return Ok(inter::gather(sides, send, blocks.transpose()?, root).into());
    }
    let me = place(comm);
    let root = rooted(me, root)?;
    root_only(me, root, send.is_some())?;
    if let (Some(send), Some(receive)) = (send, receive)
        && let Err(error) = overlap::check_buffers((send, 1), (receive, me.size))
    {
        let (send, aside) = (send.copied(1)?, receive.aside(me.size)?);
        return refused(error, gather(comm, Some(&send), Some(&aside), root as i32));
    }
    let send = send.map(BufferArgument::view).transpose()?;
    let blocks = receive.map(|b| b.blocks(me.size)).transpose()?;
    if let Some((layout, limits)) = spread(comm)? {
        return two_level::gather(layout, limits, send, blocks.as_ref(), root)
            .map(CollectivePlan::Rounds);
    }
    let bytes = match (&send, &blocks) {
        (_, Some(blocks)) => Some(blocks.bytes()),
        (send, None) => send.as_ref().map(View::len),
    };
    let parts = blocks.map(|blocks| Parts::Even(blocks, me.size));
    plan(
        comm,
        CollectiveOperation::Gather {
            send,
            parts,
            root,
            bytes,
        },
    )
}

/// `MPI_Gatherv`, `MPI_Igatherv`, `MPI_Gatherv_init`.
pub fn gatherv(
    comm: &Comm,
    send: Option<&BufferArgument>,
    receive: Option<BlockList>,
    root: i32,
) -> Result<CollectivePlan> {
    if let Some(sides) = InterSides::of(comm) {
        let root = sides.root(root)?;
        let send = needed_for(root, send)?
            .map(BufferArgument::view)
            .transpose()?;
        return Ok(inter::gather(sides, send, receive.map(|r| r.views), root).into());
    }
    let me = place(comm);
    let root = rooted(me, root)?;
    root_only(me, root, send.is_some())?;
    if let (Some(send), Some(receive)) = (send, &receive)
        && let Err(error) = overlap::check(&[send.view()?], &receive.views)
    {
        let (send, aside) = (send.copied(1)?, receive.aside(1)?);
        return refused(error, gatherv(comm, Some(&send), Some(aside), root as i32));
    }
    let send = send.map(BufferArgument::view).transpose()?;
    let parts = receive.map(|r| Parts::Each(r.views));
    plan(
        comm,
        CollectiveOperation::Gather {
            send,
            parts,
            root,
            bytes: None,
        },
    )
}

/// `MPI_Scatter`, `MPI_Iscatter`, `MPI_Scatter_init`.
pub fn scatter(
    comm: &Comm,
    send: Option<&BufferArgument>,
    receive: Option<&BufferArgument>,
    root: i32,
) -> Result<CollectivePlan> {
    if let Some(sides) = InterSides::of(comm) {
        let root = sides.root(root)?;
        let blocks = send.map(|b| b.blocks(sides.remote)?.each(sides.remote));
        let receive = needed_for(root, receive)?
            .map(BufferArgument::view)
            .transpose()?;
        return Ok(inter::scatter(sides, blocks.transpose()?, receive, root).into());
    }
    let me = place(comm);
    let root = rooted(me, root)?;
    root_only(me, root, receive.is_some())?;
    if let (Some(send), Some(receive)) = (send, receive)
        && let Err(error) = overlap::check_buffers((send, me.size), (receive, 1))
    {
        let (send, aside) = (send.copied(me.size)?, receive.aside(1)?);
        return refused(error, scatter(comm, Some(&send), Some(&aside), root as i32));
    }
    let blocks = send.map(|b| b.blocks(me.size)).transpose()?;
    let receive = receive.map(BufferArgument::view).transpose()?;
    if let Some((layout, limits)) = spread(comm)? {
        return two_level::scatter(layout, limits, blocks.as_ref(), receive, root)
            .map(CollectivePlan::Rounds);
    }
    let bytes = match (&receive, &blocks) {
        (_, Some(blocks)) => Some(blocks.bytes()),
        (receive, None) => receive.as_ref().map(View::len),
    };
    let parts = blocks.map(|blocks| Parts::Even(blocks, me.size));
    plan(
        comm,
        CollectiveOperation::Scatter {
            parts,
            receive,
            root,
            bytes,
        },
    )
}

/// `MPI_Scatterv`, `MPI_Iscatterv`, `MPI_Scatterv_init`.
pub fn scatterv(
    comm: &Comm,
    send: Option<BlockList>,
    receive: Option<&BufferArgument>,
    root: i32,
) -> Result<CollectivePlan> {
    if let Some(sides) = InterSides::of(comm) {
        let root = sides.root(root)?;
        let receive = needed_for(root, receive)?
            .map(BufferArgument::view)
            .transpose()?;
        return Ok(inter::scatter(sides, send.map(|s| s.views), receive, root).into());
    }
    let me = place(comm);
    let root = rooted(me, root)?;
    root_only(me, root, receive.is_some())?;
    if let (Some(list), Some(receive)) = (&send, receive)
        && let Err(error) = overlap::check(&list.views, &[receive.view()?])
    {
        let (send, aside) = (list.copied(1)?, receive.aside(1)?);
        return refused(error, scatterv(comm, Some(send), Some(&aside), root as i32));
    }
    let receive = receive.map(BufferArgument::view).transpose()?;
    let parts = send.map(|s| Parts::Each(s.views));
    plan(
        comm,
        CollectiveOperation::Scatter {
            parts,
            receive,
            root,
            bytes: None,
        },
    )
}

/// `MPI_Allgather`, `MPI_Iallgather`, `MPI_Allgather_init`.
pub fn allgather(
    comm: &Comm,
    send: Option<&BufferArgument>,
    receive: &BufferArgument,
) -> Result<CollectivePlan> {
    if let Some(sides) = InterSides::of(comm) {
        let blocks = receive.blocks(sides.remote)?.each(sides.remote)?;
        return Ok(inter::allgather(sides, needed(send)?.view()?, &blocks).into());
    }
    let me = place(comm);
    if let Some(send) = send
        && let Err(error) = overlap::check_buffers((send, 1), (receive, me.size))
    {
        let (send, aside) = (send.copied(1)?, receive.aside(me.size)?);
        return refused(error, allgather(comm, Some(&send), &aside));
    }
    let send = send.map(BufferArgument::view).transpose()?;
    let blocks = receive.blocks(me.size)?;
    if let Some((layout, limits)) = spread(comm)? {
        return two_level::allgather_blocks(layout, limits, send, &blocks)
            .map(CollectivePlan::Rounds);
    }
    let parts = Parts::Even(blocks, me.size);
    plan(comm, CollectiveOperation::Allgather { send, parts })
}

/// `MPI_Allgatherv`, `MPI_Iallgatherv`, `MPI_Allgatherv_init`.
pub fn allgatherv(
    comm: &Comm,
    send: Option<&BufferArgument>,
    receive: BlockList,
) -> Result<CollectivePlan> {
    if let Some(sides) = InterSides::of(comm) {
        let send = needed(send)?.view()?;
        return Ok(inter::allgather(sides, send, &receive.views).into());
    }
    if let Some(send) = send
        && let Err(error) = overlap::check(&[send.view()?], &receive.views)
    {
        let (send, aside) = (send.copied(1)?, receive.aside(1)?);
        return refused(error, allgatherv(comm, Some(&send), aside));
    }
    let send = send.map(BufferArgument::view).transpose()?;
    if let Some((layout, limits)) = spread(comm)? {
        return two_level::allgather(layout, limits, send, &receive.views)
            .map(CollectivePlan::Rounds);
    }
    let parts = Parts::Each(receive.views);
    plan(comm, CollectiveOperation::Allgather { send, parts })
}

/// `MPI_Alltoall`, `MPI_Ialltoall`, `MPI_Alltoall_init`.
pub fn alltoall(
    comm: &Comm,
    send: Option<&BufferArgument>,
    receive: &BufferArgument,
) -> Result<CollectivePlan> {
    if let Some(sides) = InterSides::of(comm) {
        let each = |buffer: &BufferArgument| buffer.blocks(sides.remote)?.each(sides.remote);
        let (send, receive) = (each(needed(send)?)?, each(receive)?);
        return Ok(inter::alltoall(sides, &LIMITS, &send, &receive).into());
    }
    let me = place(comm);
    if let Some(send) = send
        && let Err(error) = overlap::check_buffers((send, me.size), (receive, me.size))
    {
        let (send, aside) = (send.copied(me.size)?, receive.aside(me.size)?);
        return refused(error, alltoall(comm, Some(&send), &aside));
    }
    let send = send.map(|b| b.blocks(me.size)).transpose()?;
    let blocks = receive.blocks(me.size)?;
    if let Some((layout, limits)) = spread(comm)? {
        return two_level::alltoall(layout, limits, send.as_ref(), &blocks)
            .map(CollectivePlan::Rounds);
    }
    let (send, receive) = (
        send.map(|send| Parts::Even(send, me.size)),
        Parts::Even(blocks, me.size),
    );
    plan(comm, CollectiveOperation::Alltoall { send, receive })
}

/// `MPI_Alltoallv`, `MPI_Alltoallw` and their non-blocking and persistent forms.
pub fn alltoallv(
    comm: &Comm,
    send: Option<BlockList>,
    receive: BlockList,
) -> Result<CollectivePlan> {
    if let Some(sides) = InterSides::of(comm) {
        let send = needed(send)?.views;
        return Ok(inter::alltoall(sides, &LIMITS, &send, &receive.views).into());
    }
    if let Some(send) = &send
        && let Err(error) = overlap::check(&send.views, &receive.views)
    {
        let (send, aside) = (send.copied(1)?, receive.aside(1)?);
        return refused(error, alltoallv(comm, Some(send), aside));
    }
    if let (Some(send), Some((layout, limits))) = (&send, spread(comm)?) {
        let (send, receive) = (&send.views, &receive.views);
        return Ok(two_level::exchange(layout, limits, send, receive).into());
    }
    let send = send.map(|send| Parts::Each(send.views));
    let receive = Parts::Each(receive.views);
    plan(comm, CollectiveOperation::Alltoall { send, receive })
}

/// `MPI_Reduce`, `MPI_Ireduce`, `MPI_Reduce_init`.
// MPI's own argument list.
pub fn reduce(
    comm: &Comm,
    send: Option<Region>,
    receive: Option<Region>,
    count: i64,
    datatype: &Datatype,
    op: &Op,
    root: i32,
) -> Result<CollectivePlan> {
    if let Some(sides) = InterSides::of(comm) {
        let root = sides.root(root)?;
        if root == Root::Beside {
            return Ok(Schedule::new().into());
        }
        let reduction = reduction("count", count, datatype, op)?;
        let send = needed_for(root, send)?.map(|r| Elements::new(r, datatype));
        let receive = receive.map(|r| Elements::new(r, datatype));
        let (send, receive) = (send.as_ref(), receive.as_ref());
        return inter::reduce(sides, &LIMITS, &reduction, send, receive, root)
            .map(CollectivePlan::Rounds);
    }
    let me = place(comm);
    let root = rooted(me, root)?;
    root_only(me, root, send.is_some())?;
    let reduction = reduction("count", count, datatype, op)?;
    if let (Some(receive), true) = (&receive, me.rank == root)
        && let Err(error) = reduction.check_apart(send.as_ref(), receive, reduction.count)
    {
        let send = reduction.copied(send.as_ref())?;
        let aside = Some(reduction.aside(reduction.count)?);
        let plan = reduce(comm, send, aside, count, datatype, op, root as i32);
        return refused(error, plan);
    }
    let send = send.map(|r| Elements::new(r, datatype));
    let receive = receive.map(|r| Elements::new(r, datatype));
    if let Some((layout, limits)) = spread(comm)? {
        let (send, receive) = (send.as_ref(), receive.as_ref());
        return two_level::reduce(layout, limits, &reduction, send, receive, root)
            .map(CollectivePlan::Rounds);
    }
    plan(
        comm,
        CollectiveOperation::Reduce {
            reduction,
            send,
            result: receive.filter(|_| me.rank == root),
            root: Some(root),
        },
    )
}

/// `MPI_Allreduce`, `MPI_Iallreduce`, `MPI_Allreduce_init`.
pub fn allreduce(
    comm: &Comm,
    send: Option<Region>,
    receive: Region,
    count: i64,
    datatype: &Datatype,
    op: &Op,
) -> Result<CollectivePlan> {
    if let Some(sides) = InterSides::of(comm) {
        let reduction = reduction("count", count, datatype, op)?;
        reduction.check_apart(send.as_ref(), &receive, reduction.count)?;
        let send = Elements::new(needed(send)?, datatype);
        let receive = Elements::new(receive, datatype);
        return inter::allreduce(sides, &LIMITS, &reduction, &send, &receive)
            .map(CollectivePlan::Rounds);
    }
    let reduction = reduction("count", count, datatype, op)?;
    if let Err(error) = reduction.check_apart(send.as_ref(), &receive, reduction.count) {
        let send = reduction.copied(send.as_ref())?;
        let aside = reduction.aside(reduction.count)?;
        return refused(error, allreduce(comm, send, aside, count, datatype, op));
    }
    let send = send.map(|r| Elements::new(r, datatype));
    let receive = Elements::new(receive, datatype);
    if let Some((layout, limits)) = spread(comm)? {
        return two_level::allreduce(layout, limits, &reduction, send.as_ref(), &receive)
            .map(CollectivePlan::Rounds);
    }
    plan(
        comm,
        CollectiveOperation::Reduce {
            reduction,
            send,
            result: Some(receive),
            root: None,
        },
    )
}

/// `MPI_Reduce_scatter`, `MPI_Ireduce_scatter`, `MPI_Reduce_scatter_init`.
pub fn reduce_scatter(
    comm: &Comm,
    send: Option<Region>,
    receive: Region,
    counts: &[i64],
    datatype: &Datatype,
    op: &Op,
) -> Result<CollectivePlan> {
    let mut total = 0_i64;
    let mut blocks = Vec::with_capacity(counts.len());
    for &count in counts {
        blocks.push(checked_count("recvcounts", count)?);
        total = total.checked_add(count).ok_or_else(|| {
            Error::argument(
                c::ERR_COUNT,
                "recvcounts",
                count,
                "the sum of the counts overflows",
            )
        })?;
    }
    scatter_reduced(
        comm,
        send,
        receive,
        &blocks,
        reduction("recvcounts", total, datatype, op)?,
    )
}

/// `MPI_Reduce_scatter_block`, `MPI_Ireduce_scatter_block`, `MPI_Reduce_scatter_block_init`.
pub fn reduce_scatter_block(
    comm: &Comm,
    send: Option<Region>,
    receive: Region,
    count: i64,
    datatype: &Datatype,
    op: &Op,
) -> Result<CollectivePlan> {
    let block = checked_count("recvcount", count)?;
    let total = count.checked_mul(comm.size() as i64).ok_or_else(|| {
        Error::argument(
            c::ERR_COUNT,
            "recvcount",
            count,
            "too large for the number of ranks",
        )
    })?;
    let blocks = vec![block; comm.size()];
    scatter_reduced(
        comm,
        send,
        receive,
        &blocks,
        reduction("recvcount", total, datatype, op)?,
    )
}

fn scatter_reduced(
    comm: &Comm,
    send: Option<Region>,
    receive: Region,
    blocks: &[usize],
    reduction: Reduction,
) -> Result<CollectivePlan> {
    if !comm.is_inter()
        && let Err(error) = reduction.check_apart(send.as_ref(), &receive, blocks[comm.rank()])
    {
        let send = reduction.copied(send.as_ref())?;
        let aside = reduction.aside(blocks[comm.rank()])?;
        return refused(error, scatter_reduced(comm, send, aside, blocks, reduction));
    }
    let receive = Elements::new(receive, &reduction.datatype);
    if let Some(sides) = InterSides::of(comm) {
        let send = Elements::new(needed(send)?, &reduction.datatype);
        return inter::reduce_scatter(sides, &LIMITS, &reduction, blocks, &send, &receive)
            .map(CollectivePlan::Rounds);
    }
    let send = send.map(|r| Elements::new(r, &reduction.datatype));
    if let Some((layout, limits)) = spread(comm)? {
        let send = send.as_ref();
        return two_level::reduce_scatter(layout, limits, &reduction, blocks, send, &receive)
            .map(CollectivePlan::Rounds);
    }
    plan(
        comm,
        CollectiveOperation::ReduceScatter {
            reduction,
            send,
            counts: blocks.into(),
            result: receive,
        },
    )
}

/// `MPI_Scan`, `MPI_Iscan`, `MPI_Scan_init`.
pub fn scan(
    comm: &Comm,
    send: Option<Region>,
    receive: Region,
    count: i64,
    datatype: &Datatype,
    op: &Op,
) -> Result<CollectivePlan> {
    prefix(
        comm,
        ScanKind::Inclusive,
        send,
        receive,
        count,
        datatype,
        op,
    )
}

/// `MPI_Exscan`, `MPI_Iexscan`, `MPI_Exscan_init`.
pub fn exscan(
    comm: &Comm,
    send: Option<Region>,
    receive: Region,
    count: i64,
    datatype: &Datatype,
    op: &Op,
) -> Result<CollectivePlan> {
    prefix(
        comm,
        ScanKind::Exclusive,
        send,
        receive,
        count,
        datatype,
        op,
    )
}

// The argument list of MPI_Scan, and which of the two calls it is.
fn prefix(
    comm: &Comm,
    kind: ScanKind,
    send: Option<Region>,
    receive: Region,
    count: i64,
    datatype: &Datatype,
    op: &Op,
) -> Result<CollectivePlan> {
    comm.must_be_intra()?;
    let reduction = reduction("count", count, datatype, op)?;
    if let Err(error) = reduction.check_apart(send.as_ref(), &receive, reduction.count) {
        let send = reduction.copied(send.as_ref())?;
        let aside = reduction.aside(reduction.count)?;
        return refused(error, prefix(comm, kind, send, aside, count, datatype, op));
    }
    plan(
        comm,
        CollectiveOperation::Scan {
            reduction,
            send: send.map(|r| Elements::new(r, datatype)),
            result: Elements::new(receive, datatype),
            exclusive: kind == ScanKind::Exclusive,
        },
    )
}

/// This rank's place in an intracommunicator. (Calls on an intercommunicator branch off earlier.)
fn place(comm: &Comm) -> RankPlace {
    RankPlace {
        rank: comm.rank(),
        size: comm.size(),
    }
}

/// How an intracommunicator's ranks are spread over nodes, and when two levels pay; `None` if it is
/// on one node or two-level algorithms are off.
#[inline]
fn spread(comm: &Comm) -> Result<Option<(&RanksByNode, &'static TwoLevel)>> {
    let (Some(layout), Some(limits)) = (comm.layout(), TwoLevel::in_force()) else {
        return Ok(None);
    };
    if layout.local().is_none() {
        layout.share(comm.local()?);
    }
    Ok(Some((layout, limits)))
}

/// A buffer that an operation on an intercommunicator requires, as `MPI_IN_PLACE` is not allowed
/// there.
fn needed<T>(buffer: Option<T>) -> Result<T> {
    buffer.ok_or_else(|| {
        let reason = "an operation on an inter-communicator cannot work in place";
        Error::argument(c::ERR_BUFFER, "buffer", "MPI_IN_PLACE", reason)
    })
}

/// As [`needed`], for a rooted operation, where only the root's group may leave the buffer out.
fn needed_for<T>(root: Root, buffer: Option<T>) -> Result<Option<T>> {
    match root {
        Root::Remote(_) => needed(buffer).map(Some),
        Root::Here | Root::Beside => Ok(buffer),
    }
}

fn rooted(me: RankPlace, root: i32) -> Result<usize> {
    usize::try_from(root)
        .ok()
        .filter(|&r| r < me.size)
        .ok_or_else(|| {
            Error::argument(
                c::ERR_ROOT,
                "root",
                root,
                format!("the communicator has {} ranks", me.size),
            )
        })
}

/// Only the root may leave out its own buffer.
fn root_only(me: RankPlace, root: usize, given: bool) -> Result<()> {
    if given || me.rank == root {
        Ok(())
    } else {
        Err(in_place_away_from_root())
    }
}

fn reduction(
    argument: &'static str,
    count: i64,
    datatype: &Datatype,
    op: &Op,
) -> Result<Reduction> {
    let elements = checked_count(argument, count)?;
    op.check(datatype)?;
    datatype.shape(count)?;
    Ok(Reduction {
        op: op.clone(),
        datatype: datatype.clone(),
        count: elements,
    })
}
