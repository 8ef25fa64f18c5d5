//! Neighbourhood collectives, blocking, non-blocking and persistent (MPI 5.0, 8.6 to 8.8).

use std::ffi::c_void;

use mica_mpi::Result;

use crate::collective as arguments;
use crate::poly::PolyArray;
use crate::types::{MPI_Aint, MPI_Comm, MPI_Count, MPI_Datatype, MPI_Info, MPI_Request};

/// MPI_Neighbor_allgather, MPI_Neighbor_allgather_c.
///
/// # Safety
/// `sendbuf` is readable and `recvbuf` writable as counts and types say.
pub unsafe fn mpi_neighbor_allgather(
    sendbuf: *const c_void,
    sendcount: MPI_Count,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: MPI_Count,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
) -> Result<()> {
    // SAFETY: by the contract above.
    unsafe {
        arguments::neighbor_allgather(
            sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm,
        )?
        .run()
    }
}

/// MPI_Neighbor_allgatherv, MPI_Neighbor_allgatherv_c.
///
/// # Safety
/// `sendbuf` is readable and the blocks of `recvbuf` are writable as counts, displacements and
/// types say; the arrays have one element for each source.
#[allow(clippy::too_many_arguments)] // MPI's signature
pub unsafe fn mpi_neighbor_allgatherv(
    sendbuf: *const c_void,
    sendcount: MPI_Count,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcounts: PolyArray,
    displs: PolyArray,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
) -> Result<()> {
    // SAFETY: by the contract above.
    unsafe {
        arguments::neighbor_allgatherv(
            sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs, recvtype, comm,
        )?
        .run()
    }
}

/// MPI_Neighbor_alltoall, MPI_Neighbor_alltoall_c.
///
/// # Safety
/// `sendbuf` is readable and `recvbuf` writable as counts and types say.
pub unsafe fn mpi_neighbor_alltoall(
    sendbuf: *const c_void,
    sendcount: MPI_Count,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: MPI_Count,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
) -> Result<()> {
    // SAFETY: by the contract above.
    unsafe {
        arguments::neighbor_alltoall(
            sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm,
        )?
        .run()
    }
}

/// MPI_Neighbor_alltoallv, MPI_Neighbor_alltoallv_c.
///
/// # Safety
/// The blocks of `sendbuf` are readable and those of `recvbuf` writable as counts, displacements
/// and types say; the arrays have one element for each destination or source.
#[allow(clippy::too_many_arguments)] // MPI's signature
pub unsafe fn mpi_neighbor_alltoallv(
    sendbuf: *const c_void,
    sendcounts: PolyArray,
    sdispls: PolyArray,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcounts: PolyArray,
    rdispls: PolyArray,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
) -> Result<()> {
    // SAFETY: by the contract above.
    unsafe {
        arguments::neighbor_alltoallv(
            sendbuf, sendcounts, sdispls, sendtype, recvbuf, recvcounts, rdispls, recvtype, comm,
        )?
        .run()
    }
}

/// MPI_Neighbor_alltoallw, MPI_Neighbor_alltoallw_c.
///
/// # Safety
/// As [`mpi_neighbor_alltoallv`], with displacements in bytes and a type for each block.
#[allow(clippy::too_many_arguments)] // MPI's signature
pub unsafe fn mpi_neighbor_alltoallw(
    sendbuf: *const c_void,
    sendcounts: PolyArray,
    sdispls: *const MPI_Aint,
    sendtypes: *const MPI_Datatype,
    recvbuf: *mut c_void,
    recvcounts: PolyArray,
    rdispls: *const MPI_Aint,
    recvtypes: *const MPI_Datatype,
    comm: MPI_Comm,
) -> Result<()> {
    // SAFETY: by the contract above.
    unsafe {
        arguments::neighbor_alltoallw(
            sendbuf, sendcounts, sdispls, sendtypes, recvbuf, recvcounts, rdispls, recvtypes, comm,
        )?
        .run()
    }
}

/// MPI_Ineighbor_allgather, MPI_Ineighbor_allgather_c.
///
/// # Safety
/// As [`mpi_neighbor_allgather`], until the request completes; `request` is null or writable.
#[allow(clippy::too_many_arguments)] // MPI's signature
pub unsafe fn mpi_ineighbor_allgather(
    sendbuf: *const c_void,
    sendcount: MPI_Count,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: MPI_Count,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> Result<()> {
    // SAFETY: by the contract above.
    unsafe {
        arguments::start(request, || {
            arguments::neighbor_allgather(
                sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm,
            )
        })
    }
}

/// MPI_Ineighbor_allgatherv, MPI_Ineighbor_allgatherv_c.
///
/// # Safety
/// As [`mpi_neighbor_allgatherv`], until the request completes; `request` is null or writable.
#[allow(clippy::too_many_arguments)] // MPI's signature
pub unsafe fn mpi_ineighbor_allgatherv(
    sendbuf: *const c_void,
    sendcount: MPI_Count,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcounts: PolyArray,
    displs: PolyArray,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> Result<()> {
    // SAFETY: by the contract above.
    unsafe {
        arguments::start(request, || {
            arguments::neighbor_allgatherv(
                sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs, recvtype, comm,
            )
        })
    }
}

/// MPI_Ineighbor_alltoall, MPI_Ineighbor_alltoall_c.
///
/// # Safety
/// As [`mpi_neighbor_alltoall`], until the request completes; `request` is null or writable.
#[allow(clippy::too_many_arguments)] // MPI's signature
pub unsafe fn mpi_ineighbor_alltoall(
    sendbuf: *const c_void,
    sendcount: MPI_Count,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: MPI_Count,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> Result<()> {
    // SAFETY: by the contract above.
    unsafe {
        arguments::start(request, || {
            arguments::neighbor_alltoall(
                sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm,
            )
        })
    }
}

/// MPI_Ineighbor_alltoallv, MPI_Ineighbor_alltoallv_c.
///
/// # Safety
/// As [`mpi_neighbor_alltoallv`], until the request completes; `request` is null or writable.
#[allow(clippy::too_many_arguments)] // MPI's signature
pub unsafe fn mpi_ineighbor_alltoallv(
    sendbuf: *const c_void,
    sendcounts: PolyArray,
    sdispls: PolyArray,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcounts: PolyArray,
    rdispls: PolyArray,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> Result<()> {
    // SAFETY: by the contract above.
    unsafe {
        arguments::start(request, || {
            arguments::neighbor_alltoallv(
                sendbuf, sendcounts, sdispls, sendtype, recvbuf, recvcounts, rdispls, recvtype,
                comm,
            )
        })
    }
}

/// MPI_Ineighbor_alltoallw, MPI_Ineighbor_alltoallw_c.
///
/// # Safety
/// As [`mpi_neighbor_alltoallw`], until the request completes; `request` is null or writable.
#[allow(clippy::too_many_arguments)] // MPI's signature
pub unsafe fn mpi_ineighbor_alltoallw(
    sendbuf: *const c_void,
    sendcounts: PolyArray,
    sdispls: *const MPI_Aint,
    sendtypes: *const MPI_Datatype,
    recvbuf: *mut c_void,
    recvcounts: PolyArray,
    rdispls: *const MPI_Aint,
    recvtypes: *const MPI_Datatype,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> Result<()> {
    // SAFETY: by the contract above.
    unsafe {
        arguments::start(request, || {
            arguments::neighbor_alltoallw(
                sendbuf, sendcounts, sdispls, sendtypes, recvbuf, recvcounts, rdispls, recvtypes,
                comm,
            )
        })
    }
}

/// MPI_Neighbor_allgather_init, MPI_Neighbor_allgather_init_c.
///
/// # Safety
/// As [`mpi_neighbor_allgather`], whenever the request is active; `request` is null or writable.
#[allow(clippy::too_many_arguments)] // MPI's signature
pub unsafe fn mpi_neighbor_allgather_init(
    sendbuf: *const c_void,
    sendcount: MPI_Count,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: MPI_Count,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
    info: MPI_Info,
    request: *mut MPI_Request,
) -> Result<()> {
    // SAFETY: by the contract above.
    unsafe {
        arguments::keep(request, info, || {
            arguments::neighbor_allgather(
                sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm,
            )
        })
    }
}

/// MPI_Neighbor_allgatherv_init, MPI_Neighbor_allgatherv_init_c.
///
/// # Safety
/// As [`mpi_neighbor_allgatherv`], whenever the request is active; `request` is null or writable.
#[allow(clippy::too_many_arguments)] // MPI's signature
pub unsafe fn mpi_neighbor_allgatherv_init(
    sendbuf: *const c_void,
    sendcount: MPI_Count,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcounts: PolyArray,
    displs: PolyArray,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
    info: MPI_Info,
    request: *mut MPI_Request,
) -> Result<()> {
    // SAFETY: by the contract above.
    unsafe {
        arguments::keep(request, info, || {
            arguments::neighbor_allgatherv(
                sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs, recvtype, comm,
            )
        })
    }
}

/// MPI_Neighbor_alltoall_init, MPI_Neighbor_alltoall_init_c.
///
/// # Safety
/// As [`mpi_neighbor_alltoall`], whenever the request is active; `request` is null or writable.
#[allow(clippy::too_many_arguments)] // MPI's signature
pub unsafe fn mpi_neighbor_alltoall_init(
    sendbuf: *const c_void,
    sendcount: MPI_Count,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: MPI_Count,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
    info: MPI_Info,
    request: *mut MPI_Request,
) -> Result<()> {
    // SAFETY: by the contract above.
    unsafe {
        arguments::keep(request, info, || {
            arguments::neighbor_alltoall(
                sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm,
            )
        })
    }
}

/// MPI_Neighbor_alltoallv_init, MPI_Neighbor_alltoallv_init_c.
///
/// # Safety
/// As [`mpi_neighbor_alltoallv`], whenever the request is active; `request` is null or writable.
#[allow(clippy::too_many_arguments)] // MPI's signature
pub unsafe fn mpi_neighbor_alltoallv_init(
    sendbuf: *const c_void,
    sendcounts: PolyArray,
    sdispls: PolyArray,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcounts: PolyArray,
    rdispls: PolyArray,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
    info: MPI_Info,
    request: *mut MPI_Request,
) -> Result<()> {
    // SAFETY: by the contract above.
    unsafe {
        arguments::keep(request, info, || {
            arguments::neighbor_alltoallv(
                sendbuf, sendcounts, sdispls, sendtype, recvbuf, recvcounts, rdispls, recvtype,
                comm,
            )
        })
    }
}

/// MPI_Neighbor_alltoallw_init, MPI_Neighbor_alltoallw_init_c.
///
/// # Safety
/// As [`mpi_neighbor_alltoallw`], whenever the request is active; `request` is null or writable.
#[allow(clippy::too_many_arguments)] // MPI's signature
pub unsafe fn mpi_neighbor_alltoallw_init(
    sendbuf: *const c_void,
    sendcounts: PolyArray,
    sdispls: *const MPI_Aint,
    sendtypes: *const MPI_Datatype,
    recvbuf: *mut c_void,
    recvcounts: PolyArray,
    rdispls: *const MPI_Aint,
    recvtypes: *const MPI_Datatype,
    comm: MPI_Comm,
    info: MPI_Info,
    request: *mut MPI_Request,
) -> Result<()> {
    // SAFETY: by the contract above.
    unsafe {
        arguments::keep(request, info, || {
            arguments::neighbor_alltoallw(
                sendbuf, sendcounts, sdispls, sendtypes, recvbuf, recvcounts, rdispls, recvtypes,
                comm,
            )
        })
    }
}
