//! Calls that are a method of the library, and nothing else: what their generated exports
//! (`bindings/methods.py`) convert arguments and results by.

use mica_mpi::Result;

use crate::convert::{ArrayLength, Out, Returned, check_array};
use crate::poly::PolyArray;
use crate::types::*;

pub use crate::convert::{slice, text};
pub use crate::status;
pub use mica_mpi::attribute::AttributeOwner;
pub use mica_mpi::buffered::{self, BufferOwner};
pub use mica_mpi::comm::{Comm, hardware_resources};
pub use mica_mpi::datatype::Datatype;
pub use mica_mpi::errhandler::{Errhandler, file_errhandler, set_file_errhandler};
pub use mica_mpi::generalized::complete as complete_generalized;
pub use mica_mpi::group::Group;
pub use mica_mpi::info::Info;
pub use mica_mpi::op::Op;
pub use mica_mpi::session::Session;
pub use mica_mpi::window::{FlushedSide, Window, with as with_window};
pub use mica_mpi::{error_codes, init, process};

/// Calls a method that has no result.
pub fn perform(call: impl FnOnce() -> Result<()>) -> Result<()> {
    call()
}

/// Calls a method, and stores its result at `place`, the argument `argument`.
///
/// # Safety
/// `place` is null or writable.
pub unsafe fn give<C, R: Returned<C>>(
    place: *mut C,
    argument: &'static str,
    call: impl FnOnce() -> Result<R>,
) -> Result<()> {
    // SAFETY: as the caller promises.
    let place = unsafe { Out::new(place, argument)? };
    place.give(call()?)
}

/// The caller's array of counts or displacements.
///
/// # Safety
/// `list` is null or has `length` elements.
pub unsafe fn numbers(
    list: PolyArray,
    length: impl ArrayLength,
    argument: &'static str,
    of_length: &'static str,
) -> Result<Vec<i64>> {
    let length = length.elements(of_length)?;
    check_array(list.as_ptr(), length, argument)?;
    // SAFETY: by the contract above, and not null if it has elements.
    Ok(unsafe { list.to_vec(length) })
}

/// The datatypes of the caller's array.
///
/// # Safety
/// As for [`slice()`].
pub unsafe fn datatypes(
    list: *const MPI_Datatype,
    length: impl ArrayLength,
    argument: &'static str,
    of_length: &'static str,
) -> Result<Vec<Datatype>> {
    // SAFETY: by the contract above.
    let handles = unsafe { slice(list, length, argument, of_length)? };
    let resolved = handles.iter().map(|h| Datatype::resolve_as(h.raw(), argument));
    resolved.collect()
}
