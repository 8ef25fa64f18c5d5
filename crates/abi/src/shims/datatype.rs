//! `MPI_Type_*`, addresses, and the counts of a status (MPI 5.0, chapter 5). Constructors are in
//! `datatype_create`, attributes in `attribute`.
#![allow(clippy::too_many_arguments, reason = "the argument lists are MPI's own")]

use std::ffi::{CStr, c_char, c_int, c_void};

use mica_mpi::constants as c;
use mica_mpi::datatype::{self, Datatype};
use mica_mpi::{Error, Result};

use crate::convert::{Out, check_array};
use crate::poly::{CountForm, PolyOut};
use crate::status;
use crate::types::*;

fn resolve(handle: MPI_Datatype) -> Result<Datatype> {
    Datatype::resolve(handle.raw())
}

/// Writes a result through the caller's pointer.
///
/// # Safety
/// `out` is null or writable.
unsafe fn put<T>(out: *mut T, argument: &'static str, value: T) -> Result<()> {
    if out.is_null() {
        return Err(Error::argument(
            c::ERR_ARG,
            argument,
            "NULL",
            "a place for the result is needed",
        ));
    }
    // SAFETY: by the contract above, and not null.
    unsafe { out.write(value) };
    Ok(())
}

/// MPI_Type_match_size.
///
/// # Safety
/// `datatype` is writable.
pub unsafe fn mpi_type_match_size(
    typeclass: c_int,
    size: c_int,
    datatype: *mut MPI_Datatype,
) -> Result<()> {
    let handle = MPI_Datatype::from_raw(datatype::match_size(typeclass, size)?);
    // SAFETY: as the caller promises.
    unsafe { put(datatype, "datatype", handle) }
}

/// MPI_Type_get_value_index.
///
/// # Safety
/// `pair_type` is writable.
pub unsafe fn mpi_type_get_value_index(
    value_type: MPI_Datatype,
    index_type: MPI_Datatype,
    pair_type: *mut MPI_Datatype,
) -> Result<()> {
    let pair = datatype::value_index(value_type.raw(), index_type.raw())?;
    // SAFETY: as the caller promises.
    unsafe { put(pair_type, "pair_type", MPI_Datatype::from_raw(pair)) }
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

/// MPI_Type_free.
///
/// # Safety
/// `datatype` points to a handle.
pub unsafe fn mpi_type_free(datatype: *mut MPI_Datatype) -> Result<()> {
    // SAFETY: as the caller promises.
    let handle = unsafe { Out::new(datatype, "datatype")? }.get();
    Datatype::free(handle.raw())?;
    // SAFETY: as the caller promises.
    unsafe { put(datatype, "datatype", MPI_Datatype::from_raw(c::DATATYPE_NULL)) }
}

/// MPI_Type_size, MPI_Type_size_c.
///
/// # Safety
/// `size` is writable.
pub unsafe fn mpi_type_size(datatype: MPI_Datatype, size: PolyOut) -> Result<()> {
    // SAFETY: as the caller promises.
    unsafe { size.required("size")?.set_or_undefined(0, resolve(datatype)?.size()) };
    Ok(())
}

/// MPI_Type_size_x.
///
/// # Safety
/// `size` is writable.
pub unsafe fn mpi_type_size_x(datatype: MPI_Datatype, size: *mut MPI_Count) -> Result<()> {
    // SAFETY: as the caller promises.
    unsafe { put(size, "size", resolve(datatype)?.size()) }
}

/// MPI_Type_get_extent, MPI_Type_get_extent_c.
///
/// # Safety
/// `lb` and `extent` are writable.
pub unsafe fn mpi_type_get_extent(
    datatype: MPI_Datatype,
    lb: PolyOut,
    extent: PolyOut,
) -> Result<()> {
    let datatype = resolve(datatype)?;
    // SAFETY: as the caller promises.
    unsafe {
        lb.required("lb")?.set_or_undefined(0, datatype.lb());
        extent.required("extent")?.set_or_undefined(0, datatype.extent());
    }
    Ok(())
}

/// MPI_Type_get_extent_x.
///
/// # Safety
/// `lb` and `extent` are writable.
pub unsafe fn mpi_type_get_extent_x(
    datatype: MPI_Datatype,
    lb: *mut MPI_Count,
    extent: *mut MPI_Count,
) -> Result<()> {
    let datatype = resolve(datatype)?;
    // SAFETY: as the caller promises.
    unsafe {
        put(lb, "lb", datatype.lb())?;
        put(extent, "extent", datatype.extent())
    }
}

/// MPI_Type_get_true_extent, MPI_Type_get_true_extent_c.
///
/// # Safety
/// `true_lb` and `true_extent` are writable.
pub unsafe fn mpi_type_get_true_extent(
    datatype: MPI_Datatype,
    true_lb: PolyOut,
    true_extent: PolyOut,
) -> Result<()> {
    let datatype = resolve(datatype)?;
    // SAFETY: as the caller promises.
    unsafe {
        true_lb.required("true_lb")?.set_or_undefined(0, datatype.true_lb());
        true_extent.required("true_extent")?.set_or_undefined(0, datatype.true_extent());
    }
    Ok(())
}

/// MPI_Type_get_true_extent_x.
///
/// # Safety
/// `true_lb` and `true_extent` are writable.
pub unsafe fn mpi_type_get_true_extent_x(
    datatype: MPI_Datatype,
    true_lb: *mut MPI_Count,
    true_extent: *mut MPI_Count,
) -> Result<()> {
    let datatype = resolve(datatype)?;
    // SAFETY: as the caller promises.
    unsafe {
        put(true_lb, "true_lb", datatype.true_lb())?;
        put(true_extent, "true_extent", datatype.true_extent())
    }
}

/// Refuses a datatype made with large counts, which the plain calls cannot return.
fn check_form(datatype: &Datatype, form: CountForm) -> Result<()> {
    if form == CountForm::Large || datatype.envelope().counts == 0 {
        return Ok(());
    }
    let reason = "it was made with counts that do not fit an int; use the _c form of the call";
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
        num_integers.required("num_integers")?.set_or_undefined(0, envelope.integers as i64);
        num_addresses.required("num_addresses")?.set_or_undefined(0, envelope.addresses as i64);
        num_datatypes.required("num_datatypes")?.set_or_undefined(0, envelope.datatypes as i64);
        if form == CountForm::Large {
            put(num_large_counts, "num_large_counts", envelope.counts as i64)?;
        }
        put(combiner, "combiner", envelope.combiner)
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
        for (i, &value) in contents.integers.iter().enumerate() {
            array_of_integers.add(i).write(value as c_int);
        }
        for (i, &value) in contents.addresses.iter().enumerate() {
            array_of_addresses.add(i).write(value as MPI_Aint);
        }
        for (i, &value) in contents.counts.iter().enumerate() {
            array_of_large_counts.add(i).write(value);
        }
        for (i, &handle) in contents.datatypes.iter().enumerate() {
            array_of_datatypes.add(i).write(MPI_Datatype::from_raw(handle));
        }
    }
    Ok(())
}

/// MPI_Type_set_name. A name that is too long is cut.
///
/// # Safety
/// `type_name` is a C string.
pub unsafe fn mpi_type_set_name(datatype: MPI_Datatype, type_name: *const c_char) -> Result<()> {
    check_array(type_name, 1, "type_name")?;
    // SAFETY: as the caller promises.
    let name = unsafe { CStr::from_ptr(type_name) }.to_string_lossy();
    resolve(datatype)?.set_name(&name);
    Ok(())
}

/// MPI_Type_get_name.
///
/// # Safety
/// `type_name` is writable for `MPI_MAX_OBJECT_NAME` characters, `resultlen` for one integer.
pub unsafe fn mpi_type_get_name(
    datatype: MPI_Datatype,
    type_name: *mut c_char,
    resultlen: *mut c_int,
) -> Result<()> {
    // The null handle has a name, too (MPI 5.0, 7.8).
    let name = match datatype.raw() {
        c::DATATYPE_NULL => "MPI_DATATYPE_NULL".to_owned(),
        _ => resolve(datatype)?.name(),
    };
    check_array(type_name, 1, "type_name")?;
    // SAFETY: as the caller promises; `set_name` keeps names shorter than the array.
    unsafe {
        std::ptr::copy_nonoverlapping(name.as_ptr().cast(), type_name, name.len());
        type_name.add(name.len()).write(0);
        put(resultlen, "resultlen", name.len() as c_int)
    }
}

/// MPI_Get_address.
///
/// # Safety
/// `address` is writable.
pub unsafe fn mpi_get_address(location: *const c_void, address: *mut MPI_Aint) -> Result<()> {
    // Exposed, because the caller will get at the memory through this number.
    // SAFETY: as the caller promises.
    unsafe { put(address, "address", location.expose_provenance() as MPI_Aint) }
}

/// A count to return: `MPI_UNDEFINED` where there is none, or where it exceeds 63 bits.
fn or_undefined(count: Option<u64>) -> i64 {
    count.and_then(|count| i64::try_from(count).ok()).unwrap_or(c::UNDEFINED.into())
}

/// MPI_Get_count, MPI_Get_count_c.
///
/// # Safety
/// `status` is a status, `count` writable.
pub unsafe fn mpi_get_count(
    status: *const MPI_Status,
    datatype: MPI_Datatype,
    count: PolyOut,
) -> Result<()> {
    // SAFETY: as the caller promises.
    unsafe {
        let bytes = status::read(status)?.bytes();
        count.required("count")?.set_or_undefined(0, or_undefined(resolve(datatype)?.count(bytes)));
    }
    Ok(())
}

/// MPI_Get_elements, MPI_Get_elements_c.
///
/// # Safety
/// `status` is a status, `count` writable.
pub unsafe fn mpi_get_elements(
    status: *const MPI_Status,
    datatype: MPI_Datatype,
    count: PolyOut,
) -> Result<()> {
    // SAFETY: as the caller promises.
    unsafe {
        let bytes = status::read(status)?.bytes();
        count
            .required("count")?
            .set_or_undefined(0, or_undefined(resolve(datatype)?.elements(bytes)));
    }
    Ok(())
}

/// MPI_Get_elements_x.
///
/// # Safety
/// `status` is a status, `count` writable.
pub unsafe fn mpi_get_elements_x(
    status: *const MPI_Status,
    datatype: MPI_Datatype,
    count: *mut MPI_Count,
) -> Result<()> {
    // SAFETY: as the caller promises.
    unsafe {
        let bytes = status::read(status)?.bytes();
        put(count, "count", or_undefined(resolve(datatype)?.elements(bytes)))
    }
}

/// MPI_Status_set_elements, MPI_Status_set_elements_c.
///
/// # Safety
/// `status` is a status.
pub unsafe fn mpi_status_set_elements(
    status: *mut MPI_Status,
    datatype: MPI_Datatype,
    count: MPI_Count,
) -> Result<()> {
    let bytes = resolve(datatype)?.bytes_of_elements(count)?;
    // SAFETY: as the caller promises.
    unsafe { status::write(status)? }.set_bytes(bytes);
    Ok(())
}

/// MPI_Status_set_elements_x.
///
/// # Safety
/// `status` is a status.
pub unsafe fn mpi_status_set_elements_x(
    status: *mut MPI_Status,
    datatype: MPI_Datatype,
    count: MPI_Count,
) -> Result<()> {
    // SAFETY: as the caller promises.
    unsafe { mpi_status_set_elements(status, datatype, count) }
}

#[cfg(test)]
mod tests {
    use std::ptr::{null, null_mut};

    use super::*;
    use crate::method;
    use crate::poly::PolyArray;

    fn handle(raw: u32) -> MPI_Datatype {
        MPI_Datatype::from_raw(raw)
    }

    fn vector(count: i64, length: i64, stride: i64, old: u32) -> MPI_Datatype {
        let mut made = handle(0);
        let create = || Datatype::vector(count, length, stride, &Datatype::resolve(old)?);
        // SAFETY: the place is a local.
        unsafe { method::give(&raw mut made, "newtype", create) }.unwrap();
        made
    }

    #[test]
    fn a_datatype_lives_from_constructor_to_free() {
        let mut vector = vector(4, 2, 3, c::DOUBLE);
        let (mut ints, mut addresses, mut types) = ([0; 3], [0 as MPI_Aint; 1], [handle(0)]);
        let (mut size, mut name, mut len): (c_int, _, c_int) = (0, [1 as c_char; 128], -1);
        // SAFETY: all pointers are to locals of the sizes that the calls ask for.
        unsafe {
            mpi_type_commit(&raw mut vector).unwrap();
            mpi_type_size(vector, PolyOut::new(&raw mut size)).unwrap();
            mpi_type_set_name(vector, c"columns".as_ptr()).unwrap();
            mpi_type_get_name(vector, name.as_mut_ptr(), &raw mut len).unwrap();
            let (i, a, t) = (ints.as_mut_ptr(), addresses.as_mut_ptr(), types.as_mut_ptr());
            let short =
                mpi_type_get_contents(vector, 2, 1, 0, 1, i, a, null_mut(), t, CountForm::Plain);
            assert_eq!(short.unwrap_err().code(), c::ERR_ARG);
            mpi_type_get_contents(vector, 3, 1, 0, 1, i, a, null_mut(), t, CountForm::Plain)
                .unwrap();
            mpi_type_free(&raw mut vector).unwrap();
        }
        assert_eq!((size, ints, types[0].raw()), (64, [4, 2, 3], c::DOUBLE));
        assert_eq!((len, name[7], name[0] as u8), (7, 0, b'c'));
        assert_eq!(vector.raw(), c::DATATYPE_NULL);
    }

    #[test]
    fn counts_that_an_int_cannot_hold_are_undefined_or_refused() {
        let mut large = vector(2, 1 << 32, 1 << 33, c::BYTE);
        let (mut size, mut wide): (c_int, MPI_Count) = (0, 0);
        let mut status = MPI_Status::default();
        status.set_bytes(1 << 33);
        // SAFETY: as above.
        unsafe {
            mpi_type_size(large, PolyOut::new(&raw mut size)).unwrap();
            mpi_type_size(large, PolyOut::new(&raw mut wide)).unwrap();
            assert_eq!((size, wide), (c::UNDEFINED, 1 << 33));
            mpi_get_count(&raw const status, large, PolyOut::new(&raw mut size)).unwrap();
            mpi_get_elements(&raw const status, large, PolyOut::new(&raw mut wide)).unwrap();
            assert_eq!((size, wide), (1, 1 << 33));
            let out = || PolyOut::new(null_mut::<c_int>());
            let envelope = mpi_type_get_envelope(
                large,
                out(),
                out(),
                null_mut(),
                out(),
                null_mut(),
                CountForm::Plain,
            );
            assert_eq!(envelope.unwrap_err().code(), c::ERR_TYPE);
            mpi_type_free(&raw mut large).unwrap();
        }
    }

    #[test]
    fn null_arrays_are_errors_only_when_they_have_elements() {
        let none = |n: MPI_Count| {
            let list = PolyArray::new(null::<c_int>());
            // SAFETY: null is allowed; the functions must refuse it.
            let numbers = unsafe { method::numbers(list, n, "lengths", "count") };
            // SAFETY: as above.
            numbers.and(unsafe { method::datatypes(null(), n, "types", "count") })
        };
        assert_eq!(none(1).unwrap_err().code(), c::ERR_ARG);
        assert_eq!(none(-1).unwrap_err().code(), c::ERR_COUNT);
        assert!(none(0).unwrap().is_empty());
        // SAFETY: as above.
        unsafe {
            let error = mpi_get_count(null(), handle(c::INT), PolyOut::new(null_mut::<c_int>()));
            assert_eq!(error.unwrap_err().code(), c::ERR_ARG);
        }
    }
}
