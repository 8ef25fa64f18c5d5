//! What processes name and recognise each other by.

use std::fmt;
use std::fs::Metadata;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;

/// 16 random bytes from the kernel.
///
/// # Errors
/// When the kernel has none.
pub fn nonce() -> io::Result<[u8; 16]> {
    let mut bytes = [0; 16];
    // SAFETY: `bytes` is valid for writes of its length; requests up to 256 bytes are not cut short
    // once the pool is ready.
    let got = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    if got == bytes.len() as isize {
        Ok(bytes)
    } else if got < 0 {
        Err(io::Error::last_os_error())
    } else {
        Err(io::ErrorKind::UnexpectedEof.into())
    }
}

/// Effective user of this process.
pub fn own_uid() -> u32 {
    // SAFETY: never fails and touches no memory.
    unsafe { libc::geteuid() }
}

/// Identifies a file or socket on this machine: device and inode, the same in every process that
/// has it open. Processes pass it on as text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileIdentity {
    /// The device that it is on.
    pub device: u64,
    /// Its number there.
    pub inode: u64,
}

impl From<&Metadata> for FileIdentity {
    fn from(file: &Metadata) -> FileIdentity {
        FileIdentity { device: file.dev(), inode: file.ino() }
    }
}

impl fmt::Display for FileIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.device, self.inode)
    }
}

/// What is behind a descriptor; `None` if the descriptor is closed.
pub fn identity(fd: BorrowedFd<'_>) -> Option<FileIdentity> {
    identity_of(fd.as_raw_fd())
}

/// [`identity`] of the descriptor with this number.
pub(crate) fn identity_of(number: i32) -> Option<FileIdentity> {
    // SAFETY: all-zero bytes are a valid stat.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: fstat writes to `stat` only, and fails for a descriptor that is not open.
    let open = unsafe { libc::fstat(number, &mut stat) } == 0;
    open.then_some(FileIdentity { device: stat.st_dev, inode: stat.st_ino })
}
