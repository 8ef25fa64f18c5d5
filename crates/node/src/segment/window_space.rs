//! Which parts of a rank's [zone for windows](super::Geometry::window_zone) are taken: a list in
//! the owner's own memory, since no other rank allocates there.

use std::collections::BTreeMap;

/// File space of the windows of one rank, in bytes.
pub const WINDOW_ZONE: u64 = 1 << 46;

/// What is taken of this process's zone.
#[derive(Debug, Default)]
pub(crate) struct TakenParts {
    /// The bytes of each part, by its offset.
    parts: BTreeMap<u64, u64>,
    /// All bytes before are taken.
    full_until: u64,
}

impl TakenParts {
    /// Takes the first gap of `bytes` bytes, if there is one in the zone.
    pub(crate) fn take(&mut self, bytes: u64) -> Option<u64> {
        let mut offset = self.full_until;
        for (&start, &taken) in self.parts.range(offset..) {
            if start - offset >= bytes {
                break;
            }
            offset = start + taken;
        }
        let end = offset.checked_add(bytes)?;
        (end <= WINDOW_ZONE).then(|| {
            self.parts.insert(offset, bytes);
            if offset == self.full_until {
                self.full_until = end;
            }
            offset
        })
    }

    /// The part at `offset` is free again.
    pub(crate) fn give_back(&mut self, offset: u64) {
        let part = self.parts.remove(&offset);
        debug_assert!(part.is_some(), "no part at {offset:#x}");
        self.full_until = self.full_until.min(offset);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Parts never overlap, and what was given back is found again.
        #[test]
        fn taken_parts_are_apart(
            steps in prop::collection::vec((1u64..100, any::<bool>()), 1..60),
        ) {
            let mut zone = TakenParts::default();
            let mut parts: Vec<(u64, u64)> = Vec::new();
            for (bytes, frees) in steps {
                if frees && !parts.is_empty() {
                    let (offset, _) = parts.swap_remove(bytes as usize % parts.len());
                    zone.give_back(offset);
                } else {
                    let offset = zone.take(bytes).expect("the zone is large");
                    let is_apart = |&(o, b): &(u64, u64)| offset + bytes <= o || o + b <= offset;
                    prop_assert!(parts.iter().all(is_apart));
                    let total: u64 = parts.iter().map(|&(_, bytes)| bytes).sum();
                    prop_assert!(offset <= total + 100 * parts.len() as u64);
                    parts.push((offset, bytes));
                }
            }
            for (offset, _) in parts {
                zone.give_back(offset);
            }
            prop_assert_eq!(zone.take(WINDOW_ZONE), Some(0));
            prop_assert_eq!(zone.take(1), None);
        }
    }
}
