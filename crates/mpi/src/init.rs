//! Start and end of MPI in this process: the engine's users, the world model, thread levels (MPI
//! 5.0, 11.2 to 11.6).
//!
//! The engine starts with its first user, which is the world model or a session. When the last user
//! has finished, this rank announces that in the job segment, and a session that is opened later
//! revokes it; the world model can start only once.

use std::sync::{Arc, Mutex};
use std::thread;

use mica_protocol::Engine;

use crate::buffered;
use crate::comm;
use crate::constants as c;
use crate::dynamic::spawn;
use crate::error::{Error, Result};
use crate::hang;
use crate::info;
use crate::late;
use crate::process::{self, Phase};
use crate::request;
use crate::sync::lock;
use crate::tool;
use crate::window;
use crate::world::{self, WorldModel};
use mica_collective::execute;

pub use mica_protocol::OneThreadAtATime;

/// The thread levels and their names, which info objects use as well.
pub(crate) const THREAD_LEVELS: [(i32, &str); 4] = [
    (c::THREAD_SINGLE, "MPI_THREAD_SINGLE"),
    (c::THREAD_FUNNELED, "MPI_THREAD_FUNNELED"),
    (c::THREAD_SERIALIZED, "MPI_THREAD_SERIALIZED"),
    (c::THREAD_MULTIPLE, "MPI_THREAD_MULTIPLE"),
];

/// Number of users of the engine: the world model and the open sessions.
static USERS: Mutex<usize> = Mutex::new(0);

/// Called when the last user leaves.
static AT_END: Mutex<Vec<Arc<dyn Fn() + Send + Sync>>> = Mutex::new(Vec::new());

/// Has `function` called whenever the last user of the engine leaves, while MPI still works. It may
/// free objects; it may neither communicate nor start or end MPI, since no other thread can
/// meanwhile.
pub fn at_end(function: Arc<dyn Fn() + Send + Sync>) {
    lock(&AT_END).push(function);
}

/// Adds a user of the engine and starts it for the first one. `promise` is what the first user
/// promises for all.
pub(crate) fn enter(promise: Option<OneThreadAtATime>) -> Result<&'static Engine> {
    // Held until the engine serves: no other thread may use a half-started or half-finished engine.
    let mut users = lock(&USERS);
    let engine = match process::started_engine() {
        Some(engine) => {
            if *users == 0 {
                engine.resume();
            }
            // The promise of one user binds that user, not the others.
            engine.set_thread_multiple();
            request::share_table();
            window::share_table();
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
                    // A progress thread serves windows as well.
                    if !engine.thread_mode().is_shared() {
                        window::elide_table_lock(promise);
                    }
                }
                None => engine.set_thread_multiple(),
            }
            let engine = process::keep_engine(engine);
            engine.start_progress_thread();
            engine.describe_by(hang::describe, late::current_function);
            late::begin();
            tool::update_wanted();
            engine
        }
    };
    *users += 1;
    process::set_in_use(true);
    Ok(engine)
}

/// Removes a user; the last one ends this rank's part in the job, until another user comes. To be
/// called when all sends and receives of the user are complete.
pub(crate) fn leave() -> Result<()> {
    let mut users = lock(&USERS);
    if *users == 1 {
        buffered::release_all()?;
        let at_end = lock(&AT_END).clone();
        at_end.iter().for_each(|function| function());
        let engine = process::engine()?;
        late::publish(engine);
        execute::flush_account();
        engine.finish()?;
        process::set_in_use(false);
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
    process::begin_start()?;
    let promise = promise.filter(|_| required != c::THREAD_MULTIPLE);
    let engine = enter(promise).inspect_err(|_| process::set_phase(Phase::Before))?;
    world::begin(WorldModel {
        comms: world::predefined(engine),
        main_thread: thread::current().id(),
        thread_level: required,
    });
    engine.set_initialized(true);
    process::set_phase(Phase::Running);
    spawn::meet_parent(engine, &world::predefined(engine).world)?;
    Ok(required)
}

/// `MPI_Finalize`: deletes the attributes of `MPI_COMM_SELF`, youngest first, while MPI still works
/// (MPI 5.0, 11.4), waits for all processes of the job, and ends the world model. Sessions go on.
pub fn finalize() -> Result<()> {
    let comms = world::running()?.comms;
    comms.myself.delete_attributes()?;
    execute::finalize(&comms.world)?;
    process::engine()?.final_fence()?;
    process::engine()?.set_initialized(false);
    leave()?;
    process::set_phase(Phase::Finalized);
    comm::forget_cached();
    Ok(())
}

/// `MPI_Query_thread`.
pub fn thread_level() -> Result<i32> {
    world::running().map(|world| world.thread_level)
}

/// `MPI_Is_thread_main`.
pub fn is_thread_main() -> Result<bool> {
    world::running().map(|world| world.main_thread == thread::current().id())
}
