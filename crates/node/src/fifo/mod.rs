//! `Fifo`: the receive buffer RBxy of chai-2009's basic design, 3.1: one large queue of bytes for
//! everything that one sender has to say to one receiver, long messages as well as short ones.
//!
//! One producer, one consumer, no lock. Two counters, the paper's *total-in* and *total-out*, say
//! how many bytes have entered and left for ever; where they differ, the receiver has something to
//! read. A record is a [`Packet`], which fills a cache line, and its payload, which starts on the
//! next line and goes on at the front where the buffer ends.
//!
//! | who | writes |
//! |---|---|
//! | producer | lines between total-in and total-out plus the capacity, then `total_in` (Release) |
//! | consumer | `total_out` (Release), after its last read of a record |
//!
//! The counters lie with their buffer, each in a line of its own: a receiver touches one line for
//! every sender that it polls, and a short message moves two lines between the cores. Both are what
//! the advanced design improves on ([`ring`](crate::ring), [`doorbell`](crate::doorbell)).

mod consumer;
mod producer;

#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, not(loom)))]
mod tests;

pub use consumer::FifoConsumer;
pub use producer::FifoProducer;

use crate::ring::{LINE, Packet};
use crate::sync::{AtomicU32, AtomicU64, UnsafeCell};

/// A count of bytes, alone in its line: it has one writer. The consumer's has a word beside it that
/// says whether it holds the producer's messages back ([`ring`](crate::ring) has more on this).
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Total(pub(crate) AtomicU64, pub(crate) AtomicU32);

/// The two counters of a FIFO; zeroed memory is those of an empty one.
#[derive(Debug)]
#[repr(C)]
pub struct FifoHead {
    pub(crate) total_in: Total,
    pub(crate) total_out: Total,
}

/// One cache line of a FIFO's buffer.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct FifoLine(pub(crate) UnsafeCell<[u8; LINE]>);

#[cfg(not(loom))]
const _: () = {
    assert!(size_of::<FifoHead>() == 2 * LINE);
    assert!(size_of::<FifoLine>() == LINE);
    assert!(size_of::<Packet>() == LINE, "a packet fills a line");
};

// SAFETY: producer and consumer touch disjoint lines at any time, ordered by the totals (see the
// module head).
unsafe impl Sync for FifoLine {}

/// The storage of one FIFO, provided by the caller: zeroed memory of the job segment, or the heap
/// in a model.
#[derive(Debug, Clone, Copy)]
pub struct FifoStorage<'a> {
    /// The counters.
    pub head: &'a FifoHead,
    /// The buffer.
    pub lines: &'a [FifoLine],
}

impl FifoStorage<'_> {
    /// Bytes that the buffer holds.
    pub fn capacity(&self) -> usize {
        self.lines.len() * LINE
    }

    /// Largest payload of one packet: it needs the whole buffer, less the packet's own line.
    pub fn payload_max(&self) -> usize {
        self.capacity() - LINE
    }

    /// Line index `lines` lines after `at`.
    fn after(&self, at: usize, lines: usize) -> usize {
        let next = at + lines;
        if next < self.lines.len() {
            next
        } else {
            next - self.lines.len()
        }
    }

    /// How many of `len` bytes that start in line `at` lie before the buffer's end; the others lie
    /// at its front.
    fn before_end(&self, at: usize, len: usize) -> usize {
        len.min((self.lines.len() - at) * LINE)
    }
}

/// Lines of a record with `payload` bytes of payload.
fn record_lines(payload: usize) -> usize {
    1 + payload.div_ceil(LINE)
}

/// Heap storage for tests and models.
#[cfg(test)]
pub(crate) fn boxed(lines: usize) -> (Box<FifoHead>, Box<[FifoLine]>) {
    let head = FifoHead {
        total_in: Total(AtomicU64::new(0), AtomicU32::new(0)),
        total_out: Total(AtomicU64::new(0), AtomicU32::new(0)),
    };
    let lines = (0..lines).map(|_| FifoLine(UnsafeCell::new([0; LINE])));
    (Box::new(head), lines.collect())
}
