//! Tags of the messages of collectives, and unlike roots.
//!
//! Collectives on one communicator are numbered alike by all members, which call them in the same
//! order. A tag has the low bits of the number, and the root that the rank has named. Ranks that
//! name different roots so never take each other's messages for their own: these stay in the queue
//! of messages without a receive, where the next round of a collective on the communicator finds
//! them ([`super::roots`]), and a hang report shows them. Within a node, where collectives go
//! through shared memory, operation headers tell ([`crate::intranode::protocol::header`]).
//!
//! | bits | what |
//! |---|---|
//! | 0 to 23 | number of the collective, modulo 2^24 |
//! | 24 to 30 | 0: no root; else 1 + root modulo 126 |

use std::sync::atomic::{AtomicU8, Ordering};

const ROOT_AT: u32 = 24;
const NUMBER: u32 = (1 << ROOT_AT) - 1;
/// Roots that have a code of their own; 127 is [`SAID`].
pub(super) const ROOTS: usize = 126;
/// Instead of a root's code: ranks named different ones, and this rank has said so.
const SAID: u8 = 127;

/// Collectives of which a rank remembers the root. An older message is not compared.
const REMEMBERED: usize = 16;

/// The codes of the roots that this rank named last, by the number of the collective.
#[derive(Debug, Default)]
pub(super) struct NamedRoots([AtomicU8; REMEMBERED]);

/// The tag of a collective's messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CollectiveTag(i32);

impl CollectiveTag {
    /// The tag of a message on a communicator's collective plane; `None` if it is of no collective:
    /// other messages use negative tags there (`partitioned::meeting`).
    pub fn of(tag: i32) -> Option<CollectiveTag> {
        (tag >= 0).then_some(CollectiveTag(tag))
    }

    /// As messages have it.
    pub fn value(self) -> i32 {
        self.0
    }

    fn new(number: u32, code: u8) -> CollectiveTag {
        CollectiveTag((number & NUMBER | u32::from(code) << ROOT_AT) as i32)
    }

    /// The number of the collective on its communicator.
    pub fn number(self) -> u32 {
        self.0 as u32 & NUMBER
    }

    fn code(self) -> u8 {
        (self.0 as u32 >> ROOT_AT) as u8
    }

    /// The root, modulo [`ROOTS`], if the collective has one.
    pub fn root(self) -> Option<u8> {
        self.code().checked_sub(1)
    }

    /// `root 3`, or `no root`.
    pub fn root_in_words(self) -> String {
        self.root().map_or_else(|| "no root".to_owned(), |root| format!("root {root}"))
    }
}

fn code(root: Option<usize>) -> u8 {
    root.map_or(0, |root| 1 + (root % ROOTS) as u8)
}

impl NamedRoots {
    fn of(&self, number: u32) -> &AtomicU8 {
        &self.0[number as usize % REMEMBERED]
    }

    /// This rank calls collective `number` with this root.
    pub fn name(&self, number: u32, root: Option<usize>) -> CollectiveTag {
        let code = code(root);
        // Relaxed: this process compares its own calls, in whatever order threads make them.
        self.of(number).store(code, Ordering::Relaxed);
        CollectiveTag::new(number, code)
    }

    /// What is unlike in this collective has been said.
    pub fn set_said(&self, number: u32) {
        self.of(number).store(SAID, Ordering::Relaxed);
    }

    /// The tag of this rank's own call, if `theirs` is a message of that call with another root;
    /// `next` is the number of this rank's next collective.
    pub fn unlike(&self, theirs: CollectiveTag, next: u32) -> Option<CollectiveTag> {
        let age = next.wrapping_sub(1).wrapping_sub(theirs.number()) & NUMBER;
        let code = self.of(theirs.number()).load(Ordering::Relaxed);
        let is_compared = (age as usize) < REMEMBERED && code != SAID && code != theirs.code();
        is_compared.then(|| CollectiveTag::new(theirs.number(), code))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_valid_and_differ_by_number_and_root() {
        for number in [0, 5, NUMBER, NUMBER + 6, u32::MAX] {
            for root in [None, Some(0), Some(125), Some(126), Some(1_000_000)] {
                let tag = CollectiveTag::new(number, code(root));
                assert_eq!(CollectiveTag::of(tag.value()), Some(tag));
                assert_eq!(tag.number(), number & NUMBER);
                assert_eq!(tag.root(), root.map(|root| (root % ROOTS) as u8));
            }
        }
    }

    #[test]
    fn negative_tags_are_of_no_collective() {
        assert_eq!(CollectiveTag::of(!4), None);
    }

    #[test]
    fn another_root_in_a_recent_collective_is_noticed_once() {
        let roots = NamedRoots::default();
        let tags: Vec<CollectiveTag> = (0..20).map(|n| roots.name(n, Some(3))).collect();
        let theirs = |number, root| CollectiveTag::new(number, code(root));
        assert_eq!(roots.unlike(theirs(19, Some(3)), 20), None);
        assert_eq!(roots.unlike(theirs(19, Some(2)), 20), Some(tags[19]));
        assert_eq!(roots.unlike(theirs(19, None), 20), Some(tags[19]));
        // One that this rank has not called yet, and one that it does not remember.
        assert_eq!(roots.unlike(theirs(20, Some(2)), 20), None);
        assert_eq!(roots.unlike(theirs(3, Some(2)), 20), None);
        roots.set_said(19);
        assert_eq!(roots.unlike(theirs(19, Some(2)), 20), None);
    }
}
