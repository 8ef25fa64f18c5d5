//! `MPI_Type_*`, addresses, and the counts of a status (MPI 5.0, chapter 5). Attributes are in `attribute`.

use std::ffi::{CStr, c_char, c_int, c_void};

use mica_mpi::constants as c;
use mica_mpi::datatype::{self, Datatype, check_count};
use mica_mpi::{Error, Result};

use crate::poly::{PolyArray, PolyOut};
use crate::status;
use crate::types::*;

/// An array argument must not be null where it has elements.
fn check_array(null: bool, count: usize, argument: &'static str) -> Result<()> {
    if null && count > 0 {
        let reason = format!("an array of {count} elements is needed");
        return Err(Error::argument(c::ERR_ARG, argument, "NULL", reason));
    }
    Ok(())
}

/// The first `count` numbers of a caller's array.
///
/// # Safety
/// `list` is null or has `count` elements.
unsafe fn numbers(list: PolyArray, count: usize, argument: &'static str) -> Result<Vec<i64>> {
    check_array(list.is_null(), count, argument)?;
    // SAFETY: by the contract above, and not null if it has elements.
    Ok(unsafe { list.to_vec(count) })
}

/// The same for an array of plain type.
///
/// # Safety
/// `list` is null or has `count` elements, which outlive the slice.
unsafe fn slice<'a, T>(list: *const T, count: usize, argument: &'static str) -> Result<&'a [T]> {
    check_array(list.is_null(), count, argument)?;
    if count == 0 {
        return Ok(&[]);
    }
    // SAFETY: by the contract above, and not null.
    Ok(unsafe { std::slice::from_raw_parts(list, count) })
}

fn length(count: MPI_Count, argument: &'static str) -> Result<usize> {
    check_count(count, argument).map(|count| count as usize)
}

/// The datatype that another is made of.
fn old(handle: MPI_Datatype) -> Result<Datatype> {
    Datatype::resolve_as(handle.raw(), "oldtype")
}

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

/// Gives a new datatype to the caller.
///
/// # Safety
/// `newtype` is null or writable.
unsafe fn create(newtype: *mut MPI_Datatype, datatype: Result<Datatype>) -> Result<()> {
    let datatype = datatype?;
    // SAFETY: by the contract above.
    unsafe {
        put(
            newtype,
            "newtype",
            MPI_Datatype::from_raw(datatype.register()),
        )
    }
}

/// MPI_Type_contiguous, MPI_Type_contiguous_c.
///
/// # Safety
/// `newtype` is writable.
pub unsafe fn mpi_type_contiguous(
    count: MPI_Count,
    oldtype: MPI_Datatype,
    newtype: *mut MPI_Datatype,
) -> Result<()> {
    // SAFETY: as the caller promises.
    unsafe { create(newtype, Datatype::contiguous(count, &old(oldtype)?)) }
}

/// MPI_Type_vector, MPI_Type_vector_c.
///
/// # Safety
/// `newtype` is writable.
pub unsafe fn mpi_type_vector(
    count: MPI_Count,
    blocklength: MPI_Count,
    stride: MPI_Count,
    oldtype: MPI_Datatype,
    newtype: *mut MPI_Datatype,
) -> Result<()> {
    // SAFETY: as the caller promises.
    unsafe {
        create(
            newtype,
            Datatype::vector(count, blocklength, stride, &old(oldtype)?),
        )
    }
}

/// MPI_Type_create_hvector, MPI_Type_create_hvector_c.
///
/// # Safety
/// `newtype` is writable.
pub unsafe fn mpi_type_create_hvector(
    count: MPI_Count,
    blocklength: MPI_Count,
    stride: MPI_Count,
    oldtype: MPI_Datatype,
    newtype: *mut MPI_Datatype,
) -> Result<()> {
    // SAFETY: as the caller promises.
    unsafe {
        create(
            newtype,
            Datatype::hvector(count, blocklength, stride, &old(oldtype)?),
        )
    }
}

/// MPI_Type_indexed, MPI_Type_indexed_c.
///
/// # Safety
/// The arrays have `count` elements; `newtype` is writable.
pub unsafe fn mpi_type_indexed(
    count: MPI_Count,
    array_of_blocklengths: PolyArray,
    array_of_displacements: PolyArray,
    oldtype: MPI_Datatype,
    newtype: *mut MPI_Datatype,
) -> Result<()> {
    let n = length(count, "count")?;
    // SAFETY: as the caller promises.
    unsafe {
        let lengths = numbers(array_of_blocklengths, n, "array_of_blocklengths")?;
        let displacements = numbers(array_of_displacements, n, "array_of_displacements")?;
        create(
            newtype,
            Datatype::indexed(&lengths, &displacements, &old(oldtype)?),
        )
    }
}

/// MPI_Type_create_hindexed, MPI_Type_create_hindexed_c.
///
/// # Safety
/// The arrays have `count` elements; `newtype` is writable.
pub unsafe fn mpi_type_create_hindexed(
    count: MPI_Count,
    array_of_blocklengths: PolyArray,
    array_of_displacements: PolyArray,
    oldtype: MPI_Datatype,
    newtype: *mut MPI_Datatype,
) -> Result<()> {
    let n = length(count, "count")?;
    // SAFETY: as the caller promises.
    unsafe {
        let lengths = numbers(array_of_blocklengths, n, "array_of_blocklengths")?;
        let displacements = numbers(array_of_displacements, n, "array_of_displacements")?;
        create(
            newtype,
            Datatype::hindexed(&lengths, &displacements, &old(oldtype)?),
        )
    }
}

/// MPI_Type_create_indexed_block, MPI_Type_create_indexed_block_c.
///
/// # Safety
/// The array has `count` elements; `newtype` is writable.
pub unsafe fn mpi_type_create_indexed_block(
    count: MPI_Count,
    blocklength: MPI_Count,
    array_of_displacements: PolyArray,
    oldtype: MPI_Datatype,
    newtype: *mut MPI_Datatype,
) -> Result<()> {
    let n = length(count, "count")?;
    // SAFETY: as the caller promises.
    unsafe {
        let displacements = numbers(array_of_displacements, n, "array_of_displacements")?;
        create(
            newtype,
            Datatype::indexed_block(blocklength, &displacements, &old(oldtype)?),
        )
    }
}

/// MPI_Type_create_hindexed_block, MPI_Type_create_hindexed_block_c.
///
/// # Safety
/// The array has `count` elements; `newtype` is writable.
pub unsafe fn mpi_type_create_hindexed_block(
    count: MPI_Count,
    blocklength: MPI_Count,
    array_of_displacements: PolyArray,
    oldtype: MPI_Datatype,
    newtype: *mut MPI_Datatype,
) -> Result<()> {
    let n = length(count, "count")?;
    // SAFETY: as the caller promises.
    unsafe {
        let displacements = numbers(array_of_displacements, n, "array_of_displacements")?;
        create(
            newtype,
            Datatype::hindexed_block(blocklength, &displacements, &old(oldtype)?),
        )
    }
}

/// MPI_Type_create_struct, MPI_Type_create_struct_c.
///
/// # Safety
/// The arrays have `count` elements; `newtype` is writable.
pub unsafe fn mpi_type_create_struct(
    count: MPI_Count,
    array_of_blocklengths: PolyArray,
    array_of_displacements: PolyArray,
    array_of_types: *const MPI_Datatype,
    newtype: *mut MPI_Datatype,
) -> Result<()> {
    let n = length(count, "count")?;
    // SAFETY: as the caller promises.
    unsafe {
        let lengths = numbers(array_of_blocklengths, n, "array_of_blocklengths")?;
        let displacements = numbers(array_of_displacements, n, "array_of_displacements")?;
        let types = slice(array_of_types, n, "array_of_types")?
            .iter()
            .map(|handle| Datatype::resolve_as(handle.raw(), "array_of_types"))
            .collect::<Result<Vec<_>>>()?;
        create(
            newtype,
            Datatype::create_struct(&lengths, &displacements, &types),
        )
    }
}

/// MPI_Type_create_subarray, MPI_Type_create_subarray_c.
///
/// # Safety
/// The arrays have `ndims` elements; `newtype` is writable.
pub unsafe fn mpi_type_create_subarray(
    ndims: c_int,
    array_of_sizes: PolyArray,
    array_of_subsizes: PolyArray,
    array_of_starts: PolyArray,
    order: c_int,
    oldtype: MPI_Datatype,
    newtype: *mut MPI_Datatype,
) -> Result<()> {
    let n = dimensions(ndims)?;
    // SAFETY: as the caller promises.
    unsafe {
        let sizes = numbers(array_of_sizes, n, "array_of_sizes")?;
        let subsizes = numbers(array_of_subsizes, n, "array_of_subsizes")?;
        let starts = numbers(array_of_starts, n, "array_of_starts")?;
        create(
            newtype,
            Datatype::subarray(&sizes, &subsizes, &starts, order, &old(oldtype)?),
        )
    }
}

/// MPI_Type_create_darray, MPI_Type_create_darray_c.
///
/// # Safety
/// The arrays have `ndims` elements; `newtype` is writable.
#[allow(clippy::too_many_arguments)]
pub unsafe fn mpi_type_create_darray(
    size: c_int,
    rank: c_int,
    ndims: c_int,
    array_of_gsizes: PolyArray,
    array_of_distribs: *const c_int,
    array_of_dargs: *const c_int,
    array_of_psizes: *const c_int,
    order: c_int,
    oldtype: MPI_Datatype,
    newtype: *mut MPI_Datatype,
) -> Result<()> {
    let n = dimensions(ndims)?;
    // SAFETY: as the caller promises.
    unsafe {
        let gsizes = numbers(array_of_gsizes, n, "array_of_gsizes")?;
        let distribs = slice(array_of_distribs, n, "array_of_distribs")?;
        let dargs = slice(array_of_dargs, n, "array_of_dargs")?;
        let psizes = slice(array_of_psizes, n, "array_of_psizes")?;
        let old = old(oldtype)?;
        let datatype = Datatype::darray(size, rank, &gsizes, distribs, dargs, psizes, order, &old);
        create(newtype, datatype)
    }
}

fn dimensions(ndims: c_int) -> Result<usize> {
    usize::try_from(ndims)
        .map_err(|_| Error::argument(c::ERR_ARG, "ndims", ndims, "it must not be negative"))
}

/// MPI_Type_create_resized, MPI_Type_create_resized_c.
///
/// # Safety
/// `newtype` is writable.
pub unsafe fn mpi_type_create_resized(
    oldtype: MPI_Datatype,
    lb: MPI_Count,
    extent: MPI_Count,
    newtype: *mut MPI_Datatype,
) -> Result<()> {
    // SAFETY: as the caller promises.
    unsafe { create(newtype, Datatype::resized(&old(oldtype)?, lb, extent)) }
}

/// MPI_Type_dup.
///
/// # Safety
/// `newtype` is writable.
pub unsafe fn mpi_type_dup(oldtype: MPI_Datatype, newtype: *mut MPI_Datatype) -> Result<()> {
    // SAFETY: as the caller promises.
    unsafe { create(newtype, Datatype::dup(&old(oldtype)?)) }
}

/// MPI_Type_create_f90_real.
///
/// # Safety
/// `newtype` is writable.
pub unsafe fn mpi_type_create_f90_real(
    p: c_int,
    r: c_int,
    newtype: *mut MPI_Datatype,
) -> Result<()> {
    // SAFETY: as the caller promises.
    unsafe { create(newtype, Datatype::f90_real(p, r)) }
}

/// MPI_Type_create_f90_complex.
///
/// # Safety
/// `newtype` is writable.
pub unsafe fn mpi_type_create_f90_complex(
    p: c_int,
    r: c_int,
    newtype: *mut MPI_Datatype,
) -> Result<()> {
    // SAFETY: as the caller promises.
    unsafe { create(newtype, Datatype::f90_complex(p, r)) }
}

/// MPI_Type_create_f90_integer.
///
/// # Safety
/// `newtype` is writable.
pub unsafe fn mpi_type_create_f90_integer(r: c_int, newtype: *mut MPI_Datatype) -> Result<()> {
    // SAFETY: as the caller promises.
    unsafe { create(newtype, Datatype::f90_integer(r)) }
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
    let handle = unsafe { slice(datatype, 1, "datatype")? }[0];
    resolve(handle)?.commit();
    Ok(())
}

/// MPI_Type_free.
///
/// # Safety
/// `datatype` points to a handle.
pub unsafe fn mpi_type_free(datatype: *mut MPI_Datatype) -> Result<()> {
    // SAFETY: as the caller promises.
    let handle = unsafe { slice(datatype, 1, "datatype")? }[0];
    Datatype::free(handle.raw())?;
    // SAFETY: as the caller promises.
    unsafe {
        put(
            datatype,
            "datatype",
            MPI_Datatype::from_raw(c::DATATYPE_NULL),
        )
    }
}

/// MPI_Type_size, MPI_Type_size_c.
///
/// # Safety
/// `size` is writable.
pub unsafe fn mpi_type_size(datatype: MPI_Datatype, size: PolyOut) -> Result<()> {
    // SAFETY: as the caller promises.
    unsafe { size.set_or_undefined(0, resolve(datatype)?.size()) };
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
        lb.set_or_undefined(0, datatype.lb());
        extent.set_or_undefined(0, datatype.extent());
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
        true_lb.set_or_undefined(0, datatype.true_lb());
        true_extent.set_or_undefined(0, datatype.true_extent());
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

/// The plain calls cannot tell of large counts.
fn check_form(datatype: &Datatype, wide: bool) -> Result<()> {
    if wide || datatype.envelope().counts == 0 {
        return Ok(());
    }
    let reason = "it was made with counts that do not fit an int; use the _c form of the call";
    Err(Error::argument(
        c::ERR_TYPE,
        "datatype",
        datatype.label(),
        reason,
    ))
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
    wide: bool,
) -> Result<()> {
    let datatype = resolve(datatype)?;
    check_form(&datatype, wide)?;
    let envelope = datatype.envelope();
    // SAFETY: as the caller promises.
    unsafe {
        num_integers.set_or_undefined(0, envelope.integers as i64);
        num_addresses.set_or_undefined(0, envelope.addresses as i64);
        num_datatypes.set_or_undefined(0, envelope.datatypes as i64);
        if wide {
            put(num_large_counts, "num_large_counts", envelope.counts as i64)?;
        }
        put(combiner, "combiner", envelope.combiner)
    }
}

/// MPI_Type_get_contents, MPI_Type_get_contents_c.
///
/// # Safety
/// The arrays are writable for their maximum numbers of elements.
#[allow(clippy::too_many_arguments)]
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
    wide: bool,
) -> Result<()> {
    let datatype = resolve(datatype)?;
    check_form(&datatype, wide)?;
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
    check_array(
        array_of_integers.is_null(),
        envelope.integers,
        "array_of_integers",
    )?;
    check_array(
        array_of_addresses.is_null(),
        envelope.addresses,
        "array_of_addresses",
    )?;
    check_array(
        array_of_large_counts.is_null(),
        envelope.counts,
        "array_of_large_counts",
    )?;
    check_array(
        array_of_datatypes.is_null(),
        envelope.datatypes,
        "array_of_datatypes",
    )?;
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
            array_of_datatypes
                .add(i)
                .write(MPI_Datatype::from_raw(handle));
        }
    }
    Ok(())
}

/// MPI_Type_set_name. A name that is too long is cut.
///
/// # Safety
/// `type_name` is a C string.
pub unsafe fn mpi_type_set_name(datatype: MPI_Datatype, type_name: *const c_char) -> Result<()> {
    check_array(type_name.is_null(), 1, "type_name")?;
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
    let name = resolve(datatype)?.name();
    check_array(type_name.is_null(), 1, "type_name")?;
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
    count
        .and_then(|count| i64::try_from(count).ok())
        .unwrap_or(c::UNDEFINED.into())
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
        count.set_or_undefined(0, or_undefined(resolve(datatype)?.count(bytes)));
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
        count.set_or_undefined(0, or_undefined(resolve(datatype)?.elements(bytes)));
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
        put(
            count,
            "count",
            or_undefined(resolve(datatype)?.elements(bytes)),
        )
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
