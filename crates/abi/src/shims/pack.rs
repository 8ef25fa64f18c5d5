//! `MPI_Pack*` and `MPI_Unpack*` (MPI 5.0, 5.2 and 5.3).
#![allow(clippy::too_many_arguments, reason = "the argument lists are MPI's own")]

use std::ffi::{CStr, c_char, c_void};

use mica_mpi::comm::Comm;
use mica_mpi::constants as c;
use mica_mpi::datatype::{self, Region};
use mica_mpi::{Error, Result};

use crate::elements::UserElements;
use crate::poly::PolyOut;
use crate::types::*;

/// The caller's packed buffer of `size` bytes; none if that is negative, which the call then
/// reports.
///
/// # Safety
/// As for [`Region::user`], for `size` bytes.
unsafe fn packed(pointer: *const c_void, size: MPI_Count) -> Region {
    // SAFETY: passed on.
    unsafe { Region::user(pointer, 0..size.max(0) as isize) }
}

/// (usual name, name in the packing calls) of arguments.
const IN: [(&str, &str); 2] = [("count", "incount"), ("buf", "inbuf")];
const OUT: [(&str, &str); 2] = [("count", "outcount"), ("buf", "outbuf")];

/// The name of a data representation.
///
/// # Safety
/// `datarep` is null or a C string.
unsafe fn representation<'a>(datarep: *const c_char) -> Result<&'a str> {
    if datarep.is_null() {
        return Err(Error::argument(c::ERR_ARG, "datarep", "NULL", "a name is needed"));
    }
    // SAFETY: by the contract above.
    Ok(unsafe { CStr::from_ptr(datarep) }.to_str().unwrap_or("not UTF-8"))
}

/// Writes a size or position, which an `int` may be too small for.
///
/// # Safety
/// `out` is null or writable for one element.
unsafe fn put(out: PolyOut, argument: &'static str, value: i64) -> Result<()> {
    let out = out.required(argument)?;
    if !out.fits(value) {
        let reason = "it does not fit an int; use the _c form of the call";
        return Err(Error::argument(c::ERR_ARG, argument, value, reason));
    }
    // SAFETY: by the contract above, and not null.
    unsafe { out.set(0, value) };
    Ok(())
}

/// MPI_Pack, MPI_Pack_c.
///
/// # Safety
/// The elements are readable, `outbuf` writable for `outsize` bytes, `position`
/// points to one.
pub unsafe fn mpi_pack(
    elements: UserElements,
    outbuf: *mut c_void,
    outsize: MPI_Count,
    position: PolyOut,
    comm: MPI_Comm,
) -> Result<()> {
    Comm::resolve(comm.raw())?;
    // SAFETY: as the caller promises.
    unsafe {
        let (from, to, at) =
            (elements.region(), packed(outbuf, outsize), position.required("position")?.get(0));
        let end = datatype::pack(from, elements.count, elements.datatype.raw(), &to, outsize, at)
            .map_err(|e| e.renamed(&IN))?;
        put(position, "position", end)
    }
}

/// MPI_Unpack, MPI_Unpack_c.
///
/// # Safety
/// `inbuf` is readable for `insize` bytes, the elements are writable, `position`
/// points to one.
pub unsafe fn mpi_unpack(
    inbuf: *const c_void,
    insize: MPI_Count,
    position: PolyOut,
    elements: UserElements,
    comm: MPI_Comm,
) -> Result<()> {
    Comm::resolve(comm.raw())?;
    // SAFETY: as the caller promises.
    unsafe {
        let (from, to, at) =
            (packed(inbuf, insize), elements.region(), position.required("position")?.get(0));
        let end = datatype::unpack(&from, insize, at, to, elements.count, elements.datatype.raw())
            .map_err(|e| e.renamed(&OUT))?;
        put(position, "position", end)
    }
}

/// MPI_Pack_size, MPI_Pack_size_c.
///
/// # Safety
/// `size` points to a place for the result.
pub unsafe fn mpi_pack_size(
    incount: MPI_Count,
    datatype: MPI_Datatype,
    comm: MPI_Comm,
    size: PolyOut,
) -> Result<()> {
    Comm::resolve(comm.raw())?;
    // SAFETY: as the caller promises.
    unsafe {
        put(size, "size", datatype::pack_size(incount, datatype.raw()).map_err(|e| e.renamed(&IN))?)
    }
}

/// MPI_Pack_external, MPI_Pack_external_c.
///
/// # Safety
/// As for [`mpi_pack`]; `datarep` is a C string.
pub unsafe fn mpi_pack_external(
    datarep: *const c_char,
    elements: UserElements,
    outbuf: *mut c_void,
    outsize: MPI_Count,
    position: PolyOut,
) -> Result<()> {
    // SAFETY: as the caller promises.
    unsafe {
        let (from, to, at) =
            (elements.region(), packed(outbuf, outsize), position.required("position")?.get(0));
        let name = representation(datarep)?;
        let (count, datatype) = (elements.count, elements.datatype.raw());
        let end = datatype::pack_external(name, from, count, datatype, &to, outsize, at)
            .map_err(|e| e.renamed(&IN))?;
        put(position, "position", end)
    }
}

/// MPI_Unpack_external, MPI_Unpack_external_c.
///
/// # Safety
/// As for [`mpi_unpack`]; `datarep` is a C string.
pub unsafe fn mpi_unpack_external(
    datarep: *const c_char,
    inbuf: *const c_void,
    insize: MPI_Count,
    position: PolyOut,
    elements: UserElements,
) -> Result<()> {
    // SAFETY: as the caller promises.
    unsafe {
        let (from, to, at) =
            (packed(inbuf, insize), elements.region(), position.required("position")?.get(0));
        let name = representation(datarep)?;
        let (count, datatype) = (elements.count, elements.datatype.raw());
        let end = datatype::unpack_external(name, &from, insize, at, to, count, datatype)
            .map_err(|e| e.renamed(&OUT))?;
        put(position, "position", end)
    }
}

/// MPI_Pack_external_size, MPI_Pack_external_size_c.
///
/// # Safety
/// `datarep` is a C string, `size` points to a place for the result.
pub unsafe fn mpi_pack_external_size(
    datarep: *const c_char,
    incount: MPI_Count,
    datatype: MPI_Datatype,
    size: PolyOut,
) -> Result<()> {
    // SAFETY: as the caller promises.
    unsafe {
        let name = representation(datarep)?;
        put(
            size,
            "size",
            datatype::external_size(name, incount, datatype.raw()).map_err(|e| e.renamed(&IN))?,
        )
    }
}
