//! Sessions (MPI 5.0, 11.3): users of MPI that need no `MPI_Init` and are independent of each
//! other.
//!
//! A session names sets of processes, a set gives a group, and a group a communicator
//! (`Comm::create_from_group`). All sessions of a process share its engine ([`crate::process`]);
//! opening and closing one is local.

use std::sync::{Arc, Mutex};

use crate::buffered::{self, BufferOwner};
use crate::constants as c;
use crate::errhandler::{Errhandler, HandlerFamily};
use crate::error::{Error, Result};
use crate::group::Group;
use crate::handle::{HandleKind, HandleTable};
use crate::info::{Info, MEMORY_ALLOC_KINDS};
use crate::init::{self, THREAD_LEVELS};
use crate::process;
use crate::sync::lock;

/// A session. Cloning shares it.
#[derive(Clone)]
pub struct Session(Arc<SessionInner>);

struct SessionInner {
    handle: u32,
    thread_level: &'static str,
    errhandler: Mutex<Errhandler>,
}

static SESSIONS: HandleTable<Session> = HandleTable::new(HandleKind::Session);

/// Names of the process sets, in the order of [`ProcessSet`].
pub const PROCESS_SETS: [&str; 2] = ["mpi://WORLD", "mpi://SELF"];

/// A process set that every session knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProcessSet {
    /// Every process of the job.
    World,
    /// This process alone.
    Myself,
}

impl ProcessSet {
    /// The set of this name. Case is ignored, because programs write `mpi://world` as well.
    pub(crate) fn named(name: &str) -> Option<ProcessSet> {
        let sets = [ProcessSet::World, ProcessSet::Myself];
        let named = PROCESS_SETS.iter().zip(sets);
        let mut found = named.filter(|(known, _)| known.eq_ignore_ascii_case(name));
        found.next().map(|(_, set)| set)
    }
}

impl Session {
    /// `MPI_Session_init`. The only hint used is `thread_level`; without it, threads may call MPI
    /// concurrently.
    pub fn init(hints: &Info, errhandler: Errhandler) -> Result<Session> {
        errhandler.check_family(HandlerFamily::Session)?;
        let wanted = hints.lookup("thread_level");
        let known = |wanted: String| THREAD_LEVELS.iter().find(|&&(_, name)| name == wanted);
        let thread_level = wanted.and_then(known).map_or("MPI_THREAD_MULTIPLE", |&(_, name)| name);
        init::enter(None)?;
        let session = SESSIONS.insert_with(|handle| {
            Session(Arc::new(SessionInner {
                handle,
                thread_level,
                errhandler: Mutex::new(errhandler),
            }))
        });
        if session.is_err() {
            init::leave()?;
        }
        session
    }

    /// `MPI_Session_finalize`: the handle becomes invalid. The program must free objects made from
    /// the session first.
    pub fn finalize(handle: u32) -> Result<()> {
        SESSIONS.remove(handle).ok_or_else(|| no_session(handle))?;
        buffered::release(BufferOwner::Session(handle))?;
        init::leave()
    }

    /// The session that `handle` names (`MPI_ERR_SESSION` if it names none).
    pub fn resolve(handle: u32) -> Result<Session> {
        SESSIONS.get(handle).ok_or_else(|| no_session(handle))
    }

    /// The handle.
    pub fn handle(&self) -> u32 {
        self.0.handle
    }

    /// `MPI_Session_get_num_psets`: the names of the process sets. There are no hints for them.
    pub fn process_sets(&self, _hints: &Info) -> &'static [&'static str] {
        &PROCESS_SETS
    }

    /// `MPI_Session_get_nth_pset`: the name of process set number `n`.
    pub fn process_set(&self, n: i32) -> Result<&'static str> {
        let name = usize::try_from(n).ok().and_then(|n| PROCESS_SETS.get(n).copied());
        name.ok_or_else(|| {
            let reason = format!("the session knows {} process sets", PROCESS_SETS.len());
            Error::argument(c::ERR_ARG, "n", n, reason)
        })
    }

    /// `MPI_Group_from_session_pset`: the processes of a set.
    pub fn group(&self, name: &str) -> Result<Group> {
        let engine = process::engine()?;
        let group = match ProcessSet::named(name) {
            Some(ProcessSet::World) => Group::run(engine.world().first, engine.size()),
            Some(ProcessSet::Myself) => Group::run(engine.rank(), 1),
            None => {
                let reason = format!("the process sets are {}", PROCESS_SETS.join(" and "));
                let value = format!("{name:?}");
                return Err(Error::argument(c::ERR_ARG, "pset_name", value, reason));
            }
        };
        Ok(group.of_session(self.handle()))
    }

    /// `MPI_Session_get_pset_info`: the number of processes of a set.
    pub fn process_set_info(&self, name: &str) -> Result<Info> {
        let info = Info::default();
        info.put("mpi_size", &self.group(name)?.size().to_string());
        Ok(info)
    }

    /// `MPI_Session_get_info`: the hints in force, as a new object.
    pub fn info(&self) -> Info {
        let info = Info::default();
        info.put("thread_level", self.0.thread_level);
        let (key, kinds) = MEMORY_ALLOC_KINDS;
        info.put(key, kinds);
        info
    }

    /// The error handler attached.
    pub fn errhandler(&self) -> Errhandler {
        lock(&self.0.errhandler).clone()
    }

    /// `MPI_Session_set_errhandler`.
    pub fn set_errhandler(&self, errhandler: Errhandler) -> Result<()> {
        errhandler.check_family(HandlerFamily::Session)?;
        let old = std::mem::replace(&mut *lock(&self.0.errhandler), errhandler);
        drop(old); // after the lock: the last reference frees what the user's closure holds
        Ok(())
    }
}

#[cold]
fn no_session(handle: u32) -> Error {
    let (value, reason) = match handle {
        c::SESSION_NULL => ("MPI_SESSION_NULL".to_owned(), "a session is needed"),
        _ if HandleKind::Session.owns(handle) => {
            (format!("{handle:#x}"), "this session has been finalized")
        }
        _ => (format!("{handle:#x}"), "this is not the handle of a session"),
    };
    Error::argument(c::ERR_SESSION, "session", value, reason)
}
