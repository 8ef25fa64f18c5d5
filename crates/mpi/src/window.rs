//! Windows of a communicator (MPI 5.0, chapter 12): [`mica_rma`] makes them and carries out their
//! operations; here are the requests that the program gets for operations under way.

pub use mica_rma::*;

use std::sync::Arc;

use mica_memory::View;
use mica_protocol::EngineState;

use crate::comm::Comm;
use crate::constants as c;
use crate::error::{Error, Result};
use crate::info::Info;
use crate::request::{Request, RequestOperation};
use crate::status::Status;

/// Makes a window of the ranks of `comm`. Blocks until all of them have called it.
///
/// # Errors
/// `MPI_ERR_COMM` for an inter-communicator; else as [`Window::create`].
pub fn create(comm: &Comm, spec: &WindowSpec, hints: &Info) -> Result<Window> {
    comm.must_be_intra()?;
    Window::create(comm, spec, hints)
}

/// `MPI_Rput`: the handle of a request; when it is complete, the origin's buffer may be reused.
///
/// # Errors
/// As [`mica_rma::rput`].
pub fn rput(win: u32, origin: &View, to: &TargetRange) -> Result<u32> {
    request_of(mica_rma::rput(win, origin, to)?)
}

/// `MPI_Rget`: the handle of a request.
///
/// # Errors
/// As [`mica_rma::rget`].
pub fn rget(win: u32, origin: &View, from: &TargetRange) -> Result<u32> {
    request_of(mica_rma::rget(win, origin, from)?)
}

/// How an accumulate tells that it is complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccumulateCompletion {
    /// By returning.
    OnReturn,
    /// By a request.
    ByRequest,
}

/// `MPI_Accumulate` and `MPI_Raccumulate`: the handle of a request, if it was asked for. Blocks
/// until the target may be accessed.
///
/// # Errors
/// As [`mica_rma::accumulate`].
#[inline]
pub fn accumulate(
    win: u32,
    operands: &AccumulateOperands<'_>,
    to: &TargetRange,
    completion: AccumulateCompletion,
) -> Result<u32> {
    match completion {
        AccumulateCompletion::OnReturn => {
            mica_rma::accumulate(win, operands, to, NeededEpoch::Any)?;
            Ok(c::REQUEST_NULL)
        }
        AccumulateCompletion::ByRequest => {
            request_of(mica_rma::accumulate(win, operands, to, NeededEpoch::Passive)?)
        }
    }
}

/// The handle of a request for an operation under way; `None`: it is complete.
fn request_of(operation: Option<Arc<RemoteOperation>>) -> Result<u32> {
    match operation {
        None => Request::SENT.register(),
        Some(operation) => Request::custom(None, operation).register(),
    }
}

impl RequestOperation for RemoteOperation {
    fn name(&self) -> &'static str {
        "a one-sided operation"
    }

    fn poll(&self, state: &mut EngineState) -> Option<(Status, Option<Error>)> {
        self.advance(state).then(|| (Status::EMPTY, self.error()))
    }
}
