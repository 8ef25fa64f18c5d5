//! Files (MPI 5.0, chapter 14): [`mica_files`] opens and accesses them; here are the requests that
//! the program gets for accesses under way.

pub use mica_files::*;

use std::path::Path;
use std::sync::Arc;

use mica_protocol::EngineState;

use crate::comm::Comm;
use crate::error::{Error, Result};
use crate::info::Info;
use crate::request::{OnCompletion, Request, RequestOperation};
use crate::status::Status;

/// Opens a file for the ranks of `comm`. Blocks until all of them have called it.
///
/// # Errors
/// `MPI_ERR_COMM` for an inter-communicator; else as [`File::open`].
pub fn open(comm: &Comm, name: &Path, amode: i32, hints: &Info) -> Result<File> {
    comm.must_be_intra()?;
    File::open(comm, name, amode, hints)
}

/// The status of an access that has transferred `bytes` bytes.
pub fn status_of(bytes: u64) -> Status {
    Status { bytes, ..Status::EMPTY }
}

/// Starts an access; returns the handle of a request.
///
/// # Errors
/// As [`File::start`].
pub fn start(
    file: &File,
    kind: (AccessDirection, AccessPosition, Coordination),
    elements: Result<FileElements>,
    call: &'static str,
) -> Result<u32> {
    let operation: Arc<FileOperation> = file.start(kind, elements, call)?;
    Request::custom(None, operation).register()
}

impl RequestOperation for FileOperation {
    fn name(&self) -> &'static str {
        self.label()
    }

    fn context(&self) -> Option<u64> {
        Some(FileOperation::context(self))
    }

    fn poll(&self, _state: &mut EngineState) -> Option<(Status, Option<Error>)> {
        self.is_complete().then_some((Status::EMPTY, None))
    }

    fn complete(&self, status: Status, _then: OnCompletion) -> (Status, Option<Error>) {
        match self.conclude() {
            Ok(bytes) => (status_of(bytes), None),
            Err(error) => (status, Some(error)),
        }
    }

    fn bearer(&self) -> u32 {
        self.file()
    }
}
