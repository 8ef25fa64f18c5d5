//! Where in the program a call of the library was made, for the counters of late arrivals
//! ([`mica_mpi::late`]): the first return address on the stack outside of this shared object, the
//! last one inside, and their names.
//!
//! None of this is called unless late arrivals are counted.

use std::ffi::{CStr, OsStr, c_int, c_void};
use std::ops::{ControlFlow, Range};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::OnceLock;

use mica_mpi::late::{CallSite, Caller, Finder, find_by};
use mica_node::unwind;

use crate::declined;

/// Maximum number of return addresses examined: more than the library ever has on the stack.
const DEPTH: usize = 64;

/// Makes the program's addresses known to the counters. Must be called before the first call is
/// counted.
pub fn prepare() {
    declined::anchor();
    find_by(Finder { caller, name });
}

/// The call that the library is in. In a thread of the library itself, no call is found.
fn caller() -> Caller {
    let own = own();
    let mut caller = Caller::default();
    let mut frames = 0;
    unwind::walk(|frame| {
        let address = frame.return_address() as u64;
        frames += 1;
        if own.contains(&address) {
            caller.entry = address;
        } else if caller.entry != 0 {
            caller.site = address;
            return ControlFlow::Break(());
        }
        if frames < DEPTH { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    match caller.site {
        0 => Caller::default(),
        _ => caller,
    }
}

/// Where this shared object lies.
fn own() -> &'static Range<u64> {
    static OWN: OnceLock<Range<u64>> = OnceLock::new();
    OWN.get_or_init(|| object_of(caller as *const () as u64).map_or(0..0, |o| o.range))
}

/// The location of the call before this return address.
fn name(address: u64) -> CallSite {
    // Within the call instruction: what follows it may belong to another line, even to another
    // function.
    let call = address - 1;
    let Some(object) = object_of(call) else {
        return CallSite { address, ..CallSite::default() };
    };
    let is_own = || own().contains(&call);
    let declined = || Some((is_own().then(|| declined::name_of(call))??.to_owned(), 0));
    let (symbol, symbol_offset) = symbol_of(call).or_else(declined).unwrap_or_default();
    CallSite {
        address,
        object: object.path.to_string_lossy().into_owned(),
        offset: call.wrapping_sub(object.bias),
        symbol,
        symbol_offset,
    }
}

/// A program or shared object that is loaded.
struct Object {
    path: PathBuf,
    /// Where its memory lies.
    range: Range<u64>,
    /// From its own addresses to those in memory; 0 for a program at fixed addresses.
    bias: u64,
}

/// The object that this address is in.
fn object_of(address: u64) -> Option<Object> {
    struct ObjectSearch {
        address: u64,
        found: Option<Object>,
    }

    unsafe extern "C" fn visit_object(
        info: *mut libc::dl_phdr_info,
        _size: usize,
        search: *mut c_void,
    ) -> c_int {
        // SAFETY: the loader passes a description that is valid for this call, and what
        // `dl_iterate_phdr` was given.
        let (info, search) = unsafe { (&*info, &mut *search.cast::<ObjectSearch>()) };
        // SAFETY: the object has this many program headers there, and stays loaded during this
        // call.
        let headers =
            unsafe { std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) };
        let bias = info.dlpi_addr;
        let parts = headers.iter().filter(|h| h.p_type == libc::PT_LOAD);
        let parts = parts.map(|h| {
            let start = bias.wrapping_add(h.p_vaddr);
            start..start.wrapping_add(h.p_memsz)
        });
        let parts: Vec<Range<u64>> = parts.collect();
        if !parts.iter().any(|part| part.contains(&search.address)) {
            return 0;
        }
        let path = match info.dlpi_name.is_null() {
            true => &[][..],
            // SAFETY: not null, so a C string that lives as long as the object is loaded.
            false => unsafe { CStr::from_ptr(info.dlpi_name) }.to_bytes(),
        };
        let path = match path {
            // The program itself.
            [] => std::env::current_exe().unwrap_or_default(),
            path => PathBuf::from(OsStr::from_bytes(path)),
        };
        let first = parts.iter().map(|part| part.start).min();
        let end = parts.iter().map(|part| part.end).max();
        search.found = Some(Object { path, range: first.unwrap_or(0)..end.unwrap_or(0), bias });
        1
    }

    let mut search = ObjectSearch { address, found: None };
    // SAFETY: `visit_object` uses its arguments only during the call.
    unsafe { libc::dl_iterate_phdr(Some(visit_object), (&raw mut search).cast()) };
    search.found
}

/// The exported function that contains this address, and the offset of the address in it.
fn symbol_of(address: u64) -> Option<(String, u64)> {
    let mut info = libc::Dl_info {
        dli_fname: std::ptr::null(),
        dli_fbase: std::ptr::null_mut(),
        dli_sname: std::ptr::null(),
        dli_saddr: std::ptr::null_mut(),
    };
    let at = std::ptr::without_provenance::<c_void>(address as usize);
    // SAFETY: writes to `info` only; the address is looked up, not followed.
    let found = unsafe { libc::dladdr(at, &mut info) } != 0;
    if !found || info.dli_sname.is_null() {
        return None;
    }
    // SAFETY: not null, so a C string in the object's symbol table; the object is in use by the
    // program that runs.
    let symbol = unsafe { CStr::from_ptr(info.dli_sname) };
    let offset = address - info.dli_saddr.addr() as u64;
    Some((symbol.to_string_lossy().into_owned(), offset))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_address_in_program() {
        let here = names_address_in_program as *const () as u64;
        let object = object_of(here).expect("this program is loaded");
        assert_eq!(object.path, std::env::current_exe().unwrap());
        assert!(object.range.contains(&here));
        let site = name(here + 5);
        assert_eq!(site.address, here + 5);
        assert_eq!(site.offset, here + 4 - object.bias);
        assert_eq!(site.object, object.path.to_string_lossy());
    }

    #[test]
    fn names_function_of_library() {
        let qsort = libc::qsort as *const () as u64;
        let site = name(qsort + 3);
        assert!(site.object.contains("libc"), "{site:?}");
        assert_eq!((&*site.symbol, site.symbol_offset), ("qsort", 2));
    }

    #[test]
    fn unmapped_address_has_no_name() {
        let site = name(2);
        assert_eq!((site.address, &*site.object, &*site.symbol), (2, "", ""));
    }

    #[test]
    fn caller_is_outside_this_object() {
        // The object here is the test program, so the site is the caller of its first function.
        let own = object_of(caller as *const () as u64).unwrap().range;
        let Caller { site, entry } = caller();
        assert!(site != 0 && !own.contains(&site), "{site:#x}");
        assert!(name(site).object.contains("libc"), "{:?}", name(site));
        assert!(own.contains(&entry), "{entry:#x}");
    }
}
