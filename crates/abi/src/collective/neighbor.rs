//! Arguments of the neighbourhood collectives (MPI 5.0, 8.6): arrays have one element for each
//! neighbour.

use mica_mpi::Result;
use mica_mpi::collective::{Function, neighbor};
use mica_mpi::comm::Comm;

use super::CheckedCall;
use super::buffers::{UserBlocks, UserBuffer};
use crate::types::MPI_Comm;

/// The numbers of sources and destinations; none without a topology, which is an error of its own
/// once the arguments are right.
fn neighbors_of(comm: &Comm) -> (usize, usize) {
    comm.neighborhood()
        .map_or((0, 0), |neighbors| (neighbors.sources.len(), neighbors.destinations.len()))
}

/// The arguments of MPI_Neighbor_allgather.
///
/// # Safety
/// `send` is readable and `receive` writable as counts and types say.
pub unsafe fn neighbor_allgather(
    send: UserBuffer,
    receive: UserBuffer,
    comm: MPI_Comm,
) -> Result<CheckedCall> {
    let comm = Comm::resolve(comm.raw())?;
    let (sources, _) = neighbors_of(&comm);
    // SAFETY: by the contract above.
    let (send, receive) = unsafe { (send.blocks(1)?, receive.blocks(sources)?) };
    let plan = neighbor::allgather(comm.rank(), &comm.neighborhood()?, &send, &receive)?;
    Ok(CheckedCall::new(Function::NeighborAllgather, comm, plan))
}

/// The arguments of MPI_Neighbor_allgatherv.
///
/// # Safety
/// `send` is readable and the blocks of `receive` are writable as counts, displacements and types
/// say; the arrays have one element for each source.
pub unsafe fn neighbor_allgatherv(
    send: UserBuffer,
    receive: UserBlocks,
    comm: MPI_Comm,
) -> Result<CheckedCall> {
    let comm = Comm::resolve(comm.raw())?;
    let around = comm.neighborhood()?;
    // SAFETY: by the contract above.
    let (send, receive) = unsafe { (send.blocks(1)?, receive.list(around.sources.len())?) };
    let plan = neighbor::allgatherv(comm.rank(), &around, &send, &receive)?;
    Ok(CheckedCall::new(Function::NeighborAllgatherv, comm, plan))
}

/// The arguments of MPI_Neighbor_alltoall.
///
/// # Safety
/// `send` is readable and `receive` writable as counts and types say.
pub unsafe fn neighbor_alltoall(
    send: UserBuffer,
    receive: UserBuffer,
    comm: MPI_Comm,
) -> Result<CheckedCall> {
    let comm = Comm::resolve(comm.raw())?;
    let (sources, destinations) = neighbors_of(&comm);
    // SAFETY: by the contract above.
    let (send, receive) = unsafe { (send.blocks(destinations)?, receive.blocks(sources)?) };
    let plan = neighbor::alltoall(comm.rank(), &comm.neighborhood()?, &send, &receive)?;
    Ok(CheckedCall::new(Function::NeighborAlltoall, comm, plan))
}

/// The arguments of MPI_Neighbor_alltoallv.
///
/// # Safety
/// The blocks of `send` are readable and those of `receive` writable as counts, displacements and
/// types say; the arrays have one element for each destination or source.
pub unsafe fn neighbor_alltoallv(
    send: UserBlocks,
    receive: UserBlocks,
    comm: MPI_Comm,
) -> Result<CheckedCall> {
    // SAFETY: by the contract above.
    unsafe { exchange(Function::NeighborAlltoallv, send, receive, comm) }
}

/// The arguments of MPI_Neighbor_alltoallw.
///
/// # Safety
/// As [`neighbor_alltoallv`], with displacements in bytes and a type for each block.
pub unsafe fn neighbor_alltoallw(
    send: UserBlocks,
    receive: UserBlocks,
    comm: MPI_Comm,
) -> Result<CheckedCall> {
    // SAFETY: by the contract above.
    unsafe { exchange(Function::NeighborAlltoallw, send, receive, comm) }
}

/// The arguments of `function`, MPI_Neighbor_alltoallv or MPI_Neighbor_alltoallw.
///
/// # Safety
/// As [`neighbor_alltoallv`] or [`neighbor_alltoallw`].
unsafe fn exchange(
    function: Function,
    send: UserBlocks,
    receive: UserBlocks,
    comm: MPI_Comm,
) -> Result<CheckedCall> {
    let comm = Comm::resolve(comm.raw())?;
    let around = comm.neighborhood()?;
    let (to, from) = (around.destinations.len(), around.sources.len());
    // SAFETY: by the contract above.
    let (send, receive) = unsafe { (send.list(to)?, receive.list(from)?) };
    let plan = neighbor::alltoallv(comm.rank(), &around, &send, &receive)?;
    Ok(CheckedCall::new(function, comm, plan))
}
