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
    let message = part(buffer, count, datatype)?;
    let root = usize::try_from(root).ok()?;
    // SAFETY: by the contract above.
    let region = unsafe { message.times(1) };
    let run = |comm: &Comm| lane::bcast(comm, &region, message.bytes, root);
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
    let send = part(sendbuf, count, datatype)?;
    let receive = alike(&send, part(recvbuf, count, datatype)?)?;
    let kernel = Op::kernel_of(op.raw(), datatype.raw())?;
    let bytes = send.bytes;
    // SAFETY: by the contract above.
    let (send, receive) = unsafe { (send.times(1), receive.times(1)) };
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
    let mine = part(sendbuf, count, datatype)?;
    let kernel = Op::kernel_of(op.raw(), datatype.raw())?;
    // SAFETY: by the contract above.
    let send = unsafe { mine.times(1) };
    let run = |comm: &Comm| {
        let receive = at_root(comm, root, &mine, || part(recvbuf, count, datatype))?;
        // SAFETY: by the contract above.
        let receive = receive.map(|all| unsafe { all.times(1) });
        lane::reduce(
            comm,
            &send,
            receive.as_ref(),
            mine.bytes,
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
    let mine = part(sendbuf, sendcount, sendtype)?;
    // SAFETY: by the contract above.
    let send = unsafe { mine.times(1) };
    let run = |comm: &Comm| {
        let receive = at_root(comm, root, &mine, || part(recvbuf, recvcount, recvtype))?;
        // SAFETY: by the contract above.
        let receive = receive.map(|all| unsafe { all.times(comm.size()) });
        if let Some(receive) = &receive
            && !are_apart(&send, mine.bytes, receive, mine.bytes * comm.size())
        {
            return None;
        }
        lane::gather(comm, &send, receive.as_ref(), mine.bytes, root as usize)
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
    let mine = part(recvbuf, recvcount, recvtype)?;
    // SAFETY: by the contract above.
    let receive = unsafe { mine.times(1) };
    let run = |comm: &Comm| {
        let send = at_root(comm, root, &mine, || part(sendbuf, sendcount, sendtype))?;
        // SAFETY: by the contract above.
        let send = send.map(|all| unsafe { all.times(comm.size()) });
        if let Some(send) = &send
            && !are_apart(&receive, mine.bytes, send, mine.bytes * comm.size())
        {
            return None;
        }
        lane::scatter(comm, send.as_ref(), &receive, mine.bytes, root as usize)
    };
    comm::with(comm.raw(), run).ok().flatten()
}

/// The buffer that counts at the root only: `Some(None)` at other ranks; `None` if it is not as usual, beside `mine`.
#[inline(always)]
fn at_root(
    comm: &Comm,
    root: c_int,
    mine: &Dense,
    given: impl FnOnce() -> Option<Dense>,
) -> Option<Option<Dense>> {
    let root = usize::try_from(root).ok()?;
    if root != comm.rank() {
        return Some(None);
    }
    alike(mine, given()?).map(Some)
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
    let send = part(sendbuf, sendcount, sendtype)?;
    let receive = alike(&send, part(recvbuf, recvcount, recvtype)?)?;
    let bytes = send.bytes;
    let run = |comm: &Comm| {
        // SAFETY: by the contract above.
        let (send, receive) = unsafe { (send.times(1), receive.times(comm.size())) };
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
    let send = part(sendbuf, sendcount, sendtype)?;
    let receive = alike(&send, part(recvbuf, recvcount, recvtype)?)?;
    let bytes = send.bytes;
    let run = |comm: &Comm| {
        // SAFETY: by the contract above.
        let (send, receive) = unsafe { (send.times(comm.size()), receive.times(comm.size())) };
        let all = bytes * comm.size();
        let apart = are_apart(&send, all, &receive, all);
        apart.then(|| lane::alltoall(comm, &send, &receive, bytes))?
    };
    comm::with(comm.raw(), run).ok().flatten()
}

/// The second of two buffers, if their parts are equally long and the first parts share no byte.
#[inline(always)]
fn alike(mine: &Dense, other: Dense) -> Option<Dense> {
    let (mine_at, other_at) = (mine.address.addr(), other.address.addr());
    let usual = mine.bytes == other.bytes
        && other_at.wrapping_sub(mine_at) >= mine.bytes
        && mine_at.wrapping_sub(other_at) >= mine.bytes;
    usual.then_some(other)
}

/// Whether these numbers of bytes of the two buffers are apart. Those that share some take the usual way,
/// which looks more closely.
#[inline(always)]
fn are_apart(a: &Region, bytes_of_a: usize, b: &Region, bytes_of_b: usize) -> bool {
    let (a_at, b_at) = (a.address(), b.address());
    b_at.wrapping_sub(a_at) >= bytes_of_a && a_at.wrapping_sub(b_at) >= bytes_of_b
}

/// A buffer of elements without gaps.
struct Dense {
    address: *const c_void,
    /// Of one part: one rank's share.
    bytes: usize,
}

impl Dense {
    /// The memory of so many parts.
    ///
    /// # Safety
    /// As [`Region::user`], for these.
    #[inline(always)]
    unsafe fn times(&self, parts: usize) -> Region {
        // SAFETY: by the contract above.
        unsafe { Region::user(self.address, 0..(self.bytes * parts) as isize) }
    }
}

/// The buffer, unless it is `MPI_IN_PLACE` or its elements have gaps.
#[inline(always)]
fn part(buffer: *const c_void, count: MPI_Count, datatype: MPI_Datatype) -> Option<Dense> {
    if buffer.addr() == IN_PLACE {
        return None;
    }
    let bytes = dense_bytes(datatype.raw(), buffer.addr(), count)?;
    Some(Dense {
        address: buffer,
        bytes,
    })
}
