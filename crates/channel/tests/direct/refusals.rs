//! Memory that must stay where it is, each for its reason.

use crate::kit::{
    AFTER, MIB, Memory, PAGE, Peer, Scenario, expose_moved, file_bytes, is_moved, job, mapped,
    need_mapped, owner, skip, succeeds_in_child,
};
use mica_channel::direct::{Backend, Direct, DirectOptions, HelperThread, SkipReason};
use mica_node::area::Area;

pub const SCENARIOS: &[Scenario] = &[
    ("the_stack_stays", stack),
    ("files_and_constants_stay", files),
    ("locked_memory_stays", locked),
    ("threads_arenas_stay", arenas),
    ("short_buffers_stay", short),
    ("areas_are_not_slots", areas),
    ("no_more_than_the_limit_is_moved", limit),
    ("slots_run_out_and_come_back", slots),
    ("pages_lent_for_cma_stay", lent),
    ("a_failed_move_costs_no_memory", sealed),
    ("ends_that_go_by_address_stay", ends_stay),
    ("switched_off_is_off", off),
    ("a_file_size_limit_turns_it_off", file_size),
    ("helper_threads_do_not_count", helpers),
];

#[track_caller]
fn stays(direct: &mut Direct, memory: Memory, why: SkipReason) {
    for _ in 0..=AFTER {
        assert!(!is_moved(direct, memory));
    }
    let usage = direct.usage().unwrap();
    assert!(usage.kept.iter().any(|(w, n)| *w == why && *n > 0), "not {why:?}: {usage:?}");
}

fn stack() {
    let mut direct = owner(&job(1));
    let mut array = [7u8; 16 * PAGE];
    let memory = Memory { at: array.as_mut_ptr().expose_provenance(), len: array.len() };
    stays(&mut direct, memory, SkipReason::Thread);
    // A thread's stack is memory as any, but for its own frames.
    std::thread::scope(|s| {
        s.spawn(|| {
            let mut array = [7u8; 16 * PAGE];
            let at = array.as_mut_ptr().expose_provenance();
            stays(&mut direct, Memory { at, len: array.len() }, SkipReason::Thread);
        });
    });
}

fn files() {
    use std::os::fd::AsRawFd;
    let mut direct = owner(&job(1));
    let file = std::fs::File::open("/proc/self/exe").expect("own program");
    let both = libc::PROT_READ | libc::PROT_WRITE;
    let fd = file.as_raw_fd();
    stays(&mut direct, Memory::map_as(0, 8 * PAGE, both, libc::MAP_PRIVATE, fd), SkipReason::Kind);
    let shared = Memory::map_as(0, 8 * PAGE, both, libc::MAP_SHARED, -1);
    stays(&mut direct, shared, SkipReason::Kind);
    let constant = Memory::map_as(0, 8 * PAGE, libc::PROT_READ, libc::MAP_PRIVATE, -1);
    stays(&mut direct, constant, SkipReason::Kind);
    let holed = Memory::map(8 * PAGE);
    holed.part(4 * PAGE, PAGE).unmap();
    stays(&mut direct, holed, SkipReason::Kind);
}

fn locked() {
    let mut direct = owner(&job(1));
    let other = Memory::map(PAGE);
    // SAFETY: the test's own memory.
    let result = unsafe { libc::mlock(std::ptr::without_provenance(other.at), PAGE) };
    if result < 0 {
        skip(&format!("mlock: {}", std::io::Error::last_os_error()));
    }
    let buffer = Memory::map(8 * PAGE);
    stays(&mut direct, buffer, SkipReason::Pinned);
}

fn arenas() {
    let mut direct = owner(&job(1));
    std::thread::scope(|s| {
        s.spawn(|| {
            // Below the size from which on malloc maps blocks alone.
            let mut block = vec![1u8; 100_000];
            let at = block.as_mut_ptr().expose_provenance();
            stays(&mut direct, Memory { at, len: block.len() }, SkipReason::Arena);
        });
    });
}

/// The first area follows the last rank's last slot in the file.
fn areas() {
    let segment = job(1);
    let mut direct = owner(&segment);
    let area = Area::open(&segment, 0, &[0], 0).unwrap().expect("room");
    let cells = Memory { at: area.cell(0, 0).to_region().address(), len: 2 * PAGE };
    cells.fill(3);
    stays(&mut direct, cells, SkipReason::Kind);
    // What looks for memory to give back finds none of its own there.
    let moved = Memory::map(MIB);
    drop(expose_moved(&mut direct, moved));
    assert_eq!(direct.usage().unwrap().slots, 1);
    cells.check(3);
}

fn short() {
    need_mapped();
    let segment = job(1);
    segment.claim(0).unwrap();
    let options = DirectOptions { mapped_min: 8 * PAGE, ..mapped() };
    let mut direct = Direct::new(&segment, 0, &options);
    let memory = Memory::map(16 * PAGE);
    for _ in 0..10 * AFTER {
        assert!(!is_moved(&mut direct, memory.part(0, 8 * PAGE - 1)));
        assert!(!is_moved(&mut direct, memory.part(10, 0)));
    }
    drop(expose_moved(&mut direct, memory));
    // A short part of a long one.
    assert!(is_moved(&mut direct, memory.part(PAGE - 10, 2 * PAGE)));
    // Not a byte of it lies in a page of its own.
    assert!(!is_moved(&mut direct, memory.part(100, 200)));
}

fn limit() {
    need_mapped();
    let segment = job(1);
    segment.claim(0).unwrap();
    let options = DirectOptions { mapped_max: MIB, ..mapped() };
    let mut direct = Direct::new(&segment, 0, &options);
    stays(&mut direct, Memory::map(MIB + PAGE), SkipReason::TooMuch);
    let fits = Memory::map(MIB);
    drop(expose_moved(&mut direct, fits));
    stays(&mut direct, Memory::map(4 * PAGE), SkipReason::TooMuch);
    fits.unmap();
    let buffer = Memory::map(4 * PAGE);
    assert!((0..100).any(|_| is_moved(&mut direct, buffer)));
}

fn slots() {
    let mut direct = owner(&job(1));
    // Far apart, so that no two have one slot.
    let memory = Memory::map(300 * 4 * PAGE);
    let buffer = |i: usize| memory.part(i * 4 * PAGE, 2 * PAGE);
    for i in 0..256 {
        drop(expose_moved(&mut direct, buffer(i)));
    }
    assert_eq!(direct.usage().unwrap().slots, 256);
    stays(&mut direct, buffer(256), SkipReason::NoSlot);
    buffer(17).unmap();
    drop(expose_moved(&mut direct, buffer(257)));
    assert_eq!(direct.usage().unwrap().slots, 256);
}

fn lent() {
    let segment = job(2);
    let mut direct = owner(&segment);
    let mut peer = Peer::mapped(&segment, 1);
    let memory = Memory::map(8 * PAGE);
    memory.fill(1);
    let receiving = memory.part(0, 2 * PAGE + 50);
    // A peer may be pushing into the first part; the second begins on the same page.
    let held = direct.expose(receiving.at, receiving.len).unwrap();
    assert_eq!(held.exposure().backend(), Backend::Cma);
    let other = memory.part(2 * PAGE + 50, 3 * PAGE);
    stays(&mut direct, other, SkipReason::Busy);
    stays(&mut direct, receiving, SkipReason::Busy);
    drop(held);
    let exposed = expose_moved(&mut direct, other);
    other.fill(2);
    assert_eq!(peer.check(&exposed, other, 2), other.len);
    // The other way round: what lies beside a buffer in use comes to its slot while a peer writes
    // there.
    let exposed_too = expose_moved(&mut direct, receiving);
    peer.fill(&exposed, other, 3);
    peer.fill(&exposed_too, receiving, 4);
    other.check(3);
    receiving.check(4);
    peer.end();
}

fn sealed() {
    const SYS_MSEAL: libc::c_long = 462;
    let segment = job(1);
    let mut direct = owner(&segment);
    let buffer = Memory::map(MIB);
    buffer.fill(1);
    let at = std::ptr::without_provenance::<u8>(buffer.at);
    // SAFETY: seals the test's own memory against being unmapped or replaced.
    if unsafe { libc::syscall(SYS_MSEAL, at, buffer.len, 0) } < 0 {
        skip(&format!("mseal: {}", std::io::Error::last_os_error()));
    }
    let before = file_bytes(&segment);
    stays(&mut direct, buffer, SkipReason::Kernel);
    assert_eq!(file_bytes(&segment), before);
    buffer.check(1);
}

fn ends_stay() {
    let segment = job(1);
    let mut direct = owner(&segment);
    let memory = Memory::map(16 * PAGE);
    memory.fill(1);
    let buffer = memory.part(4 * PAGE + 100, 4 * PAGE);
    let exposed = std::thread::scope(|s| {
        // With a second thread, the ends of the buffer are left out.
        let (stop, stopped) = std::sync::mpsc::channel::<()>();
        s.spawn(move || stopped.recv());
        let exposed = expose_moved(&mut direct, buffer);
        drop(stop);
        exposed
    });
    let reach = exposed.exposure().reachable(buffer.len);
    assert!(reach.start > 0 && reach.end < buffer.len);
    // The kernel counts a thread for a moment after it has been joined. The one that gives memory
    // back stays.
    while !std::fs::read_to_string("/proc/self/status").unwrap().contains("Threads:\t2\n") {
        std::thread::yield_now();
    }
    // A peer may be pushing to them: what shares their pages stays.
    let neighbour = memory.part(PAGE, 3 * PAGE + 50);
    stays(&mut direct, neighbour, SkipReason::Busy);
    drop(exposed);
    drop(expose_moved(&mut direct, neighbour));
    memory.check(1);
}

fn off() {
    let segment = job(1);
    segment.claim(0).unwrap();
    let mut direct = Direct::new(&segment, 0, &DirectOptions::CMA);
    let memory = Memory::map(MIB);
    assert!((0..100).all(|_| !is_moved(&mut direct, memory)));
    assert!(direct.usage().is_none());
    let state = direct.status().into_iter().find(|s| s.backend == Backend::Mapped).unwrap().state;
    assert!(state.unwrap_err().contains("MICA_DIRECT"));
    let mut nothing = Direct::new(&segment, 0, &DirectOptions::OFF);
    assert!(nothing.expose(memory.at, memory.len).is_none());
}

fn file_size() {
    let limit = libc::rlimit { rlim_cur: 1 << 30, rlim_max: 1 << 30 };
    // SAFETY: reads `limit` only.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &limit) }, 0);
    let segment = job(1);
    assert!(!segment.has_slots());
    assert!(Area::open(&segment, 0, &[0], 0).unwrap().is_none());
    segment.claim(0).unwrap();
    let mut direct = Direct::new(&segment, 0, &mapped());
    assert!(direct.usage().is_none());
    let state = direct.status().into_iter().find(|s| s.backend == Backend::Mapped).unwrap().state;
    assert!(state.unwrap_err().contains("RLIMIT_FSIZE"));
    let memory = Memory::map(MIB);
    assert!((0..10).all(|_| !is_moved(&mut direct, memory)));
    // Another process finds the same segment, and the same answer.
    use std::os::fd::AsFd;
    let fd = segment.as_fd().as_fd().try_clone_to_owned().unwrap();
    assert!(succeeds_in_child(|| {
        let same = mica_node::segment::JobSegment::attach(fd).expect("a segment");
        assert!(!same.has_slots());
    }));
}

fn helpers() {
    let mut direct = owner(&job(1));
    let memory = Memory::map(4 * PAGE);
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let (ready, is_ready) = std::sync::mpsc::channel::<()>();
    std::thread::scope(|s| {
        s.spawn(move || {
            let _helper = HelperThread::new();
            ready.send(()).unwrap();
            let _ = stopped.recv();
        });
        is_ready.recv().unwrap();
        let buffer = memory.part(10, 3 * PAGE);
        let exposed = expose_moved(&mut direct, buffer);
        assert_eq!(exposed.exposure().reachable(buffer.len), 0..buffer.len);
        drop(stop);
    });
}
