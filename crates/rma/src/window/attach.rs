//! `MPI_Win_attach` and `MPI_Win_detach` (MPI 5.0, 12.2.4). Local: no other rank takes part.

use mica_memory::Region;

use super::object::{self, Window, sole_table};
use crate::memory::attached::OwnAttachments;
use mica_objects::constants as c;
use mica_objects::error::{Error, Result};

/// `MPI_Win_attach` of the `bytes` bytes of `memory` to the window `win`.
///
/// # Errors
/// `MPI_ERR_WIN`; `MPI_ERR_RMA_FLAVOR` for a window that is not dynamic; `MPI_ERR_SIZE`;
/// `MPI_ERR_RMA_ATTACH`; `MPI_ERR_NO_MEM`.
#[inline]
pub fn attach(win: u32, memory: &Region, bytes: i64) -> Result<()> {
    if let Some(table) = sole_table()
        && let Some(attachments) = table.get(win as usize).and_then(Window::local_attachments)
        && let Ok(bytes) = usize::try_from(bytes)
    {
        return attachments.attach(Some(table.section()), memory, bytes);
    }
    attach_anywhere(win, memory, bytes)
}

#[inline(never)]
fn attach_anywhere(win: u32, memory: &Region, bytes: i64) -> Result<()> {
    object::with(win, |window| {
        let attachments = window.attachments()?;
        let reason = "a size is not negative";
        let bytes = usize::try_from(bytes)
            .map_err(|_| Error::argument(c::ERR_SIZE, "size", bytes, reason))?;
        attachments.attach(None, memory, bytes)?;
        match &window.0.remote {
            Some(remote) => remote.register_attached(memory.address(), bytes),
            None => Ok(()),
        }
    })
}

/// `MPI_Win_detach` of the memory at `address` from the window `win`.
///
/// # Errors
/// `MPI_ERR_WIN`; `MPI_ERR_RMA_FLAVOR`; `MPI_ERR_RMA_ATTACH` if none is attached there.
#[inline]
pub fn detach(win: u32, address: usize) -> Result<()> {
    if let Some(table) = sole_table()
        && let Some(attachments) = table.get(win as usize).and_then(Window::local_attachments)
    {
        return attachments.detach(Some(table.section()), address);
    }
    detach_anywhere(win, address)
}

#[inline(never)]
fn detach_anywhere(win: u32, address: usize) -> Result<()> {
    object::with(win, |window| {
        let attachments = window.attachments()?;
        if let Some(remote) = &window.0.remote {
            remote.unregister_attached(address)?;
        }
        attachments.detach(None, address)
    })
}

impl Window {
    /// What this rank has attached, if no other node needs to know.
    fn local_attachments(&self) -> Option<&OwnAttachments> {
        self.0.attachments.as_deref().filter(|_| self.0.remote.is_none())
    }

    fn attachments(&self) -> Result<&OwnAttachments> {
        self.0.attachments.as_deref().ok_or_else(|| {
            let detail = "memory can be attached to windows of MPI_Win_create_dynamic only";
            Error::other(c::ERR_RMA_FLAVOR, detail)
        })
    }
}
