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

/// The buffer of a broadcast, where it is significant.
fn broadcast(buffer: UserBuffer, comm: &Comm, root: c_int) -> UserBuffer {
    let significant = at_root(comm, root) || takes_part(comm, root);
    if significant { buffer.or_untyped() } else { buffer.none().or_untyped() }
}

/// Number of ranks that blocks are for, or come from.
fn ranks(comm: &Comm) -> usize {
    comm.remote_or_local_size()
}

conversions! { comm:
    bcast as Bcast(buffer: UserBuffer, root: c_int)
        let buffer = broadcast(buffer, &comm, root).blocks(1)?;
        collective::bcast(&comm, &buffer, root);
    gather as Gather(send: UserBuffer, receive: UserBuffer, root: c_int)
        let (send, receive) = (send.of_rank(&comm, root)?, receive.of_root(&comm, root)?);
        collective::gather(&comm, send.as_ref(), receive.as_ref(), root);
    gatherv as Gatherv(send: UserBuffer, receive: UserBlocks, root: c_int)
        let (send, receive) = (send.of_rank(&comm, root)?, receive.of_root(&comm, root)?);
        collective::gatherv(&comm, send.as_ref(), receive, root);
    scatter as Scatter(send: UserBuffer, receive: UserBuffer, root: c_int)
        let (send, receive) = (send.of_root(&comm, root)?, receive.of_rank(&comm, root)?);
        collective::scatter(&comm, send.as_ref(), receive.as_ref(), root);
    scatterv as Scatterv(send: UserBlocks, receive: UserBuffer, root: c_int)
        let (send, receive) = (send.of_root(&comm, root)?, receive.of_rank(&comm, root)?);
        collective::scatterv(&comm, send, receive.as_ref(), root);
    allgather as Allgather(send: UserBuffer, receive: UserBuffer)
        let (send, receive) = (send.or_in_place(1)?, receive.blocks(ranks(&comm))?);
        collective::allgather(&comm, send.as_ref(), &receive);
    allgatherv as Allgatherv(send: UserBuffer, receive: UserBlocks)
        let (send, receive) = (send.or_in_place(1)?, receive.list(ranks(&comm))?);
        collective::allgatherv(&comm, send.as_ref(), receive);
    alltoall as Alltoall(send: UserBuffer, receive: UserBuffer)
        let (send, receive) = (send.or_in_place(ranks(&comm))?, receive.blocks(ranks(&comm))?);
        collective::alltoall(&comm, send.as_ref(), &receive);
    alltoallv as Alltoallv(send: UserBlocks, receive: UserBlocks)
        let (send, receive) = (send.or_in_place(ranks(&comm))?, receive.list(ranks(&comm))?);
        collective::alltoallv(&comm, send, receive);
    alltoallw as Alltoallw(send: UserBlocks, receive: UserBlocks)
        let (send, receive) = (send.or_in_place(ranks(&comm))?, receive.list(ranks(&comm))?);
        collective::alltoallv(&comm, send, receive);
}
