//! `mpiexec`: see the library of this crate.

#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    mica_launch::main()
}
