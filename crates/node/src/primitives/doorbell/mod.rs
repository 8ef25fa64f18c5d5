//! Doorbells and new senders: how a receiver finds which have sent without polling every ring
//! (chai-2009, 3.2.4, "Reducing Polling Overhead").
//!
//! A [`Doorbell`] is the paper's *total-in*: the low half of the position that one sender has
//! reached in its ring. All doorbells of a receiver are contiguous, so polling them touches few
//! lines; one sender writes each of them with a plain store. A [`NewSenders`] bitmap holds which
//! senders exist at all: each sets its bit once, before its first message.
//!
//! | who | writes |
//! |---|---|
//! | sender | its doorbell, after each packet; its new-sender bit, once |
//! | receiver | nothing |

#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, not(loom)))]
mod tests;

use crate::sync::{AtomicU16, AtomicU64, Ordering};
use std::ops::Deref;

/// The doorbell of one sender at one receiver.
#[derive(Debug)]
#[repr(transparent)]
pub struct Doorbell(AtomicU16);

impl Doorbell {
    /// A doorbell that has never been rung.
    #[allow(clippy::new_without_default)] // no const new under loom; no caller needs Default
    pub fn new() -> Doorbell {
        Doorbell(AtomicU16::new(0))
    }

    /// For the sender: announces that it has reached `position`.
    #[inline(always)]
    pub fn ring(&self, position: u32) {
        // SYNC doorbell: pairs with the Acquire in `has_rung`. The packet itself is published by
        // its stamp.
        self.0.store(position as u16, Ordering::Release);
    }

    /// True when the sender has reached another position than `position`, the receiver's. A ring
    /// has fewer than 2^16 slots, so comparing the low half suffices.
    #[inline(always)]
    pub fn has_rung(&self, position: u32) -> bool {
        // SYNC doorbell: pairs with the Release in `ring`.
        self.0.load(Ordering::Acquire) != position as u16
    }
}

/// The senders that have announced themselves to one receiver: the shared bits, and those that the
/// receiver has not seen.
///
/// A bit that has been seen counts as seen until the receiver [forgets](NewSenders::forget) it,
/// also if it is cleared and set again meanwhile (`JobSegment::end_world`): what the receiver keeps
/// for the former sender of the number must go first.
#[derive(Debug)]
pub struct NewSenders<B> {
    bits: B,
    unseen: Vec<u64>,
}

/// Sets the bit of sender `rank`, whose ring is ready to be polled.
pub fn announce_sender(bits: &[AtomicU64], rank: u32) {
    // SYNC new-sender: pairs with the Acquire in `NewSenders`; the ring's memory is there before.
    bits[rank as usize / 64].fetch_or(1 << (rank % 64), Ordering::Release);
}

impl<B: Deref<Target = [AtomicU64]>> NewSenders<B> {
    /// The receiver's view of its bits.
    pub fn new(bits: B) -> NewSenders<B> {
        NewSenders { unseen: vec![!0; bits.len()], bits }
    }

    /// True when a sender has announced itself since the last [`NewSenders::take`].
    #[inline(always)]
    pub fn has_new(&self) -> bool {
        // SYNC new-sender: pairs with the Release in `announce_sender`.
        let is_new =
            |(bits, unseen): (&AtomicU64, &u64)| bits.load(Ordering::Acquire) & unseen != 0;
        self.bits.iter().zip(&self.unseen).any(is_new)
    }

    /// Forgets that `rank` has announced itself: another sender has its number now, which announces
    /// itself anew.
    pub fn forget(&mut self, rank: u32) {
        self.unseen[rank as usize / 64] |= 1 << (rank % 64);
    }

    /// Calls `open` with each rank that has announced itself since the last call.
    pub fn take(&mut self, mut open: impl FnMut(u32)) {
        for (word, (bits, unseen)) in self.bits.iter().zip(&mut self.unseen).enumerate() {
            // SYNC new-sender: pairs with the Release in `announce_sender`.
            let mut new = bits.load(Ordering::Acquire) & *unseen;
            *unseen &= !new;
            while new != 0 {
                open(word as u32 * 64 + new.trailing_zeros());
                new &= new - 1;
            }
        }
    }
}
