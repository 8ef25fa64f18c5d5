//! Inter-communicators (MPI 5.0, 7.6).
#![allow(clippy::too_many_arguments, reason = "the argument lists are MPI's own")]

use std::ffi::{c_char, c_int};

use mica_mpi::comm::Comm;
use mica_mpi::errhandler::Errhandler;
use mica_mpi::group::Group;
use mica_mpi::info::Info;

use crate::convert::{Out, text};
use crate::raise::{ErrorOn, ErrorTarget};
use crate::types::*;

/// MPI_Intercomm_create_from_groups. Errors go to the handler given.
///
/// # Safety
/// `stringtag` is null or a string, `newintercomm` null or writable.
pub unsafe fn mpi_intercomm_create_from_groups(
    local_group: MPI_Group,
    local_leader: c_int,
    remote_group: MPI_Group,
    remote_leader: c_int,
    stringtag: *const c_char,
    info: MPI_Info,
    errhandler: MPI_Errhandler,
    newintercomm: *mut MPI_Comm,
) -> std::result::Result<(), ErrorOn> {
    let handler = Errhandler::resolve(errhandler.raw())?;
    let create = || {
        // SAFETY: as the caller promises.
        let (stringtag, newintercomm) =
            unsafe { (text(stringtag, "stringtag")?, Out::new(newintercomm, "newintercomm")?) };
        let (local, hints) = (Group::resolve(local_group.raw())?, Info::resolve_hints(info.raw())?);
        let comm = Comm::create_inter_from_groups(
            &local,
            local_leader,
            remote_group.raw(),
            remote_leader,
            &stringtag,
            &handler,
        )?;
        if let Some(comm) = &comm {
            comm.set_info(&hints);
        }
        newintercomm.give(comm)
    };
    create().map_err(|error| ErrorOn::for_handler(handler.clone(), ErrorTarget::Default, error))
}
