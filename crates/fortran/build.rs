//! Gives the library the SONAME of the standard ABI's Fortran library, and lets it need that of C.

use std::env;
use std::path::PathBuf;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libmpifort_abi.so.1");
    // Its callbacks stay in the library of C when a program closes it (dlclose).
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    // A program that names this library alone finds the other beside it.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-rpath,$ORIGIN");
    println!("cargo:rustc-cdylib-link-arg=-Wl,--no-as-needed");
    println!("cargo:rustc-cdylib-link-arg={}", library_of_c().display());
}

/// An empty library of the name that this one needs: the real one is a product of another crate,
/// which Cargo builds in no order, and its functions are looked up when the program starts.
fn library_of_c() -> PathBuf {
    let folder = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    let library = folder.join("libmpi_abi.so");
    let linker = env::var_os("RUSTC_LINKER").unwrap_or_else(|| "cc".into());
    let made = Command::new(&linker)
        .args(["-shared", "-nostdlib", "-Wl,-soname,libmpi_abi.so.1", "-o"])
        .arg(&library)
        .args(["-x", "c", "/dev/null"])
        .status();
    match made {
        Ok(status) if status.success() => library,
        Ok(status) => panic!("{}: {status}", linker.display()),
        Err(error) => panic!("{}: {error}", linker.display()),
    }
}
