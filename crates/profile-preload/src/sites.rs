//! Call sites: which object a return address lies in, looked up when an address is first seen,
//! since the object may be closed before the end.
//!
//! A site is its return address, or, for a line of Python, [`PYTHON`] with the number of the line
//! (`python`), or, for a stack of return addresses, `STACK` with its number (`stacks`).

use std::collections::BTreeMap;
use std::ffi::{CStr, c_int, c_void};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::python;

/// The bit of a site that is a line of Python. No address of a program has it.
pub const PYTHON: u64 = 1 << 63;

/// Where the machine code of a site lies.
#[derive(Debug, Clone)]
pub struct ObjectPlace {
    /// Path of the program or shared object.
    pub object: String,
    /// Address in its file.
    pub offset: u64,
}

static PLACES: Mutex<BTreeMap<u64, ObjectPlace>> = Mutex::new(BTreeMap::new());

/// The machine code of mpi4py's extension, whose callers are lines of Python.
static EXTENSION_START: AtomicUsize = AtomicUsize::new(0);
static EXTENSION_END: AtomicUsize = AtomicUsize::new(0);

/// The site of a call that returns to this address.
#[inline]
pub fn of(caller: usize) -> u64 {
    // Relaxed: nothing else is published with them.
    if caller >= EXTENSION_START.load(Ordering::Relaxed)
        && caller < EXTENSION_END.load(Ordering::Relaxed)
        && let Some(line) = python::current_line()
    {
        return PYTHON | line;
    }
    caller as u64
}

/// An address that was not seen before; returns its site.
#[cold]
pub fn discover(caller: usize) -> u64 {
    locate(caller);
    of(caller)
}

/// Finds the object of an address, for [`place`].
#[cold]
pub fn locate(caller: usize) {
    let mut search = SiteSearch { address: caller, found: None };
    let pointer: *mut SiteSearch = &mut search;
    // SAFETY: the callback gets the search, which lives until the call returns.
    unsafe { libc::dl_iterate_phdr(Some(visit), pointer.cast()) };
    if let Some((place, start, end)) = search.found {
        if place.object.contains("mpi4py") && python::is_usable() {
            EXTENSION_START.store(start, Ordering::Relaxed);
            EXTENSION_END.store(end, Ordering::Relaxed);
        }
        PLACES.lock().expect("no panic while locked").insert(caller as u64, place);
    }
}

/// Where an address lies.
pub fn place(site: u64) -> Option<ObjectPlace> {
    PLACES.lock().expect("no panic while locked").get(&site).cloned()
}

struct SiteSearch {
    address: usize,
    found: Option<(ObjectPlace, usize, usize)>,
}

/// Looks whether an object has the address.
unsafe extern "C" fn visit(
    info: *mut libc::dl_phdr_info,
    _size: libc::size_t,
    search: *mut c_void,
) -> c_int {
    // SAFETY: the linker passes a valid description, `discover` its search.
    let (info, search) = unsafe { (&*info, &mut *search.cast::<SiteSearch>()) };
    // SAFETY: the linker gives the number of headers.
    let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
    let loaded = headers.iter().filter(|header| header.p_type == libc::PT_LOAD);
    let base = info.dlpi_addr as usize;
    let bounds = |header: &libc::Elf64_Phdr| {
        let start = base.wrapping_add(header.p_vaddr as usize);
        (start, start + header.p_memsz as usize)
    };
    let ranges: Vec<(usize, usize)> = loaded.map(bounds).collect();
    if !ranges.iter().any(|&(start, end)| (start..end).contains(&search.address)) {
        return 0;
    }
    // SAFETY: a C string of the linker, empty for the program.
    let name = unsafe { CStr::from_ptr(info.dlpi_name) }.to_string_lossy().into_owned();
    let object = match name.is_empty() {
        true => program(),
        false => std::fs::canonicalize(&name).map_or(name, |path| path.display().to_string()),
    };
    let place = ObjectPlace { object, offset: search.address.wrapping_sub(base) as u64 };
    let start = ranges.iter().map(|range| range.0).min().unwrap_or(0);
    let end = ranges.iter().map(|range| range.1).max().unwrap_or(0);
    search.found = Some((place, start, end));
    1
}

/// Path of the running program.
fn program() -> String {
    std::fs::read_link("/proc/self/exe").map_or_else(|_| "?".into(), |p| p.display().to_string())
}
