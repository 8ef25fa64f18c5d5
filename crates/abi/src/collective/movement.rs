//! Arguments of the collectives that move data, and of the barrier (MPI 5.0, 6.3 to 6.8).
#![allow(
    clippy::too_many_arguments,
    reason = "the argument lists are MPI's own"
)]

use std::ffi::{c_int, c_void};

use mica_mpi::Result;
use mica_mpi::collective::{self, Function};
use mica_mpi::comm::Comm;
use mica_mpi::constants::BYTE;

use super::{
    Call, at_root, blocks, buffer, or_none, plain, required, takes_part, typed_blocks, whole,
};
use crate::poly::PolyArray;
use crate::types::{MPI_Comm, MPI_Count, MPI_Datatype};

/// The arguments of MPI_Barrier.
pub fn barrier(comm: MPI_Comm) -> Result<Call> {
    let comm = Comm::resolve(comm.raw())?;
    let plan = collective::barrier(&comm)?;
    Ok(Call {
        comm,
        plan,
        function: Function::Barrier,
    })
}

/// The arguments of MPI_Bcast.
///
/// # Safety
/// `buffer` is readable (at the root) or writable (elsewhere) for `count` elements of `datatype`.
pub unsafe fn bcast(
    buffer: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
) -> Result<Call> {
    let comm = Comm::resolve(comm.raw())?;
    let (buffer, count, datatype) = if at_root(&comm, root) || takes_part(&comm, root) {
        (buffer.cast_const(), count, datatype)
    } else {
        (std::ptr::null(), 0, MPI_Datatype::from_raw(BYTE))
    };
    let datatype = or_none(datatype, count);
    // SAFETY: by the contract above; nothing is at the null address.
    let buffer = unsafe { whole(buffer, "count", count, datatype, 1)? };
    let plan = collective::bcast(&comm, &buffer, root)?;
    Ok(Call {
        comm,
        plan,
        function: Function::Bcast,
    })
}

/// The arguments of MPI_Gather.
///
/// # Safety
/// `sendbuf` is readable and, at the root, `recvbuf` writable as counts and types say.
pub unsafe fn gather(
    sendbuf: *const c_void,
    sendcount: MPI_Count,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: MPI_Count,
    recvtype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
) -> Result<Call> {
    let comm = Comm::resolve(comm.raw())?;
    let send = if takes_part(&comm, root) {
        // SAFETY: by the contract above.
        unsafe { buffer(sendbuf, "sendcount", sendcount, sendtype, 1)? }
    } else {
        None
    };
    let receive = if at_root(&comm, root) {
        // SAFETY: by the contract above.
        Some(unsafe {
            whole(
                recvbuf,
                "recvcount",
                recvcount,
                recvtype,
                comm.remote_or_local_size(),
            )?
        })
    } else {
        None
    };
    let plan = collective::gather(&comm, send.as_ref(), receive.as_ref(), root)?;
    Ok(Call {
        comm,
        plan,
        function: Function::Gather,
    })
}

/// The arguments of MPI_Gatherv.
///
/// # Safety
/// `sendbuf` is readable and, at the root, the blocks of `recvbuf` are writable as counts,
/// displacements and types say; at the root the arrays have one element for each rank.
pub unsafe fn gatherv(
    sendbuf: *const c_void,
    sendcount: MPI_Count,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcounts: PolyArray,
    displs: PolyArray,
    recvtype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
) -> Result<Call> {
    let comm = Comm::resolve(comm.raw())?;
    let send = if takes_part(&comm, root) {
        // SAFETY: by the contract above.
        unsafe { buffer(sendbuf, "sendcount", sendcount, sendtype, 1)? }
    } else {
        None
    };
    let receive = if at_root(&comm, root) {
        // SAFETY: by the contract above.
        let list = unsafe {
            blocks(
                recvbuf,
                "recvcounts",
                recvcounts,
                displs,
                recvtype,
                comm.remote_or_local_size(),
            )?
        };
        Some(required(list)?)
    } else {
        None
    };
    let plan = collective::gatherv(&comm, send.as_ref(), receive, root)?;
    Ok(Call {
        comm,
        plan,
        function: Function::Gatherv,
    })
}

/// The arguments of MPI_Scatter.
///
/// # Safety
/// `recvbuf` is writable and, at the root, `sendbuf` readable as counts and types say.
pub unsafe fn scatter(
    sendbuf: *const c_void,
    sendcount: MPI_Count,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: MPI_Count,
    recvtype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
) -> Result<Call> {
    let comm = Comm::resolve(comm.raw())?;
    let send = if at_root(&comm, root) {
        // SAFETY: by the contract above.
        Some(unsafe {
            whole(
                sendbuf,
                "sendcount",
                sendcount,
                sendtype,
                comm.remote_or_local_size(),
            )?
        })
    } else {
        None
    };
    let receive = if takes_part(&comm, root) {
        // SAFETY: by the contract above.
        unsafe { buffer(recvbuf, "recvcount", recvcount, recvtype, 1)? }
    } else {
        None
    };
    let plan = collective::scatter(&comm, send.as_ref(), receive.as_ref(), root)?;
    Ok(Call {
        comm,
        plan,
        function: Function::Scatter,
    })
}

/// The arguments of MPI_Scatterv.
///
/// # Safety
/// `recvbuf` is writable and, at the root, the blocks of `sendbuf` are readable as counts,
/// displacements and types say; at the root the arrays have one element for each rank.
pub unsafe fn scatterv(
    sendbuf: *const c_void,
    sendcounts: PolyArray,
    displs: PolyArray,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: MPI_Count,
    recvtype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
) -> Result<Call> {
    let comm = Comm::resolve(comm.raw())?;
    let send = if at_root(&comm, root) {
        // SAFETY: by the contract above.
        unsafe {
            blocks(
                plain(sendbuf)?,
                "sendcounts",
                sendcounts,
                displs,
                sendtype,
                comm.remote_or_local_size(),
            )?
        }
    } else {
        None
    };
    let receive = if takes_part(&comm, root) {
        // SAFETY: by the contract above.
        unsafe { buffer(recvbuf, "recvcount", recvcount, recvtype, 1)? }
    } else {
        None
    };
    let plan = collective::scatterv(&comm, send, receive.as_ref(), root)?;
    Ok(Call {
        comm,
        plan,
        function: Function::Scatterv,
    })
}

/// The arguments of MPI_Allgather.
///
/// # Safety
/// `sendbuf` is readable and `recvbuf` writable as counts and types say.
pub unsafe fn allgather(
    sendbuf: *const c_void,
    sendcount: MPI_Count,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: MPI_Count,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
) -> Result<Call> {
    let comm = Comm::resolve(comm.raw())?;
    // SAFETY: by the contract above.
    let (send, receive) = unsafe {
        (
            buffer(sendbuf, "sendcount", sendcount, sendtype, 1)?,
            whole(
                recvbuf,
                "recvcount",
                recvcount,
                recvtype,
                comm.remote_or_local_size(),
            )?,
        )
    };
    let plan = collective::allgather(&comm, send.as_ref(), &receive)?;
    Ok(Call {
        comm,
        plan,
        function: Function::Allgather,
    })
}

/// The arguments of MPI_Allgatherv.
///
/// # Safety
/// `sendbuf` is readable and the blocks of `recvbuf` are writable as counts, displacements and
/// types say; the arrays have one element for each rank.
pub unsafe fn allgatherv(
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
    // SAFETY: by the contract above.
    let (send, receive) = unsafe {
        (
            buffer(sendbuf, "sendcount", sendcount, sendtype, 1)?,
            blocks(
                recvbuf,
                "recvcounts",
                recvcounts,
                displs,
                recvtype,
                comm.remote_or_local_size(),
            )?,
        )
    };
    let plan = collective::allgatherv(&comm, send.as_ref(), required(receive)?)?;
    Ok(Call {
        comm,
        plan,
        function: Function::Allgatherv,
    })
}

/// The arguments of MPI_Alltoall.
///
/// # Safety
/// `sendbuf` is readable and `recvbuf` writable as counts and types say.
pub unsafe fn alltoall(
    sendbuf: *const c_void,
    sendcount: MPI_Count,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: MPI_Count,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
) -> Result<Call> {
    let comm = Comm::resolve(comm.raw())?;
    // SAFETY: by the contract above.
    let (send, receive) = unsafe {
        (
            buffer(
                sendbuf,
                "sendcount",
                sendcount,
                sendtype,
                comm.remote_or_local_size(),
            )?,
            whole(
                recvbuf,
                "recvcount",
                recvcount,
                recvtype,
                comm.remote_or_local_size(),
            )?,
        )
    };
    let plan = collective::alltoall(&comm, send.as_ref(), &receive)?;
    Ok(Call {
        comm,
        plan,
        function: Function::Alltoall,
    })
}

/// The arguments of MPI_Alltoallv.
///
/// # Safety
/// The blocks of `sendbuf` are readable and those of `recvbuf` writable as counts, displacements
/// and types say; the arrays have one element for each rank.
pub unsafe fn alltoallv(
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
    // SAFETY: by the contract above.
    let (send, receive) = unsafe {
        (
            blocks(
                sendbuf,
                "sendcounts",
                sendcounts,
                sdispls,
                sendtype,
                comm.remote_or_local_size(),
            )?,
            blocks(
                recvbuf,
                "recvcounts",
                recvcounts,
                rdispls,
                recvtype,
                comm.remote_or_local_size(),
            )?,
        )
    };
    let plan = collective::alltoallv(&comm, send, required(receive)?)?;
    Ok(Call {
        comm,
        plan,
        function: Function::Alltoallv,
    })
}

/// The arguments of MPI_Alltoallw.
///
/// # Safety
/// As [`alltoallv`], with displacements in bytes and a type for each block.
pub unsafe fn alltoallw(
    sendbuf: *const c_void,
    sendcounts: PolyArray,
    sdispls: PolyArray,
    sendtypes: *const MPI_Datatype,
    recvbuf: *mut c_void,
    recvcounts: PolyArray,
    rdispls: PolyArray,
    recvtypes: *const MPI_Datatype,
    comm: MPI_Comm,
) -> Result<Call> {
    let comm = Comm::resolve(comm.raw())?;
    // SAFETY: by the contract above.
    let (send, receive) = unsafe {
        (
            typed_blocks(
                sendbuf,
                "sendcounts",
                sendcounts,
                sdispls,
                sendtypes,
                comm.remote_or_local_size(),
            )?,
            typed_blocks(
                recvbuf,
                "recvcounts",
                recvcounts,
                rdispls,
                recvtypes,
                comm.remote_or_local_size(),
            )?,
        )
    };
    let plan = collective::alltoallv(&comm, send, required(receive)?)?;
    Ok(Call {
        comm,
        plan,
        function: Function::Alltoallw,
    })
}
