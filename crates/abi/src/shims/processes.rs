//! Processes that are started, or that meet, while the job runs (MPI 5.0, chapter 11).
#![allow(clippy::too_many_arguments, reason = "the argument lists are MPI's own")]

use std::cell::Cell;
use std::ffi::{CStr, OsString, c_char, c_int};
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStringExt;

use mica_mpi::comm::Comm;
use mica_mpi::constants as c;
use mica_mpi::dynamic::{self, SpawnProgram};
use mica_mpi::info::Info;
use mica_mpi::{Error, Result};

use crate::convert::{Out, null, put_text, text};
use crate::types::*;

thread_local! {
    /// Codes that the last spawn of this thread has stored.
    static STORED_CODES: Cell<usize> = const { Cell::new(0) };
}

/// How many codes of processes the last spawn of this thread has stored.
pub(crate) fn stored_codes() -> usize {
    STORED_CODES.get()
}

/// MPI_Open_port.
///
/// # Safety
/// `port_name` is null or writable for `MPI_MAX_PORT_NAME` bytes.
pub unsafe fn mpi_open_port(info: MPI_Info, port_name: *mut c_char) -> Result<()> {
    Info::resolve_hints(info.raw())?;
    if port_name.is_null() {
        return Err(null("port_name"));
    }
    let name = dynamic::open_port()?;
    // SAFETY: as the caller promises.
    unsafe { put_text(port_name, c::MAX_PORT_NAME, &name, "port_name") }.map(drop)
}

/// MPI_Comm_accept.
///
/// # Safety
/// `port_name` is a string at the root, `newcomm` null or writable.
pub unsafe fn mpi_comm_accept(
    port_name: *const c_char,
    info: MPI_Info,
    root: c_int,
    comm: MPI_Comm,
    newcomm: *mut MPI_Comm,
) -> Result<()> {
    // SAFETY: as the caller promises.
    let newcomm = unsafe { Out::new(newcomm, "newcomm")? };
    Info::resolve_hints(info.raw())?;
    // SAFETY: as the caller promises; it is read at the root alone.
    let name = || unsafe { text(port_name, "port_name") };
    newcomm.give(dynamic::accept(name, root, &Comm::resolve(comm.raw())?)?)
}

/// MPI_Comm_connect.
///
/// # Safety
/// `port_name` is a string at the root, `newcomm` null or writable.
pub unsafe fn mpi_comm_connect(
    port_name: *const c_char,
    info: MPI_Info,
    root: c_int,
    comm: MPI_Comm,
    newcomm: *mut MPI_Comm,
) -> Result<()> {
    // SAFETY: as the caller promises.
    let newcomm = unsafe { Out::new(newcomm, "newcomm")? };
    Info::resolve_hints(info.raw())?;
    // SAFETY: as the caller promises; it is read at the root alone.
    let name = || unsafe { text(port_name, "port_name") };
    newcomm.give(dynamic::connect(name, root, &Comm::resolve(comm.raw())?)?)
}

/// MPI_Comm_join.
///
/// # Safety
/// `intercomm` is null or writable; `fd` stays open during the call.
pub unsafe fn mpi_comm_join(fd: c_int, intercomm: *mut MPI_Comm) -> Result<()> {
    // SAFETY: as the caller promises.
    let intercomm = unsafe { Out::new(intercomm, "intercomm")? };
    let refuse = |reason: String| Err(Error::argument(c::ERR_ARG, "fd", fd, reason));
    if fd < 0 {
        return refuse("a descriptor is not negative".to_owned());
    }
    // SAFETY: open as the caller promises; a number that is not is an error of the next call.
    match unsafe { BorrowedFd::borrow_raw(fd) }.try_clone_to_owned() {
        Ok(socket) => intercomm.give(dynamic::join(socket)?),
        Err(error) => refuse(error.to_string()),
    }
}

/// MPI_Lookup_name.
///
/// # Safety
/// `service_name` is null or a string, `port_name` null or writable for `MPI_MAX_PORT_NAME` bytes.
pub unsafe fn mpi_lookup_name(
    service_name: *const c_char,
    info: MPI_Info,
    port_name: *mut c_char,
) -> Result<()> {
    Info::resolve_hints(info.raw())?;
    if port_name.is_null() {
        return Err(null("port_name"));
    }
    // SAFETY: as the caller promises.
    let port = dynamic::lookup_name(&unsafe { text(service_name, "service_name")? })?;
    // SAFETY: as the caller promises.
    unsafe { put_text(port_name, c::MAX_PORT_NAME, &port, "port_name") }.map(drop)
}

/// MPI_Comm_spawn.
///
/// # Safety
/// At the root, `command` is a string, and `argv` `MPI_ARGV_NULL` or strings that end with null.
/// `intercomm` is null or writable, `array_of_errcodes` `MPI_ERRCODES_IGNORE` or writable for as
/// many numbers as processes are asked for at the root.
pub unsafe fn mpi_comm_spawn(
    command: *const c_char,
    argv: *mut *mut c_char,
    maxprocs: c_int,
    info: MPI_Info,
    root: c_int,
    comm: MPI_Comm,
    intercomm: *mut MPI_Comm,
    array_of_errcodes: *mut c_int,
) -> Result<()> {
    let programs = || {
        // SAFETY: as the caller promises; they are read at the root alone.
        let program = unsafe { program(command, argv, maxprocs, info)? };
        Ok(vec![program])
    };
    // SAFETY: as the caller promises.
    unsafe { spawn(programs, root, comm, intercomm, array_of_errcodes) }
}

/// MPI_Comm_spawn_multiple.
///
/// # Safety
/// As for [`mpi_comm_spawn`], for each of `count` programs; at the root the arrays have `count`
/// elements.
pub unsafe fn mpi_comm_spawn_multiple(
    count: c_int,
    array_of_commands: *mut *mut c_char,
    array_of_argv: *mut *mut *mut c_char,
    array_of_maxprocs: *const c_int,
    array_of_info: *const MPI_Info,
    root: c_int,
    comm: MPI_Comm,
    intercomm: *mut MPI_Comm,
    array_of_errcodes: *mut c_int,
) -> Result<()> {
    let programs = || {
        if count < 1 {
            let reason = "at least one program is started";
            return Err(Error::argument(c::ERR_COUNT, "count", count, reason));
        }
        for (array, name) in [
            (array_of_commands.cast_const().cast::<()>(), "array_of_commands"),
            (array_of_maxprocs.cast(), "array_of_maxprocs"),
            (array_of_info.cast(), "array_of_info"),
        ] {
            if array.is_null() {
                return Err(null(name));
            }
        }
        let of = |i: usize| {
            // SAFETY: as the caller promises; they are read at the root alone.
            unsafe {
                let argv = match array_of_argv.is_null() {
                    true => std::ptr::null_mut(),
                    false => array_of_argv.add(i).read(),
                };
                program(
                    array_of_commands.add(i).read(),
                    argv,
                    array_of_maxprocs.add(i).read(),
                    array_of_info.add(i).read(),
                )
            }
        };
        (0..count as usize).map(of).collect()
    };
    // SAFETY: as the caller promises.
    unsafe { spawn(programs, root, comm, intercomm, array_of_errcodes) }
}

/// # Safety
/// As for [`mpi_comm_spawn`].
unsafe fn program(
    command: *const c_char,
    argv: *mut *mut c_char,
    processes: c_int,
    info: MPI_Info,
) -> Result<SpawnProgram> {
    // SAFETY: as the caller promises.
    let word = |text: *const c_char| unsafe {
        OsString::from_vec(CStr::from_ptr(text).to_bytes().to_vec())
    };
    if command.is_null() {
        return Err(null("command"));
    }
    let mut words = vec![word(command)];
    // MPI_ARGV_NULL is null.
    let mut next = argv;
    while !next.is_null() {
        // SAFETY: as the caller promises.
        let argument = unsafe { next.read() };
        if argument.is_null() {
            break;
        }
        words.push(word(argument));
        next = next.wrapping_add(1);
    }
    Ok(SpawnProgram { command: words, processes, hints: Info::resolve_hints(info.raw())? })
}

/// # Safety
/// As for [`mpi_comm_spawn`].
unsafe fn spawn(
    programs: impl FnOnce() -> Result<Vec<SpawnProgram>>,
    root: c_int,
    comm: MPI_Comm,
    intercomm: *mut MPI_Comm,
    array_of_errcodes: *mut c_int,
) -> Result<()> {
    STORED_CODES.set(0);
    // SAFETY: as the caller promises.
    let intercomm = unsafe { Out::new(intercomm, "intercomm")? };
    let (spawned, codes) = dynamic::spawn(&Comm::resolve(comm.raw())?, root, programs);
    // MPI_ERRCODES_IGNORE is null.
    if !array_of_errcodes.is_null() {
        // SAFETY: as the caller promises; the codes are the library's.
        unsafe { std::ptr::copy_nonoverlapping(codes.as_ptr(), array_of_errcodes, codes.len()) };
        STORED_CODES.set(codes.len());
    }
    match spawned {
        Ok(comm) => intercomm.give(comm),
        Err(error) => {
            intercomm.set(MPI_Comm::from_raw(c::COMM_NULL));
            Err(error)
        }
    }
}
