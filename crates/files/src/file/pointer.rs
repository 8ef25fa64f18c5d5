//! File pointers (MPI 5.0, 14.4.3 and 14.4.4): of one process, and shared by all, in etypes.

use std::sync::Arc;

use mica_collective::exchange::ExchangeMembers;
use mica_objects::constants as c;
use mica_objects::error::{Error, Result};
use mica_objects::sync::lock;

use super::File;
use crate::failure;
use crate::shared_file::PROCESSES;
use crate::view::FileView;

impl File {
    /// The view in force.
    pub(super) fn view(&self) -> Arc<FileView> {
        Arc::clone(&lock(&self.0.view))
    }

    pub(super) fn refuse_sequential(&self, what: &str) -> Result<()> {
        match self.0.mode.is_sequential() {
            false => Ok(()),
            true => {
                let detail = format!(
                    "{what} is not possible in a file that is opened with \
                                      MPI_MODE_SEQUENTIAL"
                );
                Err(Error::other(c::ERR_UNSUPPORTED_OPERATION, detail))
            }
        }
    }

    /// Where `MPI_File_seek` leads from a pointer.
    fn sought(&self, now: u64, offset: i64, whence: i32) -> Result<u64> {
        self.refuse_sequential("to seek")?;
        let base = match whence {
            c::SEEK_SET => 0,
            c::SEEK_CUR => now,
            c::SEEK_END => self.end()?,
            _ => {
                let reason = "it is one of MPI_SEEK_SET, MPI_SEEK_CUR and MPI_SEEK_END";
                return Err(Error::argument(c::ERR_ARG, "whence", whence, reason));
            }
        };
        let sought = i64::try_from(base).ok().and_then(|base| base.checked_add(offset));
        sought.and_then(|sought| u64::try_from(sought).ok()).ok_or_else(|| {
            let reason = "a file pointer is not negative";
            Error::argument(c::ERR_ARG, "offset", offset, reason)
        })
    }

    /// The end of the file in the view: the first etype that does not begin before it.
    fn end(&self) -> Result<u64> {
        let view = self.view();
        let size = self.size()? as u64;
        Ok(view.position_before(size).div_ceil(view.etype_bytes()))
    }

    /// `MPI_File_seek`.
    ///
    /// # Errors
    /// `MPI_ERR_ARG`; `MPI_ERR_UNSUPPORTED_OPERATION`.
    pub fn seek(&self, offset: i64, whence: i32) -> Result<()> {
        let now = *lock(&self.0.pointer);
        *lock(&self.0.pointer) = self.sought(now, offset, whence)?;
        Ok(())
    }

    /// `MPI_File_get_position`.
    ///
    /// # Errors
    /// `MPI_ERR_UNSUPPORTED_OPERATION`.
    pub fn position(&self) -> Result<i64> {
        self.refuse_sequential("an individual file pointer")?;
        Ok(*lock(&self.0.pointer) as i64)
    }

    /// `MPI_File_seek_shared`. Blocks until all ranks have called it.
    ///
    /// # Errors
    /// As [`seek`](Self::seek), at all ranks; `MPI_ERR_NOT_SAME`.
    pub fn seek_shared(&self, offset: i64, whence: i32) -> Result<()> {
        let members = &self.0.shared_file.members;
        let now = self.0.shared.advance(0)?;
        // All ranks have looked before one moves it.
        let sought = self.sought(now, offset, whence);
        self.agree_on(offset as u64 ^ (whence as u64) << 56, &sought)?;
        let sought = sought?;
        if members.rank() == 0 {
            self.0.shared.set(sought)?;
        }
        ExchangeMembers::all(members).allgather(&[0]).map(drop)
    }

    /// `MPI_File_get_position_shared`.
    ///
    /// # Errors
    /// `MPI_ERR_UNSUPPORTED_OPERATION`.
    pub fn shared_position(&self) -> Result<i64> {
        self.refuse_sequential("to ask for the shared file pointer")?;
        Ok(self.0.shared.advance(0)? as i64)
    }

    /// `MPI_File_get_byte_offset`.
    ///
    /// # Errors
    /// `MPI_ERR_ARG`; `MPI_ERR_UNSUPPORTED_OPERATION`.
    pub fn byte_offset(&self, offset: i64) -> Result<i64> {
        self.refuse_sequential("to ask for a byte offset")?;
        let view = self.view();
        Ok(view.offset_of(view.stream(offset, 0)?.start)? as i64)
    }

    /// Fails at all ranks if `own` is an error at one of them, or `value` not the same at all.
    pub(super) fn agree_on<T>(&self, value: u64, own: &Result<T>) -> Result<()> {
        let own = own.as_ref().map(|_| [value]).map_err(Error::clone);
        let all = ExchangeMembers::all(self.members()).agree(own, PROCESSES)?;
        match all.iter().all(|one| one == &all[0]) {
            true => Ok(()),
            false => {
                let detail = "ranks have called it with different arguments";
                Err(Error::other(c::ERR_NOT_SAME, detail))
            }
        }
    }

    /// `MPI_File_get_size`, in bytes.
    ///
    /// # Errors
    /// Those of the system.
    pub fn size(&self) -> Result<i64> {
        let size = self.0.shared_file.storage.size();
        Ok(size.map_err(|e| failure::of_name("find the size of", &self.0.shared_file.name, &e))?
            as i64)
    }
}
