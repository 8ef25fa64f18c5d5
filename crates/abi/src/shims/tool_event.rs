//! The tools interface: events, their sources and callbacks (MPI 5.0, 15.3.8).

use std::ffi::{c_char, c_int, c_void};
use std::sync::Arc;

use mica_mpi::constants as c;
use mica_mpi::tool::{
    self, CallbackFunction, DroppedFunction, ELEMENTS, EVENT_BYTES, Element, ElementType, OFFSETS,
    ObjectKind, ToolInterfaceError, ToolObjects, current_instance,
};

use crate::tool::{IfWanted, SizedText, ToolCall, check_hints, code, give, invalid};
use crate::types::*;

type EventFunction =
    unsafe extern "C" fn(usize, MPI_T_event_registration, MPI_T_cb_safety, *mut c_void);
type DroppedEventFunction =
    unsafe extern "C" fn(MPI_Count, MPI_T_event_registration, c_int, MPI_T_cb_safety, *mut c_void);
type FreeFunction = unsafe extern "C" fn(MPI_T_event_registration, MPI_T_cb_safety, *mut c_void);

/// MPI_T_event_get_info. The enumeration has the elements' names.
///
/// # Safety
/// The places are null or writable, the strings for as many bytes as their lengths say, the arrays
/// for as many elements as `num_elements` says.
#[allow(clippy::too_many_arguments, reason = "MPI's signature")]
pub unsafe fn mpi_t_event_get_info(
    event_index: c_int,
    name: *mut c_char,
    name_len: *mut c_int,
    verbosity: *mut c_int,
    array_of_datatypes: *mut MPI_Datatype,
    array_of_displacements: *mut MPI_Aint,
    num_elements: *mut c_int,
    enumtype: *mut MPI_T_enum,
    info: *mut MPI_Info,
    desc: *mut c_char,
    desc_len: *mut c_int,
    bind: *mut c_int,
) -> ToolCall {
    let event = code(tool::event_declaration(event_index))?;
    let places = (
        SizedText(name, name_len),
        IfWanted(verbosity),
        IfWanted(enumtype),
        IfWanted(info),
        SizedText(desc, desc_len),
        IfWanted(bind),
    );
    let enumeration = tool::element_names(event);
    let bound_to = if event.of_comm { ObjectKind::Comm } else { ObjectKind::None };
    let detail = c::T_VERBOSITY_USER_DETAIL;
    // SAFETY: as the caller promises.
    unsafe {
        give(places, || {
            Ok((event.name, detail, enumeration, tool::no_hints(), event.description, bound_to))
        })?;
        if num_elements.is_null() {
            return Ok(());
        }
        let room = usize::try_from(num_elements.read()).unwrap_or(0);
        for (at, (_, element)) in event.elements.iter().enumerate().take(room) {
            let datatype = match element {
                ElementType::Int => c::INT,
                ElementType::Unsigned => c::UNSIGNED_LONG_LONG,
            };
            if !array_of_datatypes.is_null() {
                array_of_datatypes.add(at).write(MPI_Datatype::from_raw(datatype));
            }
            if !array_of_displacements.is_null() {
                array_of_displacements.add(at).write(OFFSETS[at] as MPI_Aint);
            }
        }
        num_elements.write(ELEMENTS as c_int);
    }
    Ok(())
}

/// MPI_T_event_register_callback. A null function removes the callback of that safety level.
///
/// # Safety
/// `event_cb_function` is null or a `MPI_T_event_cb_function` that can be called with `user_data`
/// from any thread that makes progress, until it is replaced or the registration is freed.
pub unsafe fn mpi_t_event_register_callback(
    event_registration: MPI_T_event_registration,
    cb_safety: MPI_T_cb_safety,
    info: MPI_Info,
    user_data: *mut c_void,
    event_cb_function: usize,
) -> ToolCall {
    let registration = event_registration.raw();
    code(ToolObjects::check_callback(registration, cb_safety))?;
    code(check_hints(info.raw()))?;
    let callback = (event_cb_function != 0).then(|| {
        let address = std::ptr::with_exposed_provenance::<()>(event_cb_function);
        // SAFETY: as the caller promises.
        let function = unsafe { std::mem::transmute::<*const (), EventFunction>(address) };
        let user_data = user_data.expose_provenance();
        let callback: CallbackFunction = Arc::new(move |instance, registration, safety| {
            let user_data = std::ptr::with_exposed_provenance_mut(user_data);
            let registration = MPI_T_event_registration::from_raw(registration);
            // SAFETY: a C function of the user, called as MPI says.
            unsafe { function(instance as usize, registration, safety, user_data) }
        });
        callback
    });
    code(ToolObjects::set_callback(registration, cb_safety, callback))?;
    let dropped = USER_DATA.lock();
    let mut user_datas = dropped.unwrap_or_else(std::sync::PoisonError::into_inner);
    user_datas.retain(|(of, _)| *of != registration);
    user_datas.push((registration, user_data.expose_provenance()));
    Ok(())
}

/// The user data of each registration's last callback, which its dropped handler gets.
static USER_DATA: std::sync::Mutex<Vec<(u32, usize)>> = std::sync::Mutex::new(Vec::new());

fn user_data_of(registration: u32) -> *mut c_void {
    let all = USER_DATA.lock();
    let all = all.unwrap_or_else(std::sync::PoisonError::into_inner);
    let found = all.iter().find(|(of, _)| *of == registration);
    std::ptr::with_exposed_provenance_mut(found.map_or(0, |(_, data)| *data))
}

/// MPI_T_event_handle_free. No callback starts afterwards; then the function is called, if any.
///
/// # Safety
/// `free_cb_function` is null or a `MPI_T_event_free_cb_function` that can be called with
/// `user_data`.
pub unsafe fn mpi_t_event_handle_free(
    event_registration: MPI_T_event_registration,
    user_data: *mut c_void,
    free_cb_function: usize,
) -> ToolCall {
    let registration = event_registration.raw();
    code(ToolObjects::deregister(registration))?;
    let all = USER_DATA.lock();
    all.unwrap_or_else(std::sync::PoisonError::into_inner).retain(|(of, _)| *of != registration);
    if free_cb_function != 0 {
        let address = std::ptr::with_exposed_provenance::<()>(free_cb_function);
        // SAFETY: as the caller promises.
        let function = unsafe { std::mem::transmute::<*const (), FreeFunction>(address) };
        // SAFETY: a C function of the user, called as MPI says.
        unsafe { function(event_registration, c::T_CB_REQUIRE_NONE, user_data) };
    }
    Ok(())
}

/// MPI_T_event_set_dropped_handler. A null function removes the handler.
///
/// # Safety
/// `dropped_cb_function` is null or a `MPI_T_event_dropped_cb_function` that can be called from any
/// thread that makes progress, until it is replaced or the registration is freed.
pub unsafe fn mpi_t_event_set_dropped_handler(
    event_registration: MPI_T_event_registration,
    dropped_cb_function: usize,
) -> ToolCall {
    let handler = (dropped_cb_function != 0).then(|| {
        let address = std::ptr::with_exposed_provenance::<()>(dropped_cb_function);
        // SAFETY: as the caller promises.
        let function = unsafe { std::mem::transmute::<*const (), DroppedEventFunction>(address) };
        let handler: DroppedFunction = Arc::new(move |count, registration, source, safety| {
            let user_data = user_data_of(registration);
            let registration = MPI_T_event_registration::from_raw(registration);
            // SAFETY: a C function of the user, called as MPI says.
            unsafe { function(count, registration, source, safety, user_data) }
        });
        handler
    });
    code(ToolObjects::set_dropped_handler(event_registration.raw(), handler))
}

/// MPI_T_event_read.
///
/// # Safety
/// `buffer` is null or writable for the element.
pub unsafe fn mpi_t_event_read(
    event_instance: MPI_T_event_instance,
    element_index: c_int,
    buffer: *mut c_void,
) -> ToolCall {
    let instance = code(current_instance(event_instance.raw()))?;
    let at = usize::try_from(element_index).ok();
    let element = at.and_then(|at| instance.elements.get(at));
    let element = code(element.ok_or(ToolInterfaceError::InvalidIndex))?;
    if buffer.is_null() {
        return Err(invalid());
    }
    // SAFETY: as the caller promises.
    unsafe { write_element(buffer, *element) };
    Ok(())
}

/// MPI_T_event_copy.
///
/// # Safety
/// `buffer` is null or writable for the event's data.
pub unsafe fn mpi_t_event_copy(
    event_instance: MPI_T_event_instance,
    buffer: *mut c_void,
) -> ToolCall {
    let instance = code(current_instance(event_instance.raw()))?;
    if buffer.is_null() {
        return Err(invalid());
    }
    const { assert!(OFFSETS[ELEMENTS - 1] + size_of::<u64>() == EVENT_BYTES) };
    for (&element, offset) in instance.elements.iter().zip(OFFSETS) {
        // SAFETY: as the caller promises: the last element ends the event's data.
        unsafe { write_element(buffer.add(offset), element) };
    }
    Ok(())
}

/// # Safety
/// `place` is writable for the element, at any alignment.
unsafe fn write_element(place: *mut c_void, element: Element) {
    // SAFETY: as the caller promises.
    unsafe {
        match element {
            Element::Int(value) => place.cast::<c_int>().write_unaligned(value),
            Element::Unsigned(value) => place.cast::<u64>().write_unaligned(value),
        }
    }
}
