//! Where a file's bytes are: what the accesses above ask of it.
//!
//! [`posix`] is a file of the system. Tests have one in memory that refuses on demand
//! (`memory`). A back end makes single transfers, which may be short; [`read_all`] and
//! [`write_all`] go on where they stop.

#[cfg(test)]
pub mod memory;
pub mod posix;

use std::fmt::Debug;
use std::io;
use std::ops::Range;

pub use mica_node::file::{FilePiece, RangeLockKind};
pub use mica_node::uring::{FileRead, READS_MAX};

/// An open file.
pub trait Storage: Send + Sync + Debug {
    /// Reads consecutive bytes from `offset` on into the pieces, in order; returns how many, 0 at
    /// the end of the file.
    ///
    /// # Errors
    /// The system's.
    fn read(&self, offset: u64, pieces: &[FilePiece<'_>]) -> io::Result<usize>;

    /// Reads several places, as many of them at once as the system can; each has a result as that
    /// of [`read`](Self::read). An interrupted one is to be read again.
    fn read_together(&self, reads: &[FileRead<'_>]) -> Vec<io::Result<usize>> {
        reads.iter().map(|read| self.read(read.offset, read.pieces())).collect()
    }

    /// Writes the pieces one after another from `offset` on; returns how many bytes.
    ///
    /// # Errors
    /// The system's.
    fn write(&self, offset: u64, pieces: &[FilePiece<'_>]) -> io::Result<usize>;

    /// Whether it can be read, which writing in blocks needs.
    fn is_readable(&self) -> bool;

    /// Its size in bytes.
    ///
    /// # Errors
    /// The system's.
    fn size(&self) -> io::Result<u64>;

    /// Sets the size.
    ///
    /// # Errors
    /// The system's.
    fn set_size(&self, bytes: u64) -> io::Result<()>;

    /// Allocates storage for the first `bytes` bytes; the file has at least that size then.
    ///
    /// # Errors
    /// The system's.
    fn allocate(&self, bytes: u64) -> io::Result<()>;

    /// Brings what was written to the device.
    ///
    /// # Errors
    /// The system's.
    fn sync(&self) -> io::Result<()>;

    /// Locks bytes against other processes. Blocks.
    ///
    /// # Errors
    /// The system's, as where the file system has no locks.
    fn lock(&self, range: &Range<u64>, kind: RangeLockKind) -> io::Result<()>;

    /// Ends a [`lock`](Self::lock).
    ///
    /// # Errors
    /// The system's.
    fn unlock(&self, range: &Range<u64>) -> io::Result<()>;
}

/// How far a transfer came, and what stopped it before its end.
#[derive(Debug, Default)]
pub struct Transferred {
    /// Bytes that were transferred.
    pub bytes: u64,
    /// Why not all were; `None` also at the end of the file.
    pub error: Option<io::Error>,
}

/// Reads the pieces up to the last or the end of the file. Blocks.
pub fn read_all(storage: &dyn Storage, offset: u64, pieces: &[FilePiece<'_>]) -> Transferred {
    repeat(pieces, |done, left| storage.read(offset + done, left))
}

/// Writes all of the pieces. Blocks.
pub fn write_all(storage: &dyn Storage, offset: u64, pieces: &[FilePiece<'_>]) -> Transferred {
    let mut written = repeat(pieces, |done, left| storage.write(offset + done, left));
    let all: u64 = pieces.iter().map(|piece| piece.len as u64).sum();
    if written.bytes < all && written.error.is_none() {
        // A device that takes nothing and says nothing.
        written.error = Some(io::ErrorKind::WriteZero.into());
    }
    written
}

/// Calls `transfer(bytes done, pieces left)` until it stops.
fn repeat(
    pieces: &[FilePiece<'_>],
    mut transfer: impl FnMut(u64, &[FilePiece<'_>]) -> io::Result<usize>,
) -> Transferred {
    let mut done = 0_u64;
    let (mut next, mut within) = (0, 0);
    while let Some(first) = pieces.get(next) {
        if within == first.len {
            (next, within) = (next + 1, 0);
            continue;
        }
        // What is left of a piece goes by itself.
        let rest =
            FilePiece { position: first.position + within, len: first.len - within, ..*first };
        let left = if within == 0 { &pieces[next..] } else { std::slice::from_ref(&rest) };
        match transfer(done, left) {
            Ok(0) => break,
            Ok(bytes) => {
                done += bytes as u64;
                within += bytes;
                while next < pieces.len() && within >= pieces[next].len {
                    within -= pieces[next].len;
                    next += 1;
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Transferred { bytes: done, error: Some(error) },
        }
    }
    Transferred { bytes: done, error: None }
}
