//! loom model: a page that moves keeps what peers store to it by address.

use super::*;
use crate::sync::UnsafeCell;
use loom::sync::Arc;

/// Memory that lies in one of two pages: the one in use has the bytes.
struct MovingPage {
    gate: MigrationGate,
    pages: [UnsafeCell<u32>; 2],
    /// Which page the address leads to: the kernel's table, which peers read when they store.
    current: AtomicU32,
}

// SAFETY: the gate keeps the sides apart; loom's cells check that.
unsafe impl Sync for MovingPage {}

impl MovingPage {
    /// What a peer does: reads and stores by address.
    fn add(&self, value: u32) {
        let _store = self.gate.announce_store();
        let page = &self.pages[self.current.load(Ordering::Relaxed) as usize];
        // SAFETY: loom checks that no other access happens at the time.
        page.with_mut(|at| unsafe { *at += value });
    }

    /// What the owner does: copies the page, and puts the copy in its place.
    fn migrate(&self) -> bool {
        let Some(_closed) = self.gate.try_close() else {
            return false;
        };
        // SAFETY: as above.
        let bytes = self.pages[0].with(|at| unsafe { *at });
        self.pages[1].with_mut(|at| unsafe { *at = bytes });
        self.current.store(1, Ordering::Relaxed);
        true
    }
}

#[test]
fn no_store_is_lost_in_a_migration() {
    loom::model(|| {
        let memory = Arc::new(MovingPage {
            gate: MigrationGate::default(),
            pages: [UnsafeCell::new(0), UnsafeCell::new(0)],
            current: AtomicU32::new(0),
        });
        let theirs = memory.clone();
        let peer = loom::thread::spawn(move || theirs.add(1));
        let is_moved = memory.migrate();
        peer.join().expect("peer");
        let page = &memory.pages[usize::from(is_moved)];
        // SAFETY: the peer has ended.
        assert_eq!(page.with(|at| unsafe { *at }), 1);
        assert!(memory.gate.try_close().is_some(), "the gate is open, and nothing is counted");
    });
}

#[test]
fn peers_that_wait_leave_the_gate_as_it_was() {
    loom::model(|| {
        let gate = Arc::new(MigrationGate::default());
        let closed = gate.try_close();
        let theirs = gate.clone();
        let peer = loom::thread::spawn(move || drop(theirs.announce_store()));
        drop(closed);
        peer.join().expect("peer");
        assert!(gate.try_close().is_some());
    });
}
