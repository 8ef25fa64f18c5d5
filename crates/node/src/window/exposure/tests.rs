use crate::park::{Fencing, ParkingSpot};
use crate::window::forked;
use crate::window::*;
use std::sync::atomic::{AtomicU32, Ordering};

const RANKS: u32 = 4;
const POST_LINES: usize = 4;
const COMPLETION_LINES: usize = 32;
const EPOCHS: u32 = if cfg!(miri) { 10 } else { 1000 };

/// A board, where ranks sleep, and a word of each pair: what the origin writes at the target.
/// Valid when zeroed.
struct Shared {
    posts: [PostLine; POST_LINES],
    completions: [CompletionLine; COMPLETION_LINES],
    spots: [ParkingSpot; RANKS as usize],
    words: [[AtomicU32; RANKS as usize]; RANKS as usize],
    is_broken: AtomicU32,
}

impl Shared {
    fn new() -> Shared {
        Shared {
            posts: std::array::from_fn(|_| PostLine::new()),
            completions: std::array::from_fn(|_| CompletionLine::new()),
            spots: std::array::from_fn(|_| ParkingSpot::default()),
            words: std::array::from_fn(|_| std::array::from_fn(|_| AtomicU32::new(0))),
            is_broken: AtomicU32::new(0),
        }
    }

    fn board(&self) -> ExposureBoard<'_> {
        ExposureBoard::new(&self.posts, &self.completions, RANKS)
    }

    fn wake(&self, rank: u32) {
        self.spots[rank as usize].wake(Fencing::Sender);
    }

    fn wait(&self, rank: u32, mut ready: impl FnMut() -> bool) {
        while !ready() {
            self.spots[rank as usize].park(Fencing::Sender, None, &mut ready);
        }
    }

    /// As [`run`](Self::run), with a put to each target that is left to it wherever that can be.
    fn run_ahead(&self, counts: &mut EpochCounts, me: u32, others: &[u32]) {
        let relaxed = Ordering::Relaxed;
        for epoch in 1..=EPOCHS {
            counts.post(others, |rank| self.wake(rank));
            counts.start(others);
            for &target in others {
                if !counts.buffer_put(target, &put_of(me, epoch)) {
                    self.wait(me, || counts.is_posted(target));
                    self.words[target as usize][me as usize].store(epoch, relaxed);
                }
            }
            for &target in others {
                self.wait(me, || counts.may_run_ahead(target));
            }
            counts.complete(others, |rank| self.wake(rank));
            for &origin in others {
                self.wait(me, || counts.is_complete(origin));
                let stored = self.words[me as usize][origin as usize].swap(0, relaxed);
                let is_right = match counts.take_completion(origin) {
                    Some(put) => put == put_of(origin, epoch) && stored == 0,
                    None => stored == epoch,
                };
                if !is_right {
                    self.is_broken.store(epoch, relaxed);
                }
            }
        }
    }

    /// Each rank exposes to all others and accesses all others, many times. The target checks what
    /// the origins wrote and changes it before it posts again.
    fn run(&self, counts: &mut EpochCounts, me: u32, others: &[u32]) {
        let relaxed = Ordering::Relaxed;
        for epoch in 1..=EPOCHS {
            counts.post(others, |rank| self.wake(rank));
            counts.start(others);
            for &target in others {
                self.wait(me, || counts.is_posted(target));
                let word = &self.words[target as usize][me as usize];
                if word.load(relaxed) != 0 {
                    self.is_broken.store(epoch, relaxed);
                }
                word.store(epoch, relaxed);
            }
            counts.complete(others, |rank| self.wake(rank));
            for &origin in others {
                self.wait(me, || counts.is_complete(origin));
                if self.words[me as usize][origin as usize].swap(0, relaxed) != epoch {
                    self.is_broken.store(epoch, relaxed);
                }
            }
        }
    }
}

fn others(me: u32) -> Vec<u32> {
    (0..RANKS).filter(|&rank| rank != me).collect()
}

/// A put that tells origin and epoch.
fn put_of(origin: u32, epoch: u32) -> BufferedPut {
    BufferedPut {
        offset: u64::from(origin) << 32 | u64::from(epoch),
        bytes: 1 + epoch as usize % BUFFERED_PUT,
        data: [epoch as u8; BUFFERED_PUT],
    }
}

fn in_threads(run: impl Fn(&Shared, &mut EpochCounts, u32, &[u32]) + Sync) {
    let shared = Shared::new();
    std::thread::scope(|scope| {
        for me in 0..RANKS {
            let (shared, run) = (&shared, &run);
            scope.spawn(move || run(shared, &mut shared.board().counts(me), me, &others(me)));
        }
    });
    assert_eq!(shared.is_broken.load(Ordering::Relaxed), 0, "broken epoch");
}

#[test]
fn threads_see_each_others_epochs() {
    in_threads(Shared::run);
}

#[test]
fn puts_that_run_ahead_arrive_in_their_epoch() {
    in_threads(Shared::run_ahead);
}

#[test]
fn an_origin_runs_ahead_by_one_epoch_and_one_put() {
    let shared = Shared::new();
    let [mut target, mut origin] = [0, 1].map(|rank| shared.board().counts(rank));
    let put = put_of(1, 1);
    assert!(!origin.buffer_put(0, &put), "no epoch");
    origin.start(&[0]);
    assert!(origin.may_run_ahead(0) && !origin.is_posted(0));
    assert!(origin.buffer_put(0, &put));
    assert!(!origin.buffer_put(0, &put), "a second one");
    origin.complete(&[0], |_| ());
    assert!(!origin.buffer_put(0, &put), "the epoch is over");
    origin.start(&[0]);
    assert!(!origin.may_run_ahead(0) && !origin.buffer_put(0, &put));
    target.post(&[1], |_| ());
    // The second epoch is ahead of the target now, which has not looked at the first.
    assert!(origin.may_run_ahead(0) && !origin.is_posted(0));
    origin.complete(&[0], |_| ());
    assert!(target.is_complete(1));
    assert_eq!(target.take_completion(1), Some(put));
    target.post(&[1], |_| ());
    assert!(target.is_complete(1));
    assert_eq!(target.take_completion(1), None);
}

#[test]
fn counts_wrap() {
    let shared = Shared::new();
    let [mut target, mut origin] = [0, 1].map(|rank| shared.board().counts(rank));
    target.begin_at(1, u32::MAX - 4);
    origin.begin_at(0, u32::MAX - 4);
    for epoch in 1..=6 {
        origin.start(&[0]);
        assert!(origin.buffer_put(0, &put_of(1, epoch)));
        target.post(&[1], |_| ());
        assert!(origin.is_posted(0) && !target.is_complete(1));
        origin.complete(&[0], |_| ());
        assert!(target.is_complete(1));
        assert_eq!(target.take_completion(1), Some(put_of(1, epoch)));
    }
}

#[test]
#[cfg_attr(miri, ignore = "Miri has no fork")]
fn processes_see_each_others_epochs() {
    // SAFETY: all of it is valid when zeroed, as its documentation says.
    let shared: &'static Shared = unsafe { forked::shared() };
    let ranks: Vec<_> = (0..RANKS)
        .map(|me| {
            // Allocated before the fork.
            let (mut counts, others) = (shared.board().counts(me), others(me));
            forked::fork(|| shared.run(&mut counts, me, &others))
        })
        .collect();
    forked::join(&ranks);
    assert_eq!(shared.is_broken.load(Ordering::Relaxed), 0, "broken epoch");
}

#[test]
fn an_epoch_is_open_from_post_to_complete_and_wakes_its_peers() {
    let shared = Shared::new();
    let [mut target, mut origin] = [0, 1].map(|rank| shared.board().counts(rank));
    for _ in 0..3 {
        let mut woken = Vec::new();
        origin.start(&[0]);
        assert!(!origin.is_posted(0));
        target.post(&[1, 2], |rank| woken.push(rank));
        assert!(origin.is_posted(0) && !target.is_complete(1));
        origin.complete(&[0], |rank| woken.push(rank));
        assert!(target.is_complete(1) && !target.is_complete(2));
        assert_eq!(woken, [1, 2, 0]);
        let mut second = shared.board().counts(2);
        // Rank 2 catches up from where the board is.
        while !target.is_complete(2) {
            second.start(&[0]);
            if second.is_posted(0) {
                second.complete(&[0], |_| ());
            }
        }
    }
}

#[test]
fn counts_of_many_ranks_are_apart() {
    const MANY: u32 = 37;
    let posts: Vec<_> = (0..ExposureBoard::post_lines(MANY)).map(|_| PostLine::new()).collect();
    let completions: Vec<_> =
        (0..ExposureBoard::completion_lines(MANY)).map(|_| CompletionLine::new()).collect();
    let board = ExposureBoard::new(&posts, &completions, MANY);
    let mut origins: Vec<_> = (0..MANY).map(|me| board.counts(me)).collect();
    for target in 0..MANY {
        let others: Vec<u32> = (0..MANY).filter(|&rank| rank != target).collect();
        for &origin in &others {
            origins[origin as usize].start(&[target]);
            assert!(!origins[origin as usize].is_posted(target));
        }
        origins[target as usize].post(&others, |_| ());
        for &origin in &others {
            assert!(origins[origin as usize].is_posted(target));
            assert!(!origins[target as usize].is_complete(origin));
            origins[origin as usize].complete(&[target], |_| ());
            assert!(origins[target as usize].is_complete(origin));
        }
    }
}
