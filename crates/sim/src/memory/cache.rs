//! One set-associative cache: which lines it holds, their flags, and which makes room for another.
//!
//! An entry is the address of a line, whose low bits are free for flags; 0 is an empty way. With
//! LRU, the ways of a set are in order of their last use, the empty ones last. With PLRU, a way
//! keeps its place, and each set has the nodes of a binary tree over its ways: bit n of the word
//! is node n (the root is 1, below n are 2n and 2n + 1) and says in which half the next victim
//! is, 1 for the upper. A tree over a number of ways that is no power of two lacks its last
//! leaves, and a node never points at a half without any.
//!
//! Nothing here knows of other caches or of time.

use std::mem;

use super::index::SetIndex;
use crate::machine::Replacement;

/// The entry is a line.
pub(super) const VALID: u64 = 1;
/// The line differs from the level below. In an L1 that writes through: the level below has had a
/// store of this line since it came, and is dirty or has passed it on.
pub(super) const DIRTY: u64 = 2;
/// The adapter has put the line here, and the program has not used it since.
pub(super) const INJECTED: u64 = 4;
/// The prefetcher has put the line here, and the program has not used it since.
pub(super) const PREFETCHED: u64 = 8;
/// All of them. Lines have at least 32 bytes.
pub(super) const FLAGS: u64 = 31;

/// What tells a line from others and from an empty way.
pub(super) const IDENTITY: u64 = !FLAGS | VALID;

/// A place in a cache, until the next change of its set.
#[derive(Debug, Clone, Copy)]
pub(super) struct CachePlace {
    set: usize,
    way: usize,
}

#[derive(Debug, Clone)]
pub(super) struct Cache {
    index: SetIndex,
    line_bits: u32,
    ways: usize,
    entries: Box<[u64]>,
    /// A tree for each set, with PLRU.
    trees: Box<[u32]>,
    replacement: Replacement,
}

impl Cache {
    pub(super) fn new(size: u64, ways: u32, line: u32, replacement: Replacement) -> Cache {
        let sets = size / (u64::from(ways) * u64::from(line));
        let trees = match replacement {
            Replacement::Lru => 0,
            Replacement::Plru => sets as usize,
        };
        Cache {
            index: SetIndex::new(sets),
            line_bits: line.trailing_zeros(),
            ways: ways as usize,
            entries: vec![0; sets as usize * ways as usize].into(),
            trees: vec![0; trees].into(),
            replacement,
        }
    }

    fn set_of(&self, line: u64) -> usize {
        self.index.of(line >> self.line_bits)
    }

    fn set(&self, set: usize) -> &[u64] {
        &self.entries[set * self.ways..][..self.ways]
    }

    fn set_mut(&mut self, set: usize) -> &mut [u64] {
        &mut self.entries[set * self.ways..][..self.ways]
    }

    /// Where the line is.
    pub(super) fn find(&self, line: u64) -> Option<CachePlace> {
        let set = self.set_of(line);
        let way = self.set(set).iter().position(|entry| entry & IDENTITY == line | VALID)?;
        Some(CachePlace { set, way })
    }

    pub(super) fn holds(&self, line: u64) -> bool {
        self.find(line).is_some()
    }

    pub(super) fn entry(&self, slot: CachePlace) -> u64 {
        self.set(slot.set)[slot.way]
    }

    pub(super) fn raise(&mut self, slot: CachePlace, flags: u64) {
        self.set_mut(slot.set)[slot.way] |= flags;
    }

    pub(super) fn clear(&mut self, slot: CachePlace, flags: u64) {
        self.set_mut(slot.set)[slot.way] &= !flags;
    }

    /// The line is used, if it is here: takes the flags `clear` from it and raises `raise`.
    /// Returns its entry from before.
    pub(super) fn access(&mut self, line: u64, raise: u64, clear: u64) -> Option<u64> {
        let set = self.set_of(line);
        let lru = self.replacement == Replacement::Lru;
        let entries = self.set_mut(set);
        let way = entries.iter().position(|entry| entry & IDENTITY == line | VALID)?;
        let before = entries[way];
        let after = before & !clear | raise;
        if lru {
            shift_up(entries, way);
            entries[0] = after;
        } else {
            entries[way] = after;
            self.point_away(set, way);
        }
        Some(before)
    }

    /// Puts a line, which is not here, in, as if it were used. Returns the entry that made room, 0
    /// if none had to.
    pub(super) fn insert(&mut self, line: u64, flags: u64) -> u64 {
        let set = self.set_of(line);
        let way = match self.replacement {
            Replacement::Lru => self.ways - 1,
            Replacement::Plru => self.victim(set),
        };
        let evicted = mem::replace(&mut self.set_mut(set)[way], line | flags | VALID);
        match self.replacement {
            Replacement::Lru => {
                shift_up(self.set_mut(set), way);
                self.set_mut(set)[0] = line | flags | VALID;
            }
            Replacement::Plru => self.point_away(set, way),
        }
        evicted
    }

    /// Takes a line out. Returns its entry, 0 if it is not here.
    pub(super) fn remove(&mut self, line: u64) -> u64 {
        let Some(slot) = self.find(line) else { return 0 };
        let lru = self.replacement == Replacement::Lru;
        let set = self.set_mut(slot.set);
        let entry = mem::take(&mut set[slot.way]);
        if lru {
            set.copy_within(slot.way + 1.., slot.way);
            set[set.len() - 1] = 0;
        }
        entry
    }

    /// All entries with lines.
    #[cfg(test)]
    pub(super) fn lines(&self) -> impl Iterator<Item = u64> {
        self.entries.iter().copied().filter(|&entry| entry != 0)
    }

    fn leaves(&self) -> usize {
        self.ways.next_power_of_two()
    }

    /// Makes the nodes above a way point at their other halves.
    fn point_away(&mut self, set: usize, way: usize) {
        let leaves = self.leaves();
        let tree = &mut self.trees[set];
        let mut node = leaves + way;
        while node > 1 {
            let lower = node & 1 == 0;
            node >>= 1;
            if lower { *tree |= 1 << node } else { *tree &= !(1 << node) }
        }
    }

    /// An empty way, or the one that the tree points at.
    fn victim(&self, set: usize) -> usize {
        if let Some(way) = self.set(set).iter().position(|&entry| entry == 0) {
            return way;
        }
        let tree = self.trees[set];
        let mut node = 1;
        let mut first = 0;
        let mut half = self.leaves() / 2;
        while half > 0 {
            let upper = tree >> node & 1 == 1 && first + half < self.ways;
            node = 2 * node + usize::from(upper);
            first += if upper { half } else { 0 };
            half /= 2;
        }
        first
    }
}

/// Makes room at the front of a set for the entry at `way`. Sets are short: a loop beats a call.
fn shift_up(entries: &mut [u64], way: usize) {
    for n in (0..way).rev() {
        entries[n + 1] = entries[n];
    }
}
