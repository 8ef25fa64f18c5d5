//! The predefined operators on every datatype they are defined for, against scalar references;
//! every other pair is refused. References calculate with 128-bit integers or `f64` on values whose
//! results are exact in the format tested.

use std::ffi::c_char;

use fastrand::Rng;
use mica_memory::Block;
use mica_objects::constants as c;
use mica_objects::datatype::Datatype;
use mica_objects::op::{Op, reduce_local};

/// What a datatype's elements are.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Sort {
    Signed(usize),
    Unsigned(usize),
    Float(Format),
    Complex(Format),
    Logical(usize),
    Byte,
    /// Value, index, offset of the index, extent.
    Pair(Number, Number, usize, usize),
    Meaningless,
}
use Sort::*;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Format {
    Half,
    Single,
    Double,
    LongDouble,
    Quad,
}
use Format::*;

/// A field of a pair.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Number {
    Int(usize),
    Real(Format),
}
use Number::*;

/// C's `char`, which has a sign on some architectures.
const CHAR: Sort = match c_char::MIN {
    0 => Unsigned(1),
    _ => Signed(1),
};

const TYPES: &[(u32, Sort)] = &[
    (c::AINT, Signed(8)),
    (c::COUNT, Signed(8)),
    (c::OFFSET, Signed(8)),
    (c::SHORT, Signed(2)),
    (c::INT, Signed(4)),
    (c::LONG, Signed(8)),
    (c::LONG_LONG, Signed(8)),
    (c::SIGNED_CHAR, Signed(1)),
    (c::INT8_T, Signed(1)),
    (c::INT16_T, Signed(2)),
    (c::INT32_T, Signed(4)),
    (c::INT64_T, Signed(8)),
    (c::INTEGER, Signed(4)),
    (c::INTEGER1, Signed(1)),
    (c::INTEGER2, Signed(2)),
    (c::INTEGER4, Signed(4)),
    (c::INTEGER8, Signed(8)),
    (c::INTEGER16, Signed(16)),
    (c::UNSIGNED_CHAR, Unsigned(1)),
    (c::UNSIGNED_SHORT, Unsigned(2)),
    (c::UNSIGNED, Unsigned(4)),
    (c::UNSIGNED_LONG, Unsigned(8)),
    (c::UNSIGNED_LONG_LONG, Unsigned(8)),
    (c::UINT8_T, Unsigned(1)),
    (c::UINT16_T, Unsigned(2)),
    (c::UINT32_T, Unsigned(4)),
    (c::UINT64_T, Unsigned(8)),
    (c::FLOAT, Float(Single)),
    (c::DOUBLE, Float(Double)),
    (c::LONG_DOUBLE, Float(LongDouble)),
    (c::REAL, Float(Single)),
    (c::DOUBLE_PRECISION, Float(Double)),
    (c::REAL2, Float(Half)),
    (c::REAL4, Float(Single)),
    (c::REAL8, Float(Double)),
    (c::REAL16, Float(Quad)),
    (c::C_FLOAT_COMPLEX, Complex(Single)),
    (c::CXX_FLOAT_COMPLEX, Complex(Single)),
    (c::C_DOUBLE_COMPLEX, Complex(Double)),
    (c::CXX_DOUBLE_COMPLEX, Complex(Double)),
    (c::C_LONG_DOUBLE_COMPLEX, Complex(LongDouble)),
    (c::CXX_LONG_DOUBLE_COMPLEX, Complex(LongDouble)),
    (c::COMPLEX, Complex(Single)),
    (c::DOUBLE_COMPLEX, Complex(Double)),
    (c::COMPLEX4, Complex(Half)),
    (c::COMPLEX8, Complex(Single)),
    (c::COMPLEX16, Complex(Double)),
    (c::COMPLEX32, Complex(Quad)),
    (c::C_BOOL, Logical(1)),
    (c::CXX_BOOL, Logical(1)),
    (c::LOGICAL, Logical(4)),
    (c::LOGICAL1, Logical(1)),
    (c::LOGICAL2, Logical(2)),
    (c::LOGICAL4, Logical(4)),
    (c::LOGICAL8, Logical(8)),
    (c::LOGICAL16, Logical(16)),
    (c::BYTE, Byte),
    (c::FLOAT_INT, Pair(Real(Single), Int(4), 4, 8)),
    (c::DOUBLE_INT, Pair(Real(Double), Int(4), 8, 16)),
    (c::LONG_INT, Pair(Int(8), Int(4), 8, 16)),
    (c::TWOINT, Pair(Int(4), Int(4), 4, 8)),
    (c::SHORT_INT, Pair(Int(2), Int(4), 4, 8)),
    (c::LONG_DOUBLE_INT, Pair(Real(LongDouble), Int(4), 16, 32)),
    (c::TWOREAL, Pair(Real(Single), Real(Single), 4, 8)),
    (c::TWODOUBLE_PRECISION, Pair(Real(Double), Real(Double), 8, 16)),
    (c::TWOINTEGER, Pair(Int(4), Int(4), 4, 8)),
    (c::CHAR, CHAR),
    (c::CHARACTER, CHAR),
    (c::WCHAR, Meaningless),
    (c::PACKED, Meaningless),
];

const OPS: [u32; 14] = [
    c::SUM,
    c::MIN,
    c::MAX,
    c::PROD,
    c::BAND,
    c::BOR,
    c::BXOR,
    c::LAND,
    c::LOR,
    c::LXOR,
    c::MINLOC,
    c::MAXLOC,
    c::REPLACE,
    c::NO_OP,
];

/// MPI 5.0, 6.9.2 and 6.9.4. Fortran's integers count as C's of the same size, so logical operators
/// take them too.
fn defined(op: u32, sort: Sort) -> bool {
    match op {
        c::SUM | c::PROD => matches!(sort, Signed(_) | Unsigned(_) | Float(_) | Complex(_)),
        c::MIN | c::MAX => matches!(sort, Signed(_) | Unsigned(_) | Float(_)),
        c::BAND | c::BOR | c::BXOR => matches!(sort, Signed(_) | Unsigned(_) | Byte),
        c::LAND | c::LOR | c::LXOR => matches!(sort, Signed(_) | Unsigned(_) | Logical(_)),
        c::MINLOC | c::MAXLOC => matches!(sort, Pair(..)),
        _ => false,
    }
}

impl Format {
    fn bytes(self) -> usize {
        match self {
            Half => 2,
            Single => 4,
            Double => 8,
            LongDouble | Quad => 16,
        }
    }

    /// The bits of a number that is exact in this format and in `f64`.
    fn encode(self, value: f64) -> Vec<u8> {
        let bits = u128::from(value.to_bits());
        let (sign, exponent, fraction) = (bits >> 63, (bits >> 52) & 0x7ff, bits & ((1 << 52) - 1));
        let wide = if exponent == 0 { 0 } else { exponent + 0x3fff - 0x3ff };
        let quad = (sign << 127 | wide << 112 | fraction << 60).to_ne_bytes().to_vec();
        let explicit = u128::from(exponent != 0) << 63;
        let extended = (sign << 79 | wide << 64 | explicit | fraction << 11).to_ne_bytes().to_vec();
        match self {
            Half => {
                let narrow = if exponent == 0 { 0 } else { exponent + 15 - 0x3ff };
                ((sign << 15 | narrow << 10 | fraction >> 42) as u16).to_ne_bytes().to_vec()
            }
            Single => (value as f32).to_ne_bytes().to_vec(),
            Double => value.to_ne_bytes().to_vec(),
            LongDouble if cfg!(target_arch = "x86_64") => extended,
            LongDouble | Quad => quad,
        }
    }
}

impl Number {
    fn encode(self, value: i128) -> Vec<u8> {
        match self {
            Int(bytes) => value.to_le_bytes()[..bytes].to_vec(),
            Real(format) => format.encode(value as f64),
        }
    }
}

/// Numbers without any order, the same in each run.
struct Stream(Rng);

impl Stream {
    fn below(&mut self, n: u64) -> i128 {
        i128::from(self.0.u64(..n))
    }

    /// A multiple of 1/4 below 8: sums and products of two (and of complex ones) are exact even in
    /// half precision.
    fn number(&mut self) -> f64 {
        (self.below(41) - 20) as f64 / 4.0
    }
}

fn real(op: u32, x: f64, y: f64) -> f64 {
    match op {
        c::SUM => x + y,
        c::PROD => x * y,
        c::MIN => x.min(y),
        c::MAX => x.max(y),
        _ => unreachable!(),
    }
}

/// One element of each operand and of the result, as bytes.
#[expect(clippy::too_many_lines, reason = "a table, one arm for each operator and sort of values")]
fn sample(op: u32, sort: Sort, stream: &mut Stream) -> [Vec<u8>; 3] {
    match sort {
        Signed(bytes) | Unsigned(bytes) => {
            let unused = 128 - 8 * bytes as u32;
            // Logical operators must meet zeros, comparisons equal values.
            let mut draw = || match stream.below(4) {
                0 => 0,
                1 => stream.0.u128(..) & 3,
                _ => stream.0.u128(..),
            };
            let (x, y) = (draw() << unused, draw() << unused);
            let less = match sort {
                Signed(_) => (x as i128) < (y as i128),
                _ => x < y,
            };
            let (a, b) = (x >> unused, y >> unused);
            let result = match op {
                c::SUM => a.wrapping_add(b),
                c::PROD => a.wrapping_mul(b),
                c::MIN => {
                    if less {
                        a
                    } else {
                        b
                    }
                }
                c::MAX => {
                    if less {
                        b
                    } else {
                        a
                    }
                }
                c::BAND => a & b,
                c::BOR => a | b,
                c::BXOR => a ^ b,
                c::LAND => u128::from(a != 0 && b != 0),
                c::LOR => u128::from(a != 0 || b != 0),
                c::LXOR => u128::from((a != 0) != (b != 0)),
                _ => unreachable!(),
            };
            [a, b, result].map(|v| v.to_le_bytes()[..bytes].to_vec())
        }
        Float(format) => {
            let (x, y) = (stream.number(), stream.number());
            [x, y, real(op, x, y)].map(|v| format.encode(v))
        }
        Complex(format) => {
            let (x, y) = ([stream.number(), stream.number()], [stream.number(), stream.number()]);
            let result = match op {
                c::SUM => [x[0] + y[0], x[1] + y[1]],
                _ => [x[0] * y[0] - x[1] * y[1], x[0] * y[1] + x[1] * y[0]],
            };
            [x, y, result].map(|[re, im]| [format.encode(re), format.encode(im)].concat())
        }
        Logical(bytes) => {
            let (x, y) = (stream.below(2), stream.below(2));
            let result = match op {
                c::LAND => x & y,
                c::LOR => x | y,
                _ => x ^ y,
            };
            [x, y, result].map(|v| v.to_le_bytes()[..bytes].to_vec())
        }
        Byte => {
            let (x, y) = (stream.0.u8(..), stream.0.u8(..));
            let result = match op {
                c::BAND => x & y,
                c::BOR => x | y,
                _ => x ^ y,
            };
            [x, y, result].map(|v| vec![v])
        }
        Pair(value, index, at, extent) => {
            let mut draw = || (stream.below(5) - 2, stream.below(100));
            let ((a, i), (b, j)) = (draw(), draw());
            let first = if op == c::MINLOC { a < b } else { a > b };
            let result = if a == b {
                (a, i.min(j))
            } else if first {
                (a, i)
            } else {
                (b, j)
            };
            [(a, i), (b, j), result].map(|(v, i)| {
                let mut bytes = value.encode(v);
                bytes.resize(at, 0);
                bytes.extend(index.encode(i));
                bytes.resize(extent, 0);
                bytes
            })
        }
        Meaningless => unreachable!(),
    }
}

#[test]
fn every_operator_on_every_type_agrees_with_the_reference() {
    let mut stream = Stream(Rng::with_seed(1));
    let mut tested = 0;
    for op_handle in OPS {
        let op = Op::resolve(op_handle).unwrap();
        for &(handle, sort) in TYPES.iter().filter(|t| defined(op_handle, t.1)) {
            let datatype = Datatype::predefined(handle).unwrap();
            op.check(&datatype).unwrap();
            for count in (0..20).chain([64, 127]) {
                let samples: Vec<_> =
                    (0..count).map(|_| sample(op_handle, sort, &mut stream)).collect();
                let column =
                    |i: usize| samples.iter().flat_map(|s| s[i].clone()).collect::<Vec<u8>>();
                let (x, mut y, mut wanted) = (column(0), column(1), column(2));
                // A byte behind the vector that must stay; the padding of the last pair is not ours
                // either.
                let used = if count == 0 { 0 } else { x.len() - padding(sort) };
                y.truncate(used);
                wanted.truncate(used);
                y.push(0x5a);
                wanted.push(0x5a);
                let input = Block::allocate(used).unwrap();
                input.write_bytes(&x[..used]);
                let inout = Block::allocate(used + 1).unwrap();
                inout.write_bytes(&y);
                op.apply(&input, &inout, count, &datatype).unwrap();
                let mut result = vec![0; used + 1];
                inout.read_bytes(&mut result);
                assert_eq!(result, wanted, "{op:?} on {} x {}", datatype.label(), count);
                tested += 1;
            }
        }
    }
    assert!(tested > 2000, "{tested}");
}

/// Bytes behind the last field of a pair.
fn padding(sort: Sort) -> usize {
    match sort {
        Pair(_, Int(bytes), at, extent) => extent - at - bytes,
        Pair(_, Real(format), at, extent) => extent - at - format.bytes(),
        _ => 0,
    }
}

#[test]
fn all_other_pairs_are_refused() {
    let memory = Block::allocate(64).unwrap();
    for op_handle in OPS {
        let op = Op::resolve(op_handle).unwrap();
        for &(handle, sort) in TYPES {
            let datatype = Datatype::predefined(handle).unwrap();
            if defined(op_handle, sort) {
                continue;
            }
            let error = reduce_local(&op, &memory, &memory.offset(32), 1, &datatype).unwrap_err();
            assert_eq!(error.code(), c::ERR_OP, "{op:?} on {}", datatype.label());
        }
    }
    let error =
        Op::resolve(c::SUM).unwrap().check(&Datatype::predefined(c::WCHAR).unwrap()).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("MPI_SUM") && text.contains("MPI_WCHAR"), "{text}");
    let derived = Datatype::contiguous(2, &Datatype::predefined(c::INT).unwrap()).unwrap();
    assert_eq!(Op::resolve(c::SUM).unwrap().check(&derived).unwrap_err().code(), c::ERR_OP);
}

#[test]
fn one_sided_operators_replace_or_leave() {
    let datatype = Datatype::predefined(c::INT).unwrap();
    let (from, to) = (Block::allocate(8).unwrap(), Block::allocate(8).unwrap());
    from.write_bytes(&[1; 8]);
    to.write_bytes(&[2; 8]);
    let mut bytes = [0; 8];
    Op::resolve(c::NO_OP).unwrap().apply(&from, &to, 2, &datatype).unwrap();
    to.read_bytes(&mut bytes);
    assert_eq!(bytes, [2; 8]);
    Op::resolve(c::REPLACE).unwrap().apply(&from, &to, 1, &datatype).unwrap();
    to.read_bytes(&mut bytes);
    assert_eq!(bytes, [1, 1, 1, 1, 2, 2, 2, 2]);
}

#[test]
fn nan_and_signed_zero_do_not_confuse_extrema() {
    let datatype = Datatype::predefined(c::DOUBLE).unwrap();
    let apply = |op: u32, x: f64, y: f64| {
        let (a, b) = (Block::allocate(8).unwrap(), Block::allocate(8).unwrap());
        a.write_bytes(&x.to_ne_bytes());
        b.write_bytes(&y.to_ne_bytes());
        Op::resolve(op).unwrap().apply(&a, &b, 1, &datatype).unwrap();
        let mut bytes = [0; 8];
        b.read_bytes(&mut bytes);
        f64::from_ne_bytes(bytes)
    };
    assert_eq!(apply(c::MIN, f64::NEG_INFINITY, 3.0), f64::NEG_INFINITY);
    assert_eq!(apply(c::MAX, f64::INFINITY, 3.0), f64::INFINITY);
    assert_eq!(apply(c::MIN, 0.0, -0.0), 0.0);
    assert!(apply(c::SUM, f64::NAN, 1.0).is_nan());
    assert!(apply(c::MAX, 1.0, f64::NAN).is_nan());
}
