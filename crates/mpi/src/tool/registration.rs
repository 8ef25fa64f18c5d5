//! Registrations for events, and their callbacks.

use super::event::{
    ARRIVED, COMM_UNEXPECTED, EVENTS, Instance, PATH_CHOSEN, UNEXPECTED, on_engine_event,
};
use super::{Tool, ToolError, ToolResult, with};
use crate::comm::Comm;
use crate::constants as c;
use crate::process;
use mica_protocol::{EngineEventKind, want_events};
use std::fmt;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Called for an event: its number, the registration, and the safety level required.
pub type CallbackFunction = Arc<dyn Fn(u32, u32, i32) + Send + Sync>;
/// Called for dropped events: how many, the registration, the source, and the level required.
pub type DroppedFunction = Arc<dyn Fn(i64, u32, i32, i32) + Send + Sync>;

/// The safety levels, in rising order.
const LEVELS: [i32; 4] = [
    c::T_CB_REQUIRE_NONE,
    c::T_CB_REQUIRE_MPI_RESTRICTED,
    c::T_CB_REQUIRE_THREAD_SAFE,
    c::T_CB_REQUIRE_ASYNC_SIGNAL_SAFE,
];

/// A registration for a type of events.
pub(super) struct Registration {
    number: u32,
    event: usize,
    /// Context of its communicator, if the type is bound to one.
    context: Option<u64>,
    callbacks: Mutex<Callbacks>,
    /// Events that were dropped and not reported yet.
    dropped: AtomicI64,
}

#[derive(Default, Clone)]
struct Callbacks {
    /// By the place of their safety level in [`LEVELS`].
    by_level: [Option<CallbackFunction>; LEVELS.len()],
    on_dropped: Option<DroppedFunction>,
}

impl fmt::Debug for Registration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registration")
            .field("number", &self.number)
            .field("event", &self.event)
            .finish_non_exhaustive()
    }
}

impl Registration {
    fn lock(&self) -> MutexGuard<'_, Callbacks> {
        // A poisoned table is usable: each change is one statement.
        self.callbacks
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    pub fn drop_event(&self) {
        self.dropped.fetch_add(1, Ordering::Relaxed);
    }

    /// Calls the callback that suits the level `required`, or drops the event.
    pub fn deliver(&self, instance: &Instance, required: i32) {
        // Called without the lock, since it may register others.
        let callbacks = self.lock().clone();
        let suits = LEVELS
            .iter()
            .position(|&level| level >= required)
            .unwrap_or(0);
        let Some(callback) = callbacks.by_level[suits..].iter().flatten().next() else {
            return self.drop_event();
        };
        if let Some(on_dropped) = &callbacks.on_dropped {
            let count = self.dropped.swap(0, Ordering::Relaxed);
            if count > 0 {
                on_dropped(count, self.number, instance.source as i32, required);
            }
        }
        callback(instance.number, self.number, required);
    }
}

/// The types of events with registrations, a bit each.
static WANTED: AtomicU32 = AtomicU32::new(0);

/// Whether anyone has registered for a type of events.
pub(super) fn is_wanted(event: usize) -> bool {
    // Relaxed: a registration at the same time may miss an event.
    WANTED.load(Ordering::Relaxed) & 1 << event != 0
}

/// The registrations for a type of events; of a bound type, those of this context.
pub(super) fn of_event(event: usize, context: Option<u64>) -> Vec<Arc<Registration>> {
    if !is_wanted(event) {
        return Vec::new();
    }
    let found = with(|tool| {
        let all = tool.registrations.values();
        let suits = |r: &&Arc<Registration>| r.event == event && r.context == context;
        Ok(all.filter(suits).cloned().collect::<Vec<_>>())
    });
    let mut found = found.unwrap_or_default();
    found.sort_by_key(|registration| registration.number);
    found
}

/// Requests from the engine what is registered for now. To be called after each change, and when
/// the engine has started.
pub(crate) fn update_wanted() {
    let wanted = with(|tool| {
        let all = tool.registrations.values();
        Ok(all.fold(0, |mask, registration| mask | 1 << registration.event))
    });
    let wanted: u32 = wanted.unwrap_or(0);
    WANTED.store(wanted, Ordering::Relaxed);
    let has = |event: usize| wanted & 1 << event != 0;
    let kinds = [
        (EngineEventKind::Arrived, has(ARRIVED)),
        (
            EngineEventKind::Unexpected,
            has(UNEXPECTED) || has(COMM_UNEXPECTED),
        ),
        (EngineEventKind::PathChosen, has(PATH_CHOSEN)),
    ];
    let kinds = kinds.into_iter().filter(|(_, wanted)| *wanted);
    want_events(kinds.map(|(kind, _)| kind), on_engine_event);
    if let Some(engine) = process::ENGINE.get() {
        engine.observe_arrivals(has(ARRIVED));
    }
}

fn level(safety: i32) -> ToolResult<usize> {
    let at = LEVELS.iter().position(|&level| level == safety);
    at.ok_or(ToolError::Invalid)
}

fn find(registration: u32) -> ToolResult<Arc<Registration>> {
    with(|tool| {
        let found = tool.registrations.get(&registration);
        found.cloned().ok_or(ToolError::InvalidHandle)
    })
}

impl Tool {
    /// Registers for a type of events; `comm` names the communicator of a bound type.
    ///
    /// # Errors
    /// When there is no such type or communicator, or no number is left.
    pub fn register(event: i32, comm: impl FnOnce() -> ToolResult<u32>) -> ToolResult<u32> {
        let declaration = super::event_declaration(event)?;
        let context = match declaration.of_comm {
            false => None,
            true => {
                let comm = Comm::resolve(comm()?).map_err(|_| ToolError::InvalidHandle)?;
                Some(comm.context())
            }
        };
        let number = with(|tool| {
            let number = tool.number()?;
            let registration = Registration {
                number,
                event: event as usize,
                context,
                callbacks: Mutex::default(),
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
    pub fn deregister(registration: u32) -> ToolResult<()> {
        find(registration)?;
        with(|tool| {
            tool.registrations.remove(&registration);
            Ok(())
        })?;
        update_wanted();
        Ok(())
    }

    /// Checks that there is such a registration.
    ///
    /// # Errors
    /// When there is none.
    pub fn check_registration(registration: u32) -> ToolResult<()> {
        find(registration).map(drop)
    }

    /// Checks that there is such a registration, and such a safety level.
    ///
    /// # Errors
    /// When there is none.
    pub fn check_callback(registration: u32, safety: i32) -> ToolResult<()> {
        find(registration)?;
        level(safety).map(drop)
    }

    /// Sets, or with `None` removes, the callback for a safety level.
    ///
    /// # Errors
    /// When there is no such registration or level.
    pub fn set_callback(
        registration: u32,
        safety: i32,
        callback: Option<CallbackFunction>,
    ) -> ToolResult<()> {
        let found = find(registration)?;
        let level = level(safety)?;
        found.lock().by_level[level] = callback;
        Ok(())
    }

    /// Sets, or with `None` removes, what is called for dropped events.
    ///
    /// # Errors
    /// When there is no such registration.
    pub fn set_dropped_handler(
        registration: u32,
        handler: Option<DroppedFunction>,
    ) -> ToolResult<()> {
        find(registration)?.lock().on_dropped = handler;
        Ok(())
    }
}

/// Bits suffice for all types.
const _: () = assert!(EVENTS.len() <= 32);
