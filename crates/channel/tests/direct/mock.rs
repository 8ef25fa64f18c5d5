//! What the XPMEM module does, by a shared file: memory that is to be attached lies in one mapping
//! made before the processes part.

use std::collections::HashMap;
use std::io;
use std::sync::Mutex;

use crate::kit::Memory;
use mica_channel::direct::XpmemDevice;

/// The file, and where every process has mapped it.
#[derive(Debug, Clone, Copy)]
pub struct Shared {
    fd: i32,
    pub memory: Memory,
}

impl Shared {
    pub fn new(len: usize) -> Shared {
        // SAFETY: a name that is NUL-terminated, and a file of our own.
        let fd = unsafe {
            let fd = libc::memfd_create(c"mock".as_ptr(), libc::MFD_CLOEXEC);
            assert!(fd >= 0 && libc::ftruncate(fd, len as i64) == 0);
            fd
        };
        let both = libc::PROT_READ | libc::PROT_WRITE;
        Shared { fd, memory: Memory::map_as(0, len, both, libc::MAP_SHARED, fd) }
    }
}

#[derive(Debug)]
pub struct Mock {
    shared: Shared,
    /// Length by address.
    attached: Mutex<HashMap<usize, usize>>,
}

impl Mock {
    pub fn new(shared: Shared) -> Mock {
        Mock { shared, attached: Mutex::default() }
    }

    pub fn attachments(&self) -> usize {
        self.attached.lock().unwrap().len()
    }
}

const SEGMENT: i64 = 0x5e9;
const PERMIT: i64 = 0xab1d;

fn invalid() -> io::Error {
    io::Error::from_raw_os_error(libc::EINVAL)
}

// SAFETY: what is attached is mapped shared, readable and writable, where the shared memory is;
// elsewhere it faults, as the module's attachments do.
unsafe impl XpmemDevice for Mock {
    fn make(&self) -> io::Result<i64> {
        Ok(SEGMENT)
    }

    fn get(&self, segment: i64) -> io::Result<i64> {
        (segment == SEGMENT).then_some(PERMIT).ok_or_else(invalid)
    }

    fn release(&self, permit: i64) {
        assert_eq!(permit, PERMIT);
    }

    fn attach(&self, permit: i64, address: u64, bytes: usize) -> io::Result<usize> {
        let at = address as usize;
        if permit != PERMIT || !at.is_multiple_of(4096) || !bytes.is_multiple_of(4096) {
            return Err(invalid());
        }
        let here = Memory::map_as(0, bytes, libc::PROT_NONE, libc::MAP_PRIVATE, -1);
        let memory = self.shared.memory;
        let first = at.max(memory.at);
        let last = (at + bytes).min(memory.at + memory.len);
        if first < last {
            let both = libc::PROT_READ | libc::PROT_WRITE;
            let to = std::ptr::with_exposed_provenance_mut(here.at + (first - at));
            let offset = (first - memory.at) as i64;
            let flags = libc::MAP_SHARED | libc::MAP_FIXED;
            // SAFETY: within the mapping just made.
            let mapped =
                unsafe { libc::mmap(to, last - first, both, flags, self.shared.fd, offset) };
            assert_ne!(mapped, libc::MAP_FAILED);
        }
        self.attached.lock().unwrap().insert(here.at, bytes);
        Ok(here.at)
    }

    fn detach(&self, address: usize) {
        let len = self.attached.lock().unwrap().remove(&address);
        let len = len.expect("attached");
        Memory { at: address, len }.unmap();
    }
}
