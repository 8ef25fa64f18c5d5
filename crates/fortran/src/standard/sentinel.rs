//! The variables whose addresses stand for something: `MPI_BOTTOM`, `MPI_IN_PLACE`,
//! `MPI_STATUS_IGNORE` and so on.
//!
//! They are one common block, `/mica_fortran/`, of the program and its modules, so that one
//! comparison tells an argument that is none of them. A program that names the block has it in its
//! own memory, and the loader makes all parts of the process use that one; so the library looks the
//! block up when it is loaded, by the name that the program's compiler gave it.

use std::ffi::{CStr, c_int, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::abi::constants as c;

/// The words of the block: all of its variables. A linker warns where its size differs.
const WORDS: usize = 24;

/// What the loader finds where the program has no such block. Compilers align theirs so.
#[derive(Debug)]
#[repr(C, align(32))]
pub struct SentinelBlock([c_int; WORDS]);

/// Defines the block under the names that compilers give it.
macro_rules! blocks {
    ($($name:ident = $symbol:literal;)*) => {
        $(
            #[unsafe(export_name = $symbol)]
            static $name: SentinelBlock = SentinelBlock([0; WORDS]);
        )*

        /// The block that the program's arguments lie in.
        fn find() -> usize {
            let own = [$(&raw const $name as usize),*];
            let names = [$(concat!($symbol, "\0")),*];
            let found = names.map(|name| {
                let name = CStr::from_bytes_with_nul(name.as_bytes()).unwrap_or(c"");
                // SAFETY: a name; what it is the address of is not read.
                unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) as usize }
            });
            // Of the library's own blocks the program uses none, or the first.
            let of_program = found.iter().find(|found| **found != 0 && !own.contains(found));
            of_program.copied().unwrap_or(own[0])
        }
    };
}

// With an underscore, as nearly all compilers have it; with two, as g77 had it where the name has
// one; without; in capitals.
blocks! {
    ONE = "mica_fortran_";
    TWO = "mica_fortran__";
    NONE = "mica_fortran";
    CAPITALS = "MICA_FORTRAN";
}

/// The address of the block. Stored once, before a function of the library can be called.
static BASE: AtomicUsize = AtomicUsize::new(0);

#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = at_load;

extern "C" fn at_load() {
    // Relaxed: the loader is done with the library before anything else uses it.
    BASE.store(find(), Ordering::Relaxed);
}

/// Where in the block an address lies, if it lies there.
#[inline(always)]
fn word(address: *const c_void) -> Option<usize> {
    let offset = (address as usize).wrapping_sub(BASE.load(Ordering::Relaxed));
    (offset < WORDS * size_of::<c_int>()).then_some(offset / size_of::<c_int>())
}

/// The address that C has for a choice buffer.
#[inline(always)]
pub fn buffer(address: *mut c_void) -> *mut c_void {
    match word(address) {
        None => address,
        Some(word) => special_buffer(address, word),
    }
}

#[cold]
fn special_buffer(address: *mut c_void, word: usize) -> *mut c_void {
    match word {
        BOTTOM => std::ptr::null_mut(),
        IN_PLACE => std::ptr::without_provenance_mut(c::IN_PLACE),
        BUFFER_AUTOMATIC => std::ptr::without_provenance_mut(c::BUFFER_AUTOMATIC),
        _ => address,
    }
}

/// The address that C has for a place of a status or of statuses: null for those that are ignored.
#[inline(always)]
pub fn unless_ignored<T>(address: *mut T) -> *mut T {
    match word(address.cast()) {
        None => address,
        Some(_) => std::ptr::null_mut(),
    }
}

/// The address that C has for a place of error codes, or for an array of weights: null for what is
/// ignored.
#[inline(always)]
pub fn place<T>(address: *mut T) -> *mut T {
    match word(address.cast()) {
        None => address,
        Some(UNWEIGHTED) => std::ptr::without_provenance_mut(c::UNWEIGHTED),
        Some(WEIGHTS_EMPTY) => std::ptr::without_provenance_mut(c::WEIGHTS_EMPTY),
        Some(_) => std::ptr::null_mut(),
    }
}

// The words at which the variables lie, in the order of `include/fortran`.
const BOTTOM: usize = 0;
const IN_PLACE: usize = 1;
const BUFFER_AUTOMATIC: usize = 2;
const UNWEIGHTED: usize = 3;
const WEIGHTS_EMPTY: usize = 4;
