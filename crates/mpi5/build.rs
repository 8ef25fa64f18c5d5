//! Gives the library the SONAME of the MPI standard ABI.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libmpi_abi.so.1");
    // Its threads and hooks stay when a program closes it (dlclose).
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
