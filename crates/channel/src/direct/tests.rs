//! Direct copy within this process, which the kernel allows wherever the call exists.

use super::*;
use mica_memory::{Block, Shape};
use mica_node::segment::{JobSpec, SLOT_SPAN, SLOTS};
use mica_node::topology::CorePlace;
use std::sync::Arc;

fn segment() -> Arc<JobSegment> {
    let spec = JobSpec::on_one_node(&[CorePlace::UNKNOWN], 2, &[]);
    let segment = Arc::new(JobSegment::create(&spec).expect("segment"));
    segment.claim(0).expect("free");
    segment
}

#[test]
fn contiguous_and_listed_bytes_are_pulled() {
    let mut direct = Direct::new(&segment(), 0, &DirectOptions::CMA);
    assert!(direct.is_usable(0), "{:?}", direct.refusal(0));
    let source: Vec<u8> = (0..100_000u32).map(|i| (i * 13) as u8).collect();
    let to = Block::allocate(source.len())
        .expect("memory")
        .view(Shape::Contiguous { bytes: source.len() });
    let address = source.as_ptr().addr() as u64;
    direct.pull(0, SenderBuffer::Contiguous { address }, &to, source.len()).expect("readable");
    let mut got = vec![0; source.len()];
    to.pack(0, &mut got);
    assert_eq!(got, source);

    // Every second byte, backwards: more pieces than one call takes.
    let runs: Vec<RemoteRun> =
        (0..5000u64).rev().map(|i| RemoteRun { address: address + 2 * i, bytes: 1 }).collect();
    let remote =
        SenderBuffer::Runs { table: runs.as_ptr().addr() as u64, count: runs.len() as u64 };
    direct.pull(0, remote, &to, runs.len()).expect("readable");
    to.pack(0, &mut got);
    let expected: Vec<u8> = (0..5000).rev().map(|i| source[2 * i]).collect();
    assert_eq!(got[..5000], expected);
}

#[test]
fn switched_off_means_refused() {
    let mut direct = Direct::new(&segment(), 0, &DirectOptions::OFF);
    assert!(!direct.is_usable(0));
    assert_eq!(direct.refusal(0), Some(&CopyRefusal::SwitchedOff));
}

#[test]
fn an_unreadable_address_is_an_error() {
    let mut direct = Direct::new(&segment(), 0, &DirectOptions::CMA);
    let to = Block::allocate(8).expect("memory").view(Shape::Contiguous { bytes: 8 });
    let result = direct.pull(0, SenderBuffer::Contiguous { address: 8 }, &to, 8);
    assert_eq!(result, Err(CopyRefusal::Kernel { errno: libc::EFAULT }));
}

#[test]
fn ranges_are_pulled_and_pushed_at_their_position() {
    let mut direct = Direct::new(&segment(), 0, &DirectOptions::CMA);
    assert!(direct.is_usable(0), "{:?}", direct.refusal(0));
    let bytes = 10_000;
    let shape = Shape::Contiguous { bytes };
    let [mine, theirs] = [0, 1].map(|_| Block::allocate(bytes).expect("memory"));
    let pattern: Vec<u8> = (0..bytes).map(|i| (i * 7 + 1) as u8).collect();
    mine.write_bytes(&pattern);
    let view = mine.clone().view(shape);
    let address = theirs.address() as u64;
    direct.copy_range(PeerCopy::Store, 0, address, &view, 3000..5001).expect("writable");
    let mut got = vec![0; bytes];
    theirs.read_bytes(&mut got);
    assert_eq!(got[3000..5001], pattern[3000..5001]);
    assert!(got[..3000].iter().chain(&got[5001..]).all(|&b| b == 0));

    mine.write_bytes(&vec![0; bytes]);
    direct.copy_range(PeerCopy::Load, 0, address, &view, 4000..4500).expect("readable");
    mine.read_bytes(&mut got);
    assert_eq!(got[4000..4500], pattern[4000..4500]);
    assert!(got[..4000].iter().chain(&got[4500..]).all(|&b| b == 0));
}

#[test]
#[should_panic(expected = "are not within a view")]
fn a_range_beyond_the_view_is_refused() {
    let mut direct = Direct::new(&segment(), 0, &DirectOptions::CMA);
    let view = Block::allocate(8).expect("memory").view(Shape::Contiguous { bytes: 8 });
    let _ = direct.copy_range(PeerCopy::Store, 0, 8, &view, 5..9);
}

#[test]
fn a_reach_remembers_what_will_not_change() {
    let reach = Direct::new(&segment(), 0, &DirectOptions::CMA).reach();
    let bytes = [1u8, 2, 3];
    let address = bytes.as_ptr().expose_provenance();
    let published = reach.expose(address, bytes.len());
    assert!(reach.cma_works(0));
    for (errno, works) in [(libc::EFAULT, true), (libc::ESRCH, true), (libc::EPERM, false)] {
        let refusal = CopyRefusal::Kernel { errno };
        let error = reach.remember(0, Err(refusal.clone())).expect_err("one");
        assert_eq!(error, PeerAccessError { peer: 0, refusal });
        assert_eq!(error.errno(), Some(errno));
        assert_eq!(reach.cma_works(0), works, "after {errno}");
        let reached = reach.open(0, published.words(), bytes.len());
        assert_eq!(reached.is_some(), works);
    }
}

#[test]
fn words_of_a_reach_name_the_address_and_the_ends() {
    let page = 4096;
    let (address, len) = (0x7fff_1234_5678, 10 * page);
    let (head, tail) = (page - 0x678, 0x678);
    for (slot, head, tail) in
        [(0, 0, 0), (SLOTS - 1, head, 0), (3, 0, tail), (SLOTS - 1, head, tail)]
    {
        let exposure = Exposure {
            backend: Backend::Mapped,
            head: head as u16,
            tail: tail as u16,
            slot,
            place: SLOT_SPAN - 1,
            may_move: false,
        };
        let words = reach::to_words(&exposure, address);
        assert_eq!(words[1], address as u64);
        assert_eq!(reach::read_words(words, len, page as u64), Some(exposure));
    }
    for backend in [Backend::Cma, Backend::Xpmem] {
        let exposure = Exposure::by_address(backend, address);
        let words = reach::to_words(&exposure, address);
        assert_eq!(reach::read_words(words, len, page as u64), Some(exposure));
    }
    let in_place = Exposure { may_move: true, ..Exposure::by_address(Backend::Cma, address) };
    let words = reach::to_words(&in_place, address);
    assert_eq!(reach::read_words(words, len, page as u64), Some(in_place));
    assert_eq!(reach::read_words([0, 0], len, page as u64), None);
}

/// Also ranges outside the reachable part, such as the last piece of a buffer whose last page is
/// not exposed.
#[test]
fn a_range_falls_into_what_a_window_reaches_and_the_rest() {
    for reachable in [0..0, 0..9, 2..6, 9..9] {
        for range in (0..12).flat_map(|start| (start..12).map(move |end| start..end)) {
            let [mapped, before, behind] = window::split(&range, &reachable);
            assert!(mapped.clone().all(|at| reachable.contains(&at)));
            let mut rest = before.clone().chain(behind.clone());
            assert!(!rest.any(|at| reachable.contains(&at)));
            assert_eq!((before.start, behind.end), (range.start, range.end));
            assert_eq!((before.end, mapped.end), (mapped.start, behind.start));
        }
    }
}
