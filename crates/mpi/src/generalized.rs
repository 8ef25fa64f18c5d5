//! Generalized requests: operations that the program defines and completes itself (MPI 5.0, 13.2).

use std::fmt;
use std::sync::{Arc, Mutex};

use mica_protocol::EngineState;

use crate::constants as c;
use crate::error::{Error, Result};
use crate::process;
use crate::request::{self, OnCompletion, Request, RequestOperation};
use crate::status::Status;
use crate::sync::lock;

/// The program's functions; each returns an error code. None is called while the library holds a
/// lock.
pub struct GeneralizedCallbacks {
    /// Fills in the status of the complete operation.
    pub query: Box<dyn Fn() -> (Status, i32) + Send + Sync>,
    /// Frees what belongs to the operation; called once, last.
    pub free: Box<dyn Fn() -> i32 + Send + Sync>,
    /// Called when the program cancels the operation; the argument is whether it is complete.
    pub cancel: Box<dyn Fn(bool) -> i32 + Send + Sync>,
}

struct Generalized {
    callbacks: GeneralizedCallbacks,
    phase: Mutex<GeneralizedPhase>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum GeneralizedPhase {
    UnderWay,
    Complete,
    /// Freed before it was complete: its handle lives until it is.
    Abandoned,
    /// The program's free function was, or is being, called.
    Freed,
}

impl fmt::Debug for Generalized {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Generalized").field("phase", &self.phase).finish_non_exhaustive()
    }
}

fn check(code: i32) -> Result<()> {
    match code {
        c::SUCCESS => Ok(()),
        code => Err(Error::Callback { code }),
    }
}

impl Generalized {
    fn is_complete(&self) -> bool {
        matches!(*lock(&self.phase), GeneralizedPhase::Complete | GeneralizedPhase::Freed)
    }

    /// Calls the program's free function, unless another call has: it is called once.
    fn free(&self) -> i32 {
        let before = std::mem::replace(&mut *lock(&self.phase), GeneralizedPhase::Freed);
        match before {
            GeneralizedPhase::Freed => c::ERR_REQUEST,
            _ => (self.callbacks.free)(),
        }
    }
}

impl RequestOperation for Generalized {
    fn name(&self) -> &'static str {
        "a generalized request"
    }

    fn poll(&self, _state: &mut EngineState) -> Option<(Status, Option<Error>)> {
        self.is_complete().then_some((Status::EMPTY, None))
    }

    fn complete(&self, _status: Status, then: OnCompletion) -> (Status, Option<Error>) {
        let (status, mut code) = (self.callbacks.query)();
        if then == OnCompletion::Take {
            // If both functions fail, the error of the one called last is returned (MPI 5.0, 13.2).
            code = match self.free() {
                c::SUCCESS => code,
                last => last,
            };
        }
        (status, check(code).err())
    }

    fn cancel(&self) -> Result<()> {
        check((self.callbacks.cancel)(self.is_complete()))
    }

    fn abandon(&self) -> Result<bool> {
        {
            let mut phase = lock(&self.phase);
            if matches!(*phase, GeneralizedPhase::UnderWay | GeneralizedPhase::Abandoned) {
                *phase = GeneralizedPhase::Abandoned;
                return Ok(false);
            }
        }
        check(self.free())?;
        Ok(true)
    }
}

/// `MPI_Grequest_start`.
///
/// # Errors
/// When MPI is not initialized.
pub fn start(callbacks: GeneralizedCallbacks) -> Result<Request> {
    process::engine()?;
    let operation = Generalized { callbacks, phase: Mutex::new(GeneralizedPhase::UnderWay) };
    Ok(Request::custom(None, Arc::new(operation)))
}

/// `MPI_Grequest_complete`: the program reports that the operation is complete.
///
/// # Errors
/// `MPI_ERR_REQUEST` when the request is not a generalized one that is under way; what the
/// program's free function returns, if the request was freed before.
pub fn complete(handle: u32) -> Result<()> {
    let refused =
        |reason: &str| Error::argument(c::ERR_REQUEST, "request", format!("{handle:#x}"), reason);
    let operation = request::operation::<Generalized>(handle)?
        .ok_or_else(|| refused("this is not a generalized request"))?;
    let before = {
        let mut phase = lock(&operation.phase);
        let before = *phase;
        if before == GeneralizedPhase::UnderWay {
            *phase = GeneralizedPhase::Complete;
        }
        before
    };
    match before {
        GeneralizedPhase::Complete | GeneralizedPhase::Freed => {
            Err(refused("this generalized request is complete already"))
        }
        GeneralizedPhase::UnderWay => {
            // Another thread may wait for it.
            process::engine()?.enter(EngineState::note_completion);
            Ok(())
        }
        GeneralizedPhase::Abandoned => {
            request::forget(handle);
            check(operation.free())
        }
    }
}
