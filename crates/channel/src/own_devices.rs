//! The devices that this library itself has open: what they write to is known to it, so they are no
//! reason to leave other memory alone (`direct::mapped`). Work queues of copy engines add them.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::sync::{Mutex, MutexGuard, PoisonError};

#[derive(Debug)]
struct OpenDevice {
    fd: RawFd,
    /// Device number.
    number: libc::dev_t,
    mapping: Range<usize>,
}

static OPEN: Mutex<Vec<OpenDevice>> = Mutex::new(Vec::new());

/// A poisoned lock is usable: each entry is added or removed as a whole.
fn open() -> MutexGuard<'static, Vec<OpenDevice>> {
    OPEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An open device of the library's own. To be dropped before its descriptor is closed.
#[derive(Debug)]
pub(crate) struct OwnDevice(RawFd);

impl OwnDevice {
    /// The device that is open as `file`, mapped at `mapping` (empty if it is not).
    ///
    /// # Errors
    /// When the kernel cannot tell its number.
    pub fn new(file: &File, mapping: Range<usize>) -> io::Result<OwnDevice> {
        let (fd, number) = (file.as_raw_fd(), file.metadata()?.rdev());
        open().push(OpenDevice { fd, number, mapping });
        Ok(OwnDevice(fd))
    }
}

impl Drop for OwnDevice {
    fn drop(&mut self) {
        open().retain(|own| own.fd != self.0);
    }
}

/// Whether descriptor `fd`, of device `number`, is of a device of the library's own. (The program
/// may close what it has not opened, and open a device of its own by the same descriptor.)
pub(crate) fn has_descriptor(fd: RawFd, number: libc::dev_t) -> bool {
    open().iter().any(|own| own.fd == fd && own.number == number)
}

/// Whether an area is the mapping of a device of the library's own.
pub(crate) fn has_mapping(area: &Range<usize>) -> bool {
    open().iter().any(|own| own.mapping == *area)
}
