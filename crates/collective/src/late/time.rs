//! A rank and its arrival time in one 64-bit word, so that a concurrent reader sees either the old
//! or the new value.
//!
//! ```text
//! bits 63 to 20: time in units of 16 ns, its lowest 44 bits
//! bits 19 to 0:  rank in the job
//! ```
//!
//! Zero means unknown. The missing high bits are those with which the time is nearest to the
//! reader's own, which is right if the two are less than 39 hours apart.

/// Bits of a rank.
const RANK_BITS: u32 = 20;

/// Nanoseconds of a unit.
const UNIT: u64 = 16;

/// The arrival of a rank of the job. The later one is greater; of two at the same time, that of the
/// lower rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Time {
    pub ns: u64,
    pub rank: u32,
}

impl Ord for Time {
    fn cmp(&self, other: &Time) -> std::cmp::Ordering {
        // The lower rank, so that all ranks name the same one.
        (self.ns, other.rank).cmp(&(other.ns, self.rank))
    }
}

impl PartialOrd for Time {
    fn partial_cmp(&self, other: &Time) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Time {
    /// The packed word; 0 (unknown) for a rank that needs more than [`RANK_BITS`] bits.
    pub fn word(self) -> u64 {
        if self.rank >> RANK_BITS != 0 {
            return 0;
        }
        (self.ns / UNIT) << RANK_BITS | u64::from(self.rank)
    }

    /// Unpacks a word for a reader that arrived at `own_ns`.
    pub fn of_word(word: u64, own_ns: u64) -> Option<Time> {
        if word == 0 {
            return None;
        }
        let own = own_ns / UNIT;
        // Shifted to the top, so that the difference wraps where the words do, and shifted back
        // with its sign.
        let theirs = word >> RANK_BITS << RANK_BITS;
        let ahead = theirs.wrapping_sub(own << RANK_BITS) as i64 >> RANK_BITS;
        Some(Time {
            ns: own.checked_add_signed(ahead)? * UNIT,
            rank: word as u32 & ((1 << RANK_BITS) - 1),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_say_what_they_were_made_of() {
        let hour: i64 = 3_600_000_000_000;
        for own in [16, 50 * hour, 1000 * hour, 0x3fff_ffff_1234_5670] {
            for ahead in [-30 * hour, -16, 0, 16, 1_000_000, 30 * hour] {
                let ns = (own as u64).checked_add_signed(ahead);
                let Some(ns) = ns.filter(|ns| *ns > 0) else {
                    continue;
                };
                for rank in [0, 1, 77, (1 << RANK_BITS) - 1] {
                    let time = Time { ns: ns / UNIT * UNIT, rank };
                    let decoded = Time::of_word(time.word(), own as u64);
                    assert_eq!(decoded, Some(time), "{own} {ahead}");
                }
            }
        }
    }

    #[test]
    fn a_rank_without_room_says_nothing() {
        let time = Time { ns: 1600, rank: 1 << RANK_BITS };
        assert_eq!(time.word(), 0);
        assert_eq!(Time::of_word(0, 1600), None);
    }

    #[test]
    fn of_two_at_the_same_time_it_is_the_lower_rank() {
        let at = |ns, rank| Time { ns, rank };
        assert_eq!(at(5, 1).max(at(5, 2)), at(5, 1));
        assert_eq!(at(5, 2).max(at(5, 1)), at(5, 1));
        assert_eq!(at(6, 2).max(at(5, 1)), at(6, 2));
    }
}
