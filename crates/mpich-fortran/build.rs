//! Compiles the front end of Fortran for MPICH's ABI: its SONAME is that of MPICH's library, and it
//! needs Mica's of C.

#[path = "../fortran/link.rs"]
mod link;

fn main() {
    println!("cargo:rerun-if-changed=../fortran/link.rs");
    println!("cargo:rustc-cfg=mpich_abi");
    link::library("libmpifort.so.12", "libmpi.so.12");
}
