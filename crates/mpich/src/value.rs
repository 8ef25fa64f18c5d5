//! Integers whose values differ between the ABIs: constants, ranks, tags, error codes.
//!
//! What is no constant of MPICH's ABI, a wrong argument, must not become one of the standard ABI by
//! chance; else it stays as it is, so that the error shows it.

use std::ffi::c_int;

use crate::generated::constants as c;
pub use crate::generated::constants::BSEND_OVERHEAD;

/// A family of constants: pairs of MPICH's value and the standard ABI's.
pub trait ValueKind {
    /// The pairs.
    const PAIRS: &'static [(c_int, c_int)];

    /// The value in the standard ABI.
    #[inline(always)]
    fn to_standard(value: c_int) -> c_int {
        paired(Self::PAIRS, value)
    }

    /// The value in MPICH's ABI.
    #[inline(always)]
    fn to_mpich(value: c_int) -> c_int {
        Self::PAIRS.iter().find(|pair| pair.1 == value).map_or(value, |pair| pair.0)
    }
}

/// The other side of a pair; a value that is on the wrong side only becomes another one.
#[inline(always)]
fn paired(pairs: &[(c_int, c_int)], value: c_int) -> c_int {
    match pairs.iter().find(|pair| pair.0 == value) {
        Some(pair) => pair.1,
        None if pairs.iter().any(|pair| pair.1 == value) => !value,
        None => value,
    }
}

macro_rules! values {
    ($($name:ident $pairs:ident $what:literal;)*) => {$(
        #[doc = $what]
        #[derive(Debug)]
        pub enum $name {}

        impl ValueKind for $name {
            const PAIRS: &'static [(c_int, c_int)] = c::$pairs;
        }
    )*};
}

values! {
    Binding BINDING "What a variable of the tools interface is bound to.";
    CallbackSafety CALLBACK_SAFETY "How careful a callback of the tools interface must be.";
    Combiner COMBINER "How a datatype was made.";
    Comparison COMPARISON "How alike two objects are.";
    Distribution DISTRIBUTION "How a dimension of an array is distributed.";
    DistributionArgument DISTRIBUTION_ARGUMENT "The argument of a distribution.";
    Keyval KEYVAL "The key of an attribute.";
    LockType LOCK_TYPE "Exclusive or shared.";
    Order ORDER "Of an array in memory.";
    Scope SCOPE "Of a control variable.";
    Seek SEEK "From where a file pointer moves.";
    SourceOrder SOURCE_ORDER "Of events.";
    SplitType SPLIT_TYPE "By what a communicator is split.";
    ThreadLevel THREAD_LEVEL "Support of threads.";
    Topology TOPOLOGY "Of a communicator.";
    TypeClass TYPE_CLASS "Of predefined datatypes.";
    VariableClass VARIABLE_CLASS "Of a performance variable.";
    Verbosity VERBOSITY "Of a variable of the tools interface.";
    WindowFlavor WINDOW_FLAVOR "How a window was made.";
    WindowModel WINDOW_MODEL "Whether a window's copies are one.";
}

/// As `values!`, of families whose constants are all negative, so that an ordinary value is known
/// at once.
macro_rules! negatives {
    ($($name:ident $pairs:ident $what:literal;)*) => {$(
        #[doc = $what]
        #[derive(Debug)]
        pub enum $name {}

        impl ValueKind for $name {
            const PAIRS: &'static [(c_int, c_int)] = c::$pairs;

            #[inline(always)]
            fn to_standard(value: c_int) -> c_int {
                if value >= 0 { value } else { paired(Self::PAIRS, value) }
            }

            #[inline(always)]
            fn to_mpich(value: c_int) -> c_int {
                if value >= 0 {
                    return value;
                }
                Self::PAIRS.iter().find(|pair| pair.1 == value).map_or(value, |pair| pair.0)
            }
        }
    )*};
}

negatives! {
    Rank RANK "A rank, or a constant in its place.";
    Tag TAG "A tag, or the constant for any.";
}

macro_rules! masks {
    ($($name:ident $pairs:ident $what:literal;)*) => {$(
        #[doc = $what]
        #[derive(Debug)]
        pub enum $name {}

        impl ValueKind for $name {
            const PAIRS: &'static [(c_int, c_int)] = c::$pairs;

            fn to_standard(value: c_int) -> c_int {
                let bits = Self::PAIRS.iter().fold(0, |bits, pair| bits | pair.0);
                let known = Self::PAIRS.iter().filter(|pair| value & pair.0 != 0);
                // The highest bits mean nothing in either ABI.
                let unknown = if value & !bits == 0 { 0 } else { c_int::MIN };
                known.fold(unknown, |bits, pair| bits | pair.1)
            }

            fn to_mpich(value: c_int) -> c_int {
                let known = Self::PAIRS.iter().filter(|pair| value & pair.1 != 0);
                known.fold(0, |bits, pair| bits | pair.0)
            }
        }
    )*};
}

masks! {
    AccessMode ACCESS_MODE "How a file is opened.";
    Assertion ASSERTION "What a program promises about a window.";
}

/// An error code or class. Those that the program adds follow the last predefined one.
#[derive(Debug)]
pub enum ErrorCode {}

const LAST: (c_int, c_int) = c::LAST_CODE;

impl ValueKind for ErrorCode {
    const PAIRS: &'static [(c_int, c_int)] = c::ERROR_CODE;

    #[inline(always)]
    fn to_standard(value: c_int) -> c_int {
        match value {
            0 => 0,
            value if value >= LAST.0 => value - LAST.0 + LAST.1,
            value => paired(Self::PAIRS, value),
        }
    }

    #[inline(always)]
    fn to_mpich(value: c_int) -> c_int {
        match value {
            0 => 0,
            value => error_to_mpich(value),
        }
    }
}

#[cold]
#[inline(never)]
fn error_to_mpich(value: c_int) -> c_int {
    if value >= LAST.1 {
        return value.saturating_add(LAST.0 - LAST.1);
    }
    c::ERROR_CODE.iter().find(|pair| pair.1 == value).map_or(value, |pair| pair.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trips<K: ValueKind>() {
        for &(mpich, standard) in K::PAIRS {
            assert_eq!(K::to_standard(mpich), standard);
            assert_eq!(K::to_mpich(standard), mpich);
        }
    }

    #[test]
    fn constants_round_trip() {
        round_trips::<Rank>();
        round_trips::<Tag>();
        round_trips::<ErrorCode>();
        round_trips::<ThreadLevel>();
        round_trips::<Assertion>();
        round_trips::<AccessMode>();
        round_trips::<Verbosity>();
        round_trips::<Keyval>();
    }

    #[test]
    fn ordinary_ranks_and_tags_stay() {
        for value in [0, 1, 77, c_int::MAX] {
            assert_eq!((Rank::to_standard(value), Rank::to_mpich(value)), (value, value));
            assert_eq!((Tag::to_standard(value), Tag::to_mpich(value)), (value, value));
        }
    }

    #[test]
    fn wrong_values_become_no_constants() {
        // MPI_ROOT of the standard ABI.
        assert!(!c::RANK.iter().any(|pair| pair.1 == Rank::to_standard(-4)));
        assert_eq!(Rank::to_standard(-77), -77);
        assert_ne!(LockType::to_standard(302), 302);
        assert_eq!(Assertion::to_standard(1), c_int::MIN);
    }

    #[test]
    fn codes_that_programs_add_follow_the_last_one() {
        let added = LAST.1 + 3;
        assert_eq!(ErrorCode::to_mpich(added), LAST.0 + 3);
        assert_eq!(ErrorCode::to_standard(LAST.0 + 3), added);
    }
}
