//! `MPI_Win_attach` and `MPI_Win_detach` (MPI 5.0, 12.2.4). Local: no other rank takes part.

use mica_channel::memory::Region;

use super::attached::OwnAttachments;
use super::object::{self, Window};
use crate::constants as c;
use crate::error::{Error, Result};
use crate::process;

/// `MPI_Win_attach` of the `bytes` bytes of `memory` to the window `win`.
///
/// # Errors
/// `MPI_ERR_WIN`; `MPI_ERR_RMA_FLAVOR` for a window that is not dynamic; `MPI_ERR_SIZE`;
/// `MPI_ERR_RMA_ATTACH`; `MPI_ERR_NO_MEM`.
pub fn attach(win: u32, memory: Region, bytes: i64) -> Result<()> {
    object::with(win, |window| {
        let attachments = window.attachments()?;
        let reason = "a size is not negative";
        let bytes = usize::try_from(bytes)
            .map_err(|_| Error::argument(c::ERR_SIZE, "size", bytes, reason))?;
        let address = memory.address();
        attachments.attach(process::engine()?, memory, bytes)?;
        match &window.0.remote {
            Some(remote) => remote.register_attached(address, bytes),
            None => Ok(()),
        }
    })
}

/// `MPI_Win_detach` of the memory at `address` from the window `win`.
///
/// # Errors
/// `MPI_ERR_WIN`; `MPI_ERR_RMA_FLAVOR`; `MPI_ERR_RMA_ATTACH` if none is attached there.
pub fn detach(win: u32, address: usize) -> Result<()> {
    object::with(win, |window| {
        let attachments = window.attachments()?;
        if let Some(remote) = &window.0.remote {
            remote.unregister_attached(address)?;
        }
        attachments.detach(address)
    })
}

impl Window {
    fn attachments(&self) -> Result<&OwnAttachments> {
        self.0.attachments.as_deref().ok_or_else(|| {
            let detail = "memory can be attached to windows of MPI_Win_create_dynamic only";
            Error::other(c::ERR_RMA_FLAVOR, detail)
        })
    }
}
