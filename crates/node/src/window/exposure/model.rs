//! loom model: over two epochs, the origin has the target's memory between post and complete, the
//! target has it else, and none sleeps through the other's step. And the target finds the puts that
//! an origin leaves which runs ahead of it, each in its epoch.

use crate::park::{Fencing, ParkingSpot};
use crate::sync::UnsafeCell;
use crate::window::*;
use loom::sync::Arc;

struct Shared {
    posts: Vec<PostLine>,
    completions: Vec<CompletionLine>,
    spots: [ParkingSpot; 2],
    memory: UnsafeCell<u32>,
}
// SAFETY: the board under test orders the accesses; loom reports a violation.
unsafe impl Sync for Shared {}

impl Shared {
    fn new() -> Shared {
        Shared {
            posts: (0..ExposureBoard::post_lines(2)).map(|_| PostLine::new()).collect(),
            completions: (0..ExposureBoard::completion_lines(2))
                .map(|_| CompletionLine::new())
                .collect(),
            spots: [ParkingSpot::default(), ParkingSpot::default()],
            memory: UnsafeCell::new(0),
        }
    }

    fn board(&self) -> ExposureBoard<'_> {
        ExposureBoard::new(&self.posts, &self.completions, 2)
    }

    fn wake(&self, rank: u32) {
        self.spots[rank as usize].wake(Fencing::Sender);
    }

    fn wait(&self, rank: usize, mut ready: impl FnMut() -> bool) {
        while !ready() {
            self.spots[rank].park(Fencing::Sender, None, &mut ready);
        }
    }

    fn add(&self) {
        // SAFETY: the epoch gives the memory to the caller alone: the model checks this.
        self.memory.with_mut(|memory| unsafe { *memory += 1 });
    }
}

#[test]
fn memory_changes_hands_over_two_epochs() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let shared = Arc::new(Shared::new());
        let theirs = shared.clone();
        let origin = loom::thread::spawn(move || {
            let mut counts = theirs.board().counts(1);
            for _ in 0..2 {
                counts.start(&[0]);
                theirs.wait(1, || counts.is_posted(0));
                theirs.add();
                counts.complete(&[0], |rank| theirs.wake(rank));
            }
        });
        let mut counts = shared.board().counts(0);
        for _ in 0..2 {
            shared.add();
            counts.post(&[1], |rank| shared.wake(rank));
            shared.wait(0, || counts.is_complete(1));
        }
        shared.add();
        origin.join().expect("origin");
        // SAFETY: no other thread is left.
        assert_eq!(shared.memory.with(|memory| unsafe { *memory }), 5);
    });
}

#[test]
fn puts_that_run_ahead_are_found_in_their_epoch() {
    let put = |epoch: u8| BufferedPut {
        offset: epoch.into(),
        bytes: BUFFERED_PUT,
        data: [epoch; BUFFERED_PUT],
    };
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(move || {
        let shared = Arc::new(Shared::new());
        let theirs = shared.clone();
        let origin = loom::thread::spawn(move || {
            let mut counts = theirs.board().counts(1);
            for epoch in 1..=3 {
                counts.start(&[0]);
                // The third uses the words of the first again.
                theirs.wait(1, || counts.may_run_ahead(0));
                assert!(counts.buffer_put(0, &put(epoch)));
                counts.complete(&[0], |rank| theirs.wake(rank));
            }
        });
        let mut counts = shared.board().counts(0);
        for epoch in 1..=3 {
            counts.post(&[1], |rank| shared.wake(rank));
            shared.wait(0, || counts.is_complete(1));
            assert_eq!(counts.take_completion(1), Some(put(epoch)));
        }
        origin.join().expect("origin");
    });
}
