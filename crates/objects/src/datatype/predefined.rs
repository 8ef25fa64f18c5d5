//! The predefined datatypes: one table from the ABI's handles to what they mean (MPI 5.0, annex
//! A.1).

use super::basic::BasicType::{self, *};
use crate::constants as c;

/// A predefined datatype.
#[derive(Clone, Copy, Debug)]
pub(super) struct PredefinedType {
    pub handle: u32,
    /// Where the standard has two names for a type, the one that is not called a synonym (MPI 5.0,
    /// table 3.2).
    pub name: &'static str,
    pub basic: BasicType,
    /// Bytes in the external32 representation, where they differ from those in memory (MPI 5.0,
    /// 14.5.2).
    pub external: Option<u64>,
}

const fn plain(handle: u32, name: &'static str, basic: BasicType) -> PredefinedType {
    PredefinedType { handle, name, basic, external: None }
}

/// A type whose external32 size is not that of this machine.
const fn other(handle: u32, name: &'static str, basic: BasicType, external: u64) -> PredefinedType {
    PredefinedType { handle, name, basic, external: Some(external) }
}

pub(super) const PREDEFINED: &[PredefinedType] = &[
    plain(c::AINT, "MPI_AINT", I64),
    plain(c::COUNT, "MPI_COUNT", I64),
    plain(c::OFFSET, "MPI_OFFSET", I64),
    plain(c::PACKED, "MPI_PACKED", Packed),
    plain(c::SHORT, "MPI_SHORT", I16),
    plain(c::INT, "MPI_INT", I32),
    other(c::LONG, "MPI_LONG", I64, 4),
    plain(c::LONG_LONG, "MPI_LONG_LONG_INT", I64),
    plain(c::UNSIGNED_SHORT, "MPI_UNSIGNED_SHORT", U16),
    plain(c::UNSIGNED, "MPI_UNSIGNED", U32),
    other(c::UNSIGNED_LONG, "MPI_UNSIGNED_LONG", U64, 4),
    plain(c::UNSIGNED_LONG_LONG, "MPI_UNSIGNED_LONG_LONG", U64),
    plain(c::FLOAT, "MPI_FLOAT", F32),
    plain(c::C_FLOAT_COMPLEX, "MPI_C_COMPLEX", ComplexF32),
    plain(c::CXX_FLOAT_COMPLEX, "MPI_CXX_FLOAT_COMPLEX", ComplexF32),
    plain(c::DOUBLE, "MPI_DOUBLE", F64),
    plain(c::C_DOUBLE_COMPLEX, "MPI_C_DOUBLE_COMPLEX", ComplexF64),
    plain(c::CXX_DOUBLE_COMPLEX, "MPI_CXX_DOUBLE_COMPLEX", ComplexF64),
    plain(c::LOGICAL, "MPI_LOGICAL", Logical32),
    plain(c::INTEGER, "MPI_INTEGER", I32),
    plain(c::REAL, "MPI_REAL", F32),
    plain(c::COMPLEX, "MPI_COMPLEX", ComplexF32),
    plain(c::DOUBLE_PRECISION, "MPI_DOUBLE_PRECISION", F64),
    plain(c::DOUBLE_COMPLEX, "MPI_DOUBLE_COMPLEX", ComplexF64),
    plain(c::CHARACTER, "MPI_CHARACTER", Char),
    plain(c::LONG_DOUBLE, "MPI_LONG_DOUBLE", LongDouble),
    plain(c::C_LONG_DOUBLE_COMPLEX, "MPI_C_LONG_DOUBLE_COMPLEX", ComplexLongDouble),
    plain(c::CXX_LONG_DOUBLE_COMPLEX, "MPI_CXX_LONG_DOUBLE_COMPLEX", ComplexLongDouble),
    plain(c::FLOAT_INT, "MPI_FLOAT_INT", FloatInt),
    plain(c::DOUBLE_INT, "MPI_DOUBLE_INT", DoubleInt),
    other(c::LONG_INT, "MPI_LONG_INT", LongInt, 8),
    plain(c::TWOINT, "MPI_2INT", TwoInt),
    plain(c::SHORT_INT, "MPI_SHORT_INT", ShortInt),
    plain(c::LONG_DOUBLE_INT, "MPI_LONG_DOUBLE_INT", LongDoubleInt),
    plain(c::TWOREAL, "MPI_2REAL", TwoReal),
    plain(c::TWODOUBLE_PRECISION, "MPI_2DOUBLE_PRECISION", TwoDouble),
    plain(c::TWOINTEGER, "MPI_2INTEGER", TwoInteger),
    plain(c::C_BOOL, "MPI_C_BOOL", Bool),
    plain(c::CXX_BOOL, "MPI_CXX_BOOL", Bool),
    other(c::WCHAR, "MPI_WCHAR", WideChar, 2),
    plain(c::INT8_T, "MPI_INT8_T", I8),
    plain(c::UINT8_T, "MPI_UINT8_T", U8),
    plain(c::CHAR, "MPI_CHAR", Char),
    plain(c::SIGNED_CHAR, "MPI_SIGNED_CHAR", I8),
    plain(c::UNSIGNED_CHAR, "MPI_UNSIGNED_CHAR", U8),
    plain(c::BYTE, "MPI_BYTE", Byte),
    plain(c::INT16_T, "MPI_INT16_T", I16),
    plain(c::UINT16_T, "MPI_UINT16_T", U16),
    plain(c::INT32_T, "MPI_INT32_T", I32),
    plain(c::UINT32_T, "MPI_UINT32_T", U32),
    plain(c::INT64_T, "MPI_INT64_T", I64),
    plain(c::UINT64_T, "MPI_UINT64_T", U64),
    plain(c::LOGICAL1, "MPI_LOGICAL1", Logical8),
    plain(c::INTEGER1, "MPI_INTEGER1", I8),
    plain(c::LOGICAL2, "MPI_LOGICAL2", Logical16),
    plain(c::INTEGER2, "MPI_INTEGER2", I16),
    plain(c::REAL2, "MPI_REAL2", Half),
    plain(c::LOGICAL4, "MPI_LOGICAL4", Logical32),
    plain(c::INTEGER4, "MPI_INTEGER4", I32),
    plain(c::REAL4, "MPI_REAL4", F32),
    plain(c::COMPLEX4, "MPI_COMPLEX4", ComplexHalf),
    plain(c::LOGICAL8, "MPI_LOGICAL8", Logical64),
    plain(c::INTEGER8, "MPI_INTEGER8", I64),
    plain(c::REAL8, "MPI_REAL8", F64),
    plain(c::COMPLEX8, "MPI_COMPLEX8", ComplexF32),
    plain(c::LOGICAL16, "MPI_LOGICAL16", Logical128),
    plain(c::INTEGER16, "MPI_INTEGER16", I128),
    plain(c::REAL16, "MPI_REAL16", Quad),
    plain(c::COMPLEX16, "MPI_COMPLEX16", ComplexF64),
    plain(c::COMPLEX32, "MPI_COMPLEX32", ComplexQuad),
];

/// Handles of predefined datatypes lie in this range.
pub(super) const FIRST: u32 = 0x200;
/// How many handles the range has.
pub(super) const RANGE: usize = 0x100;

/// What the predefined types consist of, by handle.
pub(super) static BASIC: [Option<BasicType>; RANGE] = {
    let mut basic = [None; RANGE];
    let mut i = 0;
    while i < PREDEFINED.len() {
        basic[(PREDEFINED[i].handle - FIRST) as usize] = Some(PREDEFINED[i].basic);
        i += 1;
    }
    basic
};

/// Bytes per element of the predefined types that are contiguous, by handle; 0 for those that are
/// not.
pub(super) static DENSE: [u8; RANGE] = {
    let mut sizes = [0; RANGE];
    let mut i = 0;
    while i < PREDEFINED.len() {
        let PredefinedType { handle, basic, .. } = PREDEFINED[i];
        if basic.size() == basic.extent() {
            sizes[(handle - FIRST) as usize] = basic.size() as u8;
        }
        i += 1;
    }
    sizes
};

/// The predefined pair of a value and an index type, if there is one (`MPI_Type_get_value_index`).
pub(super) fn pair_of(value: u32, index: u32) -> Option<u32> {
    Some(match (value, index) {
        (c::FLOAT, c::INT) => c::FLOAT_INT,
        (c::DOUBLE, c::INT) => c::DOUBLE_INT,
        (c::LONG, c::INT) => c::LONG_INT,
        (c::INT, c::INT) => c::TWOINT,
        (c::SHORT, c::INT) => c::SHORT_INT,
        (c::LONG_DOUBLE, c::INT) => c::LONG_DOUBLE_INT,
        (c::REAL, c::REAL) => c::TWOREAL,
        (c::DOUBLE_PRECISION, c::DOUBLE_PRECISION) => c::TWODOUBLE_PRECISION,
        (c::INTEGER, c::INTEGER) => c::TWOINTEGER,
        _ => return None,
    })
}
