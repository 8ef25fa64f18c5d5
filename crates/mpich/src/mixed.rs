//! Refuses a process whose parts were built for different ABIs where their names would meet.
//!
//! `MPI_Send` is one name for the loader. Where a library of either ABI is among the objects that
//! are searched first for every name (what the program itself needs, or was loaded with
//! `RTLD_GLOBAL`), a part built for the other one would call it with the wrong handles. Parts that
//! keep their library to themselves, as extension modules of Python do, may differ: both then use
//! the same MPI.
//!
//! Looked at once, when this library is loaded.

use std::ffi::{CStr, c_int, c_void};
use std::path::Path;

use crate::library::{STANDARD, end, file_at, own_file};

/// Names that MPICH's ABI goes by (SONAMEs of MPICH, Intel MPI and Debian), in C and Fortran: a
/// part in Fortran may need no other.
const MPICH: [&str; 4] =
    ["libmpi.so.12", "libmpich.so.12", "libmpifort.so.12", "libmpichfort.so.12"];
/// Names that the standard ABI goes by.
const STANDARD_ABI: [&str; 2] = [STANDARD, "libmpifort_abi.so.1"];

#[used]
#[unsafe(link_section = ".init_array")]
static LOADED: extern "C" fn() = refuse_mixed;

extern "C" fn refuse_mixed() {
    // Not RTLD_DEFAULT, which looks into what this library alone has as well.
    // SAFETY: the program itself is loaded, so this loads nothing; the name ends with a zero.
    let first = unsafe {
        let program = libc::dlopen(std::ptr::null(), libc::RTLD_LAZY);
        libc::dlsym(program, c"MPI_Init".as_ptr())
    };
    let Some(first) = (!first.is_null()).then(|| file_at(first)).flatten() else {
        return;
    };
    let (is_ours, other): (bool, &[&str]) = match own_file() {
        Some(own) if own == first => (true, &STANDARD_ABI),
        _ if is_named(&first, &[STANDARD]) => (false, &MPICH),
        // A tool that wraps MPI's functions, or another MPI: none of ours to judge.
        _ => return,
    };
    if let Some(part) = needing(other) {
        let (this, that) = match is_ours {
            true => ("MPICH's ABI", "the standard ABI"),
            false => ("the standard ABI", "MPICH's ABI"),
        };
        end(&format!(
            "{} was built for {that}, but the program for {this}; build both for one of them",
            part.display()
        ));
    }
}

fn is_named(path: &Path, names: &[&str]) -> bool {
    path.file_name().is_some_and(|file| names.iter().any(|name| file == *name))
}

/// An object of this process that needs one of these libraries.
fn needing(names: &[&str]) -> Option<std::path::PathBuf> {
    let mut search = Search { names, found: None };
    // SAFETY: the callback gets the address of `search`, which outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(check), (&raw mut search).cast()) };
    search.found
}

struct Search<'a> {
    names: &'a [&'a str],
    found: Option<std::path::PathBuf>,
}

unsafe extern "C" fn check(
    object: *mut libc::dl_phdr_info,
    _size: usize,
    search: *mut c_void,
) -> c_int {
    // SAFETY: the loader passes one of its objects, and `needing` the search.
    let (object, search) = unsafe { (&*object, &mut *search.cast::<Search<'_>>()) };
    // SAFETY: the object is loaded while the loader lists it.
    if unsafe { needs(object, search.names) } {
        // SAFETY: the name is the loader's C string; the program's own is empty.
        let name = unsafe { CStr::from_ptr(object.dlpi_name) }.to_string_lossy().into_owned();
        search.found = Some(match name.is_empty() {
            true => std::env::current_exe().unwrap_or_else(|_| "the program".into()),
            false => name.into(),
        });
        return 1;
    }
    0
}

/// Whether an object's dynamic section has one of the names as needed.
///
/// # Safety
/// The object is loaded.
unsafe fn needs(object: &libc::dl_phdr_info, names: &[&str]) -> bool {
    // SAFETY: the loader's array of program headers.
    let headers =
        unsafe { std::slice::from_raw_parts(object.dlpi_phdr, usize::from(object.dlpi_phnum)) };
    let Some(header) = headers.iter().find(|header| header.p_type == libc::PT_DYNAMIC) else {
        return false;
    };
    let base = object.dlpi_addr as usize;
    let place = base + header.p_vaddr as usize;
    let entries = std::ptr::with_exposed_provenance::<[u64; 2]>(place);
    let count = header.p_memsz as usize / size_of::<[u64; 2]>();
    // SAFETY: the section is mapped and lasts, as long as its header says.
    let entries = unsafe { std::slice::from_raw_parts(entries, count) };
    let end = entries.iter().position(|entry| entry[0] == DT_NULL).unwrap_or(count);
    let entries = &entries[..end];
    let Some(strings) = entries.iter().find(|entry| entry[0] == DT_STRTAB) else {
        return false;
    };
    // The loader has made an address of it, but for objects of the kernel (the vDSO).
    let strings = strings[1] as usize;
    if strings < base {
        return false;
    }
    entries.iter().filter(|entry| entry[0] == DT_NEEDED).any(|entry| {
        let name = std::ptr::with_exposed_provenance(strings + entry[1] as usize);
        // SAFETY: the object's string table holds a C string there.
        let name = unsafe { CStr::from_ptr(name) };
        names.iter().any(|wanted| name.to_bytes() == wanted.as_bytes())
    })
}

/// Tags of entries of a dynamic section (ELF).
const DT_NULL: u64 = 0;
const DT_NEEDED: u64 = 1;
const DT_STRTAB: u64 = 5;
