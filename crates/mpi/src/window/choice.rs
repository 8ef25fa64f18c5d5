//! What the user chooses for new windows.

use mica_node::tunables;
use mica_node::window::LockDesign;

use crate::constants as c;
use crate::error::{Error, Result};

/// How operations reach their targets (`MICA_WINDOW_ACCESS`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WindowAccess {
    Auto,
    /// As `Auto`, but between nodes always by RMA.
    Rma,
    /// By messages although memory could be reached, for comparison.
    Messages,
}

/// The access that new windows have.
///
/// # Errors
/// When the variable has another value.
pub(super) fn window_access() -> Result<WindowAccess> {
    let choice = tunables::WINDOW_ACCESS.choice();
    match choice.map_err(|e| Error::other(c::ERR_OTHER, e.to_string()))? {
        "rma" => Ok(WindowAccess::Rma),
        "messages" => Ok(WindowAccess::Messages),
        _ => Ok(WindowAccess::Auto),
    }
}

/// The design of the locks of new windows.
///
/// # Errors
/// When the variable has another value.
pub(super) fn lock_design() -> Result<LockDesign> {
    let choice = tunables::WINDOW_LOCK.choice();
    match choice.map_err(|e| Error::other(c::ERR_OTHER, e.to_string()))? {
        "test_and_set" => Ok(LockDesign::TestAndSet),
        _ => Ok(LockDesign::Mcs),
    }
}
