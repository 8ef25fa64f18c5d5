//! Windows: freeing them, and what they carry (MPI 5.0, 12.2, 7.7.3).

use std::ffi::{c_int, c_void};

use mica_mpi::Result;
use mica_mpi::constants as c;
use mica_mpi::window::Window;

use crate::convert::{Out, flag};
use crate::raise::{ErrorOn, ErrorTarget};
use crate::types::*;

/// MPI_Win_free.
///
/// # Safety
/// `win` is null or points to a handle that may be overwritten.
pub unsafe fn mpi_win_free(win: *mut MPI_Win) -> std::result::Result<(), ErrorOn> {
    // SAFETY: as the caller promises.
    let win = unsafe { Out::new(win, "win")? };
    let handle = win.get().raw();
    let handler = Window::resolve(handle)?.errhandler();
    let freed = Window::free(handle);
    // It is gone even if an operation on it has failed; that is raised by its handler.
    if freed.is_ok() || Window::resolve(handle).is_err() {
        win.set(MPI_Win::from_raw(c::WIN_NULL));
    }
    freed.map_err(|error| ErrorOn::for_handler(handler, ErrorTarget::Win(handle), error))
}

/// MPI_Win_get_attr.
///
/// # Safety
/// `attribute_val` is null or writable for a word, `found` null or writable.
pub unsafe fn mpi_win_get_attr(
    win: MPI_Win,
    win_keyval: c_int,
    attribute_val: *mut c_void,
    found: *mut c_int,
) -> Result<()> {
    // SAFETY: as the caller promises.
    let (place, found) = unsafe {
        (Out::new(attribute_val.cast::<usize>(), "attribute_val")?, Out::new(found, "flag")?)
    };
    let window = Window::resolve(win.raw())?;
    let predefined = window.predefined();
    // C gets the addresses of the numbers, which stay as long as the window.
    let value = match win_keyval {
        c::WIN_BASE => Some(predefined.base),
        c::WIN_SIZE => Some((&raw const predefined.size).expose_provenance()),
        c::WIN_DISP_UNIT => Some((&raw const predefined.disp_unit).expose_provenance()),
        c::WIN_CREATE_FLAVOR => Some((&raw const predefined.flavor).expose_provenance()),
        c::WIN_MODEL => Some((&raw const predefined.model).expose_provenance()),
        _ => window.attribute(win_keyval)?,
    };
    if let Some(value) = value {
        place.set(value);
    }
    found.set(flag(value.is_some()));
    Ok(())
}
