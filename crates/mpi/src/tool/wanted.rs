//! Registering for events, and what the engine and the late arrivals report because of it, or
//! because a handle of a performance variable counts it.

use super::declaration::{ARRIVED, COMM_UNEXPECTED, PATH_CHOSEN, UNEXPECTED, event_declaration};
use super::error::{ToolInterfaceError, ToolResult};
use super::event::{on_engine_event, report_late};
use super::object::BoundComm;
use super::registration;
use super::table::{EventCallbacks, Registration, ToolObjects, with};
use crate::comm::Comm;
use crate::late;
use crate::process;
use mica_protocol::{EngineEventKind, enable_events};
use std::sync::atomic::AtomicI64;
use std::sync::{Arc, Mutex};

/// Requests from the engine what is registered for now. To be called after each change, and when
/// the engine has started.
pub(crate) fn update_wanted() {
    let wanted = with(|tool| {
        let all = tool.registrations.values();
        let events = all.fold(0, |mask, registration| mask | 1 << registration.event);
        let arrivals = tool.bound_comms().any(BoundComm::wants_arrivals);
        let unexpected = tool.bound_comms().any(BoundComm::wants_unexpected);
        Ok((events, arrivals, unexpected))
    });
    let (wanted, arrivals, unexpected): (u32, bool, bool) = wanted.unwrap_or_default();
    registration::set_wanted(wanted);
    late::observe_by(report_late);
    let has = |event: usize| wanted & 1 << event != 0;
    let arrivals = arrivals || has(ARRIVED);
    let kinds = [
        (EngineEventKind::Arrived, arrivals),
        (EngineEventKind::Unexpected, unexpected || has(UNEXPECTED) || has(COMM_UNEXPECTED)),
        (EngineEventKind::PathChosen, has(PATH_CHOSEN)),
    ];
    let kinds = kinds.into_iter().filter(|(_, wanted)| *wanted);
    enable_events(kinds.map(|(kind, _)| kind), on_engine_event);
    if let Some(engine) = process::started_engine() {
        engine.observe_arrivals(arrivals);
    }
}

impl ToolObjects {
    /// Registers for a type of events; `comm` names the communicator of a bound type.
    ///
    /// # Errors
    /// When there is no such type or communicator, or no number is left.
    pub fn register(event: i32, comm: impl FnOnce() -> ToolResult<u32>) -> ToolResult<u32> {
        let declaration = event_declaration(event)?;
        let context = match declaration.of_comm {
            false => None,
            true => {
                let comm = Comm::resolve(comm()?).map_err(|_| ToolInterfaceError::InvalidHandle)?;
                Some(comm.context())
            }
        };
        let number = with(|tool| {
            let number = tool.number()?;
            let registration = Registration {
                number,
                event: event as usize,
                context,
                callbacks: Mutex::new(EventCallbacks::default()),
                dropped: AtomicI64::new(0),
            };
            tool.registrations.insert(number, Arc::new(registration));
            Ok(number)
        })?;
        update_wanted();
        Ok(number)
    }

    /// Ends a registration.
    ///
    /// # Errors
    /// When there is no such registration.
    pub fn deregister(number: u32) -> ToolResult<()> {
        registration::find(number)?;
        with(|tool| {
            tool.registrations.remove(&number);
            Ok(())
        })?;
        update_wanted();
        Ok(())
    }
}
