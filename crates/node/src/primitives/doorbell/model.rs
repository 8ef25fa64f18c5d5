//! loom model: a receiver that sees the bit can read the ring's memory; one that sees the
//! doorbell finds the packet's bytes.

use super::*;
use crate::sync::UnsafeCell;
use loom::sync::Arc;

struct Shared {
    new_senders: [AtomicU64; 1],
    doorbell: Doorbell,
    ring: UnsafeCell<u32>,
    packet: UnsafeCell<u32>,
}
// SAFETY: the model under test orders the accesses; loom reports a violation.
unsafe impl Sync for Shared {}

#[test]
fn bits_and_doorbells_publish_what_came_before() {
    loom::model(|| {
        let shared = Arc::new(Shared {
            new_senders: [AtomicU64::new(0)],
            doorbell: Doorbell::new(),
            ring: UnsafeCell::new(0),
            packet: UnsafeCell::new(0),
        });
        let theirs = shared.clone();
        let sender = loom::thread::spawn(move || {
            // SAFETY: no thread reads it before the bit is set.
            theirs.ring.with_mut(|ring| unsafe { *ring = 1 });
            announce_sender(&theirs.new_senders, 5);
            // SAFETY: no thread reads it before the doorbell.
            theirs.packet.with_mut(|packet| unsafe { *packet = 2 });
            theirs.doorbell.ring(1);
        });
        let mut new_senders = NewSenders::new(&shared.new_senders[..]);
        while !new_senders.has_new() {
            loom::thread::yield_now();
        }
        let mut heard = None;
        new_senders.take(|rank| heard = Some(rank));
        assert_eq!(heard, Some(5));
        // SAFETY: the sender has announced itself.
        shared.ring.with(|ring| assert_eq!(unsafe { *ring }, 1));
        while !shared.doorbell.has_rung(0) {
            loom::thread::yield_now();
        }
        // SAFETY: the sender has rung the doorbell.
        shared.packet.with(|packet| assert_eq!(unsafe { *packet }, 2));
        sender.join().expect("sender");
    });
}
