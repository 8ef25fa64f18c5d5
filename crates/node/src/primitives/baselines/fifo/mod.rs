//! `Fifo`: the receive buffer RBxy of chai-2009's basic design, 3.1: one large queue of bytes for
//! all messages, short and long, of one sender to one receiver.
//!
//! One producer, one consumer, no lock. Two counters, the paper's *total-in* and *total-out*, hold
//! the total of bytes that have entered and left; where they differ, the receiver has something to
//! read. A record is a [`Packet`], which fills a cache line, and its payload, which starts on the
//! next line and wraps around to the front at the end of the buffer.
//!
//! | who | writes |
//! |---|---|
//! | producer | lines between total-in and total-out plus the capacity, then `total_in` (Release) |
//! | consumer | `total_out` (Release), after its last read of a record |
//!
//! The counters lie with their buffer, each in a line of its own: a receiver touches one line for
//! each sender that it polls, and a short message moves two lines between the cores. The advanced
//! design improves on both ([`ring`](crate::ring), [`doorbell`](crate::doorbell)).

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
use std::ops::Deref;

/// A count of bytes, alone in its line since it has one writer. The consumer's has a second word
/// that says whether it holds the producer's messages back (see [`ring`](crate::ring)).
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Total(pub(crate) AtomicU64, pub(crate) AtomicU32);

/// The two counters of a FIFO. Zeroed memory is the head of an empty FIFO.
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

/// References of some kind to the storage of one FIFO, provided by the caller: zeroed memory of the
/// job segment, or the heap in a model.
#[derive(Debug, Clone, Copy)]
pub struct FifoStorage<H, L> {
    /// The counters.
    pub head: H,
    /// The buffer.
    pub lines: L,
}

impl<H, L: Deref<Target = [FifoLine]>> FifoStorage<H, L> {
    /// Bytes of the buffer.
    pub fn capacity(&self) -> usize {
        self.lines.len() * LINE
    }

    /// Largest payload of one packet: the whole buffer, less the packet's own line.
    pub fn payload_max(&self) -> usize {
        self.capacity() - LINE
    }

    /// Index of the line that is `lines` lines after `at`.
    fn after(&self, at: usize, lines: usize) -> usize {
        let next = at + lines;
        if next < self.lines.len() { next } else { next - self.lines.len() }
    }

    /// How many of `len` bytes that start in line `at` lie before the end of the buffer; the others
    /// lie at its front.
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
