//! Services: ports that are found by a name (MPI 5.0, 11.9.4). The names are the job's, and those
//! of its spawned processes; another job has its own.

use mica_protocol::ServiceError;

use crate::constants as c;
use crate::error::{Error, Result};
use crate::process;

/// `MPI_Publish_name`.
pub fn publish_name(service: &str, port: &str) -> Result<()> {
    process::engine()?.publish_service(service, port).map_err(|error| match error {
        ServiceError::Taken | ServiceError::TooLong => {
            let value = format!("{service:?}");
            Error::argument(c::ERR_SERVICE, "service_name", value, error.to_string())
        }
        ServiceError::Full => Error::other(c::ERR_OTHER, error.to_string()),
        ServiceError::Segment(error) => error.into(),
    })
}

/// `MPI_Unpublish_name`.
pub fn unpublish_name(service: &str, port: &str) -> Result<()> {
    if process::engine()?.unpublish_service(service, port) {
        return Ok(());
    }
    let reason = "this process has not published it with this port";
    Err(Error::argument(c::ERR_SERVICE, "service_name", format!("{service:?}"), reason))
}

/// `MPI_Lookup_name`: the name of the service's port.
pub fn lookup_name(service: &str) -> Result<String> {
    process::engine()?.service(service).ok_or_else(|| {
        let reason = "no process of the job has published it";
        Error::argument(c::ERR_NAME, "service_name", format!("{service:?}"), reason)
    })
}
