use super::*;
use std::sync::atomic::AtomicBool;

#[test]
fn a_store_in_progress_keeps_the_gate_open() {
    let gate = MigrationGate::default();
    let store = gate.announce_store();
    let other = gate.announce_store();
    assert!(gate.try_close().is_none());
    drop(store);
    assert!(gate.try_close().is_none(), "one of two has ended");
    drop(other);
    assert!(gate.try_close().is_some());
}

#[test]
fn a_store_waits_until_the_migration_has_ended() {
    let gate = MigrationGate::default();
    let has_moved = AtomicBool::new(false);
    let closed = gate.try_close().expect("nothing is in progress");
    std::thread::scope(|scope| {
        let (gate, has_moved) = (&gate, &has_moved);
        let peer = scope.spawn(move || {
            let _store = gate.announce_store();
            has_moved.load(Ordering::Relaxed)
        });
        // The peer waits meanwhile, or comes later.
        std::thread::sleep(std::time::Duration::from_millis(5));
        has_moved.store(true, Ordering::Relaxed);
        drop(closed);
        assert!(peer.join().expect("peer"));
    });
    assert!(gate.try_close().is_some());
}
