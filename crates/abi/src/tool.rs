//! C arguments of the tools interface: its strings, results that may be left out, and errors as
//! codes (MPI 5.0, 15.3.3 and 15.3.6).

use mica_mpi::tool::{ToolInterfaceError, ToolResult};
use std::ffi::{CStr, c_char, c_int};

/// The code that a function of the tools interface returns.
pub fn code<T>(result: ToolResult<T>) -> Result<T, c_int> {
    result.map_err(ToolInterfaceError::code)
}

/// The code for a parameter that is not valid.
pub fn invalid() -> c_int {
    ToolInterfaceError::Invalid.code()
}

/// Stores a result, unless the caller does not want it.
///
/// # Safety
/// `place` is null or writable.
pub unsafe fn put<T>(place: *mut T, value: T) {
    if !place.is_null() {
        // SAFETY: not null, so writable by the contract above.
        unsafe { place.write(value) }
    }
}

/// Stores a result that the caller must want.
///
/// # Safety
/// `place` is null or writable.
pub unsafe fn set<T>(place: *mut T, value: T) -> Result<(), c_int> {
    if place.is_null() {
        return Err(invalid());
    }
    // SAFETY: not null, so writable by the contract above.
    unsafe { place.write(value) };
    Ok(())
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
pub unsafe fn name<'a>(text: *const c_char) -> Result<&'a str, c_int> {
    if text.is_null() {
        return Err(invalid());
    }
    // SAFETY: by the contract above.
    let text = unsafe { CStr::from_ptr(text) };
    // No name of the library has other bytes.
    text.to_str().map_err(|_| ToolInterfaceError::InvalidName.code())
}

/// Writes as many indices as the caller has room for.
///
/// # Safety
/// `to`, unless null, is writable for `len` elements.
pub unsafe fn put_indices(to: *mut c_int, len: c_int, indices: &[i32]) -> Result<(), c_int> {
    let room = usize::try_from(len).map_err(|_| invalid())?;
    let n = room.min(indices.len());
    if n > 0 && to.is_null() {
        return Err(invalid());
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
            assert_eq!(put_indices(null_mut(), 1, &[7]), Err(invalid()));
            assert_eq!(put_indices(to.as_mut_ptr(), -1, &[7]), Err(invalid()));
        }
    }
}
