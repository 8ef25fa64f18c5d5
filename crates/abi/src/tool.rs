//! C arguments of the tools interface: its strings, results that may be left out, and errors as
//! codes (MPI 5.0, 15.3.3 and 15.3.6). Its generated exports (`bindings/methods.py`) convert by
//! what is here.

use std::ffi::{CStr, c_char, c_int, c_void};

use crate::convert::Returned;
use crate::method::NullHandle;
use crate::types::*;

pub use mica_mpi::constants as c;
pub use mica_mpi::info::Info;
pub use mica_mpi::tool::{
    ObjectKind, ToolInterfaceError, ToolObjects, ToolResult, categories, category, category_index,
    category_members, current_instance, cvar_info, cvars, enumeration, event_index, events,
    no_hints, pvar_info, pvars, require, source, source_now, sources,
};

/// What a function of the tools interface returns: nothing, or a code.
pub type ToolCall = Result<(), c_int>;

/// Calls a function that has no result.
pub fn perform(call: impl FnOnce() -> ToolResult<()>) -> ToolCall {
    code(call())
}

/// Calls a function, and stores its result at the place, or its results at the places. The function
/// asks whether the interface is initialized.
///
/// # Safety
/// The places are null or writable.
pub unsafe fn give<R, P: ToolPlace<R>>(place: P, call: impl FnOnce() -> ToolResult<R>) -> ToolCall {
    let stored = place.check().and_then(|()| {
        let result = call()?;
        // SAFETY: as the caller promises.
        unsafe { place.store(result) }
    });
    code(stored)
}

/// Frees the object of the handle at the place, and makes it null.
///
/// # Safety
/// `place` is null or writable.
pub unsafe fn free<H: NullHandle>(
    place: *mut H,
    free: impl FnOnce(u32) -> ToolResult<()>,
) -> ToolCall {
    code(require())?;
    if place.is_null() {
        return Err(invalid());
    }
    // SAFETY: not null, so readable by the contract above.
    let handle = unsafe { place.read() }.raw();
    code(free(handle))?;
    // SAFETY: not null, so writable by the contract above.
    unsafe { place.write(H::NULL) };
    Ok(())
}

/// Where the caller wants a result, or several.
pub trait ToolPlace<R>: Copy {
    /// Refuses null before an object is made.
    fn check(self) -> ToolResult<()> {
        Ok(())
    }

    /// Stores the result.
    ///
    /// # Safety
    /// The place is null or writable.
    unsafe fn store(self, result: R) -> ToolResult<()>;
}

/// A result that the caller must want.
impl<C, R: Returned<C>> ToolPlace<R> for *mut C {
    unsafe fn store(self, result: R) -> ToolResult<()> {
        if self.is_null() {
            return Err(ToolInterfaceError::Invalid);
        }
        let value = result.into_c().map_err(|_| ToolInterfaceError::Memory)?;
        // SAFETY: not null, so writable by the contract above.
        unsafe { self.write(value) };
        Ok(())
    }
}

/// The place of the handle of a new object.
#[derive(Clone, Copy, Debug)]
pub struct NewHandle<C: Copy>(pub *mut C);

impl<C: Copy, R: Returned<C>> ToolPlace<R> for NewHandle<C> {
    fn check(self) -> ToolResult<()> {
        require()?;
        if self.0.is_null() { Err(ToolInterfaceError::Invalid) } else { Ok(()) }
    }

    unsafe fn store(self, result: R) -> ToolResult<()> {
        // SAFETY: as the caller promises.
        unsafe { self.0.store(result) }
    }
}

/// The place of a result that may be left out.
#[derive(Clone, Copy, Debug)]
pub struct IfWanted<C: Copy>(pub *mut C);

impl<C: Copy, R: Returned<C>> ToolPlace<R> for IfWanted<C> {
    unsafe fn store(self, result: R) -> ToolResult<()> {
        // SAFETY: as the caller promises.
        if self.0.is_null() { Ok(()) } else { unsafe { self.0.store(result) } }
    }
}

/// The buffer of a string, and the place of its size.
#[derive(Clone, Copy, Debug)]
pub struct SizedText(pub *mut c_char, pub *mut c_int);

impl<S: AsRef<str>> ToolPlace<S> for SizedText {
    unsafe fn store(self, result: S) -> ToolResult<()> {
        // SAFETY: as the caller promises.
        unsafe { put_string(self.0, self.1, result.as_ref()) };
        Ok(())
    }
}

/// An array of indices, and how many it has room for.
#[derive(Clone, Copy, Debug)]
pub struct Indices(pub *mut c_int, pub c_int);

impl ToolPlace<Vec<i32>> for Indices {
    unsafe fn store(self, result: Vec<i32>) -> ToolResult<()> {
        // SAFETY: as the caller promises.
        unsafe { put_indices(self.0, self.1, &result) }
    }
}

macro_rules! several_places {
    ($($place:ident $result:ident $at:tt),*) => {
        impl<$($result, $place: ToolPlace<$result>),*> ToolPlace<($($result,)*)> for ($($place,)*) {
            fn check(self) -> ToolResult<()> {
                $(self.$at.check()?;)*
                Ok(())
            }

            unsafe fn store(self, results: ($($result,)*)) -> ToolResult<()> {
                // SAFETY: as the caller promises.
                $(unsafe { self.$at.store(results.$at)? };)*
                Ok(())
            }
        }
    };
}

several_places!(A Q 0, B R 1);
several_places!(A Q 0, B R 1, C S 2, D T 3, E U 4);
several_places!(A Q 0, B R 1, C S 2, D T 3, E U 4, F V 5);
several_places!(A Q 0, B R 1, C S 2, D T 3, E U 4, F V 5, G W 6);
several_places!(A Q 0, B R 1, C S 2, D T 3, E U 4, F V 5, G W 6, H X 7, I Y 8, J Z 9);

/// The handle of the communicator or window that a variable or an event is to be bound to.
///
/// # Safety
/// `place` is null or points to a handle of this kind.
pub unsafe fn bound_object(place: *const c_void, kind: ObjectKind) -> ToolResult<u32> {
    if place.is_null() {
        return Err(ToolInterfaceError::Invalid);
    }
    // SAFETY: not null, so a handle by the contract above.
    Ok(unsafe {
        match kind {
            ObjectKind::Win => place.cast::<MPI_Win>().read().raw(),
            _ => place.cast::<MPI_Comm>().read().raw(),
        }
    })
}

/// Checks hints, which are all unknown; there may be none. None is kept.
pub fn check_hints(info: u32) -> ToolResult<()> {
    Info::resolve_hints(info).map(drop).map_err(|_| ToolInterfaceError::Invalid)
}

/// The code that a function of the tools interface returns.
pub fn code<T>(result: ToolResult<T>) -> Result<T, c_int> {
    result.map_err(ToolInterfaceError::code)
}

/// The code for a parameter that is not valid.
pub fn invalid() -> c_int {
    ToolInterfaceError::Invalid.code()
}

/// Returns a string as 15.3.3 says. `length` points to the buffer's size. Nothing is returned if it
/// is null; if the buffer is null or its size 0, only the size that the string needs; otherwise as
/// much of the string as fits with a terminating zero, and that size.
///
/// # Safety
/// `length` is null or readable and writable; `buffer`, unless null, is writable for as many bytes
/// as `length` says.
pub unsafe fn put_string(buffer: *mut c_char, length: *mut c_int, text: &str) {
    if length.is_null() {
        return;
    }
    // SAFETY: not null, so readable by the contract above.
    let room = usize::try_from(unsafe { length.read() }).unwrap_or(0);
    if !buffer.is_null() && room > 0 {
        let copied = text.floor_char_boundary(room - 1);
        // SAFETY: `copied < room` bytes and a zero fit by the contract above; the text is the
        // library's, so it does not overlap.
        unsafe {
            std::ptr::copy_nonoverlapping(text.as_ptr(), buffer.cast(), copied);
            buffer.add(copied).write(0);
        }
    }
    // SAFETY: not null, so writable by the contract above.
    unsafe { length.write(text.len() as c_int + 1) }
}

/// The caller's string.
///
/// # Safety
/// `text`, unless null, is readable up to a terminating zero.
pub unsafe fn text<'a>(text: *const c_char) -> ToolResult<&'a str> {
    if text.is_null() {
        return Err(ToolInterfaceError::Invalid);
    }
    // SAFETY: by the contract above.
    let text = unsafe { CStr::from_ptr(text) };
    // No name of the library has other bytes.
    text.to_str().map_err(|_| ToolInterfaceError::InvalidName)
}

/// Writes as many indices as the caller has room for.
///
/// # Safety
/// `to`, unless null, is writable for `len` elements.
unsafe fn put_indices(to: *mut c_int, len: c_int, indices: &[i32]) -> ToolResult<()> {
    let room = usize::try_from(len).map_err(|_| ToolInterfaceError::Invalid)?;
    let n = room.min(indices.len());
    if n > 0 && to.is_null() {
        return Err(ToolInterfaceError::Invalid);
    }
    // SAFETY: `n` elements fit by the contract above; with none, nothing is written.
    unsafe { std::ptr::copy_nonoverlapping(indices.as_ptr(), to, n) };
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ptr::null_mut;

    #[test]
    fn strings_are_cut_and_their_size_is_returned() {
        let mut buffer = [0x55 as c_char; 8];
        let mut length = 4;
        // SAFETY: 4 of 8 bytes may be written.
        unsafe { put_string(buffer.as_mut_ptr(), &mut length, "abcdef") };
        assert_eq!(buffer.map(|b| b as u8), *b"abc\0UUUU");
        assert_eq!(length, 7);
        // SAFETY: as above, and 7 bytes fit.
        unsafe { put_string(buffer.as_mut_ptr(), &mut length, "abcdef") };
        assert_eq!(buffer.map(|b| b as u8), *b"abcdef\0U");
        for (room, buffer) in [(0, buffer.as_mut_ptr()), (5, null_mut())] {
            let mut length = room;
            // SAFETY: no byte may be written.
            unsafe { put_string(buffer, &mut length, "xyz") };
            assert_eq!(length, 4);
        }
        // SAFETY: nothing may be written.
        unsafe { put_string(buffer.as_mut_ptr(), null_mut(), "xyz") };
        assert_eq!(buffer[0] as u8, b'a');
    }

    #[test]
    fn as_many_indices_are_written_as_fit() {
        let mut to = [-1; 3];
        // SAFETY: two elements may be written.
        unsafe {
            assert_eq!(put_indices(to.as_mut_ptr(), 2, &[7, 8, 9]), Ok(()));
            assert_eq!(to, [7, 8, -1]);
            assert_eq!(put_indices(null_mut(), 0, &[7]), Ok(()));
            assert_eq!(put_indices(null_mut(), 1, &[7]), Err(ToolInterfaceError::Invalid));
            assert_eq!(put_indices(to.as_mut_ptr(), -1, &[7]), Err(ToolInterfaceError::Invalid));
        }
    }
}
