//! loom models: the two sides never take the same unit, and leave none; answers; helpers.

use super::*;
use loom::sync::Arc;

#[test]
fn every_unit_is_taken_once() {
    const LEN: usize = 2 * PIECE_MIN as usize * UNIT + 1;
    loom::model(|| {
        let split = Arc::new(CooperativeCopy::new());
        let theirs = split.clone();
        let back = loom::thread::spawn(move || {
            let mut sum = 0;
            while let Some(piece) = theirs.take(CopyEnd::Back, LEN) {
                sum += piece.len();
            }
            sum
        });
        let mut sum = 0;
        let mut last = 0;
        while let Some(piece) = split.take(CopyEnd::Front, LEN) {
            assert_eq!(piece.start, last);
            last = piece.end;
            sum += piece.len();
        }
        assert_eq!(sum + back.join().expect("back"), LEN);
    });
}

/// One side answers while the other gives up: both get the same result, and a side that gets a yes
/// sees what was written before that answer.
#[test]
fn the_first_answer_counts_for_both() {
    loom::model(|| {
        let split = Arc::new(CooperativeCopy::new());
        let written = Arc::new(loom::cell::UnsafeCell::new(0));
        let (theirs, place) = (split.clone(), written.clone());
        let peer = loom::thread::spawn(move || {
            // SAFETY: the other thread reads only after the answer: the model checks this.
            place.with_mut(|value| unsafe { *value = 1 });
            theirs.confirm(CopyEnd::Front, true);
            theirs.confirmed(CopyEnd::Front).expect("answered")
        });
        let seen = split.give_up(CopyEnd::Front);
        if seen {
            // SAFETY: the peer writes before it answers.
            written.with(|value| assert_eq!(unsafe { *value }, 1));
        }
        assert_eq!(split.confirmed(CopyEnd::Front), Some(seen));
        assert_eq!(peer.join().expect("peer"), seen);
    });
}

/// An origin that has taken all it could, and has seen that the helper took something, waits for
/// the helper's end; then it sees the helper's copies, and has the memory alone.
#[test]
fn a_finished_helper_has_copied_its_pieces() {
    const LEN: usize = 2 * PIECE_MIN as usize * UNIT;
    loom::model(|| {
        let copy = Arc::new(CooperativeCopy::new());
        let memory = Arc::new(loom::cell::UnsafeCell::new(0));
        let (theirs, place) = (copy.clone(), memory.clone());
        let helper = loom::thread::spawn(move || {
            while let Some(piece) = theirs.take(CopyEnd::Back, LEN) {
                // SAFETY: the origin accesses it after the helper's end only, if the helper has
                // taken anything: the model checks this.
                place.with_mut(|bytes| unsafe { *bytes += piece.len() });
            }
            theirs.finish();
        });
        let mut own = 0;
        while let Some(piece) = copy.take(CopyEnd::Front, LEN) {
            own += piece.len();
        }
        if copy.is_shared_with(CopyEnd::Back) {
            while !copy.is_finished() {
                loom::thread::yield_now();
            }
        }
        // SAFETY: the helper takes nothing any more.
        memory.with_mut(|bytes| assert_eq!(unsafe { *bytes } + own, LEN));
        helper.join().expect("helper");
    });
}
