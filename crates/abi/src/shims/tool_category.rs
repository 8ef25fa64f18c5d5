//! The tools interface: categories (MPI 5.0, 15.3.9).

use std::ffi::{c_char, c_int};

use mica_mpi::tool::{self, category_members};

use crate::tool::{code, name as text, put, put_indices, put_string, set};

type ToolCall = Result<(), c_int>;

/// MPI_T_category_get_num.
///
/// # Safety
/// `num_cat` is null or writable.
pub unsafe fn mpi_t_category_get_num(num_cat: *mut c_int) -> ToolCall {
    code(tool::require())?;
    // SAFETY: as the caller promises.
    unsafe { set(num_cat, tool::categories() as c_int) }
}

/// MPI_T_category_get_info.
///
/// # Safety
/// The places are null or writable, the strings for as many bytes as their lengths say.
#[allow(clippy::too_many_arguments, reason = "MPI's signature")]
pub unsafe fn mpi_t_category_get_info(
    cat_index: c_int,
    name: *mut c_char,
    name_len: *mut c_int,
    desc: *mut c_char,
    desc_len: *mut c_int,
    num_cvars: *mut c_int,
    num_pvars: *mut c_int,
    num_categories: *mut c_int,
) -> ToolCall {
    let category = code(tool::category(cat_index))?;
    let members = code(category_members(cat_index))?;
    // SAFETY: as the caller promises.
    unsafe {
        put_string(name, name_len, category.name);
        put_string(desc, desc_len, category.description);
        put(num_cvars, members.cvars.len() as c_int);
        put(num_pvars, members.pvars.len() as c_int);
        put(num_categories, members.categories.len() as c_int);
    }
    Ok(())
}

/// MPI_T_category_get_num_events.
///
/// # Safety
/// `num_events` is null or writable.
pub unsafe fn mpi_t_category_get_num_events(cat_index: c_int, num_events: *mut c_int) -> ToolCall {
    let members = code(category_members(cat_index))?;
    // SAFETY: as the caller promises.
    unsafe { set(num_events, members.events.len() as c_int) }
}

/// MPI_T_category_get_index.
///
/// # Safety
/// `name` is null or a string, `cat_index` null or writable.
pub unsafe fn mpi_t_category_get_index(name: *const c_char, cat_index: *mut c_int) -> ToolCall {
    code(tool::require())?;
    // SAFETY: as the caller promises.
    unsafe { set(cat_index, code(tool::category_index(text(name)?))?) }
}

/// MPI_T_category_get_cvars.
///
/// # Safety
/// `indices` is null or writable for `len` elements.
pub unsafe fn mpi_t_category_get_cvars(
    cat_index: c_int,
    len: c_int,
    indices: *mut c_int,
) -> ToolCall {
    // SAFETY: as the caller promises.
    unsafe { put_indices(indices, len, &code(category_members(cat_index))?.cvars) }
}

/// MPI_T_category_get_pvars.
///
/// # Safety
/// `indices` is null or writable for `len` elements.
pub unsafe fn mpi_t_category_get_pvars(
    cat_index: c_int,
    len: c_int,
    indices: *mut c_int,
) -> ToolCall {
    // SAFETY: as the caller promises.
    unsafe { put_indices(indices, len, &code(category_members(cat_index))?.pvars) }
}

/// MPI_T_category_get_events.
///
/// # Safety
/// `indices` is null or writable for `len` elements.
pub unsafe fn mpi_t_category_get_events(
    cat_index: c_int,
    len: c_int,
    indices: *mut c_int,
) -> ToolCall {
    // SAFETY: as the caller promises.
    unsafe { put_indices(indices, len, &code(category_members(cat_index))?.events) }
}

/// MPI_T_category_get_categories.
///
/// # Safety
/// `indices` is null or writable for `len` elements.
pub unsafe fn mpi_t_category_get_categories(
    cat_index: c_int,
    len: c_int,
    indices: *mut c_int,
) -> ToolCall {
    let members = code(category_members(cat_index))?;
    // SAFETY: as the caller promises.
    unsafe { put_indices(indices, len, &members.categories) }
}

/// MPI_T_category_changed: they never do.
///
/// # Safety
/// `update_number` is null or writable.
pub unsafe fn mpi_t_category_changed(update_number: *mut c_int) -> ToolCall {
    code(tool::require())?;
    // SAFETY: as the caller promises.
    unsafe { set(update_number, 0) }
}
