//! Requests of a call that takes an array of them.

use std::ffi::c_int;
use std::ptr::null_mut;

use mica_front_end::array::Converted;

use crate::abi::Word;
use crate::argument::{to_c, to_fortran};

/// The number of requests, by the address that Fortran passes: -1 for none.
///
/// # Safety
/// `count` is null or readable.
#[inline(always)]
pub unsafe fn count_at(count: *const c_int) -> c_int {
    // SAFETY: as the caller promises.
    unsafe { count.as_ref() }.map_or(-1, |&count| count)
}

/// The requests of a call, as C has them.
#[derive(Debug)]
pub struct RequestArray {
    requests: *mut c_int,
    len: usize,
    handles: Converted<Word>,
}

impl RequestArray {
    /// `count` requests. `None`: there is no memory for them.
    ///
    /// # Safety
    /// `requests` is null or has as many elements as `count` says, which stay while this is used.
    #[inline(always)]
    pub unsafe fn new(count: c_int, requests: *mut c_int) -> Option<RequestArray> {
        let len = if requests.is_null() { 0 } else { usize::try_from(count).unwrap_or(0) };
        // SAFETY: there are `len` requests.
        let handle = |i| to_c(unsafe { requests.add(i).read() });
        let handles = Converted::new(len, 0, handle)?;
        Some(RequestArray { requests, len, handles })
    }

    /// Request `i` as the program has it.
    #[inline(always)]
    fn given(&self, i: usize) -> c_int {
        // SAFETY: `i` is that of a request, of which there are `len`.
        unsafe { self.requests.add(i).read() }
    }

    /// The handles' address for C; null if the program's was null.
    #[inline(always)]
    pub fn as_mut_ptr(&mut self) -> *mut Word {
        if self.requests.is_null() { null_mut() } else { self.handles.as_mut_ptr() }
    }

    /// Writes back the requests that have changed.
    #[inline(always)]
    pub fn write_back(&self) {
        for i in 0..self.len {
            let handle = self.handles.get(i);
            if handle != to_c(self.given(i)) {
                // SAFETY: there are `len` requests.
                unsafe { self.requests.add(i).write(to_fortran(handle)) };
            }
        }
    }
}
