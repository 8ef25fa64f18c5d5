//! The machine types behind the predefined datatypes (MPI 5.0, 3.2.2 and 5.1.1).

/// A machine type: what the bytes of a predefined datatype mean to a reduction operator or a
/// conversion.
///
/// Fortran's types are gfortran's: `INTEGER`, `LOGICAL` and `REAL` have four bytes,
/// `DOUBLE PRECISION` eight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // the names say it
pub enum BasicType {
    I8,
    I16,
    I32,
    I64,
    I128,
    U8,
    U16,
    U32,
    U64,
    /// IEEE binary16.
    Half,
    F32,
    F64,
    /// C `long double`: x87 extended in 16 bytes on x86-64, IEEE binary128 on aarch64.
    LongDouble,
    /// IEEE binary128.
    Quad,
    ComplexHalf,
    ComplexF32,
    ComplexF64,
    ComplexLongDouble,
    ComplexQuad,
    /// C `_Bool`: one byte, 0 or 1.
    Bool,
    /// Fortran logicals: 0 is false.
    Logical8,
    Logical16,
    Logical32,
    Logical64,
    Logical128,
    /// A byte without meaning.
    Byte,
    /// A printable character of one byte; no operator takes it.
    Char,
    /// C `wchar_t`, four bytes.
    WideChar,
    /// The output of `MPI_Pack`.
    Packed,
    // Pairs of a value and an index, as C lays out `struct { value; index; }`.
    FloatInt,
    DoubleInt,
    LongInt,
    TwoInt,
    ShortInt,
    LongDoubleInt,
    // Fortran pairs of two equal numbers.
    TwoReal,
    TwoDouble,
    TwoInteger,
}

impl BasicType {
    /// All of them, in order.
    const ALL: [BasicType; 38] = [
        BasicType::I8,
        BasicType::I16,
        BasicType::I32,
        BasicType::I64,
        BasicType::I128,
        BasicType::U8,
        BasicType::U16,
        BasicType::U32,
        BasicType::U64,
        BasicType::Half,
        BasicType::F32,
        BasicType::F64,
        BasicType::LongDouble,
        BasicType::Quad,
        BasicType::ComplexHalf,
        BasicType::ComplexF32,
        BasicType::ComplexF64,
        BasicType::ComplexLongDouble,
        BasicType::ComplexQuad,
        BasicType::Bool,
        BasicType::Logical8,
        BasicType::Logical16,
        BasicType::Logical32,
        BasicType::Logical64,
        BasicType::Logical128,
        BasicType::Byte,
        BasicType::Char,
        BasicType::WideChar,
        BasicType::Packed,
        BasicType::FloatInt,
        BasicType::DoubleInt,
        BasicType::LongInt,
        BasicType::TwoInt,
        BasicType::ShortInt,
        BasicType::LongDoubleInt,
        BasicType::TwoReal,
        BasicType::TwoDouble,
        BasicType::TwoInteger,
    ];

    /// Its number, for messages between ranks of a job.
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// The type with this number.
    pub fn of_code(code: u8) -> Option<BasicType> {
        BasicType::ALL.get(usize::from(code)).copied()
    }

    /// Size in bytes, without padding.
    pub const fn size(self) -> u64 {
        use BasicType::*;
        match self {
            I8 | U8 | Bool | Logical8 | Byte | Char | Packed => 1,
            I16 | U16 | Half | Logical16 => 2,
            I32 | U32 | F32 | ComplexHalf | Logical32 | WideChar => 4,
            I64 | U64 | F64 | ComplexF32 | Logical64 => 8,
            I128 | LongDouble | Quad | ComplexF64 | Logical128 => 16,
            ComplexLongDouble | ComplexQuad => 32,
            FloatInt | DoubleInt | LongInt | TwoInt | ShortInt | LongDoubleInt | TwoReal
            | TwoDouble | TwoInteger => match self.pair() {
                Some((value, index)) => value.size() + index.size(),
                None => 0,
            },
        }
    }

    /// Alignment in C.
    pub const fn align(self) -> u64 {
        use BasicType::*;
        match self {
            ComplexHalf => 2,
            ComplexF32 => 4,
            ComplexF64 => 8,
            ComplexLongDouble | ComplexQuad => 16,
            _ => match self.pair() {
                Some((value, index)) => {
                    if value.align() > index.align() {
                        value.align()
                    } else {
                        index.align()
                    }
                }
                None => self.size(),
            },
        }
    }

    /// Distance between elements of an array: the size and the padding that C adds.
    pub const fn extent(self) -> u64 {
        match self.pair() {
            Some((_, index)) => (self.index_at() + index.size()).next_multiple_of(self.align()),
            None => self.size(),
        }
    }

    /// Types of the two fields of a pair.
    pub const fn pair(self) -> Option<(BasicType, BasicType)> {
        use BasicType::*;
        Some(match self {
            FloatInt => (F32, I32),
            DoubleInt => (F64, I32),
            LongInt => (I64, I32),
            TwoInt | TwoInteger => (I32, I32),
            ShortInt => (I16, I32),
            LongDoubleInt => (LongDouble, I32),
            TwoReal => (F32, F32),
            TwoDouble => (F64, F64),
            _ => return None,
        })
    }

    /// Displacement of a pair's second field; 0 if this is no pair.
    pub const fn index_at(self) -> u64 {
        match self.pair() {
            Some((value, index)) => value.size().next_multiple_of(index.align()),
            None => 0,
        }
    }

    /// The parts of a complex number.
    pub const fn component(self) -> Option<BasicType> {
        use BasicType::*;
        Some(match self {
            ComplexHalf => Half,
            ComplexF32 => F32,
            ComplexF64 => F64,
            ComplexLongDouble => LongDouble,
            ComplexQuad => Quad,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::BasicType::{self, *};

    #[test]
    fn codes_name_types() {
        for basic in BasicType::ALL {
            assert_eq!(BasicType::of_code(basic.code()), Some(basic));
        }
        assert_eq!(BasicType::of_code(u8::MAX), None);
    }

    #[test]
    fn pairs_are_laid_out_as_c_structs() {
        let expect = [
            (FloatInt, 8, 4, 8),
            (DoubleInt, 12, 8, 16),
            (LongInt, 12, 8, 16),
            (TwoInt, 8, 4, 8),
            (ShortInt, 6, 4, 8),
            (LongDoubleInt, 20, 16, 32),
            (TwoReal, 8, 4, 8),
            (TwoDouble, 16, 8, 16),
            (TwoInteger, 8, 4, 8),
        ];
        for (basic, size, index_at, extent) in expect {
            let got = (basic, basic.size(), basic.index_at(), basic.extent());
            assert_eq!(got, (basic, size, index_at, extent));
        }
    }

    #[test]
    fn complex_numbers_are_two_components() {
        for basic in [ComplexHalf, ComplexF32, ComplexF64, ComplexLongDouble, ComplexQuad] {
            let part: BasicType = basic.component().unwrap();
            assert_eq!((basic.size(), basic.align()), (2 * part.size(), part.size()));
        }
    }
}
