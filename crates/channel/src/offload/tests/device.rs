//! Tests of the feeder with software devices that misbehave.

use super::*;
use std::sync::atomic::{AtomicBool, Ordering};

/// Devices that misbehave.
fn misbehaviours() -> Vec<(&'static str, Behaviour)> {
    let odd = |change: fn(&mut Behaviour)| {
        let mut behaviour = fine();
        change(&mut behaviour);
        behaviour
    };
    vec![
        ("faults", odd(|b| b.fault_every = Some(2))),
        ("only faults", odd(|b| b.fault_every = Some(1))),
        (
            "faults before the first byte",
            odd(|b| {
                b.fault_every = Some(1);
                b.fault_at_start = true;
            }),
        ),
        ("errors", odd(|b| b.error_every = Some((3, 0x1a)))),
        (
            "only errors, which leave garbage",
            odd(|b| {
                b.error_every = Some((1, 0x13));
                b.garble = true;
            }),
        ),
        ("newest first", odd(|b| b.newest_first = true)),
        ("often full", odd(|b| b.full_every = Some(2))),
        ("always full", odd(|b| b.full_every = Some(1))),
        ("one entry", odd(|b| b.entries = 1)),
        ("short transfers", odd(|b| b.max_transfer = 4096)),
        ("dies at once", odd(|b| b.dies_after = Some(0))),
        ("dies", odd(|b| b.dies_after = Some(5))),
        ("refuses", odd(|b| b.refuses = true)),
        (
            "all at once",
            odd(|b| {
                b.fault_every = Some(3);
                b.error_every = Some((5, 0x1a));
                b.garble = true;
                b.newest_first = true;
                b.full_every = Some(4);
                b.max_transfer = 70_000;
            }),
        ),
    ]
}

#[test]
fn dropping_waits_for_the_device() {
    let (device_a, remote_a) = device(fine());
    let (device_b, remote_b) = device(fine());
    let engines: [(Box<dyn CopyEngine>, Remote); 2] = [
        (Box::new(DsaEngine::with_device(device_a)), remote_a),
        (Box::new(DsaThreadEngine::with_device(device_b, setup(1))), remote_b),
    ];
    for (mut engine, remote) in engines {
        remote.hold(true);
        let bytes = 2 * CHUNK;
        let ((from, _), to) = (source(bytes, 0), Guarded::new(bytes));
        let cookie = engine.start(CopyJob::copy(from, to.view(), bytes));
        while remote.queued() < 2 {
            std::thread::yield_now();
        }
        assert_eq!(cookie.check(), JobProgress::Pending);
        let released = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let dropper = scope.spawn(|| {
                drop(cookie);
                assert!(released.load(Ordering::SeqCst), "it did not wait");
                remote.executed()
            });
            // A drop that does not wait has enough time to show it.
            std::thread::sleep(std::time::Duration::from_millis(20));
            released.store(true, Ordering::SeqCst);
            remote.hold(false);
            assert_eq!(dropper.join().expect("dropper"), 2);
        });
    }
}

#[test]
fn no_device_loses_or_garbles_a_byte() {
    for (what, behaviour) in misbehaviours() {
        let engines: [Box<dyn CopyEngine>; 2] =
            [Box::new(dsa(behaviour)), Box::new(dsa_thread(behaviour))];
        for mut engine in engines {
            for bytes in [1, 5000, CHUNK + 3, (2 << 20) + 777] {
                let jobs: Vec<_> = (0..3)
                    .map(|i| {
                        let ((from, data), to) = (source(bytes, i), Guarded::new(bytes));
                        (engine.start(CopyJob::copy(from, to.view(), bytes)), data, to)
                    })
                    .collect();
                for (cookie, data, to) in jobs {
                    cookie.wait().expect("own memory");
                    assert!(to.content() == data, "{what}: {} {bytes}", engine.name());
                }
            }
        }
    }
}

/// The report after a job of 2 MiB on a device with this behaviour.
fn report(change: fn(&mut Behaviour)) -> DsaReport {
    let mut behaviour = fine();
    change(&mut behaviour);
    let mut engine = dsa(behaviour);
    let bytes = 2 << 20;
    let ((from, data), to) = (source(bytes, 0), Guarded::new(bytes));
    let cookie = engine.start(CopyJob::copy(from, to.view(), bytes));
    // Only polls, so that the CPU does not help to copy.
    while cookie.check() == JobProgress::Pending {
        std::thread::yield_now();
    }
    assert_eq!(cookie.check(), JobProgress::Done);
    assert!(to.content() == data);
    let report = engine.report();
    assert_eq!(report.device_bytes + report.cpu_bytes, bytes as u64, "{report:?}");
    report
}

#[test]
fn the_device_does_what_it_can() {
    let all = report(|_| {});
    assert_eq!((all.cpu_bytes, all.descriptors), (0, 16));
    assert_eq!((all.faults, all.errors, all.given_up), (0, 0, false));

    let faults = report(|b| b.fault_every = Some(2));
    assert!(faults.faults > 0 && faults.device_bytes > 0);
    // Each fault costs the CPU about a page.
    assert!(faults.cpu_bytes <= faults.faults * 8192, "{faults:?}");

    let errors = report(|b| b.error_every = Some((3, 0x1a)));
    assert!(errors.errors > 0 && errors.last_error == 0x1a && errors.device_bytes > 0);

    let broken = report(|b| b.error_every = Some((1, 0x13)));
    assert_eq!((broken.device_bytes, broken.given_up), (0, true));
    let refusing = report(|b| b.refuses = true);
    assert_eq!((refusing.descriptors, refusing.given_up), (0, true));

    let full = report(|b| b.full_every = Some(2));
    assert!(full.full > 0 && full.cpu_bytes == 0, "{full:?}");
    let never = report(|b| b.full_every = Some(1));
    assert_eq!((never.descriptors, never.given_up), (0, false));

    let dead = report(|b| b.dies_after = Some(3));
    assert!(dead.given_up && dead.device_bytes == 3 * CHUNK as u64, "{dead:?}");

    let short = report(|b| b.max_transfer = CHUNK / 4);
    assert_eq!((short.cpu_bytes, short.descriptors), (0, 64));
}

/// Shorter stretches than the feeder's limit never reach the device.
#[test]
fn the_cpu_copies_short_stretches() {
    let engine_of = |shortest: usize| {
        let (device, _) = device(fine());
        device.set_shortest(shortest);
        DsaEngine::with_device(device)
    };
    let bytes = 64 << 10;
    for (shortest, device_bytes) in [(bytes + 1, 0), (bytes, bytes)] {
        let mut engine = engine_of(shortest);
        let ((from, data), to) = (source(bytes, 0), Guarded::new(bytes));
        let cookie = engine.start(CopyJob::copy(from, to.view(), bytes));
        // Only polls, so that the CPU does not help to copy.
        while cookie.check() == JobProgress::Pending {
            std::thread::yield_now();
        }
        assert!(to.content() == data);
        let report = engine.report();
        assert_eq!(report.device_bytes, device_bytes as u64, "{shortest}: {report:?}");
        assert_eq!(report.cpu_bytes, (bytes - device_bytes) as u64, "{shortest}: {report:?}");
    }
}
