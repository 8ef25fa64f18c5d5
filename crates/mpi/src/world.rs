//! The predefined communicators, and the world model that they belong to (MPI 5.0, 11.2).
//!
//! [`crate::init`] sets the world model once, when it starts; [`crate::comm`] finds the predefined
//! communicators here by their handles.

use std::sync::OnceLock;
use std::thread::ThreadId;

use mica_protocol::Engine;

use crate::comm::Comm;
use crate::constants as c;
use crate::error::Result;
use crate::group::Group;
use crate::lenient;
use crate::process::{self, Phase};
use mica_collective::members::context::{SELF_ID, WORLD_ID, context, first_id};

/// The state of the world model, from `MPI_Init` to the end of the process.
pub(crate) struct WorldModel {
    pub comms: &'static PredefinedComms,
    pub main_thread: ThreadId,
    pub thread_level: i32,
}

/// The predefined communicators. They belong to the world model; a program that only opens sessions
/// may use them as well ([`lenient`]).
pub(crate) struct PredefinedComms {
    pub world: Comm,
    pub myself: Comm,
}

static WORLD: OnceLock<WorldModel> = OnceLock::new();
static PREDEFINED: OnceLock<PredefinedComms> = OnceLock::new();

pub(crate) fn running() -> Result<&'static WorldModel> {
    match (process::phase(), WORLD.get()) {
        (Phase::Running, Some(world)) => Ok(world),
        (phase, _) => Err(process::not_running(phase)),
    }
}

/// The predefined communicators, made by the first caller.
pub(crate) fn predefined(engine: &Engine) -> &'static PredefinedComms {
    PREDEFINED.get_or_init(|| {
        let (rank, size) = (engine.rank(), engine.size());
        let make =
            |handle, name, context, group| Comm::predefined(handle, name, context, group, rank);
        let (first, from) = (engine.world().first, first_id(engine));
        let (everyone, myself) = (Group::run(first, size), Group::run(rank, 1));
        let world_context = context(first, from + WORLD_ID);
        let self_context = context(rank, from + SELF_ID);
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
    let engine = process::engine().ok().filter(|_| process::phase() == Phase::Before)?;
    lenient::WORLD_OF_SESSIONS.note();
    Some(predefined(engine))
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

/// Starts the world model; called once.
pub(crate) fn begin(world: WorldModel) {
    let is_first = WORLD.set(world).is_ok();
    assert!(is_first, "the phase lets one thread start the world model, once");
}
