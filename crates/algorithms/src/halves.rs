//! Which ranks take part in the power-of-two part of recursive doubling and halving.

/// The ranks as the recursive doubling and halving algorithms see them: `active` of them, a power
/// of two, after each surplus rank has joined its neighbour. Neighbours join, so what an active
/// rank holds stays contiguous in rank order, as operators that do not commute need it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Halves {
    /// Number of active ranks.
    pub active: usize,
    surplus: usize,
    /// A rank that must stay active (the root of a reduction).
    keep: Option<usize>,
}

/// What a rank does before and after the power-of-two part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HalvingPart {
    /// It is active under this number; `joined` is the passive neighbour whose data it also holds.
    Active {
        /// Its number.
        number: usize,
        /// Its neighbour.
        joined: Option<usize>,
    },
    /// It gives its data to this neighbour.
    Passive {
        /// Which takes part for it.
        speaker: usize,
    },
}

impl Halves {
    /// Of `size` ranks.
    pub fn of(size: usize, keep: Option<usize>) -> Halves {
        let active = 1 << size.ilog2();
        Halves { active, surplus: size - active, keep }
    }

    /// The rank that is active under `number`. Of the first `2 * surplus` ranks, the odd ones are
    /// active, unless `keep` is their even neighbour.
    pub fn rank(&self, number: usize) -> usize {
        if number >= self.surplus {
            number + self.surplus
        } else if self.keep == Some(2 * number) {
            2 * number
        } else {
            2 * number + 1
        }
    }

    /// The part of this rank.
    pub fn part(&self, rank: usize) -> HalvingPart {
        if rank >= 2 * self.surplus {
            return HalvingPart::Active { number: rank - self.surplus, joined: None };
        }
        let speaker = self.rank(rank / 2);
        if speaker == rank {
            HalvingPart::Active { number: rank / 2, joined: Some(rank ^ 1) }
        } else {
            HalvingPart::Passive { speaker }
        }
    }

    /// The first rank whose data active rank `number` holds.
    pub fn first(&self, number: usize) -> usize {
        if number < self.surplus { 2 * number } else { number + self.surplus }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_cover_the_ranks_in_order() {
        for size in 1..40 {
            for keep in (0..size).map(Some).chain([None]) {
                let halves = Halves::of(size, keep);
                let mut covered = Vec::new();
                for number in 0..halves.active {
                    assert_eq!(halves.first(number), covered.len());
                    let rank = halves.rank(number);
                    let HalvingPart::Active { number: same, joined } = halves.part(rank) else {
                        panic!("rank {rank} of {size} is not active")
                    };
                    assert_eq!(same, number);
                    if let Some(other) = joined {
                        assert_eq!(halves.part(other), HalvingPart::Passive { speaker: rank });
                        covered.push(rank.min(other));
                        covered.push(rank.max(other));
                    } else {
                        covered.push(rank);
                    }
                }
                assert_eq!(covered, (0..size).collect::<Vec<_>>());
                if let Some(root) = keep {
                    assert!(matches!(halves.part(root), HalvingPart::Active { .. }));
                }
            }
        }
    }
}
