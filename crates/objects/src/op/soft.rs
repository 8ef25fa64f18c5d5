//! Floating point formats that Rust has no type for, computed in software: x87 double extended
//! (`long double` on x86-64), IEEE quad (`REAL*16`, `long double` elsewhere) and half (`REAL*2`).
//!
//! `rustc_apfloat` is LLVM's soft float: correctly rounded and slow, which is what rare formats
//! need.

use rustc_apfloat::Float;
use rustc_apfloat::ieee;

macro_rules! soft {
    ($(#[$doc:meta])* $name:ident, $format:ty, $bits:ty) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name($bits);

        impl $name {
            /// The bits that belong to the format; others are padding.
            const MASK: u128 = u128::MAX >> (128 - <$format>::BITS);

            /// From memory.
            pub fn from_ne_bytes(bytes: [u8; size_of::<$bits>()]) -> Self {
                $name(<$bits>::from_ne_bytes(bytes))
            }

            /// To memory.
            pub fn to_ne_bytes(self) -> [u8; size_of::<$bits>()] {
                self.0.to_ne_bytes()
            }

            fn value(self) -> $format {
                <$format>::from_bits(u128::from(self.0) & Self::MASK)
            }

            fn of(value: $format) -> Self {
                $name(value.to_bits() as $bits)
            }
        }

        impl std::ops::Add for $name {
            type Output = Self;
            fn add(self, other: Self) -> Self {
                Self::of((self.value() + other.value()).value)
            }
        }

        impl std::ops::Sub for $name {
            type Output = Self;
            fn sub(self, other: Self) -> Self {
                Self::of((self.value() - other.value()).value)
            }
        }

        impl std::ops::Mul for $name {
            type Output = Self;
            fn mul(self, other: Self) -> Self {
                Self::of((self.value() * other.value()).value)
            }
        }

        impl PartialEq for $name {
            fn eq(&self, other: &Self) -> bool {
                self.value() == other.value()
            }
        }

        impl PartialOrd for $name {
            fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
                self.value().partial_cmp(&other.value())
            }
        }
    };
}

soft!(
    /// IEEE binary128.
    F128,
    ieee::Quad,
    u128
);
soft!(
    /// IEEE binary16.
    F16,
    ieee::Half,
    u16
);
// Elsewhere no datatype has this format; its arithmetic is tested all the same.
#[cfg(any(target_arch = "x86_64", test))]
soft!(
    /// x87 double extended in 16 bytes.
    F80,
    ieee::X87DoubleExtended,
    u128
);

/// C's `long double`.
#[cfg(target_arch = "x86_64")]
pub type LongDouble = F80;
/// C's `long double`.
#[cfg(not(target_arch = "x86_64"))]
pub type LongDouble = F128;

#[cfg(test)]
mod tests {
    use super::*;

    fn of<const N: usize>(text: &str, bits: impl Fn(&str) -> u128) -> [u8; N] {
        let bytes = bits(text).to_le_bytes();
        std::array::from_fn(|i| {
            if cfg!(target_endian = "little") { bytes[i] } else { bytes[N - 1 - i] }
        })
    }

    #[test]
    fn known_bit_patterns() {
        // 1.0 is 0x3fff8000000000000000 in x87 and 0x3fff << 112 in binary128; 1.5 is 0x3e00 in
        // binary16.
        let one = (0x3fff_u128 << 64) | (1 << 63);
        let garbage = one | (0xdead_u128 << 80);
        let two = F80::from_ne_bytes(garbage.to_ne_bytes()) + F80::from_ne_bytes(one.to_ne_bytes());
        assert_eq!(u128::from_ne_bytes(two.to_ne_bytes()), (0x4000_u128 << 64) | (1 << 63));

        let one = F128::from_ne_bytes((0x3fff_u128 << 112).to_ne_bytes());
        assert_eq!(u128::from_ne_bytes((one + one).to_ne_bytes()), 0x4000_u128 << 112);

        let half = F16::from_ne_bytes(0x3e00_u16.to_ne_bytes());
        assert_eq!(u16::from_ne_bytes((half * half).to_ne_bytes()), 0x4080); // 2.25
        assert_eq!(u16::from_ne_bytes((half - half).to_ne_bytes()), 0);
    }

    #[test]
    fn rounding_is_that_of_the_wide_format() {
        // 1 + 2^-60 is exact in both wide formats and 1 in a double.
        let text = "1.000000000000000000867361737988403547205962240695953369140625";
        let exact = |s: &str| s.parse::<ieee::X87DoubleExtended>().unwrap().to_bits();
        let sum = F80::from_ne_bytes(of("1.0", exact))
            + F80::from_ne_bytes(of("8.673617379884035472e-19", exact));
        assert_eq!(sum, F80::from_ne_bytes(of(text, exact)));
        assert!(sum > F80::from_ne_bytes(of("1.0", exact)));
    }
}
