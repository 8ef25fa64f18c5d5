//! loom model: the owner reuses a cell only after the receiver's last read.

use super::*;
use crate::sync::UnsafeCell;
use loom::sync::Arc;

struct Shared {
    marks: [AtomicU32; 1],
    announced: AtomicU32,
    data: UnsafeCell<u32>,
}
// SAFETY: the model under test orders the accesses; loom reports it when it does not.
unsafe impl Sync for Shared {}

#[test]
fn a_cell_is_rewritten_only_after_it_was_read() {
    loom::model(|| {
        let shared = Arc::new(Shared {
            marks: [AtomicU32::new(0)],
            announced: AtomicU32::new(0),
            data: UnsafeCell::new(0),
        });
        let theirs = shared.clone();
        let receiver = loom::thread::spawn(move || {
            for round in 1..=2 {
                while theirs.announced.load(Ordering::Acquire) < round {
                    loom::thread::yield_now();
                }
                // SAFETY: announced and not yet marked free.
                theirs.data.with(|d| assert_eq!(unsafe { *d }, round));
                Marks::new(&theirs.marks[..]).free(0);
            }
        });
        let mut pool = CellPool::new(&shared.marks[..], 0);
        for round in 1..=2 {
            while pool.take(0, 1).is_none() {
                loom::thread::yield_now();
            }
            // SAFETY: the pool gave us the cell.
            shared.data.with_mut(|d| unsafe { *d = round });
            shared.announced.store(round, Ordering::Release);
        }
        receiver.join().expect("receiver");
    });
}
