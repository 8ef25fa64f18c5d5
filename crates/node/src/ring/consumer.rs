//! The receiving end of a ring.

use super::{ARENA, LINE, Packet, RingStorage, SLOTS, place};
use crate::sync::Ordering;

/// The only reader of a ring.
#[derive(Debug)]
pub struct RingConsumer<'a> {
    ring: &'a RingStorage,
    slot: u32,
    arena: u32,
    slots_published: u32,
    arena_published: u32,
}

impl<'a> RingConsumer<'a> {
    /// The consumer of a ring that nobody has read from yet.
    pub fn new(ring: &'a RingStorage) -> RingConsumer<'a> {
        RingConsumer {
            ring,
            slot: 0,
            arena: 0,
            slots_published: 0,
            arena_published: 0,
        }
    }

    /// Position of the next packet; the producer's doorbell shows the low half of what it has
    /// reached.
    #[inline]
    pub fn position(&self) -> u32 {
        self.slot
    }

    /// The next packet, if it has arrived. It stays in the ring until [`RingConsumer::consume`].
    #[inline(always)]
    pub fn peek(&self) -> Option<Packet> {
        let slot = &self.ring.slots[self.slot as usize & (SLOTS - 1)];
        // SYNC ring-stamp: pairs with the Release store in Producer::push; acquires body and arena
        // bytes.
        let stamp = slot.stamp.load(Ordering::Acquire);
        if stamp as u32 != self.slot.wrapping_add(1) {
            return None;
        }
        Some(slot.body.with(|body| {
            // SAFETY: the stamp says that the producer wrote this body for this position, and it
            // will not write it again before our credits pass it.
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

    /// Holds the producer's messages back, or not any more.
    pub fn hold(&self, on: bool) {
        // Relaxed: a wish, which nothing else hangs on.
        self.ring.credits.1.store(u32::from(on), Ordering::Relaxed);
    }

    /// Calls `f` with the address of the payload of `packet`, which [`RingConsumer::peek`] returned
    /// just now.
    #[inline]
    pub fn with_payload<R>(&self, packet: &Packet, f: impl FnOnce(*const u8) -> R) -> R {
        let (start, _) = place(self.arena, packet.payload as usize);
        read_lines(
            self.ring,
            (start as usize & (ARENA - 1)) / LINE,
            packet.payload as usize,
            f,
        )
    }

    /// Removes `packet`, the one that [`RingConsumer::peek`] returned. True when credits were given
    /// back to the producer, who may be parked and waiting for them.
    #[inline(always)]
    pub fn consume(&mut self, packet: &Packet) -> bool {
        self.slot = self.slot.wrapping_add(1);
        if packet.payload > 0 {
            self.arena = place(self.arena, packet.payload as usize).1;
        }
        // Credits go back a quarter at a time: a producer without room still has that much unread
        // before the consumer.
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
        // SYNC ring-credits: pairs with the Acquire load in Producer::refresh; our reads are done.
        self.ring.credits.0.store(
            u64::from(self.slot) | u64::from(self.arena) << 32,
            Ordering::Release,
        );
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
            // SAFETY: the stamp published these lines to us; the producer waits for our credits.
            bytes.extend_from_slice(unsafe { &*from });
        });
    }
    f(bytes.as_ptr())
}
