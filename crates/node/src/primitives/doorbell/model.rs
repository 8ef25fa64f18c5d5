//! loom model: a receiver that sees the knock can read the ring's memory; one that sees the
//! doorbell finds the packet's bytes.

use super::*;
use crate::sync::UnsafeCell;
use loom::sync::Arc;

struct Shared {
    knocks: [AtomicU64; 1],
    doorbell: Doorbell,
    ring: UnsafeCell<u32>,
    packet: UnsafeCell<u32>,
}
// SAFETY: the model under test orders the accesses; loom reports a violation.
unsafe impl Sync for Shared {}

#[test]
fn knocks_and_doorbells_publish_what_came_before() {
    loom::model(|| {
        let shared = Arc::new(Shared {
            knocks: [AtomicU64::new(0)],
            doorbell: Doorbell::new(),
            ring: UnsafeCell::new(0),
            packet: UnsafeCell::new(0),
        });
        let theirs = shared.clone();
        let sender = loom::thread::spawn(move || {
            // SAFETY: no thread reads it before the knock.
            theirs.ring.with_mut(|ring| unsafe { *ring = 1 });
            knock(&theirs.knocks, 5);
            // SAFETY: no thread reads it before the doorbell.
            theirs.packet.with_mut(|packet| unsafe { *packet = 2 });
            theirs.doorbell.ring(1);
        });
        let mut knocks = Knocks::new(&shared.knocks[..]);
        while !knocks.is_heard() {
            loom::thread::yield_now();
        }
        let mut heard = None;
        knocks.answer(|rank| heard = Some(rank));
        assert_eq!(heard, Some(5));
        // SAFETY: the sender has knocked.
        shared.ring.with(|ring| assert_eq!(unsafe { *ring }, 1));
        while !shared.doorbell.has_rung(0) {
            loom::thread::yield_now();
        }
        // SAFETY: the sender has rung the doorbell.
        shared.packet.with(|packet| assert_eq!(unsafe { *packet }, 2));
        sender.join().expect("sender");
    });
}
