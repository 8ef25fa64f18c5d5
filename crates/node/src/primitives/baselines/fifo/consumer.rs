//! The receiving end of a FIFO.

use super::{FifoHead, FifoLine, FifoStorage, record_lines};
use crate::ring::{LINE, Packet};
use crate::sync::Ordering;
use std::ops::Deref;

/// The only reader of a FIFO.
#[derive(Debug)]
pub struct FifoConsumer<H, L> {
    fifo: FifoStorage<H, L>,
    /// Index of the line of the next record.
    at: usize,
    total_out: u64,
}

impl<H, L> FifoConsumer<H, L>
where
    H: Deref<Target = FifoHead>,
    L: Deref<Target = [FifoLine]>,
{
    /// The consumer of a FIFO that has not been read from yet.
    pub fn new(fifo: FifoStorage<H, L>) -> FifoConsumer<H, L> {
        FifoConsumer { fifo, at: 0, total_out: 0 }
    }

    /// True when the FIFO holds a record that was not consumed.
    #[inline]
    pub fn has_arrived(&self) -> bool {
        // SYNC fifo-in: pairs with the Release store in FifoProducer::push; acquires packet and
        // payload.
        // payload.
        self.fifo.head.total_in.0.load(Ordering::Acquire) != self.total_out
    }

    /// Sets whether the producer must hold its messages back.
    pub fn hold(&self, on: bool) {
        // Relaxed: see FifoProducer::is_held.
        let hold = &self.fifo.head.total_out.1;
        hold.store(u32::from(on), Ordering::Relaxed);
    }

    /// The next packet, if it has arrived. It stays in the FIFO until [`FifoConsumer::consume`].
    #[inline]
    pub fn peek(&self) -> Option<Packet> {
        if !self.has_arrived() {
            return None;
        }
        Some(self.fifo.lines[self.at].0.with(|line| {
            // SAFETY: total-in shows that the producer wrote a packet to this line, and the
            // producer does not write it again before our total-out passes it. Any bytes are a
            // valid packet.
            unsafe { line.cast::<Packet>().read_unaligned() }
        }))
    }

    /// Calls `f(offset, from, bytes)` with the address of `bytes` bytes of the payload of `packet`,
    /// which [`FifoConsumer::peek`] has just returned, from `offset` on; twice where the payload
    /// wraps around the end of the buffer.
    pub fn with_payload(&self, packet: &Packet, mut f: impl FnMut(usize, *const u8, usize)) {
        let len = packet.payload as usize;
        debug_assert!(len <= self.fifo.payload_max());
        let start = self.fifo.after(self.at, 1);
        let first = self.fifo.before_end(start, len);
        if first > 0 {
            read_lines(&self.fifo.lines, start, first, |from| f(0, from, first));
        }
        if first < len {
            read_lines(&self.fifo.lines, 0, len - first, |from| f(first, from, len - first));
        }
    }

    /// Removes `packet`, the one that [`FifoConsumer::peek`] returned. Its room goes back to the
    /// producer, which may be parked waiting for it.
    #[inline]
    pub fn consume(&mut self, packet: &Packet) {
        let lines = record_lines(packet.payload as usize);
        self.at = self.fifo.after(self.at, lines);
        self.total_out += (lines * LINE) as u64;
        // SYNC fifo-out: pairs with the Acquire load in FifoProducer::refresh; our reads happened
        // before.
        self.fifo.head.total_out.0.store(self.total_out, Ordering::Release);
    }
}

#[cfg(not(loom))]
#[inline(always)]
fn read_lines(lines: &[FifoLine], line: usize, _len: usize, f: impl FnOnce(*const u8)) {
    let base = lines.as_ptr().cast::<u8>();
    f(base.wrapping_add(line * LINE));
}

#[cfg(loom)]
fn read_lines(lines: &[FifoLine], line: usize, len: usize, f: impl FnOnce(*const u8)) {
    let mut bytes = Vec::new();
    for i in 0..len.div_ceil(LINE) {
        lines[line + i].0.with(|from| {
            // SAFETY: total-in published these lines to us; the producer does not write them before
            // our total-out passes them.
            bytes.extend_from_slice(unsafe { &*from });
        });
    }
    f(bytes.as_ptr());
}
