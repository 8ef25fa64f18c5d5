//! From a handle to its communicator.
//!
//! Every message takes this path: [`with`] caches the last communicator of each thread and takes
//! neither a lock nor a reference.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};

use super::object::Comm;
use super::route::Route;
use crate::constants as c;
use crate::error::{Error, Result};
use crate::handle::{HandleKind, HandleTable};
use crate::world;

pub(super) static COMMS: HandleTable<Comm> = HandleTable::new(HandleKind::Comm);

/// Changes whenever a handle stops being valid; [`with`]'s caches hold for one generation.
static GENERATION: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static LAST: RefCell<Option<(u64, Comm)>> = const { RefCell::new(None) };
}

/// Calls `f` with the communicator that `handle` names (`MPI_ERR_COMM` if it names none).
#[inline]
pub fn with<R>(handle: u32, f: impl FnOnce(&Comm) -> R) -> Result<R> {
    let mut f = Some(f);
    let cached = LAST.try_with(|last| {
        let last = last.try_borrow().ok()?;
        let (generation, comm) = last.as_ref()?;
        // Acquire: pairs with the increment in `forget_cached`; a thread that knows of the free
        // sees the increment.
        if comm.0.handle != handle || *generation != GENERATION.load(Ordering::Acquire) {
            return None;
        }
        f.take().map(|f| f(comm))
    });
    match cached {
        Ok(Some(result)) => Ok(result),
        _ => {
            let comm = resolve_and_cache(handle)?;
            let f = f.take().expect("the cache missed, so `f` was not called");
            Ok(f(&comm))
        }
    }
}

#[cold]
fn resolve_and_cache(handle: u32) -> Result<Comm> {
    // Read before the look-up: after a free between the two, the cache is out of date at once.
    // Acquire: keeps the look-up behind it, and pairs with the increment in `forget_cached`.
    let generation = GENERATION.load(Ordering::Acquire);
    let comm = Comm::resolve(handle)?;
    Route::remember(&comm);
    // The cache is in use when a callback inside `with` calls MPI, and gone while the thread ends:
    // neither needs it.
    let _ = LAST.try_with(|last| {
        if let Ok(mut last) = last.try_borrow_mut() {
            *last = Some((generation, comm.clone()));
        }
    });
    Ok(comm)
}

/// Invalidates every thread's cached communicator.
pub(crate) fn forget_cached() {
    // These end with MPI_Finalize; communicators that are still in use get their routes again.
    Route::forget(c::COMM_WORLD);
    Route::forget(c::COMM_SELF);
    // Release: pairs with the load in `with`; publishes the removal that came before.
    GENERATION.fetch_add(1, Ordering::Release);
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
