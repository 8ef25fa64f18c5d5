use super::*;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

#[test]
fn a_ready_rank_does_not_sleep() {
    let spot = ParkingSpot::default();
    spot.park(Fencing::Sender, None, || true);
    spot.park(Fencing::Parker, None, || true);
}

/// Number of wake-ups; fewer under Miri.
const WAKES: u32 = if cfg!(miri) { 20 } else { 100_000 };

/// What two cores want at once, without its neighbours.
#[repr(align(128))]
struct Apart<T>(T);

impl<T> Deref for Apart<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

/// The message lies in another line than the spot, as it does in a ring: so the sender's core may
/// read the spot's state, which it has in its cache, long before its message is visible. Without
/// the membarrier, or the sender's fence, wake-ups are lost.
#[test]
fn wakes_are_never_lost() {
    // Miri does not support membarrier.
    let fencings = match cfg!(miri) {
        true => &[Fencing::Sender][..],
        false => &[Fencing::Sender, Fencing::Parker],
    };
    if !cfg!(miri) {
        membarrier_register();
    }
    for &fencing in fencings {
        let shared = Arc::new((
            Apart(ParkingSpot::default()),
            Apart(AtomicU32::new(0)),
            AtomicBool::new(false),
        ));
        let theirs = shared.clone();
        let sender = std::thread::spawn(move || {
            for i in 1..=WAKES {
                theirs.1.store(i, Ordering::Release);
                theirs.0.wake(fencing);
                while theirs.1.load(Ordering::Acquire) == i {
                    std::hint::spin_loop();
                }
            }
            theirs.2.store(true, Ordering::Release);
        });
        // Without a limit on the sleep, a lost wake-up would hang here.
        for i in 1..=WAKES {
            // So that each order of the two threads' accesses comes up.
            (0..i * 7 % 61).for_each(|_| std::hint::spin_loop());
            while shared.1.load(Ordering::Acquire) != i {
                shared.0.park(fencing, None, || shared.1.load(Ordering::Acquire) == i);
            }
            shared.1.store(0, Ordering::Release);
        }
        sender.join().expect("sender");
        assert!(shared.2.load(Ordering::Acquire));
    }
}

#[test]
fn a_ready_rank_does_not_listen() {
    let (spot, socket) = (ParkingSpot::default(), WakeSocket::new().expect("a socket"));
    spot.set_wake_socket(&socket);
    spot.listen(Fencing::Sender, &socket, || None);
}

#[test]
fn listener_is_woken_by_its_socket_and_by_watched_descriptors() {
    membarrier_register();
    for fencing in [Fencing::Sender, Fencing::Parker] {
        let socket = WakeSocket::new().expect("a socket");
        let spot = ParkingSpot::default();
        spot.set_wake_socket(&socket);
        let (reader, mut writer) = std::io::pipe().expect("a pipe");
        let watch =
            WakeEvents { descriptor: Some(std::os::fd::AsRawFd::as_raw_fd(&reader)), limit: None };
        let published = AtomicU32::new(0);
        // Without a limit on the wait, a lost wake-up would hang here.
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for i in 1..=1000 {
                    published.store(i, Ordering::Release);
                    spot.wake(fencing);
                    while published.load(Ordering::Acquire) == i {
                        std::hint::spin_loop();
                    }
                }
                std::io::Write::write_all(&mut writer, b"x").expect("room");
            });
            for i in 1..=1000 {
                while published.load(Ordering::Acquire) != i {
                    spot.listen(fencing, &socket, || {
                        (published.load(Ordering::Acquire) != i).then_some(watch)
                    });
                }
                published.store(0, Ordering::Release);
            }
            spot.listen(fencing, &socket, || Some(watch));
        });
    }
}

#[test]
fn all_threads_of_a_listening_rank_are_woken() {
    let socket = WakeSocket::new().expect("a socket");
    let spot = ParkingSpot::default();
    spot.set_wake_socket(&socket);
    let round = AtomicU32::new(0);
    let seen = AtomicU32::new(0);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for wanted in 1..=500 {
                    while round.load(Ordering::Acquire) < wanted {
                        spot.listen(Fencing::Sender, &socket, || {
                            (round.load(Ordering::Acquire) < wanted).then(WakeEvents::default)
                        });
                    }
                    seen.fetch_add(1, Ordering::AcqRel);
                }
            });
        }
        for wanted in 1..=500 {
            round.store(wanted, Ordering::Release);
            spot.wake(Fencing::Sender);
            while seen.load(Ordering::Acquire) < 3 * wanted {
                std::thread::yield_now();
            }
        }
    });
}
