//! Tests of the invariants of all engines; the device is a software device.

mod device;
mod process;

use super::hardware::dsa::software::{Behaviour, Remote, Software};
use super::hardware::dsa::{Device, DsaEngine, DsaThreadEngine};
use super::job::CHUNK;
use super::*;
use mica_memory::{Block, ByteRun, Region, Shape, TypeLayout, View};
use mica_node::segment::{JobSegment, JobSpec};
use mica_node::topology::CorePlace;
use std::sync::Arc;

fn segment() -> Arc<JobSegment> {
    let spec = JobSpec::on_one_node(&[CorePlace::UNKNOWN], 2, &[]);
    Arc::new(JobSegment::create(&spec).expect("segment"))
}

fn setup(helpers: u32) -> OffloadSetup {
    OffloadSetup { segment: segment(), helpers, notify: None }
}

/// A software device that gets even short stretches.
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

/// Every engine, and the two with an optional helper once more without one.
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

/// Bytes that identify their position: no two chunks are equal.
fn pattern(bytes: usize, seed: usize) -> Vec<u8> {
    (0..bytes).map(|i| ((i + seed).wrapping_mul(0x9e37_79b9) >> 13) as u8).collect()
}

fn contiguous(region: &Region, bytes: usize) -> View {
    region.clone().view(Shape::Contiguous { bytes })
}

/// A buffer with a margin on both sides that must not be written.
struct Guarded {
    region: Region,
    bytes: usize,
}

const MARGIN: usize = 77;

impl Guarded {
    fn new(bytes: usize) -> Guarded {
        let region = Block::allocate(bytes + 2 * MARGIN).expect("memory");
        mica_memory::fill(&region, 0xa5, bytes + 2 * MARGIN);
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

/// This process's own memory as that of a peer.
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
        engine.run(CopyJob::copy(from, to.view(), CHUNK + 50)).expect("own memory");
        assert!(to.content()[..CHUNK + 50] == data[..CHUNK + 50]);
        assert!(to.content()[CHUNK + 50..].iter().all(|&b| b == 0xa5));
    }
}

#[test]
#[should_panic(expected = "a copy of 11 bytes of a view of 10")]
fn a_job_longer_than_a_side_is_an_internal_error() {
    let view = |bytes| contiguous(&Block::allocate(bytes).expect("memory"), bytes);
    let _ = CopyJob::copy(view(10), view(20), 11);
}

#[test]
fn a_peer_is_read_and_written() {
    for mut engine in engines() {
        for bytes in LENGTHS {
            let ((from, data), to) = (source(bytes, 5), Guarded::new(bytes));
            engine.run(CopyJob::read(as_peer(&from), to.view(), bytes)).expect("readable");
            assert!(to.content() == data, "read: {} {bytes}", engine.name());
            let to = Guarded::new(bytes);
            engine.run(CopyJob::write(from, as_peer(&to.view()), bytes)).expect("writable");
            assert!(to.content() == data, "write: {} {bytes}", engine.name());
        }
    }
}

/// Blocks of `length` bytes, `stride` apart.
fn strided(length: u64, stride: i64, blocks: u64) -> View {
    let layout = TypeLayout::basic(length, 1).expect("basic");
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
                for direction in 0..3 {
                    mica_memory::fill(&to.region(), 0, to.len());
                    let (from, to) = (from.clone(), to.clone());
                    let (there, back) = (as_peer(&from), to.clone());
                    let job = match direction {
                        0 => CopyJob::copy(from, to, bytes),
                        1 => CopyJob::read(there, to, bytes),
                        _ => CopyJob::write(from, as_peer(&to), bytes),
                    };
                    engine.run(job).expect("own memory");
                    let mut got = vec![0; bytes];
                    back.pack(0, &mut got);
                    assert!(got == data, "{} {i} {j} {direction}", engine.name());
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
    InlineEngine::new().run(CopyJob::read(peer, to.view(), 700)).expect("readable");
    assert_eq!(to.content(), [&data[500..800], &data[7..407]].concat());
    assert_eq!(PeerMemory::listed(me, 64, 3), Err(libc::EFAULT));
    assert!(PeerMemory::listed(me, address, u64::MAX / 2).is_err());
    assert!(PeerMemory::listed(me, address, 0).expect("empty").is_empty());
}

#[test]
fn more_pieces_than_one_call_takes_are_copied_to_the_last_byte() {
    for count in [1023, 1024, 1025, 2049] {
        let data = pattern(2 * count, count);
        let base = data.as_ptr().expose_provenance();
        // Every second byte, backwards.
        let runs = (0..count).rev().map(|i| ByteRun { address: base + 2 * i, len: 1 });
        let peer = PeerMemory::scattered(std::process::id(), runs.collect());
        let to = Guarded::new(count);
        let job = CopyJob::read(peer, to.view(), count);
        InlineEngine::new().run(job).expect("readable");
        let expected: Vec<u8> = (0..count).rev().map(|i| data[2 * i]).collect();
        assert!(to.content() == expected, "{count}");
    }
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
        // Only polls, newest first.
        while !open.is_empty() {
            for i in (0..open.len()).rev() {
                match open[i].0.check() {
                    JobProgress::Pending => std::thread::yield_now(),
                    JobProgress::Done => {
                        let (_, _, data, to) = open.swap_remove(i);
                        assert!(to.content() == data, "{}", engine.name());
                    }
                    JobProgress::Failed(error) => panic!("{}: {error}", engine.name()),
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
                (engine.start(CopyJob::copy(from, to.view(), bytes)), data, to)
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
fn inline_engine_copies_one_chunk_per_poll() {
    let bytes = 5 * CHUNK + 1;
    let ((from, data), to) = (source(bytes, 0), Guarded::new(bytes));
    let cookie = InlineEngine::new().start(CopyJob::copy(from, to.view(), bytes));
    assert!(!cookie.is_self_driven());
    for chunk in 0..5 {
        assert_eq!(cookie.check(), JobProgress::Pending, "chunk {chunk}");
        let (content, end) = (to.content(), (chunk + 1) * CHUNK);
        assert!(content[..end] == data[..end]);
        assert!(content[end..].iter().all(|&b| b == 0xa5));
    }
    assert_eq!(cookie.check(), JobProgress::Done);
    assert_eq!(cookie.check(), JobProgress::Done);
    assert!(to.content() == data);
}

/// Two pages, the second of which is inaccessible, before and behind `bytes` accessible bytes.
struct Hole {
    base: usize,
    bytes: usize,
}

impl Hole {
    fn new(bytes: usize) -> Hole {
        // SAFETY: a new mapping; its second half is made inaccessible, and only the kernel's copies
        // access it.
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
            assert_eq!(libc::mprotect(base.byte_add(bytes), bytes, libc::PROT_NONE), 0);
            base.expose_provenance()
        };
        Hole { base, bytes }
    }
}

impl Drop for Hole {
    fn drop(&mut self) {
        // SAFETY: mapped in `new` with this length.
        unsafe { libc::munmap(std::ptr::with_exposed_provenance_mut(self.base), 2 * self.bytes) };
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
        for job in
            [CopyJob::read(peer(), to.view(), bytes), CopyJob::write(from.clone(), peer(), bytes)]
        {
            // Once by waiting, and once by polling only.
            let error = engine.run(job.clone()).expect_err("a hole");
            let expected = CopyError::Kernel { errno: libc::EFAULT, bytes, pid: Some(me) };
            assert_eq!(error, expected, "{}", engine.name());
            let cookie = engine.start(job);
            let failed = loop {
                match cookie.check() {
                    JobProgress::Pending => std::thread::yield_now(),
                    over => break over,
                }
            };
            assert_eq!(failed, JobProgress::Failed(expected));
            let now = to.content();
            drop(cookie);
            assert!(to.content() == now);
        }
        let unmapped = PeerMemory::contiguous(0x7fff_fff0, 4096, bytes);
        let error = engine.run(CopyJob::read(unmapped, to.view(), bytes));
        let text = error.expect_err("no such process").to_string();
        assert!(text.contains("process 2147483632") && text.contains(&bytes.to_string()), "{text}");
        // The engine still works.
        let (from, data) = source(bytes, 3);
        engine.run(CopyJob::copy(from, to.view(), bytes)).expect("own memory");
        assert!(to.content() == data);
    }
}

#[test]
fn a_peer_that_lists_too_little_is_an_error() {
    for mut engine in engines() {
        let bytes = CHUNK + 100;
        let ((from, data), to) = (source(bytes - 1, 0), Guarded::new(bytes));
        for peer in [as_peer(&from), PeerMemory::scattered(1, Vec::new())] {
            let short = engine.run(CopyJob::read(peer, to.view(), bytes));
            assert!(
                matches!(short, Err(CopyError::Kernel { errno: libc::EINVAL, .. })),
                "{short:?}"
            );
        }
        assert!(to.content()[..CHUNK] == data[..CHUNK], "margins are intact");
    }
    let (from, _) = source(100, 0);
    let mut runs = from.iovecs(0, 1);
    runs.push(ByteRun { address: 1, len: usize::MAX });
    let peer = PeerMemory::scattered(std::process::id(), runs);
    assert_eq!(peer.len(), usize::MAX, "no overflow");
    let to = Guarded::new(200);
    let error = InlineEngine::new().run(CopyJob::read(peer, to.view(), 200));
    assert!(matches!(error, Err(CopyError::Kernel { errno: libc::EFAULT, .. })), "{error:?}");
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
            // A copy that is still under way would be done before a later job.
            let (other, data) = source(bytes, 5);
            let later = Guarded::new(bytes);
            engine.run(CopyJob::copy(other, later.view(), bytes)).expect("own memory");
            assert!(later.content() == data);
            assert!(to.content() == mine, "{}", engine.name());
        }
    }
}
