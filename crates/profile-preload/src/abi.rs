//! Whether the program's MPI library has the standard's ABI, without which neither handles nor
//! constants mean here what they mean there.

use std::ffi::{CStr, c_int, c_void};
use std::fs::OpenOptions;
use std::path::Path;

use crate::resolve;
use crate::types::SUCCESS;

/// How the names of libraries of the standard's ABI begin (MPI 5.0, 20.2).
const STANDARD: &str = "libmpi_abi.so";

/// How a library says which version of the standard's ABI it has.
type AbiVersion = unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int;

/// Whether it has: by the name of the library, or by what it says itself under another name.
pub fn is_standard() -> bool {
    if library().is_some_and(|path| name(&path).starts_with(STANDARD)) {
        return true;
    }
    let (mut major, mut minor): (c_int, c_int) = (-1, -1);
    // SAFETY: the type is that of the function of this name, in any ABI; it may be called at any
    // time, and gives -1 where the ABI is another.
    unsafe {
        let version: Option<AbiVersion> = resolve::function_of_library(c"MPI_Abi_get_version");
        version.is_some_and(|version| version(&mut major, &mut minor) == SUCCESS && major > 0)
    }
}

/// Says that this program is not profiled, once for all ranks: the first one makes a file in the
/// directory of the records, which tells `mica profile` too.
pub fn refuse(directory: &str) {
    let marker = Path::new(directory).join("other-abi");
    if OpenOptions::new().write(true).create_new(true).open(marker).is_ok() {
        let library = library().unwrap_or_else(|| "an MPI library".to_owned());
        let program = std::env::args_os().next().unwrap_or_default();
        eprintln!(
            "mica profile: {}: built for {}, not for the standard ABI's {STANDARD}; it runs on \
             without a profile. Rebuild it with Mica's mpicc",
            program.display(),
            name(&library)
        );
    }
}

fn name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// The path of the object that defines the library's functions.
fn library() -> Option<String> {
    let function: *mut c_void = resolve::lookup(c"MPI_Init")?;
    // SAFETY: plain data that the call fills; zero is a value of it.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: any address may be asked for.
    let found = unsafe { libc::dladdr(function, &mut info) } != 0 && !info.dli_fname.is_null();
    // SAFETY: a C string of the linker, which lives as long as the object.
    found.then(|| unsafe { CStr::from_ptr(info.dli_fname) }.to_string_lossy().into_owned())
}
