//! Sessions, their process sets, and what is made of these (MPI 5.0, 11.3, 7.3.2 and 7.4.2).

use std::ffi::{c_char, c_int};

use mica_mpi::Result;
use mica_mpi::comm::Comm;
use mica_mpi::constants as c;
use mica_mpi::errhandler::Errhandler;
use mica_mpi::group::Group;
use mica_mpi::info::Info;
use mica_mpi::session::Session;

use crate::convert::{Out, length, put_text, text};
use crate::late;
use crate::raise::{ErrorOn, ErrorTarget};
use crate::types::*;

/// MPI_Session_init. Errors go to the handler given.
///
/// # Safety
/// `session` is null or writable.
pub unsafe fn mpi_session_init(
    info: MPI_Info,
    errhandler: MPI_Errhandler,
    session: *mut MPI_Session,
) -> std::result::Result<(), ErrorOn> {
    late::prepare();
    let handler = Errhandler::resolve(errhandler.raw())?;
    let init = || {
        // SAFETY: as the caller promises.
        let session = unsafe { Out::new(session, "session")? };
        let new = Session::init(&Info::resolve_hints(info.raw())?, handler.clone())?;
        session.set(MPI_Session::from_raw(new.handle()));
        Ok(())
    };
    let none = ErrorTarget::Session(c::SESSION_NULL);
    init().map_err(|error| ErrorOn::for_handler(handler.clone(), none, error))
}

/// MPI_Session_finalize.
///
/// # Safety
/// `session` is null or points to a handle that may be overwritten.
pub unsafe fn mpi_session_finalize(session: *mut MPI_Session) -> std::result::Result<(), ErrorOn> {
    // SAFETY: as the caller promises.
    let session = unsafe { Out::new(session, "session")? };
    let handle = session.get().raw();
    Session::finalize(handle).map_err(|error| ErrorOn::new(ErrorTarget::Session(handle), error))?;
    session.set(MPI_Session::from_raw(c::SESSION_NULL));
    Ok(())
}

/// MPI_Session_get_nth_pset: as much of the name as `*pset_len` bytes hold, and the length needed.
///
/// # Safety
/// `pset_len` is null or writable, `pset_name` writable for `*pset_len` bytes.
pub unsafe fn mpi_session_get_nth_pset(
    session: MPI_Session,
    info: MPI_Info,
    n: c_int,
    pset_len: *mut c_int,
    pset_name: *mut c_char,
) -> Result<()> {
    // SAFETY: as the caller promises.
    let pset_len = unsafe { Out::new(pset_len, "pset_len")? };
    let session = Session::resolve(session.raw())?;
    Info::resolve_hints(info.raw())?;
    let name = session.process_set(n)?;
    let room = length(pset_len.get(), "pset_len")?;
    if room > 0 {
        // SAFETY: as the caller promises.
        unsafe { put_text(pset_name, room, name, "pset_name")? };
    }
    pset_len.set(name.len() as c_int + 1);
    Ok(())
}

/// MPI_Group_from_session_pset. For a set that is not there, `newgroup` becomes `MPI_GROUP_NULL`,
/// too.
///
/// # Safety
/// `pset_name` is null or a string, `newgroup` null or writable.
pub unsafe fn mpi_group_from_session_pset(
    session: MPI_Session,
    pset_name: *const c_char,
    newgroup: *mut MPI_Group,
) -> Result<()> {
    // SAFETY: as the caller promises.
    let (pset_name, newgroup) =
        unsafe { (text(pset_name, "pset_name")?, Out::new(newgroup, "newgroup")?) };
    newgroup.set(MPI_Group::from_raw(c::GROUP_NULL));
    let group = Session::resolve(session.raw())?.group(&pset_name)?;
    newgroup.give(group)
}

/// MPI_Comm_create_from_group. Errors go to the handler given.
///
/// # Safety
/// `stringtag` is null or a string, `newcomm` null or writable.
pub unsafe fn mpi_comm_create_from_group(
    group: MPI_Group,
    stringtag: *const c_char,
    info: MPI_Info,
    errhandler: MPI_Errhandler,
    newcomm: *mut MPI_Comm,
) -> std::result::Result<(), ErrorOn> {
    let handler = Errhandler::resolve(errhandler.raw())?;
    let create = || {
        // SAFETY: as the caller promises.
        let (stringtag, newcomm) =
            unsafe { (text(stringtag, "stringtag")?, Out::new(newcomm, "newcomm")?) };
        let (group, hints) = (Group::resolve(group.raw())?, Info::resolve_hints(info.raw())?);
        newcomm.give(Comm::create_from_group(&group, &stringtag, &hints, handler.clone())?)
    };
    create().map_err(|error| ErrorOn::for_handler(handler.clone(), ErrorTarget::Default, error))
}
