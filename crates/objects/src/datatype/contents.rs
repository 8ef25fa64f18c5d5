//! How a datatype was made: `MPI_Type_get_envelope` and `MPI_Type_get_contents` (MPI 5.0, 5.1.13).
//!
//! The plain form of a constructor gives `int`, and displacements that are `MPI_Aint`; the large
//! one (`_c`) gives `MPI_Count` for both, whatever their values, and such a datatype can only be
//! decoded with the `_c` procedures. So can what the library itself makes with counts that do not
//! fit an `int`.

use std::sync::Arc;

use super::{Datatype, TypeArguments};
use crate::attribute::AttributeSet;
use crate::constants as c;
use crate::error::{Error, Result};

/// The numbers of arguments of each kind, and which call made the datatype.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TypeEnvelope {
    /// How many `int`.
    pub integers: usize,
    /// How many `MPI_Aint`.
    pub addresses: usize,
    /// How many `MPI_Count`; not 0 only in the large form.
    pub counts: usize,
    /// How many datatypes.
    pub datatypes: usize,
    /// One of `MPI_COMBINER_*`.
    pub combiner: i32,
}

/// The arguments themselves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeContents {
    /// Those of type `int`.
    pub integers: Vec<i64>,
    /// Those of type `MPI_Aint`.
    pub addresses: Vec<i64>,
    /// Those of type `MPI_Count`.
    pub counts: Vec<i64>,
    /// Handles of the datatypes; the caller frees those that are not predefined.
    pub datatypes: Vec<u32>,
}

impl Datatype {
    /// Which call made this datatype, with how many arguments.
    pub fn envelope(&self) -> TypeEnvelope {
        let TypeArguments { combiner, integers, addresses, counts, datatypes } =
            &self.0.core.arguments;
        TypeEnvelope {
            integers: integers.len(),
            addresses: addresses.len(),
            counts: counts.len(),
            datatypes: datatypes.len(),
            combiner: *combiner,
        }
    }

    /// The arguments of that call. Derived datatypes among them get new handles, which the caller
    /// frees.
    pub fn contents(&self) -> Result<TypeContents> {
        let TypeArguments { combiner, integers, addresses, counts, datatypes } =
            &self.0.core.arguments;
        if *combiner == c::COMBINER_NAMED {
            let reason = "a predefined datatype has no contents";
            return Err(Error::argument(c::ERR_TYPE, "datatype", self.label(), reason));
        }
        let handles: Result<Vec<u32>> = datatypes.iter().map(Datatype::another_handle).collect();
        Ok(TypeContents {
            integers: integers.clone(),
            addresses: addresses.clone(),
            counts: counts.clone(),
            datatypes: handles?,
        })
    }

    /// A handle of an equal datatype: the same one for predefined types, otherwise a new object
    /// without attributes.
    ///
    /// # Errors
    /// `MPI_ERR_NO_MEM` when no handle is left.
    pub fn another_handle(&self) -> Result<u32> {
        if self.is_predefined() {
            return Ok(self.handle());
        }
        let core = Arc::clone(&self.0.core);
        Datatype::with_core(core, self.committed(), AttributeSet::default()).register()
    }

    /// Frees what [`another_handle`](Self::another_handle) of this datatype has returned.
    ///
    /// # Errors
    /// `MPI_ERR_TYPE` where it is freed already.
    pub fn give_back(&self, handle: u32) -> Result<()> {
        if self.is_predefined() { Ok(()) } else { Datatype::free(handle) }
    }
}
