//! Segments of whole jobs and of parts of them.

use super::*;

fn job(ranks: usize) -> JobSegment {
    let places = vec![CorePlace::UNKNOWN; ranks];
    JobSegment::create(&JobSpec::on_one_node(&places, 2, &[])).expect("segment")
}

#[test]
fn a_segment_is_attached_by_descriptor_and_claimed_once() {
    let segment = job(4);
    let fd = segment.as_fd().try_clone_to_owned().expect("dup");
    let other = JobSegment::attach(fd).expect("attach");
    assert_eq!(other.ranks(), 4);
    assert!(other.is_oversubscribed());
    assert_eq!(segment.rank_state(3), RankState::Absent);
    other.claim(3).expect("free");
    assert!(matches!(segment.claim(3), Err(SegmentError::RankTaken { rank: 3, .. })));
    assert!(matches!(segment.claim(4), Err(SegmentError::NoSuchRank { .. })));
    assert_eq!(segment.rank_state(3), RankState::Running { pid: std::process::id() });
    assert!(!segment.is_gone(3) && !segment.is_gone(2));
    other.block(3).finalize();
    assert_eq!(segment.rank_state(3), RankState::Finalized);
    other.block(3).resume();
    assert!(matches!(segment.rank_state(3), RankState::Running { .. }));
    other.block(3).abort(7);
    assert_eq!(segment.rank_state(3), RankState::Aborted { code: 7 });
}

#[test]
fn a_descriptor_that_is_no_segment_is_left_open() {
    let file = std::fs::File::open("/proc/self/exe").expect("own program");
    let number = std::os::fd::AsRawFd::as_raw_fd(&file);
    let named =
        crate::handover::identity(std::os::fd::AsFd::as_fd(&file)).expect("open").to_string();
    // Even if the environment names this very file.
    for identity in [None, Some(named.as_str())] {
        let refused = inherited_descriptor(number as u32, identity).expect_err("a program");
        assert!(matches!(refused, SegmentError::NotASegment { .. }));
        file.metadata().expect("still open");
    }
}

#[test]
fn no_process_can_change_the_size_of_the_file() {
    let segment = job(2);
    let file = std::fs::File::from(segment.as_fd().try_clone_to_owned().expect("dup"));
    let bytes = file.metadata().expect("our file").len();
    for wanted in [0, bytes - 1, bytes + 1] {
        let refused = file.set_len(wanted).expect_err("sealed");
        assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied, "{wanted}");
    }
    segment.allocate(bytes as usize - PAGE, PAGE).expect("within its size");
}

#[test]
fn no_process_can_execute_the_file() {
    use std::os::unix::fs::PermissionsExt;
    let flags = libc::MFD_CLOEXEC | libc::MFD_NOEXEC_SEAL;
    // SAFETY: the name is a NUL-terminated string; the call touches no other memory. The test's
    // process keeps the descriptor.
    if unsafe { libc::memfd_create(c"mica-test".as_ptr(), flags) } < 0 {
        println!("not shown: this kernel has no MFD_NOEXEC_SEAL (Linux 6.3)");
        return;
    }
    let segment = job(2);
    let file = std::fs::File::from(segment.as_fd().try_clone_to_owned().expect("dup"));
    let mode = file.metadata().expect("our file").permissions().mode();
    assert_eq!(mode & 0o111, 0);
    let executable = std::fs::Permissions::from_mode(mode | 0o100);
    let refused = file.set_permissions(executable).expect_err("sealed");
    assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
}

#[test]
fn a_process_that_has_died_is_missed() {
    let segment = job(2);
    let mut child = std::process::Command::new("true").spawn().expect("a process");
    assert!(segment.block(1).claim(child.id()));
    child.wait().expect("its end");
    assert!(segment.is_gone(1));
    segment.block(1).finalize();
    assert!(!segment.is_gone(1), "it has done its part");
}

#[test]
fn waits_until_a_dead_process_is_reaped() {
    const FOREVER: Duration = Duration::from_secs(600);
    let segment = job(2);
    let mut child = std::process::Command::new("true").spawn().expect("a process");
    assert!(segment.block(1).claim(child.id()));
    assert!(!segment.is_gone(1), "it is not reaped yet");
    segment.wait_until_gone(1, Duration::from_millis(1));
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| segment.wait_until_gone(1, FOREVER));
        child.wait().expect("its end");
        waiter.join().expect("it is gone");
    });
    assert!(segment.is_gone(1));
    segment.block(1).finalize();
    segment.wait_until_gone(1, FOREVER);
}

#[test]
fn a_node_of_several_is_addressed_by_the_jobs_ranks() {
    let places = [CorePlace::UNKNOWN; 3];
    let on = |members, job_size| {
        JobSegment::create(&JobSpec {
            members,
            job_size,
            ..JobSpec::on_one_node(&places, 2, &[7, 8, 9])
        })
    };
    let segment = on(&[1, 4, 5], 8).expect("segment");
    let fd = segment.as_fd().try_clone_to_owned().expect("dup");
    let other = JobSegment::attach(fd).expect("attach");
    assert_eq!((other.ranks(), other.job_size()), (3, 8));
    assert_eq!(other.members(), [1, 4, 5]);
    assert!(other.is_member(4) && !other.is_member(0) && !other.is_member(6));
    assert_eq!(other.appnum(5), 9);
    other.claim(5).expect("free");
    assert!(matches!(segment.rank_state(5), RankState::Running { .. }));
    assert_eq!(segment.rank_state(4), RankState::Absent);
    assert!(matches!(other.claim(0), Err(SegmentError::NoSuchRank { .. })));
    assert_eq!(other.pair_offset(1, 5), other.geometry().pair(0, 2));
    for (members, job_size) in [(&[1, 4][..], 8), (&[4, 1, 5], 8), (&[1, 4, 5], 5)] {
        assert!(matches!(on(members, job_size), Err(SegmentError::Members { .. })));
    }
}

// loom's atomics exist only in models, not in a segment.
#[cfg(not(loom))]
#[test]
fn helpers_are_counted_for_all_ranks_together() {
    let segment = job(2);
    let fd = segment.as_fd().try_clone_to_owned().expect("dup");
    let other = JobSegment::attach(fd).expect("attach");
    assert!(segment.helper_tokens().try_acquire(1));
    assert!(!other.helper_tokens().try_acquire(1));
    segment.helper_tokens().release();
    assert!(other.helper_tokens().try_acquire(1));
    assert_eq!(other.ranks(), 2, "the header is intact");
}

#[test]
fn something_else_is_not_a_segment() {
    let file = std::fs::File::open("/proc/self/exe").expect("own program");
    assert!(matches!(JobSegment::attach(file.into()), Err(SegmentError::NotASegment { .. })));
}

#[test]
fn untouched_pairs_cost_no_memory() {
    let segment = job(128);
    // SAFETY: fstat writes to `stat` only.
    let blocks = |s: &JobSegment| unsafe {
        let mut stat: libc::stat = std::mem::zeroed();
        assert_eq!(libc::fstat(s.as_fd().as_raw_fd(), &mut stat), 0);
        stat.st_blocks as usize * 512
    };
    let empty = blocks(&segment);
    assert!(empty <= segment.geometry().control_bytes() + PAGE, "{empty} bytes");
    segment.allocate(segment.geometry().pair(3, 4), RingStorage::HEAD_BYTES).expect("memory");
    assert!(blocks(&segment) - empty <= RingStorage::HEAD_BYTES + 2 * PAGE);
}

#[test]
fn a_wait_is_reported() {
    let segment = job(2);
    assert_eq!(segment.wait_report(1), None);
    let w = Waiting { kind: WaitKind::Receive, peer: 0, tag: 42, context: 2, unexpected: 3 };
    segment.block(1).set_waiting(Some((&w, monotonic_ns())));
    let report = segment.wait_report(1).expect("waits");
    assert!(report.contains("from rank 0") && report.contains("tag 42"), "{report}");
    segment.block(1).set_waiting(None);
    assert_eq!(segment.wait_report(1), None);
}

#[test]
fn an_answer_belongs_to_its_question() {
    let segment = job(2);
    assert_eq!(segment.open_question(), None);
    let first = segment.ask();
    assert_eq!(segment.open_question(), Some(first));
    assert_eq!(segment.answer_of(1, first), None);
    segment.answer(1, first, "waits").expect("memory");
    assert_eq!(segment.answer_of(1, first).as_deref(), Some("waits"));
    segment.answer(1, first, "waits and waits").expect("memory");
    assert_eq!(segment.answer_of(1, first).as_deref(), Some("waits and waits"));
    assert_eq!(segment.answer_of(0, first), None);
    segment.end_question();
    assert_eq!(segment.open_question(), None);
    segment.end_question();
    assert_eq!(segment.open_question(), None, "it stays closed");
    let second = segment.ask();
    assert_ne!(first, second);
    assert_eq!(segment.answer_of(1, second), None, "that was the other");
}

#[test]
fn an_answer_that_is_too_long_is_cut_between_characters() {
    let segment = job(1);
    let question = segment.ask();
    let long = "é".repeat(REPORT_BYTES);
    segment.answer(0, question, &format!("x{long}")).expect("memory");
    let text = segment.answer_of(0, question).expect("answered");
    assert_eq!(text.len(), REPORT_BYTES - 1);
    assert!(text.ends_with('é'));
}

#[test]
fn late_arrivals_of_a_rank_are_read_by_others() {
    use crate::late::{LateRecord, LateSite};
    let segment = job(3);
    let fd = segment.as_fd().try_clone_to_owned().expect("dup");
    let other = JobSegment::attach(fd).expect("attach");
    let blocks = || {
        let file = std::fs::File::from(segment.as_fd().try_clone_to_owned().expect("dup"));
        std::os::unix::fs::MetadataExt::blocks(&file.metadata().expect("fstat"))
    };
    let before = blocks();
    assert_eq!(segment.late_table(1), None, "nothing published yet");
    assert_eq!(blocks(), before, "to ask costs no memory");
    let table = |names: &[&str]| LateRecord {
        sites: names
            .iter()
            .map(|name| LateSite { collective: (*name).to_owned(), ..LateSite::default() })
            .collect(),
        calls_left_out: 0,
    };
    let long = table(&["barrier", "bcast", "scan"]);
    other.publish_late(1, &long).expect("memory");
    assert_eq!(segment.late_table(1), Some(long));
    let short = table(&["barrier"]);
    other.publish_late(1, &short).expect("memory");
    assert_eq!(segment.late_table(1), Some(short), "in its place");
    assert_eq!((segment.late_table(0), segment.late_table(2)), (None, None));
    assert!(blocks() > before);
}
