//! What a rank has attached to a dynamic window, by address.
//!
//! Programs attach and detach in order of address, or in the reverse order, more often than not. So
//! the list is a queue in order of address, and a search tries where the last change was, and the
//! ends: then a change costs some nanoseconds, however much is attached.

use std::collections::VecDeque;

use mica_memory::Region;

/// An address, and a number of bytes.
pub(crate) type ByteRange = (usize, usize);

/// Attached memory.
#[derive(Debug)]
pub(crate) struct Attached {
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

/// Number of pieces for which a list has room from the start: to grow there by doubling would cost
/// each of the first hundred a third of its attachment.
const FIRST_ROOM: usize = 128;

/// See the module. No two share a byte; memory of no bytes comes before other memory that begins
/// there.
#[derive(Debug, Default)]
pub(crate) struct AttachmentList {
    entries: VecDeque<Attached>,
    /// Where the next change is likely.
    next: usize,
}

impl AttachmentList {
    pub fn new() -> AttachmentList {
        let mut entries = VecDeque::new();
        // Without memory it grows later, or fails then.
        let _ = entries.try_reserve(FIRST_ROOM);
        AttachmentList { entries, next: 0 }
    }

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
        // Behind all others, as most are.
        if let Some(last) = self.entries.back()
            && last.bytes > 0
            && last.start() + last.bytes <= address
        {
            return Ok(self.entries.len());
        }
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
        if at == self.entries.len() {
            self.entries.push_back(attached);
        } else {
            self.entries.insert(at, attached);
        }
        self.next = at + 1;
    }

    /// Removes the memory that begins at `address`, and returns its number.
    #[inline]
    pub fn remove(&mut self, address: usize) -> Option<u32> {
        let begins_there = |attached: Option<&Attached>| {
            attached.filter(|attached| attached.start() == address).map(|attached| attached.number)
        };
        // The ends are where most are removed, and cost least.
        if let Some(number) = begins_there(self.entries.front()) {
            self.next = 0;
            self.entries.pop_front();
            return Some(number);
        }
        let at = self.first_from(address);
        let number = begins_there(self.entries.get(at))?;
        self.next = at;
        self.entries.remove(at);
        Some(number)
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
                    let removed = list.remove(address);
                    let there = plain
                        .iter()
                        .position(|(range, number)| range.0 == address && Some(*number) == removed);
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
