//! Registrations for events, and their callbacks.

use super::declaration::{EVENTS, Instance};
use super::error::{ToolInterfaceError, ToolResult};
use super::table::{
    CallbackFunction, DroppedFunction, EventCallbacks, Registration, ToolObjects, with,
};
use crate::constants as c;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, MutexGuard, PoisonError};

/// The safety levels, in rising order.
const LEVELS: [i32; 4] = [
    c::T_CB_REQUIRE_NONE,
    c::T_CB_REQUIRE_MPI_RESTRICTED,
    c::T_CB_REQUIRE_THREAD_SAFE,
    c::T_CB_REQUIRE_ASYNC_SIGNAL_SAFE,
];

impl Registration {
    fn lock(&self) -> MutexGuard<'_, EventCallbacks> {
        // A poisoned table is usable: each change is one statement.
        self.callbacks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn drop_event(&self) {
        self.dropped.fetch_add(1, Ordering::Relaxed);
    }

    /// Calls the callback that suits the level `required`, or drops the event.
    pub fn deliver(&self, instance: &Instance, required: i32) {
        // Called without the lock, since it may register others.
        let callbacks = self.lock().clone();
        let suits = LEVELS.iter().position(|&level| level >= required).unwrap_or(0);
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

/// Sets the types of events with registrations, a bit each.
pub(super) fn set_wanted(mask: u32) {
    WANTED.store(mask, Ordering::Relaxed);
}

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

fn level(safety: i32) -> ToolResult<usize> {
    let at = LEVELS.iter().position(|&level| level == safety);
    at.ok_or(ToolInterfaceError::Invalid)
}

pub(super) fn find(registration: u32) -> ToolResult<Arc<Registration>> {
    with(|tool| {
        let found = tool.registrations.get(&registration);
        found.cloned().ok_or(ToolInterfaceError::InvalidHandle)
    })
}

impl ToolObjects {
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
