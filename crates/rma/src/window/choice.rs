//! What the user chooses for new windows.

use mica_node::tunables;
use mica_node::window::LockDesign;
use mica_protocol::Engine;

use mica_objects::constants as c;
use mica_objects::error::{Error, Result};

/// How operations reach their targets (`MICA_WINDOW_ACCESS`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WindowAccess {
    Auto,
    /// As `Auto`, but between nodes always by RMA.
    Rma,
    /// As `Auto`, but accumulates by messages within a node, too: the event-driven accumulate of
    /// jiang-2004, 3.3.2.
    AccumulateMessages,
    /// By messages although memory could be reached, for comparison.
    Messages,
}

fn window_access() -> Result<WindowAccess> {
    let choice = tunables::WINDOW_ACCESS.choice();
    match choice.map_err(|e| Error::other(c::ERR_OTHER, e.to_string()))? {
        "rma" => Ok(WindowAccess::Rma),
        "accumulate_messages" => Ok(WindowAccess::AccumulateMessages),
        "messages" => Ok(WindowAccess::Messages),
        _ => Ok(WindowAccess::Auto),
    }
}

/// How the locks of a window are taken (`MICA_WINDOW_LOCK`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LockService {
    /// By the ranks that share memory with the target, or by its server.
    pub design: LockDesign,
    /// Every other rank asks the target's server, whose thread grants the lock (jiang-2004, 4.2).
    pub by_thread: bool,
}

impl LockService {
    /// This choice for a window whose locks servers take as well, for origins that reach them by
    /// messages. A server looks at a lock only while its rank makes progress: it is to be granted
    /// the lock, and cannot compete for an open one.
    pub fn with_servers(self) -> LockService {
        match self.design {
            LockDesign::Barging => LockService { design: LockDesign::Mcs, ..self },
            _ => self,
        }
    }
}

/// What the user has chosen for a new window.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WindowChoices {
    pub access: WindowAccess,
    pub locking: LockService,
    /// Bytes from which on a transfer may be divided with its target; of none nothing can be.
    pub help_min: usize,
    /// How often this rank looks for what a peer writes before it watches.
    pub polls: u32,
}

impl WindowChoices {
    /// Those in force.
    ///
    /// # Errors
    /// When a variable has another value.
    pub fn in_force(engine: &Engine) -> Result<WindowChoices> {
        Ok(WindowChoices {
            polls: engine.polls_before_watch(),
            access: window_access()?,
            locking: lock_service()?,
            help_min: help_min()?,
        })
    }

    /// Whether accumulates go by messages, on targets whose memory is reached as well.
    #[inline(always)]
    pub fn sends_accumulates(&self) -> bool {
        self.access == WindowAccess::AccumulateMessages
    }
}

fn help_min() -> Result<usize> {
    let bytes = tunables::WINDOW_HELP_MIN.number();
    let bytes = bytes.map_err(|e| Error::other(c::ERR_OTHER, e.to_string()))?;
    Ok(usize::try_from(bytes).unwrap_or(usize::MAX).max(1))
}

fn lock_service() -> Result<LockService> {
    let choice = tunables::WINDOW_LOCK.choice();
    let choice = choice.map_err(|e| Error::other(c::ERR_OTHER, e.to_string()))?;
    Ok(LockService {
        design: match choice {
            "test_and_set" => LockDesign::TestAndSet,
            "barging" => LockDesign::Barging,
            _ => LockDesign::Mcs,
        },
        by_thread: matches!(choice, "thread" | "event"),
    })
}
