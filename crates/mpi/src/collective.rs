//! Collective calls of a communicator (MPI 5.0, chapter 6): [`mica_collective`] makes and carries
//! out the plan of this rank's part; here are the request that the program gets, and what becomes
//! of a call that is refused.

pub use mica_collective::*;

use crate::comm::Comm;
use crate::error::Result;
use crate::request::Request;

/// The error of a plan of a call that is refused, where the program ends by it. (Elsewhere this
/// rank takes part in the call first, since the others count on it.)
fn fatal_error(comm: &Comm, plan: &CollectivePlan) -> Result<()> {
    match plan {
        CollectivePlan::Refused(refused) if comm.errhandler().is_fatal() => {
            Err(refused.error.clone())
        }
        _ => Ok(()),
    }
}

/// Runs this rank's part of a collective. Blocks until its buffers are free and its results are
/// available.
///
/// # Errors
/// As [`execute::run`].
pub fn run(comm: &Comm, plan: &CollectivePlan) -> Result<()> {
    fatal_error(comm, plan)?;
    execute::run(comm, plan)
}

/// Starts this rank's part of a collective, called by the function that `label` names.
///
/// # Errors
/// As [`execute::start`].
pub fn start(comm: &Comm, plan: CollectivePlan, label: CallLabel) -> Result<Request> {
    fatal_error(comm, &plan)?;
    Ok(Request::schedule(comm, execute::start(comm, plan, label)?, label))
}

/// A request that runs the plan each time it is started.
///
/// # Errors
/// When there is no memory for it.
pub fn persistent(comm: &Comm, plan: CollectivePlan, label: CallLabel) -> Result<Request> {
    let prepared = execute::PersistentCollective::new(comm, plan, label)?;
    let of = comm.clone();
    Ok(Request::persistent(comm, move || Ok(Request::schedule(&of, prepared.begin(&of)?, label))))
}
