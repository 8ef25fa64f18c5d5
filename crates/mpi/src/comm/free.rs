//! The end of a communicator.

use super::object::Comm;
use crate::buffered;
use crate::constants as c;
use crate::dynamic::connections;
use crate::error::{Error, Result};
use crate::process;
use mica_collective::exchange::barrier;
use mica_protocol::Injection;

impl Comm {
    /// `MPI_Comm_free`: deletes the attributes and the handle; the communicator lives until its
    /// operations are complete.
    pub fn free(handle: u32) -> Result<()> {
        let comm = Comm::resolve(handle)?;
        if matches!(handle, c::COMM_WORLD | c::COMM_SELF) {
            let reason = "a predefined communicator cannot be freed";
            return Err(Error::argument(c::ERR_COMM, "comm", &comm, reason));
        }
        comm.delete_attributes()?;
        buffered::release(buffered::BufferOwner::comm(&comm))?;
        process::engine()?.hint_receives(comm.context(), Injection::Unspecified);
        comm.discard();
        connections::announce(process::engine()?);
        Ok(())
    }

    /// `MPI_Comm_disconnect`: frees the communicator once all that was sent on it has been
    /// received. Collective; blocks.
    pub fn disconnect(handle: u32) -> Result<()> {
        let comm = Comm::resolve(handle)?;
        if !matches!(handle, c::COMM_WORLD | c::COMM_SELF) {
            barrier(comm.everybody())?;
        }
        Comm::free(handle)
    }
}
