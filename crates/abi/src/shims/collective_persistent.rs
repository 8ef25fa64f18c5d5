//! Persistent collective communication (MPI 5.0, 6.13). The calls only prepare: `MPI_Start` starts.

use std::ffi::{c_int, c_void};

use mica_mpi::Result;

use crate::collective as arguments;
use crate::poly::PolyArray;
use crate::types::{MPI_Comm, MPI_Count, MPI_Datatype, MPI_Info, MPI_Op, MPI_Request};

/// MPI_Barrier_init.
///
/// # Safety
/// `request` is null or writable.
pub unsafe fn mpi_barrier_init(
    comm: MPI_Comm,
    info: MPI_Info,
    request: *mut MPI_Request,
) -> Result<()> {
    // SAFETY: by the contract above.
    unsafe { arguments::keep(request, info, || arguments::barrier(comm)) }
}

/// MPI_Bcast_init, MPI_Bcast_init_c.
///
/// # Safety
/// As [`mpi_bcast`](super::collective::mpi_bcast), whenever the request is active; `request` is
/// null or writable.
pub unsafe fn mpi_bcast_init(
    buffer: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
    info: MPI_Info,
    request: *mut MPI_Request,
) -> Result<()> {
    // SAFETY: by the contract above.
    unsafe {
        arguments::keep(request, info, || {
            arguments::bcast(buffer, count, datatype, root, comm)
        })
    }
}

/// MPI_Gather_init, MPI_Gather_init_c.
///
/// # Safety
/// As [`mpi_gather`](super::collective::mpi_gather), whenever the request is active; `request` is
/// null or writable.
#[allow(clippy::too_many_arguments)] // MPI's signature
pub unsafe fn mpi_gather_init(
    sendbuf: *const c_void,
    sendcount: MPI_Count,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: MPI_Count,
    recvtype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
    info: MPI_Info,
    request: *mut MPI_Request,
) -> Result<()> {
    // SAFETY: by the contract above.
    unsafe {
        arguments::keep(request, info, || {
            arguments::gather(
                sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, root, comm,
            )
        })
    }
}

/// MPI_Gatherv_init, MPI_Gatherv_init_c.
///
/// # Safety
/// As [`mpi_gatherv`](super::collective::mpi_gatherv), whenever the request is active; `request`
/// is null or writable.
#[allow(clippy::too_many_arguments)] // MPI's signature
pub unsafe fn mpi_gatherv_init(
    sendbuf: *const c_void,
    sendcount: MPI_Count,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcounts: PolyArray,
    displs: PolyArray,
    recvtype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
    info: MPI_Info,
    request: *mut MPI_Request,
) -> Result<()> {
    // SAFETY: by the contract above.
    unsafe {
        arguments::keep(request, info, || {
            arguments::gatherv(
                sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs, recvtype, root, comm,
            )
        })
    }
}

/// MPI_Scatter_init, MPI_Scatter_init_c.
///
/// # Safety
/// As [`mpi_scatter`](super::collective::mpi_scatter), whenever the request is active; `request`
/// is null or writable.
#[allow(clippy::too_many_arguments)] // MPI's signature
pub unsafe fn mpi_scatter_init(
    sendbuf: *const c_void,
    sendcount: MPI_Count,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: MPI_Count,
    recvtype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
    info: MPI_Info,
    request: *mut MPI_Request,
) -> Result<()> {
    // SAFETY: by the contract above.
    unsafe {
        arguments::keep(request, info, || {
            arguments::scatter(
                sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, root, comm,
            )
        })
    }
}

/// MPI_Scatterv_init, MPI_Scatterv_init_c.
///
/// # Safety
/// As [`mpi_scatterv`](super::collective::mpi_scatterv), whenever the request is active; `request`
/// is null or writable.
#[allow(clippy::too_many_arguments)] // MPI's signature
pub unsafe fn mpi_scatterv_init(
    sendbuf: *const c_void,
    sendcounts: PolyArray,
    displs: PolyArray,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: MPI_Count,
    recvtype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
    info: MPI_Info,
    request: *mut MPI_Request,
) -> Result<()> {
    // SAFETY: by the contract above.
    unsafe {
        arguments::keep(request, info, || {
            arguments::scatterv(
                sendbuf, sendcounts, displs, sendtype, recvbuf, recvcount, recvtype, root, comm,
            )
        })
    }
}

/// MPI_Allgather_init, MPI_Allgather_init_c.
///
/// # Safety
/// As [`mpi_allgather`](super::collective::mpi_allgather), whenever the request is active;
/// `request` is null or writable.
#[allow(clippy::too_many_arguments)] // MPI's signature
pub unsafe fn mpi_allgather_init(
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
            arguments::allgather(
                sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm,
            )
        })
    }
}

/// MPI_Allgatherv_init, MPI_Allgatherv_init_c.
///
/// # Safety
/// As [`mpi_allgatherv`](super::collective::mpi_allgatherv), whenever the request is active;
/// `request` is null or writable.
#[allow(clippy::too_many_arguments)] // MPI's signature
pub unsafe fn mpi_allgatherv_init(
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
            arguments::allgatherv(
                sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs, recvtype, comm,
            )
        })
    }
}

/// MPI_Alltoall_init, MPI_Alltoall_init_c.
///
/// # Safety
/// As [`mpi_alltoall`](super::collective::mpi_alltoall), whenever the request is active; `request`
/// is null or writable.
#[allow(clippy::too_many_arguments)] // MPI's signature
pub unsafe fn mpi_alltoall_init(
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
            arguments::alltoall(
                sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm,
            )
        })
    }
}

/// MPI_Alltoallv_init, MPI_Alltoallv_init_c.
///
/// # Safety
/// As [`mpi_alltoallv`](super::collective::mpi_alltoallv), whenever the request is active;
/// `request` is null or writable.
#[allow(clippy::too_many_arguments)] // MPI's signature
pub unsafe fn mpi_alltoallv_init(
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
            arguments::alltoallv(
                sendbuf, sendcounts, sdispls, sendtype, recvbuf, recvcounts, rdispls, recvtype,
                comm,
            )
        })
    }
}

/// MPI_Alltoallw_init, MPI_Alltoallw_init_c.
///
/// # Safety
/// As [`mpi_alltoallw`](super::collective::mpi_alltoallw), whenever the request is active;
/// `request` is null or writable.
#[allow(clippy::too_many_arguments)] // MPI's signature
pub unsafe fn mpi_alltoallw_init(
    sendbuf: *const c_void,
    sendcounts: PolyArray,
    sdispls: PolyArray,
    sendtypes: *const MPI_Datatype,
    recvbuf: *mut c_void,
    recvcounts: PolyArray,
    rdispls: PolyArray,
    recvtypes: *const MPI_Datatype,
    comm: MPI_Comm,
    info: MPI_Info,
    request: *mut MPI_Request,
) -> Result<()> {
    // SAFETY: by the contract above.
    unsafe {
        arguments::keep(request, info, || {
            arguments::alltoallw(
                sendbuf, sendcounts, sdispls, sendtypes, recvbuf, recvcounts, rdispls, recvtypes,
                comm,
            )
        })
    }
}

/// MPI_Reduce_init, MPI_Reduce_init_c.
///
/// # Safety
/// As [`mpi_reduce`](super::collective::mpi_reduce), whenever the request is active; `request` is
/// null or writable.
#[allow(clippy::too_many_arguments)] // MPI's signature
pub unsafe fn mpi_reduce_init(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    op: MPI_Op,
    root: c_int,
    comm: MPI_Comm,
    info: MPI_Info,
    request: *mut MPI_Request,
) -> Result<()> {
    // SAFETY: by the contract above.
    unsafe {
        arguments::keep(request, info, || {
            arguments::reduce(sendbuf, recvbuf, count, datatype, op, root, comm)
        })
    }
}

/// MPI_Allreduce_init, MPI_Allreduce_init_c.
///
/// # Safety
/// As [`mpi_allreduce`](super::collective::mpi_allreduce), whenever the request is active;
/// `request` is null or writable.
#[allow(clippy::too_many_arguments)] // MPI's signature
pub unsafe fn mpi_allreduce_init(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
    info: MPI_Info,
    request: *mut MPI_Request,
) -> Result<()> {
    // SAFETY: by the contract above.
    unsafe {
        arguments::keep(request, info, || {
            arguments::allreduce(sendbuf, recvbuf, count, datatype, op, comm)
        })
    }
}

/// MPI_Reduce_scatter_init, MPI_Reduce_scatter_init_c.
///
/// # Safety
/// As [`mpi_reduce_scatter`](super::collective::mpi_reduce_scatter), whenever the request is
/// active; `request` is null or writable.
#[allow(clippy::too_many_arguments)] // MPI's signature
pub unsafe fn mpi_reduce_scatter_init(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    recvcounts: PolyArray,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
    info: MPI_Info,
    request: *mut MPI_Request,
) -> Result<()> {
    // SAFETY: by the contract above.
    unsafe {
        arguments::keep(request, info, || {
            arguments::reduce_scatter(sendbuf, recvbuf, recvcounts, datatype, op, comm)
        })
    }
}

/// MPI_Reduce_scatter_block_init, MPI_Reduce_scatter_block_init_c.
///
/// # Safety
/// As [`mpi_reduce_scatter_block`](super::collective::mpi_reduce_scatter_block), whenever the
/// request is active; `request` is null or writable.
#[allow(clippy::too_many_arguments)] // MPI's signature
pub unsafe fn mpi_reduce_scatter_block_init(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    recvcount: MPI_Count,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
    info: MPI_Info,
    request: *mut MPI_Request,
) -> Result<()> {
    // SAFETY: by the contract above.
    unsafe {
        arguments::keep(request, info, || {
            arguments::reduce_scatter_block(sendbuf, recvbuf, recvcount, datatype, op, comm)
        })
    }
}

/// MPI_Scan_init, MPI_Scan_init_c.
///
/// # Safety
/// As [`mpi_scan`](super::collective::mpi_scan), whenever the request is active; `request` is null
/// or writable.
#[allow(clippy::too_many_arguments)] // MPI's signature
pub unsafe fn mpi_scan_init(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
    info: MPI_Info,
    request: *mut MPI_Request,
) -> Result<()> {
    // SAFETY: by the contract above.
    unsafe {
        arguments::keep(request, info, || {
            arguments::scan(sendbuf, recvbuf, count, datatype, op, comm)
        })
    }
}

/// MPI_Exscan_init, MPI_Exscan_init_c.
///
/// # Safety
/// As [`mpi_exscan`](super::collective::mpi_exscan), whenever the request is active; `request` is
/// null or writable.
#[allow(clippy::too_many_arguments)] // MPI's signature
pub unsafe fn mpi_exscan_init(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
    info: MPI_Info,
    request: *mut MPI_Request,
) -> Result<()> {
    // SAFETY: by the contract above.
    unsafe {
        arguments::keep(request, info, || {
            arguments::exscan(sendbuf, recvbuf, count, datatype, op, comm)
        })
    }
}
