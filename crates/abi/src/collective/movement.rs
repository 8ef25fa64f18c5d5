//! Arguments of the collectives that move data, and of the barrier (MPI 5.0, 6.3 to 6.8).

use std::ffi::c_int;

use mica_mpi::Result;
use mica_mpi::collective::{self, Function};
use mica_mpi::comm::Comm;

use super::buffers::{UserBlocks, UserBuffer};
use super::{CheckedCall, at_root, takes_part};
use crate::types::MPI_Comm;

/// The arguments of MPI_Barrier.
pub fn barrier(comm: MPI_Comm) -> Result<CheckedCall> {
    let comm = Comm::resolve(comm.raw())?;
    let plan = collective::barrier(&comm)?;
    Ok(CheckedCall::new(Function::Barrier, comm, plan))
}

/// The arguments of MPI_Bcast.
///
/// # Safety
/// `buffer` is readable (at the root) or writable (elsewhere) for its elements.
pub unsafe fn bcast(buffer: UserBuffer, root: c_int, comm: MPI_Comm) -> Result<CheckedCall> {
    let comm = Comm::resolve(comm.raw())?;
    let significant = at_root(&comm, root) || takes_part(&comm, root);
    let buffer = if significant { buffer } else { buffer.none() };
    // SAFETY: by the contract above; nothing is at the null address.
    let buffer = unsafe { buffer.or_untyped().blocks(1)? };
    let plan = collective::bcast(&comm, &buffer, root)?;
    Ok(CheckedCall::new(Function::Bcast, comm, plan))
}

/// The arguments of MPI_Gather.
///
/// # Safety
/// `send` is readable and, at the root, `receive` writable as counts and types say.
pub unsafe fn gather(
    send: UserBuffer,
    receive: UserBuffer,
    root: c_int,
    comm: MPI_Comm,
) -> Result<CheckedCall> {
    let comm = Comm::resolve(comm.raw())?;
    // SAFETY: by the contract above.
    let (send, receive) = unsafe { (send.of_rank(&comm, root)?, receive.of_root(&comm, root)?) };
    let plan = collective::gather(&comm, send.as_ref(), receive.as_ref(), root)?;
    Ok(CheckedCall::new(Function::Gather, comm, plan))
}

/// The arguments of MPI_Gatherv.
///
/// # Safety
/// `send` is readable and, at the root, the blocks of `receive` are writable as counts,
/// displacements and types say; at the root the arrays have one element for each rank.
pub unsafe fn gatherv(
    send: UserBuffer,
    receive: UserBlocks,
    root: c_int,
    comm: MPI_Comm,
) -> Result<CheckedCall> {
    let comm = Comm::resolve(comm.raw())?;
    // SAFETY: by the contract above.
    let (send, receive) = unsafe { (send.of_rank(&comm, root)?, receive.of_root(&comm, root)?) };
    let plan = collective::gatherv(&comm, send.as_ref(), receive, root)?;
    Ok(CheckedCall::new(Function::Gatherv, comm, plan))
}

/// The arguments of MPI_Scatter.
///
/// # Safety
/// `receive` is writable and, at the root, `send` readable as counts and types say.
pub unsafe fn scatter(
    send: UserBuffer,
    receive: UserBuffer,
    root: c_int,
    comm: MPI_Comm,
) -> Result<CheckedCall> {
    let comm = Comm::resolve(comm.raw())?;
    // SAFETY: by the contract above.
    let (send, receive) = unsafe { (send.of_root(&comm, root)?, receive.of_rank(&comm, root)?) };
    let plan = collective::scatter(&comm, send.as_ref(), receive.as_ref(), root)?;
    Ok(CheckedCall::new(Function::Scatter, comm, plan))
}

/// The arguments of MPI_Scatterv.
///
/// # Safety
/// `receive` is writable and, at the root, the blocks of `send` are readable as counts,
/// displacements and types say; at the root the arrays have one element for each rank.
pub unsafe fn scatterv(
    send: UserBlocks,
    receive: UserBuffer,
    root: c_int,
    comm: MPI_Comm,
) -> Result<CheckedCall> {
    let comm = Comm::resolve(comm.raw())?;
    // SAFETY: by the contract above.
    let (send, receive) = unsafe { (send.of_root(&comm, root)?, receive.of_rank(&comm, root)?) };
    let plan = collective::scatterv(&comm, send, receive.as_ref(), root)?;
    Ok(CheckedCall::new(Function::Scatterv, comm, plan))
}

/// The arguments of MPI_Allgather.
///
/// # Safety
/// `send` is readable and `receive` writable as counts and types say.
pub unsafe fn allgather(
    send: UserBuffer,
    receive: UserBuffer,
    comm: MPI_Comm,
) -> Result<CheckedCall> {
    let comm = Comm::resolve(comm.raw())?;
    let ranks = comm.remote_or_local_size();
    // SAFETY: by the contract above.
    let (send, receive) = unsafe { (send.or_in_place(1)?, receive.blocks(ranks)?) };
    let plan = collective::allgather(&comm, send.as_ref(), &receive)?;
    Ok(CheckedCall::new(Function::Allgather, comm, plan))
}

/// The arguments of MPI_Allgatherv.
///
/// # Safety
/// `send` is readable and the blocks of `receive` are writable as counts, displacements and types
/// say; the arrays have one element for each rank.
pub unsafe fn allgatherv(
    send: UserBuffer,
    receive: UserBlocks,
    comm: MPI_Comm,
) -> Result<CheckedCall> {
    let comm = Comm::resolve(comm.raw())?;
    let ranks = comm.remote_or_local_size();
    // SAFETY: by the contract above.
    let (send, receive) = unsafe { (send.or_in_place(1)?, receive.list(ranks)?) };
    let plan = collective::allgatherv(&comm, send.as_ref(), receive)?;
    Ok(CheckedCall::new(Function::Allgatherv, comm, plan))
}

/// The arguments of MPI_Alltoall.
///
/// # Safety
/// `send` is readable and `receive` writable as counts and types say.
pub unsafe fn alltoall(
    send: UserBuffer,
    receive: UserBuffer,
    comm: MPI_Comm,
) -> Result<CheckedCall> {
    let comm = Comm::resolve(comm.raw())?;
    let ranks = comm.remote_or_local_size();
    // SAFETY: by the contract above.
    let (send, receive) = unsafe { (send.or_in_place(ranks)?, receive.blocks(ranks)?) };
    let plan = collective::alltoall(&comm, send.as_ref(), &receive)?;
    Ok(CheckedCall::new(Function::Alltoall, comm, plan))
}

/// The arguments of MPI_Alltoallv.
///
/// # Safety
/// The blocks of `send` are readable and those of `receive` writable as counts, displacements and
/// types say; the arrays have one element for each rank.
pub unsafe fn alltoallv(
    send: UserBlocks,
    receive: UserBlocks,
    comm: MPI_Comm,
) -> Result<CheckedCall> {
    // SAFETY: by the contract above.
    unsafe { exchange(Function::Alltoallv, send, receive, comm) }
}

/// The arguments of MPI_Alltoallw.
///
/// # Safety
/// As [`alltoallv`], with displacements in bytes and a type for each block.
pub unsafe fn alltoallw(
    send: UserBlocks,
    receive: UserBlocks,
    comm: MPI_Comm,
) -> Result<CheckedCall> {
    // SAFETY: by the contract above.
    unsafe { exchange(Function::Alltoallw, send, receive, comm) }
}

/// The arguments of `function`, MPI_Alltoallv or MPI_Alltoallw.
///
/// # Safety
/// As [`alltoallv`] or [`alltoallw`].
unsafe fn exchange(
    function: Function,
    send: UserBlocks,
    receive: UserBlocks,
    comm: MPI_Comm,
) -> Result<CheckedCall> {
    let comm = Comm::resolve(comm.raw())?;
    let ranks = comm.remote_or_local_size();
    // SAFETY: by the contract above.
    let (send, receive) = unsafe { (send.or_in_place(ranks)?, receive.list(ranks)?) };
    let plan = collective::alltoallv(&comm, send, receive)?;
    Ok(CheckedCall::new(function, comm, plan))
}
