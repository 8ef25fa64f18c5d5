//! The tools interface MPI_T (MPI 5.0, 15.3): control and performance variables, categories,
//! enumerations and events.
//!
//! Everything is derived from two declarations: control variables from `mica_node::tunables`,
//! performance variables from `mica_node::counters`. Indices are places in fixed tables, so they,
//! and the categories, never change.
//!
//! Sessions, handles and registrations are in one table behind a mutex ([`Tool`]). No function of
//! this module calls the engine while it holds that mutex, or takes the engine's lock at all: a tool
//! may call from any thread, whatever thread level the program asked for, and from a callback, which
//! runs under the engine's lock. Counters are read in the job segment.
//!
//! Called by the shims `tool*.rs`, which check pointers and copy strings.

mod category;
mod cvar;
mod enumeration;
mod event;
mod pvar;
mod registration;
#[cfg(test)]
mod tests;

pub use category::{
    Category, CategoryMembers, categories, category, category_index, category_members,
};
pub use cvar::{CvarInfo, CvarValue, TEXT_BYTES, ValueType, cvar_info, cvars};
pub use enumeration::{Enumeration, enumeration};
pub(crate) use event::report_late;
pub use event::{
    ELEMENTS, EVENT_BYTES, Element, ElementType, EventDeclaration, EventSource, Instance, OFFSETS,
    current_instance, element_names, event_declaration, event_index, events, source, source_now,
    sources,
};
pub use pvar::{PvarInfo, pvar_info, pvars};
pub(crate) use registration::update_wanted;
pub use registration::{CallbackFunction, DroppedFunction};

use crate::constants as c;
use crate::info::Info;
use pvar::PvarHandle;
use registration::Registration;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What a function of the tools interface can end with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ToolError {
    /// `MPI_T_init_thread` has not been called, or `MPI_T_finalize` as often.
    #[error("the tools interface is not initialized")]
    NotInitialized,
    /// A parameter is not valid.
    #[error("invalid use of the interface or bad parameter")]
    Invalid,
    /// There is no variable, category, event, source or item of this index.
    #[error("the index is not valid")]
    InvalidIndex,
    /// No variable, category or event has this name.
    #[error("the name is not known")]
    InvalidName,
    /// There is no such handle, or not in this session.
    #[error("the handle is not valid")]
    InvalidHandle,
    /// There is no such session.
    #[error("the session is not valid")]
    InvalidSession,
    /// No number is left for another handle.
    #[error("no more handles are available")]
    OutOfHandles,
    /// The variable cannot be set any more in this process.
    #[error("the variable cannot be set at this moment")]
    SetNotNow,
    /// The variable can never be set.
    #[error("the variable cannot be set")]
    SetNever,
    /// The variable can be neither written nor reset.
    #[error("the variable cannot be written or reset")]
    NoWrite,
    /// The variable can be neither started nor stopped.
    #[error("the variable cannot be started or stopped")]
    NoStartStop,
}

impl ToolError {
    /// The code that the function returns.
    pub const fn code(self) -> i32 {
        match self {
            ToolError::NotInitialized => c::T_ERR_NOT_INITIALIZED,
            ToolError::Invalid => c::T_ERR_INVALID,
            ToolError::InvalidIndex => c::T_ERR_INVALID_INDEX,
            ToolError::InvalidName => c::T_ERR_INVALID_NAME,
            ToolError::InvalidHandle => c::T_ERR_INVALID_HANDLE,
            ToolError::InvalidSession => c::T_ERR_INVALID_SESSION,
            ToolError::OutOfHandles => c::T_ERR_OUT_OF_HANDLES,
            ToolError::SetNotNow => c::T_ERR_CVAR_SET_NOT_NOW,
            ToolError::SetNever => c::T_ERR_CVAR_SET_NEVER,
            ToolError::NoWrite => c::T_ERR_PVAR_NO_WRITE,
            ToolError::NoStartStop => c::T_ERR_PVAR_NO_STARTSTOP,
        }
    }
}

/// The result of a function of the tools interface.
pub type ToolResult<T> = std::result::Result<T, ToolError>;

/// What a tool has allocated. All of it goes when the interface is finalized.
#[derive(Debug, Default)]
pub struct Tool {
    /// Calls of `MPI_T_init_thread` without their `MPI_T_finalize`.
    users: u32,
    /// The last number given to a session, handle or registration; none is given twice.
    last: u32,
    /// Index of the variable of each control variable handle.
    cvar_handles: HashMap<u32, usize>,
    /// The numbers of the sessions.
    sessions: Vec<u32>,
    pvar_handles: HashMap<u32, PvarHandle>,
    registrations: HashMap<u32, Arc<Registration>>,
}

/// The numbers up to this one stand for null and for all handles.
const RESERVED: u32 = 15;

static TOOL: Mutex<Option<Tool>> = Mutex::new(None);

fn lock() -> MutexGuard<'static, Option<Tool>> {
    // A poisoned table is usable: each change is one statement.
    TOOL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs `f` on the table, if the interface is initialized. `f` must not call the engine.
fn with<R>(f: impl FnOnce(&mut Tool) -> ToolResult<R>) -> ToolResult<R> {
    match &mut *lock() {
        Some(tool) => f(tool),
        None => Err(ToolError::NotInitialized),
    }
}

/// Checks that the interface is initialized.
///
/// # Errors
/// If it is not.
pub fn require() -> ToolResult<()> {
    with(|_| Ok(()))
}

/// `MPI_T_init_thread`: returns the thread level, which is the one required.
///
/// # Errors
/// When `required` is no thread level.
pub fn init(required: i32) -> ToolResult<i32> {
    if !(c::THREAD_SINGLE..=c::THREAD_MULTIPLE).contains(&required) {
        return Err(ToolError::Invalid);
    }
    lock().get_or_insert_default().users += 1;
    Ok(required)
}

/// `MPI_T_finalize`.
///
/// # Errors
/// When it has been called as often as `MPI_T_init_thread`.
pub fn finalize() -> ToolResult<()> {
    let mut tool = lock();
    let Some(used) = &mut *tool else {
        return Err(ToolError::NotInitialized);
    };
    used.users -= 1;
    if used.users == 0 {
        *tool = None;
        drop(tool);
        update_wanted();
    }
    Ok(())
}

impl Tool {
    fn number(&mut self) -> ToolResult<u32> {
        self.last = self.last.max(RESERVED);
        if self.last == u32::MAX {
            return Err(ToolError::OutOfHandles);
        }
        self.last += 1;
        Ok(self.last)
    }
}

/// An info object without hints, since the library knows none for events and sources.
pub fn no_hints() -> Info {
    Info::default()
}
