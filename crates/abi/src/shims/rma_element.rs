//! One-sided operations on single elements: MPI_Fetch_and_op and MPI_Compare_and_swap (MPI 5.0,
//! 12.3.4).
#![allow(clippy::too_many_arguments, reason = "the argument lists are MPI's own")]

use std::ffi::{c_int, c_void};

use mica_memory::Region;
use mica_mpi::Result;
use mica_mpi::constants as c;
use mica_mpi::datatype::{self, Datatype};
use mica_mpi::window::fast_path::{self, ElementCall, TargetBytes};
use mica_mpi::window::{self, SingleElement};

use crate::types::*;

/// The caller's memory for one element of a predefined datatype without gaps, for the fast path.
///
/// # Safety
/// The obligations of [`Region::user`] for one element of `datatype` at `buf`.
#[inline(always)]
unsafe fn dense_element(buf: *const c_void, datatype: MPI_Datatype) -> Option<Region> {
    let bytes = datatype::dense_bytes(datatype.raw(), buf.addr(), 1)?;
    // SAFETY: passed on to the caller.
    Some(unsafe { Region::user(buf, 0..bytes as isize) })
}

/// A call on the fast path, with the memory of [`dense_element`]s.
#[inline(always)]
fn element_call<'a>(
    datatype: MPI_Datatype,
    (rank, disp): (c_int, MPI_Aint),
    origin: &'a Region,
    result: &'a Region,
) -> ElementCall<'a> {
    let bytes = result.bytes();
    ElementCall {
        datatype: datatype.raw(),
        target: TargetBytes { rank, disp, bytes },
        origin: origin.at(0),
        result: result.at(0),
    }
}

/// The caller's memory for one element of `datatype` at `buf`.
///
/// # Safety
/// The obligations of [`Region::user`] for one element of `datatype` at `buf`.
#[inline(always)]
unsafe fn element(
    buf: *const c_void,
    datatype: MPI_Datatype,
    argument: &'static str,
) -> Result<Region> {
    let bounds = match datatype::dense_bytes(datatype.raw(), buf.addr(), 1) {
        Some(bytes) => 0..bytes as isize,
        None => {
            let datatype = Datatype::resolve(datatype.raw())?;
            datatype::check_buffer(buf.addr(), 1, &datatype, argument)?;
            datatype.bounds(1)
        }
    };
    // SAFETY: passed on to the caller.
    Ok(unsafe { Region::user(buf, bounds) })
}

/// MPI_Fetch_and_op.
///
/// # Safety
/// `origin_addr` is readable for one element of `datatype`, unless `op` is `MPI_NO_OP`;
/// `result_addr` is writable for one.
#[inline(always)]
pub unsafe fn mpi_fetch_and_op(
    origin_addr: *const c_void,
    result_addr: *mut c_void,
    datatype: MPI_Datatype,
    target_rank: c_int,
    target_disp: MPI_Aint,
    op: MPI_Op,
    win: MPI_Win,
) -> Result<()> {
    let place = (target_rank, target_disp);
    // SAFETY: as the caller promises; the operation is complete when this returns.
    unsafe {
        let origin = match op.raw() {
            c::NO_OP => Some(Region::null()),
            _ => dense_element(origin_addr, datatype),
        };
        if let (Some(origin), Some(result)) = (origin, dense_element(result_addr, datatype)) {
            let call = element_call(datatype, place, &origin, &result);
            if fast_path::fetch_and_op(win.0, op.raw(), call).is_some() {
                return Ok(());
            }
        }
        fetch_and_op(origin_addr, result_addr, datatype, place, op, win)
    }
}

/// As [`mpi_fetch_and_op`], for any memory and datatype.
#[inline(never)]
unsafe fn fetch_and_op(
    origin_addr: *const c_void,
    result_addr: *mut c_void,
    datatype: MPI_Datatype,
    (rank, disp): (c_int, MPI_Aint),
    op: MPI_Op,
    win: MPI_Win,
) -> Result<()> {
    // SAFETY: as the caller promises; the operation is complete when this returns.
    let (origin, result) = unsafe {
        let origin = match op.raw() {
            c::NO_OP => Region::null(),
            _ => element(origin_addr, datatype, "origin_addr")?,
        };
        (origin, element(result_addr, datatype, "result_addr")?)
    };
    let element = SingleElement { datatype: datatype.raw(), rank, disp, result: &result };
    window::fetch_and_op(win.raw(), op.raw(), &element, &origin)
}

/// MPI_Compare_and_swap.
///
/// # Safety
/// `origin_addr` and `compare_addr` are readable for one element of `datatype`, `result_addr` is
/// writable for one.
#[inline(always)]
pub unsafe fn mpi_compare_and_swap(
    origin_addr: *const c_void,
    compare_addr: *const c_void,
    result_addr: *mut c_void,
    datatype: MPI_Datatype,
    target_rank: c_int,
    target_disp: MPI_Aint,
    win: MPI_Win,
) -> Result<()> {
    let place = (target_rank, target_disp);
    let buffers = (origin_addr, compare_addr, result_addr);
    // SAFETY: as the caller promises; the operation is complete when this returns.
    unsafe {
        if let Some(origin) = dense_element(origin_addr, datatype)
            && let Some(compare) = dense_element(compare_addr, datatype)
            && let Some(result) = dense_element(result_addr, datatype)
        {
            let call = element_call(datatype, place, &origin, &result);
            if fast_path::compare_and_swap(win.0, call, compare.at(0)).is_some() {
                return Ok(());
            }
        }
        compare_and_swap(buffers, datatype, place, win)
    }
}

/// As [`mpi_compare_and_swap`], for any memory and datatype.
#[inline(never)]
unsafe fn compare_and_swap(
    (origin_addr, compare_addr, result_addr): (*const c_void, *const c_void, *mut c_void),
    datatype: MPI_Datatype,
    (rank, disp): (c_int, MPI_Aint),
    win: MPI_Win,
) -> Result<()> {
    // SAFETY: as the caller promises; the operation is complete when this returns.
    let (origin, compare, result) = unsafe {
        (
            element(origin_addr, datatype, "origin_addr")?,
            element(compare_addr, datatype, "compare_addr")?,
            element(result_addr, datatype, "result_addr")?,
        )
    };
    let element = SingleElement { datatype: datatype.raw(), rank, disp, result: &result };
    window::compare_and_swap(win.raw(), &element, &origin, &compare)
}
