//! The sending end of a ring.

use super::slot::{INLINE, SlotBody, stamp};
use super::{ARENA, PAYLOAD_MAX, Packet, RingStorage, SLOTS, place};
use crate::sync::Ordering;
use std::ops::Deref;

/// The only writer of the ring to which `R` is some kind of reference. Its positions are private to
/// it.
#[derive(Debug)]
pub struct RingProducer<R> {
    ring: R,
    slot: u32,
    arena: u32,
    /// For messages: while the consumer holds messages back, the ring counts as full.
    slots_read: u32,
    arena_read: u32,
    /// For other packets.
    slots_read_in_fact: u32,
    is_held: bool,
    /// Number of slots that are backed by memory.
    backed: u32,
    /// The position that the ring began with.
    first: u32,
}

impl<R: Deref<Target = RingStorage>> RingProducer<R> {
    /// The producer of a ring that has not been written to yet.
    pub fn new(ring: R) -> RingProducer<R> {
        RingProducer {
            ring,
            slot: 0,
            arena: 0,
            slots_read: 0,
            arena_read: 0,
            slots_read_in_fact: 0,
            is_held: false,
            backed: SLOTS as u32,
            first: 0,
        }
    }

    /// The same, of a ring that begins with this position
    /// ([`first_position`](super::first_position)), as its consumer knows. To be called before the
    /// ring is announced.
    pub fn beginning_at(mut self, first: u32) -> RingProducer<R> {
        (self.first, self.slot) = (first, first);
        // Relaxed: the announcement publishes it. The consumer writes the credits from then on.
        self.ring.credits.0.store(u64::from(first), Ordering::Relaxed);
        self.take_credits();
        self
    }

    /// [`new`](Self::new) for a ring of which only the first `backed` slots have memory;
    /// [`back`](Self::back) adds more.
    pub fn with_backing(ring: R, backed: usize) -> RingProducer<R> {
        let mut producer = RingProducer::new(ring);
        producer.back(backed);
        producer
    }

    /// Announces that the first `backed` slots have memory now.
    pub fn back(&mut self, backed: usize) {
        self.backed = backed.min(SLOTS) as u32;
        self.take_credits();
    }

    /// True when the ring has no room because slots lack memory, not because it is full.
    #[cold]
    pub fn wants_memory(&self) -> bool {
        self.backed < SLOTS as u32 && self.slot.wrapping_sub(self.first) + 1 >= self.backed
    }

    /// Number of slots that are backed by memory.
    pub fn backed(&self) -> usize {
        self.backed as usize
    }

    /// Position after the last packet; the doorbell holds its low half.
    #[inline]
    pub fn position(&self) -> u32 {
        self.slot
    }

    /// True when a message with `payload` arena bytes can be pushed now, and the consumer does not
    /// hold messages back.
    #[inline]
    pub fn has_room(&mut self, payload: usize) -> bool {
        self.fits(payload) || self.refresh(payload)
    }

    /// True when a packet with `payload` arena bytes that is not a message can be pushed now.
    #[inline]
    pub fn has_room_for_control(&mut self, payload: usize) -> bool {
        self.fits(payload) || self.refresh_for_control(payload)
    }

    /// Whether the consumer holds messages back, as far as the producer knows. Reads the credits
    /// only when no slot is left for a message: their line belongs to the consumer, and fetching it
    /// for each message would cost streams a tenth of their bandwidth.
    #[inline]
    pub fn is_held(&mut self) -> bool {
        !self.has_room(0) && self.is_held
    }

    #[inline]
    fn fits(&self, payload: usize) -> bool {
        self.fits_behind(self.slots_read, payload)
    }

    #[inline]
    fn fits_behind(&self, slots_read: u32, payload: usize) -> bool {
        let slots_free = self.slot.wrapping_sub(slots_read) < SLOTS as u32;
        if payload == 0 {
            return slots_free;
        }
        let (_, end) = place(self.arena, payload);
        slots_free && end.wrapping_sub(self.arena_read) <= ARENA as u32
    }

    #[cold]
    #[inline(never)]
    fn refresh(&mut self, payload: usize) -> bool {
        self.take_credits();
        self.fits(payload)
    }

    #[cold]
    #[inline(never)]
    fn refresh_for_control(&mut self, payload: usize) -> bool {
        self.take_credits();
        self.fits_behind(self.slots_read_in_fact, payload)
    }

    fn take_credits(&mut self) {
        // SYNC ring-credits: pairs with the Release store in RingConsumer; what the consumer has
        // read may be overwritten from here on.
        let credits = self.ring.credits.0.load(Ordering::Acquire);
        self.slots_read = credits as u32;
        self.arena_read = (credits >> 32) as u32;
        if self.backed < SLOTS as u32 {
            // The first lap: as if the slot after the last writable one were still unread. The last
            // backed slot stays free, since the consumer polls the slot after the last packet.
            self.slots_read = (self.first + self.backed - 1).wrapping_sub(SLOTS as u32);
        }
        self.slots_read_in_fact = self.slots_read;
        self.is_held = self.ring.credits.1.load(Ordering::Relaxed) != 0;
        if self.is_held {
            self.slots_read = self.slot.wrapping_sub(SLOTS as u32);
        }
    }

    /// Pushes a packet whose inline bytes `fill` writes, without a payload in the arena. Returns
    /// false when the ring is full.
    #[inline(always)]
    #[expect(clippy::too_many_arguments, reason = "six beside the receiver")]
    pub fn push_inline(
        &mut self,
        kind: u8,
        aux: u16,
        context: u64,
        tag: i32,
        inline_len: usize,
        fill: impl FnOnce(&mut [u8; INLINE]),
    ) -> bool {
        debug_assert!(inline_len <= INLINE);
        if !self.has_room(0) {
            return false;
        }
        let slot = &self.ring.slots[self.slot as usize & (SLOTS - 1)];
        slot.body.with_mut(|body| {
            // SAFETY: the slot lies within our credit: the consumer has read it, and does not read
            // it again before the stamp below; and we are the only producer.
            let body = unsafe { &mut *body };
            body.context = context;
            body.tag = tag;
            body.payload = 0;
            fill(&mut body.inline);
        });
        // SYNC ring-stamp: pairs with the Acquire load in RingConsumer::peek; publishes the body.
        slot.stamp.store(stamp(self.slot, kind, inline_len as u8, aux), Ordering::Release);
        self.slot = self.slot.wrapping_add(1);
        true
    }

    /// Pushes `packet`, and `packet.payload` bytes into the arena, which `fill` writes to the
    /// address that it is given. Returns false, with nothing written, when the ring lacks room.
    /// Checks for room as for a control packet: for a message the caller first checks
    /// [`has_room`](Self::has_room).
    ///
    /// # Panics
    /// If the payload is larger than [`PAYLOAD_MAX`].
    #[inline]
    pub fn push(&mut self, packet: &Packet, fill: impl FnOnce(*mut u8)) -> bool {
        let len = packet.payload as usize;
        assert!(len <= PAYLOAD_MAX, "payload of {len} bytes exceeds a packet");
        if !self.has_room_for_control(len) {
            return false;
        }
        if len > 0 {
            let (start, end) = place(self.arena, len);
            let line = (start as usize & (ARENA - 1)) / super::LINE;
            write_lines(&self.ring, line, len, fill);
            self.arena = end;
        }
        let slot = &self.ring.slots[self.slot as usize & (SLOTS - 1)];
        slot.body.with_mut(|body| {
            // SAFETY: as in push_inline.
            let body = unsafe { &mut *body };
            *body = SlotBody {
                context: packet.context,
                tag: packet.tag,
                payload: packet.payload,
                inline: packet.inline,
            };
        });
        // SYNC ring-stamp: as in push_inline; publishes body and arena bytes.
        slot.stamp
            .store(stamp(self.slot, packet.kind, packet.inline_len, packet.aux), Ordering::Release);
        self.slot = self.slot.wrapping_add(1);
        true
    }
}

#[cfg(not(loom))]
#[inline(always)]
fn write_lines(ring: &RingStorage, line: usize, _len: usize, fill: impl FnOnce(*mut u8)) {
    // Provenance of the whole arena, not of one line: the range may span many.
    let base = ring.arena.as_ptr().cast_mut().cast::<u8>();
    // `place` keeps the range inside the arena.
    fill(base.wrapping_add(line * super::LINE));
}

#[cfg(loom)]
fn write_lines(ring: &RingStorage, line: usize, len: usize, fill: impl FnOnce(*mut u8)) {
    let mut bytes = vec![0u8; len.next_multiple_of(super::LINE)];
    fill(bytes.as_mut_ptr());
    for (i, chunk) in bytes.chunks(super::LINE).enumerate() {
        ring.arena[line + i].0.with_mut(|to| {
            // SAFETY: the line lies within our credit and we are the only producer.
            unsafe { (*to).copy_from_slice(chunk) }
        });
    }
}
