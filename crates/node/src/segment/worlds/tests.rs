//! Worlds that come and go in a segment of this process.

use super::*;
use crate::segment::{JobSpec, PAGE, RankState, SegmentError};
use crate::topology::CorePlace;

const PARENT: ParentPort = ParentPort { rank: 1, tag: 9 };

fn segment(ranks: usize, spare: u32) -> JobSegment {
    let places = vec![CorePlace::UNKNOWN; ranks];
    let spec = JobSpec { spare, ..JobSpec::on_one_node(&places, 2, &[]) };
    let segment = JobSegment::create(&spec).expect("segment");
    (0..ranks as u32).for_each(|rank| segment.claim(rank).expect("free"));
    segment
}

fn begin(segment: &JobSegment, count: usize) -> Result<World, SegmentError> {
    let places = vec![CorePlace::UNKNOWN; count];
    segment.begin_world(&WorldSpec { places: &places, appnum: &[4], parent: PARENT })
}

#[test]
fn a_world_takes_a_run_of_numbers_and_gives_it_back() {
    let segment = segment(2, 6);
    assert_eq!((segment.capacity(), segment.generation()), (8, 0));
    let first = segment.world_of(1).expect("the job's own");
    assert_eq!((first.index, first.first, first.count, first.parent), (0, 0, 2, None));
    assert!(segment.world_of(2).is_none() && segment.claim(2).is_err());
    let a = begin(&segment, 3).expect("room");
    assert_eq!((a.first, a.count, a.generation, a.parent), (2, 3, 1, Some(PARENT)));
    assert_eq!(segment.world_of(4), Some(a));
    assert_eq!((segment.appnum(2), segment.appnum(3)), (4, 0));
    assert_eq!(segment.occupied().collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
    assert!(segment.is_oversubscribed());
    let refused = begin(&segment, 4).expect_err("3 are left");
    assert!(matches!(refused, SegmentError::NoRoom { wanted: 4, spare: 6, taken: 3 }));
    let b = begin(&segment, 3).expect("room");
    assert_eq!((b.first, b.generation, segment.generation()), (5, 2, 2));
    segment.end_world(a.index).expect("lock");
    assert_eq!(segment.occupied().collect::<Vec<_>>(), [0, 1, 5, 6, 7]);
    let c = begin(&segment, 2).expect("the run of the first");
    assert_eq!((c.first, c.generation), (2, 3));
}

#[test]
fn numbers_are_kept_as_long_as_a_process_is_connected() {
    let segment = segment(1, 1);
    let world = begin(&segment, 1).expect("room");
    segment.claim(1).expect("free");
    segment.set_connected(0, 1 << world.index);
    segment.block(1).finalize();
    segment.end_world(world.index).expect("lock");
    assert!(begin(&segment, 1).is_err(), "a message of it may be unread");
    segment.set_connected(0, 0);
    let next = begin(&segment, 1).expect("free now");
    assert_eq!(next.first, 1);
    assert_eq!(segment.rank_state(1), RankState::Absent, "nothing of the former is left");
}

#[test]
fn a_world_whose_launcher_was_killed_gives_its_numbers_back() {
    let segment = segment(1, 1);
    let world = begin(&segment, 1).expect("room");
    assert!(begin(&segment, 1).is_err(), "its launcher runs");
    let mut child = std::process::Command::new("true").spawn().expect("started");
    child.wait().expect("reaped");
    let entry = &segment.table().entries[world.index as usize];
    entry.launcher.store(child.id(), Ordering::Relaxed);
    assert_eq!(begin(&segment, 1).expect("free now").first, world.first);
}

#[test]
fn the_memory_of_a_rank_that_has_ended_is_as_new() {
    let segment = segment(2, 2);
    let world = begin(&segment, 2).expect("room");
    for (from, to) in [(0, 3), (3, 0), (2, 3), (0, 1)] {
        let offset = segment.pair_offset(from, to);
        segment.allocate(offset, PAGE).expect("memory");
        // SAFETY: allocated just now, and used by this test alone.
        unsafe { segment.at(offset).write(7) };
        segment.announce_sender(to, from);
    }
    segment.end_world(world.index).expect("lock");
    // SAFETY: in the mapping; no other thread is there.
    let byte = |from, to| unsafe { segment.at(segment.pair_offset(from, to)).read() };
    assert_eq!([(0, 3), (3, 0), (2, 3), (0, 1)].map(|(a, b)| byte(a, b)), [0, 0, 0, 7]);
    assert_eq!(segment.new_sender_bits(0)[0].load(Ordering::Relaxed), 0);
    assert_eq!(segment.new_sender_bits(1)[0].load(Ordering::Relaxed), 1);
}

#[test]
fn worlds_are_connected_through_others_and_hear_of_a_loss() {
    let segment = segment(1, 3);
    let [a, b, c] = [(); 3].map(|()| begin(&segment, 1).expect("room"));
    for world in [a, b, c] {
        segment.claim(world.first).expect("free");
    }
    assert_eq!(segment.connected_with(0), 1);
    segment.set_connected(0, 1 << a.index);
    segment.set_connected(b.first, 1 << a.index);
    assert_eq!(segment.connected_with(0), 1 | 1 << a.index | 1 << b.index);
    assert_eq!(segment.connected_with(c.index), 1 << c.index);
    assert_eq!(segment.lost_peer_of(0), None);
    segment.block(b.first).abort(3);
    assert_eq!(segment.lost_peer_of(0), Some(b.first));
    assert_eq!((segment.lost_peer_of(c.index), segment.lost_peer_of(b.index)), (None, None));
}

/// A reader gets the words of one world, while its entry is given to one after the other.
#[test]
fn an_entry_is_read_whole() {
    let segment = segment(1, 3);
    let is_over = AtomicU32::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0..2000 {
                // Every other round has two worlds of a rank, the others have one of two.
                let before = (round % 2 == 0).then(|| begin(&segment, 1).expect("room"));
                let world = begin(&segment, 1 + round % 2).expect("room");
                for world in [Some(world), before].into_iter().flatten() {
                    segment.end_world(world.index).expect("lock");
                }
            }
            is_over.store(1, Ordering::Relaxed);
        });
        while is_over.load(Ordering::Relaxed) == 0 {
            for index in 1..3 {
                let Some(world) = segment.world_in(index, &[LIVE]) else { continue };
                let words = (index, world.first, world.count);
                // Two rounds have three worlds.
                let expected = match world.generation % 3 {
                    1 => (1, 1, 1),
                    2 => (2, 2, 1),
                    _ => (1, 1, 2),
                };
                assert_eq!(words, expected, "{world:?}");
            }
        }
    });
}
