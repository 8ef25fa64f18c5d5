//! The calls with arrays of requests.
//!
//! Results are stored where the library has stored them, and indices begin with 1.

use std::ffi::c_int;

use super::request_array::{RequestArray, count_at};
use crate::abi::{Status, Word, constants as c};
use crate::choice::no_memory;

/// `MPI_Waitall`.
pub type WaitallFunction = unsafe extern "C" fn(c_int, *mut Word, *mut Status) -> c_int;
/// `MPI_Testall`, `MPI_Waitany`: a flag or an index.
pub type ArrayFunction = unsafe extern "C" fn(c_int, *mut Word, *mut c_int, *mut Status) -> c_int;
/// `MPI_Testany`: an index and a flag. `MPI_Waitsome`, `MPI_Testsome`: their number and indices.
pub type IndexFunction =
    unsafe extern "C" fn(c_int, *mut Word, *mut c_int, *mut c_int, *mut Status) -> c_int;
/// `MPI_Request_get_status_all`.
pub type StatusAllFunction =
    unsafe extern "C" fn(c_int, *const Word, *mut c_int, *mut Status) -> c_int;
/// `MPI_Request_get_status_any`, `MPI_Request_get_status_some`.
pub type StatusIndexFunction =
    unsafe extern "C" fn(c_int, *const Word, *mut c_int, *mut c_int, *mut Status) -> c_int;

/// What is no index and no number of MPI's: the library has stored nothing.
const UNWRITTEN: c_int = c_int::MIN;

/// An index or a number that the library returns, before it goes to the program's place.
#[derive(Debug)]
struct IntegerResult {
    place: *mut c_int,
    value: c_int,
}

impl IntegerResult {
    fn new(place: *mut c_int) -> IntegerResult {
        IntegerResult { place, value: UNWRITTEN }
    }

    /// Where the library stores it.
    fn for_library(&mut self) -> *mut c_int {
        if self.place.is_null() { self.place } else { &mut self.value }
    }

    /// Stores it, if the library has.
    ///
    /// # Safety
    /// The place is null or writable.
    unsafe fn store(&self, convert: impl Fn(c_int) -> c_int) {
        if self.value != UNWRITTEN {
            // SAFETY: the library has stored the value, so the place is not null.
            unsafe { self.place.write(convert(self.value)) };
        }
    }

    /// The number of indices that the library has stored.
    fn number(&self) -> usize {
        usize::try_from(self.value).unwrap_or(0)
    }
}

/// An index of Fortran, of one of C.
fn from_one(index: c_int) -> c_int {
    if index == c::UNDEFINED { index } else { index + 1 }
}

/// `MPI_WAITALL`.
///
/// # Safety
/// The arguments are as MPI asks of the caller; `statuses` may be null.
pub unsafe fn waitall(
    call: WaitallFunction,
    count: *const c_int,
    requests: *mut c_int,
    statuses: *mut Status,
) -> c_int {
    // SAFETY: as the caller promises.
    unsafe {
        let count = count_at(count);
        let Some(mut array) = RequestArray::new(count, requests) else {
            return no_memory("MPI_Waitall\0", count as usize);
        };
        let code = call(count, array.as_mut_ptr(), statuses);
        array.write_back();
        code
    }
}

/// `MPI_TESTALL`.
///
/// # Safety
/// The arguments are as MPI asks of the caller; `statuses` may be null.
pub unsafe fn testall(
    call: ArrayFunction,
    count: *const c_int,
    requests: *mut c_int,
    flag: *mut c_int,
    statuses: *mut Status,
) -> c_int {
    // SAFETY: as the caller promises.
    unsafe {
        let count = count_at(count);
        let Some(mut array) = RequestArray::new(count, requests) else {
            return no_memory("MPI_Testall\0", count as usize);
        };
        let code = call(count, array.as_mut_ptr(), flag, statuses);
        array.write_back();
        code
    }
}

/// `MPI_WAITANY`.
///
/// # Safety
/// The arguments are as MPI asks of the caller; `status` may be null.
pub unsafe fn waitany(
    call: ArrayFunction,
    count: *const c_int,
    requests: *mut c_int,
    index: *mut c_int,
    status: *mut Status,
) -> c_int {
    // SAFETY: as the caller promises.
    unsafe {
        let count = count_at(count);
        let Some(mut array) = RequestArray::new(count, requests) else {
            return no_memory("MPI_Waitany\0", count as usize);
        };
        let mut found = IntegerResult::new(index);
        let code = call(count, array.as_mut_ptr(), found.for_library(), status);
        array.write_back();
        found.store(from_one);
        code
    }
}

/// `MPI_TESTANY`.
///
/// # Safety
/// The arguments are as MPI asks of the caller; `status` may be null.
pub unsafe fn testany(
    call: IndexFunction,
    count: *const c_int,
    requests: *mut c_int,
    index: *mut c_int,
    flag: *mut c_int,
    status: *mut Status,
) -> c_int {
    // SAFETY: as the caller promises.
    unsafe {
        let count = count_at(count);
        let Some(mut array) = RequestArray::new(count, requests) else {
            return no_memory("MPI_Testany\0", count as usize);
        };
        let mut found = IntegerResult::new(index);
        let code = call(count, array.as_mut_ptr(), found.for_library(), flag, status);
        array.write_back();
        found.store(from_one);
        code
    }
}

/// `MPI_WAITSOME`, of which `MPI_TESTSOME` differs in `call` alone.
///
/// # Safety
/// The arguments are as MPI asks of the caller; `statuses` may be null.
pub unsafe fn waitsome(
    call: IndexFunction,
    incount: *const c_int,
    requests: *mut c_int,
    outcount: *mut c_int,
    indices: *mut c_int,
    statuses: *mut Status,
) -> c_int {
    // SAFETY: as the caller promises.
    unsafe {
        let count = count_at(incount);
        let Some(mut array) = RequestArray::new(count, requests) else {
            return no_memory("MPI_Waitsome\0", count as usize);
        };
        let mut number = IntegerResult::new(outcount);
        let code = call(count, array.as_mut_ptr(), number.for_library(), indices, statuses);
        let found = found_indices(&number, indices);
        array.write_back();
        found.iter_mut().for_each(|index| *index += 1);
        number.store(|number| number);
        code
    }
}

/// The indices that the library has stored.
///
/// # Safety
/// `indices` has as many elements as `number` says, which no one else accesses for `'a`.
unsafe fn found_indices<'a>(number: &IntegerResult, indices: *mut c_int) -> &'a mut [c_int] {
    match number.number() {
        0 => &mut [],
        // SAFETY: as the caller promises; the library has stored them, so it is not null.
        number => unsafe { std::slice::from_raw_parts_mut(indices, number) },
    }
}

/// `MPI_REQUEST_GET_STATUS_ALL`.
///
/// # Safety
/// The arguments are as MPI asks of the caller; `statuses` may be null.
pub unsafe fn request_get_status_all(
    call: StatusAllFunction,
    count: *const c_int,
    requests: *const c_int,
    flag: *mut c_int,
    statuses: *mut Status,
) -> c_int {
    // SAFETY: as the caller promises; requests that are observed are not written.
    unsafe {
        let (count, requests) = (count_at(count), requests.cast_mut());
        let Some(mut array) = RequestArray::new(count, requests) else {
            return no_memory("MPI_Request_get_status_all\0", count as usize);
        };
        call(count, array.as_mut_ptr(), flag, statuses)
    }
}

/// `MPI_REQUEST_GET_STATUS_ANY`.
///
/// # Safety
/// The arguments are as MPI asks of the caller; `status` may be null.
pub unsafe fn request_get_status_any(
    call: StatusIndexFunction,
    count: *const c_int,
    requests: *const c_int,
    index: *mut c_int,
    flag: *mut c_int,
    status: *mut Status,
) -> c_int {
    // SAFETY: as the caller promises; requests that are observed are not written.
    unsafe {
        let (count, requests) = (count_at(count), requests.cast_mut());
        let Some(mut array) = RequestArray::new(count, requests) else {
            return no_memory("MPI_Request_get_status_any\0", count as usize);
        };
        let mut found = IntegerResult::new(index);
        let code = call(count, array.as_mut_ptr(), found.for_library(), flag, status);
        found.store(from_one);
        code
    }
}

/// `MPI_REQUEST_GET_STATUS_SOME`.
///
/// # Safety
/// The arguments are as MPI asks of the caller; `statuses` may be null.
pub unsafe fn request_get_status_some(
    call: StatusIndexFunction,
    incount: *const c_int,
    requests: *const c_int,
    outcount: *mut c_int,
    indices: *mut c_int,
    statuses: *mut Status,
) -> c_int {
    // SAFETY: as the caller promises; requests that are observed are not written.
    unsafe {
        let (count, requests) = (count_at(incount), requests.cast_mut());
        let Some(mut array) = RequestArray::new(count, requests) else {
            return no_memory("MPI_Request_get_status_some\0", count as usize);
        };
        let mut number = IntegerResult::new(outcount);
        let code = call(count, array.as_mut_ptr(), number.for_library(), indices, statuses);
        let found = found_indices(&number, indices);
        found.iter_mut().for_each(|index| *index += 1);
        number.store(|number| number);
        code
    }
}
