//! The fast path of the most frequent calls: common arguments go straight to
//! [`mica_mpi::collective::intranode::fast_path`]. Everything else, including mistakes, returns
//! `None` and takes the slow path, which reports errors.

use std::ffi::{c_int, c_void};

use mica_mpi::Result;
use mica_mpi::collective::intranode::fast_path;
use mica_mpi::collective::members::Members;
use mica_mpi::comm::{self, Comm};
use mica_mpi::constants::IN_PLACE;
use mica_mpi::datatype::{Region, dense_bytes};
use mica_mpi::op::Op;
use mica_mpi::op::kernel::Kernel;

use super::buffers::{UserBuffer, UserOperands};
use crate::poly::PolyArray;
use crate::types::{MPI_Comm, MPI_Count, MPI_Datatype, MPI_Op};

/// MPI_Barrier.
#[inline(always)]
pub fn barrier(comm: MPI_Comm) -> Option<Result<()>> {
    comm::with(comm.raw(), |comm| fast_path::barrier(comm)).ok().flatten()
}

/// MPI_Bcast of elements without gaps.
///
/// # Safety
/// `buffer` is readable (at the root) or writable (elsewhere).
#[inline(always)]
pub unsafe fn bcast(buffer: UserBuffer, root: c_int, comm: MPI_Comm) -> Option<Result<()>> {
    let message = buffer.dense()?;
    let root = usize::try_from(root).ok()?;
    // SAFETY: by the contract above.
    let region = unsafe { message.times(1) };
    let run = |comm: &Comm| fast_path::bcast(comm, &region, message.bytes, root);
    comm::with(comm.raw(), run).ok().flatten()
}

/// MPI_Allreduce of elements without gaps by a predefined operator, not in place.
///
/// # Safety
/// The operand is readable and the result writable.
#[inline(always)]
pub unsafe fn allreduce(operands: UserOperands, op: MPI_Op, comm: MPI_Comm) -> Option<Result<()>> {
    // SAFETY: by the contract above.
    unsafe { vector(fast_path::allreduce, operands, op, comm) }
}

/// MPI_Scan of elements without gaps by a predefined operator, not in place.
///
/// # Safety
/// As [`allreduce`].
#[inline(always)]
pub unsafe fn scan(operands: UserOperands, op: MPI_Op, comm: MPI_Comm) -> Option<Result<()>> {
    // SAFETY: by the contract above.
    unsafe { vector(fast_path::scan, operands, op, comm) }
}

/// A reduction whose arguments are those of MPI_Allreduce.
///
/// # Safety
/// As [`allreduce`].
#[inline(always)]
unsafe fn vector(
    reduce: impl Fn(&Members, &Region, &Region, usize, Kernel) -> Option<Result<()>>,
    operands: UserOperands,
    op: MPI_Op,
    comm: MPI_Comm,
) -> Option<Result<()>> {
    let UserOperands { count, datatype, .. } = operands;
    let mine = part(operands.send, count, datatype)?;
    let other = part(operands.receive, count, datatype)?;
    let kernel = Op::kernel_of(op.raw(), datatype.raw())?;
    // SAFETY: by the contract above.
    let send = unsafe { mine.times(1) };
    // SAFETY: by the contract above.
    let receive = unsafe { beside(&send, &mine, &other, 1)? };
    let run = |comm: &Comm| reduce(comm, &send, &receive, mine.bytes, kernel);
    comm::with(comm.raw(), run).ok().flatten()
}

/// MPI_Reduce of elements without gaps by a predefined operator, not in place.
///
/// # Safety
/// The operand is readable and, at the root, the result writable.
#[inline(always)]
pub unsafe fn reduce(
    operands: UserOperands,
    op: MPI_Op,
    root: c_int,
    comm: MPI_Comm,
) -> Option<Result<()>> {
    let UserOperands { count, datatype, .. } = operands;
    let mine = part(operands.send, count, datatype)?;
    let kernel = Op::kernel_of(op.raw(), datatype.raw())?;
    // SAFETY: by the contract above.
    let send = unsafe { mine.times(1) };
    let run = |comm: &Comm| {
        let given = || part(operands.receive, count, datatype);
        // SAFETY: by the contract above.
        let receive = unsafe { at_root(comm, root, (&send, &mine), given, 1)? };
        fast_path::reduce(comm, &send, receive.as_ref(), mine.bytes, kernel, root as usize)
    };
    comm::with(comm.raw(), run).ok().flatten()
}

/// MPI_Reduce_scatter of elements without gaps by a predefined operator, not in place.
///
/// # Safety
/// `recvcounts` has one element for each rank; `sendbuf` is readable for the sum of them, `recvbuf`
/// writable for this rank's.
#[inline(always)]
pub unsafe fn reduce_scatter(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    recvcounts: PolyArray,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
) -> Option<Result<()>> {
    if recvcounts.is_null() {
        return None;
    }
    // SAFETY: by the contract above; an intercommunicator's array is as long as its local group.
    let count_of = |rank| unsafe { recvcounts.get(rank) };
    // SAFETY: by the contract above.
    unsafe {
        let operands = UserOperands::new(sendbuf, recvbuf, 0, datatype);
        scattered(operands, count_of, op, comm)
    }
}

/// MPI_Reduce_scatter_block of elements without gaps by a predefined operator, not in place.
///
/// # Safety
/// The operand is readable for a block for each rank, the result writable for one.
#[inline(always)]
pub unsafe fn reduce_scatter_block(
    operands: UserOperands,
    op: MPI_Op,
    comm: MPI_Comm,
) -> Option<Result<()>> {
    // SAFETY: by the contract above.
    unsafe { scattered(operands, |_| operands.count, op, comm) }
}

/// A reduction of which rank `r` gets `count_of(r)` elements, whatever `operands` says.
///
/// # Safety
/// The operand is readable for the counts of all ranks, the result writable for this rank's.
#[inline(always)]
unsafe fn scattered(
    operands: UserOperands,
    count_of: impl Fn(usize) -> MPI_Count,
    op: MPI_Op,
    comm: MPI_Comm,
) -> Option<Result<()>> {
    let UserOperands { send, receive, datatype, .. } = operands;
    let kernel = Op::kernel_of(op.raw(), datatype.raw())?;
    let run = |comm: &Comm| {
        let mut total: MPI_Count = 0;
        for rank in 0..comm.size() {
            let count = count_of(rank);
            // A negative count, and a sum that no count can hold, are mistakes.
            total = total.checked_add(count).filter(|_| count >= 0)?;
        }
        let operand = part(send, total, datatype)?;
        let block = part(receive, count_of(comm.rank()), datatype)?;
        let element = part(send, 1, datatype)?.bytes;
        // SAFETY: by the contract above.
        let (send, receive) = unsafe { (operand.times(1), block.times(1)) };
        if receive.may_share(&send) {
            return None;
        }
        let lengths = (total as usize, |rank: usize| count_of(rank) as usize);
        fast_path::reduce_scatter(comm, &send, &receive, lengths, (element, kernel))
    };
    comm::with(comm.raw(), run).ok().flatten()
}

/// MPI_Gather of elements without gaps, not in place.
///
/// # Safety
/// `send` is readable and, at the root, `receive` writable as counts and types say.
#[inline(always)]
pub unsafe fn gather(
    send: UserBuffer,
    receive: UserBuffer,
    root: c_int,
    comm: MPI_Comm,
) -> Option<Result<()>> {
    let mine = send.dense()?;
    // SAFETY: by the contract above.
    let send = unsafe { mine.times(1) };
    let run = |comm: &Comm| {
        let given = || receive.dense();
        // SAFETY: by the contract above.
        let receive = unsafe { at_root(comm, root, (&send, &mine), given, comm.size())? };
        fast_path::gather(comm, &send, receive.as_ref(), mine.bytes, root as usize)
    };
    comm::with(comm.raw(), run).ok().flatten()
}

/// MPI_Scatter of elements without gaps, not in place.
///
/// # Safety
/// `receive` is writable and, at the root, `send` readable as counts and types say.
#[inline(always)]
pub unsafe fn scatter(
    send: UserBuffer,
    receive: UserBuffer,
    root: c_int,
    comm: MPI_Comm,
) -> Option<Result<()>> {
    let mine = receive.dense()?;
    // SAFETY: by the contract above.
    let receive = unsafe { mine.times(1) };
    let run = |comm: &Comm| {
        let given = || send.dense();
        // SAFETY: by the contract above.
        let send = unsafe { at_root(comm, root, (&receive, &mine), given, comm.size())? };
        fast_path::scatter(comm, send.as_ref(), &receive, mine.bytes, root as usize)
    };
    comm::with(comm.raw(), run).ok().flatten()
}

/// The memory of `parts` parts of the buffer that is significant only at the root: `Some(None)` at
/// other ranks; `None` where [`beside`] refuses it.
///
/// # Safety
/// As [`Region::user`], for these parts.
#[inline(always)]
unsafe fn at_root(
    comm: &Comm,
    root: c_int,
    (region, mine): (&Region, &Dense),
    given: impl FnOnce() -> Option<Dense>,
    parts: usize,
) -> Option<Option<Region>> {
    let root = usize::try_from(root).ok()?;
    if root != comm.rank() {
        return Some(None);
    }
    // SAFETY: by the contract above.
    unsafe { beside(region, mine, &given()?, parts) }.map(Some)
}

/// MPI_Allgather of elements without gaps, not in place.
///
/// # Safety
/// `send` is readable and `receive` writable as counts and types say.
#[inline(always)]
pub unsafe fn allgather(
    send: UserBuffer,
    receive: UserBuffer,
    comm: MPI_Comm,
) -> Option<Result<()>> {
    let mine = send.dense()?;
    let other = receive.dense()?;
    // SAFETY: by the contract above.
    let send = unsafe { mine.times(1) };
    let run = |comm: &Comm| {
        // SAFETY: by the contract above.
        let receive = unsafe { beside(&send, &mine, &other, comm.size())? };
        fast_path::allgather(comm, &send, &receive, mine.bytes)
    };
    comm::with(comm.raw(), run).ok().flatten()
}

/// MPI_Alltoall of elements without gaps, not in place.
///
/// # Safety
/// As [`allgather`].
#[inline(always)]
pub unsafe fn alltoall(
    send: UserBuffer,
    receive: UserBuffer,
    comm: MPI_Comm,
) -> Option<Result<()>> {
    let mine = send.dense()?;
    let other = receive.dense()?;
    let run = |comm: &Comm| {
        // SAFETY: by the contract above.
        let send = unsafe { mine.times(comm.size()) };
        // SAFETY: by the contract above.
        let receive = unsafe { beside(&send, &mine, &other, comm.size())? };
        fast_path::alltoall(comm, &send, &receive, mine.bytes)
    };
    comm::with(comm.raw(), run).ok().flatten()
}

/// The memory of `parts` parts of `other`, if its parts are as long as those of `mine` and it
/// shares no byte with `region`, the memory of `mine`. Overlapping buffers take the slow path,
/// which checks more closely.
///
/// # Safety
/// As [`Region::user`], for these parts.
#[inline(always)]
unsafe fn beside(region: &Region, mine: &Dense, other: &Dense, parts: usize) -> Option<Region> {
    // SAFETY: by the contract above.
    let memory = unsafe { other.times(parts) };
    let usual = mine.bytes == other.bytes && !memory.may_share(region);
    usual.then_some(memory)
}

/// A buffer of elements without gaps.
struct Dense {
    address: *const c_void,
    /// Of one part: one rank's share.
    bytes: usize,
}

impl Dense {
    /// The memory of `parts` parts.
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
fn part(address: *const c_void, count: MPI_Count, datatype: MPI_Datatype) -> Option<Dense> {
    if address.addr() == IN_PLACE {
        return None;
    }
    let bytes = dense_bytes(datatype.raw(), address.addr(), count)?;
    Some(Dense { address, bytes })
}

impl UserBuffer {
    /// One block of it, as [`part`].
    #[inline(always)]
    fn dense(self) -> Option<Dense> {
        part(self.address, self.count, self.datatype)
    }
}
