//! Calls that are a method of the library, and nothing else: what their generated exports
//! (`bindings/methods.py`) convert arguments and results by.

use std::ffi::{c_char, c_int, c_void};

use mica_memory::{Region, try_collect, try_collect_valid};
use mica_mpi::status::Status;
use mica_mpi::window::fast_path;
use mica_mpi::{Error, Result};

use crate::convert::{
    ArrayLength, Out, Returned, check_array, check_place, length, put_text, slice_mut,
};
use crate::poly::{CountForm, PolyArray, PolyOut};
use crate::shims::pt2pt::put_status;
use crate::types::*;

pub use crate::convert::{path, slice, text};
pub use crate::elements::{RECEIVE, SEND, UserElements, partitions_at};
pub use crate::shims::rma_sides::ORIGIN;
pub use crate::status;
pub use mica_mpi::attribute::AttributeOwner;
pub use mica_mpi::buffered::{self, BufferOwner};
pub use mica_mpi::comm::{Comm, hardware_resources};
pub use mica_mpi::constants as c;
pub use mica_mpi::datatype::{Datatype, match_size, value_index};
pub use mica_mpi::errhandler::Errhandler;
pub use mica_mpi::file::{
    AccessDirection, AccessPosition, Coordination, File, SplitCall, delete as delete_file,
    open as open_file, start as start_access, status_of,
};
pub use mica_mpi::generalized::complete as complete_generalized;
pub use mica_mpi::group::Group;
pub use mica_mpi::info::{Info, node_name};
pub use mica_mpi::op::Op;
pub use mica_mpi::partitioned::{precv_init, psend_init};
pub use mica_mpi::pt2pt::{self as messages, Mode};
pub use mica_mpi::raise::{self, ErrorTarget};
pub use mica_mpi::request::{Request, free as free_request};
pub use mica_mpi::session::Session;
pub use mica_mpi::topology::{Reordering, Topology};
pub use mica_mpi::window::{
    AccumulateCompletion, FlushedSide, Window, WindowSpec, attach as attach_to_window,
    create as create_window, detach as detach_window, rget, rput, with as with_window,
};
pub use mica_mpi::{dynamic, error_codes, init, persistent, process};

/// Calls a method that has no result.
pub fn perform(call: impl FnOnce() -> Result<()>) -> Result<()> {
    call()
}

/// Calls a method, and stores its result at the place, or its results at the places, that the
/// arguments `names` are.
///
/// # Safety
/// The places are null or writable.
#[inline]
pub unsafe fn give<R, P: Place<R>>(
    place: P,
    names: P::Names,
    call: impl FnOnce() -> Result<R>,
) -> Result<()> {
    place.check(names)?;
    let result = call()?;
    // SAFETY: as the caller promises, and not null.
    unsafe { place.store(names, result) }
}

/// Frees the object of the handle that `place`, the argument `argument`, points to, and makes it
/// null.
///
/// # Safety
/// `place` is null or writable.
pub unsafe fn free<H: NullHandle>(
    place: *mut H,
    argument: &'static str,
    free: impl FnOnce(u32) -> Result<()>,
) -> Result<()> {
    // SAFETY: as the caller promises.
    let place = unsafe { Out::new(place, argument)? };
    free(place.get().raw())?;
    place.set(H::NULL);
    Ok(())
}

/// A handle that becomes null when its object is freed.
pub trait NullHandle: Copy {
    /// The null handle.
    const NULL: Self;
    /// The library's handle.
    fn raw(self) -> u32;
}

macro_rules! null_handles {
    ($($handle:ident $null:ident;)*) => {$(
        impl NullHandle for $handle {
            const NULL: Self = $handle::from_raw(c::$null);
            fn raw(self) -> u32 {
                $handle::raw(self)
            }
        }
    )*};
}

null_handles! {
    MPI_Comm COMM_NULL;
    MPI_Datatype DATATYPE_NULL;
    MPI_Errhandler ERRHANDLER_NULL;
    MPI_Group GROUP_NULL;
    MPI_Info INFO_NULL;
    MPI_Op OP_NULL;
    MPI_Request REQUEST_NULL;
    MPI_T_cvar_handle T_CVAR_HANDLE_NULL;
    MPI_T_pvar_handle T_PVAR_HANDLE_NULL;
    MPI_T_pvar_session T_PVAR_SESSION_NULL;
}

/// Where the caller wants a result, or several.
pub trait Place<R>: Copy {
    /// The arguments, one or as many as there are results.
    type Names: Copy;

    /// Refuses null.
    fn check(self, names: Self::Names) -> Result<()>;

    /// Stores the result.
    ///
    /// # Safety
    /// The place is writable.
    unsafe fn store(self, names: Self::Names, result: R) -> Result<()>;
}

impl<C, R: Returned<C>> Place<R> for *mut C {
    type Names = &'static str;

    fn check(self, name: &'static str) -> Result<()> {
        check_place(self, name)
    }

    unsafe fn store(self, name: &'static str, result: R) -> Result<()> {
        // SAFETY: as the caller promises.
        unsafe { Out::new(self, name) }?.give(result)
    }
}

/// A number that is undefined where it does not fit (`MPI_Type_size`).
impl<R: Returned<MPI_Count>> Place<R> for PolyOut {
    type Names = &'static str;

    fn check(self, name: &'static str) -> Result<()> {
        self.required(name).map(drop)
    }

    unsafe fn store(self, _: &'static str, result: R) -> Result<()> {
        let value = result.into_c()?;
        // SAFETY: as the caller promises.
        unsafe { self.set_or_undefined(0, value) };
        Ok(())
    }
}

/// The caller's status, unless it is null: it does not want one then.
#[derive(Clone, Copy, Debug)]
pub struct StatusIfWanted(pub *mut MPI_Status);

impl Place<Status> for StatusIfWanted {
    type Names = &'static str;

    fn check(self, _: &'static str) -> Result<()> {
        Ok(())
    }

    unsafe fn store(self, _: &'static str, result: Status) -> Result<()> {
        // SAFETY: as the caller promises.
        unsafe { put_status(self.0, &result) };
        Ok(())
    }
}

/// A place that stays as it is where there is no result.
#[derive(Clone, Copy, Debug)]
pub struct IfFound<P>(pub P);

/// As [`IfFound`], for a status, which may not be wanted.
pub fn status_if_found(status: *mut MPI_Status) -> IfFound<StatusIfWanted> {
    IfFound(StatusIfWanted(status))
}

impl<R, P: Place<R>> Place<Option<R>> for IfFound<P> {
    type Names = P::Names;

    fn check(self, names: P::Names) -> Result<()> {
        self.0.check(names)
    }

    unsafe fn store(self, names: P::Names, result: Option<R>) -> Result<()> {
        match result {
            // SAFETY: as the caller promises.
            Some(result) => unsafe { self.0.store(names, result) },
            None => Ok(()),
        }
    }
}

/// The place of a size or position, which an `int` may be too small for.
#[derive(Clone, Copy, Debug)]
pub struct Exact(pub PolyOut);

impl Place<i64> for Exact {
    type Names = &'static str;

    fn check(self, name: &'static str) -> Result<()> {
        self.0.required(name).map(drop)
    }

    unsafe fn store(self, name: &'static str, value: i64) -> Result<()> {
        if !self.0.fits(value) {
            let reason = "it does not fit an int; use the _c form of the call";
            return Err(Error::argument(c::ERR_ARG, name, value, reason));
        }
        // SAFETY: as the caller promises.
        unsafe { self.0.set(0, value) };
        Ok(())
    }
}

/// The caller's array of as many elements as an argument says, whose name comes last.
#[derive(Clone, Copy, Debug)]
pub struct Array(pub *mut c_int, pub c_int, pub &'static str);

impl<T: Returned<c_int>> Place<Vec<T>> for Array {
    type Names = &'static str;

    fn check(self, _: &'static str) -> Result<()> {
        Ok(()) // it may be null where there are no results
    }

    unsafe fn store(self, name: &'static str, results: Vec<T>) -> Result<()> {
        let Array(base, room, argument) = self;
        if length(room, argument)? < results.len() {
            let reason = format!("{} numbers are to be stored", results.len());
            return Err(Error::argument(c::ERR_ARG, argument, room, reason));
        }
        // SAFETY: as the caller promises, and the numbers fit.
        let array = unsafe { slice_mut(base, results.len() as c_int, name, argument)? };
        for (element, result) in array.iter_mut().zip(results) {
            *element = result.into_c()?;
        }
        Ok(())
    }
}

/// The caller's buffer for a string of as many bytes, and the place of its length.
#[derive(Clone, Copy, Debug)]
pub struct Text(pub *mut c_char, pub usize, pub *mut c_int);

impl Place<String> for Text {
    type Names = &'static str;

    fn check(self, name: &'static str) -> Result<()> {
        check_place(self.2, "resultlen")?;
        check_place(self.0, name)
    }

    unsafe fn store(self, name: &'static str, result: String) -> Result<()> {
        let Text(buffer, room, length) = self;
        // SAFETY: as the caller promises.
        unsafe { Out::new(length, "resultlen")?.give(put_text(buffer, room, &result, name)?) }
    }
}

macro_rules! several_places {
    ($($place:ident $result:ident $at:tt),*) => {
        impl<$($result, $place: Place<$result>),*> Place<($($result,)*)> for ($($place,)*) {
            type Names = ($($place::Names,)*);

            fn check(self, names: Self::Names) -> Result<()> {
                $(self.$at.check(names.$at)?;)*
                Ok(())
            }

            unsafe fn store(self, names: Self::Names, results: ($($result,)*)) -> Result<()> {
                // SAFETY: as the caller promises.
                $(unsafe { self.$at.store(names.$at, results.$at)? };)*
                Ok(())
            }
        }
    };
}

several_places!(P R 0, Q S 1);
several_places!(P R 0, Q S 1, O T 2);

/// Calls `f` with the communicator that `handle` names.
///
/// # Errors
/// `MPI_ERR_COMM`; those of `f`.
pub fn with_comm<R>(handle: u32, f: impl FnOnce(&Comm) -> Result<R>) -> Result<R> {
    mica_mpi::comm::with(handle, f)?
}

/// The program's memory for a window: `size` bytes at `base`.
///
/// # Safety
/// The obligations of [`Region::user`] for these bytes, until the window is freed or the memory is
/// detached; but other ranks may access them meanwhile, as the window's synchronization says.
pub unsafe fn window_memory(base: *const c_void, size: MPI_Aint) -> Region {
    // SAFETY: passed on to the caller.
    unsafe { Region::user(base, 0..size.max(0)) }
}

/// Unlocks what its [leaf](crate::shims::rma_leaf) has left.
///
/// # Errors
/// Those of [`Window::unlock`].
pub fn unlock_window(handle: u32, rank: c_int) -> Result<()> {
    match fast_path::unlock_contended(MPI_Win::from_raw(handle).0, rank) {
        Some(()) => Ok(()),
        None => with_window(handle, |window| window.unlock(rank)),
    }
}

/// The name of an object. A null handle has one, too (MPI 5.0, 7.8).
pub fn name_of(
    handle: u32,
    (null, name_of_null): (u32, &str),
    name: impl FnOnce() -> Result<String>,
) -> Result<String> {
    if handle == null { Ok(name_of_null.to_owned()) } else { name() }
}

/// The place of an address.
pub fn address(place: *mut c_void) -> *mut *mut c_void {
    place.cast()
}

/// The logicals of an array.
///
/// # Errors
/// `MPI_ERR_NO_MEM`.
pub fn truths(flags: &[c_int]) -> Result<Vec<bool>> {
    Ok(try_collect(flags.iter().map(|&flag| flag != 0))?)
}

/// The datatype as this form of its constructor makes it (MPI 5.0, 5.1.13).
///
/// # Errors
/// `MPI_ERR_NO_MEM`.
pub fn in_form(datatype: Datatype, form: CountForm) -> Result<Datatype> {
    match form {
        CountForm::Plain => Ok(datatype),
        CountForm::Large => datatype.made_large(),
    }
}

/// Whether ranks may be others in a new communicator.
pub fn reordering(reorder: c_int) -> Reordering {
    match reorder {
        0 => Reordering::Refused,
        _ => Reordering::Allowed,
    }
}

/// What `MPI_Get_library_version` returns.
pub fn library_version() -> String {
    let (library, mpi) = (env!("CARGO_PKG_VERSION"), (c::VERSION, c::SUBVERSION));
    let abi = (c::ABI_VERSION, c::ABI_SUBVERSION);
    format!("Mica {library} (MPI {}.{}, standard ABI {}.{})", mpi.0, mpi.1, abi.0, abi.1)
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
    unsafe { list.to_vec(length) }
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
    try_collect_valid(handles.iter().map(|h| Datatype::resolve_as(h.raw(), argument)))
}

#[cfg(test)]
mod tests {
    use std::ptr::{null, null_mut};

    use super::*;

    #[test]
    fn results_go_to_their_places_and_none_may_be_null() {
        let (mut a, mut b): (c_int, MPI_Count) = (0, 0);
        let mut list = [0; 3];
        let (a_at, b_at, list_at) = (&raw mut a, &raw mut b, list.as_mut_ptr());
        // SAFETY: the places are locals, or null.
        unsafe {
            let both = || Ok((true, Some(7_u64)));
            give((a_at, b_at), ("a", "b"), both).unwrap();
            let error = give((a_at, null_mut::<MPI_Count>()), ("a", "b"), both).unwrap_err();
            assert!(error.to_string().starts_with("b = NULL"), "{error}");
            give(Array(list_at, 3, "n"), "list", || Ok(vec![4, 5])).unwrap();
            let error = give(Array(list_at, 1, "n"), "list", || Ok(vec![4, 5])).unwrap_err();
            assert!(error.to_string().starts_with("n = 1"), "{error}");
        }
        assert_eq!((a, b, list), (1, 7, [4, 5, 0]));
    }

    #[test]
    fn a_call_is_not_made_if_a_place_is_null() {
        // SAFETY: null is refused.
        let none = unsafe { give(null_mut::<c_int>(), "size", || -> Result<c_int> { panic!() }) };
        assert_eq!(none.unwrap_err().code(), c::ERR_ARG);
    }

    #[test]
    fn numbers_that_an_int_cannot_hold_are_undefined() {
        let (mut narrow, mut wide): (c_int, MPI_Count) = (0, 0);
        // SAFETY: the places are locals.
        unsafe {
            give(PolyOut::new(&raw mut narrow), "size", || Ok(1_i64 << 33)).unwrap();
            give(PolyOut::new(&raw mut wide), "size", || Ok(1_i64 << 33)).unwrap();
            assert_eq!((narrow, wide), (c::UNDEFINED, 1 << 33));
            give(PolyOut::new(&raw mut wide), "count", || Ok(None::<u64>)).unwrap();
        }
        assert_eq!(wide, MPI_Count::from(c::UNDEFINED));
    }

    #[test]
    fn strings_come_with_their_length() {
        let (mut name, mut length) = ([1 as c_char; 9], -1);
        let place = Text(name.as_mut_ptr(), name.len(), &raw mut length);
        // SAFETY: the places are locals.
        unsafe { give(place, "name", || Ok("columns".to_owned())) }.unwrap();
        assert_eq!((length, name[6] as u8, name[7]), (7, b's', 0));
        assert_eq!(name_of(c::COMM_NULL, (c::COMM_NULL, "none"), || panic!()).unwrap(), "none");
    }

    #[test]
    fn a_freed_handle_becomes_null() {
        let old = Datatype::resolve(c::INT).unwrap();
        let handle = Datatype::dup(&old).unwrap().register().unwrap();
        let mut datatype = MPI_Datatype::from_raw(handle);
        // SAFETY: the place is a local.
        unsafe { free(&raw mut datatype, "datatype", Datatype::free) }.unwrap();
        assert_eq!(datatype, MPI_Datatype::NULL);
        // SAFETY: as above.
        let again = unsafe { free(&raw mut datatype, "datatype", Datatype::free) };
        assert_eq!(again.unwrap_err().code(), c::ERR_TYPE);
    }

    #[test]
    fn null_arrays_are_errors_only_when_they_have_elements() {
        let none = |n: MPI_Count| {
            let list = PolyArray::new(null::<c_int>());
            // SAFETY: null is allowed; the functions must refuse it.
            let numbers = unsafe { numbers(list, n, "lengths", "count") };
            // SAFETY: as above.
            numbers.and(unsafe { datatypes(null(), n, "types", "count") })
        };
        assert_eq!(none(1).unwrap_err().code(), c::ERR_ARG);
        assert_eq!(none(-1).unwrap_err().code(), c::ERR_COUNT);
        assert!(none(0).unwrap().is_empty());
    }
}
