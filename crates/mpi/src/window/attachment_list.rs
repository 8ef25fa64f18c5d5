//! What a rank has attached to a dynamic window, by address.
//!
//! Programs attach and detach in order of address, or in the reverse order, more often than not. So
//! the list is a queue in order of address, and a search tries where the last change was, and the
//! ends: then a change costs some nanoseconds, however much is attached.

use std::collections::VecDeque;

use mica_channel::memory::Region;

/// An address, and a number of bytes.
pub(super) type ByteRange = (usize, usize);

/// Attached memory.
#[derive(Debug)]
pub(super) struct Attached {
    pub memory: Region,
    pub bytes: usize,
    /// By which peers know it.
    pub number: u32,
}

impl Attached {
    #[inline]
    fn start(&self) -> usize {
        self.memory.address()
    }

    /// Its bytes.
    #[inline]
    pub fn range(&self) -> ByteRange {
        (self.start(), self.bytes)
    }
}

/// See the module. No two share a byte; memory of no bytes comes before other memory that begins
/// there.
#[derive(Debug, Default)]
pub(super) struct AttachmentList {
    entries: VecDeque<Attached>,
    /// Where the next change is likely.
    next: usize,
}

impl AttachmentList {
    /// The index of the first that begins at `address` or behind it.
    #[inline]
    fn first_from(&self, address: usize) -> usize {
        let is_first = |at: usize| {
            let is_behind = |at: usize| self.entries.get(at).is_none_or(|a| address <= a.start());
            is_behind(at) && (at == 0 || !is_behind(at - 1))
        };
        let likely = [self.next, self.entries.len(), 0];
        match likely.into_iter().find(|&at| at <= self.entries.len() && is_first(at)) {
            Some(at) => at,
            None => self.entries.partition_point(|a| a.start() < address),
        }
    }

    /// Those that begin before `end`, from the last on.
    fn before(&self, end: usize) -> impl Iterator<Item = &Attached> {
        self.entries.range(..self.first_from(end)).rev()
    }

    /// Where memory of `bytes` bytes at `address` belongs, whose last byte has an address.
    ///
    /// # Errors
    /// The bytes of other memory that it overlaps.
    #[inline]
    pub fn place_for(&self, (address, bytes): ByteRange) -> Result<usize, ByteRange> {
        let at = self.first_from(address + bytes);
        for other in self.entries.range(..at).rev() {
            if address < other.start() + other.bytes {
                return Err(other.range());
            }
            // What has no bytes keeps out nothing that lies before it.
            if other.bytes > 0 {
                break;
            }
        }
        Ok(at)
    }

    /// Inserts memory at its [place](Self::place_for).
    #[inline]
    pub fn insert(&mut self, at: usize, attached: Attached) {
        self.entries.insert(at, attached);
        self.next = at + 1;
    }

    /// Removes the memory that begins at `address`.
    #[inline]
    pub fn remove(&mut self, address: usize) -> Option<Attached> {
        let at = self.first_from(address);
        self.entries.get(at).filter(|attached| attached.start() == address)?;
        self.next = at;
        self.entries.remove(at)
    }

    /// The memory of at least a byte that begins at `address`.
    pub fn at(&self, address: usize) -> Option<&Attached> {
        let mut from = self.entries.range(self.first_from(address)..);
        from.find(|attached| attached.bytes > 0).filter(|attached| attached.start() == address)
    }

    /// Those that share a byte with these bytes, of which there is one at least, from the last on.
    pub fn near(&self, (address, bytes): ByteRange) -> impl Iterator<Item = &Attached> {
        let before = self.before(address.saturating_add(bytes));
        before.filter(|a| a.bytes > 0).take_while(move |a| address < a.start() + a.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn attached((address, bytes): ByteRange, number: u32) -> Attached {
        // Nothing accesses it.
        let memory = Region::null().offset(address as isize);
        Attached { memory, bytes, number }
    }

    fn overlap((a, a_bytes): ByteRange, (b, b_bytes): ByteRange) -> bool {
        b < a + a_bytes && a < b + b_bytes
    }

    proptest! {
        #[test]
        fn it_does_what_a_plain_list_does(
            steps in prop::collection::vec((any::<bool>(), 1..64_usize, 0..8_usize), 1..200),
        ) {
            let mut list = AttachmentList::default();
            let mut plain: Vec<(ByteRange, u32)> = Vec::new();
            for (number, (attaches, address, bytes)) in (0..).zip(steps) {
                let range = (address, bytes);
                let met = |&&(other, _): &&(ByteRange, u32)| overlap(other, range);
                if attaches {
                    let place = list.place_for(range);
                    prop_assert_eq!(place.is_err(), plain.iter().any(|other| met(&other)));
                    if let Ok(at) = place {
                        list.insert(at, attached(range, number));
                        plain.push((range, number));
                    }
                } else {
                    let removed = list.remove(address).map(|a| (a.range(), a.number));
                    let there = plain.iter().position(|known| Some(*known) == removed);
                    let is_here = plain.iter().any(|((start, _), _)| *start == address);
                    prop_assert_eq!(there.is_some(), is_here);
                    there.map(|at| plain.remove(at));
                }
                let wanted = (address, bytes.max(1));
                let mut near: Vec<_> = list.near(wanted).map(|a| (a.range(), a.number)).collect();
                near.reverse();
                let shares = |&(other, _): &(ByteRange, u32)| {
                    other.1 > 0 && overlap(other, wanted)
                };
                let mut expected: Vec<_> = plain.iter().copied().filter(shares).collect();
                expected.sort_unstable();
                prop_assert_eq!(near, expected);
                let at = list.at(address).map(Attached::range);
                let expected = plain.iter().find(|((start, n), _)| *start == address && *n > 0);
                prop_assert_eq!(at, expected.map(|(range, _)| *range));
            }
        }
    }
}
