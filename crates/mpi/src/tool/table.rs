//! The table of a tool's sessions, handles and registrations, and what they consist of. No function
//! of it calls the engine.

use super::error::{ToolInterfaceError, ToolResult};
use super::object::{BoundComm, BoundObject};
use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::AtomicI64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What a tool has allocated. All of it goes when the interface is finalized.
#[derive(Debug, Default)]
pub struct ToolObjects {
    /// Calls of `MPI_T_init_thread` without their `MPI_T_finalize`.
    pub(super) users: u32,
    /// The last number given to a session, handle or registration; none is given twice.
    pub(super) last: u32,
    /// Index of the variable of each control variable handle.
    pub(super) cvar_handles: HashMap<u32, usize>,
    /// The numbers of the sessions.
    pub(super) sessions: Vec<u32>,
    pub(super) pvar_handles: HashMap<u32, PvarHandle>,
    pub(super) registrations: HashMap<u32, Arc<Registration>>,
}

/// The numbers up to this one stand for null and for all handles.
pub(super) const RESERVED: u32 = 15;

static TOOL: Mutex<Option<ToolObjects>> = Mutex::new(None);

pub(super) fn lock() -> MutexGuard<'static, Option<ToolObjects>> {
    // A poisoned table is usable: each change is one statement.
    TOOL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs `f` on the table, if the interface is initialized. `f` must not call the engine.
pub(super) fn with<R>(f: impl FnOnce(&mut ToolObjects) -> ToolResult<R>) -> ToolResult<R> {
    match &mut *lock() {
        Some(tool) => f(tool),
        None => Err(ToolInterfaceError::NotInitialized),
    }
}

/// Checks that the interface is initialized.
///
/// # Errors
/// If it is not.
pub fn require() -> ToolResult<()> {
    with(|_| Ok(()))
}

impl ToolObjects {
    /// A number that was never given.
    ///
    /// # Errors
    /// When none is left.
    pub(super) fn number(&mut self) -> ToolResult<u32> {
        self.last = self.last.max(RESERVED);
        if self.last == u32::MAX {
            return Err(ToolInterfaceError::OutOfHandles);
        }
        self.last += 1;
        Ok(self.last)
    }
}

impl ToolObjects {
    /// The communicators that handles of variables are for; several may be for the same one.
    pub(super) fn bound_comms(&self) -> impl Iterator<Item = &BoundComm> {
        self.pvar_handles.values().filter_map(|handle| match &handle.object {
            BoundObject::Comm(comm) => Some(comm),
            _ => None,
        })
    }
}

/// A handle of a performance variable.
#[derive(Debug)]
pub(super) struct PvarHandle {
    pub(super) session: u32,
    pub(super) index: usize,
    pub(super) object: BoundObject,
    /// The values that stand for what was counted while it was started, until `since`.
    pub(super) counted: Vec<u64>,
    /// The rank's values when it was started; `None` while it is stopped.
    pub(super) since: Option<Vec<u64>>,
}

/// Called for an event: its number, the registration, and the safety level required.
pub type CallbackFunction = Arc<dyn Fn(u32, u32, i32) + Send + Sync>;
/// Called for dropped events: how many, the registration, the source, and the level required.
pub type DroppedFunction = Arc<dyn Fn(i64, u32, i32, i32) + Send + Sync>;

/// A registration for a type of events.
pub(super) struct Registration {
    pub(super) number: u32,
    pub(super) event: usize,
    /// Context of its communicator, if the type is bound to one.
    pub(super) context: Option<u64>,
    pub(super) callbacks: Mutex<EventCallbacks>,
    /// Events that were dropped and not reported yet.
    pub(super) dropped: AtomicI64,
}

#[derive(Default, Clone)]
pub(super) struct EventCallbacks {
    /// By the place of their safety level in the order of the standard.
    pub(super) by_level: [Option<CallbackFunction>; 4],
    pub(super) on_dropped: Option<DroppedFunction>,
}

impl fmt::Debug for Registration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registration")
            .field("number", &self.number)
            .field("event", &self.event)
            .finish_non_exhaustive()
    }
}
