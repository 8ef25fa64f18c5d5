//! The file that the running code was loaded from.

use std::ffi::{CStr, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// The file of the library or program that this code is part of, as the loader found it. `None` if
/// the loader does not say.
pub fn own_file() -> Option<PathBuf> {
    let here = (own_file as fn() -> Option<PathBuf>) as *const libc::c_void;
    // SAFETY: all-zero bytes are a valid Dl_info.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: writes to `info` only.
    let known = unsafe { libc::dladdr(here, &mut info) } != 0 && !info.dli_fname.is_null();
    // SAFETY: the loader's string, which lives as long as the object is loaded: as this code.
    let name = known.then(|| unsafe { CStr::from_ptr(info.dli_fname) })?;
    Some(PathBuf::from(OsStr::from_bytes(name.to_bytes())))
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_test_is_its_own_file() {
        let file = std::fs::canonicalize(super::own_file().expect("known")).expect("there");
        assert_eq!(file, std::env::current_exe().expect("/proc"));
    }
}
