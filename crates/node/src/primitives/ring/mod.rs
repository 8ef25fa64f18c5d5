//! `Ring`: the receive buffer RBxy of chai-2009, 3.2: messages of one sender to one receiver.
//!
//! One producer, one consumer, no lock. A ring is [`SLOTS`] slots of one cache line each and a byte
//! arena for payloads that do not fit a line. A slot always holds a packet head, and one word of
//! it, the stamp, shows which lap of the ring wrote it. So the consumer polls the line that carries
//! the message itself, and a small message costs one cache line moved between two cores.
//!
//! | who | writes |
//! |---|---|
//! | producer | slot bodies and arena bytes it has credit for, then the slot's stamp (Release) |
//! | consumer | `credits` (Release): how far it has read; `hold`: send no messages unasked |
//!
//! Positions only increase (wrapping `u32`); a position's slot is the position modulo the size. The
//! arena hands out consecutive ranges; a payload that would straddle the end starts at the front of
//! the next lap, and both sides compute this from the lengths alone. The SYNC labels below name the
//! pairs of Release and Acquire.
//!
//! A consumer that cannot keep up sets `hold`, in the line of its credits. The producer sees it
//! when it next reads the credits, at the latest after one lap. From then on, the ring has no room
//! for messages ([`RingProducer::has_room`]), but still has room for the packets by which the two
//! sides agree on messages ([`RingProducer::has_room_for_control`]). A producer that is not held
//! back pays nothing for this.

mod consumer;
mod producer;
mod slot;

#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, not(loom)))]
mod tests;

pub use consumer::RingConsumer;
pub use producer::RingProducer;
pub use slot::{INLINE, Packet, RingSlot};

use crate::sync::{AtomicU32, AtomicU64, UnsafeCell};

/// Slots of a ring.
#[cfg(not(loom))]
pub const SLOTS: usize = 128;
/// Slots of a ring (small, for the model checker).
#[cfg(loom)]
pub const SLOTS: usize = 2;

/// Bytes of a ring's arena.
#[cfg(not(loom))]
pub const ARENA: usize = 32 * 1024;
/// Bytes of a ring's arena (small, for the model checker).
#[cfg(loom)]
pub const ARENA: usize = 2 * LINE;

/// Largest payload of one packet: a quarter of the arena, so that a drained ring always has room
/// for it.
pub const PAYLOAD_MAX: usize = ARENA / 4;

/// Bytes of a cache line, the unit of arena ranges.
pub const LINE: usize = 64;

/// One cache line of the arena.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct ArenaLine(pub(crate) UnsafeCell<[u8; LINE]>);

/// Written by the consumer only: slots read (low half) and arena bytes read (high half), and
/// whether the producer must hold its messages back.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Credits(pub(crate) AtomicU64, pub(crate) AtomicU32);

/// The storage of one ring, provided by the caller: zeroed memory of the job segment, or the heap
/// in a model.
#[derive(Debug)]
#[repr(C)]
pub struct RingStorage {
    pub(crate) credits: Credits,
    pub(crate) slots: [RingSlot; SLOTS],
    pub(crate) arena: [ArenaLine; ARENA / LINE],
}

#[cfg(not(loom))]
const _: () = {
    assert!(size_of::<RingSlot>() == LINE);
    assert!(size_of::<RingStorage>() == LINE + SLOTS * LINE + ARENA);
    assert!(SLOTS.is_power_of_two() && ARENA.is_power_of_two());
    assert!(SLOTS <= u16::MAX as usize, "doorbells carry positions in 16 bits");
};

// SAFETY: producer and consumer access disjoint parts at any time, ordered by stamps and credits
// (see the module head).
unsafe impl Sync for RingStorage {}
// SAFETY: plain memory.
unsafe impl Send for RingStorage {}

impl RingStorage {
    /// Bytes that a pair needs before its first packet: credits and slots, without the arena.
    pub const HEAD_BYTES: usize = LINE + SLOTS * LINE;
    /// Bytes of a slot.
    pub const SLOT_BYTES: usize = LINE;
    /// Bytes of the part before slot `slot`.
    pub const fn bytes_before(slot: usize) -> usize {
        LINE + slot * LINE
    }

    /// An empty ring on the heap, for tests.
    pub fn boxed() -> Box<RingStorage> {
        Box::new(RingStorage {
            credits: Credits(AtomicU64::new(0), AtomicU32::new(0)),
            slots: std::array::from_fn(|_| RingSlot::empty()),
            arena: std::array::from_fn(|_| ArenaLine(UnsafeCell::new([0; LINE]))),
        })
    }
}

/// The position that a ring begins with whose sender belongs to the world of this generation: 0 for
/// the first world.
///
/// A number of a rank has several holders, one after the other, and its rings are zeroed between
/// them. A receiver that does not know yet that the sender is another one looks for the position
/// that the former has reached, and must not find it. Those of two generations differ by a multiple
/// of the ring's size that is at random.
pub fn first_position(generation: u32) -> u32 {
    generation.wrapping_mul(0x9e37_79b1) & 0x3fff_ffff & !(SLOTS as u32 - 1)
}

/// Start and end position of a payload of `len` bytes that is put at arena position `at` or, if it
/// would straddle the end, at the front of the next lap. Both sides call this with the same
/// arguments.
#[inline]
pub(crate) fn place(at: u32, len: usize) -> (u32, u32) {
    let bytes = len.next_multiple_of(LINE) as u32;
    let inside = at as usize & (ARENA - 1);
    let start =
        if inside + bytes as usize > ARENA { at.wrapping_add((ARENA - inside) as u32) } else { at };
    (start, start.wrapping_add(bytes))
}
