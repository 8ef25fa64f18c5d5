//! A hash table of one thread: open addressing, keys of two words, entries that are only added.
//! It grows at half its capacity, so that a probe ends soon.

/// What is looked up: two numbers, of which the first is not `u64::MAX`.
pub type Key = (u64, u64);

const FREE: Key = (u64::MAX, 0);

/// Entries when the first is added.
const FIRST_CAPACITY: usize = 64;

/// The table.
pub struct RecordTable<V> {
    entries: Vec<(Key, V)>,
    used: usize,
}

impl<V: Default> RecordTable<V> {
    /// An empty one, without memory.
    pub const fn new() -> RecordTable<V> {
        RecordTable { entries: Vec::new(), used: 0 }
    }

    /// Where the value of a key is, if there is one; holds until an entry is added.
    #[inline]
    pub fn find(&self, key: Key) -> Option<usize> {
        if self.entries.is_empty() {
            return None;
        }
        let place = self.place(key);
        (self.entries[place].0 == key).then_some(place)
    }

    /// Where the value of a key is, the default if it is new; holds until an entry is added.
    #[inline]
    pub fn find_or_add(&mut self, key: Key) -> usize {
        if self.used * 2 >= self.entries.len() {
            self.grow();
        }
        let place = self.place(key);
        let found = &mut self.entries[place].0;
        if *found != key {
            *found = key;
            self.used += 1;
        }
        place
    }

    /// The value at a place that was found.
    #[inline]
    pub fn at(&mut self, place: usize) -> &mut V {
        &mut self.entries[place].1
    }

    /// The value of a key, the default if it is new.
    #[inline]
    pub fn entry(&mut self, key: Key) -> &mut V {
        let place = self.find_or_add(key);
        self.at(place)
    }

    /// All entries.
    pub fn iter(&self) -> impl Iterator<Item = (Key, &V)> {
        self.entries.iter().filter(|(key, _)| *key != FREE).map(|(key, value)| (*key, value))
    }

    /// Where the key is or would be.
    #[inline]
    fn place(&self, key: Key) -> usize {
        let mask = self.entries.len() - 1;
        let mixed = (key.0 ^ key.1.rotate_left(29)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut place = (mixed >> 32) as usize & mask;
        while self.entries[place].0 != key && self.entries[place].0 != FREE {
            place = (place + 1) & mask;
        }
        place
    }

    #[cold]
    fn grow(&mut self) {
        let capacity = (self.entries.len() * 2).max(FIRST_CAPACITY);
        let free = || (FREE, V::default());
        let old = std::mem::replace(
            &mut self.entries,
            std::iter::repeat_with(free).take(capacity).collect(),
        );
        for (key, value) in old {
            if key != FREE {
                let place = self.place(key);
                self.entries[place] = (key, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_all_keys_while_it_grows() {
        let mut table: RecordTable<u64> = RecordTable::new();
        assert!(table.find((1, 1)).is_none());
        for round in 0..3 {
            for i in 0..1000 {
                *table.entry((i % 10, i << 4)) += i + round;
            }
        }
        assert_eq!(table.iter().count(), 1000);
        for i in 0..1000 {
            let place = table.find((i % 10, i << 4)).expect("an entry");
            assert_eq!(*table.at(place), 3 * i + 3);
        }
        assert!(table.find((11, 0)).is_none());
    }
}
