//! A real work queue: its portal mapped into this process, or, where the kernel does not allow
//! that, descriptors written to the queue's file.
//!
//! A dedicated queue is written by MOVDIR64B, which never reports a full queue: a descriptor that
//! does not fit is lost, so the feeder never has more descriptors out than the queue has entries. A
//! shared queue is written by ENQCMD, which reports whether the queue accepted the descriptor.
//! Devices with the erratum of INTEL-SA-01084 may be mapped only by privileged programs; for them
//! the kernel (6.10) accepts descriptors by `write`.
//!
//! This code could not be run on the machine on which it was written, which has no DSA: it follows
//! the specification and the kernel's idxd driver. Everything above the portal is tested against a
//! device in software.

use super::descriptor::Descriptor;
use super::error::NoDevice;
use super::portal::{Portal, Submission};
use super::queues::{self, QueueInfo, QueueMode};
use crate::own_devices::OwnDevice;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::ptr::NonNull;

/// Bytes of a portal's mapping: one page; the kernel refuses more.
const PORTAL_BYTES: usize = 4096;

/// An open work queue.
#[derive(Debug)]
pub(super) struct Hardware {
    /// Dropped before the file is closed.
    _own: OwnDevice,
    /// Keeps the queue open; descriptors are written to it if there is no mapping.
    file: File,
    portal: Option<PortalMapping>,
    mode: QueueMode,
    entries: usize,
    max_transfer: usize,
    attributes: PathBuf,
}

#[derive(Debug)]
struct PortalMapping(NonNull<u8>);

// SAFETY: the portal is a device register: any thread may write to it, and the feeder's lock
// serialises the writes.
unsafe impl Send for PortalMapping {}

impl Drop for PortalMapping {
    fn drop(&mut self) {
        // SAFETY: mapped in `open` with this length, and used only by its owner.
        unsafe { libc::munmap(self.0.as_ptr().cast(), PORTAL_BYTES) };
    }
}

impl Hardware {
    /// Opens a queue.
    ///
    /// # Errors
    /// If this process may not use it, another process has it (dedicated), or the processor lacks
    /// the instruction.
    pub(super) fn open(queue: &QueueInfo) -> Result<Hardware, NoDevice> {
        let cannot = |call, source| NoDevice::Refused { queue: queue.device.clone(), call, source };
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(&queue.device)
            .map_err(|e| cannot("open", e))?;
        // SAFETY: a new mapping at an address that the kernel chooses. The child of a fork does not
        // inherit it.
        let address = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                PORTAL_BYTES,
                libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_POPULATE,
                file.as_raw_fd(),
                0,
            )
        };
        let portal = if address == libc::MAP_FAILED {
            let error = io::Error::last_os_error();
            if error.raw_os_error() != Some(libc::EPERM) {
                return Err(cannot("mmap", error));
            }
            // Only a kernel that refuses the mapping accepts descriptors by `write`; an empty write
            // shows whether this one does.
            // SAFETY: no bytes are written, so none are read.
            if unsafe { libc::write(file.as_raw_fd(), std::ptr::null(), 0) } < 0 {
                return Err(cannot("write", io::Error::last_os_error()));
            }
            None
        } else {
            Some(PortalMapping(NonNull::new(address.cast()).expect("mmap does not return null")))
        };
        if portal.is_some() && !instruction::is_available(queue.mode) {
            return Err(NoDevice::NoInstruction { queue: queue.device.clone(), mode: queue.mode });
        }
        let mapped = portal.as_ref().map_or(0..0, |portal| {
            let start = portal.0.as_ptr().addr();
            start..start + PORTAL_BYTES
        });
        let own = OwnDevice::new(&file, mapped).map_err(|error| cannot("fstat", error))?;
        Ok(Hardware {
            _own: own,
            file,
            portal,
            mode: queue.mode,
            entries: queue.size,
            max_transfer: queue.max_transfer,
            attributes: queue.attributes.clone(),
        })
    }

    fn write(&self, descriptor: &Descriptor) -> Submission {
        // SAFETY: the kernel reads the descriptor's 64 bytes.
        let n = unsafe {
            libc::write(
                self.file.as_raw_fd(),
                std::ptr::from_ref(descriptor).cast(),
                size_of::<Descriptor>(),
            )
        };
        if n == size_of::<Descriptor>() as isize {
            return Submission::Accepted;
        }
        match io::Error::last_os_error().raw_os_error() {
            Some(libc::EAGAIN | libc::EINTR | libc::EBUSY) => Submission::Full,
            _ => Submission::Refused,
        }
    }
}

impl Portal for Hardware {
    fn submit(&mut self, descriptor: &Descriptor) -> Submission {
        let Some(portal) = &self.portal else {
            return self.write(descriptor);
        };
        // SAFETY: the mapping is the queue's portal, and `open` has checked that the processor has
        // the instruction. The feeder never exceeds the entries of a dedicated queue.
        let accepted = unsafe {
            match self.mode {
                QueueMode::Shared => instruction::enqcmd(portal.0.as_ptr(), descriptor),
                QueueMode::Dedicated => {
                    instruction::movdir64b(portal.0.as_ptr(), descriptor);
                    true
                }
            }
        };
        if accepted { Submission::Accepted } else { Submission::Full }
    }

    fn entries(&self) -> usize {
        self.entries
    }

    fn max_transfer(&self) -> usize {
        self.max_transfer
    }

    fn is_enabled(&self) -> bool {
        queues::is_enabled(&self.attributes)
    }
}

/// The two instructions that write 64 bytes at once.
#[cfg(target_arch = "x86_64")]
mod instruction {
    use super::{Descriptor, QueueMode};
    use std::arch::asm;

    /// Whether the processor has the instruction for this mode (CPUID leaf 7, ECX).
    pub(super) fn is_available(mode: QueueMode) -> bool {
        let bit = match mode {
            QueueMode::Dedicated => 28,
            QueueMode::Shared => 29,
        };
        let leaves = std::arch::x86_64::__cpuid(0).eax;
        leaves >= 7 && std::arch::x86_64::__cpuid_count(7, 0).ecx & (1 << bit) != 0
    }

    /// Writes the descriptor to a dedicated queue.
    ///
    /// # Safety
    /// 1. The processor has MOVDIR64B;
    /// 2. `portal` is a mapped portal of a dedicated queue that has room.
    pub(super) unsafe fn movdir64b(portal: *mut u8, descriptor: &Descriptor) {
        // SAFETY: obligations 1 and 2. The fence first makes visible what the device will read (the
        // cleared record, the source): the store that follows is not ordered by itself.
        unsafe {
            asm!(
                "sfence",
                "movdir64b {portal}, [{descriptor}]",
                portal = in(reg) portal,
                descriptor = in(reg) std::ptr::from_ref(descriptor),
                options(nostack, preserves_flags),
            );
        }
    }

    /// Submits the descriptor to a shared queue; false if the queue has no room.
    ///
    /// # Safety
    /// 1. The processor has ENQCMD, and the kernel supports it;
    /// 2. `portal` is a mapped portal of a shared queue.
    pub(super) unsafe fn enqcmd(portal: *mut u8, descriptor: &Descriptor) -> bool {
        let retry: u8;
        // SAFETY: obligations 1 and 2; the fence as above.
        unsafe {
            asm!(
                "sfence",
                "enqcmd {portal}, [{descriptor}]",
                "setz {retry}",
                portal = in(reg) portal,
                descriptor = in(reg) std::ptr::from_ref(descriptor),
                retry = out(reg_byte) retry,
                options(nostack),
            );
        }
        retry == 0
    }
}

/// Other processor architectures have no DSA.
#[cfg(not(target_arch = "x86_64"))]
mod instruction {
    use super::{Descriptor, QueueMode};

    pub(super) fn is_available(_mode: QueueMode) -> bool {
        false
    }

    /// # Safety
    /// Never called: [`is_available`] is false.
    pub(super) unsafe fn movdir64b(_portal: *mut u8, _descriptor: &Descriptor) {
        unreachable!("no such instruction")
    }

    /// # Safety
    /// Never called: [`is_available`] is false.
    pub(super) unsafe fn enqcmd(_portal: *mut u8, _descriptor: &Descriptor) -> bool {
        unreachable!("no such instruction")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_that_is_not_there_is_an_error_that_names_it() {
        let queue = QueueInfo {
            name: "wq9.9".to_owned(),
            device: PathBuf::from("/nonexistent/wq9.9"),
            attributes: PathBuf::from("/nonexistent"),
            mode: QueueMode::Shared,
            size: 8,
            max_transfer: 1 << 20,
        };
        let error = Hardware::open(&queue).expect_err("no such file").to_string();
        assert!(error.contains("/nonexistent/wq9.9"), "{error}");
    }

    /// If the processor has MOVDIR64B, ordinary memory can replace a portal: 64 bytes arrive at
    /// once.
    #[test]
    #[cfg(target_arch = "x86_64")]
    fn movdir64b_writes_the_descriptor() {
        if !instruction::is_available(QueueMode::Dedicated) {
            eprintln!("not run: this processor has no MOVDIR64B");
            return;
        }
        let descriptor = Descriptor::memmove(1, 2, 3, 64);
        let mut portal = Descriptor::memmove(0, 0, 0, 0);
        // SAFETY: 1. checked above; 2. 64 writable, aligned bytes replace the portal.
        unsafe {
            instruction::movdir64b(std::ptr::from_mut(&mut portal).cast(), &descriptor);
        }
        std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
        assert_eq!(portal, descriptor);
    }
}
