//! Tests of engines across threads and processes: helpers, helper slots, wake-ups, forks, peers.

use super::*;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex};

/// Counts the calls of `notify`, and wakes the test.
#[derive(Default)]
struct JobCounter(Mutex<usize>, Condvar);

impl JobCounter {
    fn ring(&self) {
        *self.0.lock().unwrap() += 1;
        self.1.notify_all();
    }

    fn wait_for(&self, rings: usize) {
        let guard = self.0.lock().unwrap();
        drop(self.1.wait_while(guard, |n| *n < rings).unwrap());
    }
}

#[test]
fn helper_finishes_alone_and_notifies() {
    for with_device in [false, true] {
        let jobs = Arc::new(JobCounter::default());
        let theirs = Arc::clone(&jobs);
        let setup = OffloadSetup { notify: Some(Arc::new(move || theirs.ring())), ..setup(1) };
        let mut engine: Box<dyn CopyEngine> = if with_device {
            Box::new(DsaThreadEngine::with_device(device(fine()).0, setup))
        } else {
            Box::new(ThreadEngine::new(setup))
        };
        assert!(engine.capabilities().contains(EngineCapabilities::SELF_DRIVEN));
        let bytes = 3 << 20;
        for round in 1..=20 {
            let ((from, data), to) = (source(bytes, round), Guarded::new(bytes));
            let cookie = engine.start(CopyJob::copy(from, to.view(), bytes));
            assert!(cookie.is_self_driven());
            // The cookie is polled only after `notify` was called.
            jobs.wait_for(round);
            assert_eq!(cookie.check(), JobProgress::Done);
            assert!(to.content() == data);
        }
        assert_eq!(*jobs.0.lock().unwrap(), 20, "once for each job");
    }
}

#[test]
fn helpers_of_a_node_share_its_tokens() {
    let shared = OffloadSetup { segment: segment(), helpers: 1, notify: None };
    let (held, remote) = device(fine());
    let mut first = DsaThreadEngine::with_device(held, shared.clone());
    let mut second = ThreadEngine::new(shared.clone());
    let bytes = 2 * CHUNK;
    let job = |seed| {
        let ((from, data), to) = (source(bytes, seed), Guarded::new(bytes));
        (CopyJob::copy(from, to.view(), bytes), data, to)
    };
    remote.hold(true);
    let (job_a, data_a, to_a) = job(1);
    let a = first.start(job_a);
    assert_eq!(shared.segment.helper_tokens().taken(), 1);
    // The helper of the only free core is in use: the rank copies itself.
    let (job_b, data_b, to_b) = job(2);
    let b = second.start(job_b);
    assert!(a.is_self_driven() && !b.is_self_driven());
    b.wait().expect("own memory");
    assert!(to_b.content() == data_b);
    remote.hold(false);
    a.wait().expect("own memory");
    assert!(to_a.content() == data_a);
    first.close();
    assert_eq!(shared.segment.helper_tokens().taken(), 0);
    let (job_b, data_b, to_b) = job(3);
    let b = second.start(job_b);
    assert!(b.is_self_driven());
    b.wait().expect("own memory");
    assert!(to_b.content() == data_b);
    drop(second);
    assert_eq!(shared.segment.helper_tokens().taken(), 0);
    // A closed engine starts again.
    let (job_a, data_a, to_a) = job(4);
    first.run(job_a).expect("own memory");
    assert!(to_a.content() == data_a);
}

#[test]
fn the_helper_has_a_name_and_takes_no_signals() {
    let mut engine = ThreadEngine::new(setup(1));
    let (from, _) = source(2 * CHUNK, 0);
    let to = Guarded::new(2 * CHUNK);
    let cookie = engine.start(CopyJob::copy(from, to.view(), 2 * CHUNK));
    // Only polls: if the job is done, the helper has started and copied it.
    while cookie.check() == JobProgress::Pending {
        std::thread::yield_now();
    }
    let mut seen = 0;
    // Helpers of concurrent tests may come and go: an unreadable file belongs to one of them.
    for task in std::fs::read_dir("/proc/self/task").expect("tasks").flatten() {
        let read = |file| std::fs::read_to_string(task.path().join(file)).unwrap_or_default();
        if read("comm").trim() != "mica-copy" {
            continue;
        }
        let status = read("status");
        let Some(mask) = status.lines().find_map(|l| l.strip_prefix("SigBlk:")) else {
            continue;
        };
        let mask = u64::from_str_radix(mask.trim(), 16).expect("a mask");
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGUSR1, libc::SIGALRM, libc::SIGCHLD] {
            assert!(mask & (1 << (signal - 1)) != 0, "signal {signal} in {mask:#x}");
        }
        seen += 1;
    }
    assert!(seen >= 1);
    drop(engine);
}

#[test]
fn a_child_leaves_the_parents_jobs_alone_and_has_engines_of_its_own() {
    for mut engine in engines() {
        let bytes = 8 << 20;
        let ((from, data), to) = (source(bytes, 0), Guarded::new(bytes));
        let before = engine.start(CopyJob::copy(from.clone(), to.view(), 2 * CHUNK));
        before.wait().expect("own memory");
        let cookie = engine.start(CopyJob::copy(from.clone(), to.view(), bytes));
        // SAFETY: the child uses only memory that the C library's fork keeps usable, and leaves by
        // _exit.
        let pid = unsafe { libc::fork() };
        assert!(pid >= 0);
        if pid == 0 {
            // SAFETY: the default action of the alarm ends a child that hangs.
            unsafe {
                libc::signal(libc::SIGALRM, libc::SIG_DFL);
                libc::alarm(60);
            }
            let fine = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                let mut fine = match cookie.check() {
                    JobProgress::Failed(CopyError::Forked { bytes: n }) => n == bytes,
                    JobProgress::Done => to.content() == data,
                    _ => false,
                };
                drop(cookie);
                for _ in 0..2 {
                    let other = Guarded::new(bytes);
                    let job = CopyJob::copy(from.clone(), other.view(), bytes);
                    fine &= engine.start(job).wait().is_ok() && other.content() == data;
                }
                drop(engine);
                fine
            }));
            // SAFETY: ends the child at once, without the test harness.
            unsafe { libc::_exit(if matches!(fine, Ok(true)) { 0 } else { 1 }) };
        }
        cookie.wait().expect("the parent's job goes on");
        assert!(to.content() == data);
        let mut status = 0;
        // SAFETY: waits for our own child; `status` is writable.
        assert_eq!(unsafe { libc::waitpid(pid, &mut status, 0) }, pid);
        assert_eq!(status, 0, "{}", engine.name());
    }
}

#[test]
fn engines_are_opened_by_name() {
    let segment = segment();
    for (request, name) in [("inline", "inline"), ("thread", "thread")] {
        assert_eq!(open(request, &segment, None).expect("always there").name(), name);
    }
    let found = !find_queues().is_empty();
    let auto = open("auto", &segment, None).expect("auto never fails");
    assert!(auto.name() == "thread" || found, "one rank, two cores");
    if !found {
        let error = open("dsa", &segment, None).expect_err("no device").to_string();
        assert!(error.contains("/sys/bus/dsa/devices"), "{error}");
        assert!(open("dsa+thread", &segment, None).is_err());
    }
}

#[test]
fn notifying_may_wake_a_parked_rank() {
    // As the protocol uses it: the rank parks on its spot until a helper's job completes.
    let segment = segment();
    let shared = Arc::clone(&segment);
    segment.claim(0).expect("free");
    let rings = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&rings);
    let notify: Notify = Arc::new(move || {
        counted.fetch_add(1, Ordering::SeqCst);
        shared.block(0).parking.0.wake(shared.fencing());
    });
    let mut engine = ThreadEngine::new(OffloadSetup {
        segment: Arc::clone(&segment),
        helpers: 1,
        notify: Some(notify),
    });
    mica_node::park::membarrier_register();
    for i in 0..50 {
        let ((from, data), to) = (source(1 << 20, i), Guarded::new(1 << 20));
        let cookie = engine.start(CopyJob::copy(from, to.view(), 1 << 20));
        assert!(cookie.is_self_driven());
        while cookie.check() == JobProgress::Pending {
            // There is no time limit, so a lost wake-up would hang here.
            let spot = &segment.block(0).parking.0;
            spot.park(segment.fencing(), None, || cookie.check() != JobProgress::Pending);
        }
        assert!(to.content() == data);
    }
    assert!(rings.load(Ordering::SeqCst) >= 49);
}

#[test]
fn another_process_is_read_and_written() {
    for mut engine in engines() {
        let bytes = (2 << 20) + 5;
        let ((from, data), mine) = (source(bytes, 1), Guarded::new(bytes));
        let theirs = Guarded::new(bytes);
        let mut pipe = [0; 2];
        // SAFETY: writes two descriptors.
        assert_eq!(unsafe { libc::pipe(pipe.as_mut_ptr()) }, 0);
        // The child has a copy of all buffers at the same addresses, and marks its source.
        // SAFETY: the child uses only memory that the C library's fork keeps usable, and leaves by
        // _exit.
        let pid = unsafe { libc::fork() };
        assert!(pid >= 0);
        if pid == 0 {
            // SAFETY: plain system calls on our descriptors; the alarm ends a child that hangs.
            unsafe {
                libc::signal(libc::SIGALRM, libc::SIG_DFL);
                libc::alarm(60);
                libc::close(pipe[1]);
                // Blocks until the parent closes its end.
                let mut byte = 0u8;
                libc::read(pipe[0], (&raw mut byte).cast(), 1);
                let written = std::panic::catch_unwind(|| theirs.content() == data);
                libc::_exit(if matches!(written, Ok(true)) { 0 } else { 1 });
            }
        }
        let view = theirs.view();
        let (address, _) = view.as_contiguous().expect("contiguous");
        let child = || PeerMemory::contiguous(pid as u32, address as u64, bytes);
        engine.run(CopyJob::write(from, child(), bytes)).expect("our child");
        assert!(theirs.content().iter().all(|&b| b == 0xa5), "not ours");
        engine.run(CopyJob::read(child(), mine.view(), bytes)).expect("our child");
        assert!(mine.content() == data, "{}", engine.name());
        let mut status = 0;
        // SAFETY: closes our descriptors and waits for our child; `status` is writable.
        unsafe {
            libc::close(pipe[1]);
            libc::close(pipe[0]);
            assert_eq!(libc::waitpid(pid, &mut status, 0), pid);
        }
        assert_eq!(status, 0, "{}", engine.name());
        // A process that no longer exists causes an error, not a hang.
        let gone = engine.run(CopyJob::read(child(), mine.view(), bytes));
        let expected = CopyError::Kernel { errno: libc::ESRCH, bytes, pid: Some(pid as u32) };
        assert_eq!(gone, Err(expected));
    }
}
