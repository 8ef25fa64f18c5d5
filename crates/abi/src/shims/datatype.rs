//! Commit, and what a datatype was made of (MPI 5.0, 5.1.9 and 5.1.13).
#![allow(clippy::too_many_arguments, reason = "the argument lists are MPI's own")]

use std::ffi::c_int;

use mica_mpi::constants as c;
use mica_mpi::datatype::Datatype;
use mica_mpi::{Error, Result};

use crate::convert::{Out, check_array};
use crate::method;
use crate::poly::{CountForm, PolyOut};
use crate::types::*;

fn resolve(handle: MPI_Datatype) -> Result<Datatype> {
    Datatype::resolve(handle.raw())
}

/// MPI_Type_commit.
///
/// # Safety
/// `datatype` points to a handle.
pub unsafe fn mpi_type_commit(datatype: *mut MPI_Datatype) -> Result<()> {
    // SAFETY: as the caller promises.
    let handle = unsafe { Out::new(datatype, "datatype")? }.get();
    resolve(handle)?.commit();
    Ok(())
}

/// Refuses a datatype made by the large form of a constructor: the plain calls cannot return its
/// counts.
fn check_form(datatype: &Datatype, form: CountForm) -> Result<()> {
    if form == CountForm::Large || datatype.envelope().counts == 0 {
        return Ok(());
    }
    let reason = "it was made by a _c call, with counts of MPI_Count; use the _c form of this one";
    Err(Error::argument(c::ERR_TYPE, "datatype", datatype.label(), reason))
}

/// MPI_Type_get_envelope, MPI_Type_get_envelope_c.
///
/// # Safety
/// The places for results are writable; `num_large_counts` is null in the plain form.
pub unsafe fn mpi_type_get_envelope(
    datatype: MPI_Datatype,
    num_integers: PolyOut,
    num_addresses: PolyOut,
    num_large_counts: *mut MPI_Count,
    num_datatypes: PolyOut,
    combiner: *mut c_int,
    form: CountForm,
) -> Result<()> {
    let datatype = resolve(datatype)?;
    check_form(&datatype, form)?;
    let envelope = datatype.envelope();
    // SAFETY: as the caller promises.
    unsafe {
        if form == CountForm::Large {
            method::give(num_large_counts, "num_large_counts", || Ok(envelope.counts))?;
        }
        method::give(
            ((num_integers, num_addresses, num_datatypes), combiner),
            (("num_integers", "num_addresses", "num_datatypes"), "combiner"),
            || {
                let numbers = (envelope.integers, envelope.addresses, envelope.datatypes);
                Ok((numbers, envelope.combiner))
            },
        )
    }
}

/// MPI_Type_get_contents, MPI_Type_get_contents_c.
///
/// # Safety
/// The arrays are writable for their maximum numbers of elements.
pub unsafe fn mpi_type_get_contents(
    datatype: MPI_Datatype,
    max_integers: MPI_Count,
    max_addresses: MPI_Count,
    max_large_counts: MPI_Count,
    max_datatypes: MPI_Count,
    array_of_integers: *mut c_int,
    array_of_addresses: *mut MPI_Aint,
    array_of_large_counts: *mut MPI_Count,
    array_of_datatypes: *mut MPI_Datatype,
    form: CountForm,
) -> Result<()> {
    let datatype = resolve(datatype)?;
    check_form(&datatype, form)?;
    let envelope = datatype.envelope();
    for (max, needed, argument) in [
        (max_integers, envelope.integers, "max_integers"),
        (max_addresses, envelope.addresses, "max_addresses"),
        (max_large_counts, envelope.counts, "max_large_counts"),
        (max_datatypes, envelope.datatypes, "max_datatypes"),
    ] {
        if max < needed as i64 {
            let reason = format!("the datatype has {needed} of them");
            return Err(Error::argument(c::ERR_ARG, argument, max, reason));
        }
    }
    check_array(array_of_integers, envelope.integers, "array_of_integers")?;
    check_array(array_of_addresses, envelope.addresses, "array_of_addresses")?;
    check_array(array_of_large_counts, envelope.counts, "array_of_large_counts")?;
    check_array(array_of_datatypes, envelope.datatypes, "array_of_datatypes")?;
    let contents = datatype.contents()?;
    // SAFETY: the arrays have room for what was checked above.
    unsafe {
        write_all(array_of_integers, contents.integers.iter().map(|&value| value as c_int));
        write_all(array_of_addresses, contents.addresses.iter().map(|&value| value as MPI_Aint));
        write_all(array_of_large_counts, contents.counts.iter().copied());
        let handles = contents.datatypes.iter().map(|&handle| MPI_Datatype::from_raw(handle));
        write_all(array_of_datatypes, handles);
    }
    Ok(())
}

/// # Safety
/// `array` is writable for the values.
unsafe fn write_all<T>(array: *mut T, values: impl Iterator<Item = T>) {
    for (at, value) in values.enumerate() {
        // SAFETY: as the caller promises.
        unsafe { array.add(at).write(value) };
    }
}

#[cfg(test)]
mod tests {
    use std::ptr::null_mut;

    use super::*;

    fn vector(count: i64, length: i64, stride: i64, old: u32) -> MPI_Datatype {
        let old = Datatype::resolve(old).unwrap();
        let made = Datatype::vector(count, length, stride, &old).unwrap();
        MPI_Datatype::from_raw(made.register().unwrap())
    }

    #[test]
    fn contents_are_returned_where_there_is_room() {
        let vector = vector(4, 2, 3, c::DOUBLE);
        let (mut ints, mut addresses) = ([0; 3], [0 as MPI_Aint; 1]);
        let mut types = [MPI_Datatype::from_raw(0)];
        // SAFETY: all pointers are to locals of the sizes that the calls ask for.
        unsafe {
            let (i, a, t) = (ints.as_mut_ptr(), addresses.as_mut_ptr(), types.as_mut_ptr());
            let plain = CountForm::Plain;
            let short = mpi_type_get_contents(vector, 2, 1, 0, 1, i, a, null_mut(), t, plain);
            assert_eq!(short.unwrap_err().code(), c::ERR_ARG);
            mpi_type_get_contents(vector, 3, 1, 0, 1, i, a, null_mut(), t, plain).unwrap();
        }
        assert_eq!((ints, types[0].raw()), ([4, 2, 3], c::DOUBLE));
        Datatype::free(vector.raw()).unwrap();
    }

    #[test]
    fn the_plain_form_refuses_a_datatype_made_with_large_counts() {
        let large = vector(2, 1 << 32, 1 << 33, c::BYTE);
        let out = || PolyOut::new(null_mut::<c_int>());
        let (none, plain) = (null_mut(), CountForm::Plain);
        // SAFETY: null is allowed.
        let envelope =
            unsafe { mpi_type_get_envelope(large, out(), out(), null_mut(), out(), none, plain) };
        assert_eq!(envelope.unwrap_err().code(), c::ERR_TYPE);
        Datatype::free(large.raw()).unwrap();
    }
}
