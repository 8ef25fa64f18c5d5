use super::*;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

#[test]
fn a_ready_rank_does_not_sleep() {
    let spot = ParkingSpot::default();
    spot.park(Fencing::Sender, None, || true);
    spot.park(Fencing::Parker, None, || true);
}

#[test]
fn wakes_are_never_lost() {
    membarrier_register();
    for fencing in [Fencing::Sender, Fencing::Parker] {
        let shared = Arc::new((
            ParkingSpot::default(),
            AtomicU32::new(0),
            AtomicBool::new(false),
        ));
        let theirs = shared.clone();
        let sender = std::thread::spawn(move || {
            for i in 1..=2000 {
                theirs.1.store(i, Ordering::Release);
                theirs.0.wake(fencing);
                while theirs.1.load(Ordering::Acquire) == i {
                    std::hint::spin_loop();
                }
            }
            theirs.2.store(true, Ordering::Release);
        });
        // Without a limit on the sleep a lost wake-up would hang here.
        for i in 1..=2000 {
            while shared.1.load(Ordering::Acquire) != i {
                shared
                    .0
                    .park(fencing, None, || shared.1.load(Ordering::Acquire) == i);
            }
            shared.1.store(0, Ordering::Release);
        }
        sender.join().expect("sender");
        assert!(shared.2.load(Ordering::Acquire));
    }
}
