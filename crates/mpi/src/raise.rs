//! The one place where errors of MPI calls are raised (MPI 5.0, 9.3).
//!
//! Every call that fails ends in [`raise`]: it finds the handler of the object that the call
//! concerns, and ends the job, calls the user's function, or does nothing; the code that it returns
//! is the call's return value. Codes are plain classes; the details of an error are kept per thread
//! and class, and `MPI_Error_string` returns them.

use std::cell::RefCell;
use std::fmt;
use std::io::Write;

use crate::comm::Comm;
use crate::constants as c;
use crate::errhandler::{self, Errhandler, HandlerAction, HandlerFamily};
use crate::error::{Error, Result};
use crate::error_codes;
use crate::file::File;
use crate::handle::HandleKind;
use crate::info;
use crate::process;
use crate::session::Session;
use crate::window::Window;
use crate::world;

/// The object on which an error is raised, by its handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorTarget {
    /// A communicator.
    Comm(u32),
    /// A window.
    Win(u32),
    /// A file.
    File(u32),
    /// A session.
    Session(u32),
    /// No object: `MPI_COMM_SELF` stands in, or `MPI_COMM_WORLD`.
    Default,
}

impl ErrorTarget {
    /// Files that are not open: where errors of opening and deleting are raised (MPI 5.0, 14.7).
    pub const NULL_FILE: ErrorTarget = ErrorTarget::File(c::FILE_NULL);
}

/// Raises `error`, which occurred in the call `call`, on `on`. Returns the code that the call
/// returns, unless the handler ends the job.
#[cold]
pub fn raise(call: &str, on: ErrorTarget, error: Error) -> i32 {
    let (handler, bearer) = handler_of(on);
    raise_by(&handler, bearer, call, on, error)
}

/// As [`raise`], with `handler` in place of the object's: for calls that take a handler for their
/// own errors.
#[cold]
pub fn raise_with(handler: &Errhandler, call: &str, on: ErrorTarget, error: Error) -> i32 {
    raise_by(handler, on, call, on, error)
}

/// `on` is where the error happened; the handler is called with `bearer`.
fn raise_by(
    handler: &Errhandler,
    bearer: ErrorTarget,
    call: &str,
    on: ErrorTarget,
    error: Error,
) -> i32 {
    let raised = Raised { call: call.to_owned(), on: on.to_string(), error };
    let code = raised.error.code();
    invoke(handler, bearer, code, &raised);
    remember(code, raised);
    code
}

/// `MPI_Comm_call_errhandler` and its variants: raises a code on an object on the user's behalf.
pub fn call(on: ErrorTarget, code: i32) -> Result<()> {
    error_codes::class_of(code)?;
    let error = Error::other(code, "raised by the program");
    let call = match on {
        ErrorTarget::Comm(_) | ErrorTarget::Default => "MPI_Comm_call_errhandler",
        ErrorTarget::Win(_) => "MPI_Win_call_errhandler",
        ErrorTarget::File(_) => "MPI_File_call_errhandler",
        ErrorTarget::Session(_) => "MPI_Session_call_errhandler",
    };
    let raised = Raised { call: call.to_owned(), on: on.to_string(), error };
    let (handler, bearer) = handler_of(on);
    invoke(&handler, bearer, code, &raised);
    Ok(())
}

/// The handler of `on`, and the object to call it with, which is `on` or the communicator that
/// stands in for it.
///
/// An error that belongs to no object with a handler is raised on `MPI_COMM_SELF` (MPI 5.0, 9.3).
/// Two cases follow MPICH, for programs that set a handler on `MPI_COMM_WORLD` alone and expect it
/// to see all errors, as it did before MPI 4.0: such an error goes to the world's handler if none
/// was set on `MPI_COMM_SELF`; and so does the error of a communicator that has no handler but the
/// initial one, because it was made before the world's was set. Before `MPI_Init` there is only the
/// initial handler, which is fatal unless the launcher was told otherwise.
fn handler_of(on: ErrorTarget) -> (Errhandler, ErrorTarget) {
    let own = match on {
        ErrorTarget::Comm(handle) => match Comm::resolve(handle) {
            Ok(comm) => {
                let world = || stand_in(c::COMM_WORLD);
                let own = comm.set_handler().map(|handler| (handler, on));
                return own.or_else(world).unwrap_or_else(|| (Errhandler::initial(), on));
            }
            Err(_) => None,
        },
        ErrorTarget::File(handle) => {
            Some(File::errhandler_of(handle).unwrap_or_else(|_| errhandler::default_of_files()))
        }
        ErrorTarget::Session(handle) => {
            Session::resolve(handle).ok().map(|session| session.errhandler())
        }
        ErrorTarget::Win(handle) => Window::resolve(handle).ok().map(|window| window.errhandler()),
        ErrorTarget::Default => None,
    };
    let own = own.map(|handler| (handler, on));
    own.or_else(|| stand_in(c::COMM_SELF))
        .or_else(|| stand_in(c::COMM_WORLD))
        .unwrap_or_else(|| (Errhandler::initial(), on))
}

/// The handler that was set on one of the predefined communicators, if there is one.
fn stand_in(handle: u32) -> Option<(Errhandler, ErrorTarget)> {
    let bearers = world::handler_bearers()?;
    let comm = bearers.into_iter().find(|comm| comm.handle() == handle)?;
    Some((comm.set_handler()?, ErrorTarget::Comm(handle)))
}

fn invoke(handler: &Errhandler, on: ErrorTarget, code: i32, raised: &Raised) {
    match &handler.0 {
        HandlerAction::Return => {}
        HandlerAction::AreFatal | HandlerAction::Abort => die(code, raised),
        HandlerAction::User(user) => {
            // An error without an object of the handler's kind is raised on MPI_COMM_SELF.
            let object = match (user.family, on) {
                (HandlerFamily::Comm, ErrorTarget::Comm(handle))
                    if Comm::resolve(handle).is_ok() =>
                {
                    handle
                }
                (HandlerFamily::Comm, _) if process::world_runs() => c::COMM_SELF,
                (HandlerFamily::Comm, _) => c::COMM_NULL, // there are only sessions
                (
                    _,
                    ErrorTarget::Win(handle)
                    | ErrorTarget::File(handle)
                    | ErrorTarget::Session(handle),
                ) => handle,
                (_, ErrorTarget::Comm(_) | ErrorTarget::Default) => return,
            };
            (user.callback)(object, code);
        }
    }
}

/// Reports the error to the user, in one write so that ranks' messages do not mix, and ends the
/// job.
fn die(code: i32, raised: &Raised) -> ! {
    let who = format!("{} on {}", process::in_words(), info::node_name());
    let message = fatal_text(&who, code, raised);
    // If the write fails, the exit status still reports the error.
    let _ = std::io::stderr().write_all(message.as_bytes());
    process::abort(code)
}

/// The message about a fatal error: the call, what happened, and last the class, which says least.
fn fatal_text(who: &str, code: i32, raised: &Raised) -> String {
    let Raised { call, on, error } = raised;
    let class = class_of_raised(code);
    format!("mica: {who}: {call}{on} failed\nmica:   {error}\nmica:   ({class})\n")
}

/// An error as it was raised.
struct Raised {
    call: String,
    on: String,
    error: Error,
}

thread_local! {
    /// The last error of each code on this thread: a handful at most.
    static LAST: RefCell<Vec<(i32, Raised)>> = const { RefCell::new(Vec::new()) };
}

fn remember(code: i32, raised: Raised) {
    // A thread that is ending can no longer query its last errors.
    let _ = LAST.try_with(|last| {
        let mut last = last.borrow_mut();
        match last.iter_mut().find(|(known, _)| *known == code) {
            Some((_, old)) => *old = raised,
            None => last.push((code, raised)),
        }
    });
}

/// `MPI_Error_string`: what the code means, and the details of the last such error on this thread.
pub fn error_string(code: i32) -> Result<String> {
    error_codes::class_of(code)?;
    if let Some(text) = error_codes::user_text(code) {
        return Ok(text);
    }
    let mut text = class_text(code);
    let _ = LAST.try_with(|last| {
        if let Some((_, raised)) = last.borrow().iter().find(|(known, _)| *known == code) {
            text = class_of_raised(code);
            text += &format!(" (last raised by {}{}: {})", raised.call, raised.on, raised.error);
        }
    });
    text.truncate(text.floor_char_boundary(c::MAX_ERROR_STRING - 1));
    Ok(text)
}

/// The class beside an error's own text.
fn class_of_raised(code: i32) -> String {
    match error_codes::describe(code) {
        // "Other error" would say nothing more.
        Some((name, _)) if code == c::ERR_OTHER => name.to_owned(),
        _ => class_text(code),
    }
}

fn class_text(code: i32) -> String {
    match (error_codes::describe(code), error_codes::user_text(code)) {
        (Some((name, text)), _) => format!("{name}: {text}"),
        (None, Some(text)) if !text.is_empty() => format!("error code {code}: {text}"),
        (None, _) => format!("error code {code}"),
    }
}

/// As it follows the call's name: " on MPI_COMM_WORLD", or nothing.
impl fmt::Display for ErrorTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            ErrorTarget::Comm(handle) => match Comm::resolve(handle) {
                Ok(comm) => write!(f, " on {comm}"),
                Err(_) => Ok(()),
            },
            ErrorTarget::Win(handle) => match Window::resolve(handle) {
                Ok(window) => write!(f, " on {window}"),
                Err(_) => Ok(()),
            },
            ErrorTarget::File(handle) => match File::resolve(handle) {
                Ok(file) => write!(f, " on {file}"),
                Err(_) => Ok(()),
            },
            ErrorTarget::Session(handle) if HandleKind::Session.owns(handle) => {
                write!(f, " on session {handle:#x}")
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    /// What a handler was called with.
    type Calls = Arc<Mutex<Vec<(u32, i32)>>>;

    fn recorder() -> (Errhandler, Calls) {
        let calls = Calls::default();
        let log = Arc::clone(&calls);
        let record = move |object, code| log.lock().unwrap().push((object, code));
        (Errhandler::user(HandlerFamily::File, Arc::new(record)), calls)
    }

    // Files are the only objects with an error handler that needs no job, and they share one: so
    // this is one test.
    #[test]
    fn errors_reach_the_handler_and_their_text_comes_back() {
        let null = ErrorTarget::File(c::FILE_NULL);
        let error = || Error::argument(c::ERR_AMODE, "amode", 3, "no such mode");
        assert_eq!(raise("MPI_File_open", null, error()), c::ERR_AMODE);
        let text = error_string(c::ERR_AMODE).unwrap();
        assert!(text.starts_with("MPI_ERR_AMODE: "), "{text}");
        assert!(text.contains("(last raised by MPI_File_open: amode = 3: no such mode)"), "{text}");
        let elsewhere = std::thread::spawn(|| error_string(c::ERR_AMODE).unwrap());
        assert!(!elsewhere.join().unwrap().contains("last raised"));

        let (handler, calls) = recorder();
        File::set_errhandler_of(c::FILE_NULL, handler).unwrap();
        assert_eq!(raise("MPI_File_open", null, error()), c::ERR_AMODE);
        call(null, c::ERR_OTHER).unwrap();
        assert_eq!(call(null, -5).unwrap_err().code(), c::ERR_ARG);
        let expected = [(c::FILE_NULL, c::ERR_AMODE), (c::FILE_NULL, c::ERR_OTHER)];
        assert_eq!(*calls.lock().unwrap(), expected);

        let wrong = Errhandler::user(HandlerFamily::Win, Arc::new(|_, _| ()));
        assert_eq!(File::set_errhandler_of(c::FILE_NULL, wrong).unwrap_err().code(), c::ERR_ARG);
        File::set_errhandler_of(c::FILE_NULL, Errhandler::RETURN).unwrap();
        assert_eq!(Arc::strong_count(&calls), 1, "the replaced handler is gone");
    }

    #[test]
    fn a_fatal_error_says_what_happened_before_its_class() {
        let raised =
            |error: Error| Raised { call: "MPI_Init".to_owned(), on: String::new(), error };
        let lost = raised(Error::other(c::ERR_OTHER, "descriptor 5 is closed"));
        assert_eq!(
            fatal_text("process 7 on h", c::ERR_OTHER, &lost),
            "mica: process 7 on h: MPI_Init failed\nmica:   descriptor 5 is closed\n\
             mica:   (MPI_ERR_OTHER)\n"
        );
        let tag = raised(Error::argument(c::ERR_TAG, "tag", -3, "tags are not negative"));
        let text = fatal_text("rank 0 of 2 on h", c::ERR_TAG, &tag);
        assert!(text.ends_with("negative\nmica:   (MPI_ERR_TAG: invalid tag)\n"), "{text}");
        let code = raise("MPI_Init", ErrorTarget::File(c::FILE_NULL), lost.error);
        let text = error_string(code).unwrap();
        assert_eq!(text, "MPI_ERR_OTHER (last raised by MPI_Init: descriptor 5 is closed)");
    }

    #[test]
    fn every_handle_given_out_is_freed_once() {
        let (handler, _) = recorder();
        let first = handler.give_handle().unwrap();
        assert_eq!(handler.give_handle().unwrap(), first);
        Errhandler::free(first).unwrap();
        assert!(Errhandler::resolve(first).is_ok());
        Errhandler::free(first).unwrap();
        assert_eq!(Errhandler::resolve(first).unwrap_err().code(), c::ERR_ERRHANDLER);
        assert_eq!(Errhandler::free(first).unwrap_err().code(), c::ERR_ERRHANDLER);
        let again = handler.give_handle().unwrap();
        assert!(Errhandler::resolve(again).is_ok());
        Errhandler::free(again).unwrap();
        for predefined in [c::ERRORS_ARE_FATAL, c::ERRORS_ABORT, c::ERRORS_RETURN] {
            Errhandler::free(predefined).unwrap();
            assert_eq!(Errhandler::resolve(predefined).unwrap().give_handle().unwrap(), predefined);
        }
        assert!(Errhandler::resolve(c::ERRHANDLER_NULL).is_err());
    }

    #[test]
    fn texts_fit_the_caller_s_buffer() {
        let long = Error::other(c::ERR_IO, "ü".repeat(600));
        assert_eq!(raise("MPI_File_read", ErrorTarget::File(c::FILE_NULL), long), c::ERR_IO);
        let text = error_string(c::ERR_IO).unwrap();
        assert!(text.len() < c::MAX_ERROR_STRING && text.len() > c::MAX_ERROR_STRING - 4);
    }
}
