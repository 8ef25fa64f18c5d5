//! One-sided operations on any number of elements (MPI 5.0, 12.3). Those on one are in
//! [`rma_element`](super::rma_element).
#![allow(clippy::too_many_arguments, reason = "the argument lists are MPI's own")]

use std::ffi::{c_int, c_void};

use mica_memory::{FEW_BYTES, Region, Shape, View};
use mica_mpi::constants as c;
use mica_mpi::datatype;
use mica_mpi::window::fast_path::{self, TargetBytes};
use mica_mpi::window::{self, AccumulateCompletion, AccumulateOperands, TargetRange};
use mica_mpi::{Error, Result};

use super::pt2pt::message;
use crate::convert::Out;
use crate::types::*;

/// The memory of the target that an operation names.
#[inline(always)]
fn target(
    rank: c_int,
    disp: MPI_Aint,
    count: MPI_Count,
    datatype: MPI_Datatype,
) -> Result<TargetRange> {
    // The target's address is not known here, and is not null.
    const SOMEWHERE: usize = usize::MAX;
    let shape = match datatype::dense_bytes(datatype.raw(), SOMEWHERE, count) {
        Some(bytes) => Shape::Contiguous { bytes },
        None => target_shape(disp, count, datatype)?,
    };
    Ok(TargetRange { rank, disp, shape })
}

#[cold]
#[inline(never)]
fn target_shape(disp: MPI_Aint, count: MPI_Count, datatype: MPI_Datatype) -> Result<Shape> {
    let names = [("datatype", "target_datatype"), ("count", "target_count")];
    let shape = datatype::shape_of(datatype.raw(), usize::MAX, count);
    shape.map_err(|error| match error.code() {
        // More bytes than an address space has: outside of any window.
        c::ERR_COUNT if count > 0 => {
            Error::argument(c::ERR_RMA_RANGE, "target_disp", disp, error.to_string())
        }
        _ => error.renamed(&names),
    })
}

/// The bytes of the origin's buffer.
///
/// # Safety
/// The obligations of [`View::user`] for `count` elements of `datatype` at `buf`.
#[inline(always)]
unsafe fn origin(buf: *const c_void, count: MPI_Count, datatype: MPI_Datatype) -> Result<View> {
    let names =
        [("buf", "origin_addr"), ("count", "origin_count"), ("datatype", "origin_datatype")];
    // SAFETY: passed on to the caller.
    unsafe { message(buf, count, datatype) }.map_err(|error| error.renamed(&names))
}

/// The origin's buffer and the target's memory of an operation, as the program names them.
pub(super) struct Sides {
    pub origin_addr: *const c_void,
    pub origin_count: MPI_Count,
    pub origin_datatype: MPI_Datatype,
    pub target_rank: c_int,
    pub target_disp: MPI_Aint,
    pub target_count: MPI_Count,
    pub target_datatype: MPI_Datatype,
}

impl Sides {
    /// The bytes on both sides, if these are equal numbers of elements of one predefined datatype
    /// without gaps, for the fast path.
    ///
    /// # Safety
    /// The obligations of [`View::user`] for the origin's elements.
    #[inline(always)]
    unsafe fn same_bytes(&self) -> Option<(Region, TargetBytes)> {
        if self.origin_count != self.target_count || self.origin_datatype != self.target_datatype {
            return None;
        }
        let datatype = self.origin_datatype.raw();
        let address = self.origin_addr.addr();
        let bytes = datatype::dense_bytes(datatype, address, self.origin_count)?;
        // SAFETY: passed on to the caller.
        let region = unsafe { Region::user(self.origin_addr, 0..bytes as isize) };
        let there = TargetBytes { rank: self.target_rank, disp: self.target_disp, bytes };
        Some((region, there))
    }

    /// As [`same_bytes`](Self::same_bytes), if they are some, and so few that they are copied
    /// without a call.
    ///
    /// # Safety
    /// As for [`same_bytes`](Self::same_bytes).
    #[inline(always)]
    pub unsafe fn few_bytes(&self) -> Option<(Region, TargetBytes)> {
        // An element has a byte at least.
        if !(1..=FEW_BYTES as MPI_Count).contains(&self.origin_count) {
            return None;
        }
        // SAFETY: passed on to the caller.
        let found = unsafe { self.same_bytes()? };
        (found.1.bytes <= FEW_BYTES).then_some(found)
    }

    /// The target's memory.
    fn target(&self) -> Result<TargetRange> {
        target(self.target_rank, self.target_disp, self.target_count, self.target_datatype)
    }

    /// The bytes of the origin's buffer.
    ///
    /// # Safety
    /// The obligations of [`View::user`] for the origin's elements.
    unsafe fn origin(&self) -> Result<View> {
        // SAFETY: passed on to the caller.
        unsafe { origin(self.origin_addr, self.origin_count, self.origin_datatype) }
    }
}

/// MPI_Put.
///
/// # Safety
/// `origin_addr` is readable for `origin_count` elements of `origin_datatype`, until the next flush
/// or the end of the epoch.
#[inline(always)]
pub unsafe fn mpi_put(
    origin_addr: *const c_void,
    origin_count: MPI_Count,
    origin_datatype: MPI_Datatype,
    target_rank: c_int,
    target_disp: MPI_Aint,
    target_count: MPI_Count,
    target_datatype: MPI_Datatype,
    win: MPI_Win,
) -> Result<()> {
    let sides = Sides {
        origin_addr,
        origin_count,
        origin_datatype,
        target_rank,
        target_disp,
        target_count,
        target_datatype,
    };
    // SAFETY: as the caller promises; the operation is complete when this returns.
    if let Some((here, there)) = unsafe { sides.same_bytes() } {
        let put = match there.bytes > FEW_BYTES {
            true => fast_path::put(win.0, here.at(0), there),
            // The leaf has tried that.
            false => fast_path::put_ahead(win.0, here.at(0), there),
        };
        if put.is_some() {
            return Ok(());
        }
    }
    // SAFETY: as the caller promises.
    unsafe { put(&sides, win) }
}

/// As [`mpi_put`], for any memory and datatypes.
///
/// # Safety
/// As for [`mpi_put`].
#[inline(never)]
unsafe fn put(sides: &Sides, win: MPI_Win) -> Result<()> {
    let there = sides.target()?;
    // SAFETY: as the caller promises; until the next flush or the end of the epoch, where the
    // operation goes on (MPI 5.0, 12.3).
    let here = unsafe { sides.origin()? };
    window::put(win.raw(), &here, &there)
}

/// MPI_Get.
///
/// # Safety
/// `origin_addr` is writable for `origin_count` elements of `origin_datatype`, until the next flush
/// or the end of the epoch.
#[inline(always)]
pub unsafe fn mpi_get(
    origin_addr: *mut c_void,
    origin_count: MPI_Count,
    origin_datatype: MPI_Datatype,
    target_rank: c_int,
    target_disp: MPI_Aint,
    target_count: MPI_Count,
    target_datatype: MPI_Datatype,
    win: MPI_Win,
) -> Result<()> {
    let sides = Sides {
        origin_addr,
        origin_count,
        origin_datatype,
        target_rank,
        target_disp,
        target_count,
        target_datatype,
    };
    // SAFETY: as the caller promises; the operation is complete when this returns.
    if let Some((here, there)) = unsafe { sides.same_bytes() }
        && fast_path::get(win.0, here.at(0), there).is_some()
    {
        return Ok(());
    }
    // SAFETY: as the caller promises.
    unsafe { get(&sides, win) }
}

/// As [`mpi_get`], for any memory and datatypes.
///
/// # Safety
/// As for [`mpi_get`].
#[inline(never)]
unsafe fn get(sides: &Sides, win: MPI_Win) -> Result<()> {
    let there = sides.target()?;
    // SAFETY: as the caller promises; until the next flush or the end of the epoch, where the
    // operation goes on (MPI 5.0, 12.3).
    let here = unsafe { sides.origin()? };
    window::get(win.raw(), &here, &there)
}

/// MPI_Rput.
///
/// # Safety
/// As for `MPI_Put`, until the request is complete; `request` is null or writable.
pub unsafe fn mpi_rput(
    origin_addr: *const c_void,
    origin_count: MPI_Count,
    origin_datatype: MPI_Datatype,
    target_rank: c_int,
    target_disp: MPI_Aint,
    target_count: MPI_Count,
    target_datatype: MPI_Datatype,
    win: MPI_Win,
    request: *mut MPI_Request,
) -> Result<()> {
    let sides = Sides {
        origin_addr,
        origin_count,
        origin_datatype,
        target_rank,
        target_disp,
        target_count,
        target_datatype,
    };
    let there = sides.target()?;
    // SAFETY: as the caller promises.
    let (request, here) = unsafe { (Out::new(request, "request")?, sides.origin()?) };
    let handle = window::rput(win.raw(), &here, &there)?;
    request.set(MPI_Request::from_raw(handle));
    Ok(())
}

/// MPI_Rget.
///
/// # Safety
/// As for `MPI_Get`, until the request is complete; `request` is null or writable.
pub unsafe fn mpi_rget(
    origin_addr: *mut c_void,
    origin_count: MPI_Count,
    origin_datatype: MPI_Datatype,
    target_rank: c_int,
    target_disp: MPI_Aint,
    target_count: MPI_Count,
    target_datatype: MPI_Datatype,
    win: MPI_Win,
    request: *mut MPI_Request,
) -> Result<()> {
    let sides = Sides {
        origin_addr,
        origin_count,
        origin_datatype,
        target_rank,
        target_disp,
        target_count,
        target_datatype,
    };
    let there = sides.target()?;
    // SAFETY: as the caller promises.
    let (request, here) = unsafe { (Out::new(request, "request")?, sides.origin()?) };
    let handle = window::rget(win.raw(), &here, &there)?;
    request.set(MPI_Request::from_raw(handle));
    Ok(())
}

/// MPI_Accumulate.
///
/// # Safety
/// `origin_addr` is readable for `origin_count` elements of `origin_datatype`.
#[inline(always)]
pub unsafe fn mpi_accumulate(
    origin_addr: *const c_void,
    origin_count: MPI_Count,
    origin_datatype: MPI_Datatype,
    target_rank: c_int,
    target_disp: MPI_Aint,
    target_count: MPI_Count,
    target_datatype: MPI_Datatype,
    op: MPI_Op,
    win: MPI_Win,
) -> Result<()> {
    let sides = Sides {
        origin_addr,
        origin_count,
        origin_datatype,
        target_rank,
        target_disp,
        target_count,
        target_datatype,
    };
    let datatype = target_datatype.raw();
    // SAFETY: as the caller promises; the operation is complete when this returns.
    if let Some((here, there)) = unsafe { sides.same_bytes() }
        && fast_path::accumulate(win.0, op.raw(), datatype, here.at(0), there).is_some()
    {
        return Ok(());
    }
    // SAFETY: as the caller promises.
    unsafe { accumulate(sides, op, win, AccumulateCompletion::OnReturn).map(|_| ()) }
}

/// As [`mpi_accumulate`], for any memory and datatypes; returns the handle of a request, if it is
/// complete by one.
///
/// # Safety
/// As for [`mpi_accumulate`], until the request is complete.
#[inline(never)]
unsafe fn accumulate(
    sides: Sides,
    op: MPI_Op,
    win: MPI_Win,
    completion: AccumulateCompletion,
) -> Result<u32> {
    let there = sides.target()?;
    // SAFETY: as the caller promises.
    let here = unsafe { sides.origin()? };
    let operands = AccumulateOperands {
        origin: &here,
        origin_datatype: sides.origin_datatype.raw(),
        result: None,
        target_datatype: sides.target_datatype.raw(),
        op: op.raw(),
    };
    window::accumulate(win.raw(), &operands, &there, completion)
}

/// MPI_Raccumulate.
///
/// # Safety
/// As for `MPI_Accumulate`, until the request is complete; `request` is null or writable.
pub unsafe fn mpi_raccumulate(
    origin_addr: *const c_void,
    origin_count: MPI_Count,
    origin_datatype: MPI_Datatype,
    target_rank: c_int,
    target_disp: MPI_Aint,
    target_count: MPI_Count,
    target_datatype: MPI_Datatype,
    op: MPI_Op,
    win: MPI_Win,
    request: *mut MPI_Request,
) -> Result<()> {
    let sides = Sides {
        origin_addr,
        origin_count,
        origin_datatype,
        target_rank,
        target_disp,
        target_count,
        target_datatype,
    };
    // SAFETY: as the caller promises.
    let (request, handle) = unsafe {
        (
            Out::new(request, "request")?,
            accumulate(sides, op, win, AccumulateCompletion::ByRequest)?,
        )
    };
    request.set(MPI_Request::from_raw(handle));
    Ok(())
}

/// The buffers of get_accumulate, whose forms differ in their completion alone.
struct FetchArguments {
    origin_addr: *const c_void,
    origin_count: MPI_Count,
    origin_datatype: MPI_Datatype,
    result_addr: *mut c_void,
    result_count: MPI_Count,
    result_datatype: MPI_Datatype,
    target_datatype: MPI_Datatype,
    op: MPI_Op,
}

impl FetchArguments {
    /// # Safety
    /// The origin's buffer is readable for its elements, unless `op` is `MPI_NO_OP`; the result's
    /// is writable for its.
    unsafe fn run(
        self,
        to: &TargetRange,
        win: MPI_Win,
        completion: AccumulateCompletion,
    ) -> Result<u32> {
        let names =
            [("buf", "result_addr"), ("count", "result_count"), ("datatype", "result_datatype")];
        // SAFETY: as the caller promises. MPI_NO_OP uses no origin.
        let (from, result) = unsafe {
            let from = match self.op.raw() {
                c::NO_OP => View::user(std::ptr::null(), Shape::Contiguous { bytes: 0 }),
                _ => origin(self.origin_addr, self.origin_count, self.origin_datatype)?,
            };
            let result = message(self.result_addr, self.result_count, self.result_datatype);
            (from, result.map_err(|error| error.renamed(&names))?)
        };
        let operands = AccumulateOperands {
            origin: &from,
            origin_datatype: self.origin_datatype.raw(),
            result: Some((&result, self.result_datatype.raw())),
            target_datatype: self.target_datatype.raw(),
            op: self.op.raw(),
        };
        window::accumulate(win.raw(), &operands, to, completion)
    }
}

/// MPI_Get_accumulate.
///
/// # Safety
/// `origin_addr` is readable for `origin_count` elements of `origin_datatype`, unless `op` is
/// `MPI_NO_OP`; `result_addr` is writable for `result_count` elements of `result_datatype`.
pub unsafe fn mpi_get_accumulate(
    origin_addr: *const c_void,
    origin_count: MPI_Count,
    origin_datatype: MPI_Datatype,
    result_addr: *mut c_void,
    result_count: MPI_Count,
    result_datatype: MPI_Datatype,
    target_rank: c_int,
    target_disp: MPI_Aint,
    target_count: MPI_Count,
    target_datatype: MPI_Datatype,
    op: MPI_Op,
    win: MPI_Win,
) -> Result<()> {
    let to = target(target_rank, target_disp, target_count, target_datatype)?;
    let arguments = FetchArguments {
        origin_addr,
        origin_count,
        origin_datatype,
        result_addr,
        result_count,
        result_datatype,
        target_datatype,
        op,
    };
    // SAFETY: as the caller promises; the operation is complete when this returns.
    unsafe { arguments.run(&to, win, AccumulateCompletion::OnReturn)? };
    Ok(())
}

/// MPI_Rget_accumulate.
///
/// # Safety
/// As for `MPI_Get_accumulate`, until the request is complete; `request` is null or writable.
pub unsafe fn mpi_rget_accumulate(
    origin_addr: *const c_void,
    origin_count: MPI_Count,
    origin_datatype: MPI_Datatype,
    result_addr: *mut c_void,
    result_count: MPI_Count,
    result_datatype: MPI_Datatype,
    target_rank: c_int,
    target_disp: MPI_Aint,
    target_count: MPI_Count,
    target_datatype: MPI_Datatype,
    op: MPI_Op,
    win: MPI_Win,
    request: *mut MPI_Request,
) -> Result<()> {
    // SAFETY: as the caller promises.
    let request = unsafe { Out::new(request, "request")? };
    let to = target(target_rank, target_disp, target_count, target_datatype)?;
    let arguments = FetchArguments {
        origin_addr,
        origin_count,
        origin_datatype,
        result_addr,
        result_count,
        result_datatype,
        target_datatype,
        op,
    };
    // SAFETY: as the caller promises.
    let handle = unsafe { arguments.run(&to, win, AccumulateCompletion::ByRequest)? };
    request.set(MPI_Request::from_raw(handle));
    Ok(())
}
