//! The adapter's memory, mapped: by the process that it serves, and by a model that runs in the
//! same address space.
//!
//! Registers are stored to by volatile accesses between compiler fences: the model runs inside the
//! store, reads commands and buffers, and writes events and buffers. Commands and events are
//! atomics that are accessed relaxed (see the module above).

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering, compiler_fence};

use super::layout::{
    ADAPTER_VARIABLE, COMMANDS, COMMANDS_OFFSET, Command, DEVICE_BYTES, EVENTS, EVENTS_OFFSET,
    Event, MAGIC, Registers,
};
use crate::tunables::set_variable;

/// Why there is no adapter at the descriptor that the environment names.
#[derive(Debug, thiserror::Error)]
pub enum AdapterError {
    /// The variable has no number.
    #[error(
        "{ADAPTER_VARIABLE}={value}: expected the number of a descriptor, as `mica sim` sets it"
    )]
    NoNumber {
        /// Its value.
        value: String,
    },
    /// The descriptor is not open, or cannot be mapped.
    #[error(
        "{ADAPTER_VARIABLE}={descriptor}: this descriptor is no memory of an adapter ({source}); \
        `mica sim run` sets the variable, for the processes that it starts"
    )]
    NotMapped {
        /// The descriptor.
        descriptor: RawFd,
        /// The system's error.
        source: io::Error,
    },
    /// The memory is too short.
    #[error(
        "{ADAPTER_VARIABLE}={descriptor}: this descriptor has {bytes} bytes, an adapter has \
        {DEVICE_BYTES}; `mica sim run` sets the variable, for the processes that it starts"
    )]
    TooShort {
        /// The descriptor.
        descriptor: RawFd,
        /// Its length in bytes.
        bytes: u64,
    },
    /// The first register is another one.
    #[error(
        "{ADAPTER_VARIABLE}={descriptor}: the adapter's first register is {magic:#x}, not \
        {MAGIC:#x}: it is no adapter, or one of another version of Mica"
    )]
    WrongMagic {
        /// The descriptor.
        descriptor: RawFd,
        /// What was found.
        magic: u64,
    },
    /// The rank is not one of the job's.
    #[error("{ADAPTER_VARIABLE}={descriptor}: the adapter says rank {rank} of {size}")]
    WrongRank {
        /// The descriptor.
        descriptor: RawFd,
        /// The register `rank`.
        rank: u32,
        /// The register `size`.
        size: u32,
    },
}

/// The memory that a process shares with its adapter, mapped here.
#[derive(Debug)]
pub struct AdapterMemory {
    base: NonNull<u8>,
}

// SAFETY: the mapping is this value's own, and all accesses to it are atomic or volatile.
unsafe impl Send for AdapterMemory {}
// SAFETY: as above.
unsafe impl Sync for AdapterMemory {}

impl AdapterMemory {
    /// The adapter that the environment names; `None` if it names none.
    ///
    /// # Errors
    /// When the variable is set, but names no adapter.
    pub fn of_environment() -> Result<Option<AdapterMemory>, AdapterError> {
        let Some(value) = set_variable(ADAPTER_VARIABLE) else {
            return Ok(None);
        };
        let value = value.to_string_lossy();
        match value.parse() {
            Ok(descriptor) if descriptor >= 0 => AdapterMemory::map(descriptor).map(Some),
            _ => Err(AdapterError::NoNumber { value: value.into_owned() }),
        }
    }

    /// Maps the adapter at `descriptor`.
    ///
    /// # Errors
    /// When there is none.
    pub fn map(descriptor: RawFd) -> Result<AdapterMemory, AdapterError> {
        let bytes =
            length(descriptor).map_err(|source| AdapterError::NotMapped { descriptor, source })?;
        if bytes < DEVICE_BYTES as u64 {
            return Err(AdapterError::TooShort { descriptor, bytes });
        }
        let memory = AdapterMemory::map_unchecked(descriptor)
            .map_err(|source| AdapterError::NotMapped { descriptor, source })?;
        let registers = memory.registers();
        let magic = registers.magic.load(Ordering::Relaxed);
        if magic != MAGIC {
            return Err(AdapterError::WrongMagic { descriptor, magic });
        }
        let (rank, size) = (memory.rank(), memory.size());
        match rank < size {
            true => Ok(memory),
            false => Err(AdapterError::WrongRank { descriptor, rank, size }),
        }
    }

    /// Creates the memory of the adapter of `rank`, in a job of `size`: for the side of the model.
    /// Returns the descriptor for the process as well.
    ///
    /// # Errors
    /// The system's: no memory, or too many open files.
    pub fn create(rank: u32, size: u32) -> io::Result<(OwnedFd, AdapterMemory)> {
        // SAFETY: the name is terminated.
        let fd = unsafe { libc::memfd_create(c"mica-adapter".as_ptr(), libc::MFD_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new and ours.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        // SAFETY: takes plain numbers.
        if unsafe { libc::ftruncate(fd.as_raw_fd(), DEVICE_BYTES as libc::off_t) } != 0 {
            return Err(io::Error::last_os_error());
        }
        let memory = AdapterMemory::map_unchecked(fd.as_raw_fd())?;
        let registers = memory.registers();
        registers.rank.store(rank, Ordering::Relaxed);
        registers.size.store(size, Ordering::Relaxed);
        registers.magic.store(MAGIC, Ordering::Relaxed);
        Ok((fd, memory))
    }

    fn map_unchecked(descriptor: RawFd) -> io::Result<AdapterMemory> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping, which no one else knows.
        let base = unsafe {
            libc::mmap(std::ptr::null_mut(), DEVICE_BYTES, access, libc::MAP_SHARED, descriptor, 0)
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).expect("mmap does not return null");
        Ok(AdapterMemory { base })
    }

    /// This process's rank in the job.
    pub fn rank(&self) -> u32 {
        self.registers().rank.load(Ordering::Relaxed)
    }

    /// Number of ranks of the job.
    pub fn size(&self) -> u32 {
        self.registers().size.load(Ordering::Relaxed)
    }

    /// The registers. A process stores to them by the functions below.
    pub fn registers(&self) -> &Registers {
        // SAFETY: the mapping begins with the registers, is page aligned, and lives as long as
        // `self`; every field is atomic and valid for any content.
        unsafe { self.base.cast().as_ref() }
    }

    /// Place `number` modulo [`COMMANDS`] of the ring of commands.
    #[inline]
    pub fn command(&self, number: u64) -> &Command {
        let place = number as usize % COMMANDS;
        // SAFETY: the ring has this place, which lies in the mapping and is aligned, since the ring
        // begins at a page; every field is atomic and valid for any content.
        unsafe {
            let ring = self.base.add(COMMANDS_OFFSET).cast::<Command>();
            ring.add(place).as_ref()
        }
    }

    /// Place `number` modulo [`EVENTS`] of the ring of events.
    #[inline]
    pub fn event(&self, number: u64) -> &Event {
        let place = number as usize % EVENTS;
        // SAFETY: as in `command`; the ring begins at a multiple of its alignment.
        unsafe {
            let ring = self.base.add(EVENTS_OFFSET).cast::<Event>();
            ring.add(place).as_ref()
        }
    }

    /// Starts command `number`: the adapter reads it in this call.
    #[inline]
    pub fn ring(&self, number: u64) {
        store(&self.registers().doorbell, number % COMMANDS as u64);
    }

    /// Waits, with `taken` events taken, until there is something new.
    #[inline]
    pub fn wait(&self, taken: u64) {
        store(&self.registers().wait, taken);
    }

    /// Hints that the payload of the posted receive `token` will be used at once.
    #[inline]
    pub fn hint(&self, token: u64) {
        store(&self.registers().hint, token);
    }

    /// Marks a region of interest.
    #[inline]
    pub fn mark(&self, level: u64) {
        store(&self.registers().marker, level);
    }
}

impl Drop for AdapterMemory {
    fn drop(&mut self) {
        // SAFETY: our mapping; no reference to it outlives `self`.
        unsafe { libc::munmap(self.base.as_ptr().cast(), DEVICE_BYTES) };
    }
}

/// Stores to a register. All that the process has written before is written when the model runs,
/// and what it reads afterwards is read after the model has run.
#[inline]
fn store(register: &AtomicU64, value: u64) {
    compiler_fence(Ordering::SeqCst);
    // SAFETY: the register is valid for writes; nothing else in this process accesses it at the
    // same time but the model, which runs inside this store.
    unsafe { register.as_ptr().write_volatile(value) };
    compiler_fence(Ordering::SeqCst);
}

/// The length of the file at `descriptor` in bytes.
fn length(descriptor: RawFd) -> io::Result<u64> {
    // SAFETY: all zeros is a valid `stat`.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: writes to `stat` only; a number that is no descriptor gives an error.
    match unsafe { libc::fstat(descriptor, &mut stat) } {
        0 => Ok(u64::try_from(stat.st_size).unwrap_or(0)),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Whether this process is served by a simulated adapter: then all its time is simulated.
pub fn is_simulated() -> bool {
    set_variable(ADAPTER_VARIABLE).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    #[test]
    fn both_sides_see_the_same_memory() {
        let (fd, model) = AdapterMemory::create(3, 8).expect("memory");
        let process = AdapterMemory::map(fd.as_raw_fd()).expect("an adapter");
        assert_eq!((process.rank(), process.size()), (3, 8));
        process.command(COMMANDS as u64 + 5).token.store(7, Ordering::Relaxed);
        process.ring(COMMANDS as u64 + 5);
        assert_eq!(model.registers().doorbell.load(Ordering::Relaxed), 5);
        assert_eq!(model.command(5).token.load(Ordering::Relaxed), 7);
        let last = EVENTS as u64 - 1;
        model.event(last).token.store(9, Ordering::Relaxed);
        assert_eq!(process.event(last).token.load(Ordering::Relaxed), 9);
        assert_eq!(process.event(0).token.load(Ordering::Relaxed), 0);
        process.wait(11);
        process.hint(12);
        process.mark(13);
        let read = |register: &AtomicU64| register.load(Ordering::Relaxed);
        let registers = model.registers();
        let values = [&registers.wait, &registers.hint, &registers.marker].map(read);
        assert_eq!(values, [11, 12, 13]);
    }

    #[test]
    fn refuses_what_is_no_adapter_in_one_line() {
        let text = |e: AdapterError| e.to_string();
        let closed = AdapterMemory::map(1_000_000).map(drop).map_err(text);
        let closed = closed.expect_err("no such descriptor");
        assert!(closed.contains("Bad file descriptor"), "{closed}");
        let program = File::open("/proc/version").expect("Linux");
        let short = AdapterMemory::map(program.as_raw_fd()).expect_err("a short file");
        assert!(matches!(short, AdapterError::TooShort { .. }), "{short}");
        let (fd, memory) = AdapterMemory::create(0, 1).expect("memory");
        memory.registers().magic.store(MAGIC + 1, Ordering::Relaxed);
        let magic = AdapterMemory::map(fd.as_raw_fd()).expect_err("another version");
        assert!(matches!(magic, AdapterError::WrongMagic { .. }), "{magic}");
        memory.registers().magic.store(MAGIC, Ordering::Relaxed);
        memory.registers().rank.store(1, Ordering::Relaxed);
        let rank = AdapterMemory::map(fd.as_raw_fd()).expect_err("rank 1 of 1");
        assert!(matches!(rank, AdapterError::WrongRank { .. }), "{rank}");
        for error in [closed, text(short), text(magic), text(rank)] {
            assert!(error.starts_with(ADAPTER_VARIABLE) && !error.contains('\n'), "{error}");
        }
    }
}
