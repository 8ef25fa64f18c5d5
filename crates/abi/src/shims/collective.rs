//! Blocking collective communication (MPI 5.0, 6.1 to 6.11).

use std::ffi::{c_int, c_void};

use mica_mpi::Result;

use crate::collective as arguments;
use crate::poly::PolyArray;
use crate::types::{MPI_Comm, MPI_Count, MPI_Datatype, MPI_Op};

/// MPI_Barrier.
pub fn mpi_barrier(comm: MPI_Comm) -> Result<()> {
    if let Some(result) = arguments::fast_path::barrier(comm) {
        return result;
    }
    arguments::barrier(comm)?.run()
}

/// MPI_Bcast, MPI_Bcast_c.
///
/// # Safety
/// `buffer` is readable (at the root) or writable (elsewhere) for `count` elements of `datatype`.
pub unsafe fn mpi_bcast(
    buffer: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
) -> Result<()> {
    // SAFETY: by the contract above.
    let fast = unsafe { arguments::fast_path::bcast(buffer, count, datatype, root, comm) };
    if let Some(result) = fast {
        return result;
    }
    // SAFETY: by the contract above.
    unsafe { arguments::bcast(buffer, count, datatype, root, comm)?.run() }
}

/// MPI_Gather, MPI_Gather_c.
///
/// # Safety
/// `sendbuf` is readable and, at the root, `recvbuf` writable as counts and types say.
#[allow(clippy::too_many_arguments)] // MPI's signature
pub unsafe fn mpi_gather(
    sendbuf: *const c_void,
    sendcount: MPI_Count,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: MPI_Count,
    recvtype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
) -> Result<()> {
    // SAFETY: by the contract above.
    let fast = unsafe {
        arguments::fast_path::gather(
            sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, root, comm,
        )
    };
    if let Some(result) = fast {
        return result;
    }
    // SAFETY: by the contract above.
    unsafe {
        arguments::gather(
            sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, root, comm,
        )?
        .run()
    }
}

/// MPI_Gatherv, MPI_Gatherv_c.
///
/// # Safety
/// `sendbuf` is readable and, at the root, the blocks of `recvbuf` are writable as counts,
/// displacements and types say; at the root the arrays have one element for each rank.
#[allow(clippy::too_many_arguments)] // MPI's signature
pub unsafe fn mpi_gatherv(
    sendbuf: *const c_void,
    sendcount: MPI_Count,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcounts: PolyArray,
    displs: PolyArray,
    recvtype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
) -> Result<()> {
    // SAFETY: by the contract above.
    unsafe {
        arguments::gatherv(
            sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs, recvtype, root, comm,
        )?
        .run()
    }
}

/// MPI_Scatter, MPI_Scatter_c.
///
/// # Safety
/// `recvbuf` is writable and, at the root, `sendbuf` readable as counts and types say.
#[allow(clippy::too_many_arguments)] // MPI's signature
pub unsafe fn mpi_scatter(
    sendbuf: *const c_void,
    sendcount: MPI_Count,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: MPI_Count,
    recvtype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
) -> Result<()> {
    // SAFETY: by the contract above.
    let fast = unsafe {
        arguments::fast_path::scatter(
            sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, root, comm,
        )
    };
    if let Some(result) = fast {
        return result;
    }
    // SAFETY: by the contract above.
    unsafe {
        arguments::scatter(
            sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, root, comm,
        )?
        .run()
    }
}

/// MPI_Scatterv, MPI_Scatterv_c.
///
/// # Safety
/// `recvbuf` is writable and, at the root, the blocks of `sendbuf` are readable as counts,
/// displacements and types say; at the root the arrays have one element for each rank.
#[allow(clippy::too_many_arguments)] // MPI's signature
pub unsafe fn mpi_scatterv(
    sendbuf: *const c_void,
    sendcounts: PolyArray,
    displs: PolyArray,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: MPI_Count,
    recvtype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
) -> Result<()> {
    // SAFETY: by the contract above.
    unsafe {
        arguments::scatterv(
            sendbuf, sendcounts, displs, sendtype, recvbuf, recvcount, recvtype, root, comm,
        )?
        .run()
    }
}

/// MPI_Allgather, MPI_Allgather_c.
///
/// # Safety
/// `sendbuf` is readable and `recvbuf` writable as counts and types say.
pub unsafe fn mpi_allgather(
    sendbuf: *const c_void,
    sendcount: MPI_Count,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: MPI_Count,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
) -> Result<()> {
    // SAFETY: by the contract above.
    let fast = unsafe {
        arguments::fast_path::allgather(
            sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm,
        )
    };
    if let Some(result) = fast {
        return result;
    }
    // SAFETY: by the contract above.
    unsafe {
        arguments::allgather(
            sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm,
        )?
        .run()
    }
}

/// MPI_Allgatherv, MPI_Allgatherv_c.
///
/// # Safety
/// `sendbuf` is readable and the blocks of `recvbuf` are writable as counts, displacements and
/// types say; the arrays have one element for each rank.
#[allow(clippy::too_many_arguments)] // MPI's signature
pub unsafe fn mpi_allgatherv(
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
        arguments::allgatherv(
            sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs, recvtype, comm,
        )?
        .run()
    }
}

/// MPI_Alltoall, MPI_Alltoall_c.
///
/// # Safety
/// `sendbuf` is readable and `recvbuf` writable as counts and types say.
pub unsafe fn mpi_alltoall(
    sendbuf: *const c_void,
    sendcount: MPI_Count,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: MPI_Count,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
) -> Result<()> {
    // SAFETY: by the contract above.
    let fast = unsafe {
        arguments::fast_path::alltoall(
            sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm,
        )
    };
    if let Some(result) = fast {
        return result;
    }
    // SAFETY: by the contract above.
    unsafe {
        arguments::alltoall(
            sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm,
        )?
        .run()
    }
}

/// MPI_Alltoallv, MPI_Alltoallv_c.
///
/// # Safety
/// The blocks of `sendbuf` are readable and those of `recvbuf` writable as counts, displacements
/// and types say; the arrays have one element for each rank.
#[allow(clippy::too_many_arguments)] // MPI's signature
pub unsafe fn mpi_alltoallv(
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
        arguments::alltoallv(
            sendbuf, sendcounts, sdispls, sendtype, recvbuf, recvcounts, rdispls, recvtype, comm,
        )?
        .run()
    }
}

/// MPI_Alltoallw, MPI_Alltoallw_c.
///
/// # Safety
/// As [`mpi_alltoallv`], with displacements in bytes and a type for each block.
#[allow(clippy::too_many_arguments)] // MPI's signature
pub unsafe fn mpi_alltoallw(
    sendbuf: *const c_void,
    sendcounts: PolyArray,
    sdispls: PolyArray,
    sendtypes: *const MPI_Datatype,
    recvbuf: *mut c_void,
    recvcounts: PolyArray,
    rdispls: PolyArray,
    recvtypes: *const MPI_Datatype,
    comm: MPI_Comm,
) -> Result<()> {
    // SAFETY: by the contract above.
    unsafe {
        arguments::alltoallw(
            sendbuf, sendcounts, sdispls, sendtypes, recvbuf, recvcounts, rdispls, recvtypes, comm,
        )?
        .run()
    }
}

/// MPI_Reduce, MPI_Reduce_c.
///
/// # Safety
/// `sendbuf` is readable and, at the root, `recvbuf` writable for `count` elements of `datatype`.
pub unsafe fn mpi_reduce(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    op: MPI_Op,
    root: c_int,
    comm: MPI_Comm,
) -> Result<()> {
    // SAFETY: by the contract above.
    let fast =
        unsafe { arguments::fast_path::reduce(sendbuf, recvbuf, count, datatype, op, root, comm) };
    if let Some(result) = fast {
        return result;
    }
    // SAFETY: by the contract above.
    unsafe { arguments::reduce(sendbuf, recvbuf, count, datatype, op, root, comm)?.run() }
}

/// MPI_Allreduce, MPI_Allreduce_c.
///
/// # Safety
/// `sendbuf` is readable and `recvbuf` writable for `count` elements of `datatype`.
pub unsafe fn mpi_allreduce(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
) -> Result<()> {
    // SAFETY: by the contract above.
    let fast =
        unsafe { arguments::fast_path::allreduce(sendbuf, recvbuf, count, datatype, op, comm) };
    if let Some(result) = fast {
        return result;
    }
    // SAFETY: by the contract above.
    unsafe { arguments::allreduce(sendbuf, recvbuf, count, datatype, op, comm)?.run() }
}

/// MPI_Reduce_scatter, MPI_Reduce_scatter_c.
///
/// # Safety
/// `recvcounts` has one element for each rank; `sendbuf` is readable for the sum of them, `recvbuf`
/// writable for this rank's (in place: for the sum).
pub unsafe fn mpi_reduce_scatter(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    recvcounts: PolyArray,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
) -> Result<()> {
    // SAFETY: by the contract above.
    let fast = unsafe {
        arguments::fast_path::reduce_scatter(sendbuf, recvbuf, recvcounts, datatype, op, comm)
    };
    if let Some(result) = fast {
        return result;
    }
    // SAFETY: by the contract above.
    unsafe { arguments::reduce_scatter(sendbuf, recvbuf, recvcounts, datatype, op, comm)?.run() }
}

/// MPI_Reduce_scatter_block, MPI_Reduce_scatter_block_c.
///
/// # Safety
/// `sendbuf` is readable for `recvcount` elements for each rank, `recvbuf` writable for `recvcount`
/// (in place: for all).
pub unsafe fn mpi_reduce_scatter_block(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    recvcount: MPI_Count,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
) -> Result<()> {
    // SAFETY: by the contract above.
    let fast = unsafe {
        arguments::fast_path::reduce_scatter_block(sendbuf, recvbuf, recvcount, datatype, op, comm)
    };
    if let Some(result) = fast {
        return result;
    }
    // SAFETY: by the contract above.
    unsafe {
        arguments::reduce_scatter_block(sendbuf, recvbuf, recvcount, datatype, op, comm)?.run()
    }
}

/// MPI_Scan, MPI_Scan_c.
///
/// # Safety
/// As [`mpi_allreduce`].
pub unsafe fn mpi_scan(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
) -> Result<()> {
    // SAFETY: by the contract above.
    let fast = unsafe { arguments::fast_path::scan(sendbuf, recvbuf, count, datatype, op, comm) };
    if let Some(result) = fast {
        return result;
    }
    // SAFETY: by the contract above.
    unsafe { arguments::scan(sendbuf, recvbuf, count, datatype, op, comm)?.run() }
}

/// MPI_Exscan, MPI_Exscan_c.
///
/// # Safety
/// As [`mpi_allreduce`].
pub unsafe fn mpi_exscan(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
) -> Result<()> {
    // SAFETY: by the contract above.
    unsafe { arguments::exscan(sendbuf, recvbuf, count, datatype, op, comm)?.run() }
}
