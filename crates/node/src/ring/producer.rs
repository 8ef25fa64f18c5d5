//! The sending end of a ring.

use super::slot::{Body, INLINE, stamp};
use super::{ARENA, PAYLOAD_MAX, Packet, RingStorage, SLOTS, place};
use crate::sync::Ordering;

/// The only writer of a ring. Its own positions are private; nobody else reads them.
#[derive(Debug)]
pub struct RingProducer<'a> {
    ring: &'a RingStorage,
    slot: u32,
    arena: u32,
    /// As far as messages go: none of the ring's slots is read while the consumer holds messages
    /// back.
    slots_read: u32,
    arena_read: u32,
    /// As far as other packets go.
    slots_read_in_fact: u32,
    is_held: bool,
    /// Slots that memory stands behind.
    backed: u32,
}

impl<'a> RingProducer<'a> {
    /// The producer of a ring that nobody has written to yet.
    pub fn new(ring: &'a RingStorage) -> RingProducer<'a> {
        RingProducer {
            ring,
            slot: 0,
            arena: 0,
            slots_read: 0,
            arena_read: 0,
            slots_read_in_fact: 0,
            is_held: false,
            backed: SLOTS as u32,
        }
    }

    /// The same, with memory behind the first `backed` slots only: [`back`](Self::back) gives it
    /// more.
    pub fn with_backing(ring: &'a RingStorage, backed: usize) -> RingProducer<'a> {
        let mut producer = RingProducer::new(ring);
        producer.back(backed);
        producer
    }

    /// Memory stands behind the first `backed` slots now.
    pub fn back(&mut self, backed: usize) {
        self.backed = backed.min(SLOTS) as u32;
        self.take_credits();
    }

    /// True when the ring has no room for want of memory, and not because it is full.
    #[cold]
    pub fn wants_memory(&self) -> bool {
        self.backed < SLOTS as u32 && self.slot + 1 >= self.backed
    }

    /// Slots that memory stands behind.
    pub fn backed(&self) -> usize {
        self.backed as usize
    }

    /// Position after the last packet; its low half is what the doorbell shows.
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

    /// Whether the consumer holds messages back, as far as is known. Takes new credits only when no
    /// slot is left for a message: their line is the consumer's, and to fetch it for each message
    /// would cost streams a tenth of their bandwidth.
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
        // SYNC ring-credits: pairs with the Release store in Consumer::publish; what the consumer
        // has read may be written over from here on.
        let credits = self.ring.credits.0.load(Ordering::Acquire);
        self.slots_read = credits as u32;
        self.arena_read = (credits >> 32) as u32;
        if self.backed < SLOTS as u32 {
            // The first lap: as if the slot after the last that may be written were still unread.
            // The one before the end of memory stays free, since the consumer looks at the slot
            // after the last packet.
            self.slots_read = (self.backed - 1).wrapping_sub(SLOTS as u32);
        }
        self.slots_read_in_fact = self.slots_read;
        self.is_held = self.ring.credits.1.load(Ordering::Relaxed) != 0;
        if self.is_held {
            self.slots_read = self.slot.wrapping_sub(SLOTS as u32);
        }
    }

    /// Pushes a packet whose inline bytes `fill` writes; false when the ring is full. No payload in
    /// the arena.
    #[inline(always)]
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
            // SAFETY: the slot lies within our credit: the consumer has read it (or never will
            // before the stamp below), and we are the only producer.
            let body = unsafe { &mut *body };
            body.context = context;
            body.tag = tag;
            body.payload = 0;
            fill(&mut body.inline);
        });
        // SYNC ring-stamp: pairs with the Acquire load in Consumer::peek; publishes the body.
        slot.stamp.store(
            stamp(self.slot, kind, inline_len as u8, aux),
            Ordering::Release,
        );
        self.slot = self.slot.wrapping_add(1);
        true
    }

    /// Pushes `packet`, and `packet.payload` bytes into the arena, which `fill` writes to the
    /// address it is given. False, and nothing written, when the ring lacks room. Asks for room as
    /// for control: for a message the caller asks [`has_room`](Self::has_room) first.
    ///
    /// # Panics
    /// If the payload is larger than [`PAYLOAD_MAX`].
    #[inline]
    pub fn push(&mut self, packet: &Packet, fill: impl FnOnce(*mut u8)) -> bool {
        let len = packet.payload as usize;
        assert!(
            len <= PAYLOAD_MAX,
            "payload of {len} bytes exceeds a packet"
        );
        if !self.has_room_for_control(len) {
            return false;
        }
        if len > 0 {
            let (start, end) = place(self.arena, len);
            let line = (start as usize & (ARENA - 1)) / super::LINE;
            write_lines(self.ring, line, len, fill);
            self.arena = end;
        }
        let slot = &self.ring.slots[self.slot as usize & (SLOTS - 1)];
        slot.body.with_mut(|body| {
            // SAFETY: as in push_inline.
            let body = unsafe { &mut *body };
            *body = Body {
                context: packet.context,
                tag: packet.tag,
                payload: packet.payload,
                inline: packet.inline,
            };
        });
        // SYNC ring-stamp: as in push_inline; publishes body and arena bytes.
        slot.stamp.store(
            stamp(self.slot, packet.kind, packet.inline_len, packet.aux),
            Ordering::Release,
        );
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
