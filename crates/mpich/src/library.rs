//! The library of the standard ABI: found, loaded and asked for its functions.
//!
//! It is loaded from the folder of this one, for this library alone (`RTLD_LOCAL`): its functions
//! have the names of those here, and must not be what a program of MPICH's ABI finds by them. A
//! part of the program that was built for the standard ABI shares it, since the loader has a
//! library once.

use std::ffi::{CStr, CString, c_char, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use mica_front_end::table::{FrontEndTable, LAYOUT, SYMBOL};

use crate::value::BSEND_OVERHEAD;

/// The library's SONAME.
pub const STANDARD: &str = "libmpi_abi.so.1";

/// Its handle, by `dlopen`, and its table.
struct Library {
    handle: usize,
    table: &'static FrontEndTable,
}

/// One function of the library, looked up when it is first called.
pub struct StandardFunction {
    /// With its final zero.
    name: &'static str,
    address: AtomicUsize,
}

impl StandardFunction {
    /// The function of this name, which ends with a zero.
    pub const fn new(name: &'static str) -> StandardFunction {
        StandardFunction { name, address: AtomicUsize::new(0) }
    }

    /// Its address.
    #[inline(always)]
    pub fn address(&self) -> *const c_void {
        // Relaxed: the address alone matters, and the code behind it was loaded before this thread
        // or another learnt it from the loader.
        match self.address.load(Ordering::Relaxed) {
            0 => self.find(),
            address => std::ptr::with_exposed_provenance(address),
        }
    }

    #[cold]
    #[inline(never)]
    fn find(&self) -> *const c_void {
        let library = std::ptr::with_exposed_provenance_mut(library().handle);
        // SAFETY: the handle is the loader's, and the name ends with a zero.
        let address = unsafe { libc::dlsym(library, self.name.as_ptr().cast()) };
        if address.is_null() {
            end(&format!("{STANDARD} has no {}", self.name.trim_end_matches('\0')));
        }
        self.address.store(address.expose_provenance(), Ordering::Relaxed);
        address
    }
}

/// What the library has beside MPI's functions.
pub fn table() -> &'static FrontEndTable {
    library().table
}

fn library() -> &'static Library {
    static LIBRARY: OnceLock<Library> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let path = beside().map(|folder| folder.join(STANDARD)).filter(|path| path.exists());
        let path = path.unwrap_or_else(|| PathBuf::from(STANDARD));
        let handle = open(&path);
        // SAFETY: the handle is the loader's, and the name ends with a zero.
        let table = unsafe { libc::dlsym(handle, SYMBOL.as_ptr().cast()) };
        // SAFETY: the symbol is Mica's alone, and what lies there stays; the layout is the first
        // word of any version of it.
        let layout = unsafe { table.cast::<u32>().as_ref() };
        if layout != Some(&LAYOUT) {
            end(&format!("{} is not the one of this version of Mica", path.display()));
        }
        // SAFETY: the layout is the one that this was compiled for.
        let table = unsafe { &*table.cast::<FrontEndTable>() };
        // SAFETY: the table's function.
        unsafe { (table.limit_bsend_overhead)(BSEND_OVERHEAD) };
        Library { handle: handle.expose_provenance(), table }
    })
}

fn open(path: &Path) -> *mut c_void {
    let name = CString::new(path.as_os_str().as_bytes()).expect("a path has no zero");
    // SAFETY: the name is a C string; the library's initializers are Mica's own.
    let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    if handle.is_null() {
        // SAFETY: the loader's message, after an error.
        let why = unsafe { libc::dlerror().cast::<c_char>().as_ref() };
        // SAFETY: it is a C string.
        let why = why.map(|why| unsafe { CStr::from_ptr(why) }.to_string_lossy());
        end(&format!("cannot load {}: {}", path.display(), why.unwrap_or_default()));
    }
    handle
}

/// The file of this library, as the loader knows it.
pub fn own_file() -> Option<PathBuf> {
    file_at((own_file as fn() -> Option<PathBuf>) as *const c_void)
}

/// The file that has what lies at an address.
pub fn file_at(address: *const c_void) -> Option<PathBuf> {
    let mut found = std::mem::MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: `found` is writable; the address is only compared.
    let known = unsafe { libc::dladdr(address, found.as_mut_ptr()) };
    // SAFETY: zeroes are a valid value, and so is what the loader has written.
    let found = unsafe { found.assume_init() };
    if known == 0 || found.dli_fname.is_null() {
        return None;
    }
    // SAFETY: the loader's C string, which stays while the object is loaded.
    let name = unsafe { CStr::from_ptr(found.dli_fname) };
    Some(PathBuf::from(std::ffi::OsStr::from_bytes(name.to_bytes())))
}

/// The folder of this library, which may have been found by a link.
fn beside() -> Option<PathBuf> {
    Some(own_file()?.canonicalize().ok()?.parent()?.to_owned())
}

/// Ends the process with one line: there is no MPI that could raise an error.
pub fn end(why: &str) -> ! {
    eprintln!("libmpi.so.12 (Mica): {why}");
    std::process::exit(1)
}
