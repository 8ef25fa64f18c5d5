//! The tools interface: its start and end, and values of control variables (MPI 5.0, 15.3.4 and
//! 15.3.6).

use std::ffi::{c_int, c_void};

use mica_mpi::tool::{self, CvarValue, TEXT_BYTES, ToolObjects, ValueType};

use crate::tool::{IfWanted, ToolCall, ToolPlace, code, invalid, put_string, text};
use crate::types::*;

/// MPI_T_init_thread.
///
/// # Safety
/// `provided` is null or writable.
pub unsafe fn mpi_t_init_thread(required: c_int, provided: *mut c_int) -> ToolCall {
    let level = code(tool::init(required))?;
    // SAFETY: as the caller promises.
    code(unsafe { IfWanted(provided).store(level) })
}

/// MPI_T_finalize.
pub fn mpi_t_finalize() -> ToolCall {
    code(tool::finalize())
}

/// MPI_T_cvar_read.
///
/// # Safety
/// `buf` is null or writable for the variable's elements.
pub unsafe fn mpi_t_cvar_read(handle: MPI_T_cvar_handle, buf: *mut c_void) -> ToolCall {
    let value = code(ToolObjects::read_cvar(handle.raw()))?;
    if buf.is_null() {
        return Err(invalid());
    }
    // SAFETY: as the caller promises; a string has `TEXT_BYTES` elements.
    unsafe {
        match value {
            CvarValue::Int(item) => buf.cast::<c_int>().write(item),
            CvarValue::Unsigned(number) => buf.cast::<u64>().write(number),
            CvarValue::Text(text) => {
                let mut room = TEXT_BYTES as c_int;
                put_string(buf.cast(), &raw mut room, &text);
            }
        }
    }
    Ok(())
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
            ValueType::Text => CvarValue::Text(code(text(buf.cast()))?.to_owned()),
        }
    };
    code(ToolObjects::write_cvar(handle.raw(), &value))
}
