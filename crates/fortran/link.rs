//! How a library of Fortran is linked; for the build scripts of both packages.

use std::env;
use std::path::PathBuf;
use std::process::Command;

/// Links it under a SONAME, and lets it need the library of C, by the name of that.
pub fn library(soname: &str, of_c: &str) {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-check-cfg=cfg(mpich_abi)");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,{soname}");
    // Its callbacks stay in the library of C when a program closes it (dlclose).
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    // A program that names this library alone finds the other beside it.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-rpath,$ORIGIN");
    println!("cargo:rustc-cdylib-link-arg=-Wl,--no-as-needed");
    println!("cargo:rustc-cdylib-link-arg={}", empty_library(of_c).display());
}

/// An empty library of the name that this one needs: the real one is a product of another crate,
/// which Cargo builds in no order, and its functions are looked up when the program starts.
fn empty_library(soname: &str) -> PathBuf {
    let folder = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    let library = folder.join("library_of_c.so");
    let linker = env::var_os("RUSTC_LINKER").unwrap_or_else(|| "cc".into());
    let made = Command::new(&linker)
        .args(["-shared", "-nostdlib", &format!("-Wl,-soname,{soname}"), "-o"])
        .arg(&library)
        .args(["-x", "c", "/dev/null"])
        .status();
    match made {
        Ok(status) if status.success() => library,
        Ok(status) => panic!("{}: {status}", linker.display()),
        Err(error) => panic!("{}: {error}", linker.display()),
    }
}
