//! Buffers of malloc, and what a program may do with them while they are migrated: the default
//! (`MICA_MAPPED=auto`).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::kit::{
    AFTER, MIB, Memory, PAGE, Peer, Scenario, auto, expose_moved, file_bytes, finish, is_moved,
    job, need_mapped, owner, skip, start, succeeds_in_child,
};
use mica_channel::direct::{Direct, SkipReason};
use mica_node::segment::JobSegment;

pub const SCENARIOS: &[Scenario] = &[
    ("blocks_of_malloc_are_moved", blocks),
    ("parts_of_a_block_come_together", united),
    ("parts_come_together_beside_threads", united_beside_threads),
    ("static_data_is_moved", statics),
    ("the_programs_own_mappings_stay", own_mappings),
    ("realloc_of_a_moved_block_keeps_its_bytes", reallocated),
    ("memory_taken_back_by_advice_reads_as_zeros", taken_back),
    ("advice_reaches_the_library_by_any_call", any_call),
    ("advice_that_changes_no_byte_is_harmless", harmless),
    ("children_are_given_what_was_advised", advised_children),
    ("advice_given_before_keeps_memory_in_place", advised_before),
    ("a_child_without_handlers_does_not_share", cloned),
    ("mremap_of_a_moved_mapping_works", remapped),
    ("freed_memory_is_given_back_without_a_call", freed),
    ("a_second_block_does_not_double_it", second_block),
    ("rounds_of_malloc_and_free_leave_nothing", rounds),
    ("the_helper_does_not_outlive_the_program", last_thread),
    ("threads_reallocate_while_memory_is_given_back", threads),
];

/// Rank 0's channel with the default settings.
fn auto_owner(segment: &Arc<JobSegment>) -> Direct {
    need_mapped();
    segment.claim(0).expect("rank 0 is free");
    let direct = Direct::new(segment, 0, &auto());
    assert!(direct.usage().is_some(), "{:?}", direct.status());
    direct
}

fn count_threads() -> usize {
    std::fs::read_dir("/proc/self/task").expect("/proc").count()
}

/// Waits until `done`; 20 seconds at most.
#[track_caller]
fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < Duration::from_secs(20), "{what}: not in 20 s");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn advise(memory: Memory, advice: i32) -> i32 {
    let at = std::ptr::with_exposed_provenance_mut(memory.at);
    // SAFETY: the test's own memory.
    match unsafe { libc::madvise(at, memory.len, advice) } {
        0 => 0,
        _ => std::io::Error::last_os_error().raw_os_error().unwrap(),
    }
}

/// The whole pages of a block.
fn pages_of(block: Memory) -> Memory {
    let from = block.at.next_multiple_of(PAGE) - block.at;
    let len = (block.len - from) / PAGE * PAGE;
    block.part(from, len)
}

#[track_caller]
fn is_zero(memory: Memory) {
    assert_eq!((0..memory.len).find(|&i| memory.get(i) != 0), None, "zeros");
}

fn blocks() {
    let segment = job(2);
    let mut direct = auto_owner(&segment);
    let mut peer = Peer::mapped(&segment, 1);
    let large = Memory::malloc(64 * MIB);
    // numpy asks for huge pages for its large arrays, from the first whole page on.
    let array = Memory::malloc(5 * MIB);
    advise(pages_of(array), libc::MADV_HUGEPAGE);
    for (what, block) in [
        ("malloc", Memory::malloc(4 * MIB)),
        ("malloc of the main heap", Memory::malloc(100_000)),
        ("posix_memalign 64", Memory::aligned(64, 4 * MIB)),
        ("posix_memalign 4096", Memory::aligned(4096, 300_000)),
        ("posix_memalign 2M", Memory::aligned(2 * MIB, 8 * MIB)),
        ("the middle of a large block", large.part(20 * MIB + 77, 3 * MIB)),
        ("a part of an array with huge pages", array.part(MIB, 2 * MIB)),
    ] {
        block.fill(1);
        let exposed = expose_moved(&mut direct, block);
        block.check(1);
        let reach = exposed.exposure().reachable(block.len);
        assert_eq!(reach, 0..block.len, "{what}: one thread, so all of it");
        peer.fill(&exposed, block, 2);
        block.check(2);
    }
    // One with advice on a part has its first page out of the way, at most.
    array.fill(3);
    let exposed = expose_moved(&mut direct, array);
    assert!(peer.check(&exposed, array, 3) >= array.len - 2 * PAGE);
    peer.end();
}

/// The first part of a block and a longer one are in slots of their own; then the program uses the
/// whole block. Answers how many bytes at its beginning are out of reach.
fn unite(beside_a_thread: bool) -> usize {
    let segment = job(2);
    let mut direct = auto_owner(&segment);
    let mut peer = Peer::mapped(&segment, 1);
    let block = Memory::malloc(8 * MIB);
    for part in [block.part(0, MIB), block.part(4 * MIB, 4 * MIB)] {
        part.fill(1);
        drop(expose_moved(&mut direct, part));
    }
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let other = beside_a_thread.then(|| std::thread::spawn(move || stopped.recv().is_err()));
    let exposed = expose_moved(&mut direct, block);
    let reach = exposed.exposure().reachable(block.len);
    peer.fill(&exposed, block, 2);
    block.check(2);
    drop(stop);
    if let Some(other) = other {
        assert!(other.join().expect("joined"));
    }
    peer.end();
    reach.start
}

fn united() {
    assert_eq!(unite(false), 0);
}

/// Another thread might write to what is before a buffer on its first page, so that page stays in
/// the other slot.
fn united_beside_threads() {
    let out_of_reach = unite(true);
    assert!((1..PAGE).contains(&out_of_reach), "{out_of_reach} bytes");
}

fn statics() {
    #[repr(align(4096))]
    struct Pages([u8; MIB]);
    /// On pages of its own: the library itself is in this program, and its own data are not to be
    /// moved.
    static mut ARRAY: Pages = Pages([0; MIB]);
    let segment = job(2);
    let mut direct = auto_owner(&segment);
    let mut peer = Peer::mapped(&segment, 1);
    let memory = Memory {
        // SAFETY: an address, no access.
        at: unsafe { &raw mut ARRAY.0 }.expose_provenance(),
        len: MIB,
    };
    memory.fill(1);
    let exposed = expose_moved(&mut direct, memory);
    peer.fill(&exposed, memory, 2);
    memory.check(2);
    let memory = pages_of(memory);
    assert_eq!(advise(memory, libc::MADV_DONTNEED), 0);
    is_zero(memory);
    peer.end();
}

fn own_mappings() {
    let mut direct = auto_owner(&job(1));
    let memory = Memory::map(8 * MIB);
    memory.fill(1);
    for part in [memory, memory.part(MIB, MIB), memory.part(3 * MIB + 5, 2 * MIB)] {
        for _ in 0..=AFTER {
            assert!(!is_moved(&mut direct, part));
        }
    }
    let usage = direct.usage().unwrap();
    assert!(usage.kept.contains(&(SkipReason::Foreign, 3)), "{usage:?}");
    assert_eq!(count_threads(), 1, "no helper without a migration");
    // As it was.
    assert_eq!(advise(memory, libc::MADV_DONTNEED), 0);
    is_zero(memory);
    assert_eq!(memory.remap(20 * MIB).len, 20 * MIB);
    let block = Memory::malloc(MIB);
    drop(expose_moved(&mut direct, block));
    assert_eq!(count_threads(), 2);
}

fn reallocated() {
    let segment = job(2);
    let mut direct = auto_owner(&segment);
    let mut peer = Peer::mapped(&segment, 1);
    let mut block = Memory::malloc(2 * MIB);
    for (round, len) in [5 * MIB, 9 * MIB, 3 * MIB, 3 * MIB + 1, 40 * MIB].into_iter().enumerate() {
        let seed = round as u8;
        block.fill(seed);
        let exposed = expose_moved(&mut direct, block);
        assert_eq!(peer.check(&exposed, block, seed), block.len);
        drop(exposed);
        let before = block;
        block = before.realloc(len);
        block.part(0, before.len.min(len)).check(seed);
    }
    // Aligned blocks are resized by another rule.
    let aligned = Memory::aligned(4096, MIB);
    aligned.fill(7);
    drop(expose_moved(&mut direct, aligned));
    let larger = aligned.realloc(3 * MIB);
    larger.part(0, MIB).check(7);
    larger.free();
    block.free();
    peer.end();
}

fn taken_back() {
    let segment = job(2);
    let mut direct = auto_owner(&segment);
    let mut peer = Peer::mapped(&segment, 1);
    let empty = file_bytes(&segment);
    let block = Memory::malloc(4 * MIB);
    block.fill(1);
    drop(expose_moved(&mut direct, block));
    let part = pages_of(block).part(MIB, 2 * MIB);
    let rest = pages_of(block).part(3 * MIB, PAGE);
    let last: Vec<u8> = (0..PAGE).map(|i| rest.get(i)).collect();
    assert_eq!(advise(part, libc::MADV_DONTNEED), 0);
    is_zero(part);
    assert!((0..PAGE).all(|i| rest.get(i) == last[i]), "beyond it");
    assert!(file_bytes(&segment) <= empty + 2 * MIB + 16 * PAGE, "given back at once");
    // The buffer is reached as any that is not migrated.
    block.fill(2);
    let exposed = direct.expose(block.at, block.len).unwrap();
    peer.check(&exposed, block, 2);
    drop(exposed);
    let freed = pages_of(Memory::malloc(4 * MIB));
    freed.fill(3);
    drop(expose_moved(&mut direct, freed));
    assert_eq!(advise(freed, libc::MADV_FREE), 0);
    freed.fill(4);
    freed.check(4);
    // Not page-aligned, and not mapped: the kernel's answers.
    assert_eq!(advise(freed.part(8, PAGE), libc::MADV_DONTNEED), libc::EINVAL);
    assert_eq!(advise(freed, 12_345), libc::EINVAL);
    peer.end();
}

fn any_call() {
    let mut direct = auto_owner(&job(1));
    type Madvise = extern "C" fn(*mut libc::c_void, usize, i32) -> i32;
    let dontneed = |memory: Memory, call: &str| {
        let at = std::ptr::with_exposed_provenance_mut(memory.at);
        // SAFETY: the test's own memory; `dlsym` gives the function that it is asked for.
        unsafe {
            match call {
                "madvise" => libc::madvise(at, memory.len, libc::MADV_DONTNEED),
                "dlsym" => {
                    let found = libc::dlsym(libc::RTLD_DEFAULT, c"madvise".as_ptr());
                    let function: Madvise = std::mem::transmute(found);
                    function(at, memory.len, libc::MADV_DONTNEED)
                }
                _ => {
                    let number = libc::SYS_madvise;
                    libc::syscall(number, at, memory.len, libc::MADV_DONTNEED) as i32
                }
            }
        }
    };
    for call in ["madvise", "dlsym", "syscall"] {
        let memory = pages_of(Memory::malloc(MIB));
        memory.fill(1);
        drop(expose_moved(&mut direct, memory));
        assert_eq!(dontneed(memory, call), 0);
        is_zero(memory);
    }
    // Other system calls by `syscall` are as they were.
    // SAFETY: no obligations.
    let pid = unsafe { libc::syscall(libc::SYS_getpid) };
    assert_eq!(pid, i64::from(std::process::id()));
    // SAFETY: fails, with errno.
    assert_eq!(unsafe { libc::syscall(libc::SYS_close, -1) }, -1);
    assert_eq!(std::io::Error::last_os_error().raw_os_error(), Some(libc::EBADF));
}

fn harmless() {
    let segment = job(2);
    let mut direct = auto_owner(&segment);
    let block = Memory::malloc(4 * MIB);
    let pages = pages_of(block);
    block.fill(1);
    drop(expose_moved(&mut direct, block));
    for advice in [
        libc::MADV_NORMAL,
        libc::MADV_RANDOM,
        libc::MADV_SEQUENTIAL,
        libc::MADV_WILLNEED,
        libc::MADV_NOHUGEPAGE,
        libc::MADV_DONTDUMP,
        libc::MADV_DODUMP,
        libc::MADV_COLD,
    ] {
        assert_eq!(advise(pages, advice), 0, "advice {advice}");
    }
    let at = std::ptr::with_exposed_provenance_mut(pages.at);
    for advice in 0..5 {
        // SAFETY: the test's own memory.
        assert_eq!(unsafe { libc::posix_madvise(at, pages.len, advice) }, 0);
    }
    // On memory of no file, too, the kernel refuses this one: it would take the bytes.
    assert_eq!(advise(pages, libc::MADV_REMOVE), libc::EINVAL);
    block.check(1);
    assert!(is_moved(&mut direct, block));
    // The first page is still apart: realloc copies.
    let larger = block.realloc(9 * MIB);
    larger.part(0, block.len).check(1);
}

fn advised_children() {
    let segment = job(2);
    let mut direct = auto_owner(&segment);
    let block = Memory::malloc(4 * MIB);
    block.fill(1);
    drop(expose_moved(&mut direct, block));
    let wiped = pages_of(block).part(MIB, MIB);
    let absent = pages_of(block).part(2 * MIB, MIB);
    assert_eq!(advise(wiped, libc::MADV_WIPEONFORK), 0);
    assert_eq!(advise(absent, libc::MADV_DONTFORK), 0);
    assert!(succeeds_in_child(|| {
        is_zero(wiped);
        assert_eq!(block.get(MIB - PAGE), crate::kit::pattern(1, MIB - PAGE));
        // A child's child, too.
        wiped.fill(9);
        assert!(succeeds_in_child(|| is_zero(wiped)));
    }));
    assert!(!succeeds_in_child(|| absent.set(0, 1)), "a fault");
    block.check(1);
    assert_eq!(advise(wiped, libc::MADV_KEEPONFORK), 0);
    assert_eq!(advise(absent, libc::MADV_DOFORK), 0);
    assert!(succeeds_in_child(|| block.check(1)));
    // Advice ends with the memory that it was given on.
    assert_eq!(advise(wiped, libc::MADV_WIPEONFORK), 0);
    block.free();
    let next = Memory::malloc(4 * MIB);
    next.fill(2);
    drop(expose_moved(&mut direct, next));
    assert!(succeeds_in_child(|| next.check(2)));
}

fn advised_before() {
    let mut direct = auto_owner(&job(1));
    let block = Memory::malloc(4 * MIB);
    let pages = pages_of(block);
    assert_eq!(advise(pages, libc::MADV_WIPEONFORK), 0);
    block.fill(1);
    for _ in 0..=AFTER {
        assert!(!is_moved(&mut direct, pages));
    }
    let usage = direct.usage().unwrap();
    assert!(usage.kept.iter().any(|(why, _)| *why == SkipReason::Advised), "{usage:?}");
    assert!(succeeds_in_child(|| is_zero(pages)), "as advised");
    assert_eq!(advise(pages, libc::MADV_KEEPONFORK), 0);
    assert!((0..1000).any(|_| is_moved(&mut direct, pages)));
}

/// `clone` by its number runs no handlers of fork.
fn cloned() {
    let mut direct = auto_owner(&job(1));
    let block = Memory::malloc(MIB);
    block.fill(1);
    drop(expose_moved(&mut direct, block));
    // SAFETY: as fork, but for handlers; the child only writes a byte and ends.
    let pid = unsafe { libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) } as i32;
    if pid == 0 {
        block.set(PAGE, 77);
        // SAFETY: ends the process.
        unsafe { libc::_exit(0) };
    }
    assert!(pid > 0);
    assert_eq!(finish(pid), 128 + libc::SIGSEGV, "a fault, no shared write");
    block.check(1);
    assert!(succeeds_in_child(|| block.check(1)), "fork itself gives a copy");
    assert_eq!(finish(start(|| (), 30)), 0);
}

fn remapped() {
    let segment = job(2);
    let mut direct = owner(&segment);
    let empty = file_bytes(&segment);
    let errno = |result: *mut libc::c_void| {
        assert_eq!(result, libc::MAP_FAILED);
        std::io::Error::last_os_error().raw_os_error().unwrap()
    };
    let remap = |memory: Memory, len: usize, flags: i32, to: usize| {
        let at = std::ptr::with_exposed_provenance_mut(memory.at);
        let to = std::ptr::with_exposed_provenance_mut::<libc::c_void>(to);
        // SAFETY: the test's own memory.
        unsafe { libc::mremap(at, memory.len, len, flags, to) }
    };
    let mut memory = Memory::map(4 * MIB);
    for (round, len) in [8 * MIB, 30 * MIB, 31 * MIB].into_iter().enumerate() {
        memory.fill(round as u8);
        // A part is migrated, then all.
        drop(expose_moved(&mut direct, memory.part(MIB, MIB)));
        if round > 0 {
            drop(expose_moved(&mut direct, memory));
        }
        let larger = remap(memory, len, libc::MREMAP_MAYMOVE, 0);
        assert_ne!(larger, libc::MAP_FAILED, "{}", std::io::Error::last_os_error());
        let larger = Memory { at: larger.expose_provenance(), len };
        larger.part(0, memory.len).check(round as u8);
        is_zero(larger.part(memory.len, len - memory.len));
        assert!(file_bytes(&segment) <= empty + 16 * PAGE);
        memory = larger;
    }
    memory.fill(7);
    drop(expose_moved(&mut direct, memory));
    assert_eq!(errno(remap(memory, 40 * MIB, 0, 0)), libc::ENOMEM);
    let to = Memory::map(memory.len);
    let moved = remap(memory, memory.len, libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED, to.at);
    assert_eq!(moved.expose_provenance(), to.at);
    to.check(7);
    // Smaller: the rest stays where it is.
    drop(expose_moved(&mut direct, to));
    let smaller = remap(to, MIB, libc::MREMAP_MAYMOVE, 0);
    assert_eq!(smaller.expose_provenance(), to.at);
    to.part(0, MIB).check(7);
}

fn freed() {
    let segment = job(2);
    let mut direct = auto_owner(&segment);
    let empty = file_bytes(&segment);
    let other = Memory::malloc(2 * MIB);
    drop(expose_moved(&mut direct, other));
    for _ in 0..2 {
        let block = Memory::malloc(200 * MIB);
        block.fill(1);
        drop(expose_moved(&mut direct, block));
        assert!(file_bytes(&segment) >= empty + 200 * MIB);
        block.free();
        wait_until("given back", || file_bytes(&segment) <= empty + 3 * MIB);
    }
    // Nor does it depend on how many small exposures come after.
    let block = Memory::malloc(100 * MIB);
    drop(expose_moved(&mut direct, block));
    block.free();
    for _ in 0..20_000 {
        drop(direct.expose(other.at, other.len));
    }
    wait_until("given back", || file_bytes(&segment) <= empty + 3 * MIB);
    other.free();
    wait_until("all given back", || file_bytes(&segment) <= empty + 16 * PAGE);
}

fn second_block() {
    let segment = job(2);
    let mut direct = auto_owner(&segment);
    let empty = file_bytes(&segment);
    for round in 0..4u8 {
        let block = Memory::malloc(100 * MIB);
        block.fill(round);
        // What was freed has been given back before this one is migrated, without waiting for the
        // helper.
        drop(expose_moved(&mut direct, block));
        assert!(file_bytes(&segment) <= empty + 101 * MIB, "round {round}");
        block.check(round);
        block.free();
    }
}

/// A process ends with its last thread: the library's own does not keep it.
fn last_thread() {
    let child = start(
        || {
            let mut direct = auto_owner(&job(1));
            let block = Memory::malloc(MIB);
            drop(expose_moved(&mut direct, block));
            // SAFETY: ends this thread, and not the process.
            unsafe { libc::syscall(libc::SYS_exit, 0) };
        },
        40,
    );
    assert_eq!(finish(child), 0, "the process has ended by itself");
}

fn rounds() {
    let segment = job(2);
    let mut direct = auto_owner(&segment);
    let empty = file_bytes(&segment);
    for round in 0..60usize {
        let block = Memory::malloc((16 + round % 7) * MIB + round * 100);
        block.part(0, MIB).fill(round as u8);
        let exposed = expose_moved(&mut direct, block);
        drop(exposed);
        block.part(0, MIB).check(round as u8);
        block.free();
    }
    // What malloc keeps for itself (up to 44 MiB, twice the largest block that was freed, as it
    // does without us) is all.
    wait_until("but for malloc's own", || {
        let kept = direct.usage().unwrap().bytes;
        kept <= 45 * MIB && file_bytes(&segment) <= empty + kept
    });
}

fn threads() {
    let segment = job(2);
    let direct = auto_owner(&segment);
    let empty = file_bytes(&segment);
    let stop = AtomicBool::new(false);
    let counts: Vec<AtomicU32> = (0..3).map(|_| AtomicU32::new(0)).collect();
    std::thread::scope(|s| {
        for (thread, count) in counts.iter().enumerate() {
            let reach = direct.reach();
            let stop = &stop;
            s.spawn(move || {
                let mut block = Memory::malloc(MIB);
                for round in 0.. {
                    let seed = (round * 3 + thread) as u8;
                    block.fill(seed);
                    for _ in 0..=AFTER {
                        drop(reach.expose(block.at, block.len));
                    }
                    let len = MIB / 2 + (round * 7919 + thread * 104_729) % (3 * MIB);
                    let before = block;
                    block = before.realloc(len);
                    block.part(0, before.len.min(len)).check(seed);
                    if round % 5 == 0 {
                        block.free();
                        block = Memory::malloc(MIB);
                    }
                    count.fetch_add(1, Ordering::Relaxed);
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                }
                block.free();
            });
        }
        let began = Instant::now();
        let enough = |c: &AtomicU32| c.load(Ordering::Relaxed) >= 40;
        while !counts.iter().all(enough) && began.elapsed() < Duration::from_secs(40) {
            std::thread::sleep(Duration::from_millis(20));
        }
        stop.store(true, Ordering::Relaxed);
    });
    let usage = direct.usage().unwrap();
    if usage.moves == 0 {
        skip(&format!("nothing was migrated: {usage:?}"));
    }
    wait_until("all", || file_bytes(&segment) <= empty + MIB);
}
