//! This process as a member of the job: the engine that serves it, and how far the world model is
//! (MPI 5.0, 11.2 to 11.6).
//!
//! The engine serves all users of MPI in this process: the world model (`MPI_Init`) and any number
//! of sessions. It starts with the first user and lives as long as the process. `mica_mpi::init`
//! starts and ends both; all others ask here for the engine.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use mica_protocol::{Engine, Poll};

use crate::constants as c;
use crate::error::{Error, Result};

static ENGINE: OnceLock<Engine> = OnceLock::new();
/// Whether there are any users, for the check that every call makes.
static IN_USE: AtomicBool = AtomicBool::new(false);
/// A [`Phase`].
static PHASE: AtomicU8 = AtomicU8::new(Phase::Before as u8);

/// How far the world model is. It only advances, except when a start fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Phase {
    /// `MPI_Init` has not been called.
    Before,
    /// It has not returned.
    Starting,
    /// MPI may be called.
    Running,
    /// `MPI_Finalize` has been called.
    Finalized,
}

/// How far the world model is.
pub fn phase() -> Phase {
    // Acquire: pairs with the Release store in `set_phase`, which publishes the world model, or
    // what its end leaves.
    const ALL: [Phase; 4] = [Phase::Before, Phase::Starting, Phase::Running, Phase::Finalized];
    ALL[usize::from(PHASE.load(Ordering::Acquire))]
}

/// The world model has reached this phase.
pub fn set_phase(phase: Phase) {
    // Release: pairs with the Acquire loads in `phase` and `begin_start`.
    PHASE.store(phase as u8, Ordering::Release);
}

/// Begins the start of the world model, which one thread may do, once.
///
/// # Errors
/// `MPI_ERR_OTHER` when it has begun before.
pub fn begin_start() -> Result<()> {
    let (before, starting) = (Phase::Before as u8, Phase::Starting as u8);
    // AcqRel: only one thread proceeds. It acquires what a failed start has left behind.
    match PHASE.compare_exchange(before, starting, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => Ok(()),
        Err(phase) if phase == Phase::Finalized as u8 => Err(not_running(Phase::Finalized)),
        Err(_) => Err(Error::other(c::ERR_OTHER, "MPI_Init has been called already")),
    }
}

/// The error of a call that needs the world model.
#[cold]
pub fn not_running(phase: Phase) -> Error {
    let detail = match phase {
        Phase::Finalized => "MPI_Finalize has been called already",
        _ => "MPI_Init has not been called",
    };
    Error::other(c::ERR_OTHER, detail)
}

/// The engine once it has been started, even if nothing uses it now.
pub fn started_engine() -> Option<&'static Engine> {
    ENGINE.get()
}

/// Keeps the engine for the life of the process.
pub fn keep_engine(engine: Engine) -> &'static Engine {
    ENGINE.get_or_init(|| engine)
}

/// Whether there is a user of the engine from now on.
pub fn set_in_use(in_use: bool) {
    // Release: pairs with the Acquire in `engine`; who finds the engine in use finds it started,
    // who finds it out of use finds it finished.
    IN_USE.store(in_use, Ordering::Release);
}

/// `MPI_Initialized`: stays true after `MPI_Finalize`.
pub fn initialized() -> bool {
    phase() >= Phase::Running
}

/// Whether the world model is between its start and its end.
pub fn world_runs() -> bool {
    phase() == Phase::Running
}

/// `MPI_Finalized`.
pub fn finalized() -> bool {
    phase() == Phase::Finalized
}

/// The engine that moves messages, while the world model or a session is there.
#[inline]
pub fn engine() -> Result<&'static Engine> {
    // Acquire: pairs with the Release store in `set_in_use`.
    match ENGINE.get() {
        Some(engine) if IN_USE.load(Ordering::Acquire) => Ok(engine),
        _ => Err(not_in_use()),
    }
}

/// This process in a report to people: its rank in its world, while there is an engine.
pub fn in_words() -> String {
    match engine() {
        Ok(engine) => format!("rank {} of {}", engine.world_rank(), engine.size()),
        Err(_) => format!("process {}", std::process::id()),
    }
}

/// Must be called first in a test or probe: it separates what the program does between two of them.
///
/// # Errors
/// As [`engine`].
#[inline]
pub fn begin_poll() -> Result<Poll<'static>> {
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
        Phase::Finalized => not_running(Phase::Finalized),
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
