//! Arguments of the reductions and scans (MPI 5.0, 6.9 to 6.11).

use std::ffi::{c_int, c_void};
use std::ops::Range;

use mica_mpi::Result;
use mica_mpi::collective::members::Members;
use mica_mpi::collective::{self, CollectivePlan, Function, ReductionArguments};
use mica_mpi::comm::Comm;
use mica_mpi::constants as c;
use mica_mpi::datatype::{Datatype, Region, check_buffer};
use mica_mpi::op::Op;

use super::buffers::{UserOperands, check_arrays, plain};
use super::{CheckedCall, at_root, takes_part};
use crate::poly::PolyArray;
use crate::types::{MPI_Comm, MPI_Datatype, MPI_Op};

/// The arguments of MPI_Reduce.
///
/// # Safety
/// The operand is readable and, at the root, the result writable.
pub unsafe fn reduce(
    operands: UserOperands,
    op: MPI_Op,
    root: c_int,
    comm: MPI_Comm,
) -> Result<CheckedCall> {
    let comm = Comm::resolve(comm.raw())?;
    let (count, datatype, op) = if at_root(&comm, root) || takes_part(&comm, root) {
        (operands.count, operands.datatype.raw(), op.raw())
    } else {
        (0, c::BYTE, c::BOR) // ignored with MPI_PROC_NULL
    };
    let op = Op::resolve(op)?;
    let datatype = Datatype::resolve_committed(datatype)?;
    let send = if takes_part(&comm, root) {
        // SAFETY: by the contract above.
        unsafe { operand(operands.send, datatype.bounds(count)) }
    } else {
        None
    };
    let receive = if at_root(&comm, root) {
        // SAFETY: by the contract above.
        Some(unsafe { Region::user(plain(operands.receive)?, datatype.bounds(count)) })
    } else {
        None
    };
    present(send.as_ref(), receive.as_ref(), count, &datatype)?;
    let plan = collective::reduce(&comm, send, receive, count, &datatype, &op, root)?;
    Ok(CheckedCall::new(Function::Reduce, comm, plan))
}

/// The caller's memory, unless the operand lies in place.
///
/// # Safety
/// As [`Region::user`], unless it is `MPI_IN_PLACE`.
unsafe fn operand(address: *const c_void, bounds: Range<isize>) -> Option<Region> {
    // SAFETY: by the contract above.
    (address.addr() != c::IN_PLACE).then(|| unsafe { Region::user(address, bounds) })
}

/// Refuses null buffers that `count` elements should lie in.
fn present(
    send: Option<&Region>,
    receive: Option<&Region>,
    count: i64,
    datatype: &Datatype,
) -> Result<()> {
    for (region, argument) in [(send, "sendbuf"), (receive, "recvbuf")] {
        if let Some(region) = region {
            check_buffer(region.address(), count, datatype, argument)?;
        }
    }
    Ok(())
}

/// One of the reductions whose arguments are those of `MPI_Allreduce`.
type Vector = fn(&Members, ReductionArguments<'_>) -> Result<CollectivePlan>;

/// Converts the arguments of such a reduction, whose operand has `count` elements for each of
/// `blocks`, and calls it.
///
/// # Safety
/// As [`allreduce`].
unsafe fn vector(
    (reduce, function, blocks): (Vector, Function, fn(&Members) -> usize),
    operands: UserOperands,
    op: MPI_Op,
    comm: MPI_Comm,
) -> Result<CheckedCall> {
    let comm = Comm::resolve(comm.raw())?;
    let op = Op::resolve(op.raw())?;
    let datatype = Datatype::resolve_committed(operands.datatype.raw())?;
    let count = operands.count;
    let all = datatype.bounds(count.saturating_mul(blocks(&comm) as i64));
    // SAFETY: by the contract above.
    let send = unsafe { operand(operands.send, all.clone()) };
    let result = send.as_ref().map_or(all, |_| datatype.bounds(count));
    // SAFETY: by the contract above.
    let receive = unsafe { Region::user(plain(operands.receive)?, result) };
    present(send.as_ref(), Some(&receive), count, &datatype)?;
    if matches!(function, Function::Scan | Function::Exscan) {
        comm.must_be_intra()?;
    }
    let arguments = ReductionArguments { send, receive, count, datatype: &datatype, op: &op };
    let plan = reduce(&comm, arguments)?;
    Ok(CheckedCall::new(function, comm, plan))
}

/// The arguments of MPI_Allreduce.
///
/// # Safety
/// The operand is readable and the result writable.
pub unsafe fn allreduce(operands: UserOperands, op: MPI_Op, comm: MPI_Comm) -> Result<CheckedCall> {
    // SAFETY: by the contract above.
    unsafe { vector((collective::allreduce, Function::Allreduce, |_| 1), operands, op, comm) }
}

/// The arguments of MPI_Reduce_scatter.
///
/// # Safety
/// `recvcounts` has one element for each rank; `sendbuf` is readable for the sum of them, `recvbuf`
/// writable for this rank's (in place: for the sum).
pub unsafe fn reduce_scatter(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    recvcounts: PolyArray,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
) -> Result<CheckedCall> {
    let comm = Comm::resolve(comm.raw())?;
    let op = Op::resolve(op.raw())?;
    let datatype = Datatype::resolve_committed(datatype.raw())?;
    check_arrays(!recvcounts.is_null())?;
    // SAFETY: by the contract above; an intercommunicator's array has this length too (its local
    // group's).
    let counts = unsafe { recvcounts.to_vec(comm.size())? };
    let total = counts.iter().fold(0_i64, |sum, &n| sum.saturating_add(n));
    // SAFETY: by the contract above.
    let send = unsafe { operand(sendbuf, datatype.bounds(total)) };
    let result = send.as_ref().map_or(total, |_| counts[comm.rank()]);
    // SAFETY: by the contract above.
    let receive = unsafe { Region::user(plain(recvbuf)?, datatype.bounds(result)) };
    present(send.as_ref(), None, total, &datatype)?;
    present(None, Some(&receive), counts[comm.rank()], &datatype)?;
    let plan = collective::reduce_scatter(&comm, send, receive, &counts, &datatype, &op)?;
    Ok(CheckedCall::new(Function::ReduceScatter, comm, plan))
}

/// The arguments of MPI_Reduce_scatter_block.
///
/// # Safety
/// The operand is readable for a block for each rank, the result writable for one (in place: for
/// all).
pub unsafe fn reduce_scatter_block(
    operands: UserOperands,
    op: MPI_Op,
    comm: MPI_Comm,
) -> Result<CheckedCall> {
    // SAFETY: by the contract above.
    unsafe {
        vector(
            (collective::reduce_scatter_block, Function::ReduceScatterBlock, Members::size),
            operands,
            op,
            comm,
        )
    }
}

/// The arguments of MPI_Scan.
///
/// # Safety
/// As [`allreduce`].
pub unsafe fn scan(operands: UserOperands, op: MPI_Op, comm: MPI_Comm) -> Result<CheckedCall> {
    // SAFETY: by the contract above.
    unsafe { vector((collective::scan, Function::Scan, |_| 1), operands, op, comm) }
}

/// The arguments of MPI_Exscan.
///
/// # Safety
/// As [`allreduce`].
pub unsafe fn exscan(operands: UserOperands, op: MPI_Op, comm: MPI_Comm) -> Result<CheckedCall> {
    // SAFETY: by the contract above.
    unsafe { vector((collective::exscan, Function::Exscan, |_| 1), operands, op, comm) }
}
