//! The tools interface: its start and end, control variables and enumerations (MPI 5.0, 15.3.4 to
//! 15.3.6).

use std::ffi::{c_char, c_int, c_void};

use mica_mpi::constants as c;
use mica_mpi::tool::{self, CvarValue, TEXT_BYTES, ToolInterfaceError, ToolObjects, ValueType};

use crate::tool::{code, invalid, name as text, put, put_string, set};
use crate::types::*;

type ToolCall = Result<(), c_int>;

/// MPI_T_init_thread.
///
/// # Safety
/// `provided` is null or writable.
pub unsafe fn mpi_t_init_thread(required: c_int, provided: *mut c_int) -> ToolCall {
    let level = code(tool::init(required))?;
    // SAFETY: as the caller promises.
    unsafe { put(provided, level) };
    Ok(())
}

/// MPI_T_finalize.
pub fn mpi_t_finalize() -> ToolCall {
    code(tool::finalize())
}

/// MPI_T_enum_get_info.
///
/// # Safety
/// The places are null or writable, `name` for as many bytes as `name_len` says.
pub unsafe fn mpi_t_enum_get_info(
    enumtype: MPI_T_enum,
    num: *mut c_int,
    name: *mut c_char,
    name_len: *mut c_int,
) -> ToolCall {
    let found = code(tool::enumeration(enumtype.raw()))?;
    // SAFETY: as the caller promises.
    unsafe {
        put(num, found.items.len() as c_int);
        put_string(name, name_len, &found.name);
    }
    Ok(())
}

/// MPI_T_enum_get_item.
///
/// # Safety
/// The places are null or writable, `name` for as many bytes as `name_len` says.
pub unsafe fn mpi_t_enum_get_item(
    enumtype: MPI_T_enum,
    index: c_int,
    value: *mut c_int,
    name: *mut c_char,
    name_len: *mut c_int,
) -> ToolCall {
    let found = code(tool::enumeration(enumtype.raw()))?;
    let at = usize::try_from(index).ok();
    let item = at.and_then(|at| found.items.get(at));
    let item = code(item.ok_or(ToolInterfaceError::InvalidIndex))?;
    // SAFETY: as the caller promises.
    unsafe {
        put(value, index);
        put_string(name, name_len, item);
    }
    Ok(())
}

/// MPI_T_cvar_get_num.
///
/// # Safety
/// `num_cvar` is null or writable.
pub unsafe fn mpi_t_cvar_get_num(num_cvar: *mut c_int) -> ToolCall {
    code(tool::require())?;
    // SAFETY: as the caller promises.
    unsafe { set(num_cvar, tool::cvars() as c_int) }
}

/// MPI_T_cvar_get_info.
///
/// # Safety
/// The places are null or writable, the strings for as many bytes as their lengths say.
#[allow(clippy::too_many_arguments, reason = "MPI's signature")]
pub unsafe fn mpi_t_cvar_get_info(
    cvar_index: c_int,
    name: *mut c_char,
    name_len: *mut c_int,
    verbosity: *mut c_int,
    datatype: *mut MPI_Datatype,
    enumtype: *mut MPI_T_enum,
    desc: *mut c_char,
    desc_len: *mut c_int,
    bind: *mut c_int,
    scope: *mut c_int,
) -> ToolCall {
    let info = code(tool::cvar_info(cvar_index))?;
    // SAFETY: as the caller promises.
    unsafe {
        put_string(name, name_len, &info.name);
        put(verbosity, info.verbosity);
        put(datatype, MPI_Datatype::from_raw(info.value_type.datatype()));
        put(enumtype, MPI_T_enum::from_raw(info.enumeration));
        put_string(desc, desc_len, info.description);
        put(bind, c::T_BIND_NO_OBJECT);
        put(scope, info.scope);
    }
    Ok(())
}

/// MPI_T_cvar_get_index.
///
/// # Safety
/// `name` is null or a string, `cvar_index` null or writable.
pub unsafe fn mpi_t_cvar_get_index(name: *const c_char, cvar_index: *mut c_int) -> ToolCall {
    code(tool::require())?;
    // SAFETY: as the caller promises.
    unsafe { set(cvar_index, code(ToolObjects::cvar_index(text(name)?))?) }
}

/// MPI_T_cvar_handle_alloc. No variable is bound to an object.
///
/// # Safety
/// `handle` and `count` are null or writable.
pub unsafe fn mpi_t_cvar_handle_alloc(
    cvar_index: c_int,
    _obj_handle: *mut c_void,
    handle: *mut MPI_T_cvar_handle,
    count: *mut c_int,
) -> ToolCall {
    code(tool::require())?;
    if handle.is_null() {
        return Err(invalid());
    }
    let (new, elements) = code(ToolObjects::cvar_handle(cvar_index))?;
    // SAFETY: as the caller promises.
    unsafe {
        put(count, elements);
        set(handle, MPI_T_cvar_handle::from_raw(new))
    }
}

/// MPI_T_cvar_handle_free.
///
/// # Safety
/// `handle` is null or points to a handle that may be overwritten.
pub unsafe fn mpi_t_cvar_handle_free(handle: *mut MPI_T_cvar_handle) -> ToolCall {
    code(tool::require())?;
    if handle.is_null() {
        return Err(invalid());
    }
    // SAFETY: as the caller promises.
    let raw = unsafe { handle.read() }.raw();
    code(ToolObjects::free_cvar_handle(raw))?;
    // SAFETY: as above.
    unsafe { set(handle, MPI_T_cvar_handle(0)) }
}

/// MPI_T_cvar_read.
///
/// # Safety
/// `buf` is null or writable for the variable's elements.
pub unsafe fn mpi_t_cvar_read(handle: MPI_T_cvar_handle, buf: *mut c_void) -> ToolCall {
    let value = code(ToolObjects::read_cvar(handle.raw()))?;
    // SAFETY: as the caller promises; a string has `TEXT_BYTES` elements.
    unsafe {
        match value {
            CvarValue::Int(item) => set(buf.cast(), item),
            CvarValue::Unsigned(number) => set(buf.cast(), number),
            CvarValue::Text(_) if buf.is_null() => Err(invalid()),
            CvarValue::Text(text) => {
                let mut room = TEXT_BYTES as c_int;
                put_string(buf.cast(), &raw mut room, &text);
                Ok(())
            }
        }
    }
}

/// MPI_T_cvar_write.
///
/// # Safety
/// `buf` is null or readable for the variable's elements; a string up to its terminating zero.
pub unsafe fn mpi_t_cvar_write(handle: MPI_T_cvar_handle, buf: *const c_void) -> ToolCall {
    let value_type = code(ToolObjects::cvar_type(handle.raw()))?;
    if buf.is_null() {
        return Err(invalid());
    }
    // SAFETY: as the caller promises.
    let value = unsafe {
        match value_type {
            ValueType::Int => CvarValue::Int(buf.cast::<c_int>().read()),
            ValueType::Unsigned => CvarValue::Unsigned(buf.cast::<u64>().read()),
            ValueType::Text => CvarValue::Text(text(buf.cast())?.to_owned()),
        }
    };
    code(ToolObjects::write_cvar(handle.raw(), &value))
}
