//! One slot: the head of a packet in one cache line.

use crate::sync::{AtomicU64, UnsafeCell};

/// Payload bytes that fit beside the head in a slot.
pub const INLINE: usize = 40;

/// A packet's head, as its sender wrote it. The protocol defines the meaning of the fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Packet {
    /// Context of the communicator.
    pub context: u64,
    /// Tag.
    pub tag: i32,
    /// Bytes of payload in the arena (0: none).
    pub payload: u32,
    /// Payload, or a control message's fields.
    pub inline: [u8; INLINE],
    /// Kind of packet.
    pub kind: u8,
    /// Bytes used of `inline`.
    pub inline_len: u8,
    /// For use by the packet kind.
    pub aux: u16,
}

impl Packet {
    /// A packet of `kind` with nothing else set.
    pub const fn of_kind(kind: u8) -> Packet {
        Packet { context: 0, tag: 0, payload: 0, inline: [0; INLINE], kind, inline_len: 0, aux: 0 }
    }

    /// The `index`-th 8-byte field of the inline area.
    #[inline]
    pub fn word(&self, index: usize) -> u64 {
        let at = index * 8;
        u64::from_ne_bytes(self.inline[at..at + 8].try_into().expect("8 bytes"))
    }

    /// Sets the `index`-th 8-byte field of the inline area.
    #[inline]
    pub fn set_word(&mut self, index: usize, value: u64) {
        let at = index * 8;
        self.inline[at..at + 8].copy_from_slice(&value.to_ne_bytes());
        self.inline_len = self.inline_len.max(at as u8 + 8);
    }
}

/// The part of a packet that lies in the slot beside the stamp.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct SlotBody {
    pub context: u64,
    pub tag: i32,
    pub payload: u32,
    pub inline: [u8; INLINE],
}

/// One cache line of a ring.
///
/// `stamp` holds position + 1 (low half), kind, inline length and aux: one store publishes them
/// with the body.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct RingSlot {
    pub(crate) stamp: AtomicU64,
    pub(crate) body: UnsafeCell<SlotBody>,
}

impl RingSlot {
    pub(crate) fn empty() -> RingSlot {
        RingSlot {
            stamp: AtomicU64::new(0),
            body: UnsafeCell::new(SlotBody { context: 0, tag: 0, payload: 0, inline: [0; INLINE] }),
        }
    }
}

#[inline(always)]
pub(crate) fn stamp(position: u32, kind: u8, inline_len: u8, aux: u16) -> u64 {
    u64::from(position.wrapping_add(1))
        | u64::from(kind) << 32
        | u64::from(inline_len) << 40
        | u64::from(aux) << 48
}
