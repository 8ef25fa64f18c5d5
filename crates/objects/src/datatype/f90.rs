//! Datatypes chosen by precision, range or size: for Fortran's parameterized kinds (MPI 5.0,
//! 19.1.9).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use mica_memory::TypeLayout;

use super::TypeArguments;
use super::basic::BasicType;
use super::signature::Signature;
use super::{Datatype, TypeCore};
use crate::constants as c;
use crate::error::{Error, Result};
use crate::sync::lock;

/// (type, complex type, decimal digits, decimal exponent range) of gfortran's reals.
const REALS: [(BasicType, BasicType, i32, i32); 3] = [
    (BasicType::F32, BasicType::ComplexF32, 6, 37),
    (BasicType::F64, BasicType::ComplexF64, 15, 307),
    (BasicType::Quad, BasicType::ComplexQuad, 33, 4931),
];

/// (type, decimal digits) of its integers.
const INTEGERS: [(BasicType, i32); 5] = [
    (BasicType::I8, 2),
    (BasicType::I16, 4),
    (BasicType::I32, 9),
    (BasicType::I64, 18),
    (BasicType::I128, 38),
];

type Key = (i32, i32, i32);

/// One datatype for each (combiner, p, r): the standard wants the same handle for the same
/// arguments.
static MADE: Mutex<BTreeMap<Key, Datatype>> = Mutex::new(BTreeMap::new());

/// The datatype of this combiner and arguments, of `basic` elements; made on first use and never
/// freed.
fn unnamed(combiner: i32, p: i32, r: i32, basic: BasicType) -> Result<Datatype> {
    let mut made = lock(&MADE);
    let integers: &[i64] = match combiner {
        c::COMBINER_F90_INTEGER => &[r.into()],
        _ => &[p.into(), r.into()],
    };
    let arguments = TypeArguments::new(combiner, &[integers], &[], Vec::new())?;
    let datatype = made.entry((combiner, p, r)).or_insert_with(|| {
        let layout: TypeLayout = Datatype::layout_of(basic);
        Datatype::new(TypeCore {
            arguments,
            layout: Arc::new(layout),
            signature: Signature::basic(basic, None),
            basic: Some(basic),
            element: Some(basic),
            permanent: true,
        })
    });
    datatype.register()?;
    Ok(datatype.clone())
}

fn real(p: i32, r: i32) -> Result<(BasicType, BasicType)> {
    if p == c::UNDEFINED && r == c::UNDEFINED {
        let reason = "precision and range cannot both be undefined";
        return Err(Error::argument(c::ERR_ARG, "p", "MPI_UNDEFINED", reason));
    }
    let fits = |wanted: i32, limit: i32| wanted == c::UNDEFINED || wanted <= limit;
    REALS
        .iter()
        .find(|(_, _, digits, range)| fits(p, *digits) && fits(r, *range))
        .map(|&(real, complex, _, _)| (real, complex))
        .ok_or_else(|| {
            let (argument, value) = if fits(p, 33) { ("r", r) } else { ("p", p) };
            let reason = "no real type has more than 33 digits and a range of 4931";
            Error::argument(c::ERR_ARG, argument, value, reason)
        })
}

impl Datatype {
    /// `MPI_Type_create_f90_real`: `p` decimal digits, decimal exponent range `r`.
    pub fn f90_real(p: i32, r: i32) -> Result<Datatype> {
        unnamed(c::COMBINER_F90_REAL, p, r, real(p, r)?.0)
    }

    /// `MPI_Type_create_f90_complex`.
    pub fn f90_complex(p: i32, r: i32) -> Result<Datatype> {
        unnamed(c::COMBINER_F90_COMPLEX, p, r, real(p, r)?.1)
    }

    /// `MPI_Type_create_f90_integer`: decimal range `r`.
    pub fn f90_integer(r: i32) -> Result<Datatype> {
        match INTEGERS.iter().find(|(_, digits)| r <= *digits) {
            Some(&(basic, _)) => unnamed(c::COMBINER_F90_INTEGER, 0, r, basic),
            None => {
                Err(Error::argument(c::ERR_ARG, "r", r, "no integer type has more than 38 digits"))
            }
        }
    }
}

/// `MPI_Type_match_size`: the handle of the predefined type of this class and size in bytes.
pub fn match_size(typeclass: i32, size: i32) -> Result<u32> {
    let (sizes, what): (&[(i32, u32)], _) = match typeclass {
        c::TYPECLASS_REAL => {
            (&[(2, c::REAL2), (4, c::REAL4), (8, c::REAL8), (16, c::REAL16)], "real")
        }
        c::TYPECLASS_INTEGER => (
            &[
                (1, c::INTEGER1),
                (2, c::INTEGER2),
                (4, c::INTEGER4),
                (8, c::INTEGER8),
                (16, c::INTEGER16),
            ],
            "integer",
        ),
        c::TYPECLASS_COMPLEX => (
            &[(4, c::COMPLEX4), (8, c::COMPLEX8), (16, c::COMPLEX16), (32, c::COMPLEX32)],
            "complex",
        ),
        _ => {
            let reason = "it is not one of MPI_TYPECLASS_*";
            return Err(Error::argument(c::ERR_ARG, "typeclass", typeclass, reason));
        }
    };
    sizes.iter().find(|(bytes, _)| *bytes == size).map(|&(_, handle)| handle).ok_or_else(|| {
        Error::argument(c::ERR_ARG, "size", size, format!("no {what} type has this size"))
    })
}
