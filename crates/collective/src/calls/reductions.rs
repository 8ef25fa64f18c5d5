//! The calls that combine elements with an operator.

use mica_memory::Region;

use super::checks::{needed, needed_for, place, reduction, root_only, rooted, spread};
use crate::arguments::checked_count;
use crate::inter::{self, InterSides, Root};
use crate::intranode::CollectiveOperation;
use crate::intranode::choice::plan::{CollectivePlan, plan};
use crate::members::Members;
use crate::place::Elements;
use crate::reduction::Reduction;
use crate::reduction::ScanKind;
use crate::refused::refused;
use crate::schedule::Schedule;
use crate::thresholds::MessageThresholds;
use crate::two_level;
use mica_objects::constants as c;
use mica_objects::datatype::Datatype;
use mica_objects::error::{Error, Result};
use mica_objects::op::Op;

const LIMITS: MessageThresholds = MessageThresholds::DEFAULT;

/// `MPI_Reduce`, `MPI_Ireduce`, `MPI_Reduce_init`.
#[expect(clippy::too_many_arguments, reason = "MPI's own argument list")]
pub fn reduce(
    members: &Members,
    send: Option<Region>,
    receive: Option<Region>,
    count: i64,
    datatype: &Datatype,
    op: &Op,
    root: i32,
) -> Result<CollectivePlan> {
    if let Some(sides) = InterSides::of(members) {
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
    let me = place(members);
    let root = rooted(me, root)?;
    root_only(me, root, &send)?;
    let reduction = reduction("count", count, datatype, op)?;
    if let (Some(receive), true) = (&receive, me.rank == root)
        && let Err(error) = reduction.check_apart(send.as_ref(), receive, reduction.count)
    {
        let send = reduction.copied(send.as_ref())?;
        let aside = Some(reduction.aside(reduction.count)?);
        let plan = reduce(members, send, aside, count, datatype, op, root as i32);
        return refused(error, plan);
    }
    let send = send.map(|r| Elements::new(r, datatype));
    let receive = receive.map(|r| Elements::new(r, datatype));
    if let Some((layout, limits)) = spread(members)? {
        let (send, receive) = (send.as_ref(), receive.as_ref());
        let schedule = two_level::reduce(layout, limits, &reduction, send, receive, root);
        return schedule.map(|schedule| schedule.rooted(Some(root)).into());
    }
    plan(
        members,
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
    members: &Members,
    send: Option<Region>,
    receive: Region,
    count: i64,
    datatype: &Datatype,
    op: &Op,
) -> Result<CollectivePlan> {
    if let Some(sides) = InterSides::of(members) {
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
        return refused(error, allreduce(members, send, aside, count, datatype, op));
    }
    let send = send.map(|r| Elements::new(r, datatype));
    let receive = Elements::new(receive, datatype);
    if let Some((layout, limits)) = spread(members)? {
        return two_level::allreduce(layout, limits, &reduction, send.as_ref(), &receive)
            .map(CollectivePlan::Rounds);
    }
    plan(
        members,
        CollectiveOperation::Reduce { reduction, send, result: Some(receive), root: None },
    )
}

/// `MPI_Reduce_scatter`, `MPI_Ireduce_scatter`, `MPI_Reduce_scatter_init`.
pub fn reduce_scatter(
    members: &Members,
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
    scatter_reduced(members, send, receive, &blocks, reduction("recvcounts", total, datatype, op)?)
}

/// `MPI_Reduce_scatter_block`, `MPI_Ireduce_scatter_block`, `MPI_Reduce_scatter_block_init`.
pub fn reduce_scatter_block(
    members: &Members,
    send: Option<Region>,
    receive: Region,
    count: i64,
    datatype: &Datatype,
    op: &Op,
) -> Result<CollectivePlan> {
    let block = checked_count("recvcount", count)?;
    let total = count.checked_mul(members.size() as i64).ok_or_else(|| {
        Error::argument(c::ERR_COUNT, "recvcount", count, "too large for the number of ranks")
    })?;
    let blocks = vec![block; members.size()];
    scatter_reduced(members, send, receive, &blocks, reduction("recvcount", total, datatype, op)?)
}

fn scatter_reduced(
    members: &Members,
    send: Option<Region>,
    receive: Region,
    blocks: &[usize],
    reduction: Reduction,
) -> Result<CollectivePlan> {
    if !members.is_inter()
        && let Err(error) = reduction.check_apart(send.as_ref(), &receive, blocks[members.rank()])
    {
        let send = reduction.copied(send.as_ref())?;
        let aside = reduction.aside(blocks[members.rank()])?;
        return refused(error, scatter_reduced(members, send, aside, blocks, reduction));
    }
    let receive = Elements::new(receive, &reduction.datatype);
    if let Some(sides) = InterSides::of(members) {
        let send = Elements::new(needed(send)?, &reduction.datatype);
        return inter::reduce_scatter(sides, &LIMITS, &reduction, blocks, &send, &receive)
            .map(CollectivePlan::Rounds);
    }
    let send = send.map(|r| Elements::new(r, &reduction.datatype));
    if let Some((layout, limits)) = spread(members)? {
        let send = send.as_ref();
        return two_level::reduce_scatter(layout, limits, &reduction, blocks, send, &receive)
            .map(CollectivePlan::Rounds);
    }
    plan(
        members,
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
    members: &Members,
    send: Option<Region>,
    receive: Region,
    count: i64,
    datatype: &Datatype,
    op: &Op,
) -> Result<CollectivePlan> {
    prefix(members, ScanKind::Inclusive, send, receive, count, datatype, op)
}

/// `MPI_Exscan`, `MPI_Iexscan`, `MPI_Exscan_init`.
pub fn exscan(
    members: &Members,
    send: Option<Region>,
    receive: Region,
    count: i64,
    datatype: &Datatype,
    op: &Op,
) -> Result<CollectivePlan> {
    prefix(members, ScanKind::Exclusive, send, receive, count, datatype, op)
}

#[expect(
    clippy::too_many_arguments,
    reason = "the list of MPI_Scan, and which of the two calls it is"
)]
fn prefix(
    members: &Members,
    kind: ScanKind,
    send: Option<Region>,
    receive: Region,
    count: i64,
    datatype: &Datatype,
    op: &Op,
) -> Result<CollectivePlan> {
    let reduction = reduction("count", count, datatype, op)?;
    if let Err(error) = reduction.check_apart(send.as_ref(), &receive, reduction.count) {
        let send = reduction.copied(send.as_ref())?;
        let aside = reduction.aside(reduction.count)?;
        return refused(error, prefix(members, kind, send, aside, count, datatype, op));
    }
    plan(
        members,
        CollectiveOperation::Scan {
            reduction,
            send: send.map(|r| Elements::new(r, datatype)),
            result: Elements::new(receive, datatype),
            kind,
        },
    )
}
