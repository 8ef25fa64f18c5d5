//! [`PlacementLine`]: where a target's memory lies since its pages were migrated, for the origins
//! that have opened it by address (docs/design/windows.md).
//!
//! The target writes it once, in the life of the window; an origin that has seen it opens the
//! memory anew, and reaches it by loads and stores from then on.

use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// See the module. Zeroed memory announces nothing.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct PlacementLine {
    is_announced: AtomicU32,
    words: [AtomicU64; 2],
}

impl PlacementLine {
    /// Says by which words peers open the memory. The target alone calls it, and once.
    pub fn announce(&self, words: [u64; 2]) {
        for (at, word) in self.words.iter().zip(words) {
            at.store(word, Ordering::Relaxed);
        }
        // SYNC placement: pairs with the Acquire load in `announced`.
        self.is_announced.store(1, Ordering::Release);
    }

    /// What the target has announced.
    #[inline]
    pub fn announced(&self) -> Option<[u64; 2]> {
        // SYNC placement
        let is_announced = self.is_announced.load(Ordering::Acquire) != 0;
        is_announced.then(|| self.words.each_ref().map(|word| word.load(Ordering::Relaxed)))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn zeroed_memory_announces_nothing() {
        let line = PlacementLine {
            is_announced: AtomicU32::new(0),
            words: [AtomicU64::new(0), AtomicU64::new(0)],
        };
        assert_eq!(line.announced(), None);
        line.announce([7, 0]);
        assert_eq!(line.announced(), Some([7, 0]));
    }
}
