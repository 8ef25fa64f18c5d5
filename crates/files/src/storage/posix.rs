//! A file of the system, by `preadv` and `pwritev`; reads of many places by io_uring, as far as
//! they must wait for a device.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use mica_memory::{Block, Shape};
use mica_node::{file, uring};

use super::{FilePiece, FileRead, RangeLockKind, Storage, write_all};
use crate::amode::AccessMode;

/// Bytes written at a time where storage is allocated by writing.
const ZEROS: usize = 1 << 20;

/// A file of the system.
#[derive(Debug)]
pub struct PosixFile {
    file: File,
    is_readable: bool,
}

/// Whether this process is the one that creates the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Creates {
    /// It does, if the access mode says so.
    Yes,
    /// It exists.
    No,
}

/// The path in a file name of MPI. A prefix names a file system to ROMIO (`ufs:/data/x`): users of
/// it write one.
pub fn path_of(name: &Path) -> PathBuf {
    const PREFIXES: [&str; 10] =
        ["ufs", "nfs", "xfs", "lustre", "gpfs", "panfs", "pvfs2", "testfs", "bgl", "daos"];
    let text = name.as_os_str().to_string_lossy();
    match text.split_once(':') {
        Some((prefix, path)) if PREFIXES.contains(&prefix) => path.into(),
        _ => name.to_owned(),
    }
}

impl PosixFile {
    /// Opens a file. A pipe or a socket, whose bytes have no positions, is refused without waiting
    /// for its other end.
    ///
    /// # Errors
    /// The system's.
    pub fn open(
        path: &Path,
        mode: AccessMode,
        permissions: u32,
        creates: Creates,
    ) -> io::Result<PosixFile> {
        if let Ok(found) = std::fs::metadata(path) {
            let kind = found.file_type();
            if kind.is_fifo() || kind.is_socket() {
                let reason = "it is a pipe or a socket, whose bytes have no positions";
                return Err(io::Error::new(ErrorKind::InvalidFilename, reason));
            }
            if kind.is_dir() {
                return Err(ErrorKind::IsADirectory.into());
            }
        }
        let open = |reads: bool, creates: bool| {
            let mut options = OpenOptions::new();
            options.read(reads).write(mode.writes()).mode(permissions);
            if creates && mode.excludes() {
                options.create_new(true);
            } else if creates {
                options.create(true);
            }
            options.open(path)
        };
        let creates = creates == Creates::Yes && mode.creates();
        // To write in blocks, one must read them.
        match open(true, creates) {
            Err(error) if error.kind() == ErrorKind::PermissionDenied && !mode.reads() => {
                Ok(PosixFile { file: open(false, creates)?, is_readable: false })
            }
            opened => Ok(PosixFile { file: opened?, is_readable: true }),
        }
    }

    /// Writes zeros behind the end, as file systems need that do not allocate otherwise.
    fn extend_by_zeros(&self, bytes: u64) -> io::Result<()> {
        let zeros = Block::allocate(ZEROS).map_err(|_| io::Error::from(ErrorKind::OutOfMemory))?;
        zeros.write_bytes(&vec![0; ZEROS]);
        let view = zeros.view(Shape::Contiguous { bytes: ZEROS });
        let mut at = self.size()?;
        while at < bytes {
            let len = (bytes - at).min(ZEROS as u64) as usize;
            let written = write_all(self, at, &[FilePiece { view: &view, position: 0, len }]);
            written.error.map_or(Ok(()), Err)?;
            at += len as u64;
        }
        Ok(())
    }
}

impl Storage for PosixFile {
    fn read(&self, offset: u64, pieces: &[FilePiece<'_>]) -> io::Result<usize> {
        file::read(&self.file, offset, pieces)
    }

    fn read_together(&self, reads: &[FileRead<'_>]) -> Vec<io::Result<usize>> {
        // What is in memory is there sooner than a ring.
        let at_once =
            |read: &FileRead<'_>| file::read_at_once(&self.file, read.offset, read.pieces());
        let mut results: Vec<io::Result<usize>> = reads.iter().map(at_once).collect();
        let must_wait = |result: &io::Result<usize>| {
            let kinds = [ErrorKind::WouldBlock, ErrorKind::Unsupported];
            result.as_ref().is_err_and(|error| kinds.contains(&error.kind()))
        };
        let waiting: Vec<usize> =
            (0..reads.len()).filter(|&number| must_wait(&results[number])).collect();
        let late: Vec<FileRead<'_>> = waiting.iter().map(|&number| reads[number]).collect();
        let together = match late.len() {
            0 | 1 => None,
            _ => uring::read_together(&self.file, &late),
        };
        let one = |read: &FileRead<'_>| self.read(read.offset, read.pieces());
        let late = together.unwrap_or_else(|| late.iter().map(one).collect());
        for (number, result) in waiting.into_iter().zip(late) {
            results[number] = result;
        }
        results
    }

    fn write(&self, offset: u64, pieces: &[FilePiece<'_>]) -> io::Result<usize> {
        file::write(&self.file, offset, pieces)
    }

    fn is_readable(&self) -> bool {
        self.is_readable
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn set_size(&self, bytes: u64) -> io::Result<()> {
        file::set_size(&self.file, bytes)
    }

    fn allocate(&self, bytes: u64) -> io::Result<()> {
        match file::allocate(&self.file, bytes) {
            Err(error) if error.kind() == ErrorKind::Unsupported => self.extend_by_zeros(bytes),
            allocated => allocated,
        }
    }

    fn sync(&self) -> io::Result<()> {
        match self.file.sync_all() {
            // Pipes, devices: there is nothing to bring anywhere.
            Err(error) if error.kind() == ErrorKind::InvalidInput => Ok(()),
            synced => synced,
        }
    }

    fn lock(&self, range: &Range<u64>, kind: RangeLockKind) -> io::Result<()> {
        file::lock(&self.file, range, kind)
    }

    fn unlock(&self, range: &Range<u64>) -> io::Result<()> {
        file::unlock(&self.file, range)
    }
}
