//! Communicators (MPI 5.0, 7.4 and 7.8).

use std::ffi::{c_char, c_int};

use mica_mpi::Result;
use mica_mpi::comm::{self, Comm};
use mica_mpi::constants as c;
use mica_mpi::group::Group;
use mica_mpi::info::Info;
use mica_mpi::request::Request;

use crate::convert::{Out, flag, put_text, text};
use crate::types::*;

/// MPI_Comm_rank.
///
/// # Safety
/// `rank` is null or writable.
pub unsafe fn mpi_comm_rank(comm: MPI_Comm, rank: *mut c_int) -> Result<()> {
    // SAFETY: as the caller promises.
    let rank = unsafe { Out::new(rank, "rank")? };
    comm::with(comm.raw(), |comm| rank.set(comm.rank() as c_int))
}

/// MPI_Comm_size.
///
/// # Safety
/// `size` is null or writable.
pub unsafe fn mpi_comm_size(comm: MPI_Comm, size: *mut c_int) -> Result<()> {
    // SAFETY: as the caller promises.
    let size = unsafe { Out::new(size, "size")? };
    comm::with(comm.raw(), |comm| size.set(comm.size() as c_int))
}

/// MPI_Comm_compare.
///
/// # Safety
/// `result` is null or writable.
pub unsafe fn mpi_comm_compare(comm1: MPI_Comm, comm2: MPI_Comm, result: *mut c_int) -> Result<()> {
    // SAFETY: as the caller promises.
    let result = unsafe { Out::new(result, "result")? };
    result.set(Comm::resolve(comm1.raw())?.compare(&Comm::resolve(comm2.raw())?));
    Ok(())
}

/// MPI_Comm_group.
///
/// # Safety
/// `group` is null or writable.
pub unsafe fn mpi_comm_group(comm: MPI_Comm, group: *mut MPI_Group) -> Result<()> {
    // SAFETY: as the caller promises.
    let group = unsafe { Out::new(group, "group")? };
    let members = Comm::resolve(comm.raw())?.group().clone();
    group.set(MPI_Group::from_raw(members.into_handle()?));
    Ok(())
}

/// MPI_Comm_test_inter.
///
/// # Safety
/// `is_inter` is null or writable.
pub unsafe fn mpi_comm_test_inter(comm: MPI_Comm, is_inter: *mut c_int) -> Result<()> {
    // SAFETY: as the caller promises.
    let is_inter = unsafe { Out::new(is_inter, "flag")? };
    is_inter.set(flag(Comm::resolve(comm.raw())?.is_inter()));
    Ok(())
}

/// MPI_Comm_remote_size.
///
/// # Safety
/// `size` is null or writable.
pub unsafe fn mpi_comm_remote_size(comm: MPI_Comm, size: *mut c_int) -> Result<()> {
    // SAFETY: as the caller promises.
    let size = unsafe { Out::new(size, "size")? };
    size.set(Comm::resolve(comm.raw())?.remote_size()? as c_int);
    Ok(())
}

/// MPI_Comm_remote_group.
///
/// # Safety
/// `group` is null or writable.
pub unsafe fn mpi_comm_remote_group(comm: MPI_Comm, group: *mut MPI_Group) -> Result<()> {
    // SAFETY: as the caller promises.
    let group = unsafe { Out::new(group, "group")? };
    let members = Comm::resolve(comm.raw())?.remote_group()?;
    group.set(MPI_Group::from_raw(members.into_handle()?));
    Ok(())
}

/// MPI_Comm_get_parent: no process is spawned yet, so none has a parent.
///
/// # Safety
/// `parent` is null or writable.
pub unsafe fn mpi_comm_get_parent(parent: *mut MPI_Comm) -> Result<()> {
    // SAFETY: as the caller promises.
    let parent = unsafe { Out::new(parent, "parent")? };
    mica_mpi::process::engine()?;
    parent.set(MPI_Comm::from_raw(c::COMM_NULL));
    Ok(())
}

/// MPI_Comm_dup.
///
/// # Safety
/// `newcomm` is null or writable.
pub unsafe fn mpi_comm_dup(comm: MPI_Comm, newcomm: *mut MPI_Comm) -> Result<()> {
    // SAFETY: as the caller promises.
    let newcomm = unsafe { Out::new(newcomm, "newcomm")? };
    put_new(newcomm, Some(Comm::resolve(comm.raw())?.duplicate(None)?));
    Ok(())
}

/// MPI_Comm_dup_with_info.
///
/// # Safety
/// `newcomm` is null or writable.
pub unsafe fn mpi_comm_dup_with_info(
    comm: MPI_Comm,
    info: MPI_Info,
    newcomm: *mut MPI_Comm,
) -> Result<()> {
    // SAFETY: as the caller promises.
    let newcomm = unsafe { Out::new(newcomm, "newcomm")? };
    let hints = Info::resolve_hints(info.raw())?;
    put_new(
        newcomm,
        Some(Comm::resolve(comm.raw())?.duplicate(Some(&hints))?),
    );
    Ok(())
}

/// MPI_Comm_idup.
///
/// # Safety
/// `newcomm` and `request` are null or writable.
pub unsafe fn mpi_comm_idup(
    comm: MPI_Comm,
    newcomm: *mut MPI_Comm,
    request: *mut MPI_Request,
) -> Result<()> {
    // SAFETY: as the caller promises.
    unsafe { idup(comm, None, newcomm, request) }
}

/// MPI_Comm_idup_with_info.
///
/// # Safety
/// `newcomm` and `request` are null or writable.
pub unsafe fn mpi_comm_idup_with_info(
    comm: MPI_Comm,
    info: MPI_Info,
    newcomm: *mut MPI_Comm,
    request: *mut MPI_Request,
) -> Result<()> {
    let hints = Info::resolve_hints(info.raw())?;
    // SAFETY: as the caller promises.
    unsafe { idup(comm, Some(&hints), newcomm, request) }
}

/// # Safety
/// `newcomm` and `request` are null or writable.
unsafe fn idup(
    comm: MPI_Comm,
    hints: Option<&Info>,
    newcomm: *mut MPI_Comm,
    request: *mut MPI_Request,
) -> Result<()> {
    // SAFETY: as the caller promises.
    let (newcomm, request) =
        unsafe { (Out::new(newcomm, "newcomm")?, Out::new(request, "request")?) };
    put_new(
        newcomm,
        Some(Comm::resolve(comm.raw())?.duplicate_at_once(hints)?),
    );
    // The communicator is ready, so the request is one that is complete already.
    request.set(MPI_Request::from_raw(Request::SENT.register()?));
    Ok(())
}

/// MPI_Comm_create.
///
/// # Safety
/// `newcomm` is null or writable.
pub unsafe fn mpi_comm_create(
    comm: MPI_Comm,
    group: MPI_Group,
    newcomm: *mut MPI_Comm,
) -> Result<()> {
    // SAFETY: as the caller promises.
    let newcomm = unsafe { Out::new(newcomm, "newcomm")? };
    let group = Group::resolve(group.raw())?;
    put_new(newcomm, Comm::resolve(comm.raw())?.create(&group)?);
    Ok(())
}

/// MPI_Comm_create_group.
///
/// # Safety
/// `newcomm` is null or writable.
pub unsafe fn mpi_comm_create_group(
    comm: MPI_Comm,
    group: MPI_Group,
    tag: c_int,
    newcomm: *mut MPI_Comm,
) -> Result<()> {
    // SAFETY: as the caller promises.
    let newcomm = unsafe { Out::new(newcomm, "newcomm")? };
    let group = Group::resolve(group.raw())?;
    put_new(
        newcomm,
        Comm::resolve(comm.raw())?.create_group(&group, tag)?,
    );
    Ok(())
}

/// MPI_Comm_split.
///
/// # Safety
/// `newcomm` is null or writable.
pub unsafe fn mpi_comm_split(
    comm: MPI_Comm,
    color: c_int,
    key: c_int,
    newcomm: *mut MPI_Comm,
) -> Result<()> {
    // SAFETY: as the caller promises.
    let newcomm = unsafe { Out::new(newcomm, "newcomm")? };
    put_new(newcomm, Comm::resolve(comm.raw())?.split(color, key)?);
    Ok(())
}

/// MPI_Comm_split_type.
///
/// # Safety
/// `newcomm` is null or writable.
pub unsafe fn mpi_comm_split_type(
    comm: MPI_Comm,
    split_type: c_int,
    key: c_int,
    info: MPI_Info,
    newcomm: *mut MPI_Comm,
) -> Result<()> {
    // SAFETY: as the caller promises.
    let newcomm = unsafe { Out::new(newcomm, "newcomm")? };
    let hints = Info::resolve_hints(info.raw())?;
    put_new(
        newcomm,
        Comm::resolve(comm.raw())?.split_type(split_type, key, &hints)?,
    );
    Ok(())
}

fn put_new(newcomm: Out<MPI_Comm>, comm: Option<Comm>) {
    let handle = comm.map_or(c::COMM_NULL, |comm| comm.handle());
    newcomm.set(MPI_Comm::from_raw(handle));
}

/// MPI_Comm_free.
///
/// # Safety
/// `comm` is null or points to a handle that may be overwritten.
pub unsafe fn mpi_comm_free(comm: *mut MPI_Comm) -> Result<()> {
    // SAFETY: as the caller promises.
    let comm = unsafe { Out::new(comm, "comm")? };
    Comm::free(comm.get().raw())?;
    comm.set(MPI_Comm::from_raw(c::COMM_NULL));
    Ok(())
}

/// MPI_Comm_disconnect: as free. The program must complete pending communication first.
///
/// # Safety
/// As for `MPI_Comm_free`.
pub unsafe fn mpi_comm_disconnect(comm: *mut MPI_Comm) -> Result<()> {
    // SAFETY: as the caller promises.
    unsafe { mpi_comm_free(comm) }
}

/// MPI_Comm_set_name.
///
/// # Safety
/// `comm_name` is null or a string.
pub unsafe fn mpi_comm_set_name(comm: MPI_Comm, comm_name: *const c_char) -> Result<()> {
    // SAFETY: as the caller promises.
    let name = unsafe { text(comm_name, "comm_name")? };
    Comm::resolve(comm.raw())?.set_name(&name);
    Ok(())
}

/// MPI_Comm_get_name.
///
/// # Safety
/// `comm_name` is null or writable for `MPI_MAX_OBJECT_NAME` bytes, `resultlen` null or writable.
pub unsafe fn mpi_comm_get_name(
    comm: MPI_Comm,
    comm_name: *mut c_char,
    resultlen: *mut c_int,
) -> Result<()> {
    // SAFETY: as the caller promises.
    let resultlen = unsafe { Out::new(resultlen, "resultlen")? };
    let name = match comm.raw() {
        c::COMM_NULL => "MPI_COMM_NULL".to_owned(), // has a name, too (MPI 5.0, 7.8)
        handle => Comm::resolve(handle)?.name(),
    };
    // SAFETY: as the caller promises.
    resultlen.set(unsafe { put_text(comm_name, c::MAX_OBJECT_NAME, &name, "comm_name")? });
    Ok(())
}

/// MPI_Comm_set_info.
pub fn mpi_comm_set_info(comm: MPI_Comm, info: MPI_Info) -> Result<()> {
    let comm = Comm::resolve(comm.raw())?;
    comm.set_info(&Info::resolve_hints(info.raw())?);
    Ok(())
}

/// MPI_Comm_get_info.
///
/// # Safety
/// `info_used` is null or writable.
pub unsafe fn mpi_comm_get_info(comm: MPI_Comm, info_used: *mut MPI_Info) -> Result<()> {
    // SAFETY: as the caller promises.
    let info_used = unsafe { Out::new(info_used, "info_used")? };
    let info = Comm::resolve(comm.raw())?.info();
    info_used.set(MPI_Info::from_raw(info.into_handle()?));
    Ok(())
}
