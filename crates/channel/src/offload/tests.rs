//! What every engine promises, tested on all of them; the device is one in software, well-behaved and not.

use super::dsa::software::{Behaviour, Remote, Software};
use super::dsa::{Device, DsaEngine, DsaThreadEngine};
use super::job::CHUNK;
use super::*;
use crate::memory::{Block, Layout, Region, Run, Shape, View};
use mica_node::segment::{JobSegment, JobSpec};
use mica_node::topology::Place;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex};

fn segment() -> &'static JobSegment {
    let spec = JobSpec {
        places: &[Place::UNKNOWN; 1],
        available_cores: 2,
        appnum: &[],
    };
    Box::leak(Box::new(JobSegment::create(&spec).expect("segment")))
}

fn setup(helpers: u32) -> Setup {
    Setup {
        segment: segment(),
        helpers,
        notify: None,
    }
}

/// A device in software that gets even short stretches.
fn device(behaviour: Behaviour) -> (Device, Remote) {
    let software = Software::new(behaviour);
    let remote = software.remote();
    let device = Device::new(Box::new(software));
    device.set_shortest(1);
    (device, remote)
}

fn dsa(behaviour: Behaviour) -> DsaEngine {
    DsaEngine::with_device(device(behaviour).0)
}

fn dsa_thread(behaviour: Behaviour) -> DsaThreadEngine {
    DsaThreadEngine::with_device(device(behaviour).0, setup(1))
}

fn fine() -> Behaviour {
    Behaviour::default()
}

/// Every engine, and the two that may do without their helper without one.
fn engines() -> Vec<Box<dyn CopyEngine>> {
    vec![
        Box::new(InlineEngine::new()),
        Box::new(ThreadEngine::new(setup(1))),
        Box::new(ThreadEngine::new(setup(0))),
        Box::new(dsa(fine())),
        Box::new(dsa_thread(fine())),
        Box::new(DsaThreadEngine::with_device(device(fine()).0, setup(0))),
    ]
}

/// Devices that do not do what they are asked to.
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

/// Bytes that tell where they come from: no two chunks look alike.
fn pattern(bytes: usize, seed: usize) -> Vec<u8> {
    (0..bytes)
        .map(|i| ((i + seed).wrapping_mul(0x9e37_79b9) >> 13) as u8)
        .collect()
}

fn contiguous(region: &Region, bytes: usize) -> View {
    region.clone().view(Shape::Contiguous { bytes })
}

/// A buffer with a margin on both sides that nobody may write.
struct Guarded {
    region: Region,
    bytes: usize,
}

const MARGIN: usize = 77;

impl Guarded {
    fn new(bytes: usize) -> Guarded {
        let region = Block::allocate(bytes + 2 * MARGIN).expect("memory");
        crate::memory::fill(&region, 0xa5, bytes + 2 * MARGIN);
        Guarded { region, bytes }
    }

    fn view(&self) -> View {
        contiguous(&self.region.offset(MARGIN as isize), self.bytes)
    }

    fn content(&self) -> Vec<u8> {
        let mut all = vec![0; self.bytes + 2 * MARGIN];
        self.region.read_bytes(&mut all);
        let (before, rest) = all.split_at(MARGIN);
        let (content, behind) = rest.split_at(self.bytes);
        let intact = before.iter().chain(behind).all(|&b| b == 0xa5);
        assert!(intact, "bytes beside the destination were written");
        content.to_vec()
    }
}

fn source(bytes: usize, seed: usize) -> (View, Vec<u8>) {
    let region = Block::allocate(bytes).expect("memory");
    let data = pattern(bytes, seed);
    region.write_bytes(&data);
    (contiguous(&region, bytes), data)
}

/// The memory of this very process as that of a peer.
fn as_peer(view: &View) -> PeerMemory {
    PeerMemory::scattered(std::process::id(), view.iovecs(0, usize::MAX))
}

const LENGTHS: [usize; 11] = [
    0,
    1,
    4095,
    4096,
    16 << 10,
    CHUNK - 1,
    CHUNK,
    CHUNK + 1,
    3 * CHUNK + 17,
    1 << 20,
    (5 << 20) + 3,
];

#[test]
fn every_length_arrives_and_nothing_else_is_written() {
    for mut engine in engines() {
        for bytes in LENGTHS {
            let ((from, data), to) = (source(bytes, bytes), Guarded::new(bytes));
            let cookie = engine.start(CopyJob::copy(from, to.view(), bytes));
            assert_eq!(cookie.bytes(), bytes);
            cookie.wait().expect("own memory");
            assert!(to.content() == data, "{} {bytes}", engine.name());
        }
    }
}

#[test]
fn a_job_may_be_shorter_than_its_sides() {
    for mut engine in engines() {
        let (from, data) = source(CHUNK + 100, 1);
        let to = Guarded::new(CHUNK + 200);
        engine
            .run(CopyJob::copy(from, to.view(), CHUNK + 50))
            .expect("own memory");
        assert!(to.content()[..CHUNK + 50] == data[..CHUNK + 50]);
        assert!(to.content()[CHUNK + 50..].iter().all(|&b| b == 0xa5));
    }
}

#[test]
#[should_panic(expected = "a copy of 11 bytes from 10 to 20")]
fn a_job_longer_than_a_side_is_an_internal_error() {
    let view = |bytes| contiguous(&Block::allocate(bytes).expect("memory"), bytes);
    let _ = CopyJob::copy(view(10), view(20), 11);
}

#[test]
fn a_peer_is_read_and_written() {
    for mut engine in engines() {
        for bytes in LENGTHS {
            let ((from, data), to) = (source(bytes, 5), Guarded::new(bytes));
            engine
                .run(CopyJob::read(as_peer(&from), to.view(), bytes))
                .expect("readable");
            assert!(to.content() == data, "read: {} {bytes}", engine.name());
            let to = Guarded::new(bytes);
            engine
                .run(CopyJob::write(from, as_peer(&to.view()), bytes))
                .expect("writable");
            assert!(to.content() == data, "write: {} {bytes}", engine.name());
        }
    }
}

/// Blocks of `length` bytes, `stride` apart.
fn strided(length: u64, stride: i64, blocks: u64) -> View {
    let layout = Layout::basic(length, 1).expect("basic");
    let layout = Arc::new(layout.hvector(blocks, 1, stride).expect("vector"));
    let span = stride as usize * blocks as usize;
    let region = Block::allocate(span).expect("memory");
    region.view(Shape::of(&layout, 1).expect("shape"))
}

#[test]
fn scattered_messages_keep_their_order() {
    let bytes = 1000 * 600;
    let shapes = || {
        [
            strided(1000, 1100, 600),
            strided(24, 40, 25_000),
            contiguous(&Block::allocate(bytes).expect("memory"), bytes),
        ]
    };
    for mut engine in engines() {
        for (i, from) in shapes().iter().enumerate() {
            for (j, to) in shapes().iter().enumerate() {
                let data = pattern(bytes, i * 3 + j);
                from.unpack(0, &data);
                for way in 0..3 {
                    crate::memory::fill(to.region(), 0, to.len());
                    let (from, to) = (from.clone(), to.clone());
                    let (there, back) = (as_peer(&from), to.clone());
                    let job = match way {
                        0 => CopyJob::copy(from, to, bytes),
                        1 => CopyJob::read(there, to, bytes),
                        _ => CopyJob::write(from, as_peer(&to), bytes),
                    };
                    engine.run(job).expect("own memory");
                    let mut got = vec![0; bytes];
                    back.pack(0, &mut got);
                    assert!(got == data, "{} {i} {j} {way}", engine.name());
                }
            }
        }
    }
}

#[test]
fn a_list_of_pieces_is_read_from_the_peer() {
    let me = std::process::id();
    let data = pattern(1000, 0);
    let at = |i: usize| data.as_ptr().expose_provenance() as u64 + i as u64;
    let table: Vec<[u64; 2]> = vec![[at(500), 300], [at(0), 0], [at(7), 400]];
    let address = table.as_ptr().expose_provenance() as u64;
    let peer = PeerMemory::listed(me, address, 3).expect("readable");
    assert_eq!((peer.len(), peer.pid()), (700, me));
    let to = Guarded::new(700);
    InlineEngine::new()
        .run(CopyJob::read(peer, to.view(), 700))
        .expect("readable");
    assert_eq!(to.content(), [&data[500..800], &data[7..407]].concat());
    assert_eq!(PeerMemory::listed(me, 64, 3), Err(libc::EFAULT));
    assert!(PeerMemory::listed(me, address, u64::MAX / 2).is_err());
    assert!(
        PeerMemory::listed(me, address, 0)
            .expect("empty")
            .is_empty()
    );
}

#[test]
fn many_jobs_are_in_flight_at_once() {
    for mut engine in engines() {
        let mut open = Vec::new();
        for i in 0..40 {
            let bytes = (i * 7919 * 31) % (600 << 10);
            let ((from, data), to) = (source(bytes, i), Guarded::new(bytes));
            let job = if i % 3 == 0 {
                CopyJob::read(as_peer(&from), to.view(), bytes)
            } else {
                CopyJob::copy(from.clone(), to.view(), bytes)
            };
            open.push((engine.start(job), from, data, to));
        }
        // Looks only, newest first.
        while !open.is_empty() {
            for i in (0..open.len()).rev() {
                match open[i].0.check() {
                    Progress::Pending => std::thread::yield_now(),
                    Progress::Done => {
                        let (_, _, data, to) = open.swap_remove(i);
                        assert!(to.content() == data, "{}", engine.name());
                    }
                    Progress::Failed(error) => panic!("{}: {error}", engine.name()),
                }
            }
        }
    }
}

#[test]
fn several_threads_wait_for_their_jobs() {
    for mut engine in engines() {
        let bytes = 2 << 20;
        let jobs: Vec<_> = (0..4)
            .map(|i| {
                let ((from, data), to) = (source(bytes, i), Guarded::new(bytes));
                (
                    engine.start(CopyJob::copy(from, to.view(), bytes)),
                    data,
                    to,
                )
            })
            .collect();
        std::thread::scope(|scope| {
            for (cookie, data, to) in jobs {
                scope.spawn(move || {
                    cookie.wait().expect("own memory");
                    assert!(to.content() == data);
                });
            }
        });
    }
}

#[test]
fn the_inline_engine_copies_one_chunk_a_look() {
    let bytes = 5 * CHUNK + 1;
    let ((from, data), to) = (source(bytes, 0), Guarded::new(bytes));
    let cookie = InlineEngine::new().start(CopyJob::copy(from, to.view(), bytes));
    assert!(!cookie.is_self_driven());
    for chunk in 0..5 {
        assert_eq!(cookie.check(), Progress::Pending, "chunk {chunk}");
        let (content, end) = (to.content(), (chunk + 1) * CHUNK);
        assert!(content[..end] == data[..end]);
        assert!(content[end..].iter().all(|&b| b == 0xa5));
    }
    assert_eq!(cookie.check(), Progress::Done);
    assert_eq!(cookie.check(), Progress::Done);
    assert!(to.content() == data);
}

/// Two pages, the second of which cannot be touched, before and behind `bytes` bytes that can.
struct Hole {
    base: usize,
    bytes: usize,
}

impl Hole {
    fn new(bytes: usize) -> Hole {
        // SAFETY: a fresh mapping; its second half is made inaccessible, which only the kernel's copies meet.
        let base = unsafe {
            let base = libc::mmap(
                std::ptr::null_mut(),
                2 * bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            );
            assert_ne!(base, libc::MAP_FAILED);
            assert_eq!(
                libc::mprotect(base.byte_add(bytes), bytes, libc::PROT_NONE),
                0
            );
            base.expose_provenance()
        };
        Hole { base, bytes }
    }
}

impl Drop for Hole {
    fn drop(&mut self) {
        // SAFETY: mapped in `new` with this length.
        unsafe {
            libc::munmap(
                std::ptr::with_exposed_provenance_mut(self.base),
                2 * self.bytes,
            )
        };
    }
}

#[test]
fn what_the_kernel_refuses_fails_and_touches_nothing_later() {
    for mut engine in engines() {
        let half = 4 * CHUNK;
        let hole = Hole::new(half);
        let bytes = 2 * half;
        let me = std::process::id();
        let peer = || PeerMemory::contiguous(me, hole.base as u64, bytes);
        let (from, _) = source(bytes, 0);
        let to = Guarded::new(bytes);
        for job in [
            CopyJob::read(peer(), to.view(), bytes),
            CopyJob::write(from.clone(), peer(), bytes),
        ] {
            // By waiting, and by looking only.
            let error = engine.run(job.clone()).expect_err("a hole");
            let expected = CopyError::Kernel {
                errno: libc::EFAULT,
                bytes,
                pid: Some(me),
            };
            assert_eq!(error, expected, "{}", engine.name());
            let cookie = engine.start(job);
            let failed = loop {
                match cookie.check() {
                    Progress::Pending => std::thread::yield_now(),
                    over => break over,
                }
            };
            assert_eq!(failed, Progress::Failed(expected));
            let now = to.content();
            drop(cookie);
            assert!(to.content() == now);
        }
        let nobody = PeerMemory::contiguous(0x7fff_fff0, 4096, bytes);
        let error = engine.run(CopyJob::read(nobody, to.view(), bytes));
        let text = error.expect_err("no such process").to_string();
        assert!(
            text.contains("process 2147483632") && text.contains(&bytes.to_string()),
            "{text}"
        );
        // The engine is as good as new.
        let (from, data) = source(bytes, 3);
        engine
            .run(CopyJob::copy(from, to.view(), bytes))
            .expect("own memory");
        assert!(to.content() == data);
    }
}

#[test]
fn a_peer_that_lists_too_little_is_an_error() {
    let (from, _) = source(100, 0);
    let mut runs = from.iovecs(0, 1);
    runs.push(Run {
        address: 1,
        len: usize::MAX,
    });
    let peer = PeerMemory::scattered(std::process::id(), runs);
    assert_eq!(peer.len(), usize::MAX, "no overflow");
    let to = Guarded::new(200);
    let error = InlineEngine::new().run(CopyJob::read(peer, to.view(), 200));
    assert!(
        matches!(
            error,
            Err(CopyError::Kernel {
                errno: libc::EFAULT,
                ..
            })
        ),
        "{error:?}"
    );
}

#[test]
fn a_dropped_job_leaves_its_memory_alone() {
    for mut engine in engines() {
        for round in 0..20 {
            let bytes = 3 << 20;
            let ((from, _), to) = (source(bytes, round), Guarded::new(bytes));
            let cookie = engine.start(CopyJob::copy(from.clone(), to.view(), bytes));
            for _ in 0..round {
                cookie.check();
            }
            drop(cookie);
            let mine = pattern(bytes, 999);
            to.view().unpack(0, &mine);
            // Whatever still copied would do so before a job that comes later.
            let (other, data) = source(bytes, 5);
            let later = Guarded::new(bytes);
            engine
                .run(CopyJob::copy(other, later.view(), bytes))
                .expect("own memory");
            assert!(later.content() == data);
            assert!(to.content() == mine, "{}", engine.name());
        }
    }
}

#[test]
fn dropping_waits_for_the_device() {
    let (device_a, remote_a) = device(fine());
    let (device_b, remote_b) = device(fine());
    let engines: [(Box<dyn CopyEngine>, Remote); 2] = [
        (Box::new(DsaEngine::with_device(device_a)), remote_a),
        (
            Box::new(DsaThreadEngine::with_device(device_b, setup(1))),
            remote_b,
        ),
    ];
    for (mut engine, remote) in engines {
        remote.hold(true);
        let bytes = 2 * CHUNK;
        let ((from, _), to) = (source(bytes, 0), Guarded::new(bytes));
        let cookie = engine.start(CopyJob::copy(from, to.view(), bytes));
        while remote.queued() < 2 {
            std::thread::yield_now();
        }
        assert_eq!(cookie.check(), Progress::Pending);
        let released = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let dropper = scope.spawn(|| {
                drop(cookie);
                assert!(released.load(Ordering::SeqCst), "it did not wait");
                remote.executed()
            });
            // A drop that does not wait has all the time to show it.
            std::thread::sleep(std::time::Duration::from_millis(20));
            released.store(true, Ordering::SeqCst);
            remote.hold(false);
            assert_eq!(dropper.join().expect("dropper"), 2);
        });
    }
}

/// A bell for `notify`.
#[derive(Default)]
struct Bell(Mutex<usize>, Condvar);

impl Bell {
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
fn a_helper_finishes_alone_and_tells() {
    for with_device in [false, true] {
        let bell = Arc::new(Bell::default());
        let theirs = Arc::clone(&bell);
        let setup = Setup {
            notify: Some(Arc::new(move || theirs.ring())),
            ..setup(1)
        };
        let mut engine: Box<dyn CopyEngine> = if with_device {
            Box::new(DsaThreadEngine::with_device(device(fine()).0, setup))
        } else {
            Box::new(ThreadEngine::new(setup))
        };
        assert!(
            engine
                .capabilities()
                .contains(EngineCapabilities::SELF_DRIVEN)
        );
        let bytes = 3 << 20;
        for round in 1..=20 {
            let ((from, data), to) = (source(bytes, round), Guarded::new(bytes));
            let cookie = engine.start(CopyJob::copy(from, to.view(), bytes));
            assert!(cookie.is_self_driven());
            // Nobody looks at the cookie before the bell has rung.
            bell.wait_for(round);
            assert_eq!(cookie.check(), Progress::Done);
            assert!(to.content() == data);
        }
        assert_eq!(*bell.0.lock().unwrap(), 20, "once for each job");
    }
}

#[test]
fn helpers_of_a_node_share_its_tokens() {
    let shared = Setup {
        segment: segment(),
        helpers: 1,
        notify: None,
    };
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
    // The one core that is free has its helper: the rank copies itself.
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
    // Looks only: the helper has done it, so it has started.
    while cookie.check() == Progress::Pending {
        std::thread::yield_now();
    }
    let mut seen = 0;
    // Helpers of tests that run beside this one may come and go: a file that cannot be read is theirs.
    for task in std::fs::read_dir("/proc/self/task")
        .expect("tasks")
        .flatten()
    {
        let read = |file| std::fs::read_to_string(task.path().join(file)).unwrap_or_default();
        if read("comm").trim() != "mica-copy" {
            continue;
        }
        let status = read("status");
        let Some(mask) = status.lines().find_map(|l| l.strip_prefix("SigBlk:")) else {
            continue;
        };
        let mask = u64::from_str_radix(mask.trim(), 16).expect("a mask");
        for signal in [
            libc::SIGINT,
            libc::SIGTERM,
            libc::SIGUSR1,
            libc::SIGALRM,
            libc::SIGCHLD,
        ] {
            assert!(
                mask & (1 << (signal - 1)) != 0,
                "signal {signal} in {mask:#x}"
            );
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
        // SAFETY: the child uses memory that the C library's fork makes usable, and leaves by _exit.
        let pid = unsafe { libc::fork() };
        assert!(pid >= 0);
        if pid == 0 {
            // SAFETY: a child that hangs is ended by the alarm's default action.
            unsafe {
                libc::signal(libc::SIGALRM, libc::SIG_DFL);
                libc::alarm(60);
            }
            let fine = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                let mut fine = match cookie.check() {
                    Progress::Failed(CopyError::Forked { bytes: n }) => n == bytes,
                    Progress::Done => to.content() == data,
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
fn no_device_loses_or_garbles_a_byte() {
    for (what, behaviour) in misbehaviours() {
        let engines: [Box<dyn CopyEngine>; 2] =
            [Box::new(dsa(behaviour)), Box::new(dsa_thread(behaviour))];
        for mut engine in engines {
            for bytes in [1, 5000, CHUNK + 3, (2 << 20) + 777] {
                let jobs: Vec<_> = (0..3)
                    .map(|i| {
                        let ((from, data), to) = (source(bytes, i), Guarded::new(bytes));
                        (
                            engine.start(CopyJob::copy(from, to.view(), bytes)),
                            data,
                            to,
                        )
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

/// The report after a job of 2 MiB at a device that behaves like this.
fn report(change: fn(&mut Behaviour)) -> DsaReport {
    let mut behaviour = fine();
    change(&mut behaviour);
    let mut engine = dsa(behaviour);
    let bytes = 2 << 20;
    let ((from, data), to) = (source(bytes, 0), Guarded::new(bytes));
    let cookie = engine.start(CopyJob::copy(from, to.view(), bytes));
    // Looks only, so that the CPU does not copy along.
    while cookie.check() == Progress::Pending {
        std::thread::yield_now();
    }
    assert_eq!(cookie.check(), Progress::Done);
    assert!(to.content() == data);
    let report = engine.report();
    assert_eq!(
        report.device_bytes + report.cpu_bytes,
        bytes as u64,
        "{report:?}"
    );
    report
}

#[test]
fn the_device_does_what_it_can() {
    let all = report(|_| {});
    assert_eq!((all.cpu_bytes, all.descriptors), (0, 16));
    assert_eq!((all.faults, all.errors, all.given_up), (0, 0, false));

    let faults = report(|b| b.fault_every = Some(2));
    assert!(faults.faults > 0 && faults.device_bytes > 0);
    // Each fault costs the CPU a page or so.
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
    assert!(
        dead.given_up && dead.device_bytes == 3 * CHUNK as u64,
        "{dead:?}"
    );

    let short = report(|b| b.max_transfer = CHUNK / 4);
    assert_eq!((short.cpu_bytes, short.descriptors), (0, 64));
}

#[test]
fn the_break_even_length_is_measured_once() {
    let mut engine = dsa(fine());
    let first = engine.measure_break_even();
    if let Some(bytes) = first {
        assert!((1024..=4 << 20).contains(&bytes) && bytes.is_power_of_two());
    }
    let descriptors = engine.report().descriptors;
    assert!(descriptors > 0, "the device was tried");
    assert_eq!(engine.measure_break_even(), first);
    assert_eq!(engine.report().descriptors, descriptors, "and not again");
    // What is shorter goes to the CPU from now on.
    let bytes = first.map_or(4 << 20, |bytes| bytes - 1);
    let ((from, data), to) = (source(bytes, 0), Guarded::new(bytes));
    engine
        .run(CopyJob::copy(from, to.view(), bytes))
        .expect("own memory");
    assert!(to.content() == data);
    assert_eq!(engine.report().descriptors, descriptors);

    let mut broken = fine();
    broken.refuses = true;
    assert_eq!(dsa(broken).report(), DsaReport::default());
}

#[test]
fn engines_are_opened_by_name() {
    let segment = segment();
    for (request, name) in [("inline", "inline"), ("thread", "thread")] {
        assert_eq!(
            open(request, segment, None).expect("always there").name(),
            name
        );
    }
    let found = !find_queues().is_empty();
    let auto = open("auto", segment, None).expect("auto never fails");
    assert!(auto.name() == "thread" || found, "one rank, two cores");
    if !found {
        let error = open("dsa", segment, None)
            .expect_err("no device")
            .to_string();
        assert!(error.contains("/sys/bus/dsa/devices"), "{error}");
        assert!(open("dsa+thread", segment, None).is_err());
    }
}

#[test]
fn notifying_may_wake_a_parked_rank() {
    // As the protocol will use it: the rank parks on its spot until a helper's job is over.
    let segment = segment();
    segment.claim(0).expect("free");
    let rings = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&rings);
    let notify: Notify = Arc::new(move || {
        counted.fetch_add(1, Ordering::SeqCst);
        segment.block(0).parking.0.wake(segment.fencing());
    });
    let mut engine = ThreadEngine::new(Setup {
        segment,
        helpers: 1,
        notify: Some(notify),
    });
    mica_node::park::membarrier_register();
    for i in 0..50 {
        let ((from, data), to) = (source(1 << 20, i), Guarded::new(1 << 20));
        let cookie = engine.start(CopyJob::copy(from, to.view(), 1 << 20));
        assert!(cookie.is_self_driven());
        while cookie.check() == Progress::Pending {
            // Without a limit a lost wake-up would hang here.
            let spot = &segment.block(0).parking.0;
            spot.park(segment.fencing(), None, || {
                cookie.check() != Progress::Pending
            });
        }
        assert!(to.content() == data);
    }
    assert!(rings.load(Ordering::SeqCst) >= 49);
}
