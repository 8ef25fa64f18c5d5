//! Call sites: which object a return address lies in, looked up when an address is first seen,
//! since the object may be closed before the end.
//!
//! A site is its return address, or, for a line of Python, [`PYTHON`] with the number of the line
//! (`python`), or, for a stack of return addresses, `STACK` with its number (`stacks`).

use std::collections::BTreeSet;
use std::ffi::{CStr, c_int, c_void};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::facts::{self, field};
use crate::python;

/// The bit of a site that is a line of Python. No address of a program has it.
pub const PYTHON: u64 = 1 << 63;

/// Sites that the records name.
static SEEN: Mutex<BTreeSet<u64>> = Mutex::new(BTreeSet::new());

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

/// A call at this site, which a thread makes for the first time: says in the records where it is,
/// unless that is known. Returns the site: the first call of mpi4py tells where its machine code
/// is.
#[cold]
pub fn announce(site: u64, caller: usize) -> u64 {
    let site = if site & PYTHON == 0 { discover(caller) } else { site };
    if site & PYTHON != 0
        && is_new(site)
        && let Some(found) = python::line(site & !PYTHON)
    {
        let (line, function, file) = (found.line, field(&found.function), field(&found.file));
        facts::append(&format!("python\t{site}\t{line}\t{function}\t{file}"));
    }
    site
}

/// Says in the records where an address is, unless that is known. Returns its site.
pub fn discover(caller: usize) -> u64 {
    // Held until it is known whose machine code that is, for other threads that call from there.
    let mut seen = SEEN.lock().expect("no panic while locked");
    if seen.insert(caller as u64) {
        let mut search = SiteSearch { address: caller, found: None };
        let pointer: *mut SiteSearch = &mut search;
        // SAFETY: the callback gets the search, which lives until the call returns.
        unsafe { libc::dl_iterate_phdr(Some(visit), pointer.cast()) };
        if let Some(found) = search.found {
            if found.path.contains("mpi4py") && python::is_usable() {
                EXTENSION_START.store(found.start, Ordering::Relaxed);
                EXTENSION_END.store(found.end, Ordering::Relaxed);
            }
            let offset = caller.wrapping_sub(found.base);
            facts::append(&format!("code\t{caller}\t{offset}\t{}", field(&found.path)));
        }
    }
    drop(seen);
    of(caller)
}

/// Whether nobody has asked for this site before.
fn is_new(site: u64) -> bool {
    SEEN.lock().expect("no panic while locked").insert(site)
}

/// A loaded object.
pub struct ObjectImage {
    /// Its path.
    pub path: String,
    /// The difference between addresses in memory and those in its file.
    pub base: usize,
    /// Its first address.
    pub start: usize,
    /// The address behind its last one.
    pub end: usize,
}

/// All objects that are loaded.
pub fn loaded() -> Vec<ObjectImage> {
    let mut objects: Vec<ObjectImage> = Vec::new();
    let list: *mut Vec<ObjectImage> = &mut objects;
    // SAFETY: the callback gets the list, which lives until the call returns.
    unsafe { libc::dl_iterate_phdr(Some(collect), list.cast()) };
    objects
}

/// Adds an object to the list.
unsafe extern "C" fn collect(
    info: *mut libc::dl_phdr_info,
    _size: libc::size_t,
    list: *mut c_void,
) -> c_int {
    // SAFETY: the linker passes a valid description, `loaded` its list.
    let (info, list) = unsafe { (&*info, &mut *list.cast::<Vec<ObjectImage>>()) };
    let ranges = ranges(info);
    list.extend(describe(info, &ranges));
    0
}

struct SiteSearch {
    address: usize,
    found: Option<ObjectImage>,
}

/// Looks whether an object has the address.
unsafe extern "C" fn visit(
    info: *mut libc::dl_phdr_info,
    _size: libc::size_t,
    search: *mut c_void,
) -> c_int {
    // SAFETY: the linker passes a valid description, `discover` its search.
    let (info, search) = unsafe { (&*info, &mut *search.cast::<SiteSearch>()) };
    let ranges = ranges(info);
    if !ranges.iter().any(|&(start, end)| (start..end).contains(&search.address)) {
        return 0;
    }
    search.found = describe(info, &ranges);
    1
}

/// The parts of an object that are in memory.
fn ranges(info: &libc::dl_phdr_info) -> Vec<(usize, usize)> {
    // SAFETY: the linker gives the number of headers.
    let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
    let loaded = headers.iter().filter(|header| header.p_type == libc::PT_LOAD);
    let base = info.dlpi_addr as usize;
    let bounds = |header: &libc::Elf64_Phdr| {
        let start = base.wrapping_add(header.p_vaddr as usize);
        (start, start + header.p_memsz as usize)
    };
    loaded.map(bounds).collect()
}

fn describe(info: &libc::dl_phdr_info, ranges: &[(usize, usize)]) -> Option<ObjectImage> {
    // SAFETY: a C string of the linker, empty for the program.
    let name = unsafe { CStr::from_ptr(info.dlpi_name) }.to_string_lossy().into_owned();
    let path = match name.is_empty() {
        true => program(),
        false => std::fs::canonicalize(&name).map_or(name, |path| path.display().to_string()),
    };
    Some(ObjectImage {
        path,
        base: info.dlpi_addr as usize,
        start: ranges.iter().map(|range| range.0).min()?,
        end: ranges.iter().map(|range| range.1).max()?,
    })
}

/// Path of the running program.
fn program() -> String {
    std::fs::read_link("/proc/self/exe").map_or_else(|_| "?".into(), |p| p.display().to_string())
}
