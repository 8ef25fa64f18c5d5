//! Sets of ranks as options name them: `all`, `none`, `0,2-5`.

use serde::{Deserialize, Serialize};

/// The ranks that an option applies to.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum RankSet {
    /// Every rank.
    #[default]
    All,
    /// The ranks in these ranges, first and last; no rank if there is no range.
    Ranges(Vec<(u32, u32)>),
}

impl RankSet {
    /// What [`RankSet::parse`] reads, for messages.
    pub const WANTED: &'static str = "all, none, or ranks as in 0,2-5";

    /// The set of one rank.
    pub fn one(rank: u32) -> RankSet {
        RankSet::Ranges(vec![(rank, rank)])
    }

    /// The set without a rank.
    pub fn none() -> RankSet {
        RankSet::Ranges(Vec::new())
    }

    /// Reads a set; `None` if it is not one.
    pub fn parse(text: &str) -> Option<RankSet> {
        match text.to_ascii_lowercase().as_str() {
            "all" => return Some(RankSet::All),
            "none" => return Some(RankSet::none()),
            _ => {}
        }
        let range = |part: &str| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last): (u32, u32) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
            (first <= last).then_some((first, last))
        };
        text.split(',').map(range).collect::<Option<Vec<_>>>().map(RankSet::Ranges)
    }

    /// Whether the rank is in the set.
    pub fn contains(&self, rank: u32) -> bool {
        match self {
            RankSet::All => true,
            RankSet::Ranges(ranges) => {
                ranges.iter().any(|&(first, last)| (first..=last).contains(&rank))
            }
        }
    }

    /// The highest rank that the set names; `None` if it names none.
    pub fn highest(&self) -> Option<u32> {
        match self {
            RankSet::All => None,
            RankSet::Ranges(ranges) => ranges.iter().map(|&(_, last)| last).max(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_read() {
        let set = RankSet::parse("0,2-3").unwrap();
        assert_eq!((0..6).filter(|&rank| set.contains(rank)).collect::<Vec<_>>(), [0, 2, 3]);
        assert_eq!(set.highest(), Some(3));
        assert!(RankSet::parse("ALL").unwrap().contains(7));
        let none = RankSet::parse("none").unwrap();
        assert!(!none.contains(0) && none.highest().is_none());
        for bad in ["", "x", "3-1", "-1", "0,", "0;1", "0--2"] {
            assert_eq!(RankSet::parse(bad), None, "{bad}");
        }
    }
}
