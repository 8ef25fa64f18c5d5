//! Which operator works on which machine type, and the kernel that does it (MPI 5.0, 6.9.2 and
//! 6.9.4).

use std::ffi::c_char;

use super::PredefinedOp::{self, *};
use super::kernel::{Kernel, complex_kernel, pair_kernel, scalar_kernel, wide_kernel};
use super::soft::{F16, F128, LongDouble};
use crate::datatype::BasicType;

/// The kernel of a predefined operator on a machine type; `None` where the standard has none.
///
/// The standard has no logical operators for Fortran's integers and for `MPI_AINT` and similar
/// types; these are the same machine types as C's integers here, so the operators work on them too.
/// The standard has no operator for `MPI_CHAR` and Fortran's `CHARACTER` either; MPICH and Intel
/// MPI treat them as C's `char`, and programs rely on that. `MPI_WCHAR` they refuse. Signed
/// integers wrap on overflow.
#[expect(clippy::too_many_lines, reason = "a table, one arm for each operator and type")]
pub(super) fn kernel(op: PredefinedOp, basic: BasicType) -> Option<Kernel> {
    macro_rules! integer {
        ($type:ty) => {
            Some(match op {
                Sum => wide_kernel!($type, |x, y| x.wrapping_add(y)),
                Prod => wide_kernel!($type, |x, y| x.wrapping_mul(y)),
                Min => wide_kernel!($type, |x, y| if x < y { x } else { y }),
                Max => wide_kernel!($type, |x, y| if x > y { x } else { y }),
                Band => scalar_kernel!($type, |x, y| x & y),
                Bor => scalar_kernel!($type, |x, y| x | y),
                Bxor => scalar_kernel!($type, |x, y| x ^ y),
                _ => return logical::<$type>(op),
            })
        };
    }
    macro_rules! float {
        ($type:ty, $kernel:ident) => {
            Some(match op {
                Sum => $kernel!($type, |x, y| x + y),
                Prod => $kernel!($type, |x, y| x * y),
                Min => $kernel!($type, |x, y| if x < y { x } else { y }),
                Max => $kernel!($type, |x, y| if x > y { x } else { y }),
                _ => return None,
            })
        };
    }
    macro_rules! complex {
        ($type:ty) => {
            Some(match op {
                Sum => complex_kernel!($type, |a, b, c, d| (a + c, b + d)),
                Prod => complex_kernel!($type, |a, b, c, d| (a * c - b * d, a * d + b * c)),
                _ => return None,
            })
        };
    }
    macro_rules! pair {
        ($value:ty, $index:ty) => {
            Some(match op {
                Minloc => pair_kernel!($value, $index, <),
                Maxloc => pair_kernel!($value, $index, >),
                _ => return None,
            })
        };
    }
    /// Operators on truth values: anything but 0 is true, the result is 0 or 1.
    trait Logical {
        fn kernel(op: PredefinedOp) -> Option<Kernel>;
    }
    macro_rules! logical {
        ($($type:ty)*) => {$(
            impl Logical for $type {
                fn kernel(op: PredefinedOp) -> Option<Kernel> {
                    Some(match op {
                        Land => scalar_kernel!($type, |x, y| ((x != 0) & (y != 0)) as $type),
                        Lor => scalar_kernel!($type, |x, y| ((x != 0) | (y != 0)) as $type),
                        Lxor => scalar_kernel!($type, |x, y| ((x != 0) ^ (y != 0)) as $type),
                        _ => return None,
                    })
                }
            }
        )*};
    }
    logical!(i8 i16 i32 i64 i128 u8 u16 u32 u64 u128);
    fn logical<T: Logical>(op: PredefinedOp) -> Option<Kernel> {
        T::kernel(op)
    }

    match basic {
        BasicType::I8 => integer!(i8),
        BasicType::I16 => integer!(i16),
        BasicType::I32 => integer!(i32),
        BasicType::I64 => integer!(i64),
        BasicType::I128 => integer!(i128),
        BasicType::U8 => integer!(u8),
        BasicType::U16 => integer!(u16),
        BasicType::U32 => integer!(u32),
        BasicType::U64 => integer!(u64),
        BasicType::Half => float!(F16, scalar_kernel),
        BasicType::F32 => float!(f32, wide_kernel),
        BasicType::F64 => float!(f64, wide_kernel),
        BasicType::LongDouble => float!(LongDouble, scalar_kernel),
        BasicType::Quad => float!(F128, scalar_kernel),
        BasicType::ComplexHalf => complex!(F16),
        BasicType::ComplexF32 => complex!(f32),
        BasicType::ComplexF64 => complex!(f64),
        BasicType::ComplexLongDouble => complex!(LongDouble),
        BasicType::ComplexQuad => complex!(F128),
        BasicType::Bool | BasicType::Logical8 => logical::<u8>(op),
        BasicType::Logical16 => logical::<u16>(op),
        BasicType::Logical32 => logical::<u32>(op),
        BasicType::Logical64 => logical::<u64>(op),
        BasicType::Logical128 => logical::<u128>(op),
        BasicType::Byte => Some(match op {
            Band => scalar_kernel!(u8, |x, y| x & y),
            Bor => scalar_kernel!(u8, |x, y| x | y),
            Bxor => scalar_kernel!(u8, |x, y| x ^ y),
            _ => return None,
        }),
        BasicType::Char => integer!(c_char),
        BasicType::WideChar | BasicType::Packed => None,
        BasicType::FloatInt => pair!(f32, i32),
        BasicType::DoubleInt => pair!(f64, i32),
        BasicType::LongInt => pair!(i64, i32),
        BasicType::TwoInt | BasicType::TwoInteger => pair!(i32, i32),
        BasicType::ShortInt => pair!(i16, i32),
        BasicType::LongDoubleInt => pair!(LongDouble, i32),
        BasicType::TwoReal => pair!(f32, f32),
        BasicType::TwoDouble => pair!(f64, f64),
    }
}
