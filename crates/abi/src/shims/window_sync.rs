//! Synchronization of windows (MPI 5.0, 12.5). Some calls have a [leaf](super::rma_leaf).

use std::ffi::c_int;

use mica_mpi::Result;
use mica_mpi::group::Group;
use mica_mpi::window::{self, FlushedSide, Window};

use crate::convert::{Out, flag};
use crate::types::*;

/// MPI_Win_fence.
pub fn mpi_win_fence(assert: c_int, win: MPI_Win) -> Result<()> {
    window::with(win.raw(), |window| window.fence(assert))
}

/// MPI_Win_start.
pub fn mpi_win_start(group: MPI_Group, assert: c_int, win: MPI_Win) -> Result<()> {
    window::with(win.raw(), |window| {
        window.start(&Group::resolve(group.raw())?, assert)
    })
}

/// MPI_Win_complete.
pub fn mpi_win_complete(win: MPI_Win) -> Result<()> {
    window::with(win.raw(), Window::complete)
}

/// MPI_Win_post.
pub fn mpi_win_post(group: MPI_Group, assert: c_int, win: MPI_Win) -> Result<()> {
    window::with(win.raw(), |window| {
        window.post(&Group::resolve(group.raw())?, assert)
    })
}

/// MPI_Win_wait.
pub fn mpi_win_wait(win: MPI_Win) -> Result<()> {
    window::with(win.raw(), Window::wait)
}

/// MPI_Win_test.
///
/// # Safety
/// `found` is null or writable.
pub unsafe fn mpi_win_test(win: MPI_Win, found: *mut c_int) -> Result<()> {
    // SAFETY: as the caller promises.
    let found = unsafe { Out::new(found, "flag")? };
    found.set(flag(window::with(win.raw(), Window::test)?));
    Ok(())
}

/// MPI_Win_lock.
pub fn mpi_win_lock(lock_type: c_int, rank: c_int, assert: c_int, win: MPI_Win) -> Result<()> {
    window::with(win.raw(), |window| window.lock(lock_type, rank, assert))
}

/// MPI_Win_lock_all.
pub fn mpi_win_lock_all(assert: c_int, win: MPI_Win) -> Result<()> {
    window::with(win.raw(), |window| window.lock_all(assert))
}

/// MPI_Win_unlock.
pub fn mpi_win_unlock(rank: c_int, win: MPI_Win) -> Result<()> {
    window::with(win.raw(), |window| window.unlock(rank))
}

/// MPI_Win_unlock_all.
pub fn mpi_win_unlock_all(win: MPI_Win) -> Result<()> {
    window::with(win.raw(), Window::unlock_all)
}

/// MPI_Win_flush.
pub fn mpi_win_flush(rank: c_int, win: MPI_Win) -> Result<()> {
    window::with(win.raw(), |window| {
        window.flush(Some(rank), FlushedSide::Both)
    })
}

/// MPI_Win_flush_all.
pub fn mpi_win_flush_all(win: MPI_Win) -> Result<()> {
    window::with(win.raw(), |window| window.flush(None, FlushedSide::Both))
}

/// MPI_Win_flush_local.
pub fn mpi_win_flush_local(rank: c_int, win: MPI_Win) -> Result<()> {
    window::with(win.raw(), |window| {
        window.flush(Some(rank), FlushedSide::Origin)
    })
}

/// MPI_Win_flush_local_all.
pub fn mpi_win_flush_local_all(win: MPI_Win) -> Result<()> {
    window::with(win.raw(), |window| window.flush(None, FlushedSide::Origin))
}

/// MPI_Win_sync.
pub fn mpi_win_sync(win: MPI_Win) -> Result<()> {
    window::with(win.raw(), Window::sync)
}
