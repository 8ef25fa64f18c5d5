//! The kernel module's interface: numbers and structures of its ioctls, as XPMEM publishes them
//! (HPC XPMEM project, `include/xpmem.h` and libxpmem; the same since SGI's first version).

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;

/// What the module does. It is a trait, so that the code around it can be tested where the module
/// cannot be loaded.
///
/// # Safety
/// What [`attach`](Device::attach) returns is mapped, readable and writable for the length asked
/// for until [`detach`](Device::detach), and part of no object that Rust knows.
pub unsafe trait Device: std::fmt::Debug + Send + Sync {
    /// Makes a segment of this process's whole address space; returns its number, which other
    /// processes may use.
    ///
    /// # Errors
    /// The module's.
    fn make(&self) -> io::Result<i64>;

    /// A permit to attach parts of another process's segment.
    ///
    /// # Errors
    /// The module's.
    fn get(&self, segment: i64) -> io::Result<i64>;

    /// Gives a permit back.
    fn release(&self, permit: i64);

    /// Maps `bytes` bytes at `address` of the other process here; both multiples of the page size.
    /// Nothing need be mapped there: pages are looked up when they are accessed, and an access
    /// where there are none raises SIGBUS.
    ///
    /// # Errors
    /// The module's.
    fn attach(&self, permit: i64, address: u64, bytes: usize) -> io::Result<usize>;

    /// Unmaps what [`attach`](Device::attach) returned. (`munmap` would have the module kill the
    /// process.)
    fn detach(&self, address: usize);
}

/// `/dev/xpmem`.
#[derive(Debug)]
pub struct Module {
    file: File,
}

const fn number(command: u64) -> u64 {
    // _IO('x', command)
    (b'x' as u64) << 8 | command
}

const MAKE: u64 = number(1);
const GET: u64 = number(3);
const RELEASE: u64 = number(4);
const ATTACH: u64 = number(5);
const DETACH: u64 = number(6);

/// XPMEM_RDWR
const READ_WRITE: i32 = 2;
/// XPMEM_PERMIT_MODE: the permit value is a file mode, checked as for a file of the segment's
/// owner.
const BY_MODE: i32 = 1;
/// XPMEM_MAXADDR_SIZE, from address 0: the whole address space.
const ALL: usize = usize::MAX;

#[derive(Default)]
#[repr(C)]
struct MakeCall {
    vaddr: u64,
    size: usize,
    permit_type: i32,
    permit_value: u64,
    segid: i64,
}

#[derive(Default)]
#[repr(C)]
struct GetCall {
    segid: i64,
    flags: i32,
    permit_type: i32,
    permit_value: u64,
    apid: i64,
}

#[derive(Default)]
#[repr(C)]
struct AttachCall {
    apid: i64,
    offset: i64,
    size: usize,
    vaddr: u64,
    fd: i32,
    flags: i32,
}

const _: () = assert!(
    size_of::<MakeCall>() == 40 && size_of::<GetCall>() == 32 && size_of::<AttachCall>() == 40
);

impl Module {
    /// Opens the device (close-on-exec).
    ///
    /// # Errors
    /// When the device does not exist, or this user may not open it.
    pub fn open() -> io::Result<Module> {
        let file = OpenOptions::new().read(true).write(true).open("/dev/xpmem")?;
        Ok(Module { file })
    }

    fn call<T>(&self, command: u64, argument: &mut T) -> io::Result<()> {
        // SAFETY: each command reads and writes the structure that it is given here, which is
        // exclusive.
        let result = unsafe {
            libc::ioctl(self.file.as_raw_fd(), command as _, std::ptr::from_mut(argument))
        };
        if result < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }
}

// SAFETY: the module maps shared pages for reading and writing at an address of the kernel's
// choice.
unsafe impl Device for Module {
    fn make(&self) -> io::Result<i64> {
        let mut call = MakeCall {
            size: ALL,
            permit_type: BY_MODE,
            permit_value: 0o600,
            ..MakeCall::default()
        };
        self.call(MAKE, &mut call)?;
        Ok(call.segid)
    }

    fn get(&self, segment: i64) -> io::Result<i64> {
        let mut call = GetCall {
            segid: segment,
            flags: READ_WRITE,
            permit_type: BY_MODE,
            ..GetCall::default()
        };
        self.call(GET, &mut call)?;
        Ok(call.apid)
    }

    fn release(&self, mut permit: i64) {
        // Fails only for a permit that this process does not hold.
        let _ = self.call(RELEASE, &mut permit);
    }

    fn attach(&self, permit: i64, address: u64, bytes: usize) -> io::Result<usize> {
        let mut call = AttachCall {
            apid: permit,
            offset: address as i64,
            size: bytes,
            fd: -1,
            ..AttachCall::default()
        };
        self.call(ATTACH, &mut call)?;
        Ok(call.vaddr as usize)
    }

    fn detach(&self, address: usize) {
        let mut address = address as u64;
        // Fails only where nothing is attached.
        let _ = self.call(DETACH, &mut address);
    }
}
