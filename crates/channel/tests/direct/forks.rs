//! `fork` while buffers are moved.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::kit::{
    MIB, Memory, PAGE, Peer, Scenario, expose_moved, finish, is_moved, job, owner, pattern, start,
    succeeds_in_child,
};

pub const SCENARIOS: &[Scenario] = &[
    ("a_child_has_a_copy_of_its_own", copies),
    ("what_the_parent_writes_after_the_fork_is_its_own", parent_goes_on),
    ("a_child_of_many_threads", threads),
    ("fork_without_descriptors_hides_buffers", no_descriptors),
    ("fork_between_moves_and_frees", busy),
    ("a_child_leaves_the_heap_of_its_parent_alone", shared_heap),
];

fn copies() {
    let segment = job(2);
    let mut direct = owner(&segment);
    let mut peer = Peer::mapped(&segment, 1);
    let memory = Memory::map(3 * MIB);
    memory.fill(1);
    let buffer = memory.part(100, 2 * MIB);
    let exposed = expose_moved(&mut direct, buffer);
    let constant = Memory::map(4 * PAGE);
    constant.fill(2);
    drop(expose_moved(&mut direct, constant));
    constant.protect(libc::PROT_READ);
    let moves = direct.usage().unwrap().moves;
    let (read, write) = {
        let mut ends = [0; 2];
        // SAFETY: writes two descriptors.
        assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0);
        (ends[0], ends[1])
    };
    let ok = succeeds_in_child(|| {
        memory.check(1);
        constant.check(2);
        memory.fill(9);
        memory.check(9);
        // MPI is of no use here, but asking does no harm.
        assert!(!is_moved(&mut direct, buffer));
        let byte = 1u8;
        // SAFETY: one byte from a variable.
        unsafe { libc::write(write, (&raw const byte).cast(), 1) };
    });
    assert!(ok);
    let mut byte = 0u8;
    // SAFETY: one byte to a variable.
    assert_eq!(unsafe { libc::read(read, (&raw mut byte).cast(), 1) }, 1);
    // The child's writes are its own, here and in the file.
    memory.check(1);
    buffer.fill(3);
    assert_eq!(peer.check(&exposed, buffer, 3), buffer.len);
    peer.fill(&exposed, buffer, 4);
    buffer.check(4);
    drop(exposed);
    assert!(is_moved(&mut direct, buffer), "still where it was");
    assert_eq!(direct.usage().unwrap().moves, moves);
    // The protection is the child's, too.
    let wrote = succeeds_in_child(|| constant.set(0, 1));
    assert!(!wrote);
    constant.check(2);
    peer.end();
}

fn parent_goes_on() {
    let segment = job(1);
    let mut direct = owner(&segment);
    let memory = Memory::map(32 * MIB);
    memory.fill(1);
    drop(expose_moved(&mut direct, memory));
    for _ in 0..3 {
        let child = start(|| memory.check(1), 30);
        // The child copies from the start: had `fork` returned before it was done, it would find
        // this.
        memory.set(memory.len - 1, 99);
        let result = finish(child);
        memory.set(memory.len - 1, pattern(1, memory.len - 1));
        assert_eq!(result, 0, "the child sees what its parent wrote later");
    }
}

fn threads() {
    let segment = job(2);
    let mut direct = owner(&segment);
    let memory = Memory::map(2 * MIB);
    memory.fill(1);
    drop(expose_moved(&mut direct, memory));
    let counter = Memory::map(4 * PAGE);
    drop(expose_moved(&mut direct, counter));
    let stop = AtomicBool::new(false);
    std::thread::scope(|s| {
        // One thread goes on writing to moved memory, another one goes on exposing, while a third
        // forks.
        let writer = s.spawn(|| {
            let mut value = 0u8;
            while !stop.load(Ordering::Relaxed) {
                value = value.wrapping_add(1);
                counter.set(100, value);
                assert_eq!(counter.get(100), value, "a write is lost");
            }
        });
        let exposer = s.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                assert!(is_moved(&mut direct, memory));
            }
        });
        for _ in 0..20 {
            assert!(succeeds_in_child(|| {
                memory.check(1);
                memory.fill(2);
                counter.fill(2);
            }));
        }
        stop.store(true, Ordering::Relaxed);
        writer.join().unwrap();
        exposer.join().unwrap();
    });
    memory.check(1);
}

fn no_descriptors() {
    let segment = job(2);
    let mut direct = owner(&segment);
    let memory = Memory::map(MIB);
    memory.fill(1);
    drop(expose_moved(&mut direct, memory));
    let mut taken = Vec::new();
    while let Ok(file) = std::fs::File::open("/dev/null") {
        taken.push(file);
    }
    assert!(succeeds_in_child(|| ()), "the fork itself works");
    assert!(!succeeds_in_child(|| memory.set(0, 5)), "a fault in the child");
    drop(taken);
    memory.check(1);
    assert!(is_moved(&mut direct, memory));
    assert!(succeeds_in_child(|| memory.check(1)), "as before");
}

fn busy() {
    let segment = job(2);
    let mut direct = owner(&segment);
    let mut peer = Peer::mapped(&segment, 1);
    for round in 0..20u8 {
        let buffer = Memory::map((usize::from(round) % 5 + 1) * 10 * PAGE);
        buffer.fill(round);
        let exposed = expose_moved(&mut direct, buffer);
        assert!(succeeds_in_child(|| {
            buffer.check(round);
            buffer.fill(200);
        }));
        peer.check(&exposed, buffer, round);
        drop(exposed);
        if round % 2 == 0 {
            buffer.unmap();
        }
    }
    assert!(direct.usage().unwrap().slots <= 12, "{:?}", direct.usage());
    peer.end();
}

/// Blocks of the main heap share pages with what the library itself, and other handlers, have
/// allocated: what a child does there before it has its copies must not be seen by its parent.
fn shared_heap() {
    let segment = job(1);
    let mut direct = owner(&segment);
    let advised = Memory::map(2 * PAGE);
    let mut blocks: Vec<Memory> = Vec::new();
    for round in 0..40u8 {
        let block = Memory::malloc(40_000 + usize::from(round) * 8);
        block.fill(round);
        drop(expose_moved(&mut direct, block));
        // Small ones around it, some of them free.
        let small: Vec<Box<[u8; 64]>> = (0..40).map(|i| Box::new([i; 64])).collect();
        let kept: Vec<Box<[u8; 64]>> = small.into_iter().step_by(2).collect();
        if round == 20 {
            drop(expose_moved(&mut direct, advised));
            let at = std::ptr::with_exposed_provenance_mut(advised.at);
            // SAFETY: the test's own memory.
            let result = unsafe { libc::madvise(at, advised.len, libc::MADV_WIPEONFORK) };
            assert_eq!(result, 0);
        }
        assert!(succeeds_in_child(|| {
            let more: Vec<Vec<u8>> = (0..200).map(|i| vec![7; i]).collect();
            block.check(round);
            drop(more);
        }));
        assert!(kept.iter().enumerate().all(|(i, b)| b[..] == [2 * i as u8; 64]));
        assert!(is_moved(&mut direct, block), "the registry is on, too");
        blocks.push(block);
        if round % 3 == 0 {
            blocks.swap_remove(usize::from(round) / 2 % blocks.len()).free();
        }
    }
}
