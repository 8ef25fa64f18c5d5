//! Arguments of the neighbourhood collectives (MPI 5.0, 8.6): arrays have one element for each
//! neighbour.

use mica_mpi::Result;
use mica_mpi::collective::{BlockList, Function, neighbor};
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

conversions! { comm:
    neighbor_allgather as NeighborAllgather(send: UserBuffer, receive: UserBuffer)
        let (send, receive) = (send.blocks(1)?, receive.blocks(neighbors_of(&comm).0)?);
        neighbor::allgather(comm.rank(), &comm.neighborhood()?, &send, &receive);
    neighbor_allgatherv as NeighborAllgatherv(send: UserBuffer, receive: UserBlocks)
        let (send, receive) = (send.blocks(1)?, receive.list(comm.neighborhood()?.sources.len())?);
        neighbor::allgatherv(comm.rank(), &comm.neighborhood()?, &send, &receive);
    neighbor_alltoall as NeighborAlltoall(send: UserBuffer, receive: UserBuffer)
        let (send, receive) = {
            let (sources, destinations) = neighbors_of(&comm);
            (send.blocks(destinations)?, receive.blocks(sources)?)
        };
        neighbor::alltoall(comm.rank(), &comm.neighborhood()?, &send, &receive);
    neighbor_alltoallv as NeighborAlltoallv(send: UserBlocks, receive: UserBlocks)
        let (around, send, receive) = each(send, receive, &comm)?;
        neighbor::alltoallv(comm.rank(), &around, &send, &receive);
    neighbor_alltoallw as NeighborAlltoallw(send: UserBlocks, receive: UserBlocks)
        let (around, send, receive) = each(send, receive, &comm)?;
        neighbor::alltoallv(comm.rank(), &around, &send, &receive);
}

/// The neighbours, and a block for each.
///
/// # Safety
/// That of the call.
unsafe fn each(
    send: UserBlocks,
    receive: UserBlocks,
    comm: &Comm,
) -> Result<(neighbor::Neighborhood, BlockList, BlockList)> {
    let around = comm.neighborhood()?;
    let (to, from) = (around.destinations.len(), around.sources.len());
    // SAFETY: by the contract above.
    let (send, receive) = unsafe { (send.list(to)?, receive.list(from)?) };
    Ok((around, send, receive))
}
