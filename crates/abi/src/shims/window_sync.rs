//! Locks and flushes of windows (MPI 5.0, 12.5) for which their [leaf](super::rma_leaf) is not
//! enough.

use std::ffi::c_int;

use mica_mpi::Result;
use mica_mpi::window::{self, FlushedSide, fast_path};

use crate::types::*;

/// MPI_Win_lock.
pub fn mpi_win_lock(lock_type: c_int, rank: c_int, assert: c_int, win: MPI_Win) -> Result<()> {
    window::with(win.raw(), |window| window.lock(lock_type, rank, assert))
}

/// MPI_Win_unlock.
pub fn mpi_win_unlock(rank: c_int, win: MPI_Win) -> Result<()> {
    match fast_path::unlock_contended(win.0, rank) {
        Some(()) => Ok(()),
        None => window::with(win.raw(), |window| window.unlock(rank)),
    }
}

/// MPI_Win_flush.
pub fn mpi_win_flush(rank: c_int, win: MPI_Win) -> Result<()> {
    window::with(win.raw(), |window| window.flush(Some(rank), FlushedSide::Both))
}

/// MPI_Win_flush_local.
pub fn mpi_win_flush_local(rank: c_int, win: MPI_Win) -> Result<()> {
    window::with(win.raw(), |window| window.flush(Some(rank), FlushedSide::Origin))
}
