//! An L1: a cache whose hits cost the simulator as little as possible.
//!
//! A way has its entry (as in [`super::cache`]) and the number of the use that was its last. Uses
//! of an L1 are numbered from 1, so a hit writes one number, whichever way it is and whatever the
//! replacement; the order is looked at only when a way must make room. With LRU the victim has the
//! lowest number. With PLRU a node of the tree points away from the half that was used last, which
//! is the half with the highest number: the numbers contain the tree. A way keeps its number when
//! its line is taken out, since a tree does not change then either.
//!
//! Where a line is, is guessed before it is searched for: `guesses` has, for a hash of the line,
//! the place where such a line was last. A guess is checked against the way's entry, so it may be
//! wrong, and nothing has to correct it when a line leaves. Instructions bring a guess of their own
//! ([`FetchLine`]).

use super::cache::{DIRTY, FLAGS, IDENTITY, INJECTED, PREFETCHED, VALID};
use crate::machine::Replacement;

/// Places that are guessed: more than lines of today's L1s, and 4 KB of the host's own L1.
const GUESSES: usize = 2048;
/// Spreads lines over the guesses, rows of matrices as well (2^64 / the golden ratio).
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// A line of instructions that is fetched again and again, and where the L1 had it last.
#[derive(Debug, Clone, Copy)]
pub struct FetchLine {
    /// The line's address with [`VALID`] and [`DIRTY`].
    key: u64,
    way: usize,
}

impl FetchLine {
    /// The line at this address.
    pub fn new(address: u64) -> FetchLine {
        FetchLine { key: address & !FLAGS | VALID | DIRTY, way: 0 }
    }

    /// Its address.
    pub fn address(&self) -> u64 {
        self.key & !FLAGS
    }

    pub(super) fn key(&self) -> u64 {
        self.key
    }
}

/// When a set used a line, among its lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UseOrder {
    /// It was the last that the set used.
    Last,
    /// The set has used another since.
    Earlier,
}

#[derive(Debug, Clone, Copy, Default)]
struct Way {
    entry: u64,
    /// Number of its last use; 0 if there was none.
    used: u64,
}

#[derive(Debug, Clone)]
pub(super) struct L1 {
    /// Set by set.
    ways: Box<[Way]>,
    ways_of_set: usize,
    sets: usize,
    line_bits: u32,
    replacement: Replacement,
    /// Number of the last use.
    uses: u64,
    /// How many of them were not hits by the fast path.
    other_uses: u64,
    /// The fast path takes lines that were used after this use; 0: all.
    watched_after: u64,
    guesses: Box<[u16; GUESSES]>,
}

impl L1 {
    pub(super) fn new(size: u64, ways: u32, line: u32, replacement: Replacement) -> L1 {
        let sets = size / (u64::from(ways) * u64::from(line));
        assert!(sets.is_power_of_two());
        L1 {
            ways: vec![Way::default(); (sets * u64::from(ways)) as usize].into(),
            ways_of_set: ways as usize,
            sets: sets as usize,
            line_bits: line.trailing_zeros(),
            replacement,
            uses: 0,
            other_uses: 0,
            watched_after: 0,
            guesses: Box::new([0; GUESSES]),
        }
    }

    // The fast path.

    /// Uses the line with this key if it is where it is guessed, its `entry | spare` equals the
    /// key, `blocked` is 0, and the order of uses is not [watched](Self::watch_order) or the line
    /// was used since. Nothing else of the node changes by that.
    #[inline(always)]
    pub(super) fn hit(&mut self, key: u64, spare: u64, blocked: u64) -> bool {
        let guess = usize::from(self.guesses[guess_of(key)]);
        self.hit_at(guess, spare, key, blocked, self.watched_after)
    }

    /// As [`hit`](Self::hit), for a line of instructions.
    #[inline(always)]
    pub(super) fn hit_fetch(&mut self, line: &FetchLine) -> bool {
        self.hit_at(line.way, DIRTY, line.key, 0, self.watched_after)
    }

    /// A way with an entry has been used, so its number is above 0.
    #[inline(always)]
    fn hit_at(&mut self, place: usize, spare: u64, key: u64, blocked: u64, after: u64) -> bool {
        let Some(way) = self.ways.get_mut(place) else { return false };
        let hit = ((way.entry | spare) ^ key | blocked == 0) & (way.used > after);
        if hit {
            self.uses += 1;
            way.used = self.uses;
        }
        hit
    }

    /// Hits by the fast path.
    pub(super) fn hits(&self) -> u64 {
        self.uses - self.other_uses
    }

    // Everything else.

    /// From now on, the fast path refuses the first hit of each line, for which
    /// [`hit_and_order`](Self::hit_and_order) says whether its set had used another line since. The
    /// caller stops watching at the first that had, and before a line comes or goes. So while it
    /// watches, a set uses one line at most, and further hits of that line need no look.
    pub(super) fn watch_order(&mut self) {
        self.watched_after = self.uses;
    }

    /// The fast path takes all hits again.
    #[inline]
    pub(super) fn stop_watching(&mut self) {
        self.watched_after = 0;
    }

    /// As [`hit`](Self::hit) where nothing blocks, and without a guess: `None` if it does not hit,
    /// else whether the set used another line since the line's last use.
    #[inline]
    pub(super) fn hit_and_order(&mut self, line: u64, spare: u64, key: u64) -> Option<UseOrder> {
        let guess = usize::from(self.guesses[guess_of(key)]);
        let place = match self.ways.get(guess) {
            Some(way) if way.entry | FLAGS == key | FLAGS => guess,
            _ => self.find(line)?,
        };
        let used = self.ways[place].used;
        let set = &self.ways[self.first_of(line)..][..self.ways_of_set];
        let order = match set.iter().any(|way| way.used > used) {
            true => UseOrder::Earlier,
            false => UseOrder::Last,
        };
        let hit = self.hit_at(place, spare, key, 0, 0);
        self.other_uses += u64::from(hit);
        hit.then_some(order)
    }

    /// Lets the next fetch find the line at once.
    pub(super) fn point(&self, line: &mut FetchLine) {
        line.way = self.find(line.address()).unwrap_or(0);
    }

    /// The line is used, if it is here; raises `flags`. Returns its entry from before.
    #[inline]
    pub(super) fn access(&mut self, line: u64, flags: u64) -> Option<u64> {
        let place = self.find(line)?;
        let before = self.ways[place].entry;
        self.put(place, before & !(INJECTED | PREFETCHED) | flags);
        Some(before)
    }

    /// Puts a line in, which is not here. Returns the entry that made room, or 0.
    #[inline]
    pub(super) fn insert(&mut self, line: u64, flags: u64) -> u64 {
        let first = self.first_of(line);
        let place = first + self.victim(&self.ways[first..][..self.ways_of_set]);
        let evicted = self.ways[place].entry;
        self.put(place, line | flags | VALID);
        evicted
    }

    /// Takes a line out. Returns its entry, or 0.
    pub(super) fn remove(&mut self, line: u64) -> u64 {
        let place = self.find(line);
        place.map_or(0, |place| std::mem::take(&mut self.ways[place].entry))
    }

    /// The next store of this line has to go to the level below again.
    pub(super) fn clean(&mut self, line: u64) {
        if let Some(place) = self.find(line) {
            self.ways[place].entry &= !DIRTY;
        }
    }

    /// Whether the line is here.
    pub(super) fn holds(&self, line: u64) -> bool {
        self.find(line).is_some()
    }

    /// Takes all lines out.
    pub(super) fn empty(&mut self) {
        self.ways.fill(Way::default());
    }

    /// All entries with lines, those of a set in order of their last use with LRU.
    pub(super) fn lines(&self) -> Vec<u64> {
        let mut ways = self.ways.to_vec();
        if self.replacement == Replacement::Lru {
            for set in ways.chunks_mut(self.ways_of_set) {
                set.sort_by_key(|way| std::cmp::Reverse(way.used));
            }
        }
        ways.into_iter().map(|way| way.entry).filter(|&entry| entry != 0).collect()
    }

    /// Index of the first way of the set of this address.
    #[inline]
    fn first_of(&self, address: u64) -> usize {
        let set = (address >> self.line_bits) as usize & (self.sets - 1);
        set * self.ways_of_set
    }

    #[inline]
    fn find(&self, line: u64) -> Option<usize> {
        let first = self.first_of(line);
        let set = &self.ways[first..][..self.ways_of_set];
        Some(first + set.iter().position(|way| way.entry & IDENTITY == line | VALID)?)
    }

    /// The way has this entry, and is used.
    #[inline]
    fn put(&mut self, place: usize, entry: u64) {
        self.uses += 1;
        self.other_uses += 1;
        self.ways[place] = Way { entry, used: self.uses };
        // A guess that does not fit is wrong and found so.
        self.guesses[guess_of(entry & !FLAGS | VALID | DIRTY)] = place as u16;
    }

    /// An empty way of a set, or the one that its replacement says.
    #[inline]
    fn victim(&self, set: &[Way]) -> usize {
        if let Some(empty) = set.iter().position(|way| way.entry == 0) {
            return empty;
        }
        match self.replacement {
            Replacement::Lru => {
                set.iter().enumerate().min_by_key(|(_, way)| way.used).map_or(0, |(way, _)| way)
            }
            Replacement::Plru => tree_victim(set),
        }
    }
}

/// The guess for a line, by its key: address, [`VALID`] and [`DIRTY`].
#[inline(always)]
fn guess_of(key: u64) -> usize {
    (key.wrapping_mul(SPREAD) >> (64 - GUESSES.ilog2())) as usize
}

/// Goes down the tree of a full set, away from what was used last.
fn tree_victim(set: &[Way]) -> usize {
    let last = |ways: &[Way]| ways.iter().map(|way| way.used).max().unwrap_or(0);
    let mut first = 0;
    let mut half = set.len().next_power_of_two() / 2;
    while half > 0 {
        let middle = (first + half).min(set.len());
        let end = (first + 2 * half).min(set.len());
        // A half without ways was never used and is not for a victim.
        if middle < end && last(&set[first..middle]) > last(&set[middle..end]) {
            first = middle;
        }
        half /= 2;
    }
    first
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::cache::{Cache, DIRTY, VALID};
    use super::L1;
    use crate::machine::Replacement;

    const LINE: u64 = 64;

    proptest! {
        /// [`Cache`] keeps an order or a tree in every set.
        #[test]
        fn hits_misses_and_victims_are_those_of_a_cache(
            ways in 1_u32..9,
            is_lru: bool,
            steps in prop::collection::vec((0_u64..80, 0..8), 1..400),
        ) {
            let replacement = if is_lru { Replacement::Lru } else { Replacement::Plru };
            let size = u64::from(ways) * LINE * 4;
            let mut l1 = L1::new(size, ways, LINE as u32, replacement);
            let mut cache = Cache::new(size, ways, LINE as u32, replacement);
            for (number, what) in steps {
                let line = (1 << 20) + number * LINE;
                if what == 0 {
                    prop_assert_eq!(l1.remove(line), cache.remove(line));
                    continue;
                }
                let flags = if what < 3 { DIRTY } else { 0 };
                // A hit by the guess as well as one by search.
                let fast = flags == 0 && l1.hit(line | VALID | DIRTY, DIRTY, 0);
                let used = fast || l1.access(line, flags).is_some();
                prop_assert_eq!(used, cache.access(line, flags, 0).is_some());
                if !used {
                    prop_assert_eq!(l1.insert(line, flags), cache.insert(line, flags));
                }
                let mut lines = l1.lines();
                let mut expected: Vec<u64> = cache.lines().collect();
                if !is_lru {
                    lines.sort_unstable();
                    expected.sort_unstable();
                }
                prop_assert_eq!(lines, expected);
            }
        }
    }
}
