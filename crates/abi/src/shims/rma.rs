//! One-sided operations on any number of elements (MPI 5.0, 12.3). Those on one are in
//! [`rma_element`](super::rma_element).

use mica_memory::{FEW_BYTES, Shape, View};
use mica_mpi::Result;
use mica_mpi::constants as c;
use mica_mpi::window::fast_path;
use mica_mpi::window::{self, AccumulateCompletion, AccumulateOperands};

use super::rma_sides::{ORIGIN, RESULT, TargetElements};
use crate::elements::UserElements;
use crate::types::*;

/// MPI_Put.
///
/// # Safety
/// The elements of `origin` are readable, until the next flush
/// or the end of the epoch.
#[inline(always)]
pub unsafe fn mpi_put(origin: UserElements, target: TargetElements, win: MPI_Win) -> Result<()> {
    // SAFETY: as the caller promises; the operation is complete when this returns.
    if let Some((here, there)) = unsafe { target.same_bytes(origin) } {
        let put = match there.bytes > FEW_BYTES {
            true => fast_path::put(win.0, here.at(0), there),
            // The leaf has tried that.
            false => fast_path::put_before_post(win.0, here.at(0), there),
        };
        if put.is_some() {
            return Ok(());
        }
    }
    // SAFETY: as the caller promises.
    unsafe { put(origin, target, win) }
}

/// As [`mpi_put`], for any memory and datatypes.
///
/// # Safety
/// As for [`mpi_put`].
#[inline(never)]
unsafe fn put(origin: UserElements, target: TargetElements, win: MPI_Win) -> Result<()> {
    let there = target.range()?;
    // SAFETY: as the caller promises; until the next flush or the end of the epoch, where the
    // operation goes on (MPI 5.0, 12.3).
    let here = unsafe { origin.view_as(&ORIGIN)? };
    window::put(win.raw(), &here, &there)
}

/// MPI_Get.
///
/// # Safety
/// The elements of `origin` are writable, until the next flush
/// or the end of the epoch.
#[inline(always)]
pub unsafe fn mpi_get(origin: UserElements, target: TargetElements, win: MPI_Win) -> Result<()> {
    // SAFETY: as the caller promises; the operation is complete when this returns.
    if let Some((here, there)) = unsafe { target.same_bytes(origin) }
        && fast_path::get(win.0, here.at(0), there).is_some()
    {
        return Ok(());
    }
    // SAFETY: as the caller promises.
    unsafe { get(origin, target, win) }
}

/// As [`mpi_get`], for any memory and datatypes.
///
/// # Safety
/// As for [`mpi_get`].
#[inline(never)]
unsafe fn get(origin: UserElements, target: TargetElements, win: MPI_Win) -> Result<()> {
    let there = target.range()?;
    // SAFETY: as the caller promises; until the next flush or the end of the epoch, where the
    // operation goes on (MPI 5.0, 12.3).
    let here = unsafe { origin.view_as(&ORIGIN)? };
    window::get(win.raw(), &here, &there)
}

/// MPI_Accumulate.
///
/// # Safety
/// The elements of `origin` are readable.
#[inline(always)]
pub unsafe fn mpi_accumulate(
    origin: UserElements,
    target: TargetElements,
    op: MPI_Op,
    win: MPI_Win,
) -> Result<()> {
    let datatype = target.datatype.raw();
    // SAFETY: as the caller promises; the operation is complete when this returns.
    if let Some((here, there)) = unsafe { target.same_bytes(origin) }
        && fast_path::accumulate(win.0, op.raw(), datatype, here.at(0), there).is_some()
    {
        return Ok(());
    }
    // SAFETY: as the caller promises.
    unsafe {
        accumulate(origin, target, op.raw(), win.raw(), AccumulateCompletion::OnReturn).map(drop)
    }
}

/// As [`mpi_accumulate`], for any memory and datatypes; returns the handle of a request, if it is
/// complete by one.
///
/// # Safety
/// As for [`mpi_accumulate`], until the request is complete.
#[inline(never)]
pub unsafe fn accumulate(
    origin: UserElements,
    target: TargetElements,
    op: u32,
    win: u32,
    completion: AccumulateCompletion,
) -> Result<u32> {
    let there = target.range()?;
    // SAFETY: as the caller promises.
    let here = unsafe { origin.view_as(&ORIGIN)? };
    let operands = AccumulateOperands {
        origin: &here,
        origin_datatype: origin.datatype.raw(),
        result: None,
        target_datatype: target.datatype.raw(),
        op,
    };
    window::accumulate(win, &operands, &there, completion)
}

/// MPI_Get_accumulate, MPI_Rget_accumulate: the handle of a request, if it completes by one.
///
/// # Safety
/// The elements of `origin` are readable, unless `op` is `MPI_NO_OP`; those of `result` are
/// writable.
pub unsafe fn get_accumulate(
    (origin, result): (UserElements, UserElements),
    target: TargetElements,
    op: u32,
    win: u32,
    completion: AccumulateCompletion,
) -> Result<u32> {
    let to = target.range()?;
    // SAFETY: as the caller promises. MPI_NO_OP uses no origin.
    let (from, into) = unsafe {
        let from = match op {
            c::NO_OP => View::user(std::ptr::null(), Shape::Contiguous { bytes: 0 }),
            _ => origin.view_as(&ORIGIN)?,
        };
        (from, result.view_as(&RESULT)?)
    };
    let operands = AccumulateOperands {
        origin: &from,
        origin_datatype: origin.datatype.raw(),
        result: Some((&into, result.datatype.raw())),
        target_datatype: target.datatype.raw(),
        op,
    };
    window::accumulate(win, &operands, &to, completion)
}
