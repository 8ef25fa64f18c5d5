//! Queries about the ABI itself and about Fortran (MPI 5.0, chapters 20 and 21).
//!
//! Mica's Fortran types are gfortran's and known when the library is built, so the functions that
//! describe another compiler always come too late: they raise `MPI_ERR_ABI`.

use std::ffi::{c_int, c_void};

use mica_mpi::constants as c;
use mica_mpi::datatype::Datatype;
use mica_mpi::info::Info;
use mica_mpi::{Error, Result};

use crate::convert::{Out, flag};
use crate::types::*;

/// MPI_Abi_get_version.
///
/// # Safety
/// `abi_major` and `abi_minor` are null or writable.
pub unsafe fn mpi_abi_get_version(abi_major: *mut c_int, abi_minor: *mut c_int) -> Result<()> {
    // SAFETY: as the caller promises.
    let (abi_major, abi_minor) =
        unsafe { (Out::new(abi_major, "abi_major")?, Out::new(abi_minor, "abi_minor")?) };
    abi_major.set(c::ABI_VERSION);
    abi_minor.set(c::ABI_SUBVERSION);
    Ok(())
}

/// MPI_Abi_get_info: sizes of the integer types of MPI.
///
/// # Safety
/// `info` is null or writable.
pub unsafe fn mpi_abi_get_info(info: *mut MPI_Info) -> Result<()> {
    let pairs = [
        ("mpi_aint_size", size_of::<MPI_Aint>()),
        ("mpi_count_size", size_of::<MPI_Count>()),
        ("mpi_offset_size", size_of::<MPI_Offset>()),
    ];
    let pairs = pairs.map(|(key, size)| (key.to_owned(), size.to_string()));
    // SAFETY: as the caller promises.
    unsafe { put_info(info, pairs) }
}

/// MPI_Abi_get_fortran_info: sizes of Fortran's default types and which optional ones exist.
///
/// # Safety
/// `info` is null or writable.
pub unsafe fn mpi_abi_get_fortran_info(info: *mut MPI_Info) -> Result<()> {
    const DEFAULT: [(&str, u32); 4] = [
        ("logical", c::LOGICAL),
        ("integer", c::INTEGER),
        ("real", c::REAL),
        ("double_precision", c::DOUBLE_PRECISION),
    ];
    const OPTIONAL: [(&str, u32); 19] = [
        ("logical1", c::LOGICAL1),
        ("logical2", c::LOGICAL2),
        ("logical4", c::LOGICAL4),
        ("logical8", c::LOGICAL8),
        ("logical16", c::LOGICAL16),
        ("integer1", c::INTEGER1),
        ("integer2", c::INTEGER2),
        ("integer4", c::INTEGER4),
        ("integer8", c::INTEGER8),
        ("integer16", c::INTEGER16),
        ("real2", c::REAL2),
        ("real4", c::REAL4),
        ("real8", c::REAL8),
        ("real16", c::REAL16),
        ("complex4", c::COMPLEX4),
        ("complex8", c::COMPLEX8),
        ("complex16", c::COMPLEX16),
        ("complex32", c::COMPLEX32),
        ("double_complex", c::DOUBLE_COMPLEX),
    ];
    let size = |handle| Datatype::resolve(handle).map_or(0, |datatype| datatype.size());
    let default =
        DEFAULT.map(|(name, handle)| (format!("mpi_{name}_size"), size(handle).to_string()));
    let optional = OPTIONAL
        .map(|(name, handle)| (format!("mpi_{name}_supported"), (size(handle) > 0).to_string()));
    // SAFETY: as the caller promises.
    unsafe { put_info(info, default.into_iter().chain(optional)) }
}

/// # Safety
/// `info` is null or writable.
unsafe fn put_info(
    info: *mut MPI_Info,
    pairs: impl IntoIterator<Item = (String, String)>,
) -> Result<()> {
    // SAFETY: as the caller promises.
    let info = unsafe { Out::new(info, "info")? };
    info.give(Info::from_iter(pairs))
}

/// MPI_Abi_set_fortran_info.
pub fn mpi_abi_set_fortran_info(info: MPI_Info) -> Result<()> {
    Info::resolve(info.raw())?;
    Err(known_already(
        "the sizes of Fortran's types are those that MPI_Abi_get_fortran_info returns",
    ))
}

/// MPI_Abi_get_fortran_booleans: the two values of a `LOGICAL` of `logical_size` bytes.
///
/// # Safety
/// `logical_true` and `logical_false` are null or writable for `logical_size` bytes, `is_set` null
/// or writable.
pub unsafe fn mpi_abi_get_fortran_booleans(
    logical_size: c_int,
    logical_true: *mut c_void,
    logical_false: *mut c_void,
    is_set: *mut c_int,
) -> Result<()> {
    check_logical(logical_size)?;
    // SAFETY: as the caller promises.
    let is_set = unsafe { Out::new(is_set, "is_set")? };
    for (value, place, argument) in
        [(1_u8, logical_true, "logical_true"), (0, logical_false, "logical_false")]
    {
        let mut bytes = [0; 16];
        bytes[0] = value; // the machines served have the lowest byte first
        let bytes = &bytes[..logical_size as usize];
        // SAFETY: null is allowed.
        unsafe { Out::new(place, argument)? };
        // SAFETY: not null, so writable for that many bytes, as the caller promises.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), place.cast(), bytes.len()) };
    }
    is_set.set(flag(true));
    Ok(())
}

/// MPI_Abi_set_fortran_booleans.
pub fn mpi_abi_set_fortran_booleans(
    logical_size: c_int,
    _logical_true: *mut c_void,
    _logical_false: *mut c_void,
) -> Result<()> {
    check_logical(logical_size)?;
    Err(known_already(
        "the values of Fortran's LOGICAL are those that MPI_Abi_get_fortran_booleans returns",
    ))
}

fn check_logical(size: c_int) -> Result<()> {
    if matches!(size, 1 | 2 | 4 | 8 | 16) {
        return Ok(());
    }
    let reason = "a LOGICAL has 1, 2, 4, 8 or 16 bytes";
    Err(Error::argument(c::ERR_ARG, "logical_size", size, reason))
}

#[cold]
fn known_already(detail: &str) -> Error {
    Error::other(c::ERR_ABI, format!("Mica was built for gfortran: {detail}"))
}
