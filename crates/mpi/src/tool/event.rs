//! The delivery of an event to the registered callbacks.
//!
//! The engine reports events under its lock, in the thread that makes progress
//! (`mica_protocol::enable_events`); late arrivals are reported by the thread that leaves the
//! collective. A callback therefore runs with the requirement `MPI_T_CB_REQUIRE_MPI_RESTRICTED`, or
//! `MPI_T_CB_REQUIRE_THREAD_SAFE` if several threads may be in the library; the callback of the
//! lowest registered safety level that meets it is called. If there is none, or a callback is
//! running in this thread already, the event is dropped and counted, and the dropped handler hears
//! of it before the registration's next event.

use super::declaration::{
    ARRIVED, COMM_UNEXPECTED, ELEMENTS, EVENTS, Element, EventDeclaration, Instance, LATE,
    PATH_CHOSEN, UNEXPECTED,
};
use super::enumeration;
use super::error::{ToolInterfaceError, ToolResult};
use super::registration;
use super::table::{RESERVED, Registration, require, with};
use crate::constants as c;
use crate::process;
use mica_node::segment::monotonic_ns;
use mica_protocol::{EngineEvent, EngineEventKind};
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// The handle of the enumeration that names the elements of a type.
pub fn element_names(event: &EventDeclaration) -> u32 {
    enumeration::handle(&format!("{}_elements", event.name)).unwrap_or(c::T_ENUM_NULL)
}

thread_local! {
    static CURRENT: RefCell<Option<Instance>> = const { RefCell::new(None) };
}

/// The event of this number, whose callback this thread is in.
///
/// # Errors
/// When there is none.
pub fn current_instance(number: u32) -> ToolResult<Instance> {
    require()?;
    let current = CURRENT.with_borrow(|current| *current);
    current.filter(|instance| instance.number == number).ok_or(ToolInterfaceError::InvalidHandle)
}

/// Takes an event of the engine; called under its lock.
pub(super) fn on_engine_event(event: &EngineEvent) {
    let index = match event.kind {
        EngineEventKind::Arrived => ARRIVED,
        EngineEventKind::Unexpected => UNEXPECTED,
        EngineEventKind::PathChosen => PATH_CHOSEN,
    };
    // The last bit separates collective traffic, which the program does not know.
    if event.envelope.context & 1 == 1 {
        return;
    }
    let elements = [
        Element::Int(event.envelope.source as i32),
        Element::Int(event.envelope.tag),
        Element::Unsigned(event.bytes as u64),
        Element::Unsigned(event.detail),
    ];
    count_for_comm(event);
    deliver(index, None, elements);
    if index == UNEXPECTED {
        deliver(COMM_UNEXPECTED, Some(event.envelope.context), elements);
    }
}

/// Counts an event of a communicator that a performance variable has a handle for.
fn count_for_comm(event: &EngineEvent) {
    let counts = with(|tool| {
        let mut comms = tool.bound_comms();
        let found = comms.find(|comm| comm.context == event.envelope.context);
        Ok(found.map(|comm| Arc::clone(&comm.counts)))
    });
    let Ok(Some(counts)) = counts else { return };
    match event.kind {
        EngineEventKind::Arrived => counts.arrived.count(event.bytes),
        EngineEventKind::Unexpected => counts.unexpected.count(event.bytes),
        EngineEventKind::PathChosen => {}
    }
}

/// Reports that a collective has ended in which rank `late` came last, after `wait_ns` nanoseconds
/// of waiting here.
pub(super) fn report_late(late: u32, ranks: u32, wait_ns: u64, inside_ns: u64) {
    if registration::is_wanted(LATE) {
        let elements = [
            Element::Int(late as i32),
            Element::Int(ranks as i32),
            Element::Unsigned(wait_ns),
            Element::Unsigned(inside_ns),
        ];
        deliver(LATE, None, elements);
    }
}

/// Calls the callbacks for an event; of those for a communicator, those for the one with this
/// context.
fn deliver(index: usize, context: Option<u64>, elements: [Element; ELEMENTS]) {
    let registrations = registration::of_event(index, context);
    if registrations.is_empty() {
        return;
    }
    static LAST: AtomicU32 = AtomicU32::new(RESERVED);
    let instance = Instance {
        number: LAST.fetch_add(1, Ordering::Relaxed).wrapping_add(1),
        source: EVENTS[index].source,
        ns: monotonic_ns(),
        elements,
    };
    let nested = CURRENT.with_borrow(Option::is_some);
    let required = required_safety();
    for registration in &registrations {
        if nested {
            registration.drop_event();
        } else {
            call(registration, &instance, required);
        }
    }
}

fn call(registration: &Arc<Registration>, instance: &Instance, required: i32) {
    CURRENT.with_borrow_mut(|current| *current = Some(*instance));
    registration.deliver(instance, required);
    CURRENT.with_borrow_mut(|current| *current = None);
}

/// What a callback must be able to do without.
fn required_safety() -> i32 {
    let shared = process::started_engine().is_some_and(|engine| engine.thread_mode().is_shared());
    match shared {
        true => c::T_CB_REQUIRE_THREAD_SAFE,
        false => c::T_CB_REQUIRE_MPI_RESTRICTED,
    }
}
