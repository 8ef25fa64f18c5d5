//! Leaves of one-sided calls: what programs mostly do, an operation on few bytes that loads and
//! stores reach in an epoch that is open, and the calls around it. Operations, lock, unlock and
//! flush take neither frame nor call ([`export`](crate::export)); `None`: nothing was done, and the
//! shim of the call does it all (that of a fence, the rest).
#![allow(clippy::too_many_arguments, reason = "the argument lists are MPI's own")]

use std::ffi::{c_int, c_void};

use mica_memory::Region;
use mica_mpi::datatype;
use mica_mpi::window::fast_path::{self, SumOfEight};

use super::rma_sides::TargetElements;
use crate::elements::UserElements;
use crate::types::*;

/// The caller's memory of an element of 8 bytes; `None` if it is null.
///
/// # Safety
/// The obligations of [`Region::user`] for them.
#[inline(always)]
unsafe fn eight(address: *const c_void) -> Option<Region> {
    // SAFETY: passed on to the caller.
    (!address.is_null()).then(|| unsafe { Region::user(address, 0..8) })
}

/// MPI_Put.
///
/// # Safety
/// As for [`mpi_put`](super::rma::mpi_put).
#[inline(always)]
pub unsafe fn leaf_put(origin: UserElements, target: TargetElements, win: MPI_Win) -> Option<()> {
    // SAFETY: as the caller promises; the operation is complete when this returns.
    let (here, there) = unsafe { target.few_bytes(origin)? };
    fast_path::put(win.0, here.at(0), there)
}

/// MPI_Get.
///
/// # Safety
/// As for [`mpi_get`](super::rma::mpi_get).
#[inline(always)]
pub unsafe fn leaf_get(origin: UserElements, target: TargetElements, win: MPI_Win) -> Option<()> {
    // SAFETY: as the caller promises; the operation is complete when this returns.
    let (here, there) = unsafe { target.few_bytes(origin)? };
    fast_path::get(win.0, here.at(0), there)
}

/// MPI_Accumulate.
///
/// # Safety
/// As for [`mpi_accumulate`](super::rma::mpi_accumulate).
#[inline(always)]
pub unsafe fn leaf_accumulate(
    origin: UserElements,
    target: TargetElements,
    op: MPI_Op,
    win: MPI_Win,
) -> Option<()> {
    if !origin.count == 1 || !target.is_one() || origin.datatype != target.datatype {
        return None;
    }
    let sum = SumOfEight::of(op.raw(), origin.datatype.raw())?;
    // SAFETY: as the caller promises; the operation is complete when this returns.
    let element = unsafe { eight(origin.address)? };
    fast_path::accumulate_eight(win.0, sum, target.place(), element.at(0))
}

/// MPI_Fetch_and_op.
///
/// # Safety
/// As for [`mpi_fetch_and_op`](super::rma_element::mpi_fetch_and_op).
#[inline(always)]
pub unsafe fn leaf_fetch_and_op(
    origin_addr: *const c_void,
    result_addr: *mut c_void,
    datatype: MPI_Datatype,
    rank: c_int,
    disp: MPI_Aint,
    op: MPI_Op,
    win: MPI_Win,
) -> Option<()> {
    let sum = SumOfEight::of(op.raw(), datatype.raw())?;
    // SAFETY: as the caller promises; the operation is complete when this returns.
    let (origin, result) = unsafe { (eight(origin_addr)?, eight(result_addr)?) };
    fast_path::fetch_and_sum_eight(win.0, sum, (rank, disp), origin.at(0), result.at(0))
}

/// MPI_Compare_and_swap.
///
/// # Safety
/// As for [`mpi_compare_and_swap`](super::rma_element::mpi_compare_and_swap).
#[inline(always)]
pub unsafe fn leaf_compare_and_swap(
    origin_addr: *const c_void,
    compare_addr: *const c_void,
    result_addr: *mut c_void,
    datatype: MPI_Datatype,
    rank: c_int,
    disp: MPI_Aint,
    win: MPI_Win,
) -> Option<()> {
    if !datatype::is_integer_of_eight(datatype.raw()) {
        return None;
    }
    // SAFETY: as the caller promises; the operation is complete when this returns.
    let (origin, compare, result) =
        unsafe { (eight(origin_addr)?, eight(compare_addr)?, eight(result_addr)?) };
    let values = [origin.at(0), compare.at(0), result.at(0)];
    fast_path::compare_and_swap_eight(win.0, (rank, disp), values)
}

/// MPI_Win_flush.
#[inline(always)]
pub fn leaf_win_flush(rank: c_int, win: MPI_Win) -> Option<()> {
    fast_path::flush(win.0, rank)
}

/// MPI_Win_flush_local.
#[inline(always)]
pub fn leaf_win_flush_local(rank: c_int, win: MPI_Win) -> Option<()> {
    fast_path::flush_local(win.0, rank)
}

/// MPI_Win_lock.
#[inline(always)]
pub fn leaf_win_lock(lock_type: c_int, rank: c_int, assert: c_int, win: MPI_Win) -> Option<()> {
    fast_path::lock(win.0, lock_type, rank, assert)
}

/// MPI_Win_unlock.
#[inline(always)]
pub fn leaf_win_unlock(rank: c_int, win: MPI_Win) -> Option<()> {
    fast_path::unlock(win.0, rank)
}

/// MPI_Win_fence.
#[inline(always)]
pub fn leaf_win_fence(assert: c_int, win: MPI_Win) -> Option<()> {
    fast_path::fence(win.0, assert)
}

/// MPI_Win_post.
#[inline(always)]
pub fn leaf_win_post(group: MPI_Group, assert: c_int, win: MPI_Win) -> Option<()> {
    fast_path::post(win.0, group.raw(), assert)
}

/// MPI_Win_start.
#[inline(always)]
pub fn leaf_win_start(group: MPI_Group, assert: c_int, win: MPI_Win) -> Option<()> {
    fast_path::start(win.0, group.raw(), assert)
}

/// MPI_Win_complete.
#[inline(always)]
pub fn leaf_win_complete(win: MPI_Win) -> Option<()> {
    fast_path::complete(win.0)
}

/// MPI_Win_wait.
#[inline(always)]
pub fn leaf_win_wait(win: MPI_Win) -> Option<()> {
    fast_path::wait(win.0)
}
