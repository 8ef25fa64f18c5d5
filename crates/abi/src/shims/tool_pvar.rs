//! The tools interface: performance variables (MPI 5.0, 15.3.7).

use std::ffi::{c_char, c_int, c_void};

use mica_mpi::constants as c;
use mica_mpi::tool::{self, ObjectKind, ToolInterfaceError, ToolObjects, ValueType};

use crate::tool::{code, invalid, name as text, put, put_string, set};
use crate::types::*;

type ToolCall = Result<(), c_int>;

/// MPI_T_pvar_get_num.
///
/// # Safety
/// `num_pvar` is null or writable.
pub unsafe fn mpi_t_pvar_get_num(num_pvar: *mut c_int) -> ToolCall {
    code(tool::require())?;
    // SAFETY: as the caller promises.
    unsafe { set(num_pvar, tool::pvars() as c_int) }
}

/// MPI_T_pvar_get_info.
///
/// # Safety
/// The places are null or writable, the strings for as many bytes as their lengths say.
#[allow(clippy::too_many_arguments, reason = "MPI's signature")]
pub unsafe fn mpi_t_pvar_get_info(
    pvar_index: c_int,
    name: *mut c_char,
    name_len: *mut c_int,
    verbosity: *mut c_int,
    var_class: *mut c_int,
    datatype: *mut MPI_Datatype,
    enumtype: *mut MPI_T_enum,
    desc: *mut c_char,
    desc_len: *mut c_int,
    bind: *mut c_int,
    readonly: *mut c_int,
    continuous: *mut c_int,
    atomic: *mut c_int,
) -> ToolCall {
    let info = code(tool::pvar_info(pvar_index))?;
    // SAFETY: as the caller promises.
    unsafe {
        put_string(name, name_len, &info.name);
        put(verbosity, c::T_VERBOSITY_USER_BASIC);
        put(var_class, info.class);
        put(datatype, MPI_Datatype::from_raw(info.value_type.datatype()));
        put(enumtype, MPI_T_enum::from_raw(info.enumeration));
        put_string(desc, desc_len, info.description);
        put(
            bind,
            match info.bound_to {
                ObjectKind::None => c::T_BIND_NO_OBJECT,
                ObjectKind::Comm => c::T_BIND_MPI_COMM,
                ObjectKind::Win => c::T_BIND_MPI_WIN,
            },
        );
        put(readonly, c_int::from(info.continuous));
        put(continuous, c_int::from(info.continuous));
        put(atomic, c_int::from(!info.continuous));
    }
    Ok(())
}

/// MPI_T_pvar_get_index.
///
/// # Safety
/// `name` is null or a string, `pvar_index` null or writable.
pub unsafe fn mpi_t_pvar_get_index(
    name: *const c_char,
    var_class: c_int,
    pvar_index: *mut c_int,
) -> ToolCall {
    code(tool::require())?;
    // SAFETY: as the caller promises.
    unsafe { set(pvar_index, code(ToolObjects::pvar_index(text(name)?, var_class))?) }
}

/// MPI_T_pvar_session_create.
///
/// # Safety
/// `pe_session` is null or writable.
pub unsafe fn mpi_t_pvar_session_create(pe_session: *mut MPI_T_pvar_session) -> ToolCall {
    code(tool::require())?;
    if pe_session.is_null() {
        return Err(invalid());
    }
    let session = code(ToolObjects::open_session())?;
    // SAFETY: as the caller promises.
    unsafe { set(pe_session, MPI_T_pvar_session::from_raw(session)) }
}

/// MPI_T_pvar_session_free.
///
/// # Safety
/// `pe_session` is null or points to a handle that may be overwritten.
pub unsafe fn mpi_t_pvar_session_free(pe_session: *mut MPI_T_pvar_session) -> ToolCall {
    code(tool::require())?;
    if pe_session.is_null() {
        return Err(invalid());
    }
    // SAFETY: as the caller promises.
    let raw = unsafe { pe_session.read() }.raw();
    code(ToolObjects::close_session(raw))?;
    // SAFETY: as above.
    unsafe { set(pe_session, MPI_T_pvar_session(0)) }
}

/// MPI_T_pvar_handle_alloc.
///
/// # Safety
/// `obj_handle` is null or points to a handle of the kind that the variable is bound to; `handle`
/// and `count` are null or writable.
pub unsafe fn mpi_t_pvar_handle_alloc(
    pe_session: MPI_T_pvar_session,
    pvar_index: c_int,
    obj_handle: *mut c_void,
    handle: *mut MPI_T_pvar_handle,
    count: *mut c_int,
) -> ToolCall {
    code(tool::require())?;
    if handle.is_null() {
        return Err(invalid());
    }
    let object = |kind: ObjectKind| {
        if obj_handle.is_null() {
            return Err(ToolInterfaceError::Invalid);
        }
        // SAFETY: as the caller promises.
        unsafe {
            Ok(match kind {
                ObjectKind::Win => obj_handle.cast::<MPI_Win>().read().raw(),
                _ => obj_handle.cast::<MPI_Comm>().read().raw(),
            })
        }
    };
    let (new, elements) = code(ToolObjects::pvar_handle(pe_session.raw(), pvar_index, object))?;
    // SAFETY: as the caller promises.
    unsafe {
        put(count, elements);
        set(handle, MPI_T_pvar_handle::from_raw(new))
    }
}

/// MPI_T_pvar_handle_free.
///
/// # Safety
/// `handle` is null or points to a handle that may be overwritten.
pub unsafe fn mpi_t_pvar_handle_free(
    pe_session: MPI_T_pvar_session,
    handle: *mut MPI_T_pvar_handle,
) -> ToolCall {
    code(tool::require())?;
    if handle.is_null() {
        return Err(invalid());
    }
    // SAFETY: as the caller promises.
    let old = unsafe { handle.read() }.raw();
    code(ToolObjects::free_pvar_handle(pe_session.raw(), old))?;
    // SAFETY: as above.
    unsafe { set(handle, MPI_T_pvar_handle(0)) }
}

/// MPI_T_pvar_start.
pub fn mpi_t_pvar_start(pe_session: MPI_T_pvar_session, handle: MPI_T_pvar_handle) -> ToolCall {
    code(ToolObjects::start_pvar(pe_session.raw(), handle.raw()))
}

/// MPI_T_pvar_stop.
pub fn mpi_t_pvar_stop(pe_session: MPI_T_pvar_session, handle: MPI_T_pvar_handle) -> ToolCall {
    code(ToolObjects::stop_pvar(pe_session.raw(), handle.raw()))
}

/// MPI_T_pvar_reset.
pub fn mpi_t_pvar_reset(pe_session: MPI_T_pvar_session, handle: MPI_T_pvar_handle) -> ToolCall {
    code(ToolObjects::reset_pvar(pe_session.raw(), handle.raw()))
}

/// MPI_T_pvar_read.
///
/// # Safety
/// `buf` is null or writable for the variable's elements.
pub unsafe fn mpi_t_pvar_read(
    pe_session: MPI_T_pvar_session,
    handle: MPI_T_pvar_handle,
    buf: *mut c_void,
) -> ToolCall {
    let (value_type, values) = code(ToolObjects::read_pvar(pe_session.raw(), handle.raw()))?;
    // SAFETY: as the caller promises.
    unsafe { put_values(buf, value_type, &values) }
}

/// MPI_T_pvar_readreset.
///
/// # Safety
/// `buf` is null or writable for the variable's elements.
pub unsafe fn mpi_t_pvar_readreset(
    pe_session: MPI_T_pvar_session,
    handle: MPI_T_pvar_handle,
    buf: *mut c_void,
) -> ToolCall {
    // Nothing is reset unless the values can be returned.
    code(ToolObjects::writable_elements(pe_session.raw(), handle.raw()))?;
    if buf.is_null() {
        return Err(invalid());
    }
    let values = code(ToolObjects::read_and_reset_pvar(pe_session.raw(), handle.raw()))?;
    // SAFETY: as the caller promises.
    unsafe { put_values(buf, ValueType::Unsigned, &values) }
}

/// MPI_T_pvar_write.
///
/// # Safety
/// `buf` is null or readable for the variable's elements.
pub unsafe fn mpi_t_pvar_write(
    pe_session: MPI_T_pvar_session,
    handle: MPI_T_pvar_handle,
    buf: *const c_void,
) -> ToolCall {
    let elements = code(ToolObjects::writable_elements(pe_session.raw(), handle.raw()))?;
    if buf.is_null() {
        return Err(invalid());
    }
    let place = |at: usize| buf.cast::<u64>().wrapping_add(at);
    // SAFETY: as the caller promises; all variables that can be written are of this type.
    let values: Vec<u64> = (0..elements).map(|at| unsafe { place(at).read() }).collect();
    code(ToolObjects::write_pvar(pe_session.raw(), handle.raw(), &values))
}

/// # Safety
/// `buf` is null or writable for the values.
unsafe fn put_values(buf: *mut c_void, value_type: ValueType, values: &[u64]) -> ToolCall {
    if buf.is_null() {
        return Err(invalid());
    }
    for (at, &value) in values.iter().enumerate() {
        // SAFETY: as the caller promises.
        unsafe {
            match value_type {
                ValueType::Int => buf.cast::<c_int>().add(at).write(value as c_int),
                _ => buf.cast::<u64>().add(at).write(value),
            }
        }
    }
    Ok(())
}
