//! A file in memory, for tests: it refuses one of its calls, makes transfers short, or interrupts
//! them.

use std::io;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::{FilePiece, RangeLockKind, Storage};

/// What happens to one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StorageFault {
    /// It fails with this kind of error.
    Refused(io::ErrorKind),
    /// It transfers at most this many bytes.
    Short(usize),
}

/// A file in memory.
#[derive(Debug, Default)]
pub struct MemoryFile {
    bytes: Mutex<Vec<u8>>,
    calls: AtomicUsize,
    /// The number of the call that the fault strikes, from 0; a short one and all after it.
    fault: Option<(usize, StorageFault)>,
    locked: Mutex<Vec<Range<u64>>>,
}

impl MemoryFile {
    /// A file of these bytes.
    pub fn of(bytes: &[u8]) -> MemoryFile {
        MemoryFile { bytes: Mutex::new(bytes.to_vec()), ..MemoryFile::default() }
    }

    /// The same with a fault at one of its calls.
    pub fn failing_at(self, call: usize, fault: StorageFault) -> MemoryFile {
        MemoryFile { fault: Some((call, fault)), ..self }
    }

    /// What it holds.
    pub fn bytes(&self) -> Vec<u8> {
        self.bytes.lock().unwrap().clone()
    }

    /// Calls so far.
    pub fn calls(&self) -> usize {
        self.calls.load(Ordering::Relaxed)
    }

    /// Ranges that are locked.
    pub fn locks(&self) -> usize {
        self.locked.lock().unwrap().len()
    }

    /// Bytes that the next call may transfer.
    fn admitted(&self) -> io::Result<usize> {
        let call = self.calls.fetch_add(1, Ordering::Relaxed);
        match self.fault {
            Some((at, StorageFault::Refused(kind))) if at == call => Err(kind.into()),
            Some((at, StorageFault::Short(bytes))) if at <= call => Ok(bytes),
            _ => Ok(usize::MAX),
        }
    }
}

impl Storage for MemoryFile {
    fn read(&self, offset: u64, pieces: &[FilePiece<'_>]) -> io::Result<usize> {
        let most = self.admitted()?;
        let bytes = self.bytes.lock().unwrap();
        let mut done = 0;
        for piece in pieces {
            let from = (offset as usize + done).min(bytes.len());
            let len = piece.len.min(bytes.len() - from).min(most - done);
            piece.view.unpack(piece.position, &bytes[from..from + len]);
            done += len;
            if len < piece.len {
                break;
            }
        }
        Ok(done)
    }

    fn write(&self, offset: u64, pieces: &[FilePiece<'_>]) -> io::Result<usize> {
        let most = self.admitted()?;
        let mut bytes = self.bytes.lock().unwrap();
        let mut done = 0;
        for piece in pieces {
            let at = offset as usize + done;
            let len = piece.len.min(most - done);
            if bytes.len() < at + len {
                bytes.resize(at + len, 0);
            }
            piece.view.pack(piece.position, &mut bytes[at..at + len]);
            done += len;
            if len < piece.len {
                break;
            }
        }
        Ok(done)
    }

    fn is_readable(&self) -> bool {
        true
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.bytes.lock().unwrap().len() as u64)
    }

    fn set_size(&self, bytes: u64) -> io::Result<()> {
        self.admitted()?;
        self.bytes.lock().unwrap().resize(bytes as usize, 0);
        Ok(())
    }

    fn allocate(&self, bytes: u64) -> io::Result<()> {
        let size = self.size()?;
        self.set_size(bytes.max(size))
    }

    fn sync(&self) -> io::Result<()> {
        self.admitted().map(drop)
    }

    fn lock(&self, range: &Range<u64>, _kind: RangeLockKind) -> io::Result<()> {
        self.admitted()?;
        self.locked.lock().unwrap().push(range.clone());
        Ok(())
    }

    fn unlock(&self, range: &Range<u64>) -> io::Result<()> {
        self.locked.lock().unwrap().retain(|locked| locked != range);
        Ok(())
    }
}
