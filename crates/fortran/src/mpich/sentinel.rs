//! The variables whose addresses stand for something: `MPI_BOTTOM`, `MPI_IN_PLACE`,
//! `MPI_STATUS_IGNORE` and so on.
//!
//! `mpif.h` and `mpi` have them in common blocks, each with a name and a size of MPICH's ABI, and
//! `mpi_f08` has variables of its own. A program has a common block that it names in its own
//! memory, and other variables may be moved there, so they are looked up by name when the library
//! is loaded: Rust may bind its own variables at link time.

use std::ffi::{CStr, c_int, c_void};
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use super::{Status, constants as c};

/// Words of a status.
const STATUS: usize = size_of::<Status>() / size_of::<c_int>();

/// Defines variables of a type under their names, and what looks them up. MPI reads and writes none
/// of them: their addresses matter, and their sizes, which the loader compares.
macro_rules! variables {
    ($($name:ident: $type:ty, $symbol:literal;)*) => {
        $(
            #[unsafe(export_name = $symbol)]
            // SAFETY: integers and characters, which may be zero.
            static $name: $type = unsafe { std::mem::zeroed() };
        )*

        /// Their addresses in this process, in this order.
        fn find() -> [usize; [$($symbol),*].len()] {
            [$(found(concat!($symbol, "\0"), &raw const $name as usize)),*]
        }
    };
}

const WORD: usize = size_of::<c_int>();

variables! {
    // MPI_BOTTOM, MPI_IN_PLACE, MPI_STATUS_IGNORE.
    FIRST: [c_int; 2 + STATUS], "mpipriv1_";
    // MPI_STATUSES_IGNORE, MPI_ERRCODES_IGNORE.
    SECOND: [c_int; STATUS + 1], "mpipriv2_";
    // MPI_ARGVS_NULL, MPI_ARGV_NULL.
    TEXTS: [u8; 2], "mpiprivc_";
    UNWEIGHTED: c_int, "mpifcmb5_";
    WEIGHTS_EMPTY: c_int, "mpifcmb9_";
    BUFFER_AUTOMATIC: c_int, "mpifcmba_";
    BOTTOM_08: c_int, "MPIR_F08_MPI_BOTTOM";
    IN_PLACE_08: c_int, "MPIR_F08_MPI_IN_PLACE";
    BUFFER_AUTOMATIC_08: c_int, "MPIR_F08_MPI_BUFFER_AUTOMATIC";
    UNWEIGHTED_08: c_int, "__mpi_f08_link_constants_MOD_mpi_unweighted";
    WEIGHTS_EMPTY_08: c_int, "__mpi_f08_link_constants_MOD_mpi_weights_empty";
    ERRCODES_08: c_int, "__mpi_f08_link_constants_MOD_mpi_errcodes_ignore";
    ARGV_08: u8, "__mpi_f08_link_constants_MOD_mpi_argv_null";
    ARGVS_08: u8, "__mpi_f08_link_constants_MOD_mpi_argvs_null";
}

/// Where a variable is in this process.
fn found(name: &str, own: usize) -> usize {
    let name = CStr::from_bytes_with_nul(name.as_bytes()).unwrap_or(c"");
    // SAFETY: a name; what it is the address of is not read.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) as usize };
    if found == 0 { own } else { found }
}

unsafe extern "C" {
    static MPIR_F08_MPI_STATUS_IGNORE_OBJ: Status;
    static MPIR_F08_MPI_STATUSES_IGNORE_OBJ: Status;
    static MPI_F_STATUS_IGNORE: AtomicPtr<c_int>;
    static MPI_F_STATUSES_IGNORE: AtomicPtr<c_int>;
    static MPI_F08_STATUS_IGNORE: AtomicPtr<Status>;
    static MPI_F08_STATUSES_IGNORE: AtomicPtr<Status>;
}

/// Addresses that stand for one thing. Stored once, before a function of the library can be called,
/// so relaxed: the loader is done with the library before anything else uses it.
struct Addresses<const N: usize>([AtomicUsize; N]);

impl<const N: usize> Addresses<N> {
    const fn new() -> Addresses<N> {
        Addresses([const { AtomicUsize::new(0) }; N])
    }

    fn set(&self, addresses: [usize; N]) {
        for (place, address) in self.0.iter().zip(addresses) {
            place.store(address, Ordering::Relaxed);
        }
    }

    #[inline(always)]
    fn has(&self, address: usize) -> bool {
        self.0.iter().any(|one| one.load(Ordering::Relaxed) == address)
    }
}

static AT_BOTTOM: Addresses<2> = Addresses::new();
static AT_IN_PLACE: Addresses<2> = Addresses::new();
static AT_AUTOMATIC: Addresses<2> = Addresses::new();
static AT_STATUS: Addresses<4> = Addresses::new();
static AT_UNWEIGHTED: Addresses<2> = Addresses::new();
static AT_WEIGHTS_EMPTY: Addresses<2> = Addresses::new();
/// Error codes and texts that are ignored or missing.
static AT_NOTHING: Addresses<6> = Addresses::new();

#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = at_load;

extern "C" fn at_load() {
    let [
        first,
        second,
        texts,
        unweighted,
        empty,
        automatic,
        bottom_08,
        in_place_08,
        automatic_08,
        unweighted_08,
        empty_08,
        errcodes_08,
        argv_08,
        argvs_08,
    ] = find();
    let (status, statuses) = (first + 2 * WORD, second);
    let status_08 = &raw const MPIR_F08_MPI_STATUS_IGNORE_OBJ;
    let statuses_08 = &raw const MPIR_F08_MPI_STATUSES_IGNORE_OBJ;
    AT_BOTTOM.set([first, bottom_08]);
    AT_IN_PLACE.set([first + WORD, in_place_08]);
    AT_AUTOMATIC.set([automatic, automatic_08]);
    AT_STATUS.set([status, statuses, status_08 as usize, statuses_08 as usize]);
    AT_UNWEIGHTED.set([unweighted, unweighted_08]);
    AT_WEIGHTS_EMPTY.set([empty, empty_08]);
    let errcodes = second + STATUS * WORD;
    AT_NOTHING.set([errcodes, texts, texts + 1, errcodes_08, argv_08, argvs_08]);
    // C compares a status of Fortran with these (MPI 5.0, 19.3.5).
    // SAFETY: variables of the library of C, which is loaded, and which nothing uses yet.
    unsafe {
        let ignored = |address| std::ptr::with_exposed_provenance_mut(address);
        MPI_F_STATUS_IGNORE.store(ignored(status), Ordering::Relaxed);
        MPI_F_STATUSES_IGNORE.store(ignored(statuses), Ordering::Relaxed);
        MPI_F08_STATUS_IGNORE.store(status_08.cast_mut(), Ordering::Relaxed);
        MPI_F08_STATUSES_IGNORE.store(statuses_08.cast_mut(), Ordering::Relaxed);
    }
}

/// The address that C has for a choice buffer.
#[inline(always)]
pub fn buffer(address: *mut c_void) -> *mut c_void {
    let at = address.addr();
    if AT_BOTTOM.has(at) {
        std::ptr::null_mut()
    } else if AT_IN_PLACE.has(at) {
        std::ptr::without_provenance_mut(c::IN_PLACE)
    } else if AT_AUTOMATIC.has(at) {
        std::ptr::without_provenance_mut(c::BUFFER_AUTOMATIC)
    } else {
        address
    }
}

/// The address that C has for a place of a status, or of statuses.
#[inline(always)]
pub fn unless_ignored<T>(address: *mut T) -> *mut T {
    match AT_STATUS.has(address.addr()) {
        true => std::ptr::without_provenance_mut(c::STATUS_IGNORE),
        false => address,
    }
}

/// The address that C has for a place of error codes, or for an array of weights or of texts.
#[inline(always)]
pub fn place<T>(address: *mut T) -> *mut T {
    let at = address.addr();
    if AT_UNWEIGHTED.has(at) {
        std::ptr::without_provenance_mut(c::UNWEIGHTED)
    } else if AT_WEIGHTS_EMPTY.has(at) {
        std::ptr::without_provenance_mut(c::WEIGHTS_EMPTY)
    } else if AT_NOTHING.has(at) {
        std::ptr::null_mut()
    } else {
        address
    }
}
