//! Matching by (context, source, tag) with wildcards, O(1) in the depth of the queues (MPI 5.0,
//! 3.5, 3.6).
//!
//! A receive names its source and tag, or leaves one or both as wildcards: four classes. All
//! entries of one class and key are in one hash chain, in order. A posted receive is in the one
//! chain of its class; an arriving message searches at most four chains and takes the receive that
//! was posted first. An unexpected message is in one chain of each class that a receive has ever
//! asked for; a receive searches one chain.

mod by_context;
mod chains;
mod posted;
#[cfg(test)]
mod tests;
mod unexpected;

pub use by_context::UnexpectedCounts;
pub use posted::PostedQueue;
pub use unexpected::UnexpectedQueue;

/// What a message is matched by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MatchEnvelope {
    /// Context of the communicator and plane.
    pub context: u64,
    /// Job-wide rank of the sender.
    pub source: u32,
    /// Tag.
    pub tag: i32,
}

/// What a receive or probe asks for; `None` is a wildcard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MatchPattern {
    /// Context of the communicator and plane.
    pub context: u64,
    /// Job-wide rank of the sender.
    pub source: Option<u32>,
    /// Tag.
    pub tag: Option<i32>,
}

impl MatchPattern {
    /// Whether a message matches.
    #[inline]
    pub fn matches(&self, envelope: &MatchEnvelope) -> bool {
        self.context == envelope.context
            && self.source.is_none_or(|s| s == envelope.source)
            && self.tag.is_none_or(|t| t == envelope.tag)
    }

    /// Class of the pattern: which of source and tag are wildcards.
    #[inline]
    fn class(&self) -> Class {
        usize::from(self.source.is_none()) | usize::from(self.tag.is_none()) << 1
    }
}

impl MatchEnvelope {
    /// The pattern of class `class` that this message matches.
    #[inline]
    fn pattern(&self, class: Class) -> MatchPattern {
        MatchPattern {
            context: self.context,
            source: (class & 1 == 0).then_some(self.source),
            tag: (class & 2 == 0).then_some(self.tag),
        }
    }
}

/// 0: source and tag given; 1: any source; 2: any tag; 3: any of both.
type Class = usize;
const CLASSES: usize = 4;

/// A hash that spreads neighbouring sources and tags.
#[inline]
fn hash(pattern: &MatchPattern) -> u64 {
    const MIX: u64 = 0x9e37_79b9_7f4a_7c15;
    let source = pattern.source.map_or(u64::MAX, u64::from);
    let tag = pattern.tag.map_or(1 << 40, |t| u64::from(t as u32));
    let h = (pattern.context ^ source.rotate_left(40) ^ tag.rotate_left(20)).wrapping_mul(MIX);
    h ^ h >> 29
}
