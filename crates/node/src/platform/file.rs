//! Input and output at positions of a file, from and to the bytes of messages; locks of byte
//! ranges, and the limit of a file's size.
//!
//! Each function makes one system call and returns how far it came; the caller goes on after a
//! short transfer, and after an interrupted one ([`std::io::ErrorKind::Interrupted`]).

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, RawFd};

use mica_memory::View;

/// Stretches of memory that one call takes at most. More would need memory of its own, and at a
/// page each these are a mebibyte.
const IOVECS: usize = 256;

/// Bytes of a message, for [`read`] and [`write()`].
#[derive(Clone, Copy, Debug)]
pub struct FilePiece<'a> {
    /// The message.
    pub view: &'a View,
    /// The first of its bytes.
    pub position: usize,
    /// How many.
    pub len: usize,
}

/// What is done with them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FileTransfer {
    Read,
    /// As far as it needs no waiting for a device.
    ReadAtOnce,
    Write,
}

/// Reads consecutive bytes of the file from `offset` on into the pieces, in order; returns how
/// many, fewer than the pieces have after a short transfer, 0 at the end of the file.
///
/// # Errors
/// The system's.
pub fn read(file: &File, offset: u64, pieces: &[FilePiece<'_>]) -> io::Result<usize> {
    transfer(file, offset, pieces, FileTransfer::Read)
}

/// As [`read`], as far as the bytes are in memory: `WouldBlock` if the first is not.
///
/// # Errors
/// The system's; `Unsupported` where the file system cannot tell.
pub fn read_at_once(file: &File, offset: u64, pieces: &[FilePiece<'_>]) -> io::Result<usize> {
    transfer(file, offset, pieces, FileTransfer::ReadAtOnce)
}

/// Writes the pieces one after another to the file from `offset` on; returns how many bytes, fewer
/// than the pieces have after a short transfer.
///
/// # Errors
/// The system's; `FileTooLarge` instead of `SIGXFSZ` where the process may not make files that
/// large (`RLIMIT_FSIZE`).
pub fn write(file: &File, offset: u64, pieces: &[FilePiece<'_>]) -> io::Result<usize> {
    if offset >= size_limit() && pieces.iter().any(|piece| piece.len > 0) {
        return Err(io::Error::from_raw_os_error(libc::EFBIG));
    }
    transfer(file, offset, pieces, FileTransfer::Write)
}

fn transfer(
    file: &File,
    offset: u64,
    pieces: &[FilePiece<'_>],
    transfer: FileTransfer,
) -> io::Result<usize> {
    let offset = i64::try_from(offset).map_err(|_| io::Error::from_raw_os_error(libc::EFBIG))?;
    let nothing = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
    let mut iovecs = [nothing; IOVECS];
    let used = describe(pieces, &mut iovecs);
    let (fd, list, used) = (file.as_raw_fd(), iovecs.as_ptr(), used as libc::c_int);
    // SAFETY: each stretch lies within a view, which promises that its bytes are readable, and
    // writable where something is received into it; the list has `used` elements.
    let done = unsafe {
        match transfer {
            FileTransfer::Read => libc::preadv(fd, list, used, offset),
            FileTransfer::ReadAtOnce => libc::preadv2(fd, list, used, offset, libc::RWF_NOWAIT),
            FileTransfer::Write => libc::pwritev(fd, list, used, offset),
        }
    };
    usize::try_from(done).map_err(|_| io::Error::last_os_error())
}

/// The stretches of memory that the pieces lie in, as many as `iovecs` takes.
fn describe(pieces: &[FilePiece<'_>], iovecs: &mut [libc::iovec; IOVECS]) -> usize {
    let mut used = 0;
    for piece in pieces {
        let mut left = piece.len;
        for run in piece.view.runs(piece.position) {
            if left == 0 {
                break;
            }
            if used == IOVECS {
                return used;
            }
            let len = run.len.min(left);
            let base = std::ptr::with_exposed_provenance_mut(run.address);
            iovecs[used] = libc::iovec { iov_base: base, iov_len: len };
            used += 1;
            left -= len;
        }
    }
    used
}

/// The size that files of this process may have at most, in bytes (`RLIMIT_FSIZE`).
fn size_limit() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: 0 };
    // SAFETY: writes to `limit` only.
    unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &mut limit) };
    limit.rlim_cur
}

/// Sets the file's size in bytes.
///
/// # Errors
/// The system's; `FileTooLarge` as for [`write()`].
pub fn set_size(file: &File, bytes: u64) -> io::Result<()> {
    if bytes > size_limit() {
        return Err(io::Error::from_raw_os_error(libc::EFBIG));
    }
    file.set_len(bytes)
}

/// Allocates storage for the first `bytes` bytes of the file, which has at least that size then.
///
/// # Errors
/// The system's; `Unsupported` where the file system cannot.
pub fn allocate(file: &File, bytes: u64) -> io::Result<()> {
    if bytes > size_limit() {
        return Err(io::Error::from_raw_os_error(libc::EFBIG));
    }
    let bytes = i64::try_from(bytes).map_err(|_| io::Error::from_raw_os_error(libc::EFBIG))?;
    if bytes == 0 {
        return Ok(());
    }
    // SAFETY: takes plain numbers.
    match unsafe { libc::fallocate(file.as_raw_fd(), 0, 0, bytes) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// How a range of a file is locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RangeLockKind {
    /// By any number of readers.
    Shared,
    /// By one writer.
    Exclusive,
}

/// Locks bytes of the file against other processes, and against other opened descriptors of the
/// same file in this one. Blocks until none of them has a conflicting lock. The lock belongs to the
/// opened file: it ends with the process at the latest.
///
/// # Errors
/// The system's, as where the file system has no locks. A file opened for reading alone takes
/// shared locks only, one for writing alone exclusive ones.
pub fn lock(file: &File, range: &Range<u64>, kind: RangeLockKind) -> io::Result<()> {
    let kind = match kind {
        RangeLockKind::Shared => libc::F_RDLCK,
        RangeLockKind::Exclusive => libc::F_WRLCK,
    };
    change_lock(file.as_raw_fd(), range, kind)
}

/// Ends a [`lock`].
///
/// # Errors
/// The system's.
pub fn unlock(file: &File, range: &Range<u64>) -> io::Result<()> {
    change_lock(file.as_raw_fd(), range, libc::F_UNLCK)
}

fn change_lock(fd: RawFd, range: &Range<u64>, kind: libc::c_int) -> io::Result<()> {
    // SAFETY: all zeros is a valid `flock`.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = kind as libc::c_short;
    lock.l_whence = libc::SEEK_SET as libc::c_short;
    lock.l_start = range.start.min(i64::MAX as u64) as libc::off_t;
    // A length of 0 would mean up to the end, whatever that will be.
    let bytes = range.end.saturating_sub(range.start).max(1);
    lock.l_len = bytes.min((i64::MAX - lock.l_start) as u64) as libc::off_t;
    loop {
        // SAFETY: reads `lock` only.
        if unsafe { libc::fcntl(fd, libc::F_OFD_SETLKW, &lock) } == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use mica_memory::{Block, Region, Shape, TypeLayout};

    use super::*;

    fn file() -> File {
        let name = std::env::temp_dir().join(format!("mica-file-{}", std::process::id()));
        let mut options = File::options();
        let file = options.read(true).write(true).create(true).truncate(true).open(&name).unwrap();
        std::fs::remove_file(name).unwrap();
        file
    }

    fn bytes(of: &[u8]) -> Region {
        let region = Block::allocate(of.len()).unwrap();
        region.write_bytes(of);
        region
    }

    #[test]
    fn pieces_go_one_after_another() {
        let file = file();
        let every_other = Arc::new(TypeLayout::basic(1, 1).unwrap().hvector(4, 1, 2).unwrap());
        let scattered = bytes(b"a.b.c.d").view(Shape::of(&every_other, 1).unwrap());
        let whole = bytes(b"0123456789").view(Shape::Contiguous { bytes: 10 });
        let pieces = [
            FilePiece { view: &scattered, position: 1, len: 2 },
            FilePiece { view: &whole, position: 3, len: 4 },
        ];
        assert_eq!(write(&file, 5, &pieces).unwrap(), 6);
        let back = bytes(&[0; 12]);
        let view = back.clone().view(Shape::Contiguous { bytes: 12 });
        let all = [FilePiece { view: &view, position: 0, len: 12 }];
        assert_eq!(read(&file, 0, &all).unwrap(), 11);
        let mut found = [1; 12];
        back.read_bytes(&mut found);
        assert_eq!(&found, b"\0\0\0\0\0bc3456\0");
        assert_eq!(read(&file, 11, &all).unwrap(), 0);
    }

    #[test]
    fn ranges_are_locked_against_others_who_opened_the_file() {
        let name = std::env::temp_dir().join(format!("mica-lock-{}", std::process::id()));
        let open = || {
            let mut options = File::options();
            options.read(true).write(true).create(true).truncate(false).open(&name)
        };
        let (one, other) = (open().unwrap(), open().unwrap());
        std::fs::remove_file(&name).unwrap();
        lock(&one, &(10..20), RangeLockKind::Exclusive).unwrap();
        lock(&other, &(20..30), RangeLockKind::Exclusive).unwrap();
        let waits = std::thread::spawn(move || {
            lock(&other, &(15..16), RangeLockKind::Shared).unwrap();
            other
        });
        // Long enough for a thread that does not wait to end.
        std::thread::sleep(std::time::Duration::from_millis(20));
        assert!(!waits.is_finished());
        unlock(&one, &(10..20)).unwrap();
        drop(waits.join().unwrap());
    }

    #[test]
    fn storage_is_allocated_and_the_size_changed() {
        let file = file();
        match allocate(&file, 1 << 16) {
            Ok(()) => assert_eq!(file.metadata().unwrap().len(), 1 << 16),
            Err(error) => assert_eq!(error.raw_os_error(), Some(libc::EOPNOTSUPP)),
        }
        set_size(&file, 100).unwrap();
        assert_eq!(file.metadata().unwrap().len(), 100);
    }
}
