//! The predefined datatypes of two values, which are taken apart like derived ones: each value
//! keeps its datatype where a section separates them.

use crate::abi::{Word, constants as c};

/// A predefined datatype of two values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValuePair {
    /// Two of this datatype.
    Same(Word),
    /// A structure of C: this datatype, and an `int` at the end.
    WithInt(Word),
}

/// The values of the datatype `handle`, if it is such a pair.
pub fn pair_of(handle: Word) -> Option<ValuePair> {
    Some(match handle {
        c::FLOAT_INT => ValuePair::WithInt(c::FLOAT),
        c::DOUBLE_INT => ValuePair::WithInt(c::DOUBLE),
        c::LONG_INT => ValuePair::WithInt(c::LONG),
        c::TWO_INTS => ValuePair::Same(c::INT),
        c::SHORT_INT => ValuePair::WithInt(c::SHORT),
        c::LONG_DOUBLE_INT => ValuePair::WithInt(c::LONG_DOUBLE),
        c::TWO_REALS => ValuePair::Same(c::REAL),
        c::TWO_DOUBLE_PRECISIONS => ValuePair::Same(c::DOUBLE_PRECISION),
        c::TWO_INTEGERS => ValuePair::Same(c::INTEGER),
        _ => return None,
    })
}
