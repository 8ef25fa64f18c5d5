//! This process as a member of the job: the engine that serves it, and how far the world model is
//! (MPI 5.0, 11.2 to 11.6).
//!
//! The engine serves all users of MPI in this process: the world model (`MPI_Init`) and any number
//! of sessions. It starts with the first user and lives as long as the process. [`crate::init`]
//! starts and ends both; all other modules ask here for the engine.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use mica_protocol::{Engine, Poll};

use crate::constants as c;
use crate::error::{Error, Result};

pub(crate) static ENGINE: OnceLock<Engine> = OnceLock::new();
/// Whether there are any users, for the check that every call makes.
pub(crate) static IN_USE: AtomicBool = AtomicBool::new(false);

/// The phase of the world model: one of the constants below. It only grows, except when a start
/// fails.
pub(crate) static PHASE: AtomicU8 = AtomicU8::new(BEFORE);
pub(crate) const BEFORE: u8 = 0;
pub(crate) const STARTING: u8 = 1;
pub(crate) const RUNNING: u8 = 2;
pub(crate) const FINALIZED: u8 = 3;

pub(crate) fn phase() -> u8 {
    // Acquire: pairs with the Release store of RUNNING in `init::init`, which publishes the world
    // model.
    PHASE.load(Ordering::Acquire)
}

#[cold]
pub(crate) fn not_running(phase: u8) -> Error {
    let detail = match phase {
        FINALIZED => "MPI_Finalize has been called already",
        _ => "MPI_Init has not been called",
    };
    Error::other(c::ERR_OTHER, detail)
}

/// `MPI_Initialized`: stays true after `MPI_Finalize`.
pub fn initialized() -> bool {
    phase() >= RUNNING
}

/// Whether the world model is between its start and its end.
pub(crate) fn world_runs() -> bool {
    phase() == RUNNING
}

/// `MPI_Finalized`.
pub fn finalized() -> bool {
    phase() == FINALIZED
}

/// The engine that moves messages, while the world model or a session is there.
#[inline]
pub fn engine() -> Result<&'static Engine> {
    // Acquire: pairs with the Release store in `init::enter`.
    match ENGINE.get() {
        Some(engine) if IN_USE.load(Ordering::Acquire) => Ok(engine),
        _ => Err(not_in_use()),
    }
}

/// Must be called first in a test or probe: it separates what the program does between two of them.
///
/// # Errors
/// As [`engine`].
#[inline]
pub(crate) fn begin_poll() -> Result<Poll<'static>> {
    engine().map(Engine::begin_poll)
}

/// `MPI_Pcontrol`: marks a region of interest where this process is simulated. Before the start and
/// after the end of MPI there is nothing to mark it by.
pub fn mark(level: i32) {
    if let Ok(engine) = engine() {
        engine.mark(level);
    }
}

#[cold]
fn not_in_use() -> Error {
    match phase() {
        FINALIZED => not_running(FINALIZED),
        _ => Error::other(c::ERR_OTHER, "MPI_Init has not been called and no session is open"),
    }
}

/// `MPI_Abort`: ends the job with this exit code; without a job, this process.
pub fn abort(code: i32) -> ! {
    match ENGINE.get() {
        Some(engine) => engine.abort(code),
        // An exit status has eight bits; an error must not look like success.
        None => std::process::exit(if code & 0xff == 0 { 1 } else { code }),
    }
}
