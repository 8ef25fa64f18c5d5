//! Info objects (MPI 5.0, chapter 10).

use std::ffi::{c_char, c_int};

use mica_mpi::Result;
use mica_mpi::constants as c;
use mica_mpi::info::Info;

use crate::convert::{Out, flag, length, put_text, slice, text};
use crate::types::*;

/// MPI_Info_create_env.
///
/// # Safety
/// `argv` is null or readable for `argc` strings, `info` null or writable.
pub unsafe fn mpi_info_create_env(
    argc: c_int,
    argv: *mut *mut c_char,
    info: *mut MPI_Info,
) -> Result<()> {
    // SAFETY: as the caller promises.
    let info = unsafe { Out::new(info, "info")? };
    let environment = if argc > 0 && !argv.is_null() {
        // SAFETY: as the caller promises.
        let arguments = unsafe { slice(argv, argc, "argv", "argc")? };
        // SAFETY: as the caller promises.
        let texts = arguments.iter().map(|&argument| unsafe { text(argument, "argv") });
        Info::environment(texts.collect::<Result<_>>()?)
    } else {
        Info::resolve(c::INFO_ENV)?
    };
    info.give(environment)
}

/// MPI_Info_get: up to `valuelen` bytes of the value.
///
/// # Safety
/// `key` is null or a string, `value` null or writable for `valuelen + 1` bytes, `found` null or
/// writable.
pub unsafe fn mpi_info_get(
    info: MPI_Info,
    key: *const c_char,
    valuelen: c_int,
    value: *mut c_char,
    found: *mut c_int,
) -> Result<()> {
    // SAFETY: as the caller promises.
    let (key, found) = unsafe { (text(key, "key")?, Out::new(found, "flag")?) };
    let room = length(valuelen, "valuelen")? + 1;
    let text = Info::resolve(info.raw())?.get(&key)?;
    if let Some(text) = &text {
        // SAFETY: as the caller promises.
        unsafe { put_text(value, room, text, "value")? };
    }
    found.set(flag(text.is_some()));
    Ok(())
}

/// MPI_Info_get_string.
///
/// # Safety
/// `key` is null or a string, `buflen` and `found` null or writable, `value` writable for `*buflen`
/// bytes.
pub unsafe fn mpi_info_get_string(
    info: MPI_Info,
    key: *const c_char,
    buflen: *mut c_int,
    value: *mut c_char,
    found: *mut c_int,
) -> Result<()> {
    // SAFETY: as the caller promises.
    let (key, buflen, found) =
        unsafe { (text(key, "key")?, Out::new(buflen, "buflen")?, Out::new(found, "flag")?) };
    let room = length(buflen.get(), "buflen")?;
    let text = Info::resolve(info.raw())?.get(&key)?;
    if let Some(text) = &text {
        if room > 0 {
            // SAFETY: as the caller promises.
            unsafe { put_text(value, room, text, "value")? };
        }
        buflen.set(text.len() as c_int + 1);
    }
    found.set(flag(text.is_some()));
    Ok(())
}

/// MPI_Info_get_nthkey.
///
/// # Safety
/// `key` is null or writable for `MPI_MAX_INFO_KEY` bytes.
pub unsafe fn mpi_info_get_nthkey(info: MPI_Info, n: c_int, key: *mut c_char) -> Result<()> {
    let text = Info::resolve(info.raw())?.nth_key(n)?;
    // SAFETY: as the caller promises.
    unsafe { put_text(key, c::MAX_INFO_KEY, &text, "key") }.map(drop)
}
