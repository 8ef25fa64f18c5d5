//! `MPI_Pack*` and `MPI_Unpack*` (MPI 5.0, 5.2 and 5.3).

use std::ffi::c_void;

use mica_mpi::Result;
use mica_mpi::datatype::{self, Region};

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

/// Where packing or unpacking goes on.
///
/// # Safety
/// `position` is null or readable.
unsafe fn place(position: PolyOut) -> Result<i64> {
    // SAFETY: by the contract above, and not null.
    Ok(unsafe { position.required("position")?.get(0) })
}

/// MPI_Pack: the position after what was packed into `outsize` bytes.
///
/// # Safety
/// `elements` are readable, `outbuf` is writable for `outsize` bytes, `position` null or readable.
pub unsafe fn pack(
    elements: UserElements,
    outbuf: *mut c_void,
    outsize: MPI_Count,
    position: PolyOut,
) -> Result<i64> {
    // SAFETY: as the caller promises.
    let (from, to, at) = unsafe { (elements.region(), packed(outbuf, outsize), place(position)?) };
    datatype::pack(from, elements.count, elements.datatype.raw(), &to, outsize, at)
        .map_err(|e| e.renamed(&IN))
}

/// MPI_Unpack: the position after what was unpacked from `insize` bytes.
///
/// # Safety
/// `inbuf` is readable for `insize` bytes, `elements` are writable, `position` is null or readable.
pub unsafe fn unpack(
    inbuf: *const c_void,
    insize: MPI_Count,
    position: PolyOut,
    elements: UserElements,
) -> Result<i64> {
    // SAFETY: as the caller promises.
    let (from, to, at) = unsafe { (packed(inbuf, insize), elements.region(), place(position)?) };
    datatype::unpack(&from, insize, at, to, elements.count, elements.datatype.raw())
        .map_err(|e| e.renamed(&OUT))
}

/// MPI_Pack_size.
///
/// # Errors
/// `MPI_ERR_TYPE`, `MPI_ERR_COUNT`.
pub fn size(incount: MPI_Count, datatype: u32) -> Result<i64> {
    datatype::pack_size(incount, datatype).map_err(|e| e.renamed(&IN))
}

/// MPI_Pack_external: as [`pack`].
///
/// # Safety
/// As for [`pack`].
pub unsafe fn pack_external(
    datarep: &str,
    elements: UserElements,
    outbuf: *mut c_void,
    outsize: MPI_Count,
    position: PolyOut,
) -> Result<i64> {
    // SAFETY: as the caller promises.
    let (from, to, at) = unsafe { (elements.region(), packed(outbuf, outsize), place(position)?) };
    let (count, datatype) = (elements.count, elements.datatype.raw());
    datatype::pack_external(datarep, from, count, datatype, &to, outsize, at)
        .map_err(|e| e.renamed(&IN))
}

/// MPI_Unpack_external: as [`unpack`].
///
/// # Safety
/// As for [`unpack`].
pub unsafe fn unpack_external(
    datarep: &str,
    inbuf: *const c_void,
    insize: MPI_Count,
    position: PolyOut,
    elements: UserElements,
) -> Result<i64> {
    // SAFETY: as the caller promises.
    let (from, to, at) = unsafe { (packed(inbuf, insize), elements.region(), place(position)?) };
    let (count, datatype) = (elements.count, elements.datatype.raw());
    datatype::unpack_external(datarep, &from, insize, at, to, count, datatype)
        .map_err(|e| e.renamed(&OUT))
}

/// MPI_Pack_external_size.
///
/// # Errors
/// `MPI_ERR_ARG`, `MPI_ERR_TYPE`, `MPI_ERR_COUNT`.
pub fn external_size(datarep: &str, incount: MPI_Count, datatype: u32) -> Result<i64> {
    datatype::external_size(datarep, incount, datatype).map_err(|e| e.renamed(&IN))
}
