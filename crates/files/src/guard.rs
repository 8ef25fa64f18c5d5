//! Who may write which bytes of a file now.
//!
//! Ranks write different bytes of a file at the same time without a word to one another (MPI 5.0,
//! 14.6.1). *Sieving* does more: it reads a block, puts its own bytes in and writes the block back,
//! with bytes between them that other ranks may have written meanwhile. So a rank that sieves
//! excludes all others from the block, by a lock of the system on the block's bytes; and all others
//! lock what they write, too, but only from the first time on that a rank of the file sieves. That
//! is announced in memory which the ranks share ([`SharedWords`]). A rank that writes
//!
//! 1. adds 1 to its word of writes; fence; reads the flag;
//! 2. if that is clear: writes, subtracts 1;
//! 3. if it is set: subtracts 1, locks its bytes (shared), writes, unlocks.
//!
//! A rank that sieves
//!
//! 1. the first time sets the flag; fence; waits until each rank's word has been 0 once;
//! 2. locks the block (exclusive), reads, writes, unlocks.
//!
//! Of the two fences (SeqCst) one comes first: either the writer sees the flag, or the rank that
//! sieves sees the writer's word. The flag is never cleared, so the wait is over quickly after the
//! first time. Locks of the system end with their process; and they hold against other jobs, too.
//!
//! Ranks that share no memory do not sieve. In atomic mode (14.6.1) all accesses lock their bytes.
//!
//! Threads of one process share a descriptor: a lock of the system does not hold between them, and
//! one that unlocks bytes unlocks them for all. So one thread at a time has such a lock.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard};

use mica_memory::{AtomicWidth, Region};
use mica_objects::sync::lock;

use crate::storage::{RangeLockKind, Storage};

/// Bytes of a word's line, so that ranks do not write to one another's.
const LINE: usize = 128;
/// Lines before those of the ranks: the shared file pointer, the flag.
const HEAD: usize = 2;

/// Words of a file in memory that its ranks share.
#[derive(Clone, Debug)]
pub struct SharedWords {
    region: Region,
    rank: usize,
    ranks: usize,
}

impl SharedWords {
    /// Bytes of the words of a file of `ranks` ranks, zeros at first.
    pub const fn bytes(ranks: usize) -> usize {
        (HEAD + ranks) * LINE
    }

    /// Those in this memory.
    pub fn new(region: Region, rank: usize, ranks: usize) -> SharedWords {
        SharedWords { region, rank, ranks }
    }

    /// Adds to the shared file pointer; returns its value before.
    pub fn advance_pointer(&self, by: u64) -> u64 {
        self.region.at(0).atomic_add(AtomicWidth::Eight, by)
    }

    /// Sets the shared file pointer.
    pub fn set_pointer(&self, value: u64) {
        self.region.at(0).atomic_store(AtomicWidth::Eight, value);
    }

    fn is_sieved(&self) -> bool {
        self.region.at(LINE).atomic_load(AtomicWidth::Eight) != 0
    }

    fn begin_write(&self) {
        self.region.at((HEAD + self.rank) * LINE).atomic_add(AtomicWidth::Eight, 1);
    }

    fn end_write(&self) {
        self.region.at((HEAD + self.rank) * LINE).atomic_add(AtomicWidth::Eight, u64::MAX);
    }

    /// Announces that ranks sieve, and waits for the writes that do not know it. Blocks.
    fn announce_sieving(&self) {
        self.region.at(LINE).atomic_store(AtomicWidth::Eight, 1);
        fence(Ordering::SeqCst);
        for rank in 0..self.ranks {
            let word = self.region.at((HEAD + rank) * LINE);
            while word.atomic_load(AtomicWidth::Eight) != 0 {
                std::thread::yield_now();
            }
        }
    }
}

/// What an open file's accesses are kept apart by.
#[derive(Debug)]
pub struct FileGuard {
    storage: Arc<dyn Storage>,
    /// `None`: the ranks share no memory.
    words: Option<SharedWords>,
    threads: Mutex<()>,
    is_atomic: AtomicBool,
    /// This process has announced that it sieves.
    has_announced: AtomicBool,
}

/// An access that may go on.
#[derive(Debug)]
pub enum Admission<'a> {
    /// It is announced in shared memory.
    Announced(&'a SharedWords),
    /// Its bytes are locked.
    #[expect(dead_code, reason = "held, not read")]
    Locked(HeldRange<'a>),
    /// No other access conflicts with it.
    Free,
}

/// A lock of the system, and of this process's threads.
#[derive(Debug)]
pub struct HeldRange<'a> {
    storage: &'a dyn Storage,
    range: Range<u64>,
    _threads: MutexGuard<'a, ()>,
}

impl Drop for Admission<'_> {
    fn drop(&mut self) {
        if let Admission::Announced(words) = self {
            words.end_write();
        }
    }
}

impl Drop for HeldRange<'_> {
    fn drop(&mut self) {
        // Nothing can be done about a failure; the lock ends with the file at the latest.
        let _ = self.storage.unlock(&self.range);
    }
}

impl FileGuard {
    /// That of a file whose ranks share these words, if they share memory.
    pub fn new(storage: Arc<dyn Storage>, words: Option<SharedWords>) -> FileGuard {
        FileGuard {
            storage,
            words,
            threads: Mutex::new(()),
            is_atomic: AtomicBool::new(false),
            has_announced: AtomicBool::new(false),
        }
    }

    /// Whether accesses are atomic. Relaxed: the program orders `MPI_File_set_atomicity`, which is
    /// collective, and accesses.
    pub fn is_atomic(&self) -> bool {
        self.is_atomic.load(Ordering::Relaxed)
    }

    /// `MPI_File_set_atomicity`.
    // flag: MPI's own argument.
    pub fn set_atomic(&self, is_atomic: bool) {
        self.is_atomic.store(is_atomic, Ordering::Relaxed);
    }

    /// Admits a read of bytes in this range.
    ///
    /// # Errors
    /// Those of locks, in atomic mode.
    pub fn read(&self, range: &Range<u64>) -> std::io::Result<Admission<'_>> {
        match self.is_atomic() {
            false => Ok(Admission::Free),
            true => Ok(Admission::Locked(self.lock(range, RangeLockKind::Shared)?)),
        }
    }

    /// Admits a write of bytes in this range, which no other access writes at the same time, but in
    /// atomic mode.
    ///
    /// # Errors
    /// Those of locks.
    pub fn write(&self, range: &Range<u64>) -> std::io::Result<Admission<'_>> {
        if self.is_atomic() {
            return Ok(Admission::Locked(self.lock(range, RangeLockKind::Exclusive)?));
        }
        let Some(words) = &self.words else {
            return Ok(Admission::Free);
        };
        words.begin_write();
        let announced = Admission::Announced(words);
        fence(Ordering::SeqCst);
        if !words.is_sieved() {
            return Ok(announced);
        }
        drop(announced);
        // Shared, though it writes: other such writes are of other bytes.
        let kind = match self.storage.is_readable() {
            true => RangeLockKind::Shared,
            false => RangeLockKind::Exclusive,
        };
        Ok(Admission::Locked(self.lock(range, kind)?))
    }

    /// Whether blocks of this file can be written with what lies between a rank's bytes.
    pub fn can_sieve(&self) -> bool {
        self.storage.is_readable() && (self.words.is_some() || self.is_atomic())
    }

    /// Admits a write of bytes in a block of an access that is written block by block: in atomic
    /// mode the whole access is admitted already.
    ///
    /// # Errors
    /// Those of locks.
    pub fn write_block(&self, block: &Range<u64>) -> std::io::Result<Admission<'_>> {
        if self.is_atomic() { Ok(Admission::Free) } else { self.write(block) }
    }

    /// As [`write_block`](Self::write_block), of a block that is written with what lies between;
    /// `None` if it cannot be.
    pub fn sieve(&self, block: &Range<u64>) -> Option<Admission<'_>> {
        if !self.can_sieve() {
            return None;
        }
        if self.is_atomic() {
            return Some(Admission::Free);
        }
        if !self.has_announced.load(Ordering::Relaxed) {
            // Before others take locks for it: whether the file system has any.
            drop(self.lock(block, RangeLockKind::Exclusive).ok()?);
            self.words.as_ref()?.announce_sieving();
            self.has_announced.store(true, Ordering::Relaxed);
        }
        Some(Admission::Locked(self.lock(block, RangeLockKind::Exclusive).ok()?))
    }

    fn lock(&self, range: &Range<u64>, kind: RangeLockKind) -> std::io::Result<HeldRange<'_>> {
        let _threads = lock(&self.threads);
        self.storage.lock(range, kind)?;
        Ok(HeldRange { storage: &*self.storage, range: range.clone(), _threads })
    }
}
