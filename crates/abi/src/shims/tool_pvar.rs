//! The tools interface: values of performance variables (MPI 5.0, 15.3.7).

use std::ffi::{c_int, c_void};

use mica_mpi::tool::{ToolObjects, ValueType};

use crate::tool::{ToolCall, code, invalid};
use crate::types::*;

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
