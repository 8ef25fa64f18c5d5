//! The program's memory, as the adapter's transfers and the results of system calls reach it.
//!
//! QEMU maps the program's addresses to the same addresses of its own process (checked when the
//! program maps the adapter). Accesses go through `/proc/self/mem`, so that a wrong address is an
//! error and no crash of the emulator.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;

/// The program's memory.
#[derive(Debug)]
pub struct GuestMemory {
    file: File,
}

impl GuestMemory {
    /// Opens it.
    pub fn open() -> io::Result<GuestMemory> {
        let file = OpenOptions::new().read(true).write(true).open("/proc/self/mem")?;
        Ok(GuestMemory { file })
    }

    /// Reads all of `out`.
    pub fn read(&self, address: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(out, address)
    }

    /// Writes all of `bytes`.
    pub fn write(&self, address: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, address)
    }
}
