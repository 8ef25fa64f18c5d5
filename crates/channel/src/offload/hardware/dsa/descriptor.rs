//! The formats that the device reads and writes: the 64-byte descriptor and the 32-byte completion
//! record (Intel Data Streaming Accelerator Architecture Specification, chapters 8.1 to 8.3;
//! `linux/idxd.h`).

use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

/// Opcode of a memory move, in the top byte of the second word.
const MEMMOVE: u32 = 0x03 << 24;
/// The completion address is valid.
const COMPLETION_ADDRESS_VALID: u32 = 1 << 2;
/// Write the completion record on success, too.
const REQUEST_COMPLETION: u32 = 1 << 3;

/// A request to the device to copy `size` bytes. Addresses are those of this process: the kernel
/// enables user queues only with shared virtual memory, and the queue (dedicated) or the submitting
/// instruction (shared) carries the identifier of our address space (PASID).
///
/// "Block on fault" stays off: a missing page then ends the operation early, and the CPU continues,
/// instead of stalling a device that others share. "Cache control" stays off, too, so that the
/// copied bytes do not evict the program's data from the cache (5.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C, align(64))]
pub(in crate::offload) struct Descriptor {
    /// PASID and privilege: 0, filled in by hardware or kernel.
    owner: u32,
    operation: u32,
    completion: u64,
    source: u64,
    target: u64,
    size: u32,
    interrupt: u16,
    _reserved: [u8; 26],
}

const _: () = assert!(size_of::<Descriptor>() == 64 && size_of::<CompletionRecord>() == 32);

impl Descriptor {
    /// A copy that writes its completion record at address `completion`.
    pub(super) fn memmove(source: u64, target: u64, size: u32, completion: u64) -> Descriptor {
        Descriptor {
            owner: 0,
            operation: MEMMOVE | COMPLETION_ADDRESS_VALID | REQUEST_COMPLETION,
            completion,
            source,
            target,
            size,
            interrupt: 0,
            _reserved: [0; 26],
        }
    }

    #[cfg(test)]
    pub(super) fn fields(&self) -> (u64, u64, u32, u64) {
        assert_eq!(self.operation, 0x0300_000c);
        (self.source, self.target, self.size, self.completion)
    }
}

/// The completion record that the device writes: the status comes last, when everything else and
/// the data are visible.
#[derive(Debug, Default)]
#[repr(C, align(32))]
pub(super) struct CompletionRecord {
    status: AtomicU8,
    /// For a move: 1 if it went backwards, which is allowed for buffers that overlap.
    result: AtomicU8,
    _reserved: [u8; 2],
    bytes_completed: AtomicU32,
    fault_address: AtomicU64,
    _specific: [u64; 2],
}

/// The result of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DsaCompletion {
    /// All bytes are copied.
    Done,
    /// A page was not present: `bytes` bytes from the start are copied.
    Fault { bytes: usize },
    /// The device refused or failed; the number of copied bytes is irrelevant.
    Error { status: u8 },
}

pub(super) const SUCCESS: u8 = 0x01;
pub(super) const PAGE_FAULT: u8 = 0x03;
/// Bit 7 of a fault's status says that the faulting access was a write.
pub(super) const STATUS_MASK: u8 = 0x7f;

impl CompletionRecord {
    /// Clears the record for the next operation, before that is submitted.
    pub(super) fn clear(&self) {
        self.status.store(0, Ordering::Relaxed);
    }

    /// The result of the operation of `size` bytes; `None` while the device executes it.
    pub(super) fn completion(&self, size: usize) -> Option<DsaCompletion> {
        // SYNC record: pairs with the device's write of the status, which comes last.
        let status = self.status.load(Ordering::Acquire);
        let bytes = self.bytes_completed.load(Ordering::Relaxed) as usize;
        let backwards = self.result.load(Ordering::Relaxed) & 1 == 1;
        Some(match status & STATUS_MASK {
            0 => return None,
            SUCCESS => DsaCompletion::Done,
            // The copied bytes are then at the end. Our buffers do not overlap, so copying
            // everything again does no harm.
            PAGE_FAULT if backwards || bytes > size => DsaCompletion::Fault { bytes: 0 },
            PAGE_FAULT => DsaCompletion::Fault { bytes },
            _ => DsaCompletion::Error { status },
        })
    }

    /// Writes the record as the device does, for the software device of the tests.
    #[cfg(test)]
    pub(super) fn write(&self, status: u8, result: u8, bytes: u32, address: u64) {
        self.result.store(result, Ordering::Relaxed);
        self.bytes_completed.store(bytes, Ordering::Relaxed);
        self.fault_address.store(address, Ordering::Relaxed);
        // SYNC record
        self.status.store(status, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_formats_are_those_of_the_specification() {
        let d = Descriptor::memmove(0x1111, 0x2222, 4096, 0x4440);
        // SAFETY: the descriptor has 64 initialised bytes and no padding, as the constant assertion
        // and the sum of the fields show.
        let bytes: [u8; 64] = unsafe { std::mem::transmute(d) };
        let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
        assert_eq!(word(0), 0x0300_000c << 32, "opcode and flags, no PASID");
        assert_eq!((word(8), word(16), word(24)), (0x4440, 0x1111, 0x2222));
        assert_eq!(word(32), 4096);
        assert!(bytes[40..].iter().all(|&b| b == 0), "reserved");
        assert_eq!(std::mem::offset_of!(CompletionRecord, bytes_completed), 4);
        assert_eq!(std::mem::offset_of!(CompletionRecord, fault_address), 8);
        assert_eq!(align_of::<CompletionRecord>(), 32, "the device checks it");
    }

    #[test]
    fn records_are_read_as_the_specification_says() {
        let record = CompletionRecord::default();
        assert_eq!(record.completion(100), None);
        record.write(SUCCESS, 0, 0, 0);
        assert_eq!(record.completion(100), Some(DsaCompletion::Done));
        record.write(PAGE_FAULT | 0x80, 0, 64, 0x1000);
        assert_eq!(record.completion(100), Some(DsaCompletion::Fault { bytes: 64 }));
        record.write(PAGE_FAULT, 1, 64, 0x1000);
        assert_eq!(record.completion(100), Some(DsaCompletion::Fault { bytes: 0 }));
        record.write(0x13, 0, 0, 0);
        assert_eq!(record.completion(100), Some(DsaCompletion::Error { status: 0x13 }));
        record.clear();
        assert_eq!(record.completion(100), None);
    }
}
