//! Gives the library the SONAME of MPICH's ABI.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libmpi.so.12");
    // The library that it loads stays when a program closes it (dlclose), so it stays as well.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
