//! Collectives' access to peers' buffers: all ranks at once, any part, by whatever reaches it.

use crate::kit::{self, MIB, Memory, PAGE, Scenario, pattern};
use crate::ranks::{Means, Rank, run};
use mica_channel::direct::{Direct, DirectOptions, PeerBuffer};
use mica_memory::{Block, Region, Shape, TypeLayout, View};
use std::sync::Arc;

pub const SCENARIOS: &[Scenario] = &[
    ("reach_by_cma", || run(3, Means::Cma, conforms)),
    ("reach_by_mapped", || run(3, Means::Mapped, conforms)),
    ("reach_by_mapped_without_the_ends", || run(3, Means::MappedByThreads, conforms)),
    ("reach_by_xpmem", || run(3, Means::Xpmem, conforms)),
    ("reach_of_many_ranks_by_cma", || run(6, Means::Cma, many)),
    ("reach_of_many_ranks_by_mapped", || run(6, Means::Mapped, many)),
    ("reach_of_many_ranks_by_xpmem", || run(6, Means::Xpmem, many)),
    ("reach_of_threads_by_cma", || run(2, Means::Cma, threads)),
    ("reach_of_threads_by_mapped", || run(2, Means::Mapped, threads)),
    ("reach_of_threads_by_xpmem", || run(2, Means::Xpmem, threads)),
    ("reach_of_spans_by_cma", || run(2, Means::Cma, spans)),
    ("reach_of_spans_by_mapped", || run(2, Means::Mapped, spans)),
    ("reach_of_spans_by_xpmem", || run(2, Means::Xpmem, spans)),
    ("reach_finds_what_the_program_moved", || run(2, Means::Mapped, relocated)),
    ("reach_recalls_and_confirms", || run(2, Means::Mapped, recalled)),
    ("reach_recalls_and_confirms_by_xpmem", || run(2, Means::Xpmem, recalled)),
    ("a_region_keeps_the_peers_memory", || run(2, Means::Mapped, regions_last)),
    ("reach_tells_errors", || run(2, Means::Cma, errors)),
    ("reach_of_nothing", nothing),
    ("short_blocks_are_moved_with_their_page", short_blocks),
    ("short_blocks_stay_where_other_threads_run", short_beside_threads),
];

/// Positions and lengths within a buffer: odd ones, all of it, and its ends.
fn parts(len: usize) -> Vec<(usize, usize)> {
    let mut parts = vec![(0, len), (len, 0), (len / 2, 0), (len - 1, 1), (0, 1)];
    parts.push((len / 3, len / 2));
    if len > 100 {
        parts.extend([(1, len - 2), (33, 67), (len - 99, 98)]);
    }
    if len > 3 * PAGE {
        parts.extend([(PAGE - 1, PAGE + 2), (len - 2 * PAGE - 5, 2 * PAGE + 5)]);
    }
    parts
}

/// Room for `len` bytes of a message, from 7 bytes into a block on.
fn own(len: usize) -> (Region, View) {
    let block = Block::allocate(len + 16).expect("memory");
    block.write_bytes(&vec![0xee; len + 16]);
    let view = block.offset(7).view(Shape::Contiguous { bytes: len });
    (block, view)
}

/// Room for at least `len` bytes of a message that lie in pieces of 3 bytes, 5 apart, the last ones
/// first.
fn scattered(len: usize) -> View {
    let byte = TypeLayout::basic(1, 1).expect("a byte");
    let count = len.div_ceil(3).max(1);
    let layout = byte.hvector(count as u64, 3, -5).expect("a vector");
    let lowest = layout.true_lb();
    let block = Block::allocate(count * 5).expect("memory");
    let shape = Shape::of(&Arc::new(layout), 1).expect("a shape");
    block.offset(-lowest as isize).view(shape)
}

fn bytes_of(view: &View, position: usize, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    assert_eq!(view.pack(position, &mut bytes), len);
    bytes
}

fn expected(seed: u8, from: usize, len: usize) -> Vec<u8> {
    (from..from + len).map(|i| pattern(seed, i)).collect()
}

/// Reads a peer's buffer, which has the pattern `seed`, by every call.
fn read(reached: &PeerBuffer, len: usize, seed: u8) {
    for (from, n) in parts(len) {
        let right = expected(seed, from, n);
        let (block, view) = own(n + 3);
        reached.load(from, &view, 2, n).expect("readable");
        let mut all = vec![0; n + 19];
        block.read_bytes(&mut all);
        assert_eq!(all[9..9 + n], right, "{n} bytes at {from} of {len}");
        assert!(all[..9].iter().chain(&all[9 + n..]).all(|&b| b == 0xee));

        let pieces = scattered(n + 4);
        reached.load(from, &pieces, 4, n).expect("readable");
        assert_eq!(bytes_of(&pieces, 4, n), right, "{n} bytes at {from}");

        let reachable = reached.reachable();
        let inside = n == 0 || (reachable.start <= from && from + n <= reachable.end);
        match reached.region(from, n) {
            None => assert!(!inside, "{n} at {from}, {reachable:?} reachable"),
            Some(place) => {
                assert!(inside, "{n} at {from}, {reachable:?} reachable");
                let mut got = vec![0; n];
                place.read_bytes(&mut got);
                assert_eq!(got, right);
                // Every second pair of bytes, copied from one layout to another.
                let pairs = TypeLayout::basic(2, 1).unwrap().resized(0, 4).unwrap();
                let shape = Shape::of(&Arc::new(pairs), n / 4).unwrap();
                let there = place.view(shape);
                let here = scattered(there.len());
                here.copy_from(&there);
                let picked: Vec<u8> =
                    right.chunks_exact(4).flat_map(|four| [four[0], four[1]]).collect();
                assert_eq!(bytes_of(&here, 0, picked.len()), picked);
            }
        }
    }
}

/// The bytes of a buffer of `len` that rank `rank` of `ranks` may write.
fn share(len: usize, rank: u32, ranks: u32) -> std::ops::Range<usize> {
    let at = |rank: u32| len * rank as usize / ranks as usize;
    at(rank)..at(rank + 1)
}

/// Writes this rank's share of a peer's buffer, in two parts, of which one comes from pieces.
fn write(reached: &PeerBuffer, len: usize, rank: &Rank, seed: u8) {
    let share = share(len, rank.rank, rank.ranks);
    let middle = share.start + share.len() / 3;
    let (_, plain) = own(middle - share.start + 1);
    plain.unpack(1, &expected(seed, share.start, middle - share.start));
    let n = middle - share.start;
    reached.store(share.start, &plain, 1, n).expect("writable");
    let n = share.end - middle;
    let pieces = scattered(n + 2);
    pieces.unpack(2, &expected(seed, middle, n));
    reached.store(middle, &pieces, 2, n).expect("writable");
}

fn conforms(rank: &mut Rank) {
    let lens = [1, 100, PAGE - 1, PAGE, 3 * PAGE + 17, 70_000, MIB + 5];
    let mut seed = 0u8;
    for len in lens {
        for from in [64, 65, PAGE - 1, PAGE, 2 * MIB - 100] {
            let around = rank.memory.part(from - 64, len + 128);
            around.fill(200);
            let buffer = rank.memory.part(from, len);
            let published = rank.publish(buffer);
            // All ranks have the same pages and numbers, only their contents differ.
            let of = |rank: u32| seed.wrapping_add(rank as u8);
            buffer.fill(of(rank.rank));
            rank.barrier();
            let peers: Vec<PeerBuffer> = rank
                .peers()
                .map(|peer| {
                    let (words, announced_len, whole) = rank.announced(peer);
                    assert_eq!(announced_len, len);
                    let reached = rank.reach.open(peer, words, len).expect("in reach");
                    assert_eq!(reached.is_window(), whole);
                    read(&reached, len, of(peer));
                    reached
                })
                .collect();
            let least = match rank.means {
                Means::Cma => 0,
                Means::Mapped => len.saturating_sub(2 * PAGE),
                Means::MappedByThreads => len.saturating_sub(2 * PAGE - 2),
                Means::Xpmem => len,
            };
            assert!(published.is_whole(len) == peers[0].is_window());
            for reached in &peers {
                assert!(reached.reachable().len() >= least, "{reached:?}");
            }
            rank.barrier();
            seed = seed.wrapping_add(10);
            for reached in &peers {
                write(reached, len, rank, seed.wrapping_add(rank.rank as u8));
            }
            rank.barrier();
            for writer in 0..rank.ranks {
                // No other rank writes my own share.
                let was = if writer == rank.rank { seed.wrapping_sub(10) } else { seed };
                let was = was.wrapping_add(writer as u8);
                for i in share(len, writer, rank.ranks) {
                    assert_eq!(buffer.get(i), pattern(was, i), "byte {i} of {len}");
                }
            }
            for i in (0..64).chain(64 + len..128 + len) {
                assert_eq!(around.get(i), pattern(200, i), "beside the buffer");
            }
            drop(published);
            rank.barrier();
        }
    }
    if rank.means == Means::MappedByThreads {
        // Some of these buffers have ends that only the kernel reaches.
        let ends = rank.memory.part(4 * MIB + 100, 5 * PAGE);
        let published = rank.publish(ends);
        assert!(!published.is_whole(ends.len));
        let reached = rank.reach.open(rank.rank, published.words(), ends.len);
        let reached = reached.expect("in reach");
        assert_eq!(reached.reachable(), PAGE - 100..5 * PAGE - 100);
        assert!(!reached.is_window() && reached.region(0, ends.len).is_none());
        assert!(reached.region(PAGE, 3 * PAGE).is_some());
    }
}

/// The buffers of all ranks, two at a time, in use by all ranks.
fn many(rank: &mut Rank) {
    let len = 40 * PAGE + 3;
    let [input, output] = [0, 2 * MIB].map(|from| rank.memory.part(from + 5, len));
    input.fill(rank.rank as u8);
    for round in 0..6 {
        let published_input = rank.publish(input);
        let published_output = rank.reach.expose(output.at, len);
        rank.barrier();
        let inputs: Vec<PeerBuffer> = (0..rank.ranks)
            .map(|peer| {
                let (words, len, _) = rank.announced(peer);
                rank.reach.open(peer, words, len).expect("in reach")
            })
            .collect();
        rank.barrier();
        rank.announce(&published_output, len);
        rank.barrier();
        let outputs: Vec<PeerBuffer> = (0..rank.ranks)
            .map(|peer| {
                let (words, len, _) = rank.announced(peer);
                rank.reach.open(peer, words, len).expect("in reach")
            })
            .collect();
        // A sum: each rank adds its share of all inputs, and stores it to all.
        let mine = share(len, rank.rank, rank.ranks);
        let mut sum = vec![round as u8; mine.len()];
        for reached in &inputs {
            let (_, view) = own(mine.len());
            reached.load(mine.start, &view, 0, mine.len()).expect("readable");
            let bytes = bytes_of(&view, 0, mine.len());
            sum.iter_mut().zip(bytes).for_each(|(s, b)| *s = s.wrapping_add(b));
        }
        let (_, view) = own(mine.len());
        view.unpack(0, &sum);
        for reached in &outputs {
            reached.store(mine.start, &view, 0, mine.len()).expect("writable");
        }
        rank.barrier();
        for i in 0..len {
            let of = |rank: u32| pattern(rank as u8, i);
            let right = (0..rank.ranks).fold(round as u8, |sum, r| sum.wrapping_add(of(r)));
            assert_eq!(output.get(i), right, "byte {i} in round {round}");
        }
        drop((published_input, published_output));
        rank.barrier();
    }
    if rank.means == Means::Mapped {
        let usage = rank.direct.usage().expect("mapped");
        assert!(usage.moves >= 2, "{usage:?}");
    }
}

/// Threads share a reach, open each the same and their own buffers, and expose.
fn threads(rank: &mut Rank) {
    const THREADS: usize = 4;
    let len = 64 * PAGE + 50;
    let buffer = rank.memory.part(10, len);
    buffer.fill(7 + rank.rank as u8);
    let published = rank.publish(buffer);
    rank.barrier();
    let peer = 1 - rank.rank;
    let (words, _, _) = rank.announced(peer);
    let room = rank.memory;
    std::thread::scope(|s| {
        for thread in 0..THREADS {
            let reach = rank.reach.clone();
            let me = rank.rank as usize;
            s.spawn(move || {
                let own_part = room.part(3 * MIB + thread * 16 * PAGE + 100, 12 * PAGE);
                for round in 0..20 {
                    let reached = reach.open(peer, words, len).expect("in reach");
                    let quarter = share(len, thread as u32, THREADS as u32);
                    // The other half of the quarter is the peer's own to write.
                    let half = share(quarter.len(), me as u32, 2);
                    let at = quarter.start + half.start;
                    let (_, view) = own(half.len());
                    let seed = (100 + round) as u8;
                    view.unpack(0, &expected(seed, at, half.len()));
                    reached.store(at, &view, 0, half.len()).expect("writable");
                    let (_, back) = own(half.len());
                    reached.load(at, &back, 0, half.len()).expect("readable");
                    assert_eq!(bytes_of(&back, 0, half.len()), expected(seed, at, half.len()));
                    // Meanwhile, buffers of this rank are exposed, moved, and read by itself.
                    own_part.fill(seed);
                    let mine = reach.expose(own_part.at, own_part.len);
                    let again = reach.open(me as u32, mine.words(), own_part.len).expect("own");
                    let (_, view) = own(own_part.len);
                    again.load(0, &view, 0, own_part.len).expect("readable");
                    assert_eq!(bytes_of(&view, 0, own_part.len), expected(seed, 0, own_part.len));
                }
            });
        }
    });
    rank.barrier();
    for thread in 0..THREADS as u32 {
        let quarter = share(len, thread, THREADS as u32);
        for writer in 0..2 {
            let half = share(quarter.len(), writer, 2);
            let was = if writer == peer { 119 } else { 7 + rank.rank as u8 };
            for i in quarter.start + half.start..quarter.start + half.end {
                assert_eq!(buffer.get(i), pattern(was, i), "byte {i}");
            }
        }
    }
    drop(published);
    rank.barrier();
}

/// A message with gaps, exposed as one stretch.
fn spans(rank: &mut Rank) {
    let (blocks, block, stride) = (700, 96, 128);
    let memory = rank.memory.part(4 * MIB, MIB);
    memory.fill(50 + rank.rank as u8);
    // Its lowest byte lies below its address.
    let layout = TypeLayout::basic(1, 1).unwrap();
    let layout = layout.hindexed((0..blocks).map(|i| (block, (i as i64 - 100) * stride))).unwrap();
    let layout = Arc::new(layout);
    let origin = memory.at + 20_000;
    let (low, high) = layout.true_span(1).unwrap();
    let span = (high - low) as usize;
    // SAFETY: 1. and 2. the view lies in the test's memory; 3. of which the ranks write in turns.
    let view = unsafe {
        View::user(std::ptr::with_exposed_provenance(origin), Shape::of(&layout, 1).unwrap())
    };
    let (lowest, len) = view.span();
    assert_eq!((lowest, len), ((origin as i64 + low) as usize, span));
    let mut published = rank.reach.expose(lowest, len);
    for _ in 0..kit::AFTER {
        drop(published);
        published = rank.reach.expose(lowest, len);
    }
    rank.announce(&published, span);
    rank.barrier();
    let peer = 1 - rank.rank;
    let (words, _, _) = rank.announced(peer);
    let reached = rank.reach.open(peer, words, span).expect("in reach");
    let right: Vec<u8> = (0..blocks)
        .flat_map(|i| {
            let at = 20_000 + (i as i64 - 100) * stride;
            expected(50 + peer as u8, at as usize, block as usize)
        })
        .collect();
    let mine = own(right.len()).1;
    if let Some(place) = reached.region(0, span) {
        assert_ne!(rank.means, Means::Cma);
        let there = place.offset(-low as isize).view(Shape::of(&layout, 1).unwrap());
        assert_eq!(mine.copy_from(&there), right.len());
    } else {
        assert_eq!(rank.means, Means::Cma);
        for i in 0..blocks as usize {
            let (stride, block) = (stride as usize, block as usize);
            reached.load(i * stride, &mine, i * block, block).expect("readable");
        }
    }
    assert_eq!(bytes_of(&mine, 0, right.len()), right);
    rank.barrier();
    // Stores to the blocks leave the gaps alone.
    mine.unpack(0, &vec![9; right.len()]);
    for i in 0..blocks as usize {
        let (stride, block) = (stride as usize, block as usize);
        reached.store(i * stride, &mine, i * block, block).expect("writable");
    }
    rank.barrier();
    for i in 0..memory.len {
        let at = i as i64 - 20_000 - low;
        let in_block = (0..span as i64).contains(&at) && at % stride < block as i64;
        let right = if in_block { 9 } else { pattern(50 + rank.rank as u8, i) };
        assert_eq!(memory.get(i), right, "byte {i}");
    }
    drop(published);
    rank.barrier();
}

/// Rank 1 reads rank 0's buffer, which is at `address` by now, by the words of a new exposure.
fn read_anew(rank: &Rank, buffer: Option<Memory>, seed: u8) {
    let published = buffer.map(|buffer| {
        let published = rank.reach.expose(buffer.at, buffer.len);
        rank.announce(&published, buffer.len);
        published
    });
    rank.barrier();
    if rank.rank == 1 {
        let (words, len, _) = rank.announced(0);
        let reached = rank.reach.open(0, words, len).expect("in reach");
        read(&reached, len, seed);
    }
    rank.barrier();
    drop(published);
}

/// The program unmaps, replaces and moves its buffer.
fn relocated(rank: &mut Rank) {
    if rank.rank == 1 {
        for seed in 1..=4 {
            read_anew(rank, None, seed);
        }
        return;
    }
    let buffer = Memory::map(MIB);
    buffer.fill(1);
    let published = rank.publish(buffer);
    assert!(published.is_whole(MIB));
    drop(published);
    read_anew(rank, Some(buffer), 1);
    // Other memory at the same address, not moved yet: what was known of it is wrong.
    buffer.unmap();
    let buffer = Memory::map_at(buffer.at, MIB);
    buffer.fill(2);
    let recalled = rank.reach.recall(buffer.at, MIB).expect("known");
    assert!(!rank.reach.confirm(buffer.at, MIB, &recalled));
    drop(recalled);
    assert!(rank.reach.recall(buffer.at, MIB).is_none());
    read_anew(rank, Some(buffer), 2);
    // Moved to a slot again, and then elsewhere by the program, with its slot.
    drop(rank.publish(buffer));
    buffer.fill(3);
    read_anew(rank, Some(buffer), 3);
    let place = Memory::map(MIB);
    let buffer = buffer.remap_to(place.at);
    let moves = rank.direct.usage().unwrap().moves;
    buffer.fill(4);
    let found = (0..=kit::AFTER).find(|_| rank.reach.expose(buffer.at, MIB).is_whole(MIB));
    assert!(found.is_some(), "{:?}", rank.direct.status());
    assert_eq!(rank.direct.usage().unwrap().moves, moves);
    read_anew(rank, Some(buffer), 4);
}

fn recalled(rank: &mut Rank) {
    let buffer = rank.memory.part(2 * PAGE, 20 * PAGE);
    if rank.means == Means::Mapped {
        assert!(rank.reach.recall(buffer.at, buffer.len).is_none());
    }
    let published = rank.publish(buffer);
    assert!(published.is_whole(buffer.len));
    let recalled = rank.reach.recall(buffer.at, buffer.len).expect("known");
    assert_eq!(recalled.words(), published.words());
    assert!(recalled.is_whole(buffer.len));
    drop(published);
    buffer.fill(30 + rank.rank as u8);
    rank.announce(&recalled, buffer.len);
    rank.barrier();
    // The peer opens it meanwhile.
    let peer = 1 - rank.rank;
    let (words, len, whole) = rank.announced(peer);
    let reached = rank.reach.open(peer, words, len).expect("in reach");
    assert!(whole && reached.is_window());
    assert!(rank.reach.confirm(buffer.at, buffer.len, &recalled));
    rank.barrier();
    read(&reached, len, 30 + peer as u8);
    rank.barrier();
    // An exposure, too, is where it is.
    let published = rank.reach.expose(buffer.at, buffer.len);
    assert!(rank.reach.confirm(buffer.at, buffer.len, &published));
    let elsewhere = Memory::map(PAGE);
    assert_eq!(rank.reach.recall(elsewhere.at, PAGE).is_some(), rank.means == Means::Xpmem);
}

/// Regions outlast whatever they came from, and their memory is not left.
fn regions_last(rank: &mut Rank) {
    let buffer = rank.memory.part(0, 8 * PAGE);
    buffer.fill(60 + rank.rank as u8);
    let published = rank.publish(buffer);
    rank.barrier();
    let peer = 1 - rank.rank;
    let (words, len, _) = rank.announced(peer);
    // A channel that is gone by the time.
    let other = Direct::new(&rank.segment, rank.rank, &DirectOptions::CMA).reach();
    let (others, own) = (other.abilities(0), rank.reach.abilities(0));
    assert!(!others.mapped && !others.xpmem && (own.mapped || own.xpmem));
    let reached = other.open(peer, words, len).expect("in reach");
    let region = reached.region(10, 100).expect("a window");
    let again = reached.clone();
    drop((reached, other));
    let mut got = vec![0; 100];
    region.read_bytes(&mut got);
    assert_eq!(got, expected(60 + peer as u8, 10, 100));
    // A view among the very bytes that are copied, and one far beyond the mapping.
    let there = region.view(Shape::Contiguous { bytes: 100 });
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| ()));
    let wrong = |f: &dyn Fn()| {
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(f));
        result.expect_err("a panic");
    };
    wrong(&|| again.load(50, &there, 0, 50).unwrap_or_default());
    wrong(&|| {
        let remote_offset = again.region(0, 1).expect("a window").offset(1 << 40);
        remote_offset.write_bytes(&[1]);
    });
    wrong(&|| again.load(len, &there, 0, 1).unwrap_or_default());
    wrong(&|| again.load(0, &there, 100, 1).unwrap_or_default());
    wrong(&|| drop(again.region(usize::MAX, 2)));
    std::panic::set_hook(hook);
    // Within a peer's memory, from one place to another.
    let from = again.region(PAGE, 100).expect("a window");
    let from = from.view(Shape::Contiguous { bytes: 100 });
    rank.barrier();
    again.store(0, &from, 0, 100).expect("writable");
    rank.barrier();
    for i in 0..100 {
        let right = pattern(60 + rank.rank as u8, PAGE + i);
        assert_eq!(buffer.get(i), right);
    }
    drop(published);
    rank.barrier();
}

/// What the kernel refuses is an error with its number, and a partial copy is not success.
fn errors(rank: &mut Rank) {
    let buffer = Memory::map(8 * PAGE);
    buffer.fill(1);
    let published = rank.publish(buffer);
    rank.barrier();
    if rank.rank == 1 {
        buffer.part(4 * PAGE, 4 * PAGE).unmap();
        rank.barrier();
        rank.barrier();
        rank.announce_word(3, u64::from(std::process::id()));
        rank.barrier();
        std::process::exit(0);
    }
    let (words, len, _) = rank.announced(1);
    let reached = rank.reach.open(1, words, len).expect("in reach");
    rank.barrier();
    let (_, view) = own(len);
    for n in [1, PAGE + 1, 4 * PAGE] {
        let error = reached.load(4 * PAGE - 1, &view, 0, n.max(2)).unwrap_err();
        assert_eq!((error.peer, error.errno()), (1, Some(libc::EFAULT)));
        let error = reached.store(4 * PAGE, &view, 0, n).unwrap_err();
        assert_eq!((error.peer, error.errno()), (1, Some(libc::EFAULT)));
    }
    // That was the buffer's fault: the peer is as good as before.
    assert!(rank.reach.cma_works(1));
    reached.load(0, &view, 0, 4 * PAGE).expect("still there");
    assert_eq!(bytes_of(&view, 0, 4 * PAGE), expected(1, 0, 4 * PAGE));
    rank.barrier();
    rank.barrier();
    let pid = rank.announced_word(1, 3) as i32;
    // Its end, whether its parent has heard of it or not.
    while std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| !stat.contains(") Z "))
    {
        std::thread::yield_now();
    }
    let error = reached.load(0, &view, 0, 1).unwrap_err();
    assert_eq!((error.peer, error.errno()), (1, Some(libc::ESRCH)));
    assert!(error.to_string().contains("rank 1"), "{error}");
    drop(published);
}

/// With every back end off, nothing can be opened, but for what has no bytes.
fn nothing() {
    let segment = kit::job(1);
    segment.claim(0).unwrap();
    let reach = Direct::new(&segment, 0, &DirectOptions::OFF).reach();
    let buffer = Memory::map(PAGE);
    let abilities = reach.abilities(0);
    assert!(!abilities.mapped && !abilities.xpmem && !abilities.cma);
    assert!(!reach.cma_works(0) && !reach.cma_works(7));
    let published = reach.expose(buffer.at, PAGE);
    assert_eq!(published.words(), [0, 0]);
    assert!(!published.is_whole(PAGE) && published.is_whole(0));
    assert!(reach.open(0, published.words(), PAGE).is_none());
    assert!(reach.recall(buffer.at, PAGE).is_none());
    // Words of a peer with CMA, for one without it, and of one who does not exist.
    assert!(reach.open(0, [1, buffer.at as u64], PAGE).is_none());
    assert!(reach.open(7, [1, buffer.at as u64], PAGE).is_none());
    let empty = reach.open(0, [0, 0], 0).expect("no bytes are in reach");
    assert!(empty.is_window() && empty.region(0, 0).is_some());
    let (_, view) = own(0);
    empty.load(0, &view, 0, 0).expect("nothing");
    empty.store(0, &view, 0, 0).expect("nothing");
}

/// Blocks of malloc that are shorter than a page, side by side.
fn side_by_side() -> Vec<Memory> {
    let blocks: Vec<Memory> = (0..200).map(|_| Memory::malloc(40)).collect();
    for (i, block) in blocks.iter().enumerate() {
        block.fill(i as u8);
    }
    blocks
}

fn short_blocks() {
    kit::need_mapped();
    let segment = kit::job(1);
    segment.claim(0).unwrap();
    let reach = Direct::new(&segment, 0, &kit::mapped()).reach();
    let blocks = side_by_side();
    let (short, beside) = (blocks[100], blocks[101]);
    // For one use it is too short.
    assert!(!reach.expose(short.at, short.len).is_whole(short.len));
    let published = reach.expose_for_long(short.at, short.len);
    assert!(published.is_whole(short.len), "a window reaches it");
    let reached = reach.open(0, published.words(), short.len).expect("open");
    assert!(reached.is_window());
    read(&reached, short.len, 100);
    // It is the same memory, seen by both.
    let (_, view) = own(1);
    view.unpack(0, &[77]);
    reached.store(3, &view, 0, 1).expect("writable");
    assert_eq!(short.get(3), 77);
    short.fill(9);
    read(&reached, short.len, 9);
    // Another one on the same page is there already, beside the first one.
    let other = reach.expose_for_long(beside.at, beside.len);
    assert!(other.is_whole(beside.len));
    for (i, block) in blocks.iter().enumerate().filter(|&(i, _)| i != 100) {
        block.check(i as u8);
    }
    drop((published, other));
    blocks.into_iter().for_each(Memory::free);
    // The heap goes on as before, in the child of a fork as well.
    side_by_side().into_iter().for_each(Memory::free);
    assert!(kit::succeeds_in_child(|| {
        side_by_side().into_iter().for_each(Memory::free);
    }));
}

fn short_beside_threads() {
    kit::need_mapped();
    let segment = kit::job(1);
    segment.claim(0).unwrap();
    let reach = Direct::new(&segment, 0, &kit::mapped()).reach();
    let short = side_by_side()[100];
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let _ = stopped.recv();
        });
        let published = reach.expose_for_long(short.at, short.len);
        assert!(!published.is_whole(short.len), "the other thread may write beside it");
        drop(stop);
    });
    short.check(100);
}
