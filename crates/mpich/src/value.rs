//! Integers whose values differ between the ABIs: constants, ranks, tags, error codes.
//!
//! What is no constant of MPICH's ABI, a wrong argument, must not become one of the standard ABI by
//! chance; else it stays as it is, so that the error shows it.

use std::ffi::{c_int, c_void};

use crate::generated::constants as c;
pub use crate::generated::constants::BSEND_OVERHEAD;
use crate::word::WordKind;

/// Integers that a kind has constants among: pairs of MPICH's value and the standard ABI's.
pub trait ValueKind: WordKind<Own = c_int, Standard = c_int> {
    /// The pairs.
    const PAIRS: &'static [(c_int, c_int)];
}

/// No integer of MPI has this value.
pub const NO_VALUE: c_int = c_int::MIN + 1;

/// Whether all constants are negative, so that an ordinary value is known at once.
const fn are_negative(pairs: &[(c_int, c_int)]) -> bool {
    let mut i = 0;
    while i < pairs.len() {
        if pairs[i].0 >= 0 || pairs[i].1 >= 0 {
            return false;
        }
        i += 1;
    }
    true
}

/// The other side of a pair; a value that is on the wrong side only becomes another one.
#[inline(always)]
fn constant_to_standard<K: ValueKind>(own: c_int) -> c_int {
    if const { are_negative(K::PAIRS) } && own >= 0 {
        return own;
    }
    match K::PAIRS.iter().find(|pair| pair.0 == own) {
        Some(pair) => pair.1,
        None if K::PAIRS.iter().any(|pair| pair.1 == own) => !own,
        None => own,
    }
}

#[inline(always)]
fn constant_to_mpich<K: ValueKind>(standard: c_int) -> c_int {
    if const { are_negative(K::PAIRS) } && standard >= 0 {
        return standard;
    }
    K::PAIRS.iter().find(|pair| pair.1 == standard).map_or(standard, |pair| pair.0)
}

fn mask_to_standard<K: ValueKind>(own: c_int) -> c_int {
    let bits = K::PAIRS.iter().fold(0, |bits, pair| bits | pair.0);
    let known = K::PAIRS.iter().filter(|pair| own & pair.0 != 0);
    // The highest bit means nothing in either ABI.
    let unknown = if own & !bits == 0 { 0 } else { c_int::MIN };
    known.fold(unknown, |bits, pair| bits | pair.1)
}

fn mask_to_mpich<K: ValueKind>(standard: c_int) -> c_int {
    let known = K::PAIRS.iter().filter(|pair| standard & pair.1 != 0);
    known.fold(0, |bits, pair| bits | pair.0)
}

/// Kinds of integers, each with its constants, and the functions that convert it.
macro_rules! values {
    ($to_standard:ident, $to_mpich:ident: $($name:ident $pairs:ident $what:literal;)*) => {$(
        #[doc = $what]
        #[derive(Debug)]
        pub enum $name {}

        impl ValueKind for $name {
            const PAIRS: &'static [(c_int, c_int)] = c::$pairs;
        }

        impl WordKind for $name {
            type Own = c_int;
            type Standard = c_int;

            const NONE: c_int = NO_VALUE;

            #[inline(always)]
            fn to_standard(own: c_int) -> c_int {
                $to_standard::<Self>(own)
            }

            #[inline(always)]
            fn to_mpich(standard: c_int) -> c_int {
                $to_mpich::<Self>(standard)
            }
        }
    )*};
}

values! { constant_to_standard, constant_to_mpich:
    Binding BINDING "What a variable of the tools interface is bound to.";
    CallbackSafety CALLBACK_SAFETY "How careful a callback of the tools interface must be.";
    Combiner COMBINER "How a datatype was made.";
    Comparison COMPARISON "How alike two objects are.";
    Distribution DISTRIBUTION "How a dimension of an array is distributed.";
    DistributionArgument DISTRIBUTION_ARGUMENT "The argument of a distribution.";
    Keyval KEYVAL "The key of an attribute.";
    LockType LOCK_TYPE "Exclusive or shared.";
    Order ORDER "Of an array in memory.";
    Rank RANK "A rank, or a constant in its place.";
    Scope SCOPE "Of a control variable.";
    Seek SEEK "From where a file pointer moves.";
    SourceOrder SOURCE_ORDER "Of events.";
    SplitType SPLIT_TYPE "By what a communicator is split.";
    Tag TAG "A tag, or the constant for any.";
    ThreadLevel THREAD_LEVEL "Support of threads.";
    Topology TOPOLOGY "Of a communicator.";
    TypeClass TYPE_CLASS "Of predefined datatypes.";
    VariableClass VARIABLE_CLASS "Of a performance variable.";
    Verbosity VERBOSITY "Of a variable of the tools interface.";
    WindowFlavor WINDOW_FLAVOR "How a window was made.";
    WindowModel WINDOW_MODEL "Whether a window's copies are one.";
}

values! { mask_to_standard, mask_to_mpich:
    AccessMode ACCESS_MODE "How a file is opened.";
    Assertion ASSERTION "What a program promises about a window.";
}

// Those that the program adds follow the last predefined one.
values! { code_to_standard, code_to_mpich:
    ErrorCode ERROR_CODE "An error code or class.";
}

const LAST: (c_int, c_int) = c::LAST_CODE;

#[inline(always)]
fn code_to_standard<K: ValueKind>(own: c_int) -> c_int {
    match own {
        0 => 0,
        own if own >= LAST.0 => own - LAST.0 + LAST.1,
        own => constant_to_standard::<K>(own),
    }
}

#[inline(always)]
fn code_to_mpich<K: ValueKind>(standard: c_int) -> c_int {
    match standard {
        0 => 0,
        standard => error_to_mpich::<K>(standard),
    }
}

#[cold]
#[inline(never)]
fn error_to_mpich<K: ValueKind>(standard: c_int) -> c_int {
    match standard >= LAST.1 {
        true => standard.saturating_add(LAST.0 - LAST.1),
        false => constant_to_mpich::<K>(standard),
    }
}

/// A position in a file, or the constant for the current one.
#[derive(Debug)]
pub enum Displacement {}

impl WordKind for Displacement {
    type Own = i64;
    type Standard = i64;

    const NONE: i64 = i64::MIN;

    #[inline(always)]
    fn to_standard(own: i64) -> i64 {
        if own == c::DISPLACEMENT_CURRENT.0 { c::DISPLACEMENT_CURRENT.1 } else { own }
    }

    #[inline(always)]
    fn to_mpich(standard: i64) -> i64 {
        if standard == c::DISPLACEMENT_CURRENT.1 { c::DISPLACEMENT_CURRENT.0 } else { standard }
    }
}

/// Addresses of buffers, or constants in their place.
macro_rules! buffers {
    ($($name:ident $pointer:ty, $what:literal;)*) => {$(
        #[doc = $what]
        #[derive(Debug)]
        pub enum $name {}

        impl WordKind for $name {
            type Own = $pointer;
            type Standard = $pointer;

            const NONE: $pointer = std::ptr::without_provenance_mut(usize::MAX);

            #[inline(always)]
            fn to_standard(own: $pointer) -> $pointer {
                let address = own.addr();
                if address < c::BUFFER_AUTOMATIC.0 {
                    return own;
                }
                match address == c::IN_PLACE.0 {
                    true => std::ptr::without_provenance_mut(c::IN_PLACE.1),
                    false => std::ptr::without_provenance_mut(c::BUFFER_AUTOMATIC.1),
                }
            }

            #[inline(always)]
            fn to_mpich(standard: $pointer) -> $pointer {
                match standard.addr() == c::BUFFER_AUTOMATIC.1 {
                    true => std::ptr::without_provenance_mut(c::BUFFER_AUTOMATIC.0),
                    false => standard,
                }
            }
        }
    )*};
}

buffers! {
    ReadBuffer *const c_void, "A buffer that is read.";
    WriteBuffer *mut c_void, "A buffer that is written, or attached.";
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
