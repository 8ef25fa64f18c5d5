//! Non-blocking collective communication (MPI 5.0, 6.12).

use std::ffi::{c_int, c_void};

use mica_mpi::Result;

use crate::collective as arguments;
use crate::poly::PolyArray;
use crate::types::{MPI_Comm, MPI_Count, MPI_Datatype, MPI_Op, MPI_Request};

/// MPI_Ibarrier.
///
/// # Safety
/// `request` is null or writable.
pub unsafe fn mpi_ibarrier(comm: MPI_Comm, request: *mut MPI_Request) -> Result<()> {
    // SAFETY: by the contract above.
    unsafe { arguments::start(request, || arguments::barrier(comm)) }
}

/// MPI_Ibcast, MPI_Ibcast_c.
///
/// # Safety
/// As [`mpi_bcast`](super::collective::mpi_bcast), until the request completes; `request` is null
/// or writable.
pub unsafe fn mpi_ibcast(
    buffer: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> Result<()> {
    // SAFETY: by the contract above.
    unsafe {
        arguments::start(request, || {
            arguments::bcast(buffer, count, datatype, root, comm)
        })
    }
}

/// MPI_Igather, MPI_Igather_c.
///
/// # Safety
/// As [`mpi_gather`](super::collective::mpi_gather), until the request completes; `request` is
/// null or writable.
#[allow(clippy::too_many_arguments)] // MPI's signature
pub unsafe fn mpi_igather(
    sendbuf: *const c_void,
    sendcount: MPI_Count,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: MPI_Count,
    recvtype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> Result<()> {
    // SAFETY: by the contract above.
    unsafe {
        arguments::start(request, || {
            arguments::gather(
                sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, root, comm,
            )
        })
    }
}

/// MPI_Igatherv, MPI_Igatherv_c.
///
/// # Safety
/// As [`mpi_gatherv`](super::collective::mpi_gatherv), until the request completes; `request` is
/// null or writable.
#[allow(clippy::too_many_arguments)] // MPI's signature
pub unsafe fn mpi_igatherv(
    sendbuf: *const c_void,
    sendcount: MPI_Count,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcounts: PolyArray,
    displs: PolyArray,
    recvtype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> Result<()> {
    // SAFETY: by the contract above.
    unsafe {
        arguments::start(request, || {
            arguments::gatherv(
                sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs, recvtype, root, comm,
            )
        })
    }
}

/// MPI_Iscatter, MPI_Iscatter_c.
///
/// # Safety
/// As [`mpi_scatter`](super::collective::mpi_scatter), until the request completes; `request` is
/// null or writable.
#[allow(clippy::too_many_arguments)] // MPI's signature
pub unsafe fn mpi_iscatter(
    sendbuf: *const c_void,
    sendcount: MPI_Count,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: MPI_Count,
    recvtype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> Result<()> {
    // SAFETY: by the contract above.
    unsafe {
        arguments::start(request, || {
            arguments::scatter(
                sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, root, comm,
            )
        })
    }
}

/// MPI_Iscatterv, MPI_Iscatterv_c.
///
/// # Safety
/// As [`mpi_scatterv`](super::collective::mpi_scatterv), until the request completes; `request` is
/// null or writable.
#[allow(clippy::too_many_arguments)] // MPI's signature
pub unsafe fn mpi_iscatterv(
    sendbuf: *const c_void,
    sendcounts: PolyArray,
    displs: PolyArray,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: MPI_Count,
    recvtype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> Result<()> {
    // SAFETY: by the contract above.
    unsafe {
        arguments::start(request, || {
            arguments::scatterv(
                sendbuf, sendcounts, displs, sendtype, recvbuf, recvcount, recvtype, root, comm,
            )
        })
    }
}

/// MPI_Iallgather, MPI_Iallgather_c.
///
/// # Safety
/// As [`mpi_allgather`](super::collective::mpi_allgather), until the request completes; `request`
/// is null or writable.
#[allow(clippy::too_many_arguments)] // MPI's signature
pub unsafe fn mpi_iallgather(
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
            arguments::allgather(
                sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm,
            )
        })
    }
}

/// MPI_Iallgatherv, MPI_Iallgatherv_c.
///
/// # Safety
/// As [`mpi_allgatherv`](super::collective::mpi_allgatherv), until the request completes;
/// `request` is null or writable.
#[allow(clippy::too_many_arguments)] // MPI's signature
pub unsafe fn mpi_iallgatherv(
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
            arguments::allgatherv(
                sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs, recvtype, comm,
            )
        })
    }
}

/// MPI_Ialltoall, MPI_Ialltoall_c.
///
/// # Safety
/// As [`mpi_alltoall`](super::collective::mpi_alltoall), until the request completes; `request` is
/// null or writable.
#[allow(clippy::too_many_arguments)] // MPI's signature
pub unsafe fn mpi_ialltoall(
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
            arguments::alltoall(
                sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm,
            )
        })
    }
}

/// MPI_Ialltoallv, MPI_Ialltoallv_c.
///
/// # Safety
/// As [`mpi_alltoallv`](super::collective::mpi_alltoallv), until the request completes; `request`
/// is null or writable.
#[allow(clippy::too_many_arguments)] // MPI's signature
pub unsafe fn mpi_ialltoallv(
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
            arguments::alltoallv(
                sendbuf, sendcounts, sdispls, sendtype, recvbuf, recvcounts, rdispls, recvtype,
                comm,
            )
        })
    }
}

/// MPI_Ialltoallw, MPI_Ialltoallw_c.
///
/// # Safety
/// As [`mpi_alltoallw`](super::collective::mpi_alltoallw), until the request completes; `request`
/// is null or writable.
#[allow(clippy::too_many_arguments)] // MPI's signature
pub unsafe fn mpi_ialltoallw(
    sendbuf: *const c_void,
    sendcounts: PolyArray,
    sdispls: PolyArray,
    sendtypes: *const MPI_Datatype,
    recvbuf: *mut c_void,
    recvcounts: PolyArray,
    rdispls: PolyArray,
    recvtypes: *const MPI_Datatype,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> Result<()> {
    // SAFETY: by the contract above.
    unsafe {
        arguments::start(request, || {
            arguments::alltoallw(
                sendbuf, sendcounts, sdispls, sendtypes, recvbuf, recvcounts, rdispls, recvtypes,
                comm,
            )
        })
    }
}

/// MPI_Ireduce, MPI_Ireduce_c.
///
/// # Safety
/// As [`mpi_reduce`](super::collective::mpi_reduce), until the request completes; `request` is
/// null or writable.
#[allow(clippy::too_many_arguments)] // MPI's signature
pub unsafe fn mpi_ireduce(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    op: MPI_Op,
    root: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> Result<()> {
    // SAFETY: by the contract above.
    unsafe {
        arguments::start(request, || {
            arguments::reduce(sendbuf, recvbuf, count, datatype, op, root, comm)
        })
    }
}

/// MPI_Iallreduce, MPI_Iallreduce_c.
///
/// # Safety
/// As [`mpi_allreduce`](super::collective::mpi_allreduce), until the request completes; `request`
/// is null or writable.
pub unsafe fn mpi_iallreduce(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> Result<()> {
    // SAFETY: by the contract above.
    unsafe {
        arguments::start(request, || {
            arguments::allreduce(sendbuf, recvbuf, count, datatype, op, comm)
        })
    }
}

/// MPI_Ireduce_scatter, MPI_Ireduce_scatter_c.
///
/// # Safety
/// As [`mpi_reduce_scatter`](super::collective::mpi_reduce_scatter), until the request completes;
/// `request` is null or writable.
pub unsafe fn mpi_ireduce_scatter(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    recvcounts: PolyArray,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> Result<()> {
    // SAFETY: by the contract above.
    unsafe {
        arguments::start(request, || {
            arguments::reduce_scatter(sendbuf, recvbuf, recvcounts, datatype, op, comm)
        })
    }
}

/// MPI_Ireduce_scatter_block, MPI_Ireduce_scatter_block_c.
///
/// # Safety
/// As [`mpi_reduce_scatter_block`](super::collective::mpi_reduce_scatter_block), until the request
/// completes; `request` is null or writable.
pub unsafe fn mpi_ireduce_scatter_block(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    recvcount: MPI_Count,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> Result<()> {
    // SAFETY: by the contract above.
    unsafe {
        arguments::start(request, || {
            arguments::reduce_scatter_block(sendbuf, recvbuf, recvcount, datatype, op, comm)
        })
    }
}

/// MPI_Iscan, MPI_Iscan_c.
///
/// # Safety
/// As [`mpi_scan`](super::collective::mpi_scan), until the request completes; `request` is null or
/// writable.
pub unsafe fn mpi_iscan(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> Result<()> {
    // SAFETY: by the contract above.
    unsafe {
        arguments::start(request, || {
            arguments::scan(sendbuf, recvbuf, count, datatype, op, comm)
        })
    }
}

/// MPI_Iexscan, MPI_Iexscan_c.
///
/// # Safety
/// As [`mpi_exscan`](super::collective::mpi_exscan), until the request completes; `request` is
/// null or writable.
pub unsafe fn mpi_iexscan(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> Result<()> {
    // SAFETY: by the contract above.
    unsafe {
        arguments::start(request, || {
            arguments::exscan(sendbuf, recvbuf, count, datatype, op, comm)
        })
    }
}
