//! Blocking collective communication (MPI 5.0, chapter 6).
//!
//! Arguments that are significant only at the root are not looked at elsewhere. `MPI_IN_PLACE`
//! becomes `None`.

use std::ffi::{c_int, c_void};

use mica_mpi::collective::{self, BlockList, Buffer};
use mica_mpi::comm::Comm;
use mica_mpi::constants::{ERR_ARG, ERR_BUFFER, IN_PLACE};
use mica_mpi::datatype::{Datatype, Region};
use mica_mpi::error::{Error, Result};
use mica_mpi::op::Op;

use crate::poly::PolyArray;
use crate::types::{MPI_Comm, MPI_Count, MPI_Datatype, MPI_Op};

/// The buffer at `address`.
///
/// # Safety
/// As [`Region::user`], unless it is `MPI_IN_PLACE`.
unsafe fn region(address: *const c_void) -> Option<Region> {
    // SAFETY: by the contract above.
    (address.addr() != IN_PLACE).then(|| unsafe { Region::user(address) })
}

/// The buffer at `address` with its count and type; neither is looked at in place.
///
/// # Safety
/// As [`region`].
unsafe fn buffer(
    address: *const c_void,
    argument: &'static str,
    count: MPI_Count,
    datatype: MPI_Datatype,
) -> Result<Option<Buffer>> {
    // SAFETY: by the contract above.
    match unsafe { region(address) } {
        Some(region) => Buffer::new(
            region,
            argument,
            count,
            &Datatype::resolve_committed(datatype.raw())?,
        )
        .map(Some),
        None => Ok(None),
    }
}

/// A buffer that cannot be `MPI_IN_PLACE`.
///
/// # Safety
/// As [`Region::user`].
unsafe fn whole(
    address: *const c_void,
    argument: &'static str,
    count: MPI_Count,
    datatype: MPI_Datatype,
) -> Result<Buffer> {
    // SAFETY: by the contract above.
    let region = unsafe { Region::user(plain(address)?) };
    Buffer::new(
        region,
        argument,
        count,
        &Datatype::resolve_committed(datatype.raw())?,
    )
}

/// Refuses `MPI_IN_PLACE`, which is no address.
fn plain(address: *const c_void) -> Result<*const c_void> {
    if address.addr() == IN_PLACE {
        return Err(Error::argument(
            ERR_BUFFER,
            "buffer",
            "MPI_IN_PLACE",
            "not allowed for this buffer",
        ));
    }
    Ok(address)
}

/// The blocks of a v-form, one for each of `size` ranks.
///
/// # Safety
/// The arrays have `size` elements; as [`region`] for the blocks.
unsafe fn blocks(
    address: *const c_void,
    argument: &'static str,
    counts: PolyArray,
    displacements: PolyArray,
    datatype: MPI_Datatype,
    size: usize,
) -> Result<Option<BlockList>> {
    // SAFETY: by the contract above.
    let Some(region) = (unsafe { region(address) }) else {
        return Ok(None);
    };
    given(!counts.is_null() && !displacements.is_null())?;
    // SAFETY: by the contract above.
    let (counts, displacements) = unsafe { (counts.to_vec(size), displacements.to_vec(size)) };
    let datatype = Datatype::resolve_committed(datatype.raw())?;
    BlockList::in_elements(region, argument, &counts, &displacements, &datatype).map(Some)
}

/// The blocks of a w-form, one for each of `size` ranks.
///
/// # Safety
/// The arrays have `size` elements; as [`region`] for the blocks.
unsafe fn typed_blocks(
    address: *const c_void,
    argument: &'static str,
    counts: PolyArray,
    displacements: PolyArray,
    datatypes: *const MPI_Datatype,
    size: usize,
) -> Result<Option<BlockList>> {
    // SAFETY: by the contract above.
    let Some(region) = (unsafe { region(address) }) else {
        return Ok(None);
    };
    given(!counts.is_null() && !displacements.is_null() && !datatypes.is_null())?;
    // SAFETY: by the contract above.
    let (counts, displacements, datatypes) = unsafe {
        (
            counts.to_vec(size),
            displacements.to_vec(size),
            std::slice::from_raw_parts(datatypes, size),
        )
    };
    let datatypes = datatypes
        .iter()
        .map(|d| Datatype::resolve_committed(d.raw()))
        .collect::<Result<Vec<Datatype>>>()?;
    BlockList::in_bytes(region, argument, &counts, &displacements, &datatypes).map(Some)
}

/// Refuses an array that is null.
fn given(all: bool) -> Result<()> {
    if all {
        return Ok(());
    }
    Err(Error::argument(
        ERR_ARG,
        "array",
        "NULL",
        "counts, displacements and types are needed for every rank",
    ))
}

/// Whether arguments that matter only at the root matter here.
fn at_root(comm: &Comm, root: c_int) -> bool {
    !comm.is_inter() && usize::try_from(root) == Ok(comm.rank())
}

/// What a required receive buffer is when the caller passes `MPI_IN_PLACE` for it.
fn required<T>(given: Option<T>) -> Result<T> {
    given.ok_or_else(|| {
        Error::argument(
            ERR_BUFFER,
            "recvbuf",
            "MPI_IN_PLACE",
            "not allowed for this buffer",
        )
    })
}

/// MPI_Barrier.
pub fn mpi_barrier(comm: MPI_Comm) -> Result<()> {
    collective::barrier(&Comm::resolve(comm.raw())?)
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
    let comm = Comm::resolve(comm.raw())?;
    // SAFETY: by the contract above.
    let buffer = unsafe { whole(buffer, "count", count, datatype)? };
    collective::bcast(&comm, &buffer, root)
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
    let comm = Comm::resolve(comm.raw())?;
    // SAFETY: by the contract above.
    let send = unsafe { buffer(sendbuf, "sendcount", sendcount, sendtype)? };
    let receive = if at_root(&comm, root) {
        // SAFETY: by the contract above.
        Some(unsafe { whole(recvbuf, "recvcount", recvcount, recvtype)? })
    } else {
        None
    };
    collective::gather(&comm, send.as_ref(), receive.as_ref(), root)
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
    let comm = Comm::resolve(comm.raw())?;
    // SAFETY: by the contract above.
    let send = unsafe { buffer(sendbuf, "sendcount", sendcount, sendtype)? };
    let receive = if at_root(&comm, root) {
        // SAFETY: by the contract above.
        let list = unsafe {
            blocks(
                recvbuf,
                "recvcounts",
                recvcounts,
                displs,
                recvtype,
                comm.size(),
            )?
        };
        Some(required(list)?)
    } else {
        None
    };
    collective::gatherv(&comm, send.as_ref(), receive, root)
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
    let comm = Comm::resolve(comm.raw())?;
    let send = if at_root(&comm, root) {
        // SAFETY: by the contract above.
        Some(unsafe { whole(sendbuf, "sendcount", sendcount, sendtype)? })
    } else {
        None
    };
    // SAFETY: by the contract above.
    let receive = unsafe { buffer(recvbuf, "recvcount", recvcount, recvtype)? };
    collective::scatter(&comm, send.as_ref(), receive.as_ref(), root)
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
                comm.size(),
            )?
        }
    } else {
        None
    };
    // SAFETY: by the contract above.
    let receive = unsafe { buffer(recvbuf, "recvcount", recvcount, recvtype)? };
    collective::scatterv(&comm, send, receive.as_ref(), root)
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
    let comm = Comm::resolve(comm.raw())?;
    // SAFETY: by the contract above.
    let (send, receive) = unsafe {
        (
            buffer(sendbuf, "sendcount", sendcount, sendtype)?,
            whole(recvbuf, "recvcount", recvcount, recvtype)?,
        )
    };
    collective::allgather(&comm, send.as_ref(), &receive)
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
    let comm = intra(comm)?;
    // SAFETY: by the contract above.
    let (send, receive) = unsafe {
        (
            buffer(sendbuf, "sendcount", sendcount, sendtype)?,
            blocks(
                recvbuf,
                "recvcounts",
                recvcounts,
                displs,
                recvtype,
                comm.size(),
            )?,
        )
    };
    collective::allgatherv(&comm, send.as_ref(), &required(receive)?)
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
    let comm = Comm::resolve(comm.raw())?;
    // SAFETY: by the contract above.
    let (send, receive) = unsafe {
        (
            buffer(sendbuf, "sendcount", sendcount, sendtype)?,
            whole(recvbuf, "recvcount", recvcount, recvtype)?,
        )
    };
    collective::alltoall(&comm, send.as_ref(), &receive)
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
    let comm = intra(comm)?;
    // SAFETY: by the contract above.
    let (send, receive) = unsafe {
        (
            blocks(
                sendbuf,
                "sendcounts",
                sendcounts,
                sdispls,
                sendtype,
                comm.size(),
            )?,
            blocks(
                recvbuf,
                "recvcounts",
                recvcounts,
                rdispls,
                recvtype,
                comm.size(),
            )?,
        )
    };
    collective::alltoallv(&comm, send.as_ref(), &required(receive)?)
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
    let comm = intra(comm)?;
    // SAFETY: by the contract above.
    let (send, receive) = unsafe {
        (
            typed_blocks(
                sendbuf,
                "sendcounts",
                sendcounts,
                sdispls,
                sendtypes,
                comm.size(),
            )?,
            typed_blocks(
                recvbuf,
                "recvcounts",
                recvcounts,
                rdispls,
                recvtypes,
                comm.size(),
            )?,
        )
    };
    collective::alltoallv(&comm, send.as_ref(), &required(receive)?)
}

/// The communicator; arrays of an intercommunicator's calls have another length, so these are
/// refused at once.
fn intra(comm: MPI_Comm) -> Result<Comm> {
    let comm = Comm::resolve(comm.raw())?;
    if comm.is_inter() {
        return Err(Error::unsupported(
            "a collective call on an intercommunicator",
        ));
    }
    Ok(comm)
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
    let comm = Comm::resolve(comm.raw())?;
    let op = Op::resolve(op.raw())?;
    let datatype = Datatype::resolve_committed(datatype.raw())?;
    // SAFETY: by the contract above.
    let send = unsafe { region(sendbuf) };
    let receive = if at_root(&comm, root) {
        // SAFETY: by the contract above.
        Some(unsafe { Region::user(plain(recvbuf)?) })
    } else {
        None
    };
    collective::reduce(&comm, send, receive, count, &datatype, &op, root)
}

/// One of the reductions whose arguments are those of `MPI_Allreduce`.
type Vector = fn(&Comm, Option<Region>, Region, i64, &Datatype, &Op) -> Result<()>;

/// Converts the arguments of such a reduction and calls it.
///
/// # Safety
/// As [`mpi_allreduce`].
unsafe fn vector(
    reduce: Vector,
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
) -> Result<()> {
    let comm = Comm::resolve(comm.raw())?;
    let op = Op::resolve(op.raw())?;
    let datatype = Datatype::resolve_committed(datatype.raw())?;
    // SAFETY: by the contract above.
    let (send, receive) = unsafe { (region(sendbuf), Region::user(plain(recvbuf)?)) };
    reduce(&comm, send, receive, count, &datatype, &op)
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
    unsafe {
        vector(
            collective::allreduce,
            sendbuf,
            recvbuf,
            count,
            datatype,
            op,
            comm,
        )
    }
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
    let comm = Comm::resolve(comm.raw())?;
    let op = Op::resolve(op.raw())?;
    let datatype = Datatype::resolve_committed(datatype.raw())?;
    given(!recvcounts.is_null())?;
    // SAFETY: by the contract above; an intercommunicator's array has this length too (its local
    // group's).
    let (send, receive, counts) = unsafe {
        (
            region(sendbuf),
            Region::user(plain(recvbuf)?),
            recvcounts.to_vec(comm.size()),
        )
    };
    collective::reduce_scatter(&comm, send, receive, &counts, &datatype, &op)
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
    unsafe {
        vector(
            collective::reduce_scatter_block,
            sendbuf,
            recvbuf,
            recvcount,
            datatype,
            op,
            comm,
        )
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
    unsafe {
        vector(
            collective::scan,
            sendbuf,
            recvbuf,
            count,
            datatype,
            op,
            comm,
        )
    }
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
    unsafe {
        vector(
            collective::exscan,
            sendbuf,
            recvbuf,
            count,
            datatype,
            op,
            comm,
        )
    }
}
