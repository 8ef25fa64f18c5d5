//! C arguments that several families of shims share: places for results, strings, arrays.

use std::ffi::{CStr, OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::ptr::NonNull;

use mica_mpi::comm::Comm;
use mica_mpi::constants as c;
use mica_mpi::datatype::{Datatype, check_count};
use mica_mpi::errhandler::Errhandler;
use mica_mpi::file::File;
use mica_mpi::group::Group;
use mica_mpi::info::Info;
use mica_mpi::request::Request;
use mica_mpi::tool::{ObjectKind, ValueType};
use mica_mpi::window::Window;
use mica_mpi::{Error, Result};

use crate::types::*;

/// A place where the caller wants a result.
#[derive(Clone, Copy, Debug)]
pub struct Out<T>(NonNull<T>);

impl<T> Out<T> {
    /// The place that the argument `argument` points to; null is refused (`MPI_ERR_ARG`).
    ///
    /// # Safety
    /// `place`, unless null, is valid for reads and writes of a `T` as long as the `Out` is used.
    pub unsafe fn new(place: *mut T, argument: &'static str) -> Result<Out<T>> {
        NonNull::new(place).map(Out).ok_or_else(|| null(argument))
    }

    /// Stores the result.
    pub fn set(self, value: T) {
        // SAFETY: valid by the contract of `new`; C's results have no destructor, so nothing is
        // lost by overwriting.
        unsafe { self.0.write(value) }
    }

    /// Stores the result as C has it.
    pub fn give(self, result: impl Returned<T>) -> Result<()> {
        self.set(result.into_c()?);
        Ok(())
    }
}

impl<T: Copy> Out<T> {
    /// Reads the value that the caller stored there.
    pub fn get(self) -> T {
        // SAFETY: valid by the contract of `new`.
        unsafe { self.0.read() }
    }
}

/// A result that C gets as a `C`.
pub trait Returned<C> {
    /// The value, or a handle of the object.
    fn into_c(self) -> Result<C>;
}

/// Results, what C gets for them, and how.
macro_rules! returned {
    ($($result:ty => $c:ty: $value:ident -> $converted:expr;)*) => {$(
        impl Returned<$c> for $result {
            fn into_c(self) -> Result<$c> {
                let $value = self;
                Ok($converted)
            }
        }
    )*};
}

returned! {
    c_int => c_int: value -> value;
    bool => c_int: value -> flag(value);
    usize => c_int: number -> number as c_int;
    Option<usize> => c_int: rank -> rank.map_or(c::UNDEFINED, |rank| rank as c_int);
    i64 => MPI_Count: count -> count;
    usize => MPI_Count: number -> number as MPI_Count;
    // One that exceeds 63 bits is undefined, too.
    Option<u64> => MPI_Count: count ->
        count.and_then(|count| i64::try_from(count).ok()).unwrap_or(c::UNDEFINED.into());
    // Exposed, because the caller will get at the memory through this number.
    *const c_void => MPI_Aint: location -> location.expose_provenance() as MPI_Aint;
    usize => MPI_Aint: number -> number as MPI_Aint;
    usize => *mut c_void: address -> std::ptr::with_exposed_provenance_mut(address);
    u32 => MPI_Datatype: handle -> MPI_Datatype::from_raw(handle);
    Comm => MPI_Comm: comm -> MPI_Comm::from_raw(comm.handle());
    // A rank that is not in the new communicator has none.
    Option<Comm> => MPI_Comm: comm ->
        MPI_Comm::from_raw(comm.map_or(c::COMM_NULL, |comm| comm.handle()));
    File => MPI_File: file -> MPI_File::from_raw(file.handle());
    Window => MPI_Win: window -> MPI_Win::from_raw(window.handle());
    Group => MPI_Group: group -> MPI_Group::from_raw(group.into_handle()?);
    Info => MPI_Info: info -> MPI_Info::from_raw(info.into_handle()?);
    Datatype => MPI_Datatype: datatype -> MPI_Datatype::from_raw(datatype.register()?);
    u32 => MPI_Message: handle -> MPI_Message::from_raw(handle);
    u32 => MPI_Request: handle -> MPI_Request::from_raw(handle);
    Request => MPI_Request: request -> MPI_Request::from_raw(request.register()?);
    Errhandler => MPI_Errhandler: handler -> MPI_Errhandler::from_raw(handler.give_handle()?);
    u32 => MPI_T_cvar_handle: handle -> MPI_T_cvar_handle::from_raw(handle);
    u32 => MPI_T_enum: handle -> MPI_T_enum::from_raw(handle);
    u32 => MPI_T_event_registration: handle -> MPI_T_event_registration::from_raw(handle);
    u32 => MPI_T_pvar_handle: handle -> MPI_T_pvar_handle::from_raw(handle);
    u32 => MPI_T_pvar_session: handle -> MPI_T_pvar_session::from_raw(handle);
    u64 => MPI_Count: number -> number as MPI_Count;
    ValueType => MPI_Datatype: value_type -> MPI_Datatype::from_raw(value_type.datatype());
    ObjectKind => c_int: kind -> match kind {
        ObjectKind::None => c::T_BIND_NO_OBJECT,
        ObjectKind::Comm => c::T_BIND_MPI_COMM,
        ObjectKind::Win => c::T_BIND_MPI_WIN,
    };
}

/// The C logical of a truth value.
pub fn flag(value: bool) -> c_int {
    c_int::from(value)
}

/// A place for a result must not be null (`MPI_ERR_ARG`).
pub fn check_place<T>(place: *const T, argument: &'static str) -> Result<()> {
    if place.is_null() { Err(null(argument)) } else { Ok(()) }
}

#[cold]
pub fn null(argument: &'static str) -> Error {
    Error::argument(c::ERR_ARG, argument, "NULL", "a null pointer is not allowed here")
}

/// The caller's array of `n` elements; `count` and `argument` name the two arguments.
///
/// # Safety
/// `base` is readable for `n` elements, and they are not written while the slice is used.
pub unsafe fn slice<'a, T>(
    base: *const T,
    n: impl ArrayLength,
    argument: &'static str,
    count: &'static str,
) -> Result<&'a [T]> {
    let n = n.elements(count)?;
    check_array(base, n, argument)?;
    if n == 0 {
        return Ok(&[]);
    }
    // SAFETY: by the contract above, and not null.
    Ok(unsafe { std::slice::from_raw_parts(base, n) })
}

/// An array argument must not be null where it has elements.
pub fn check_array<T>(base: *const T, n: usize, argument: &'static str) -> Result<()> {
    if base.is_null() && n > 0 {
        let reason = format!("an array of {n} elements is needed");
        return Err(Error::argument(c::ERR_ARG, argument, "NULL", reason));
    }
    Ok(())
}

/// The argument that says how many elements an array has.
pub trait ArrayLength {
    /// The number; `argument` is its name.
    fn elements(self, argument: &'static str) -> Result<usize>;
}

impl ArrayLength for c_int {
    fn elements(self, argument: &'static str) -> Result<usize> {
        length(self, argument)
    }
}

impl ArrayLength for MPI_Count {
    fn elements(self, argument: &'static str) -> Result<usize> {
        check_count(self, argument).map(|count| count as usize)
    }
}

/// The caller's array of `n` results.
///
/// # Safety
/// `base` is writable for `n` initialized elements that no other code uses while the slice is used.
pub unsafe fn slice_mut<'a, T>(
    base: *mut T,
    n: c_int,
    argument: &'static str,
    count: &'static str,
) -> Result<&'a mut [T]> {
    let n = length(n, count)?;
    if n == 0 {
        return Ok(&mut []);
    }
    let base = NonNull::new(base).ok_or_else(|| null(argument))?;
    // SAFETY: by the contract above.
    Ok(unsafe { std::slice::from_raw_parts_mut(base.as_ptr(), n) })
}

/// A length, which is not negative.
pub fn length(n: c_int, argument: &'static str) -> Result<usize> {
    usize::try_from(n)
        .map_err(|_| Error::argument(c::ERR_ARG, argument, n, "a length is not negative"))
}

/// The caller's string. Bytes that are not UTF-8 become replacement characters.
///
/// # Safety
/// `text`, unless null, is readable up to a terminating zero.
pub unsafe fn text(text: *const c_char, argument: &'static str) -> Result<String> {
    let text = NonNull::new(text.cast_mut()).ok_or_else(|| null(argument))?;
    // SAFETY: by the contract above.
    let text = unsafe { CStr::from_ptr(text.as_ptr()) };
    Ok(text.to_string_lossy().into_owned())
}

/// The caller's file name, whose bytes need not be UTF-8.
///
/// # Safety
/// As for [`text`].
pub unsafe fn path(name: *const c_char, argument: &'static str) -> Result<PathBuf> {
    let name = NonNull::new(name.cast_mut()).ok_or_else(|| null(argument))?;
    // SAFETY: by the contract above.
    let name = unsafe { CStr::from_ptr(name.as_ptr()) };
    Ok(OsStr::from_bytes(name.to_bytes()).into())
}

/// Writes a string with its terminating zero to the caller's buffer, cut to what `room` bytes hold,
/// and returns its length there.
///
/// # Safety
/// `buffer`, unless null, is writable for `room` bytes.
pub unsafe fn put_text(
    buffer: *mut c_char,
    room: usize,
    text: &str,
    argument: &'static str,
) -> Result<c_int> {
    let buffer = NonNull::new(buffer).ok_or_else(|| null(argument))?;
    let Some(most) = room.checked_sub(1) else {
        return Ok(0);
    };
    let len = text.floor_char_boundary(most);
    // SAFETY: `len < room` bytes and a zero fit by the contract above; the text is the library's,
    // so it does not overlap.
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr(), buffer.as_ptr().cast(), len);
        buffer.add(len).write(0);
    }
    Ok(len as c_int)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_cut_between_characters_and_ended() {
        let mut buffer = [0x55 as c_char; 8];
        // SAFETY: 5 of 8 bytes may be written.
        let len = unsafe { put_text(buffer.as_mut_ptr(), 5, "abcä", "string") };
        assert_eq!(len, Ok(3));
        assert_eq!(buffer.map(|b| b as u8), *b"abc\0UUUU");
        // SAFETY: the buffer holds a terminated string.
        assert_eq!(unsafe { text(buffer.as_ptr(), "string") }.unwrap(), "abc");
        // SAFETY: nothing may be written.
        let none = unsafe { put_text(buffer.as_mut_ptr(), 0, "x", "string") };
        assert_eq!(none, Ok(0));
        assert_eq!(buffer[0] as u8, b'a');
    }

    #[test]
    fn null_and_negative_are_errors_that_name_the_argument() {
        // SAFETY: null is allowed.
        let errors = unsafe {
            [
                Out::<c_int>::new(std::ptr::null_mut(), "flag").unwrap_err(),
                text(std::ptr::null(), "flag").unwrap_err(),
                slice::<c_int>(std::ptr::null(), 1, "flag", "n").unwrap_err(),
            ]
        };
        assert!(errors.iter().all(|e| e.to_string().starts_with("flag = NULL")));
        // SAFETY: no element is read.
        unsafe {
            assert!(slice::<c_int>(std::ptr::null(), 0, "ranks", "n").unwrap().is_empty());
            let negative = slice::<c_int>(std::ptr::null(), -1, "ranks", "n").unwrap_err();
            assert!(negative.to_string().starts_with("n = -1"));
        }
    }
}
