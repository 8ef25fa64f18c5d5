//! The receiving end of a ring.

use super::{ARENA, LINE, Packet, RingStorage, SLOTS, place};
use crate::sync::Ordering;
use std::ops::Deref;

/// The only reader of the ring to which `R` is some kind of reference.
#[derive(Debug)]
pub struct RingConsumer<R> {
    ring: R,
    slot: u32,
    arena: u32,
    slots_published: u32,
    arena_published: u32,
}

impl<R: Deref<Target = RingStorage>> RingConsumer<R> {
    /// The consumer of a ring that has not been read from yet.
    pub fn new(ring: R) -> RingConsumer<R> {
        RingConsumer { ring, slot: 0, arena: 0, slots_published: 0, arena_published: 0 }
    }

    /// The same, of a ring that begins with this position
    /// ([`first_position`](super::first_position)).
    pub fn beginning_at(self, first: u32) -> RingConsumer<R> {
        RingConsumer { slot: first, slots_published: first, ..self }
    }

    /// Position of the next packet. The producer's doorbell holds the low half of the position that
    /// the producer has reached.
    #[inline]
    pub fn position(&self) -> u32 {
        self.slot
    }

    /// The next packet, if it has arrived. It stays in the ring until [`RingConsumer::consume`].
    #[inline(always)]
    pub fn peek(&self) -> Option<Packet> {
        let slot = &self.ring.slots[self.slot as usize & (SLOTS - 1)];
        // SYNC ring-stamp: pairs with the Release stores in RingProducer; acquires body and arena
        // bytes.
        // bytes.
        let stamp = slot.stamp.load(Ordering::Acquire);
        if stamp as u32 != self.slot.wrapping_add(1) {
            return None;
        }
        Some(slot.body.with(|body| {
            // SAFETY: the stamp shows that the producer wrote this body for this position, and the
            // producer does not write it again before our credits pass it.
            let body = unsafe { &*body };
            Packet {
                context: body.context,
                tag: body.tag,
                payload: body.payload,
                inline: body.inline,
                kind: (stamp >> 32) as u8,
                inline_len: (stamp >> 40) as u8,
                aux: (stamp >> 48) as u16,
            }
        }))
    }

    /// Sets whether the producer must hold its messages back.
    pub fn hold(&self, on: bool) {
        // Relaxed: only a request; no other memory depends on it.
        self.ring.credits.1.store(u32::from(on), Ordering::Relaxed);
    }

    /// Calls `f` with the address of the payload of `packet`, which [`RingConsumer::peek`] has just
    /// returned.
    #[inline]
    pub fn with_payload<T>(&self, packet: &Packet, f: impl FnOnce(*const u8) -> T) -> T {
        let (start, _) = place(self.arena, packet.payload as usize);
        read_lines(&self.ring, (start as usize & (ARENA - 1)) / LINE, packet.payload as usize, f)
    }

    /// Removes `packet`, the one that [`RingConsumer::peek`] returned. Returns true when it gave
    /// credits back to the producer, which may be parked waiting for them.
    #[inline(always)]
    pub fn consume(&mut self, packet: &Packet) -> bool {
        self.slot = self.slot.wrapping_add(1);
        if packet.payload > 0 {
            self.arena = place(self.arena, packet.payload as usize).1;
        }
        // Credits are returned a quarter of the ring at a time: as long as a producer lacks room,
        // the consumer still has that much to read.
        let slots = self.slot.wrapping_sub(self.slots_published);
        let arena = self.arena.wrapping_sub(self.arena_published);
        if slots as usize >= (SLOTS / 4).max(1) || arena as usize >= ARENA / 4 {
            self.publish();
            return true;
        }
        false
    }

    #[inline(never)]
    fn publish(&mut self) {
        // SYNC ring-credits: pairs with the Acquire load in RingProducer::take_credits; our reads
        // happened before.
        self.ring
            .credits
            .0
            .store(u64::from(self.slot) | u64::from(self.arena) << 32, Ordering::Release);
        self.slots_published = self.slot;
        self.arena_published = self.arena;
    }
}

#[cfg(not(loom))]
#[inline(always)]
fn read_lines<R>(
    ring: &RingStorage,
    line: usize,
    _len: usize,
    f: impl FnOnce(*const u8) -> R,
) -> R {
    let base = ring.arena.as_ptr().cast::<u8>();
    f(base.wrapping_add(line * LINE))
}

#[cfg(loom)]
fn read_lines<R>(ring: &RingStorage, line: usize, len: usize, f: impl FnOnce(*const u8) -> R) -> R {
    let mut bytes = Vec::new();
    for i in 0..len.div_ceil(LINE) {
        ring.arena[line + i].0.with(|from| {
            // SAFETY: the stamp published these lines to us; the producer does not write them
            // before our credits pass them.
            bytes.extend_from_slice(unsafe { &*from });
        });
    }
    f(bytes.as_ptr())
}
