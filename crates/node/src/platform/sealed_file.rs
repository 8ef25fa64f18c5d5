//! A file in memory that no one can change any more, mapped to be read.
//!
//! The launcher writes such a file once per node (what all ranks of a job published), seals it, and
//! gives every rank a descriptor: the ranks share its pages, and a reader needs no copy.
//!
//! The seals are what makes a plain `&[u8]` of shared pages sound: a file that could still be
//! written or cut, by any process that has it, is refused.

use std::fs::File;
use std::io::{self, Write};
use std::ops::Deref;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;

/// The seals that a file must have: no writing, no other length.
const SEALS: libc::c_int = libc::F_SEAL_WRITE | libc::F_SEAL_SHRINK | libc::F_SEAL_GROW;

/// Creates an anonymous file with these bytes, which cannot be changed any more.
///
/// # Errors
/// The system's: no memory, or too many open files.
pub fn create(bytes: &[u8]) -> io::Result<OwnedFd> {
    sealed(bytes, SEALS | libc::F_SEAL_SEAL)
}

fn sealed(bytes: &[u8], seals: libc::c_int) -> io::Result<OwnedFd> {
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    // SAFETY: the name is terminated.
    let fd = unsafe { libc::memfd_create(c"mica-sealed".as_ptr(), flags) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new and ours.
    let mut file = unsafe { File::from_raw_fd(fd) };
    file.write_all(bytes)?;
    // SAFETY: takes plain numbers.
    match unsafe { libc::fcntl(fd, libc::F_ADD_SEALS, seals) } {
        0 => Ok(file.into()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Whether the file is one in memory that has these seals.
pub(crate) fn has_seals(file: BorrowedFd<'_>, wanted: libc::c_int) -> bool {
    // SAFETY: takes plain numbers; a file that knows no seals gives an error.
    let seals = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GET_SEALS) };
    seals >= 0 && seals & wanted == wanted
}

/// The bytes of a sealed file.
#[derive(Debug)]
pub struct SealedFile {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: the bytes never change, and the mapping is this value's own.
unsafe impl Send for SealedFile {}
// SAFETY: as above.
unsafe impl Sync for SealedFile {}

impl SealedFile {
    /// Maps a whole file. The descriptor is not needed afterwards.
    ///
    /// # Errors
    /// `InvalidInput` if the file is empty, or is not sealed against writing and other lengths;
    /// otherwise the system's.
    pub fn map(file: BorrowedFd<'_>) -> io::Result<SealedFile> {
        let fd = file.as_raw_fd();
        if !has_seals(file, SEALS) {
            let reason = "the file is not sealed against changes";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
        }
        // SAFETY: all zeros is a valid `stat`.
        let mut stat: libc::stat = unsafe { std::mem::zeroed() };
        // SAFETY: writes to `stat` only.
        if unsafe { libc::fstat(fd, &mut stat) } != 0 {
            return Err(io::Error::last_os_error());
        }
        let len = usize::try_from(stat.st_size).unwrap_or(0);
        // SAFETY: a new mapping, which no one else knows. A length of zero is an error.
        let base = unsafe {
            libc::mmap(std::ptr::null_mut(), len, libc::PROT_READ, libc::MAP_SHARED, fd, 0)
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).expect("mmap does not return null");
        Ok(SealedFile { base, len })
    }
}

impl Deref for SealedFile {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `len` bytes are mapped for as long as `self` lives. The file has at least these
        // (F_SEAL_SHRINK), and no process can change them (F_SEAL_WRITE, checked in `map`; the
        // kernel grants that seal only while there is no writable mapping, and no seal is removed).
        unsafe { std::slice::from_raw_parts(self.base.as_ptr(), self.len) }
    }
}

impl Drop for SealedFile {
    fn drop(&mut self) {
        // SAFETY: our mapping; no reference to its bytes outlives `self`.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.len) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn reads_sealed_bytes_after_the_descriptor_is_closed() {
        let file = create(b"what all ranks published").expect("memory");
        let mapped = SealedFile::map(file.as_fd()).expect("sealed");
        drop(file);
        assert_eq!(&mapped[..], b"what all ranks published");
    }

    #[test]
    fn refuses_what_others_could_change() {
        for missing in [libc::F_SEAL_WRITE, libc::F_SEAL_SHRINK, libc::F_SEAL_GROW] {
            let file = sealed(b"bytes", SEALS & !missing).expect("memory");
            let error = SealedFile::map(file.as_fd()).expect_err("not sealed");
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        }
        let program = File::open("/proc/self/exe").expect("own program");
        assert!(SealedFile::map(program.as_fd()).is_err());
        assert!(SealedFile::map(create(b"").expect("memory").as_fd()).is_err());
    }
}
