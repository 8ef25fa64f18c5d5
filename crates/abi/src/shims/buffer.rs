//! The buffers of buffered sends (MPI 5.0, 3.6).

use std::ffi::c_void;

use mica_mpi::Result;
use mica_mpi::buffered::{self, BufferOwner};

use crate::convert::Out;
use crate::poly::PolyOut;

/// Detaches the buffer of `owner` and returns its address and size to the caller.
///
/// # Safety
/// `buffer_addr` is null or writable for a pointer, `size` is null or writable.
pub unsafe fn detach(owner: BufferOwner, buffer_addr: *mut c_void, size: PolyOut) -> Result<()> {
    // SAFETY: as the caller promises.
    let place = unsafe { Out::new(buffer_addr.cast::<*mut c_void>(), "buffer_addr")? };
    let (address, bytes) = buffered::detach(owner)?;
    place.set(std::ptr::with_exposed_provenance_mut(address));
    if !size.is_null() {
        // SAFETY: as the caller promises. What was attached as an int fits one.
        unsafe { size.set_or_undefined(0, bytes) };
    }
    Ok(())
}
