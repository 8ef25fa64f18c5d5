//! What programs do with their memory while it is moved: reuse, free, replace, enlarge, overlap,
//! share between threads.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::kit::{
    AFTER, MIB, Memory, PAGE, Peer, Scenario, expose_moved, file_bytes, is_moved, job, owner,
};

pub const SCENARIOS: &[Scenario] = &[
    ("a_buffer_in_reuse_is_moved_and_keeps_its_bytes", reuse),
    ("replaced_memory_is_noticed_and_given_back", replaced),
    ("part_of_a_buffer_can_be_unmapped", part_unmapped),
    ("malloc_and_free_cycles", cycles),
    ("a_buffer_that_grows_or_moves_stays_reachable", grown),
    ("windows_reach_beyond_what_was_mapped_first", beyond_first_window),
    ("vacated_addresses_do_not_alias", vacated),
    ("overlapping_buffers_come_to_lie_in_one_slot", overlap),
    ("a_donor_in_use_is_left_alone", donor_in_use),
    ("protection_is_respected", protection),
    ("threads_read_during_the_move", readers),
    ("threads_write_beside_the_buffer_during_the_move", writers_beside),
    ("swept_without_being_asked_for", found_gone),
];

fn reuse() {
    let segment = job(2);
    let mut direct = owner(&segment);
    let mut peer = Peer::mapped(&segment, 1);
    let memory = Memory::map(4 * MIB);
    memory.fill(1);
    let buffer = memory.part(1000, 2 * MIB + 333);
    for _ in 0..AFTER {
        assert!(!is_moved(&mut direct, buffer));
    }
    assert_eq!(direct.usage().unwrap().moves, 0);
    let exposed = expose_moved(&mut direct, buffer);
    // One thread: the enclosing pages have come along, with what else was on them.
    assert_eq!(exposed.exposure().reachable(buffer.len), 0..buffer.len);
    memory.check(1);
    buffer.fill(2);
    assert_eq!(peer.check(&exposed, buffer, 2), buffer.len);
    peer.fill(&exposed, buffer, 3);
    buffer.check(3);
    // A part of it is known at its first use.
    let part = buffer.part(50_000, 10_000);
    assert!(is_moved(&mut direct, part));
    let usage = direct.usage().unwrap();
    assert_eq!((usage.slots, usage.moves), (1, 1));
    assert!(usage.bytes >= buffer.len && usage.bytes <= buffer.len + 2 * PAGE);
    peer.end();
}

fn replaced() {
    let segment = job(2);
    let mut direct = owner(&segment);
    let mut peer = Peer::mapped(&segment, 1);
    let empty = file_bytes(&segment);
    let buffer = Memory::map(MIB);
    buffer.fill(1);
    let exposed = expose_moved(&mut direct, buffer);
    peer.check(&exposed, buffer, 1);
    drop(exposed);
    assert!(file_bytes(&segment) >= empty + MIB);
    for seed in 2..5 {
        buffer.unmap();
        let buffer = Memory::map_at(buffer.at, MIB);
        assert_eq!(buffer.get(0), 0);
        buffer.fill(seed);
        // The old pages are not announced to peers, and their memory is given back.
        assert!(!is_moved(&mut direct, buffer));
        assert!(file_bytes(&segment) <= empty + 16 * PAGE, "{}", file_bytes(&segment) - empty);
        buffer.check(seed);
        // The slot is used again, and the peer's mapping of it shows the new bytes.
        let exposed = expose_moved(&mut direct, buffer);
        assert_eq!(peer.check(&exposed, buffer, seed), MIB);
        assert_eq!(direct.usage().unwrap().slots, 1);
    }
    peer.end();
}

fn part_unmapped() {
    let segment = job(2);
    let mut direct = owner(&segment);
    let mut peer = Peer::mapped(&segment, 1);
    let buffer = Memory::map(8 * PAGE);
    buffer.fill(1);
    drop(expose_moved(&mut direct, buffer));
    buffer.part(0, 2 * PAGE).unmap();
    buffer.part(5 * PAGE, PAGE).unmap();
    // Look at a page that is gone: what is still mapped must keep its bytes.
    Memory::map_at(buffer.at, 2 * PAGE).fill(9);
    assert!(!is_moved(&mut direct, buffer.part(0, 2 * PAGE)));
    assert_eq!(direct.usage().unwrap().bytes, 5 * PAGE);
    for page in [2, 3, 4, 6, 7] {
        let part = buffer.part(page * PAGE, PAGE);
        assert!((0..PAGE).all(|i| part.get(i) == crate::kit::pattern(1, page * PAGE + i)));
    }
    let part = buffer.part(2 * PAGE, 3 * PAGE);
    part.fill(4);
    let exposed = expose_moved(&mut direct, part);
    assert_eq!(peer.check(&exposed, part, 4), part.len);
    peer.end();
}

fn cycles() {
    let segment = job(2);
    let mut direct = owner(&segment);
    let mut peer = Peer::mapped(&segment, 1);
    let empty = file_bytes(&segment);
    let mut kept: Vec<(Vec<u8>, u8)> = Vec::new();
    for round in 0..120usize {
        let len = [40_000, 150_000, 600_000, 90_000][round % 4] + round * 13;
        let seed = round as u8;
        let mut block = vec![0u8; len];
        assert!(block.iter().all(|&b| b == 0), "calloc gives zeros in round {round}");
        let buffer = Memory { at: block.as_mut_ptr().expose_provenance(), len };
        buffer.fill(seed);
        for _ in 0..AFTER + 2 {
            let exposed = direct.expose(buffer.at, len).unwrap();
            peer.check(&exposed, buffer, seed);
        }
        if round % 3 == 0 {
            kept.push((block, seed));
        }
        if kept.len() > 4 {
            kept.remove(round % 4);
        }
        for (block, seed) in &kept {
            let right = (0..block.len()).all(|i| block[i] == crate::kit::pattern(*seed, i));
            assert!(right, "a block of {} bytes has changed", block.len());
        }
    }
    assert!(direct.usage().unwrap().moves > 10, "{:?}", direct.usage());
    assert!(file_bytes(&segment) < empty + 64 * MIB);
    peer.end();
}

fn grown() {
    let segment = job(2);
    let mut direct = owner(&segment);
    let mut peer = Peer::mapped(&segment, 1);
    let buffer = Memory::map(MIB);
    buffer.fill(1);
    drop(expose_moved(&mut direct, buffer));
    // Something right behind it makes it move.
    Memory::map_at(buffer.at + MIB, PAGE);
    let larger = buffer.remap(3 * MIB);
    larger.part(0, MIB).check(1);
    assert!((MIB..3 * MIB).all(|i| larger.get(i) == 0), "growth reads as zeros");
    larger.fill(2);
    let exposed = expose_moved(&mut direct, larger);
    assert_eq!(peer.check(&exposed, larger, 2), 3 * MIB);
    peer.fill(&exposed, larger, 3);
    larger.check(3);
    let usage = direct.usage().unwrap();
    assert_eq!((usage.moves, usage.slots, usage.bytes), (1, 1, 3 * MIB), "found, not moved");
    drop(exposed);
    // Shrunk again: what is cut off is given back with the next look, the rest stays.
    let before = file_bytes(&segment);
    let smaller = larger.remap(MIB);
    Memory::map_at(larger.at + MIB, MIB).fill(7);
    assert!(!is_moved(&mut direct, Memory { at: larger.at + MIB, len: MIB }));
    assert!(file_bytes(&segment) <= before - 2 * MIB + 16 * PAGE);
    smaller.check(3);
    peer.end();
}

fn beyond_first_window() {
    let segment = job(2);
    let mut direct = owner(&segment);
    let mut peer = Peer::mapped(&segment, 1);
    let buffer = Memory::map(MIB);
    buffer.fill(1);
    let exposed = expose_moved(&mut direct, buffer);
    peer.check(&exposed, buffer, 1);
    drop(exposed);
    // Untouched pages cost nothing; the peer maps more of the slot for those that are.
    let large = buffer.remap(200 * MIB);
    let before = file_bytes(&segment);
    for at in [61 * MIB, 150 * MIB - 300, 0] {
        // The first straddles what is mapped at a time.
        let part = large.part(at, 4 * MIB);
        part.fill(2);
        let exposed = expose_moved(&mut direct, part);
        assert_eq!(peer.check(&exposed, part, 2), part.len);
        peer.fill(&exposed, part, 3);
        part.check(3);
    }
    assert!(file_bytes(&segment) <= before + 12 * MIB + 16 * PAGE);
    peer.end();
}

fn vacated() {
    let segment = job(2);
    let mut direct = owner(&segment);
    let mut peer = Peer::mapped(&segment, 1);
    let buffer = Memory::map(4 * PAGE);
    buffer.fill(1);
    drop(expose_moved(&mut direct, buffer));
    // The upper half goes elsewhere, and fresh memory takes its place: the file behind it is still
    // in use.
    let elsewhere = Memory::map(2 * PAGE);
    let upper = buffer.part(2 * PAGE, 2 * PAGE).remap_to(elsewhere.at);
    upper.fill(5);
    Memory::map_at(buffer.at + 2 * PAGE, 2 * PAGE);
    buffer.fill(6);
    let exposed = expose_moved(&mut direct, buffer);
    upper.check(5);
    buffer.fill(8);
    upper.check(5);
    assert_eq!(peer.check(&exposed, buffer, 8), buffer.len);
    let exposed = expose_moved(&mut direct, upper);
    assert_eq!(peer.check(&exposed, upper, 5), upper.len);
    peer.end();
}

fn overlap() {
    let segment = job(2);
    let mut direct = owner(&segment);
    let mut peer = Peer::mapped(&segment, 1);
    let memory = Memory::map(64 * PAGE);
    memory.fill(1);
    // Two that share a page, the first in use: the second comes to its slot.
    let first = memory.part(100, 5 * PAGE);
    let second = memory.part(100 + 5 * PAGE, 5 * PAGE);
    let held = expose_moved(&mut direct, first);
    drop(expose_moved(&mut direct, second));
    assert_eq!(direct.usage().unwrap().slots, 1);
    assert!(is_moved(&mut direct, memory.part(100, 10 * PAGE)));
    drop(held);
    // One far away has a slot of its own, until a buffer reaches over both.
    let third = memory.part(40 * PAGE, 6 * PAGE);
    drop(expose_moved(&mut direct, third));
    assert_eq!(direct.usage().unwrap().slots, 2);
    let bridge = memory.part(8 * PAGE, 34 * PAGE);
    memory.check(1);
    let exposed = expose_moved(&mut direct, bridge);
    memory.check(1);
    let usage = direct.usage().unwrap();
    assert_eq!((usage.slots, usage.bytes), (1, 46 * PAGE));
    bridge.fill(3);
    assert_eq!(peer.check(&exposed, bridge, 3), bridge.len);
    for part in [first, second, third, memory.part(100, 45 * PAGE)] {
        part.fill(4);
        let exposed = expose_moved(&mut direct, part);
        assert_eq!(peer.check(&exposed, part, 4), part.len);
    }
    peer.end();
}

fn donor_in_use() {
    let segment = job(2);
    let mut direct = owner(&segment);
    let memory = Memory::map(64 * PAGE);
    memory.fill(1);
    let low = expose_moved(&mut direct, memory.part(0, 4 * PAGE));
    let high = expose_moved(&mut direct, memory.part(32 * PAGE, 5 * PAGE));
    for _ in 0..4 * AFTER {
        assert!(!is_moved(&mut direct, memory));
    }
    let usage = direct.usage().unwrap();
    assert_eq!(usage.slots, 2);
    assert!(usage.kept.iter().any(|(why, _)| *why == mica_channel::direct::SkipReason::Overlap));
    drop((low, high));
    // Refusals make the next attempt later, not impossible.
    let moved = (0..100).any(|_| is_moved(&mut direct, memory));
    assert!(moved, "{:?}", direct.usage());
    assert_eq!(direct.usage().unwrap().slots, 1);
    memory.check(1);
}

fn protection() {
    let segment = job(2);
    let mut direct = owner(&segment);
    let buffer = Memory::map(8 * PAGE);
    buffer.fill(1);
    drop(expose_moved(&mut direct, buffer));
    buffer.protect(libc::PROT_READ);
    for _ in 0..4 * AFTER {
        assert!(!is_moved(&mut direct, buffer));
    }
    buffer.check(1);
    buffer.protect(libc::PROT_READ | libc::PROT_WRITE);
    assert!(is_moved(&mut direct, buffer));
    buffer.check(1);
}

fn readers() {
    let segment = job(2);
    let mut direct = owner(&segment);
    let mut peer = Peer::mapped(&segment, 1);
    let memory = Memory::map(6 * MIB);
    let stop = AtomicBool::new(false);
    let rounds = AtomicU64::new(0);
    memory.fill(1);
    std::thread::scope(|s| {
        s.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                for i in (0..memory.len).step_by(509) {
                    assert_eq!(memory.get(i), crate::kit::pattern(1, i));
                }
                rounds.fetch_add(1, Ordering::Relaxed);
            }
        });
        let wait = |more: u64| {
            let from = rounds.load(Ordering::Relaxed);
            while rounds.load(Ordering::Relaxed) < from + more {
                std::thread::yield_now();
            }
        };
        wait(1);
        for part in 0..6 {
            let buffer = memory.part(part * MIB + 700, MIB - 1000);
            let exposed = expose_moved(&mut direct, buffer);
            // Two threads: only whole pages of the buffer.
            let reach = exposed.exposure().reachable(buffer.len);
            assert_eq!((buffer.at + reach.start) % PAGE, 0);
            assert_eq!((buffer.at + reach.end) % PAGE, 0);
            assert!(reach.start > 0 && reach.end < buffer.len);
            wait(1);
        }
        stop.store(true, Ordering::Relaxed);
    });
    memory.check(1);
    let buffer = memory.part(2 * MIB + 700, MIB - 1000);
    let exposed = expose_moved(&mut direct, buffer);
    buffer.fill(2);
    assert!(peer.check(&exposed, buffer, 2) < buffer.len);
    peer.fill(&exposed, buffer, 3);
    buffer.check(3);
    peer.end();
}

fn writers_beside() {
    let segment = job(2);
    let mut direct = owner(&segment);
    let memory = Memory::map(64 * 4 * PAGE);
    memory.fill(1);
    let stop = AtomicBool::new(false);
    let started = AtomicBool::new(false);
    std::thread::scope(|s| {
        let writer = s.spawn(|| {
            let mut value = 0u8;
            let mut lost = 0;
            while !stop.load(Ordering::Relaxed) {
                // The bytes just before each buffer, on its first page.
                for i in 0..64 {
                    memory.set(i * 4 * PAGE + 99, value);
                }
                started.store(true, Ordering::Relaxed);
                for i in 0..64 {
                    lost += u32::from(memory.get(i * 4 * PAGE + 99) != value);
                }
                value = value.wrapping_add(1);
            }
            lost
        });
        while !started.load(Ordering::Relaxed) {
            std::thread::yield_now();
        }
        for i in 0..64 {
            drop(expose_moved(&mut direct, memory.part(i * 4 * PAGE + 100, 3 * PAGE)));
        }
        stop.store(true, Ordering::Relaxed);
        assert_eq!(writer.join().unwrap(), 0, "updates were lost");
    });
}

fn found_gone() {
    let segment = job(2);
    let mut direct = owner(&segment);
    let empty = file_bytes(&segment);
    let gone = Memory::map(4 * MIB);
    gone.fill(1);
    drop(expose_moved(&mut direct, gone));
    assert!(file_bytes(&segment) > empty + 4 * MIB - PAGE);
    gone.unmap();
    for _ in 0..2000 {
        if file_bytes(&segment) < empty + MIB {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("{} bytes are still there", file_bytes(&segment) - empty);
}
