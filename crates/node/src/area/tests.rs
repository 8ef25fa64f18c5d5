use super::*;
use crate::segment::{JobSpec, PAGE};
use crate::topology::CorePlace;
use crate::tunables::{SegmentShape, segment_shape};
use std::os::fd::AsRawFd;
use std::sync::Barrier;

const MIB: u64 = 1 << 20;

/// A job of `ranks` ranks with these limits for one area, and for all areas together.
fn job(ranks: usize, area_bytes: u64, areas_bytes: u64) -> Arc<JobSegment> {
    let places = vec![CorePlace::UNKNOWN; ranks];
    let shape = SegmentShape { area_bytes, areas_bytes, ..segment_shape() };
    let spec = JobSpec::on_one_node(&places, 2, &[]);
    Arc::new(JobSegment::create_shaped(&spec, shape).expect("segment"))
}

/// The same job, attached as another process would.
fn attached(segment: &JobSegment) -> Arc<JobSegment> {
    let fd = segment.as_fd().try_clone_to_owned().expect("dup");
    Arc::new(JobSegment::attach(fd).expect("attach"))
}

fn context(leader: u64, id: u64) -> u64 {
    leader << 40 | id << 1
}

fn memory(segment: &JobSegment) -> u64 {
    // SAFETY: fstat writes to `stat` only.
    unsafe {
        let mut stat: libc::stat = std::mem::zeroed();
        assert_eq!(libc::fstat(segment.as_fd().as_raw_fd(), &mut stat), 0);
        stat.st_blocks as u64 * 512
    }
}

/// Opens the area of all members in order.
fn open_all(segment: &Arc<JobSegment>, context: u64, members: &[u32]) -> Vec<Option<RawArea>> {
    (0..members.len()).map(|me| segment.open_area(context, members, me).expect("memory")).collect()
}

#[test]
fn members_read_what_the_others_published_and_turns_are_used_again() {
    const OPERATIONS: u64 = 2000;
    let segment = job(4, MIB, 4 * MIB);
    let other = attached(&segment);
    // The communicator's order differs from the job's.
    let members = [2, 0, 3, 1];
    let run = |me: usize| {
        let segment = [&segment, &other][me % 2];
        let area = segment.open_area(context(2, 7), &members, me);
        let area = area.expect("memory").expect("room");
        assert_eq!((area.members(), area.me()), (&members[..], me));
        for s in 1..=OPERATIONS {
            let slot = s as usize % OPERATION_SLOTS;
            if s > OPERATION_SLOTS as u64 {
                while (0..4)
                    .any(|m| area.finished_number(m).finished() < s - OPERATION_SLOTS as u64)
                {
                    std::thread::yield_now();
                }
            }
            let value = |member: usize| s * 10 + member as u64;
            let line = area.flag_line(slot, me);
            let (words, bytes) = ([value(me); INLINE / 8], area.cell_bytes());
            // SAFETY: all have finished the operation that used the slot before.
            line.with_data_mut(|data| unsafe { data.write(words) });
            // SAFETY: as above; the cell belongs to this member and has this many bytes.
            unsafe {
                area.allocate_before_writing(slot, me).expect("memory");
                area.cell(slot, me).write_bytes(value(me) as u8, bytes);
            }
            line.set_word(value(me));
            line.publish(s << 24);
            for member in (0..4).filter(|&m| m != me) {
                let line = area.flag_line(slot, member);
                while line.stamp() < s << 24 {
                    std::thread::yield_now();
                }
                // SAFETY: published, and not overwritten before all have finished.
                let words = line.with_data(|data| unsafe { data.read() });
                assert_eq!(words, [value(member); INLINE / 8]);
                assert_eq!(line.word(), value(member));
                // SAFETY: as above.
                let (first, last) = unsafe {
                    let cell = area.cell(slot, member);
                    (cell.read(), cell.add(bytes - 1).read())
                };
                assert_eq!((first, last), (value(member) as u8, value(member) as u8));
            }
            area.finished_number(me).set_finished(s);
        }
    };
    std::thread::scope(|scope| {
        for me in 0..4 {
            scope.spawn(move || run(me));
        }
    });
    assert_eq!(segment.area_budget().used(), 0);
}

#[test]
fn the_last_to_close_gives_the_memory_back() {
    let segment = job(3, MIB, 4 * MIB);
    let before = memory(&segment);
    let mut areas = open_all(&segment, context(0, 3), &[0, 1, 2]);
    let bytes = areas[0].as_ref().expect("room").bytes() as u64;
    assert_eq!(segment.area_budget().used(), bytes);
    for area in areas.iter().flatten() {
        (0..OPERATION_SLOTS)
            .for_each(|slot| area.allocate_before_writing(slot, area.me()).expect("memory"));
    }
    assert_eq!(memory(&segment) - before, bytes, "all cells are allocated");
    let last = areas.pop();
    drop(areas);
    assert_eq!(memory(&segment) - before, bytes, "one member still has it");
    drop(last);
    assert_eq!(segment.area_budget().used(), 0);
    assert_eq!(memory(&segment), before);
}

#[test]
fn a_cell_costs_memory_when_it_is_to_be_written() {
    let segment = job(2, MIB, 4 * MIB);
    let before = memory(&segment);
    let areas = open_all(&segment, 2, &[0, 1]);
    let [first, second] = [0, 1].map(|me| areas[me].as_ref().expect("room"));
    let cell = first.cell_bytes() as u64;
    let lines = first.bytes() as u64 - 2 * OPERATION_SLOTS as u64 * cell;
    assert_eq!(memory(&segment) - before, lines, "no cell yet");
    first.allocate_before_writing(1, 0).expect("memory");
    first.allocate_before_writing(1, 0).expect("memory");
    assert_eq!(memory(&segment) - before, lines + cell);
    // SAFETY: the cell is the first member's, and no other thread accesses it.
    unsafe { first.cell(1, 0).write(7) };
    // Another member may be the first to know of a cell, or the last.
    first.allocate_before_writing(3, 1).expect("memory");
    second.allocate_before_writing(3, 1).expect("memory");
    second.allocate_before_writing(1, 0).expect("memory");
    assert_eq!(memory(&segment) - before, lines + 2 * cell);
    // SAFETY: as above.
    assert_eq!(unsafe { second.cell(1, 0).read() }, 7, "it keeps what is in it");
    let is_mine =
        std::panic::AssertUnwindSafe(|| first.allocate_before_writing(OPERATION_SLOTS, 0));
    assert!(std::panic::catch_unwind(is_mine).is_err(), "there is no such slot");
}

#[test]
fn beyond_the_budget_all_members_are_refused_and_nothing_is_left() {
    let one = 2 * OPERATION_SLOTS as u64 * CELL_MAX as u64;
    let segment = job(2, one, one + 4 * PAGE as u64);
    let other = attached(&segment);
    let before = memory(&segment);
    let held = open_all(&segment, context(0, 1), &[0, 1]);
    assert!(held.iter().all(Option::is_some));
    let with_one = memory(&segment);
    assert!(segment.open_area(context(0, 2), &[0, 1], 0).unwrap().is_none());
    assert!(other.open_area(context(0, 2), &[0, 1], 1).unwrap().is_none());
    assert_eq!(memory(&segment), with_one, "no trace of who was refused");
    // A late member gets the same answer, even if there is room by then.
    assert!(segment.open_area(context(0, 3), &[0, 1], 0).unwrap().is_none());
    drop(held);
    assert!(other.open_area(context(0, 3), &[0, 1], 1).unwrap().is_none());
    assert_eq!(memory(&segment), before);
    let next = open_all(&other, context(0, 4), &[0, 1]);
    assert!(next.iter().all(Option::is_some));
}

#[test]
fn all_members_get_the_same_answer_however_they_race() {
    const CONTEXTS: u64 = 300;
    let one = 3 * OPERATION_SLOTS as u64 * CELL_MIN as u64;
    let segment = job(3, one, 100 * (one + 2 * PAGE as u64));
    let other = attached(&segment);
    let start = Barrier::new(3);
    let run = |me: usize| {
        let segment = [&segment, &other][me % 2];
        start.wait();
        (0..CONTEXTS)
            .map(|id| segment.open_area(context(1, id), &[0, 1, 2], me).expect("memory"))
            .collect::<Vec<_>>()
    };
    let answers: Vec<Vec<Option<RawArea>>> = std::thread::scope(|scope| {
        let members: Vec<_> = (0..3).map(|me| scope.spawn(move || run(me))).collect();
        members.into_iter().map(|m| m.join().expect("member")).collect()
    });
    let granted = |answers: &[Option<RawArea>]| answers.iter().map(Option::is_some).collect();
    let [first, second, third] = [0, 1, 2].map(|me| -> Vec<bool> { granted(&answers[me]) });
    assert_eq!(first, second);
    assert_eq!(second, third);
    let granted = answers[0].iter().flatten().count();
    let bytes = answers[0].iter().flatten().next().expect("some").bytes();
    assert_eq!(granted as u64, segment.area_budget().limit() / bytes as u64);
    assert_eq!(segment.area_budget().used(), (granted * bytes) as u64);
    drop(answers);
    assert_eq!(segment.area_budget().used(), 0);
}

#[test]
fn each_context_has_memory_of_its_own() {
    let segment = job(2, 64 << 10, 256 * MIB);
    let before = memory(&segment);
    let contexts: Vec<u64> =
        (0..2).flat_map(|leader| (0..100).map(move |id| context(leader, id))).collect();
    let areas: Vec<Vec<Option<RawArea>>> =
        contexts.iter().map(|&context| open_all(&segment, context, &[0, 1])).collect();
    let member = |at: usize, me: usize| areas[at][me].as_ref().expect("room");
    for (at, &context) in contexts.iter().enumerate() {
        member(at, 0).flag_line(1, 0).set_word(context);
        member(at, 0).flag_line(1, 0).publish(1);
    }
    for (at, &context) in contexts.iter().enumerate() {
        let line = member(at, 1).flag_line(1, 0);
        assert_eq!((line.stamp(), line.word()), (1, context));
        assert_eq!(member(at, 1).flag_line(0, 0).stamp(), 0);
    }
    drop(areas);
    assert_eq!(memory(&segment), before);
    // A later area does not see the contents of an earlier one.
    let again = open_all(&segment, contexts[5], &[0, 1]);
    assert_eq!(again[1].as_ref().expect("room").flag_line(1, 0).word(), 0);
}

#[test]
fn opens_none_when_areas_are_off() {
    let none = job(2, 0, 256 * MIB);
    let before = memory(&none);
    assert!(none.open_area(2, &[0, 1], 0).unwrap().is_none());
    assert_eq!(memory(&none), before);
    let small = job(3, 2 * (OPERATION_SLOTS * CELL_MIN) as u64, 256 * MIB);
    assert!(small.open_area(2, &[0, 1, 2], 0).unwrap().is_none());
    assert!(small.open_area(2, &[0, 2], 0).unwrap().is_some());
    for hidden in [1 << 38, 1 << 39] {
        assert!(small.open_area(hidden | 4, &[0, 2], 0).unwrap().is_none());
    }
}

#[test]
fn those_who_sleep_are_woken() {
    crate::park::membarrier_register();
    let segment = job(3, MIB, 4 * MIB);
    let areas = open_all(&segment, context(0, 9), &[0, 1, 2]);
    let area = |me: usize| areas[me].as_ref().expect("room");
    // Without a limit on the sleep, a lost wake-up would hang here.
    std::thread::scope(|scope| {
        for me in [1, 2] {
            let area = area(me);
            let segment = &segment;
            scope.spawn(move || {
                let spot = &segment.block(me as u32).parking.0;
                for s in 1..=500 {
                    while area.flag_line(0, 0).stamp() < s {
                        spot.park(segment.fencing(), None, || area.flag_line(0, 0).stamp() >= s);
                    }
                    area.finished_number(me).set_finished(s);
                    area.wake(0);
                }
            });
        }
        let (area, spot) = (area(0), &segment.block(0).parking.0);
        let finished = |s| (1..3).all(|member| area.finished_number(member).finished() >= s);
        for s in 1..=500 {
            area.flag_line(0, 0).publish(s);
            area.wake_all(1..3);
            while !finished(s) {
                spot.park(segment.fencing(), None, || finished(s));
            }
        }
    });
}

#[test]
#[should_panic(expected = "no slot 0 of member 2")]
fn there_are_no_other_members() {
    let segment = job(2, MIB, 4 * MIB);
    let area = segment.open_area(2, &[0, 1], 0).expect("memory");
    area.expect("room").flag_line(0, 2);
}
