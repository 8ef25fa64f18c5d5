//! The memory of the records: a file that is mapped, so that what is recorded outlives the process,
//! however it ends. A record is a store; the kernel is asked when the file must grow.
//!
//! The file grows by whole extents, whose blocks are allocated beforehand: a full disk is an error
//! here and no SIGBUS at a store, and a limit of the file's size no SIGXFSZ. It is opened anew each
//! time, since a program may close descriptors that are not its own. Memory is never freed, and is
//! zero at first.
//!
//! A child after `fork` has the mapping too; it records nothing (`recording`).

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Mutex, OnceLock};

use mica_profile::rank_tables::{MAGIC, TablesHead};

use crate::facts;
use crate::recording;

/// By how much the file grows at least, in bytes: a thread with few calls takes some 20 KB.
const EXTENT: usize = 256 << 10;

/// What allocations are multiples of: a line of the cache, and the bits that a table's word has
/// for its capacity.
const ALIGNMENT: usize = 64;

/// A type of which all bits zero is a value, and which any other process can read.
///
/// # Safety
/// It has no pointers and no invalid values, and is aligned to 64 bytes at most.
pub unsafe trait Record: Copy + 'static {}

// SAFETY: a number, which may be zero.
unsafe impl Record for u64 {}

/// Memory in the file.
pub struct FileBlock {
    /// Offset in the file.
    pub at: u64,
    /// Address.
    pub start: *mut u8,
}

struct RecordArena {
    path: PathBuf,
    /// Length of the file.
    length: usize,
    /// What is left of the last extent: its start, offset and bytes.
    free: *mut u8,
    free_at: usize,
    left: usize,
}

// SAFETY: the pointer is to memory that is mapped for good, and used under the lock.
unsafe impl Send for RecordArena {}

static ARENA: Mutex<Option<RecordArena>> = Mutex::new(None);
static HEAD: OnceLock<&'static TablesHead> = OnceLock::new();

/// Makes the file.
pub fn create(path: &Path) -> io::Result<&'static TablesHead> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    let mut arena = RecordArena {
        path: path.to_owned(),
        length: 0,
        free: std::ptr::null_mut(),
        free_at: 0,
        left: 0,
    };
    let block = arena.take(size_of::<TablesHead>())?;
    // SAFETY: the block is as large, aligned and zero, which is a value of the type; it is never
    // freed.
    let head: &'static TablesHead = unsafe { &*block.start.cast() };
    // Relaxed: the file is read when this process has ended.
    head.magic.store(MAGIC, Ordering::Relaxed);
    *ARENA.lock().expect("no panic while locked") = Some(arena);
    Ok(HEAD.get_or_init(|| head))
}

/// The start of the file, once it is made.
pub fn head() -> Option<&'static TablesHead> {
    HEAD.get().copied()
}

/// Zeroed memory. `None` if there is none: then nothing more is recorded, which is said once.
pub fn allocate(bytes: usize) -> Option<FileBlock> {
    let mut arena = ARENA.lock().expect("no panic while locked");
    match arena.as_mut()?.take(bytes) {
        Ok(block) => Some(block),
        Err(error) => {
            let path = arena.take()?.path;
            drop(arena);
            recording::stop();
            facts::append(&format!("stopped\t{}", facts::field(&error.to_string())));
            eprintln!("mica profile: no room for more records in {}: {error}", path.display());
            None
        }
    }
}

/// Zeroed memory for `count` records, and its offset.
pub fn allocate_records<T: Record>(count: usize) -> Option<(u64, &'static mut [T])> {
    const { assert!(align_of::<T>() <= ALIGNMENT) };
    let block = allocate(count.checked_mul(size_of::<T>())?)?;
    // SAFETY: the block is as large, aligned and nobody else's, and zero is a value of `T`.
    Some((block.at, unsafe { std::slice::from_raw_parts_mut(block.start.cast(), count) }))
}

impl RecordArena {
    fn take(&mut self, bytes: usize) -> io::Result<FileBlock> {
        let bytes = bytes.next_multiple_of(ALIGNMENT);
        if bytes > self.left {
            self.extend(bytes)?;
        }
        let block = FileBlock { at: self.free_at as u64, start: self.free };
        self.left -= bytes;
        self.free_at += bytes;
        // SAFETY: within the extent, or its end.
        self.free = unsafe { self.free.add(bytes) };
        Ok(block)
    }

    /// Maps a new extent, with room for `bytes` at least.
    #[cold]
    fn extend(&mut self, bytes: usize) -> io::Result<()> {
        let size = bytes.max(EXTENT).next_multiple_of(EXTENT);
        let file = OpenOptions::new().read(true).write(true).open(&self.path)?;
        self.free = map(&file, self.length, size)?;
        (self.free_at, self.left) = (self.length, size);
        self.length += size;
        Ok(())
    }
}

/// How long a file may become: to grow it further would be a signal that ends the program.
fn file_size_limit() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the call fills the structure.
    match unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &mut limit) } {
        0 => limit.rlim_cur,
        _ => u64::MAX,
    }
}

/// Adds `size` bytes to a file of `length` and maps them.
fn map(file: &File, length: usize, size: usize) -> io::Result<*mut u8> {
    if length as u64 + size as u64 > file_size_limit() {
        return Err(io::Error::from_raw_os_error(libc::EFBIG));
    }
    let offset = length as libc::off_t;
    // SAFETY: the descriptor is open; the call returns an error number.
    let code = unsafe { libc::posix_fallocate(file.as_raw_fd(), offset, size as libc::off_t) };
    if code != 0 {
        return Err(io::Error::from_raw_os_error(code));
    }
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping at an address of the kernel's choice; extents are whole pages.
    let start = unsafe {
        libc::mmap(std::ptr::null_mut(), size, access, libc::MAP_SHARED, file.as_raw_fd(), offset)
    };
    if start == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // All pages at once: a fault for each would be paid by the calls that first write there. A
    // kernel that does not know this (before 5.14) refuses, which does no harm.
    // SAFETY: the range was just mapped.
    unsafe { libc::madvise(start, size, libc::MADV_POPULATE_WRITE) };
    Ok(start.cast())
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::thread;
    use mica_profile::rank_tables::{RankTables, ThreadHead, ThreadTables};
    use std::sync::atomic::Ordering;

    /// The head of a thread that has no records yet, in the file that the tests share, and its
    /// number.
    pub fn thread_head() -> (&'static ThreadHead, u32) {
        static MADE: OnceLock<()> = OnceLock::new();
        MADE.get_or_init(|| {
            let _ = std::fs::remove_file(path());
            create(&path()).expect("a file");
            // SAFETY: the function has the type that is asked for.
            unsafe { libc::atexit(remove) };
        });
        let head = thread::new_head().expect("memory");
        (head, head.number.load(Ordering::Relaxed) as u32)
    }

    extern "C" fn remove() {
        let _ = std::fs::remove_file(path());
    }

    fn path() -> PathBuf {
        std::env::temp_dir().join(format!("mica-records-test-{}", std::process::id()))
    }

    /// What a reader of the file finds.
    pub fn read_file() -> RankTables {
        RankTables::read(&std::fs::read(path()).expect("the file")).expect("tables")
    }

    /// What it finds of one thread.
    pub fn read_thread(number: u32) -> ThreadTables {
        let threads = read_file().threads.into_iter();
        threads.rev().find(|thread| thread.number == number).expect("the thread")
    }

    #[test]
    fn a_file_grows_and_its_memory_is_zero_and_apart() {
        thread_head();
        let blocks: Vec<(u64, &'static mut [u64])> =
            (0..5).map(|_| allocate_records(20_000).expect("memory")).collect();
        for (number, (at, block)) in (1u64..).zip(blocks) {
            assert!(block.iter().all(|word| *word == 0));
            block.fill(number);
            let bytes = std::fs::read(path()).expect("the file");
            let (from, to) = (at as usize, at as usize + 8 * block.len());
            let words = bytes[from..to].chunks(8);
            assert!(words.map(|word| word[0]).all(|word| u64::from(word) == number));
        }
    }

    #[test]
    fn a_full_disk_is_an_error_and_no_signal() {
        let full = Path::new("/dev/full");
        let mut arena = RecordArena {
            path: full.to_owned(),
            length: 0,
            free: std::ptr::null_mut(),
            free_at: 0,
            left: 0,
        };
        assert!(arena.take(100).is_err());
    }
}
