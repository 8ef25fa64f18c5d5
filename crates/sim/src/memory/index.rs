//! Which set of a cache a line falls into: its number modulo the number of sets, without a
//! division.
//!
//! Slices need nothing of their own: line n in slice n mod s, there in set (n / s) mod p, is the
//! same set of lines as n mod (s p).

/// Remainder by a number of sets that is known in advance.
#[derive(Debug, Clone, Copy)]
pub(super) struct SetIndex {
    /// Low bits that are part of the set's number as they are.
    low_bits: u32,
    /// What is left of the number of sets is this odd number; 1 for a power of two.
    odd: u64,
    /// 2^(64 + shift) / odd, rounded up.
    magic: u64,
    shift: u32,
}

impl SetIndex {
    pub(super) fn new(sets: u64) -> SetIndex {
        let low_bits = sets.trailing_zeros();
        let odd = sets >> low_bits;
        // For x below 2^58 and an odd d between 2^s and 2^(s + 1), x times the error of the magic
        // number is below 2^(59 + s), so that the quotient is exact (Granlund, Montgomery 1994).
        let shift = odd.ilog2();
        let magic =
            if odd == 1 { 0 } else { ((1_u128 << (64 + shift)) / u128::from(odd) + 1) as u64 };
        SetIndex { low_bits, odd, magic, shift }
    }

    /// The set of the line with this number, which is below 2^58.
    #[inline]
    pub(super) fn of(self, number: u64) -> usize {
        let low = number & ((1 << self.low_bits) - 1);
        if self.odd == 1 {
            return low as usize;
        }
        let high = number >> self.low_bits;
        let quotient = ((u128::from(high) * u128::from(self.magic)) >> 64) as u64 >> self.shift;
        let remainder = high - quotient * self.odd;
        (remainder << self.low_bits | low) as usize
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::SetIndex;

    proptest! {
        #[test]
        fn is_a_residue_of_the_number_of_sets(
            sets in 1_u64..1 << 26,
            other in 0_u64..1 << 32,
            number in 0_u64..1 << 58,
        ) {
            let index = SetIndex::new(sets);
            let set = index.of(number) as u64;
            prop_assert!(set < sets);
            // Numbers fall together exactly if they do so modulo the number of sets.
            let apart = number.saturating_sub(other);
            prop_assert_eq!(set == index.of(apart) as u64, number % sets == apart % sets);
            let multiple = number - number.min(other) / sets * sets;
            prop_assert_eq!(set, index.of(multiple) as u64);
        }
    }

    #[test]
    fn every_set_is_used_once_in_a_row() {
        for sets in [1, 2, 3, 7, 12, 15, 28, 1536, 24576, 57344] {
            let index = SetIndex::new(sets);
            let start = (1 << 58) - 2 * sets;
            let mut used: Vec<_> = (start..start + sets).map(|n| index.of(n)).collect();
            used.sort_unstable();
            assert!(used.iter().copied().eq(0..sets as usize), "{sets}");
        }
    }
}
