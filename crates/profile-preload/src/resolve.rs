//! The library's `PMPI_X`.
//!
//! `dlsym(RTLD_NEXT)` finds them where the program is linked with MPI. A Python interpreter is not:
//! it loads mpi4py's extension and with it MPI into a scope of their own, where `RTLD_NEXT` does
//! not look. Then all loaded objects are asked in turn. An undefined symbol in this library instead
//! would keep processes from starting that load no MPI (the shell that starts the program).

use std::ffi::{CStr, CString, c_int, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::generated::{CALLS, NAMES};

/// Calls a function of the library, by its `P` name.
macro_rules! pmpi {
    ($name:literal($($value:expr => $type:ty),*)) => {{
        static ADDRESS: std::sync::OnceLock<usize> = std::sync::OnceLock::new();
        let address = *ADDRESS.get_or_init(|| $crate::resolve::by_name($name).expose_provenance());
        let function: unsafe extern "C" fn($($type),*) -> c_int =
            std::mem::transmute(std::ptr::with_exposed_provenance::<()>(address));
        function($($value),*)
    }};
}
pub(crate) use pmpi;

static FUNCTIONS: [AtomicPtr<c_void>; CALLS] =
    [const { AtomicPtr::new(std::ptr::null_mut()) }; CALLS];

/// Address of the library's function for the call of this number.
#[inline]
pub fn function(id: u16) -> *mut c_void {
    // Relaxed: the address is all that is published.
    let known = FUNCTIONS[usize::from(id)].load(Ordering::Relaxed);
    if !known.is_null() { known } else { find_or_abort(id) }
}

#[cold]
fn find_or_abort(id: u16) -> *mut c_void {
    let name = NAMES.split_whitespace().nth(usize::from(id)).expect("a call's number");
    let found = by_name(&CString::new(name).expect("a name without NUL"));
    FUNCTIONS[usize::from(id)].store(found, Ordering::Relaxed);
    found
}

/// Address of the library's `P` form of an MPI function. Ends the process if there is none, as
/// the dynamic linker would where the program calls a function that its library lacks.
pub fn by_name(mpi_name: &CStr) -> *mut c_void {
    match lookup(mpi_name) {
        Some(address) => address,
        None => {
            let name = mpi_name.to_string_lossy();
            eprintln!("mica profile: the MPI library of this program has no P{name}");
            std::process::abort();
        }
    }
}

/// Address of the library's `P` form of an MPI function.
pub fn lookup(mpi_name: &CStr) -> Option<*mut c_void> {
    let name = [b"P", mpi_name.to_bytes()].concat();
    let name = CString::new(name).expect("a C string without NUL");
    // SAFETY: dlsym reads a string; RTLD_NEXT needs no handle.
    let next = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    if !next.is_null() {
        return Some(next);
    }
    let mut objects: Vec<CString> = Vec::new();
    let list: *mut Vec<CString> = &mut objects;
    // SAFETY: the callback gets the vector, which lives until the call returns.
    unsafe { libc::dl_iterate_phdr(Some(collect), list.cast()) };
    objects.iter().find_map(|object| in_object(object, &name))
}

/// The library's `P` form of an MPI function, as a pointer that can be called.
///
/// # Safety
/// `F` is the type of a pointer to a function of this name.
pub unsafe fn function_of_library<F: Copy>(mpi_name: &CStr) -> Option<F> {
    // SAFETY: as the caller promises.
    lookup(mpi_name).map(|address| unsafe { as_function(address) })
}

/// An address as a pointer to the function that it is.
///
/// # Safety
/// `F` is the type of a pointer to that function.
pub unsafe fn as_function<F: Copy>(address: *mut c_void) -> F {
    const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
    // SAFETY: the sizes are equal; `F` is as the caller promises.
    unsafe { std::mem::transmute_copy::<*mut c_void, F>(&address) }
}

/// Asks one loaded object and what it depends on.
fn in_object(path: &CStr, name: &CStr) -> Option<*mut c_void> {
    let flags = libc::RTLD_NOLOAD | libc::RTLD_LAZY;
    // SAFETY: NOLOAD runs no code of the object; the handle is used before it is closed, and
    // closing it undoes the count that opening it added.
    unsafe {
        let handle = libc::dlopen(path.as_ptr(), flags);
        if handle.is_null() {
            return None;
        }
        let found = libc::dlsym(handle, name.as_ptr());
        libc::dlclose(handle);
        (!found.is_null()).then_some(found)
    }
}

/// Collects the paths of loaded objects.
unsafe extern "C" fn collect(
    info: *mut libc::dl_phdr_info,
    _size: libc::size_t,
    list: *mut c_void,
) -> c_int {
    // SAFETY: the linker passes a valid description, `lookup` its vector.
    let (info, list) = unsafe { (&*info, &mut *list.cast::<Vec<CString>>()) };
    if !info.dlpi_name.is_null() {
        // SAFETY: a C string of the linker, valid during the callback.
        let name = unsafe { CStr::from_ptr(info.dlpi_name) };
        if !name.is_empty() {
            list.push(name.to_owned());
        }
    }
    0
}
