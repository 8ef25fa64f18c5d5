//! Start, end, versions, hardware, memory (MPI 5.0, chapters 9 and 11).

use std::ffi::{c_char, c_int, c_void};

use mica_mpi::comm::Comm;
use mica_mpi::constants as c;
use mica_mpi::info::Info;
use mica_mpi::init::{self, OneThreadAtATime};
use mica_mpi::process;
use mica_mpi::{Error, Result};

use crate::convert::Out;
use crate::late;
use crate::types::*;

/// MPI_Init. The program's arguments are ignored and left unchanged.
///
/// # Safety
/// No two threads call MPI at once, as `MPI_THREAD_SINGLE` demands.
pub unsafe fn mpi_init(_argc: *mut c_int, _argv: *mut *mut *mut c_char) -> Result<()> {
    // SAFETY: as the caller promises.
    unsafe { start(c::THREAD_SINGLE) }.map(drop)
}

/// MPI_Init_thread.
///
/// # Safety
/// `provided` is null or writable. No two threads call MPI at once, unless `required` is
/// `MPI_THREAD_MULTIPLE`.
pub unsafe fn mpi_init_thread(
    _argc: *mut c_int,
    _argv: *mut *mut *mut c_char,
    required: c_int,
    provided: *mut c_int,
) -> Result<()> {
    // SAFETY: as the caller promises.
    let provided = unsafe { Out::new(provided, "provided")? };
    // SAFETY: as the caller promises.
    provided.set(unsafe { start(required)? });
    Ok(())
}

/// # Safety
/// No two threads call MPI at once, unless `required` is `MPI_THREAD_MULTIPLE`.
unsafe fn start(required: c_int) -> Result<c_int> {
    late::prepare();
    let single = required != c::THREAD_MULTIPLE;
    // SAFETY: as the caller promises. If several threads call MPI one after another, the
    // synchronization that orders the calls orders their accesses, too.
    let promise = single.then(|| unsafe { OneThreadAtATime::promised() });
    init::init(required, promise)
}

/// MPI_Abort: ends the whole job, whatever the communicator.
pub fn mpi_abort(comm: MPI_Comm, errorcode: c_int) -> Result<()> {
    // A wrong communicator does not prevent the abort, and its error cannot be returned.
    let _ = Comm::resolve(comm.raw());
    process::abort(errorcode)
}

/// A cache line, so that buffers do not share one by accident.
const ALIGNMENT: usize = 64;

/// MPI_Alloc_mem. The hint `mpi_minimum_memory_alignment` is respected.
///
/// # Safety
/// `baseptr` is null or writable for a pointer.
pub unsafe fn mpi_alloc_mem(size: MPI_Aint, info: MPI_Info, baseptr: *mut c_void) -> Result<()> {
    // SAFETY: as the caller promises.
    let baseptr = unsafe { Out::new(baseptr.cast::<*mut c_void>(), "baseptr")? };
    let bytes = usize::try_from(size)
        .map_err(|_| Error::argument(c::ERR_ARG, "size", size, "a size is not negative"))?;
    let hint = Info::resolve_hints(info.raw())?.lookup("mpi_minimum_memory_alignment");
    let alignment = match hint {
        None => ALIGNMENT,
        Some(text) => match text.trim().parse::<usize>() {
            Ok(wanted) if wanted.is_power_of_two() => wanted.max(ALIGNMENT),
            _ => {
                let reason = "mpi_minimum_memory_alignment must be a power of two";
                return Err(Error::argument(c::ERR_INFO_VALUE, "info", text, reason));
            }
        },
    };
    let mut memory = std::ptr::null_mut();
    // SAFETY: the alignment is a power of two and a multiple of a pointer's size; the function only
    // writes `memory`.
    let refused = unsafe { libc::posix_memalign(&raw mut memory, alignment, bytes.max(1)) };
    if refused != 0 {
        return Err(Error::OutOfMemory { bytes: bytes as u64, what: "MPI_Alloc_mem" });
    }
    baseptr.set(memory);
    Ok(())
}

/// MPI_Free_mem.
///
/// # Safety
/// `base` is null or came from `MPI_Alloc_mem` and was not freed yet.
pub unsafe fn mpi_free_mem(base: *mut c_void) -> Result<()> {
    // SAFETY: as the caller promises; `MPI_Alloc_mem` has its memory from `posix_memalign`.
    unsafe { libc::free(base) };
    Ok(())
}
