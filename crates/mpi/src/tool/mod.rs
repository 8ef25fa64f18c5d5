//! The tools interface MPI_T (MPI 5.0, 15.3): control and performance variables, categories,
//! enumerations and events.
//!
//! Everything is derived from two declarations: control variables from `mica_node::tunables`,
//! performance variables from `mica_node::counters`. Indices are places in fixed tables, so they,
//! and the categories, never change.
//!
//! Sessions, handles and registrations are in one table behind a mutex ([`ToolObjects`]). No
//! function of this module calls the engine while it holds that mutex, or takes the engine's lock
//! at all: a tool may call from any thread, whatever thread level the program asked for, and from a
//! callback, which runs under the engine's lock. Counters are read in the job segment.
//!
//! Called by the exports and the shims `tool*.rs`, which check pointers and copy strings.

mod category;
mod cvar;
mod declaration;
mod enumeration;
mod error;
mod event;
mod object;
mod pvar;
mod registration;
mod table;
#[cfg(test)]
mod tests;
mod wanted;

pub use category::{
    Category, CategoryMembers, categories, category, category_index, category_members,
};
pub use cvar::{CvarInfo, CvarValue, TEXT_BYTES, ValueType, cvar_info, cvars};
pub use declaration::{
    ELEMENTS, EVENT_BYTES, Element, ElementType, EventDeclaration, EventSource, Instance, OFFSETS,
    event_declaration, event_index, events, source, source_now, sources,
};
pub use enumeration::{Enumeration, enumeration};
pub use error::{ToolInterfaceError, ToolResult};
pub use event::{current_instance, element_names};
pub use object::ObjectKind;
pub use pvar::{PvarInfo, pvar_info, pvars};
pub use table::{CallbackFunction, DroppedFunction, ToolObjects, require};
pub(crate) use wanted::update_wanted;

use crate::constants as c;
use crate::info::Info;
use table::lock;

/// `MPI_T_init_thread`: returns the thread level, which is the one required.
///
/// # Errors
/// When `required` is no thread level.
pub fn init(required: i32) -> ToolResult<i32> {
    if !(c::THREAD_SINGLE..=c::THREAD_MULTIPLE).contains(&required) {
        return Err(ToolInterfaceError::Invalid);
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
        return Err(ToolInterfaceError::NotInitialized);
    };
    used.users -= 1;
    if used.users == 0 {
        *tool = None;
        drop(tool);
        update_wanted();
    }
    Ok(())
}

/// An info object without hints, since the library knows none for events and sources.
pub fn no_hints() -> Info {
    Info::default()
}
