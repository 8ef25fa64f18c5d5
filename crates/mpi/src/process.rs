//! This process as a member of the job: start, end, thread level (MPI 5.0, 11.2 to 11.6).

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread::{self, ThreadId};

use mica_protocol::Engine;

use crate::comm::{self, Comm, exchange};
use crate::constants as c;
use crate::errhandler::Errhandler;
use crate::error::{Error, Result};
use crate::group::Group;

pub use mica_protocol::OneThreadAtATime;

/// All that lives from `MPI_Init` to the end of the process.
struct Process {
    engine: Engine,
    world: Comm,
    myself: Comm,
    main_thread: ThreadId,
    thread_level: i32,
}

static PROCESS: OnceLock<Process> = OnceLock::new();

/// One of the constants below. It only grows.
static PHASE: AtomicU8 = AtomicU8::new(BEFORE);
const BEFORE: u8 = 0;
const STARTING: u8 = 1;
const RUNNING: u8 = 2;
const FINALIZED: u8 = 3;

/// Contexts of the predefined communicators: those that a counter of the job's rank 0, and of each rank, would give first.
/// `comm` counts on from [`FIRST_FREE_ID`].
const WORLD_ID: u64 = 0;
const SELF_ID: u64 = comm::BLOCK;
/// The first communicator number that is not taken by a predefined one.
pub(crate) const FIRST_FREE_ID: u64 = 2 * comm::BLOCK;

fn phase() -> u8 {
    // Acquire: pairs with the Release store of RUNNING in `init`, which publishes PROCESS.
    PHASE.load(Ordering::Acquire)
}

fn running() -> Result<&'static Process> {
    match (phase(), PROCESS.get()) {
        (RUNNING, Some(process)) => Ok(process),
        (phase, _) => Err(not_running(phase)),
    }
}

#[cold]
fn not_running(phase: u8) -> Error {
    let detail = match phase {
        FINALIZED => "MPI_Finalize has been called already",
        _ => "MPI_Init has not been called",
    };
    Error::other(c::ERR_OTHER, detail)
}

/// `MPI_Init_thread`: joins the job and returns the thread level provided, which is the one required. `promise` is what
/// the program promises by a level below `MPI_THREAD_MULTIPLE`; with it the engine does without its lock.
pub fn init(required: i32, promise: Option<OneThreadAtATime>) -> Result<i32> {
    const LEVELS: [i32; 4] = [
        c::THREAD_SINGLE,
        c::THREAD_FUNNELED,
        c::THREAD_SERIALIZED,
        c::THREAD_MULTIPLE,
    ];
    if !LEVELS.contains(&required) {
        let reason = "this is not one of the MPI_THREAD_* levels";
        return Err(Error::argument(c::ERR_ARG, "required", required, reason));
    }
    // AcqRel: only one thread gets on; a failed start sets BEFORE again.
    PHASE
        .compare_exchange(BEFORE, STARTING, Ordering::AcqRel, Ordering::Acquire)
        .map_err(|phase| match phase {
            FINALIZED => not_running(phase),
            _ => Error::other(c::ERR_OTHER, "MPI_Init has been called already"),
        })?;
    let engine = Engine::start().map_err(|refusal| {
        PHASE.store(BEFORE, Ordering::Release);
        Error::other(c::ERR_OTHER, refusal.to_string())
    })?;
    match promise {
        Some(promise) if required != c::THREAD_MULTIPLE => engine.elide_lock(promise),
        _ => engine.set_thread_multiple(true),
    }
    let (rank, size) = (engine.rank(), engine.size());
    let everyone = Group::run(0, size);
    let world_context = comm::context(0, WORLD_ID);
    let self_context = comm::context(rank, SELF_ID);
    let process = Process {
        engine,
        world: Comm::predefined(
            c::COMM_WORLD,
            "MPI_COMM_WORLD",
            world_context,
            everyone,
            rank,
        ),
        myself: Comm::predefined(
            c::COMM_SELF,
            "MPI_COMM_SELF",
            self_context,
            Group::run(rank, 1),
            rank,
        ),
        main_thread: thread::current().id(),
        thread_level: required,
    };
    let first = PROCESS.set(process).is_ok();
    assert!(first, "the phase lets one thread start the process, once");
    // Release: publishes PROCESS to whoever sees RUNNING.
    PHASE.store(RUNNING, Ordering::Release);
    Ok(required)
}

/// `MPI_Finalize`: deletes the attributes of `MPI_COMM_SELF`, youngest first, while MPI still works (MPI 5.0, 11.4), waits
/// for all processes of the job, and leaves it.
pub fn finalize() -> Result<()> {
    let process = running()?;
    process.myself.delete_attributes()?;
    exchange::barrier(&process.world)?;
    process.engine.finish()?;
    PHASE.store(FINALIZED, Ordering::Release);
    comm::forget_cached();
    Ok(())
}

/// `MPI_Initialized`: stays true after `MPI_Finalize`.
pub fn initialized() -> bool {
    phase() >= RUNNING
}

/// `MPI_Finalized`.
pub fn finalized() -> bool {
    phase() == FINALIZED
}

/// `MPI_Query_thread`.
pub fn thread_level() -> Result<i32> {
    running().map(|process| process.thread_level)
}

/// `MPI_Is_thread_main`.
pub fn is_thread_main() -> Result<bool> {
    running().map(|process| process.main_thread == thread::current().id())
}

/// The engine that moves messages, between `MPI_Init` and `MPI_Finalize`.
#[inline]
pub fn engine() -> Result<&'static Engine> {
    running().map(|process| &process.engine)
}

/// `MPI_COMM_WORLD`.
pub fn world() -> Result<Comm> {
    running().map(|process| process.world.clone())
}

/// `MPI_COMM_SELF`.
pub fn myself() -> Result<Comm> {
    running().map(|process| process.myself.clone())
}

/// The handler of errors that concern no object: that of `MPI_COMM_SELF`, once there is one.
pub(crate) fn default_errhandler() -> Option<Errhandler> {
    PROCESS.get().map(|process| process.myself.errhandler())
}

/// `MPI_Abort`: ends the job with this exit code; without a job, this process.
pub fn abort(code: i32) -> ! {
    match PROCESS.get() {
        Some(process) => process.engine.abort(code),
        // An exit status has eight bits; an error must not look like success.
        None => std::process::exit(if code & 0xff == 0 { 1 } else { code }),
    }
}
