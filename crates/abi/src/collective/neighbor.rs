//! Arguments of the neighbourhood collectives (MPI 5.0, 8.6): arrays have one element for each
//! neighbour.
#![allow(
    clippy::too_many_arguments,
    reason = "the argument lists are MPI's own"
)]

use std::ffi::c_void;

use mica_mpi::Result;
use mica_mpi::collective::{Function, neighbor};
use mica_mpi::comm::Comm;

use super::{Call, blocks, plain, required, typed_blocks, whole};
use crate::poly::PolyArray;
use crate::types::{MPI_Aint, MPI_Comm, MPI_Count, MPI_Datatype};

/// The numbers of sources and destinations; none without a topology, which is an error of its own
/// once the arguments are right.
fn neighbors_of(comm: &Comm) -> (usize, usize) {
    comm.neighborhood().map_or((0, 0), |neighbors| {
        (neighbors.sources.len(), neighbors.destinations.len())
    })
}

/// The arguments of MPI_Neighbor_allgather.
///
/// # Safety
/// `sendbuf` is readable and `recvbuf` writable as counts and types say.
pub unsafe fn neighbor_allgather(
    sendbuf: *const c_void,
    sendcount: MPI_Count,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: MPI_Count,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
) -> Result<Call> {
    let comm = Comm::resolve(comm.raw())?;
    let (sources, _) = neighbors_of(&comm);
    // SAFETY: by the contract above.
    let (send, receive) = unsafe {
        (
            whole(sendbuf, "sendcount", sendcount, sendtype, 1)?,
            whole(recvbuf, "recvcount", recvcount, recvtype, sources)?,
        )
    };
    let plan = neighbor::allgather(&comm, &send, &receive)?.into();
    Ok(Call {
        comm,
        plan,
        function: Function::NeighborAllgather,
    })
}

/// The arguments of MPI_Neighbor_allgatherv.
///
/// # Safety
/// `sendbuf` is readable and the blocks of `recvbuf` are writable as counts, displacements and
/// types say; the arrays have one element for each source.
pub unsafe fn neighbor_allgatherv(
    sendbuf: *const c_void,
    sendcount: MPI_Count,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcounts: PolyArray,
    displs: PolyArray,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
) -> Result<Call> {
    let comm = Comm::resolve(comm.raw())?;
    let sources = comm.neighborhood()?.sources.len();
    // SAFETY: by the contract above.
    let (send, receive) = unsafe {
        (
            whole(sendbuf, "sendcount", sendcount, sendtype, 1)?,
            blocks(recvbuf, "recvcounts", recvcounts, displs, recvtype, sources)?,
        )
    };
    let plan = neighbor::allgatherv(&comm, &send, &required(receive)?)?.into();
    Ok(Call {
        comm,
        plan,
        function: Function::NeighborAllgatherv,
    })
}

/// The arguments of MPI_Neighbor_alltoall.
///
/// # Safety
/// `sendbuf` is readable and `recvbuf` writable as counts and types say.
pub unsafe fn neighbor_alltoall(
    sendbuf: *const c_void,
    sendcount: MPI_Count,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: MPI_Count,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
) -> Result<Call> {
    let comm = Comm::resolve(comm.raw())?;
    let (sources, destinations) = neighbors_of(&comm);
    // SAFETY: by the contract above.
    let (send, receive) = unsafe {
        (
            whole(sendbuf, "sendcount", sendcount, sendtype, destinations)?,
            whole(recvbuf, "recvcount", recvcount, recvtype, sources)?,
        )
    };
    let plan = neighbor::alltoall(&comm, &send, &receive)?.into();
    Ok(Call {
        comm,
        plan,
        function: Function::NeighborAlltoall,
    })
}

/// The arguments of MPI_Neighbor_alltoallv.
///
/// # Safety
/// The blocks of `sendbuf` are readable and those of `recvbuf` writable as counts, displacements
/// and types say; the arrays have one element for each destination or source.
pub unsafe fn neighbor_alltoallv(
    sendbuf: *const c_void,
    sendcounts: PolyArray,
    sdispls: PolyArray,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcounts: PolyArray,
    rdispls: PolyArray,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
) -> Result<Call> {
    let comm = Comm::resolve(comm.raw())?;
    let around = comm.neighborhood()?;
    let (to, from) = (around.destinations.len(), around.sources.len());
    // SAFETY: by the contract above.
    let (send, receive) = unsafe {
        (
            blocks(
                plain(sendbuf)?,
                "sendcounts",
                sendcounts,
                sdispls,
                sendtype,
                to,
            )?,
            blocks(recvbuf, "recvcounts", recvcounts, rdispls, recvtype, from)?,
        )
    };
    let plan = neighbor::alltoallv(&comm, &required(send)?, &required(receive)?)?.into();
    Ok(Call {
        comm,
        plan,
        function: Function::NeighborAlltoallv,
    })
}

/// The arguments of MPI_Neighbor_alltoallw.
///
/// # Safety
/// As [`neighbor_alltoallv`], with displacements in bytes and a type for each block.
pub unsafe fn neighbor_alltoallw(
    sendbuf: *const c_void,
    sendcounts: PolyArray,
    sdispls: *const MPI_Aint,
    sendtypes: *const MPI_Datatype,
    recvbuf: *mut c_void,
    recvcounts: PolyArray,
    rdispls: *const MPI_Aint,
    recvtypes: *const MPI_Datatype,
    comm: MPI_Comm,
) -> Result<Call> {
    let comm = Comm::resolve(comm.raw())?;
    let around = comm.neighborhood()?;
    let (to, from) = (around.destinations.len(), around.sources.len());
    let (sdispls, rdispls) = (PolyArray::new(sdispls), PolyArray::new(rdispls));
    // SAFETY: by the contract above.
    let (send, receive) = unsafe {
        (
            typed_blocks(
                plain(sendbuf)?,
                "sendcounts",
                sendcounts,
                sdispls,
                sendtypes,
                to,
            )?,
            typed_blocks(recvbuf, "recvcounts", recvcounts, rdispls, recvtypes, from)?,
        )
    };
    let plan = neighbor::alltoallv(&comm, &required(send)?, &required(receive)?)?.into();
    Ok(Call {
        comm,
        plan,
        function: Function::NeighborAlltoallw,
    })
}
