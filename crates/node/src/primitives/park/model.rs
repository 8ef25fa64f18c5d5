//! loom model of parking with fencing senders: a wake-up is never lost. (loom has no membarrier;
//! the model has a fence on both sides instead, which has the same effect.)

use super::*;
use loom::sync::Arc;

#[test]
fn a_published_message_is_seen_or_the_sleeper_is_woken() {
    loom::model(|| {
        let shared = Arc::new((ParkingSpot::default(), AtomicU32::new(0)));
        let theirs = shared.clone();
        let sender = loom::thread::spawn(move || {
            theirs.1.store(1, Ordering::Release);
            theirs.0.wake(Fencing::Sender);
        });
        while shared.1.load(Ordering::Acquire) == 0 {
            let message = &shared.1;
            shared.0.park(Fencing::Sender, None, || message.load(Ordering::Acquire) != 0);
        }
        sender.join().expect("sender");
    });
}

#[test]
fn one_fence_serves_all_who_are_to_be_woken() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let shared =
            Arc::new(([ParkingSpot::default(), ParkingSpot::default()], AtomicU32::new(0)));
        let sleepers = [0, 1].map(|me| {
            let ours = shared.clone();
            loom::thread::spawn(move || {
                while ours.1.load(Ordering::Acquire) == 0 {
                    let message = &ours.1;
                    ours.0[me].park(Fencing::Sender, None, || message.load(Ordering::Acquire) != 0);
                }
            })
        });
        shared.1.store(1, Ordering::Release);
        Fencing::Sender.before_waking();
        shared.0.iter().for_each(ParkingSpot::wake_fenced);
        for sleeper in sleepers {
            sleeper.join().expect("sleeper");
        }
    });
}

/// Two threads of a rank. One has work to do, whether it gets the watch or not; the other waits for
/// a message.
#[test]
fn the_watch_is_handed_over_without_a_loss() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let socket = WakeSocket::new().expect("a socket");
        let shared = Arc::new((ParkingSpot::default(), AtomicU32::new(0), socket));
        shared.0.set_wake_socket(&shared.2);
        let (busy, waits) = (shared.clone(), shared.clone());
        let busy = loom::thread::spawn(move || {
            busy.0.listen(Fencing::Sender, &busy.2, || None);
        });
        let waits = loom::thread::spawn(move || {
            let (spot, message, socket) = &*waits;
            while message.load(Ordering::Acquire) == 0 {
                spot.listen(Fencing::Sender, socket, || {
                    (message.load(Ordering::Acquire) == 0).then(WakeEvents::default)
                });
            }
        });
        shared.1.store(1, Ordering::Release);
        shared.0.wake(Fencing::Sender);
        busy.join().expect("thread");
        waits.join().expect("thread");
    });
}

/// Two threads of a rank wait for one message each, and park at the rank's only spot.
#[test]
fn threads_that_share_a_spot_are_woken_each_by_its_message() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let shared = Arc::new((ParkingSpot::default(), [AtomicU32::new(0), AtomicU32::new(0)]));
        let sleepers = [0, 1].map(|me| {
            let ours = shared.clone();
            loom::thread::spawn(move || {
                let has_come = || ours.1[me].load(Ordering::Acquire) != 0;
                while !has_come() {
                    ours.0.park(Fencing::Sender, None, has_come);
                }
            })
        });
        for message in &shared.1 {
            message.store(1, Ordering::Release);
            shared.0.wake(Fencing::Sender);
        }
        for sleeper in sleepers {
            sleeper.join().expect("sleeper");
        }
    });
}
