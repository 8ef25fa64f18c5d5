//! The predefined datatypes of two values, which are taken apart like derived ones: each value
//! keeps its datatype where a section separates them.

/// A predefined datatype of two values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValuePair {
    /// Two of this datatype.
    Same(usize),
    /// A structure of C: this datatype, and an `int` at the end.
    WithInt(usize),
}

/// `MPI_INT`.
pub const INT: usize = 0x209;

/// The values of the datatype `handle`, if it is such a pair.
pub fn pair_of(handle: usize) -> Option<ValuePair> {
    Some(match handle {
        0x228 => ValuePair::WithInt(0x210), // MPI_FLOAT_INT, MPI_FLOAT
        0x229 => ValuePair::WithInt(0x214), // MPI_DOUBLE_INT, MPI_DOUBLE
        0x22a => ValuePair::WithInt(0x20a), // MPI_LONG_INT, MPI_LONG
        0x22b => ValuePair::Same(INT),      // MPI_2INT
        0x22c => ValuePair::WithInt(0x208), // MPI_SHORT_INT, MPI_SHORT
        0x22d => ValuePair::WithInt(0x220), // MPI_LONG_DOUBLE_INT, MPI_LONG_DOUBLE
        0x230 => ValuePair::Same(0x21a),    // MPI_2REAL, MPI_REAL
        0x231 => ValuePair::Same(0x21c),    // MPI_2DOUBLE_PRECISION, MPI_DOUBLE_PRECISION
        0x232 => ValuePair::Same(0x219),    // MPI_2INTEGER, MPI_INTEGER
        _ => return None,
    })
}
