//! A hash table of one thread in the records' memory: open addressing, keys of two words, entries
//! that are only added. It grows at half its capacity, so that a probe ends soon.
//!
//! Whoever reads the file finds the entries by the table's word, which is stored when they are
//! complete. An entry whose key begins with 0 is free, as all memory is at first, so the first word
//! of a key is kept plus 1.

use std::sync::atomic::{AtomicU64, Ordering};

use mica_profile::rank_tables::{TotalsEntry, packed_table};

use crate::memory::{self, Record};

/// What is looked up: two numbers, of which the first is not `u64::MAX`.
pub type Key = (u64, u64);

/// Entries when the first is added.
const FIRST_CAPACITY: usize = 16;

/// The table.
pub struct RecordTable<V: Record> {
    entries: &'static mut [TotalsEntry<V>],
    used: usize,
    /// Where a reader of the file finds the entries.
    word: &'static AtomicU64,
}

// SAFETY: a key of zeros is a free entry, and `V` may be zero.
unsafe impl<V: Record> Record for TotalsEntry<V> {}

impl<V: Record> RecordTable<V> {
    /// An empty one, without memory.
    pub fn new(word: &'static AtomicU64) -> RecordTable<V> {
        RecordTable { entries: &mut [], used: 0, word }
    }

    /// Where the value of a key is, if there is one; holds until an entry is added.
    #[inline]
    pub fn find(&self, key: Key) -> Option<usize> {
        if self.entries.is_empty() {
            return None;
        }
        let key = stored(key);
        let place = self.place(key);
        (self.entries[place].key == key).then_some(place)
    }

    /// Where the value of a key is, zero if it is new; holds until an entry is added. `None` if
    /// there is no memory.
    #[inline]
    pub fn find_or_add(&mut self, key: Key) -> Option<usize> {
        if self.used * 2 >= self.entries.len() {
            self.grow()?;
        }
        let key = stored(key);
        let place = self.place(key);
        let found = &mut self.entries[place].key;
        if *found != key {
            *found = key;
            self.used += 1;
        }
        Some(place)
    }

    /// The value at a place that was found.
    #[inline]
    pub fn at(&mut self, place: usize) -> &mut V {
        &mut self.entries[place].value
    }

    /// The value of a key, zero if it is new.
    #[inline]
    pub fn entry(&mut self, key: Key) -> Option<&mut V> {
        let place = self.find_or_add(key)?;
        Some(self.at(place))
    }

    /// Where the key is or would be.
    #[inline]
    fn place(&self, key: [u64; 2]) -> usize {
        let mask = self.entries.len() - 1;
        let mixed = (key[0] ^ key[1].rotate_left(29)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut place = (mixed >> 32) as usize & mask;
        while self.entries[place].key != key && self.entries[place].key[0] != 0 {
            place = (place + 1) & mask;
        }
        place
    }

    #[cold]
    fn grow(&mut self) -> Option<()> {
        let capacity = (self.entries.len() * 2).max(FIRST_CAPACITY);
        let (offset, entries) = memory::allocate_records(capacity)?;
        let old = std::mem::replace(&mut self.entries, entries);
        for entry in old.iter().filter(|entry| entry.key[0] != 0) {
            let place = self.place(entry.key);
            self.entries[place] = *entry;
        }
        // Release: the entries before the word that leads to them.
        self.word.store(packed_table(offset, capacity.ilog2()), Ordering::Release);
        Some(())
    }
}

/// A key as it is kept.
#[inline]
fn stored(key: Key) -> [u64; 2] {
    [key.0 + 1, key.1]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::tests::thread_head;
    use mica_profile::rank_tables::MessageTotals;

    #[test]
    fn keeps_all_keys_while_it_grows_and_a_reader_finds_them() {
        let (head, number) = thread_head();
        let mut table: RecordTable<MessageTotals> = RecordTable::new(&head.blocks);
        assert!(table.find((1, 1)).is_none());
        for round in 0..3 {
            for i in 0..1000 {
                table.entry((i % 10, i << 4)).expect("memory").bytes += i + round;
            }
        }
        for i in 0..1000 {
            assert_eq!(table.at(table.find((i % 10, i << 4)).expect("an entry")).bytes, 3 * i + 3);
        }
        assert!(table.find((11, 0)).is_none());
        let read = crate::memory::tests::read_thread(number).blocks;
        assert_eq!(read.len(), 1000);
        assert!(read.iter().all(|(key, sum)| sum.bytes == 3 * (key[1] >> 4) + 3));
    }
}
