//! A table of what a rank keeps for each of its peers, indexed by their rank in the job.
//!
//! Most ranks of a large job talk with few others, so the table is made of pages that are allocated
//! when the first peer of a page is entered. It grows with the peers that talk and not with the
//! ranks of the job; ranks that join a running job need no announcement. A lookup takes two loads.

/// Peers of a page.
const PAGE: usize = 16;

/// A table of values by peer. A peer that was never entered has none.
#[derive(Debug, Clone)]
pub struct PeerTable<T> {
    pages: Vec<Option<Box<[T; PAGE]>>>,
}

impl<T> Default for PeerTable<T> {
    fn default() -> PeerTable<T> {
        PeerTable { pages: Vec::new() }
    }
}

impl<T: Default> PeerTable<T> {
    /// The value of `peer`, if it or another peer of its page was ever entered. The default until
    /// it was entered itself.
    #[inline(always)]
    pub fn get(&self, peer: u32) -> Option<&T> {
        let page = self.pages.get(peer as usize / PAGE)?.as_deref()?;
        Some(&page[peer as usize % PAGE])
    }

    /// As [`get`](Self::get), to be changed.
    #[inline(always)]
    pub fn get_mut(&mut self, peer: u32) -> Option<&mut T> {
        let page = self.pages.get_mut(peer as usize / PAGE)?.as_deref_mut()?;
        Some(&mut page[peer as usize % PAGE])
    }

    /// The value of `peer`; the default if it has none.
    #[inline]
    pub fn entry(&mut self, peer: u32) -> &mut T {
        let at = peer as usize / PAGE;
        if self.pages.get(at).is_none_or(Option::is_none) {
            self.add_page(at);
        }
        self.get_mut(peer).expect("its page is there")
    }

    #[cold]
    fn add_page(&mut self, at: usize) {
        if at >= self.pages.len() {
            self.pages.resize_with(at + 1, || None);
        }
        self.pages[at] = Some(Box::new(std::array::from_fn(|_| T::default())));
    }

    /// Forgets `peer`, whose value is the default again, and returns what it was.
    pub fn remove(&mut self, peer: u32) -> T {
        self.get_mut(peer).map(std::mem::take).unwrap_or_default()
    }

    /// The values of all pages, with their peers; those that were never entered have the default.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        let pages = self.pages.iter().enumerate();
        pages.flat_map(|(at, page)| {
            let values = page.iter().flat_map(|page| page.iter().enumerate());
            values.map(move |(i, value)| ((at * PAGE + i) as u32, value))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    #[test]
    fn memory_grows_with_the_peers_that_are_entered() {
        let mut table = PeerTable::<[u64; 8]>::default();
        assert!(table.get(1_000_000).is_none());
        table.entry(1_000_000)[0] = 7;
        table.entry(3)[0] = 8;
        assert_eq!(table.pages.iter().flatten().count(), 2);
        assert_eq!(table.get(1_000_000).map(|v| v[0]), Some(7));
        assert_eq!(table.remove(3)[0], 8);
        assert_eq!(table.get(3).map(|v| v[0]), Some(0));
    }

    proptest! {
        #[test]
        fn agrees_with_a_map(steps in prop::collection::vec((0u32..100, 0u8..4, 1u32..9), 0..60)) {
            let mut table = PeerTable::<u32>::default();
            let mut map = HashMap::<u32, u32>::new();
            for (peer, what, value) in steps {
                match what {
                    0 => prop_assert_eq!(table.remove(peer), map.remove(&peer).unwrap_or(0)),
                    1 => {
                        if let Some(known) = table.get_mut(peer) {
                            *known += value;
                            *map.entry(peer).or_default() += value;
                        } else {
                            prop_assert!(!map.contains_key(&peer));
                        }
                    }
                    _ => {
                        *table.entry(peer) = value;
                        map.insert(peer, value);
                    }
                }
            }
            let present: HashMap<u32, u32> =
                table.iter().filter(|(_, v)| **v != 0).map(|(p, v)| (p, *v)).collect();
            prop_assert_eq!(present, map);
        }
    }
}
