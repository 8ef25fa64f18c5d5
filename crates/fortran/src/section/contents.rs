//! The arguments of the constructor that made a datatype, by `MPI_Type_get_envelope` and
//! `MPI_Type_get_contents` (MPI 5.0, 5.1.13) in their large forms, which serve every datatype.

use std::ffi::c_int;

use super::library::{PMPI_Type_free, PMPI_Type_get_contents_c, PMPI_Type_get_envelope_c, check};
use crate::abi::{Word, constants as c, is_predefined};

/// The arguments of a constructor.
#[derive(Debug)]
pub struct ConstructorArguments {
    /// Which constructor: one of `MPI_COMBINER_*`.
    pub combiner: c_int,
    /// Those of type `int`.
    pub integers: Vec<c_int>,
    /// Counts and displacements, in the order of the constructor's parameters. Of the array
    /// constructors only what does not fit an `int`, or was given as `MPI_Count`.
    pub numbers: Vec<i64>,
    /// Handles of datatypes.
    pub datatypes: Vec<Word>,
}

/// Handles of derived datatypes, freed with the list.
#[derive(Debug, Default)]
pub struct FreedTypes(Vec<Word>);

impl Drop for FreedTypes {
    fn drop(&mut self) {
        for handle in &mut self.0 {
            // SAFETY: the library returned this handle to be freed.
            unsafe { PMPI_Type_free(handle) };
        }
    }
}

/// How many arguments of each kind there are.
#[derive(Debug, Default)]
struct Envelope {
    integers: i64,
    addresses: i64,
    counts: i64,
    datatypes: i64,
    combiner: c_int,
}

impl Envelope {
    fn of(handle: Word) -> Result<Envelope, c_int> {
        let mut found = Envelope::default();
        // SAFETY: the places are ours.
        let code = unsafe {
            PMPI_Type_get_envelope_c(
                handle,
                &mut found.integers,
                &mut found.addresses,
                &mut found.counts,
                &mut found.datatypes,
                &mut found.combiner,
            )
        };
        check(code)?;
        Ok(found)
    }

    /// Whether the datatype is predefined, with or without a name: never freed.
    fn is_predefined(&self) -> bool {
        let unnamed = [c::COMBINER_F90_REAL, c::COMBINER_F90_COMPLEX, c::COMBINER_F90_INTEGER];
        unnamed.contains(&self.combiner)
            || [c::COMBINER_NAMED, c::COMBINER_VALUE_INDEX].contains(&self.combiner)
    }
}

fn array<T: Clone + Default>(len: i64) -> Result<Vec<T>, c_int> {
    let len = usize::try_from(len).map_err(|_| c::ERR_TYPE)?;
    let mut array = Vec::new();
    array.try_reserve_exact(len).map_err(|_| c::ERR_NO_MEM)?;
    array.resize(len, T::default());
    Ok(array)
}

impl ConstructorArguments {
    /// The arguments for the datatype `handle`; `None` for a predefined one. Derived datatypes
    /// among them are added to `freed`.
    ///
    /// # Errors
    /// Those of MPI, and `MPI_ERR_NO_MEM`.
    pub fn of(handle: Word, freed: &mut FreedTypes) -> Result<Option<ConstructorArguments>, c_int> {
        if is_predefined(handle) {
            return Ok(None);
        }
        let envelope = Envelope::of(handle)?;
        if envelope.is_predefined() {
            return Ok(None);
        }
        let mut integers = array::<c_int>(envelope.integers)?;
        let mut addresses = array::<isize>(envelope.addresses)?;
        let mut numbers = array::<i64>(envelope.counts)?;
        let mut datatypes = array::<Word>(envelope.datatypes)?;
        freed.0.try_reserve(datatypes.len()).map_err(|_| c::ERR_NO_MEM)?;
        // SAFETY: the arrays have as many elements as the datatype has arguments.
        let code = unsafe {
            PMPI_Type_get_contents_c(
                handle,
                envelope.integers,
                envelope.addresses,
                envelope.counts,
                envelope.datatypes,
                integers.as_mut_ptr(),
                addresses.as_mut_ptr(),
                numbers.as_mut_ptr(),
                datatypes.as_mut_ptr(),
            )
        };
        check(code)?;
        for &datatype in &datatypes {
            if !is_predefined(datatype) && !Envelope::of(datatype)?.is_predefined() {
                freed.0.push(datatype);
            }
        }
        if envelope.counts == 0 {
            let all = integers.len() + addresses.len();
            numbers.try_reserve_exact(all).map_err(|_| c::ERR_NO_MEM)?;
            numbers.extend(integers.iter().map(|&value| i64::from(value)));
            numbers.extend(addresses.iter().map(|&value| value as i64));
        }
        let combiner = envelope.combiner;
        Ok(Some(ConstructorArguments { combiner, integers, numbers, datatypes }))
    }
}
