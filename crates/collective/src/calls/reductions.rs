//! The calls that combine elements with an operator.

use mica_memory::Region;

use super::checks::{needed, needed_for, place, reduction, root_only, rooted};
use super::planned;
use crate::arguments::{ReductionArguments, checked_count};
use crate::inter::{self, InterSides, Root};
use crate::intranode::CollectiveOperation;
use crate::intranode::choice::plan::CollectivePlan;
use crate::members::Members;
use crate::overlap;
use crate::place::Elements;
use crate::reduction::Reduction;
use crate::reduction::ScanKind;
use crate::schedule::Schedule;
use crate::thresholds::MessageThresholds;
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
    planned(
        members,
        CollectiveOperation::Reduce {
            reduction: reduction("count", count, datatype, op)?,
            send: send.map(|r| Elements::new(r, datatype)),
            result: receive.filter(|_| me.rank == root).map(|r| Elements::new(r, datatype)),
            root: Some(root),
        },
    )
}

/// `MPI_Allreduce`, `MPI_Iallreduce`, `MPI_Allreduce_init`.
pub fn allreduce(members: &Members, arguments: ReductionArguments<'_>) -> Result<CollectivePlan> {
    let ReductionArguments { send, receive, count, datatype, op } = arguments;
    let reduction = reduction("count", count, datatype, op)?;
    let result = Elements::new(receive, datatype);
    if let Some(sides) = InterSides::of(members) {
        let send = Elements::new(needed(send)?, datatype);
        let count = reduction.count;
        overlap::check(&[send.view(0, count)?], &[result.view(0, count)?])?;
        return inter::allreduce(sides, &LIMITS, &reduction, &send, &result)
            .map(CollectivePlan::Rounds);
    }
    let send = send.map(|r| Elements::new(r, datatype));
    let result = Some(result);
    planned(members, CollectiveOperation::Reduce { reduction, send, result, root: None })
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
    arguments: ReductionArguments<'_>,
) -> Result<CollectivePlan> {
    let ReductionArguments { send, receive, count, datatype, op } = arguments;
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
    let result = Elements::new(receive, &reduction.datatype);
    if let Some(sides) = InterSides::of(members) {
        let send = Elements::new(needed(send)?, &reduction.datatype);
        return inter::reduce_scatter(sides, &LIMITS, &reduction, blocks, &send, &result)
            .map(CollectivePlan::Rounds);
    }
    let send = send.map(|r| Elements::new(r, &reduction.datatype));
    let counts = blocks.into();
    planned(members, CollectiveOperation::ReduceScatter { reduction, send, counts, result })
}

/// `MPI_Scan`, `MPI_Iscan`, `MPI_Scan_init`.
pub fn scan(members: &Members, arguments: ReductionArguments<'_>) -> Result<CollectivePlan> {
    prefix(members, ScanKind::Inclusive, arguments)
}

/// `MPI_Exscan`, `MPI_Iexscan`, `MPI_Exscan_init`.
pub fn exscan(members: &Members, arguments: ReductionArguments<'_>) -> Result<CollectivePlan> {
    prefix(members, ScanKind::Exclusive, arguments)
}

fn prefix(
    members: &Members,
    kind: ScanKind,
    arguments: ReductionArguments<'_>,
) -> Result<CollectivePlan> {
    let ReductionArguments { send, receive, count, datatype, op } = arguments;
    planned(
        members,
        CollectiveOperation::Scan {
            reduction: reduction("count", count, datatype, op)?,
            send: send.map(|r| Elements::new(r, datatype)),
            result: Elements::new(receive, datatype),
            kind,
        },
    )
}
