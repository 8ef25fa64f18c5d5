//! Gives the library the SONAME of the standard ABI's Fortran library, and lets it need that of C.

mod link;

fn main() {
    println!("cargo:rerun-if-changed=link.rs");
    link::library("libmpifort_abi.so.1", "libmpi_abi.so.1");
}
