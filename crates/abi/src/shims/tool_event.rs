//! The tools interface: events, their sources and callbacks (MPI 5.0, 15.3.8).

use std::ffi::{c_char, c_int, c_void};
use std::sync::Arc;

use mica_mpi::constants as c;
use mica_mpi::info::Info;
use mica_mpi::tool::{
    self, CallbackFunction, DroppedFunction, ELEMENTS, EVENT_BYTES, Element, ElementType, OFFSETS,
    ToolInterfaceError, ToolObjects, current_instance,
};

use crate::tool::{code, invalid, name as text, put, put_string, set};
use crate::types::*;

type ToolCall = Result<(), c_int>;

type EventFunction =
    unsafe extern "C" fn(usize, MPI_T_event_registration, MPI_T_cb_safety, *mut c_void);
type DroppedEventFunction =
    unsafe extern "C" fn(MPI_Count, MPI_T_event_registration, c_int, MPI_T_cb_safety, *mut c_void);
type FreeFunction = unsafe extern "C" fn(MPI_T_event_registration, MPI_T_cb_safety, *mut c_void);

/// MPI_T_source_get_num.
///
/// # Safety
/// `num_sources` is null or writable.
pub unsafe fn mpi_t_source_get_num(num_sources: *mut c_int) -> ToolCall {
    code(tool::require())?;
    // SAFETY: as the caller promises.
    unsafe { set(num_sources, tool::sources() as c_int) }
}

/// MPI_T_source_get_info.
///
/// # Safety
/// The places are null or writable, the strings for as many bytes as their lengths say.
#[allow(clippy::too_many_arguments, reason = "MPI's signature")]
pub unsafe fn mpi_t_source_get_info(
    source_index: c_int,
    name: *mut c_char,
    name_len: *mut c_int,
    desc: *mut c_char,
    desc_len: *mut c_int,
    ordering: *mut MPI_T_source_order,
    ticks_per_second: *mut MPI_Count,
    max_ticks: *mut MPI_Count,
    info: *mut MPI_Info,
) -> ToolCall {
    let source = code(tool::source(source_index))?;
    // SAFETY: as the caller promises.
    unsafe {
        put_info(info)?;
        put_string(name, name_len, source.name);
        put_string(desc, desc_len, source.description);
        put(ordering, source.order);
        put(ticks_per_second, 1_000_000_000);
        put(max_ticks, MPI_Count::MAX);
    }
    Ok(())
}

/// MPI_T_source_get_timestamp.
///
/// # Safety
/// `timestamp` is null or writable.
pub unsafe fn mpi_t_source_get_timestamp(
    source_index: c_int,
    timestamp: *mut MPI_Count,
) -> ToolCall {
    let now = code(tool::source_now(source_index))?;
    // SAFETY: as the caller promises.
    unsafe { set(timestamp, now) }
}

/// MPI_T_event_get_num.
///
/// # Safety
/// `num_events` is null or writable.
pub unsafe fn mpi_t_event_get_num(num_events: *mut c_int) -> ToolCall {
    code(tool::require())?;
    // SAFETY: as the caller promises.
    unsafe { set(num_events, tool::events() as c_int) }
}

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
    // SAFETY: as the caller promises.
    unsafe {
        put_info(info)?;
        put_string(name, name_len, event.name);
        put(verbosity, c::T_VERBOSITY_USER_DETAIL);
        if !num_elements.is_null() {
            let room = usize::try_from(num_elements.read()).unwrap_or(0);
            for (at, (_, element)) in event.elements.iter().enumerate().take(room) {
                let datatype = match element {
                    ElementType::Int => c::INT,
                    ElementType::Unsigned => c::UNSIGNED_LONG_LONG,
                };
                if !array_of_datatypes.is_null() {
                    let place = array_of_datatypes.add(at);
                    place.write(MPI_Datatype::from_raw(datatype));
                }
                if !array_of_displacements.is_null() {
                    let place = array_of_displacements.add(at);
                    place.write(OFFSETS[at] as MPI_Aint);
                }
            }
            num_elements.write(ELEMENTS as c_int);
        }
        put(enumtype, MPI_T_enum::from_raw(tool::element_names(event)));
        put_string(desc, desc_len, event.description);
        put(
            bind,
            match event.of_comm {
                true => c::T_BIND_MPI_COMM,
                false => c::T_BIND_NO_OBJECT,
            },
        );
    }
    Ok(())
}

/// MPI_T_event_get_index.
///
/// # Safety
/// `name` is null or a string, `event_index` null or writable.
pub unsafe fn mpi_t_event_get_index(name: *const c_char, event_index: *mut c_int) -> ToolCall {
    code(tool::require())?;
    // SAFETY: as the caller promises.
    unsafe { set(event_index, code(tool::event_index(text(name)?))?) }
}

/// MPI_T_event_handle_alloc.
///
/// # Safety
/// `obj_handle` is null or points to a handle of the kind that the event is bound to;
/// `event_registration` is null or writable.
pub unsafe fn mpi_t_event_handle_alloc(
    event_index: c_int,
    obj_handle: *mut c_void,
    info: MPI_Info,
    event_registration: *mut MPI_T_event_registration,
) -> ToolCall {
    code(tool::require())?;
    check_info(info)?;
    if event_registration.is_null() {
        return Err(invalid());
    }
    let comm = || {
        if obj_handle.is_null() {
            return Err(ToolInterfaceError::Invalid);
        }
        // SAFETY: as the caller promises.
        Ok(unsafe { obj_handle.cast::<MPI_Comm>().read() }.raw())
    };
    let new = code(ToolObjects::register(event_index, comm))?;
    // SAFETY: as the caller promises.
    unsafe { set(event_registration, MPI_T_event_registration::from_raw(new)) }
}

/// MPI_T_event_handle_set_info. The library knows no hints, so none is kept.
pub fn mpi_t_event_handle_set_info(
    event_registration: MPI_T_event_registration,
    info: MPI_Info,
) -> ToolCall {
    code(ToolObjects::check_registration(event_registration.raw()))?;
    check_info(info)
}

/// MPI_T_event_handle_get_info.
///
/// # Safety
/// `info_used` is null or writable.
pub unsafe fn mpi_t_event_handle_get_info(
    event_registration: MPI_T_event_registration,
    info_used: *mut MPI_Info,
) -> ToolCall {
    code(ToolObjects::check_registration(event_registration.raw()))?;
    if info_used.is_null() {
        return Err(invalid());
    }
    // SAFETY: as the caller promises.
    unsafe { put_info(info_used) }
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
    check_info(info)?;
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

/// MPI_T_event_callback_set_info. The library knows no hints, so none is kept.
pub fn mpi_t_event_callback_set_info(
    event_registration: MPI_T_event_registration,
    cb_safety: MPI_T_cb_safety,
    info: MPI_Info,
) -> ToolCall {
    code(ToolObjects::check_callback(event_registration.raw(), cb_safety))?;
    check_info(info)
}

/// MPI_T_event_callback_get_info.
///
/// # Safety
/// `info_used` is null or writable.
pub unsafe fn mpi_t_event_callback_get_info(
    event_registration: MPI_T_event_registration,
    cb_safety: MPI_T_cb_safety,
    info_used: *mut MPI_Info,
) -> ToolCall {
    code(ToolObjects::check_callback(event_registration.raw(), cb_safety))?;
    if info_used.is_null() {
        return Err(invalid());
    }
    // SAFETY: as the caller promises.
    unsafe { put_info(info_used) }
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

/// MPI_T_event_get_timestamp.
///
/// # Safety
/// `event_timestamp` is null or writable.
pub unsafe fn mpi_t_event_get_timestamp(
    event_instance: MPI_T_event_instance,
    event_timestamp: *mut MPI_Count,
) -> ToolCall {
    let instance = code(current_instance(event_instance.raw()))?;
    // SAFETY: as the caller promises.
    unsafe { set(event_timestamp, instance.ns as MPI_Count) }
}

/// MPI_T_event_get_source.
///
/// # Safety
/// `source_index` is null or writable.
pub unsafe fn mpi_t_event_get_source(
    event_instance: MPI_T_event_instance,
    source_index: *mut c_int,
) -> ToolCall {
    let instance = code(current_instance(event_instance.raw()))?;
    // SAFETY: as the caller promises.
    unsafe { set(source_index, instance.source as c_int) }
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

/// Checks an info argument, whose hints are all unknown; null is allowed.
fn check_info(info: MPI_Info) -> ToolCall {
    Info::resolve_hints(info.raw()).map_err(|_| invalid())?;
    Ok(())
}

/// Returns a new info object, unless the caller does not want it.
///
/// # Safety
/// `place` is null or writable.
unsafe fn put_info(place: *mut MPI_Info) -> ToolCall {
    if place.is_null() {
        return Ok(());
    }
    let handle = tool::no_hints().into_handle();
    let handle = handle.map_err(|_| c::T_ERR_MEMORY)?;
    // SAFETY: as the caller promises.
    unsafe { set(place, MPI_Info::from_raw(handle)) }
}
