//! The arguments of collective calls, from C to `mica_mpi` (MPI 5.0, chapter 6): each family's are
//! converted in one place for the blocking, non-blocking and persistent form. The shims then run
//! one of these forms on the [`Call`].
//!
//! Arguments that are significant only at the root are not read elsewhere. `MPI_IN_PLACE` becomes
//! `None`. Arrays are read here and not again, while buffers are kept as addresses.

pub mod fast_path;
mod movement;
mod neighbor;
mod reduction;

pub use movement::*;
pub use neighbor::*;
pub use reduction::*;

use std::ffi::{c_int, c_void};

use mica_mpi::collective::{
    BlockList, BufferArgument, CallForm, CallLabel, CollectivePlan, Function, execute,
};
use mica_mpi::comm::Comm;
use mica_mpi::constants::{BYTE, DATATYPE_NULL, ERR_ARG, ERR_BUFFER, IN_PLACE, ROOT};
use mica_mpi::datatype::{Datatype, Region, View, check_buffer, check_count};
use mica_mpi::error::{Error, Result};
use mica_mpi::info::Info;

use crate::convert::{Out, slice};
use crate::poly::PolyArray;
use crate::types::{MPI_Count, MPI_Datatype, MPI_Info, MPI_Request};

/// A collective call whose arguments have been checked: this rank's part of it.
pub struct Call {
    comm: Comm,
    plan: CollectivePlan,
    function: Function,
}

impl Call {
    /// The blocking form.
    pub fn run(mut self) -> Result<()> {
        self.plan
            .set_label(CallLabel::new(self.function, CallForm::Blocking));
        execute::run(&self.comm, &self.plan)
    }
}

/// The non-blocking form of the call that `prepare` makes: starts it.
///
/// # Safety
/// `request` is null or writable; the buffers of the call stay as MPI asks until it completes.
pub unsafe fn start(
    request: *mut MPI_Request,
    prepare: impl FnOnce() -> Result<Call>,
) -> Result<()> {
    // SAFETY: by the contract above.
    let request = unsafe { Out::new(request, "request")? };
    let call = prepare()?;
    let label = CallLabel::new(call.function, CallForm::Immediate);
    let started = execute::start(&call.comm, call.plan, label)?;
    request.set(MPI_Request::from_raw(started.register()?));
    Ok(())
}

/// The persistent form of the call that `prepare` makes: keeps it, for `MPI_Start` to start. No
/// hints are known, so `info` need only be valid.
///
/// # Safety
/// `request` is null or writable; the buffers of the call stay as MPI asks whenever it is active.
pub unsafe fn make_persistent(
    request: *mut MPI_Request,
    info: MPI_Info,
    prepare: impl FnOnce() -> Result<Call>,
) -> Result<()> {
    // SAFETY: by the contract above.
    let request = unsafe { Out::new(request, "request")? };
    Info::resolve_hints(info.raw())?;
    let call = prepare()?;
    let label = CallLabel::new(call.function, CallForm::Persistent);
    let plan = execute::persistent(&call.comm, call.plan, label)?;
    request.set(MPI_Request::from_raw(plan.register()?));
    Ok(())
}

/// The buffer at `address`, which holds `blocks` times `count` elements; with `MPI_IN_PLACE`, count
/// and type are not checked.
///
/// # Safety
/// As [`Region::user`] for these elements, unless it is `MPI_IN_PLACE`.
pub unsafe fn buffer(
    address: *const c_void,
    argument: &'static str,
    count: MPI_Count,
    datatype: MPI_Datatype,
    blocks: usize,
) -> Result<Option<BufferArgument>> {
    if address.addr() == IN_PLACE {
        return Ok(None);
    }
    // SAFETY: by the contract above.
    unsafe { whole(address, argument, count, datatype, blocks) }.map(Some)
}

/// As [`buffer`], for one that cannot be `MPI_IN_PLACE`.
///
/// # Safety
/// As [`Region::user`] for `blocks` times `count` elements.
pub unsafe fn whole(
    address: *const c_void,
    argument: &'static str,
    count: MPI_Count,
    datatype: MPI_Datatype,
    blocks: usize,
) -> Result<BufferArgument> {
    let address = plain(address)?;
    let datatype = of_type(datatype, argument)?;
    // More elements than there can be have no bounds: then an error follows.
    let bounds = datatype.bounds(count.saturating_mul(blocks as i64));
    // SAFETY: by the contract above.
    let region = unsafe { Region::user(address, bounds) };
    let buffer = BufferArgument::new(region, argument, count, &datatype)?;
    check_null(address, argument, count, &datatype)?;
    Ok(buffer)
}

/// The names of the buffer and the datatype that belong to a count or an array of counts.
fn neighbors(count: &str) -> (&'static str, &'static str) {
    match count {
        "sendcount" => ("sendbuf", "sendtype"),
        "sendcounts" => ("sendbuf", "sendtypes"),
        "recvcount" => ("recvbuf", "recvtype"),
        "recvcounts" => ("recvbuf", "recvtypes"),
        _ => ("buffer", "datatype"),
    }
}

/// `MPI_DATATYPE_NULL` with a count of 0 is any datatype, in the calls where MPICH and Intel MPI
/// accept that.
pub fn or_none(datatype: MPI_Datatype, count: MPI_Count) -> MPI_Datatype {
    match datatype.raw() {
        DATATYPE_NULL if count == 0 => MPI_Datatype::from_raw(BYTE),
        _ => datatype,
    }
}

/// The datatype that belongs to the count called `argument`.
fn of_type(datatype: MPI_Datatype, argument: &str) -> Result<Datatype> {
    Datatype::resolve_committed(datatype.raw())
        .map_err(|error| error.renamed(&[("datatype", neighbors(argument).1)]))
}

/// Refuses `MPI_IN_PLACE`, which is no address.
pub fn plain(address: *const c_void) -> Result<*const c_void> {
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
/// The arrays have `size` elements; as [`buffer`] for each block.
pub unsafe fn blocks(
    address: *const c_void,
    argument: &'static str,
    counts: PolyArray,
    displacements: PolyArray,
    datatype: MPI_Datatype,
    size: usize,
) -> Result<Option<BlockList>> {
    if address.addr() == IN_PLACE {
        return Ok(None);
    }
    check_arrays(size == 0 || !counts.is_null() && !displacements.is_null())?;
    // One type for all: its name has no plural.
    let datatype = of_type(datatype, argument.trim_end_matches('s'))?;
    let unit = datatype.extent();
    let mut views = Vec::with_capacity(size);
    for rank in 0..size {
        // SAFETY: by the contract above.
        views.push(unsafe {
            let place = (displacements.get(rank), unit);
            block(address, place, argument, counts.get(rank), &datatype)?
        });
    }
    Ok(Some(BlockList::new(views)))
}

/// The blocks of a w-form, one for each of `size` ranks.
///
/// # Safety
/// The arrays have `size` elements; as [`buffer`] for each block.
pub unsafe fn typed_blocks(
    address: *const c_void,
    argument: &'static str,
    counts: PolyArray,
    displacements: PolyArray,
    datatypes: *const MPI_Datatype,
    size: usize,
) -> Result<Option<BlockList>> {
    if address.addr() == IN_PLACE {
        return Ok(None);
    }
    check_arrays(size == 0 || !counts.is_null() && !displacements.is_null())?;
    // SAFETY: by the contract above.
    let datatypes = unsafe { slice(datatypes, size as c_int, "types", "size")? };
    let mut views = Vec::with_capacity(size);
    for (rank, &datatype) in datatypes.iter().enumerate() {
        // SAFETY: by the contract above.
        views.push(unsafe {
            let count = counts.get(rank);
            let datatype = of_type(or_none(datatype, count), argument)?;
            block(
                address,
                (displacements.get(rank), 1),
                argument,
                count,
                &datatype,
            )?
        });
    }
    Ok(Some(BlockList::new(views)))
}

/// The block of `count` elements (the argument called `argument`) at `address` plus `displacement`
/// times `unit` bytes.
///
/// # Safety
/// As [`View::user`] for these elements.
///
/// # Errors
/// `MPI_ERR_COUNT`; `MPI_ERR_BUFFER` for a block at the null address, `MPI_ERR_ARG` for one beyond
/// all addresses.
unsafe fn block(
    address: *const c_void,
    (displacement, unit): (i64, i64),
    argument: &'static str,
    count: MPI_Count,
    datatype: &Datatype,
) -> Result<View> {
    check_count(count, argument)?;
    let distance = i128::from(displacement) * i128::from(unit);
    // Blocks without elements may have any displacement.
    let bounds = datatype.bounds(count);
    let fits = |bound: isize| isize::try_from(bound as i128 + distance).is_ok();
    if !(bounds.is_empty() || fits(bounds.start) && fits(bounds.end)) {
        let reason = "a block at this distance in bytes lies outside all memory";
        return Err(Error::argument(ERR_ARG, "displacement", distance, reason));
    }
    let block = address.wrapping_byte_offset(distance as isize);
    check_null(block, argument, count, datatype)?;
    // SAFETY: by the contract above.
    Ok(unsafe { View::user(block, datatype.shape(count)?) })
}

/// Refuses a null address where elements lie. `argument` is the name of their count.
#[inline]
fn check_null(
    address: *const c_void,
    argument: &'static str,
    count: MPI_Count,
    datatype: &Datatype,
) -> Result<()> {
    match address.is_null() {
        true => check_buffer(0, count, datatype, neighbors(argument).0),
        false => Ok(()),
    }
}

/// Refuses null arrays.
fn check_arrays(all_given: bool) -> Result<()> {
    if all_given {
        return Ok(());
    }
    Err(Error::argument(
        ERR_ARG,
        "array",
        "NULL",
        "counts, displacements and types are needed for every rank",
    ))
}

/// Whether arguments that are significant only at the root are significant here.
fn at_root(comm: &Comm, root: c_int) -> bool {
    if comm.is_inter() {
        root == ROOT
    } else {
        usize::try_from(root) == Ok(comm.rank())
    }
}

/// Whether arguments that are significant at all ranks are significant here: on an
/// intercommunicator, only where the root is on the other side.
fn takes_part(comm: &Comm, root: c_int) -> bool {
    !comm.is_inter() || root >= 0
}

/// What a required receive buffer is when the caller passes `MPI_IN_PLACE` for it.
pub fn required<T>(given: Option<T>) -> Result<T> {
    given.ok_or_else(|| {
        Error::argument(
            ERR_BUFFER,
            "recvbuf",
            "MPI_IN_PLACE",
            "not allowed for this buffer",
        )
    })
}
