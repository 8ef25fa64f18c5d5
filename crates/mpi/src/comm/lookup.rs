//! From a handle to its communicator.
//!
//! [`with`] caches the last communicator of each thread ([`LastUsed`]); messages need only its
//! [`Route`].

use std::sync::Arc;

use super::object::Comm;
use super::route::Route;
use crate::constants as c;
use crate::error::{Error, Result};
use crate::handle::{HandleKind, HandleTable};
use crate::world;
use mica_objects::last_used::{Generation, LastUsed};

pub(super) static COMMS: HandleTable<Comm> = HandleTable::new(HandleKind::Comm);

static GENERATION: Generation = Generation::first();

thread_local! {
    static LAST: LastUsed<Comm> = const { LastUsed::none() };
}

/// Calls `f` with the communicator that `handle` names (`MPI_ERR_COMM` if it names none).
#[inline]
pub fn with<R>(handle: u32, f: impl FnOnce(&Comm) -> R) -> Result<R> {
    let resolve = || Comm::resolve(handle).inspect(Route::remember);
    LastUsed::with(&LAST, &GENERATION, handle, resolve, f)
}

/// Invalidates every thread's cached communicator.
pub(crate) fn forget_cached() {
    // These end with MPI_Finalize; communicators that are still in use get their routes again.
    Route::forget(c::COMM_WORLD);
    Route::forget(c::COMM_SELF);
    GENERATION.end();
}

impl Comm {
    /// The communicator that `handle` names (`MPI_ERR_COMM` if it names none).
    pub fn resolve(handle: u32) -> Result<Comm> {
        match handle {
            c::COMM_WORLD => world::world(),
            c::COMM_SELF => world::myself(),
            _ => COMMS.get(handle).ok_or_else(|| no_comm(handle)),
        }
    }

    /// The communicator that messages with this context belong to, if the program has a handle of
    /// it. A search, only for messages to the user.
    #[cold]
    pub(crate) fn of_context(context: u64) -> Option<Comm> {
        let is_it = |comm: &Comm| comm.context() == context & !1;
        let predefined = [world::world(), world::myself()];
        let mut predefined = predefined.into_iter().flatten();
        predefined.find(is_it).or_else(|| COMMS.find(is_it))
    }

    /// Calls `f` with each communicator that has a handle, the predefined ones excepted.
    pub(crate) fn for_each(f: impl Fn(&Comm)) {
        COMMS.find(|comm| {
            f(comm);
            false
        });
    }

    /// Whether its handle still names it.
    pub(crate) fn is_current(&self) -> bool {
        COMMS.get(self.handle()).is_some_and(|comm| Arc::ptr_eq(&comm.0, &self.0))
    }

    /// Frees the handle.
    pub(crate) fn discard(&self) {
        Route::forget(self.handle());
        COMMS.remove(self.handle());
        forget_cached();
    }
}

#[cold]
fn no_comm(handle: u32) -> Error {
    let (value, reason) = match handle {
        c::COMM_NULL => ("MPI_COMM_NULL".to_owned(), "a communicator is needed"),
        _ if HandleKind::Comm.owns(handle) => {
            (format!("{handle:#x}"), "this communicator has been freed")
        }
        _ => (format!("{handle:#x}"), "this is not the handle of a communicator"),
    };
    Error::argument(c::ERR_COMM, "comm", value, reason)
}
