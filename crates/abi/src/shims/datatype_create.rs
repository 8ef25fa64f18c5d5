//! The constructors of datatypes (MPI 5.0, 5.1): `MPI_Type_contiguous` and what follows it.
#![allow(
    clippy::too_many_arguments,
    reason = "the argument lists are MPI's own"
)]

use std::ffi::c_int;

use mica_mpi::constants as c;
use mica_mpi::datatype::{Datatype, check_count};
use mica_mpi::{Error, Result};

use super::datatype::{check_array, put, slice};
use crate::poly::PolyArray;
use crate::types::*;

/// The first `count` numbers of a caller's array, of either width.
///
/// # Safety
/// `list` is null or has `count` elements.
unsafe fn numbers(list: PolyArray, count: usize, argument: &'static str) -> Result<Vec<i64>> {
    check_array(list.as_ptr(), count, argument)?;
    // SAFETY: by the contract above, and not null if it has elements.
    Ok(unsafe { list.to_vec(count) })
}

fn length(count: MPI_Count, argument: &'static str) -> Result<usize> {
    check_count(count, argument).map(|count| count as usize)
}

/// The datatype that another is made of.
fn old(handle: MPI_Datatype) -> Result<Datatype> {
    Datatype::resolve_as(handle.raw(), "oldtype")
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
            MPI_Datatype::from_raw(datatype.register()?),
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
