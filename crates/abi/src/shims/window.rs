//! Windows: making and freeing them, and what they carry (MPI 5.0, 12.2, 7.7.3, 7.8, 9.3.2).

use std::ffi::{c_int, c_void};

use mica_memory::Region;
use mica_mpi::Result;
use mica_mpi::comm::Comm;
use mica_mpi::constants as c;
use mica_mpi::info::Info;
use mica_mpi::window::{self, Window, WindowSpec};

use crate::convert::{Out, flag};
use crate::raise::{ErrorOn, ErrorTarget};
use crate::types::*;

/// The program's memory for a window: `size` bytes at `base`.
///
/// # Safety
/// The obligations of [`Region::user`] for these bytes, until the window is freed or the memory is
/// detached; but other ranks may access them meanwhile, as the window's synchronization says.
unsafe fn exposed(base: *const c_void, size: MPI_Aint) -> Region {
    // SAFETY: passed on to the caller.
    unsafe { Region::user(base, 0..size.max(0)) }
}

/// Makes a window, and stores its handle.
///
/// # Safety
/// `win` is null or writable.
unsafe fn create(
    spec: &WindowSpec,
    info: MPI_Info,
    comm: MPI_Comm,
    win: *mut MPI_Win,
) -> Result<Window> {
    // SAFETY: as the caller promises.
    let win = unsafe { Out::new(win, "win")? };
    let comm = Comm::resolve(comm.raw())?;
    let window = window::create(&comm, spec, &Info::resolve_hints(info.raw())?)?;
    win.set(MPI_Win::from_raw(window.handle()));
    Ok(window)
}

/// MPI_Win_create.
///
/// # Safety
/// `base` is readable and writable for `size` bytes until the window is freed; `win` is null or
/// writable.
pub unsafe fn mpi_win_create(
    base: *mut c_void,
    size: MPI_Aint,
    disp_unit: MPI_Count,
    info: MPI_Info,
    comm: MPI_Comm,
    win: *mut MPI_Win,
) -> Result<()> {
    // SAFETY: as the caller promises.
    unsafe {
        let spec =
            WindowSpec::Create { memory: exposed(base, size), bytes: size as i64, unit: disp_unit };
        create(&spec, info, comm, win)?;
    }
    Ok(())
}

/// MPI_Win_allocate.
///
/// # Safety
/// `baseptr` is null or writable for an address, `win` null or writable.
pub unsafe fn mpi_win_allocate(
    size: MPI_Aint,
    disp_unit: MPI_Count,
    info: MPI_Info,
    comm: MPI_Comm,
    baseptr: *mut c_void,
    win: *mut MPI_Win,
) -> Result<()> {
    let spec = WindowSpec::Allocate { bytes: size as i64, unit: disp_unit };
    // SAFETY: as the caller promises.
    unsafe { allocate(&spec, info, comm, baseptr, win) }
}

/// MPI_Win_allocate_shared.
///
/// # Safety
/// `baseptr` is null or writable for an address, `win` null or writable.
pub unsafe fn mpi_win_allocate_shared(
    size: MPI_Aint,
    disp_unit: MPI_Count,
    info: MPI_Info,
    comm: MPI_Comm,
    baseptr: *mut c_void,
    win: *mut MPI_Win,
) -> Result<()> {
    let spec = WindowSpec::Shared { bytes: size as i64, unit: disp_unit };
    // SAFETY: as the caller promises.
    unsafe { allocate(&spec, info, comm, baseptr, win) }
}

/// # Safety
/// `baseptr` is null or writable for an address, `win` null or writable.
unsafe fn allocate(
    spec: &WindowSpec,
    info: MPI_Info,
    comm: MPI_Comm,
    baseptr: *mut c_void,
    win: *mut MPI_Win,
) -> Result<()> {
    // SAFETY: as the caller promises.
    unsafe {
        let baseptr = Out::new(baseptr.cast::<*mut c_void>(), "baseptr")?;
        let window = create(spec, info, comm, win)?;
        baseptr.set(std::ptr::with_exposed_provenance_mut(window.predefined().base));
    }
    Ok(())
}

/// MPI_Win_create_dynamic.
///
/// # Safety
/// `win` is null or writable.
pub unsafe fn mpi_win_create_dynamic(
    info: MPI_Info,
    comm: MPI_Comm,
    win: *mut MPI_Win,
) -> Result<()> {
    // SAFETY: as the caller promises.
    unsafe { create(&WindowSpec::Dynamic, info, comm, win)? };
    Ok(())
}

/// MPI_Win_attach.
///
/// # Safety
/// `base` is readable and writable for `size` bytes until it is detached.
pub unsafe fn mpi_win_attach(win: MPI_Win, base: *mut c_void, size: MPI_Aint) -> Result<()> {
    // SAFETY: as the caller promises.
    let memory = unsafe { exposed(base, size) };
    window::attach(win.raw(), &memory, size as i64)
}

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
