//! The sending end of a FIFO.

use super::{FifoHead, FifoLine, FifoStorage, record_lines};
use crate::ring::{LINE, Packet};
use crate::sync::Ordering;
use std::ops::Deref;

/// The only writer of a FIFO.
#[derive(Debug)]
pub struct FifoProducer<H, L> {
    fifo: FifoStorage<H, L>,
    /// Index of the line of the next record.
    at: usize,
    total_in: u64,
    /// What the consumer had read when this side last lacked room. If the consumer held messages
    /// back, a whole buffer less than total-in.
    total_out: u64,
    /// What the consumer had read, for packets that are not messages.
    total_out_in_fact: u64,
}

impl<H, L> FifoProducer<H, L>
where
    H: Deref<Target = FifoHead>,
    L: Deref<Target = [FifoLine]>,
{
    /// The producer of a FIFO that has not been written to yet.
    pub fn new(fifo: FifoStorage<H, L>) -> FifoProducer<H, L> {
        FifoProducer { fifo, at: 0, total_in: 0, total_out: 0, total_out_in_fact: 0 }
    }

    /// Largest payload of one packet, in bytes.
    #[inline]
    pub fn payload_max(&self) -> usize {
        self.fifo.payload_max()
    }

    /// Whether the consumer holds messages back. Reads the shared line.
    pub fn is_held(&self) -> bool {
        // Relaxed: only a request; no other memory depends on it.
        self.fifo.head.total_out.1.load(Ordering::Relaxed) != 0
    }

    /// True when a message with `payload` bytes of payload can be pushed now, and the consumer does
    /// not hold messages back.
    #[inline]
    pub fn has_room(&mut self, payload: usize) -> bool {
        self.fits_behind(self.total_out, payload) || {
            self.refresh();
            self.fits_behind(self.total_out, payload)
        }
    }

    /// True when a packet with `payload` bytes of payload that is not a message can be pushed now.
    #[inline]
    pub fn has_room_for_control(&mut self, payload: usize) -> bool {
        self.fits_behind(self.total_out, payload) || {
            self.refresh();
            self.fits_behind(self.total_out_in_fact, payload)
        }
    }

    fn fits_behind(&self, total_out: u64, payload: usize) -> bool {
        let unread = self.total_in.wrapping_sub(total_out) as usize;
        record_lines(payload) * LINE <= self.fifo.capacity().saturating_sub(unread)
    }

    #[cold]
    fn refresh(&mut self) {
        // SYNC fifo-out: pairs with the Release store in FifoConsumer::consume; what the consumer
        // has read may be overwritten from here on.
        self.total_out_in_fact = self.fifo.head.total_out.0.load(Ordering::Acquire);
        self.total_out = match self.is_held() {
            true => self.total_in.wrapping_sub(self.fifo.capacity() as u64),
            false => self.total_out_in_fact,
        };
    }

    /// Pushes `packet` with `packet.payload` bytes after it. `fill(offset, to, bytes)` writes
    /// `bytes` bytes of the payload, from `offset` on, to the address `to`; it is called twice
    /// where the payload wraps around the end of the buffer. Returns false, with nothing written,
    /// when the FIFO lacks room. Checks for room as for a control packet: for a message the caller
    /// first checks [`has_room`](Self::has_room).
    ///
    /// # Panics
    /// If the payload is larger than [`FifoProducer::payload_max`].
    pub fn push(&mut self, packet: &Packet, mut fill: impl FnMut(usize, *mut u8, usize)) -> bool {
        let len = packet.payload as usize;
        let max = self.payload_max();
        assert!(len <= max, "payload of {len} bytes exceeds a FIFO's {max}");
        if !self.has_room_for_control(len) {
            return false;
        }
        self.fifo.lines[self.at].0.with_mut(|line| {
            // SAFETY: the line lies within our room: the consumer has read it and does not read it
            // again before total-in passes it, and we are the only producer. A packet fills a line.
            unsafe { line.cast::<Packet>().write_unaligned(*packet) }
        });
        let start = self.fifo.after(self.at, 1);
        let first = self.fifo.before_end(start, len);
        if first > 0 {
            write_lines(&self.fifo.lines, start, first, |to| fill(0, to, first));
        }
        if first < len {
            write_lines(&self.fifo.lines, 0, len - first, |to| fill(first, to, len - first));
        }
        let lines = record_lines(len);
        self.at = self.fifo.after(self.at, lines);
        self.total_in += (lines * LINE) as u64;
        // SYNC fifo-in: pairs with the Acquire loads in FifoConsumer; publishes packet and payload.
        self.fifo.head.total_in.0.store(self.total_in, Ordering::Release);
        true
    }
}

#[cfg(not(loom))]
#[inline(always)]
fn write_lines(lines: &[FifoLine], line: usize, _len: usize, fill: impl FnOnce(*mut u8)) {
    // Provenance of the whole buffer, not of one line: the range may span many.
    let base = lines.as_ptr().cast_mut().cast::<u8>();
    fill(base.wrapping_add(line * LINE));
}

#[cfg(loom)]
fn write_lines(lines: &[FifoLine], line: usize, len: usize, fill: impl FnOnce(*mut u8)) {
    let mut bytes = vec![0u8; len.next_multiple_of(LINE)];
    fill(bytes.as_mut_ptr());
    for (i, chunk) in bytes.chunks(LINE).enumerate() {
        lines[line + i].0.with_mut(|to| {
            // SAFETY: the line lies within our room and we are the only producer.
            unsafe { (*to).copy_from_slice(chunk) }
        });
    }
}
