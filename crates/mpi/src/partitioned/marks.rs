//! A bit for each partition, which threads set without a lock.

use std::sync::atomic::{AtomicU64, Ordering};

use mica_memory::try_with_capacity;
use mica_node::lock::SoleThread;

use crate::error::Result;

/// One bit for each partition, in words of the same number of partitions each. All are set at
/// first: a request that is not active has no partition that is missing.
#[derive(Debug)]
pub(super) struct PartitionMarks {
    words: Box<[AtomicU64]>,
    /// A word has `1 << shift` partitions.
    shift: u32,
    number: usize,
}

/// What a mark has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Marked {
    /// Nothing: it was set already.
    Already,
    /// Others of its word are missing.
    Part,
    /// All of the word's partitions are marked now: this one was the last.
    Word(usize),
}

impl PartitionMarks {
    /// Bits of a word: the most partitions that it can have.
    pub const MOST: usize = u64::BITS as usize;

    /// Marks of `number` partitions, all set. A word has `each` of them, a power of two up to
    /// [`MOST`](Self::MOST).
    ///
    /// # Errors
    /// `MPI_ERR_NO_MEM`.
    pub fn new(number: usize, each: usize) -> Result<PartitionMarks> {
        debug_assert!(each.is_power_of_two() && each <= PartitionMarks::MOST);
        let words = number.div_ceil(each);
        let mut all = try_with_capacity(words)?;
        all.resize_with(words, || AtomicU64::new(u64::MAX));
        Ok(PartitionMarks { words: all.into_boxed_slice(), shift: each.ilog2(), number })
    }

    /// Takes all marks away. Bits that belong to no partition stay set.
    pub fn clear(&self) {
        let each = 1_usize << self.shift;
        for (index, word) in self.words.iter().enumerate() {
            let bits = each.min(self.number - index * each);
            // Relaxed: the program starts a request before other threads use it.
            word.store(!(u64::MAX >> (PartitionMarks::MOST - bits)), Ordering::Relaxed);
        }
    }

    /// Marks a partition.
    #[inline]
    pub fn set(&self, partition: usize) -> Marked {
        let (index, bit) = self.place(partition);
        // Release, and Acquire for the thread that completes the word: it has what each thread has
        // stored before it set its mark. Release pairs with the Acquire of `has`, too.
        let before = self.words[index].fetch_or(bit, Ordering::AcqRel);
        if before & bit != 0 {
            Marked::Already
        } else if before | bit == u64::MAX {
            Marked::Word(index)
        } else {
            Marked::Part
        }
    }

    /// Marks a partition, where others of its word are missing. False: it has done nothing.
    #[inline]
    pub fn set_alone(&self, partition: usize, _sole: &SoleThread<'_>) -> bool {
        let (index, bit) = self.place(partition);
        // Relaxed, and not one operation: no other thread is inside the library, and the program
        // orders what its threads do there one after another.
        let before = self.words[index].load(Ordering::Relaxed);
        let early = before & bit == 0 && before | bit != u64::MAX;
        if early {
            self.words[index].store(before | bit, Ordering::Relaxed);
        }
        early
    }

    /// Marks the partitions from `first` up to `end`.
    pub fn set_range(&self, first: usize, end: usize) {
        let mut next = first;
        while next < end {
            let (index, bit) = self.place(next);
            let in_word = ((index + 1) << self.shift).min(end) - next;
            let bits = (u64::MAX >> (Self::MOST - in_word)) << bit.trailing_zeros();
            // Release: as in `set`.
            self.words[index].fetch_or(bits, Ordering::Release);
            next += in_word;
        }
    }

    /// The partitions of a word that are marked, by bits; `None` if all are.
    pub fn part_of(&self, word: usize) -> Option<u64> {
        // Acquire: as in `set`.
        let bits = self.words[word].load(Ordering::Acquire);
        let each = 1_usize << self.shift;
        let of_partitions = u64::MAX >> (Self::MOST - each.min(self.number - word * each));
        (bits != u64::MAX).then_some(bits & of_partitions)
    }

    /// Whether the partition is marked.
    #[inline]
    pub fn has(&self, partition: usize) -> bool {
        let (index, bit) = self.place(partition);
        // Acquire: pairs with Release in `set_range`; the partition's bytes are there.
        self.words[index].load(Ordering::Acquire) & bit != 0
    }

    #[inline]
    fn place(&self, partition: usize) -> (usize, u64) {
        (partition >> self.shift, 1 << (partition & ((1 << self.shift) - 1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marked(marks: &PartitionMarks) -> Vec<usize> {
        (0..marks.number).filter(|&partition| marks.has(partition)).collect()
    }

    #[test]
    fn the_last_mark_of_a_word_completes_it() {
        for each in [1, 2, 8, 64] {
            for number in [0, 1, 2, 7, 8, 63, 64, 65, 130] {
                let marks = PartitionMarks::new(number, each).expect("memory");
                assert_eq!(marked(&marks).len(), number, "set at first");
                marks.clear();
                assert!(marked(&marks).is_empty());
                let mut left: Vec<usize> =
                    (0..marks.words.len()).map(|w| each.min(number - w * each)).collect();
                for partition in (0..number).rev() {
                    let word = partition / each;
                    left[word] -= 1;
                    let expected = if left[word] == 0 { Marked::Word(word) } else { Marked::Part };
                    assert_eq!(marks.set(partition), expected);
                    assert_eq!(marks.set(partition), Marked::Already);
                }
            }
        }
    }

    #[test]
    fn ranges_are_marked_across_words() {
        for each in [4, 64] {
            for (first, end) in [(0, 0), (3, 3), (0, 1), (1, 9), (60, 70), (0, 130), (64, 128)] {
                let marks = PartitionMarks::new(130, each).expect("memory");
                marks.clear();
                marks.set_range(first, end);
                assert_eq!(marked(&marks), (first..end).collect::<Vec<_>>());
            }
        }
    }
}
