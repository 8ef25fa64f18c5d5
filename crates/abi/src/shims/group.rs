//! Groups (MPI 5.0, 7.3).

use std::ffi::c_int;

use mica_mpi::Result;
use mica_mpi::constants as c;
use mica_mpi::group::Group;
use mica_mpi::process;

use crate::convert::{Out, slice, slice_mut};
use crate::types::*;

/// MPI_Group_rank.
///
/// # Safety
/// `rank` is null or writable.
pub unsafe fn mpi_group_rank(group: MPI_Group, rank: *mut c_int) -> Result<()> {
    // SAFETY: as the caller promises.
    let rank = unsafe { Out::new(rank, "rank")? };
    let group = Group::resolve(group.raw())?;
    let me = process::engine()?.rank();
    rank.set(group.rank_of(me).map_or(c::UNDEFINED, |rank| rank as c_int));
    Ok(())
}

/// MPI_Group_translate_ranks.
///
/// # Safety
/// `ranks1` is readable and `ranks2` writable for `n` elements; they may be the same.
pub unsafe fn mpi_group_translate_ranks(
    group1: MPI_Group,
    n: c_int,
    ranks1: *const c_int,
    group2: MPI_Group,
    ranks2: *mut c_int,
) -> Result<()> {
    let (group1, group2) = (Group::resolve(group1.raw())?, Group::resolve(group2.raw())?);
    // SAFETY: as the caller promises; this slice is no longer used when the other one is made.
    let translated =
        group1.translate_ranks(unsafe { slice(ranks1, n, "ranks1", "n")? }, &group2)?;
    // SAFETY: as the caller promises.
    unsafe { slice_mut(ranks2, n, "ranks2", "n")? }.copy_from_slice(&translated);
    Ok(())
}

/// MPI_Group_free.
///
/// # Safety
/// `group` is null or points to a handle that may be overwritten.
pub unsafe fn mpi_group_free(group: *mut MPI_Group) -> Result<()> {
    // SAFETY: as the caller promises.
    let group = unsafe { Out::new(group, "group")? };
    Group::free(group.get().raw())?;
    group.set(MPI_Group::from_raw(c::GROUP_NULL));
    Ok(())
}
