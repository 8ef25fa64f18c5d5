//! Error handlers (MPI 5.0, 9.3). `mica_mpi::raise` calls them.

use std::fmt;
use std::sync::{Arc, Mutex};

use mica_node::tunables::ERRHANDLER;

use crate::constants as c;
use crate::error::{Error, Result};
use crate::handle::{HandleKind, HandleTable};
use crate::sync::lock;

/// The kind of object that a user's error handler is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandlerFamily {
    /// Communicators.
    Comm,
    /// Windows.
    Win,
    /// Files.
    File,
    /// Sessions.
    Session,
}

/// The user's function: (object's handle, error code).
pub type Callback = Arc<dyn Fn(u32, i32) + Send + Sync>;

/// An error handler.
#[derive(Clone)]
pub struct Errhandler(pub HandlerAction);

/// What a handler does.
#[derive(Clone)]
pub enum HandlerAction {
    /// `MPI_ERRORS_ARE_FATAL`: ends the job.
    AreFatal,
    /// `MPI_ERRORS_ABORT`: ends the processes of the object.
    Abort,
    /// `MPI_ERRORS_RETURN`.
    Return,
    /// Calls the program.
    User(Arc<UserHandler>),
}

/// A handler that the program has made.
pub struct UserHandler {
    /// What it is for.
    pub family: HandlerFamily,
    /// The program's function.
    pub callback: Callback,
    reference: Mutex<Reference>,
}

/// The user's references to a handler: its handle, and how often that was returned and not freed.
/// Objects that use the handler keep it alive beyond that, and can return a handle again.
#[derive(Default)]
struct Reference {
    handle: u32,
    count: usize,
}

static ERRHANDLERS: HandleTable<Arc<UserHandler>> = HandleTable::new(HandleKind::Errhandler);

impl Errhandler {
    /// `MPI_ERRORS_ARE_FATAL`.
    pub const ARE_FATAL: Errhandler = Errhandler(HandlerAction::AreFatal);
    /// `MPI_ERRORS_ABORT`.
    pub const ABORT: Errhandler = Errhandler(HandlerAction::Abort);
    /// `MPI_ERRORS_RETURN`.
    pub const RETURN: Errhandler = Errhandler(HandlerAction::Return);

    /// The initial handler: the one that the launcher was given for the program (MPI 5.0, 11.8.4).
    #[cold]
    pub fn initial() -> Errhandler {
        match ERRHANDLER.choice() {
            Ok("return") => Errhandler::RETURN,
            Ok("abort") => Errhandler::ABORT,
            // MPI_Init refuses a value that is none of the three.
            _ => Errhandler::ARE_FATAL,
        }
    }

    /// Whether it ends the program, whatever the error.
    pub fn is_fatal(&self) -> bool {
        matches!(self.0, HandlerAction::AreFatal | HandlerAction::Abort)
    }

    /// A new handler that calls `callback`.
    pub fn user(family: HandlerFamily, callback: Callback) -> Errhandler {
        Errhandler(HandlerAction::User(Arc::new(UserHandler {
            family,
            callback,
            reference: Mutex::default(),
        })))
    }

    /// The handler that `handle` names (`MPI_ERR_ERRHANDLER` if it names none).
    pub fn resolve(handle: u32) -> Result<Errhandler> {
        Ok(match handle {
            c::ERRORS_ARE_FATAL => Errhandler::ARE_FATAL,
            c::ERRORS_ABORT => Errhandler::ABORT,
            c::ERRORS_RETURN => Errhandler::RETURN,
            _ => {
                let user = ERRHANDLERS.get(handle).ok_or_else(|| no_errhandler(handle))?;
                Errhandler(HandlerAction::User(user))
            }
        })
    }

    /// A handle that the user owns: every handle returned is freed once.
    ///
    /// # Errors
    /// `MPI_ERR_NO_MEM` when no handle is left.
    pub fn give_handle(&self) -> Result<u32> {
        Ok(match &self.0 {
            HandlerAction::AreFatal => c::ERRORS_ARE_FATAL,
            HandlerAction::Abort => c::ERRORS_ABORT,
            HandlerAction::Return => c::ERRORS_RETURN,
            HandlerAction::User(user) => {
                let mut reference = lock(&user.reference);
                if reference.count == 0 {
                    reference.handle = ERRHANDLERS.insert(Arc::clone(user))?;
                }
                reference.count += 1;
                reference.handle
            }
        })
    }

    /// `MPI_Errhandler_free`. Predefined handlers are accepted and stay valid, because objects
    /// return them.
    pub fn free(handle: u32) -> Result<()> {
        if let HandlerAction::User(user) = Errhandler::resolve(handle)?.0 {
            let mut reference = lock(&user.reference);
            if reference.count == 0 || reference.handle != handle {
                return Err(no_errhandler(handle)); // another thread was faster
            }
            reference.count -= 1;
            if reference.count == 0 {
                ERRHANDLERS.remove(handle);
            }
        }
        Ok(())
    }

    /// Refuses a user's handler that is made for another kind of object.
    pub fn check_family(&self, family: HandlerFamily) -> Result<()> {
        match &self.0 {
            HandlerAction::User(user) if user.family != family => {
                let reason = format!("it is for {}, not for {family}", user.family);
                Err(Error::argument(c::ERR_ARG, "errhandler", self, reason))
            }
            _ => Ok(()),
        }
    }
}

#[cold]
fn no_errhandler(handle: u32) -> Error {
    let (value, reason) = match handle {
        c::ERRHANDLER_NULL => ("MPI_ERRHANDLER_NULL".to_owned(), "an error handler is needed"),
        _ if HandleKind::Errhandler.owns(handle) => {
            (format!("{handle:#x}"), "this error handler has been freed")
        }
        _ => (format!("{handle:#x}"), "this is not the handle of an error handler"),
    };
    Error::argument(c::ERR_ERRHANDLER, "errhandler", value, reason)
}

/// The handler that files get when they are opened: the one of `MPI_FILE_NULL` (MPI 5.0, 14.7).
static FILE_DEFAULT: Mutex<Errhandler> = Mutex::new(Errhandler::RETURN);

/// The handler that files get when they are opened.
pub fn default_of_files() -> Errhandler {
    lock(&FILE_DEFAULT).clone()
}

/// Sets it; returns the one before.
pub fn set_default_of_files(errhandler: Errhandler) -> Errhandler {
    std::mem::replace(&mut *lock(&FILE_DEFAULT), errhandler)
}

impl fmt::Display for HandlerFamily {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            HandlerFamily::Comm => "communicators",
            HandlerFamily::Win => "windows",
            HandlerFamily::File => "files",
            HandlerFamily::Session => "sessions",
        })
    }
}

impl fmt::Display for Errhandler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            HandlerAction::AreFatal => f.write_str("MPI_ERRORS_ARE_FATAL"),
            HandlerAction::Abort => f.write_str("MPI_ERRORS_ABORT"),
            HandlerAction::Return => f.write_str("MPI_ERRORS_RETURN"),
            HandlerAction::User(user) => write!(f, "error handler for {}", user.family),
        }
    }
}

impl fmt::Debug for Errhandler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
