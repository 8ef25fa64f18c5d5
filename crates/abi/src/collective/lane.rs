//! The short way of the hottest calls: arguments that are as usual go straight to [`mica_mpi::collective::node::lane`]. Everything
//! else, mistakes among it, is `None` and takes the long way, which says what is wrong.

use std::ffi::{c_int, c_void};

use mica_mpi::Result;
use mica_mpi::collective::node::lane;
use mica_mpi::comm::{self, Comm};
use mica_mpi::constants::IN_PLACE;
use mica_mpi::datatype::{Region, dense_bytes};
use mica_mpi::op::Op;
use mica_mpi::op::kernel::Kernel;

use crate::types::{MPI_Comm, MPI_Count, MPI_Datatype, MPI_Op};

/// MPI_Barrier.
#[inline]
pub fn barrier(comm: MPI_Comm) -> Option<Result<()>> {
    comm::with(comm.raw(), lane::barrier).ok().flatten()
}

/// MPI_Bcast of elements without gaps.
///
/// # Safety
/// `buffer` is readable (at the root) or writable (elsewhere) for `count` elements of `datatype`.
#[inline]
pub unsafe fn bcast(
    buffer: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
) -> Option<Result<()>> {
    // SAFETY: by the contract above.
    let (region, bytes) = unsafe { part(buffer, count, datatype)? };
    let root = usize::try_from(root).ok()?;
    let run = |comm: &Comm| lane::bcast(comm, &region, bytes, root);
    comm::with(comm.raw(), run).ok().flatten()
}

/// MPI_Allreduce of elements without gaps by a predefined operator, not in place.
///
/// # Safety
/// `sendbuf` is readable and `recvbuf` writable for `count` elements of `datatype`.
#[inline]
pub unsafe fn allreduce(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
) -> Option<Result<()>> {
    // SAFETY: by the contract above.
    unsafe { vector(lane::allreduce, sendbuf, recvbuf, count, datatype, op, comm) }
}

/// MPI_Scan of elements without gaps by a predefined operator, not in place.
///
/// # Safety
/// As [`allreduce`].
#[inline]
pub unsafe fn scan(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
) -> Option<Result<()>> {
    // SAFETY: by the contract above.
    unsafe { vector(lane::scan, sendbuf, recvbuf, count, datatype, op, comm) }
}

/// A reduction whose arguments are those of MPI_Allreduce.
///
/// # Safety
/// As [`allreduce`].
#[inline(always)]
unsafe fn vector(
    reduce: impl Fn(&Comm, &Region, &Region, usize, Kernel) -> Option<Result<()>>,
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
) -> Option<Result<()>> {
    // SAFETY: by the contract above.
    let (send, receive, bytes) = unsafe {
        alike(
            part(sendbuf, count, datatype)?,
            part(recvbuf, count, datatype)?,
        )?
    };
    let kernel = Op::kernel_of(op.raw(), datatype.raw())?;
    let run = |comm: &Comm| reduce(comm, &send, &receive, bytes, kernel);
    comm::with(comm.raw(), run).ok().flatten()
}

/// MPI_Reduce of elements without gaps by a predefined operator, not in place.
///
/// # Safety
/// `sendbuf` is readable and, at the root, `recvbuf` writable for `count` elements of `datatype`.
#[inline]
pub unsafe fn reduce(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    op: MPI_Op,
    root: c_int,
    comm: MPI_Comm,
) -> Option<Result<()>> {
    // SAFETY: by the contract above.
    let send = unsafe { part(sendbuf, count, datatype)? };
    let kernel = Op::kernel_of(op.raw(), datatype.raw())?;
    let run = |comm: &Comm| {
        // SAFETY: by the contract above.
        let receive = at_root(comm, root, &send, || unsafe {
            part(recvbuf, count, datatype)
        })?;
        lane::reduce(
            comm,
            &send.0,
            receive.as_ref(),
            send.1,
            kernel,
            root as usize,
        )
    };
    comm::with(comm.raw(), run).ok().flatten()
}

/// MPI_Gather of elements without gaps, not in place.
///
/// # Safety
/// `sendbuf` is readable and, at the root, `recvbuf` writable as counts and types say.
#[inline]
#[expect(clippy::too_many_arguments)] // those of the MPI call
pub unsafe fn gather(
    sendbuf: *const c_void,
    sendcount: MPI_Count,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: MPI_Count,
    recvtype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
) -> Option<Result<()>> {
    // SAFETY: by the contract above.
    let send = unsafe { part(sendbuf, sendcount, sendtype)? };
    let run = |comm: &Comm| {
        // SAFETY: by the contract above.
        let receive = at_root(comm, root, &send, || unsafe {
            part(recvbuf, recvcount, recvtype)
        })?;
        if let Some(receive) = &receive
            && !are_apart(&send.0, send.1, receive, send.1 * comm.size())
        {
            return None;
        }
        lane::gather(comm, &send.0, receive.as_ref(), send.1, root as usize)
    };
    comm::with(comm.raw(), run).ok().flatten()
}

/// MPI_Scatter of elements without gaps, not in place.
///
/// # Safety
/// `recvbuf` is writable and, at the root, `sendbuf` readable as counts and types say.
#[inline]
#[expect(clippy::too_many_arguments)] // those of the MPI call
pub unsafe fn scatter(
    sendbuf: *const c_void,
    sendcount: MPI_Count,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: MPI_Count,
    recvtype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
) -> Option<Result<()>> {
    // SAFETY: by the contract above.
    let receive = unsafe { part(recvbuf, recvcount, recvtype)? };
    let run = |comm: &Comm| {
        // SAFETY: by the contract above.
        let send = at_root(comm, root, &receive, || unsafe {
            part(sendbuf, sendcount, sendtype)
        })?;
        if let Some(send) = &send
            && !are_apart(&receive.0, receive.1, send, receive.1 * comm.size())
        {
            return None;
        }
        lane::scatter(comm, send.as_ref(), &receive.0, receive.1, root as usize)
    };
    comm::with(comm.raw(), run).ok().flatten()
}

/// The buffer that counts at the root only: `Some(None)` at other ranks; `None` if it is not as usual, beside `mine`.
#[inline(always)]
fn at_root(
    comm: &Comm,
    root: c_int,
    mine: &(Region, usize),
    given: impl FnOnce() -> Option<(Region, usize)>,
) -> Option<Option<Region>> {
    let root = usize::try_from(root).ok()?;
    if root != comm.rank() {
        return Some(None);
    }
    let (_, region, _) = alike(mine.clone(), given()?)?;
    Some(Some(region))
}

/// MPI_Allgather of elements without gaps, not in place.
///
/// # Safety
/// `sendbuf` is readable and `recvbuf` writable as counts and types say.
#[inline]
pub unsafe fn allgather(
    sendbuf: *const c_void,
    sendcount: MPI_Count,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: MPI_Count,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
) -> Option<Result<()>> {
    // SAFETY: by the contract above.
    let (send, receive, bytes) = unsafe {
        alike(
            part(sendbuf, sendcount, sendtype)?,
            part(recvbuf, recvcount, recvtype)?,
        )?
    };
    let run = |comm: &Comm| {
        let apart = are_apart(&send, bytes, &receive, bytes * comm.size());
        apart.then(|| lane::allgather(comm, &send, &receive, bytes))?
    };
    comm::with(comm.raw(), run).ok().flatten()
}

/// MPI_Alltoall of elements without gaps, not in place.
///
/// # Safety
/// As [`allgather`].
#[inline]
pub unsafe fn alltoall(
    sendbuf: *const c_void,
    sendcount: MPI_Count,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: MPI_Count,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
) -> Option<Result<()>> {
    // SAFETY: by the contract above.
    let (send, receive, bytes) = unsafe {
        alike(
            part(sendbuf, sendcount, sendtype)?,
            part(recvbuf, recvcount, recvtype)?,
        )?
    };
    let run = |comm: &Comm| {
        let all = bytes * comm.size();
        let apart = are_apart(&send, all, &receive, all);
        apart.then(|| lane::alltoall(comm, &send, &receive, bytes))?
    };
    comm::with(comm.raw(), run).ok().flatten()
}

/// Two buffers, if their parts are as long and the first parts share no byte, and that length.
#[inline]
fn alike(
    (send, sent): (Region, usize),
    (receive, received): (Region, usize),
) -> Option<(Region, Region, usize)> {
    let usual = sent == received && are_apart(&send, sent, &receive, received);
    usual.then_some((send, receive, sent))
}

/// Whether so many bytes of the two buffers are apart. Those that share some take the usual way,
/// which looks more closely.
#[inline(always)]
fn are_apart(a: &Region, bytes_of_a: usize, b: &Region, bytes_of_b: usize) -> bool {
    let (a_at, b_at) = (a.address(), b.address());
    b_at.wrapping_sub(a_at) >= bytes_of_a && a_at.wrapping_sub(b_at) >= bytes_of_b
}

/// A buffer of elements without gaps, and the bytes of one part of it.
///
/// # Safety
/// As [`Region::user`], unless it is `MPI_IN_PLACE`.
#[inline]
unsafe fn part(
    buffer: *const c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
) -> Option<(Region, usize)> {
    if buffer.addr() == IN_PLACE {
        return None;
    }
    // SAFETY: by the contract above.
    let region = unsafe { Region::user(buffer) };
    let bytes = dense_bytes(datatype.raw(), &region, count)?;
    Some((region, bytes))
}
