//! This process as a member of the job: start, end, thread level (MPI 5.0, 11.2 to 11.6).
//!
//! The engine serves all users of MPI in this process: the world model (`MPI_Init`) and any number
//! of sessions. It starts with the first user and lives as long as the process. When the last user
//! has finished, this rank announces that in the job segment, and a session that is opened later
//! revokes it; the world model can start only once.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Mutex, OnceLock};
use std::thread::{self, ThreadId};

use mica_protocol::{Engine, Poll};

use crate::buffered;
use crate::collective::execute;
use crate::comm::{self, Comm};
use crate::constants as c;
use crate::error::{Error, Result};
use crate::group::Group;
use crate::hang;
use crate::info;
use crate::late;
use crate::lenient;
use crate::request;
use crate::sync::lock;

pub use mica_protocol::OneThreadAtATime;

/// The state of the world model, from `MPI_Init` to the end of the process.
struct World {
    comms: &'static PredefinedComms,
    main_thread: ThreadId,
    thread_level: i32,
}

/// The predefined communicators. They belong to the world model; a program that only opens sessions
/// may use them as well ([`lenient`]).
struct PredefinedComms {
    world: Comm,
    myself: Comm,
}

static ENGINE: OnceLock<Engine> = OnceLock::new();
static WORLD: OnceLock<World> = OnceLock::new();
static PREDEFINED: OnceLock<PredefinedComms> = OnceLock::new();

/// Number of users of the engine: the world model and the open sessions.
static USERS: Mutex<usize> = Mutex::new(0);

/// Whether there are any users, for the check that every call makes.
static IN_USE: AtomicBool = AtomicBool::new(false);

/// The phase of the world model: one of the constants below. It only grows, except when a start
/// fails.
static PHASE: AtomicU8 = AtomicU8::new(BEFORE);
const BEFORE: u8 = 0;
const STARTING: u8 = 1;
const RUNNING: u8 = 2;
const FINALIZED: u8 = 3;

/// Contexts of the predefined communicators: the first ones from the counter of the job's rank 0,
/// and from the counter of each rank. `comm` continues from [`FIRST_FREE_ID`].
const WORLD_ID: u64 = 0;
const SELF_ID: u64 = comm::BLOCK;
/// The first communicator number that is not taken by a predefined one.
pub(crate) const FIRST_FREE_ID: u64 = 2 * comm::BLOCK;

/// The thread levels and their names, which info objects use as well.
pub(crate) const THREAD_LEVELS: [(i32, &str); 4] = [
    (c::THREAD_SINGLE, "MPI_THREAD_SINGLE"),
    (c::THREAD_FUNNELED, "MPI_THREAD_FUNNELED"),
    (c::THREAD_SERIALIZED, "MPI_THREAD_SERIALIZED"),
    (c::THREAD_MULTIPLE, "MPI_THREAD_MULTIPLE"),
];

fn phase() -> u8 {
    // Acquire: pairs with the Release store of RUNNING in `init`, which publishes WORLD.
    PHASE.load(Ordering::Acquire)
}

fn running() -> Result<&'static World> {
    match (phase(), WORLD.get()) {
        (RUNNING, Some(world)) => Ok(world),
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

/// Adds a user of the engine and starts it for the first one. `promise` is what the first user
/// promises for all.
pub(crate) fn enter(promise: Option<OneThreadAtATime>) -> Result<&'static Engine> {
    // Held until the engine serves: no other thread may use a half-started or half-finished engine.
    let mut users = lock(&USERS);
    let engine = match ENGINE.get() {
        Some(engine) => {
            if *users == 0 {
                engine.resume();
            }
            // The promise of one user binds that user, not the others.
            engine.set_thread_multiple(true);
            request::share_table();
            engine
        }
        None => {
            info::remember_launch();
            let engine = Engine::start()
                .map_err(|refusal| Error::other(c::ERR_OTHER, refusal.to_string()))?;
            match promise {
                Some(promise) => {
                    engine.elide_lock(promise);
                    request::elide_table_lock(promise);
                }
                None => engine.set_thread_multiple(true),
            }
            let engine = ENGINE.get_or_init(|| engine);
            engine.start_progress_thread();
            engine.describe_by(hang::describe);
            late::begin();
            engine
        }
    };
    *users += 1;
    // Release: publishes the engine to threads that see the flag.
    IN_USE.store(true, Ordering::Release);
    Ok(engine)
}

/// Removes a user; the last one ends this rank's part in the job, until another user comes. To be
/// called when all sends and receives of the user are complete.
pub(crate) fn leave() -> Result<()> {
    let mut users = lock(&USERS);
    if *users == 1 {
        buffered::release_all()?;
        let engine = engine()?;
        late::publish(engine);
        engine.finish()?;
        IN_USE.store(false, Ordering::Release);
        comm::forget_cached();
    }
    *users = users.saturating_sub(1);
    Ok(())
}

/// `MPI_Init_thread`: starts the world model and returns the thread level provided, which is the
/// one required. `promise` is what the program promises by a level below `MPI_THREAD_MULTIPLE`;
/// with it the engine elides its lock, unless there are sessions, which promise nothing.
pub fn init(required: i32, promise: Option<OneThreadAtATime>) -> Result<i32> {
    if !THREAD_LEVELS.iter().any(|&(level, _)| level == required) {
        let reason = "this is not one of the MPI_THREAD_* levels";
        return Err(Error::argument(c::ERR_ARG, "required", required, reason));
    }
    // AcqRel: only one thread proceeds; a failed start sets BEFORE again.
    PHASE
        .compare_exchange(BEFORE, STARTING, Ordering::AcqRel, Ordering::Acquire)
        .map_err(|phase| match phase {
            FINALIZED => not_running(phase),
            _ => Error::other(c::ERR_OTHER, "MPI_Init has been called already"),
        })?;
    let promise = promise.filter(|_| required != c::THREAD_MULTIPLE);
    let engine = enter(promise).inspect_err(|_| PHASE.store(BEFORE, Ordering::Release))?;
    let world = World {
        comms: predefined(engine),
        main_thread: thread::current().id(),
        thread_level: required,
    };
    let first = WORLD.set(world).is_ok();
    assert!(
        first,
        "the phase lets one thread start the world model, once"
    );
    engine.set_initialized(true);
    // Release: publishes WORLD to threads that see RUNNING.
    PHASE.store(RUNNING, Ordering::Release);
    Ok(required)
}

/// The predefined communicators, made by the first caller.
fn predefined(engine: &Engine) -> &'static PredefinedComms {
    PREDEFINED.get_or_init(|| {
        let (rank, size) = (engine.rank(), engine.size());
        let make =
            |handle, name, context, group| Comm::predefined(handle, name, context, group, rank);
        let (everyone, myself) = (Group::run(0, size), Group::run(rank, 1));
        let world_context = comm::context(0, WORLD_ID);
        let self_context = comm::context(rank, SELF_ID);
        PredefinedComms {
            world: make(c::COMM_WORLD, "MPI_COMM_WORLD", world_context, everyone),
            myself: make(c::COMM_SELF, "MPI_COMM_SELF", self_context, myself),
        }
    })
}

/// The predefined communicators that a call may use: the world model's or, before that begins,
/// those of a program that has a session open.
#[inline]
fn usable() -> Result<&'static PredefinedComms> {
    match running() {
        Ok(world) => Ok(world.comms),
        Err(error) => of_sessions().ok_or(error),
    }
}

#[cold]
fn of_sessions() -> Option<&'static PredefinedComms> {
    let engine = engine().ok().filter(|_| phase() == BEFORE)?;
    lenient::WORLD_OF_SESSIONS.note();
    Some(predefined(engine))
}

/// `MPI_Finalize`: deletes the attributes of `MPI_COMM_SELF`, youngest first, while MPI still works
/// (MPI 5.0, 11.4), waits for all processes of the job, and ends the world model. Sessions go on.
pub fn finalize() -> Result<()> {
    let comms = running()?.comms;
    comms.myself.delete_attributes()?;
    execute::finalize(&comms.world)?;
    engine()?.final_fence()?;
    engine()?.set_initialized(false);
    leave()?;
    PHASE.store(FINALIZED, Ordering::Release);
    comm::forget_cached();
    Ok(())
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

/// `MPI_Query_thread`.
pub fn thread_level() -> Result<i32> {
    running().map(|world| world.thread_level)
}

/// `MPI_Is_thread_main`.
pub fn is_thread_main() -> Result<bool> {
    running().map(|world| world.main_thread == thread::current().id())
}

/// The engine that moves messages, while the world model or a session is there.
#[inline]
pub fn engine() -> Result<&'static Engine> {
    // Acquire: pairs with the Release store in `enter`.
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

#[cold]
fn not_in_use() -> Error {
    match phase() {
        FINALIZED => not_running(FINALIZED),
        _ => Error::other(
            c::ERR_OTHER,
            "MPI_Init has not been called and no session is open",
        ),
    }
}

/// `MPI_COMM_WORLD`.
pub fn world() -> Result<Comm> {
    usable().map(|comms| comms.world.clone())
}

/// `MPI_COMM_SELF`.
pub fn myself() -> Result<Comm> {
    usable().map(|comms| comms.myself.clone())
}

/// `MPI_COMM_SELF` and `MPI_COMM_WORLD`, once they have been made, also after `MPI_Finalize`: for
/// their error handlers.
pub(crate) fn handler_bearers() -> Option<[&'static Comm; 2]> {
    PREDEFINED.get().map(|comms| [&comms.myself, &comms.world])
}

/// `MPI_Abort`: ends the job with this exit code; without a job, this process.
pub fn abort(code: i32) -> ! {
    match ENGINE.get() {
        Some(engine) => engine.abort(code),
        // An exit status has eight bits; an error must not look like success.
        None => std::process::exit(if code & 0xff == 0 { 1 } else { code }),
    }
}
