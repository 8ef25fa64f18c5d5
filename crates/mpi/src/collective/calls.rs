//! The blocking collective calls: check the arguments, build the schedule, run it.
//!
//! `None` in place of a send buffer (of a receive buffer in scatter) means `MPI_IN_PLACE`; a buffer
//! that is significant only at the root is `None` elsewhere.

use mica_channel::memory::Region;

use super::arguments::{
    BlockList, Buffer, checked_count, distinct, distinct_vectors, in_place_away_from_root,
};
use super::place::{Elements, Place};
use super::reduction::Reduction;
use super::scan::Kind;
use super::schedule::Schedule;
use super::thresholds::Thresholds;
use super::{
    allgather as ag, allreduce as ar, alltoall as aa, barrier as ba, bcast as bc, execute,
};
use super::{gather as ga, reduce as re, reduce_scatter as rs, scan as sc};
use crate::comm::Comm;
use crate::constants as c;
use crate::datatype::Datatype;
use crate::error::{Error, Result};
use crate::op::Op;

const LIMITS: Thresholds = Thresholds::DEFAULT;

/// `MPI_Barrier`.
pub fn barrier(comm: &Comm) -> Result<()> {
    let me = place(comm, "a barrier on an intercommunicator")?;
    run(comm, ba::build(me))
}

/// `MPI_Bcast`.
pub fn bcast(comm: &Comm, buffer: &Buffer, root: i32) -> Result<()> {
    let me = place(comm, "a broadcast on an intercommunicator")?;
    let root = rooted(me, root)?;
    run(comm, bc::build(me, &LIMITS, buffer.view()?, root)?)
}

/// `MPI_Gather`.
pub fn gather(
    comm: &Comm,
    send: Option<&Buffer>,
    receive: Option<&Buffer>,
    root: i32,
) -> Result<()> {
    let me = place(comm, "a gather on an intercommunicator")?;
    let root = rooted(me, root)?;
    root_only(me, root, send.is_some())?;
    if let Some(receive) = receive {
        distinct(send, receive)?;
    }
    let send = send.map(Buffer::view).transpose()?;
    let blocks = receive.map(|b| b.blocks(me.size)).transpose()?;
    run(comm, ga::gather(me, &LIMITS, send, blocks.as_ref(), root)?)
}

/// `MPI_Gatherv`.
pub fn gatherv(
    comm: &Comm,
    send: Option<&Buffer>,
    receive: Option<BlockList>,
    root: i32,
) -> Result<()> {
    let me = place(comm, "a gather on an intercommunicator")?;
    let root = rooted(me, root)?;
    root_only(me, root, send.is_some())?;
    let send = send.map(Buffer::view).transpose()?;
    run(
        comm,
        ga::gather_linear(me, send, receive.map(|r| r.views), root),
    )
}

/// `MPI_Scatter`.
pub fn scatter(
    comm: &Comm,
    send: Option<&Buffer>,
    receive: Option<&Buffer>,
    root: i32,
) -> Result<()> {
    let me = place(comm, "a scatter on an intercommunicator")?;
    let root = rooted(me, root)?;
    root_only(me, root, receive.is_some())?;
    if let Some(receive) = receive {
        distinct(send, receive)?;
    }
    let blocks = send.map(|b| b.blocks(me.size)).transpose()?;
    let receive = receive.map(Buffer::view).transpose()?;
    run(
        comm,
        ga::scatter(me, &LIMITS, blocks.as_ref(), receive, root)?,
    )
}

/// `MPI_Scatterv`.
pub fn scatterv(
    comm: &Comm,
    send: Option<BlockList>,
    receive: Option<&Buffer>,
    root: i32,
) -> Result<()> {
    let me = place(comm, "a scatter on an intercommunicator")?;
    let root = rooted(me, root)?;
    root_only(me, root, receive.is_some())?;
    let receive = receive.map(Buffer::view).transpose()?;
    run(
        comm,
        ga::scatter_linear(me, send.map(|s| s.views), receive, root),
    )
}

/// `MPI_Allgather`.
pub fn allgather(comm: &Comm, send: Option<&Buffer>, receive: &Buffer) -> Result<()> {
    let me = place(comm, "an allgather on an intercommunicator")?;
    distinct(send, receive)?;
    let send = send.map(Buffer::view).transpose()?;
    run(
        comm,
        ag::build(me, &LIMITS, send, &receive.blocks(me.size)?)?,
    )
}

/// `MPI_Allgatherv`.
pub fn allgatherv(comm: &Comm, send: Option<&Buffer>, receive: &BlockList) -> Result<()> {
    let me = place(comm, "an allgather on an intercommunicator")?;
    let send = send.map(Buffer::view).transpose()?;
    run(comm, ag::ring(me, send, &receive.views))
}

/// `MPI_Alltoall`.
pub fn alltoall(comm: &Comm, send: Option<&Buffer>, receive: &Buffer) -> Result<()> {
    let me = place(comm, "an all-to-all on an intercommunicator")?;
    distinct(send, receive)?;
    let send = send.map(|b| b.blocks(me.size)).transpose()?;
    run(
        comm,
        aa::build(me, &LIMITS, send.as_ref(), &receive.blocks(me.size)?)?,
    )
}

/// `MPI_Alltoallv` and `MPI_Alltoallw`.
pub fn alltoallv(comm: &Comm, send: Option<&BlockList>, receive: &BlockList) -> Result<()> {
    let me = place(comm, "an all-to-all on an intercommunicator")?;
    match send {
        Some(send) => run(comm, aa::exchange(me, &LIMITS, &send.views, &receive.views)),
        None => run(comm, aa::swap(me, &receive.views)?),
    }
}

/// `MPI_Reduce`.
pub fn reduce(
    comm: &Comm,
    send: Option<Region>,
    receive: Option<Region>,
    count: i64,
    datatype: &Datatype,
    op: &Op,
    root: i32,
) -> Result<()> {
    let me = place(comm, "a reduction on an intercommunicator")?;
    let root = rooted(me, root)?;
    root_only(me, root, send.is_some())?;
    let reduction = reduction("count", count, datatype, op)?;
    if let Some(receive) = &receive {
        distinct_vectors(send.as_ref(), receive, reduction.count)?;
    }
    let send = send.map(|r| Elements::new(r, datatype));
    let receive = receive.map(|r| Elements::new(r, datatype));
    run(
        comm,
        re::build(
            me,
            &LIMITS,
            &reduction,
            send.as_ref(),
            receive.as_ref(),
            root,
        )?,
    )
}

/// `MPI_Allreduce`.
pub fn allreduce(
    comm: &Comm,
    send: Option<Region>,
    receive: Region,
    count: i64,
    datatype: &Datatype,
    op: &Op,
) -> Result<()> {
    let me = place(comm, "a reduction on an intercommunicator")?;
    let reduction = reduction("count", count, datatype, op)?;
    distinct_vectors(send.as_ref(), &receive, reduction.count)?;
    let send = send.map(|r| Elements::new(r, datatype));
    let receive = Elements::new(receive, datatype);
    run(
        comm,
        ar::build(me, &LIMITS, &reduction, send.as_ref(), &receive)?,
    )
}

/// `MPI_Reduce_scatter`.
pub fn reduce_scatter(
    comm: &Comm,
    send: Option<Region>,
    receive: Region,
    counts: &[i64],
    datatype: &Datatype,
    op: &Op,
) -> Result<()> {
    let me = place(comm, "a reduction on an intercommunicator")?;
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
        me,
        send,
        receive,
        &blocks,
        reduction("recvcounts", total, datatype, op)?,
    )
}

/// `MPI_Reduce_scatter_block`.
pub fn reduce_scatter_block(
    comm: &Comm,
    send: Option<Region>,
    receive: Region,
    count: i64,
    datatype: &Datatype,
    op: &Op,
) -> Result<()> {
    let me = place(comm, "a reduction on an intercommunicator")?;
    let block = checked_count("recvcount", count)?;
    let total = count.checked_mul(me.size as i64).ok_or_else(|| {
        Error::argument(
            c::ERR_COUNT,
            "recvcount",
            count,
            "too large for the number of ranks",
        )
    })?;
    let blocks = vec![block; me.size];
    scatter_reduced(
        comm,
        me,
        send,
        receive,
        &blocks,
        reduction("recvcount", total, datatype, op)?,
    )
}

fn scatter_reduced(
    comm: &Comm,
    me: Place,
    send: Option<Region>,
    receive: Region,
    blocks: &[usize],
    reduction: Reduction,
) -> Result<()> {
    distinct_vectors(send.as_ref(), &receive, blocks[me.rank])?;
    let send = send.map(|r| Elements::new(r, &reduction.datatype));
    let receive = Elements::new(receive, &reduction.datatype);
    run(
        comm,
        rs::build(me, &LIMITS, &reduction, blocks, send.as_ref(), &receive)?,
    )
}

/// `MPI_Scan`.
pub fn scan(
    comm: &Comm,
    send: Option<Region>,
    receive: Region,
    count: i64,
    datatype: &Datatype,
    op: &Op,
) -> Result<()> {
    prefix(comm, Kind::Inclusive, send, receive, count, datatype, op)
}

/// `MPI_Exscan`.
pub fn exscan(
    comm: &Comm,
    send: Option<Region>,
    receive: Region,
    count: i64,
    datatype: &Datatype,
    op: &Op,
) -> Result<()> {
    prefix(comm, Kind::Exclusive, send, receive, count, datatype, op)
}

fn prefix(
    comm: &Comm,
    kind: Kind,
    send: Option<Region>,
    receive: Region,
    count: i64,
    datatype: &Datatype,
    op: &Op,
) -> Result<()> {
    let me = place(comm, "a scan on an intercommunicator")?;
    let reduction = reduction("count", count, datatype, op)?;
    distinct_vectors(send.as_ref(), &receive, reduction.count)?;
    let send = send.map(|r| Elements::new(r, datatype));
    let receive = Elements::new(receive, datatype);
    run(
        comm,
        sc::build(me, kind, &reduction, send.as_ref(), &receive)?,
    )
}

fn place(comm: &Comm, inter: &'static str) -> Result<Place> {
    if comm.is_inter() {
        return Err(Error::unsupported(inter));
    }
    Ok(Place {
        rank: comm.rank(),
        size: comm.size(),
    })
}

fn rooted(me: Place, root: i32) -> Result<usize> {
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
fn root_only(me: Place, root: usize, given: bool) -> Result<()> {
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

/// Runs a schedule, also one without rounds: every rank must count every call, whose number is the
/// tag of its messages.
fn run(comm: &Comm, schedule: Schedule) -> Result<()> {
    execute::run(comm, &schedule)
}
