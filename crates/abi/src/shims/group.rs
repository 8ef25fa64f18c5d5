//! Groups (MPI 5.0, 7.3).

use std::ffi::c_int;

use mica_mpi::Result;
use mica_mpi::constants as c;
use mica_mpi::group::Group;
use mica_mpi::process;

use crate::convert::{Out, slice, slice_mut};
use crate::types::*;

/// MPI_Group_size.
///
/// # Safety
/// `size` is null or writable.
pub unsafe fn mpi_group_size(group: MPI_Group, size: *mut c_int) -> Result<()> {
    // SAFETY: as the caller promises.
    let size = unsafe { Out::new(size, "size")? };
    size.set(Group::resolve(group.raw())?.size() as c_int);
    Ok(())
}

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

/// MPI_Group_compare.
///
/// # Safety
/// `result` is null or writable.
pub unsafe fn mpi_group_compare(
    group1: MPI_Group,
    group2: MPI_Group,
    result: *mut c_int,
) -> Result<()> {
    // SAFETY: as the caller promises.
    let result = unsafe { Out::new(result, "result")? };
    let relation = Group::resolve(group1.raw())?.compare(&Group::resolve(group2.raw())?);
    result.set(relation.constant());
    Ok(())
}

/// MPI_Group_union.
///
/// # Safety
/// `newgroup` is null or writable.
pub unsafe fn mpi_group_union(
    group1: MPI_Group,
    group2: MPI_Group,
    newgroup: *mut MPI_Group,
) -> Result<()> {
    // SAFETY: as the caller promises.
    unsafe { combine(group1, group2, newgroup, Group::union) }
}

/// MPI_Group_intersection.
///
/// # Safety
/// `newgroup` is null or writable.
pub unsafe fn mpi_group_intersection(
    group1: MPI_Group,
    group2: MPI_Group,
    newgroup: *mut MPI_Group,
) -> Result<()> {
    // SAFETY: as the caller promises.
    unsafe { combine(group1, group2, newgroup, Group::intersection) }
}

/// MPI_Group_difference.
///
/// # Safety
/// `newgroup` is null or writable.
pub unsafe fn mpi_group_difference(
    group1: MPI_Group,
    group2: MPI_Group,
    newgroup: *mut MPI_Group,
) -> Result<()> {
    // SAFETY: as the caller promises.
    unsafe { combine(group1, group2, newgroup, Group::difference) }
}

/// # Safety
/// `newgroup` is null or writable.
unsafe fn combine(
    group1: MPI_Group,
    group2: MPI_Group,
    newgroup: *mut MPI_Group,
    operation: fn(&Group, &Group) -> Group,
) -> Result<()> {
    // SAFETY: as the caller promises.
    let newgroup = unsafe { Out::new(newgroup, "newgroup")? };
    let group = operation(
        &Group::resolve(group1.raw())?,
        &Group::resolve(group2.raw())?,
    );
    newgroup.set(MPI_Group::from_raw(group.into_handle()?));
    Ok(())
}

/// Stores the group that `derive` makes of `group`.
///
/// # Safety
/// `newgroup` is null or writable.
unsafe fn derive(
    group: MPI_Group,
    newgroup: *mut MPI_Group,
    derive: impl FnOnce(&Group) -> Result<Group>,
) -> Result<()> {
    // SAFETY: by the contract above.
    let newgroup = unsafe { Out::new(newgroup, "newgroup")? };
    let group = derive(&Group::resolve(group.raw())?)?;
    newgroup.set(MPI_Group::from_raw(group.into_handle()?));
    Ok(())
}

/// MPI_Group_incl.
///
/// # Safety
/// `ranks` is readable for `n` elements, `newgroup` null or writable.
pub unsafe fn mpi_group_incl(
    group: MPI_Group,
    n: c_int,
    ranks: *const c_int,
    newgroup: *mut MPI_Group,
) -> Result<()> {
    // SAFETY: as the caller promises.
    let list = unsafe { slice(ranks, n, "ranks", "n")? };
    // SAFETY: as the caller promises.
    unsafe { derive(group, newgroup, |group| group.incl(list)) }
}

/// MPI_Group_excl.
///
/// # Safety
/// As for `MPI_Group_incl`.
pub unsafe fn mpi_group_excl(
    group: MPI_Group,
    n: c_int,
    ranks: *const c_int,
    newgroup: *mut MPI_Group,
) -> Result<()> {
    // SAFETY: as the caller promises.
    let list = unsafe { slice(ranks, n, "ranks", "n")? };
    // SAFETY: as the caller promises.
    unsafe { derive(group, newgroup, |group| group.excl(list)) }
}

/// MPI_Group_range_incl.
///
/// # Safety
/// `ranges` is readable for `n` triplets, `newgroup` null or writable.
pub unsafe fn mpi_group_range_incl(
    group: MPI_Group,
    n: c_int,
    ranges: *mut [c_int; 3],
    newgroup: *mut MPI_Group,
) -> Result<()> {
    // SAFETY: as the caller promises.
    let list = unsafe { slice(ranges, n, "ranges", "n")? };
    // SAFETY: as the caller promises.
    unsafe { derive(group, newgroup, |group| group.range_incl(list)) }
}

/// MPI_Group_range_excl.
///
/// # Safety
/// As for `MPI_Group_range_incl`.
pub unsafe fn mpi_group_range_excl(
    group: MPI_Group,
    n: c_int,
    ranges: *mut [c_int; 3],
    newgroup: *mut MPI_Group,
) -> Result<()> {
    // SAFETY: as the caller promises.
    let list = unsafe { slice(ranges, n, "ranges", "n")? };
    // SAFETY: as the caller promises.
    unsafe { derive(group, newgroup, |group| group.range_excl(list)) }
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
