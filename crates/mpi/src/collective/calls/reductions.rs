//! The calls that combine elements with an operator.

use mica_memory::Region;

use super::checks::{needed, needed_for, place, reduction, root_only, rooted, spread};
use crate::collective::arguments::checked_count;
use crate::collective::inter::{self, InterSides, Root};
use crate::collective::intranode::CollectiveOperation;
use crate::collective::intranode::choice::plan::{CollectivePlan, plan};
use crate::collective::place::Elements;
use crate::collective::reduction::Reduction;
use crate::collective::reduction::ScanKind;
use crate::collective::refused::refused;
use crate::collective::schedule::Schedule;
use crate::collective::thresholds::MessageThresholds;
use crate::collective::two_level;
use crate::comm::Comm;
use crate::constants as c;
use crate::datatype::Datatype;
use crate::error::{Error, Result};
use crate::op::Op;

const LIMITS: MessageThresholds = MessageThresholds::DEFAULT;

/// `MPI_Reduce`, `MPI_Ireduce`, `MPI_Reduce_init`.
#[expect(clippy::too_many_arguments, reason = "MPI's own argument list")]
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
    root_only(me, root, &send)?;
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
        let schedule = two_level::reduce(layout, limits, &reduction, send, receive, root);
        return schedule.map(|schedule| schedule.rooted(Some(root)).into());
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
    plan(comm, CollectiveOperation::Reduce { reduction, send, result: Some(receive), root: None })
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
            Error::argument(c::ERR_COUNT, "recvcounts", count, "the sum of the counts overflows")
        })?;
    }
    scatter_reduced(comm, send, receive, &blocks, reduction("recvcounts", total, datatype, op)?)
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
        Error::argument(c::ERR_COUNT, "recvcount", count, "too large for the number of ranks")
    })?;
    let blocks = vec![block; comm.size()];
    scatter_reduced(comm, send, receive, &blocks, reduction("recvcount", total, datatype, op)?)
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
    prefix(comm, ScanKind::Inclusive, send, receive, count, datatype, op)
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
    prefix(comm, ScanKind::Exclusive, send, receive, count, datatype, op)
}

#[expect(
    clippy::too_many_arguments,
    reason = "the list of MPI_Scan, and which of the two calls it is"
)]
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
            kind,
        },
    )
}
