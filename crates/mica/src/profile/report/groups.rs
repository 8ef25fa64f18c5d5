//! Neighbouring ranks as one where a chart has no room for each.

/// Ranks in groups of equal size; the last may be smaller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Groups {
    ranks: usize,
    /// Ranks in a group.
    pub size: usize,
}

impl Groups {
    /// As few ranks in a group as give at most `most` groups: a power of two.
    pub fn new(ranks: usize, most: usize) -> Groups {
        let size = ranks.div_ceil(most).max(1).next_power_of_two();
        Groups { ranks, size }
    }

    pub fn count(self) -> usize {
        self.ranks.div_ceil(self.size)
    }

    pub fn of(self, rank: u32) -> usize {
        rank as usize / self.size
    }

    /// The number of ranks in this group.
    pub fn members(self, group: usize) -> usize {
        self.size.min(self.ranks - group * self.size)
    }

    /// `8`, or `8-11`.
    pub fn label(self, group: usize) -> String {
        let first = group * self.size;
        match self.members(group) {
            1 => first.to_string(),
            members => format!("{first}\u{2013}{}", first + members - 1),
        }
    }

    /// The first rank: a label where there is little room.
    pub fn short_label(self, group: usize) -> String {
        (group * self.size).to_string()
    }

    /// What the reader must know, if ranks share a place.
    pub fn note(self, what: &str) -> Option<String> {
        (self.size > 1).then(|| {
            format!(
                "There are {} ranks: {what} stands for {} neighbouring ranks.",
                self.ranks, self.size
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_few_and_have_all_ranks() {
        for (ranks, most, size, count) in [(4, 128, 1, 4), (512, 128, 4, 128), (129, 128, 2, 65)] {
            let groups = Groups::new(ranks, most);
            assert_eq!((groups.size, groups.count()), (size, count));
            let members: usize = (0..count).map(|group| groups.members(group)).sum();
            assert_eq!(members, ranks);
        }
        let groups = Groups::new(129, 128);
        assert_eq!((groups.label(0).as_str(), groups.label(64).as_str()), ("0\u{2013}1", "128"));
    }
}
