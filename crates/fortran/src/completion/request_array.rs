//! Requests of a call that takes an array of them.

use std::ffi::c_int;
use std::ptr::null_mut;

use mica_front_end::array::Converted;

use crate::argument::{to_c, to_fortran};
use crate::section::deferred::{self, Taken};

/// Whether a place has a flag that is set.
///
/// # Safety
/// `flag` is null or readable.
pub unsafe fn is_set(flag: *const c_int) -> bool {
    // SAFETY: as the caller promises.
    unsafe { flag.as_ref() }.is_some_and(|&flag| flag != 0)
}

/// The number of requests, by the address that Fortran passes: -1 for none.
///
/// # Safety
/// `count` is null or readable.
#[inline(always)]
pub unsafe fn count_at(count: *const c_int) -> c_int {
    // SAFETY: as the caller promises.
    unsafe { count.as_ref() }.map_or(-1, |&count| count)
}

/// The requests of a call, as C has them, and the copies of sections that belong to them.
#[derive(Debug)]
pub struct RequestArray {
    requests: *mut c_int,
    len: usize,
    handles: Converted<usize>,
    taken: Vec<(usize, Taken)>,
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
        Some(RequestArray { requests, len, handles, taken: Vec::new() })
    }

    /// Requests that may be completed: their copies are taken out of the table.
    ///
    /// # Safety
    /// As for [`RequestArray::new`].
    #[inline(always)]
    pub unsafe fn taking(count: c_int, requests: *mut c_int) -> Option<RequestArray> {
        // SAFETY: as the caller promises.
        let mut array = unsafe { RequestArray::new(count, requests) }?;
        if deferred::any() {
            array.take();
        }
        Some(array)
    }

    #[cold]
    fn take(&mut self) {
        let taken = |i| Some((i, deferred::take(self.given(i))?));
        self.taken = (0..self.len).filter_map(taken).collect();
    }

    /// Request `i` as the program has it.
    #[inline(always)]
    fn given(&self, i: usize) -> c_int {
        // SAFETY: `i` is that of a request, of which there are `len`.
        unsafe { self.requests.add(i).read() }
    }

    /// The handles' address for C; null if the program's was null.
    #[inline(always)]
    pub fn as_mut_ptr(&mut self) -> *mut usize {
        if self.requests.is_null() { null_mut() } else { self.handles.as_mut_ptr() }
    }

    /// Before a call that starts persistent operations: their copies get what the sections have.
    #[inline(always)]
    pub fn starting(&self) {
        if deferred::any() {
            (0..self.len).for_each(|i| deferred::starting(self.given(i)));
        }
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

    /// After a call that completes requests: those of which `is_completed` says it, and those whose
    /// handle has changed.
    #[inline(always)]
    pub fn complete(mut self, is_completed: impl Fn(usize) -> bool) {
        if !self.taken.is_empty() {
            self.settle(is_completed);
        }
        self.write_back();
    }

    #[cold]
    fn settle(&mut self, is_completed: impl Fn(usize) -> bool) {
        for (i, taken) in std::mem::take(&mut self.taken) {
            let has_changed = self.handles.get(i) != to_c(self.given(i));
            if has_changed || is_completed(i) { taken.complete() } else { taken.put_back() }
        }
    }

    /// After a call that only looks at requests.
    pub fn observe(self, is_completed: impl Fn(usize) -> bool) {
        for (i, taken) in self.taken {
            if is_completed(i) { taken.observe() } else { taken.put_back() }
        }
    }
}
