//! One process's access to a stretch of its view: which calls of the system carry it out.
//!
//! | the bytes in the file | what is done |
//! |---|---|
//! | in one run | one call |
//! | long runs | a call for each |
//! | short runs, close together | a block at a time ([`sieve`]) |
//!
//! Memory in many short pieces is packed into a block first: the system's lists of pieces
//! (`iovec`) cost more than the copy.
//!
//! These functions block, and ask nothing of the engine: threads of the library call them, too.

mod choice;
mod sieve;

use std::io;
use std::ops::Range;

use mica_memory::{Block, OutOfMemory, Region, Shape, TypeLayoutError, View};
use mica_node::counters::LiveCounters;
use mica_objects::error::Result;
use mica_policy::files::AccessDirection;

use crate::failure;
use crate::guard::FileGuard;
use crate::hints::Hints;
use crate::storage::{FilePiece, Storage, Transferred, read_all, write_all};
use crate::view::FileView;

pub use choice::RunSample;

/// Bytes that are packed at a time.
const PACKED: usize = 1 << 20;
/// Average bytes of the pieces of memory below which they are packed.
const SHORT_PIECES: usize = 512;

/// An open file, as an access needs it.
#[derive(Clone, Copy, Debug)]
pub struct FileAccess<'a> {
    /// Where its bytes are.
    pub storage: &'a dyn Storage,
    /// What keeps accesses apart.
    pub guard: &'a FileGuard,
    /// What it shows.
    pub view: &'a FileView,
    /// How the program wants it accessed.
    pub hints: Hints,
    /// Its name, for errors.
    pub name: &'a str,
    /// Where blocks are counted.
    pub counters: &'a LiveCounters,
}

/// What is done, for errors.
fn verb(direction: AccessDirection) -> &'static str {
    match direction {
        AccessDirection::Read => "read",
        AccessDirection::Write => "write",
    }
}

impl FileAccess<'_> {
    /// Moves the bytes of a stretch of the stream, from the file to `data` or from `data` to the
    /// file; returns how many: fewer than there are only where a read meets the end of the file.
    /// Blocks.
    ///
    /// # Errors
    /// Of the system, with the byte of the file where it occurred; `MPI_ERR_NO_MEM`.
    pub fn transfer(
        &self,
        direction: AccessDirection,
        stream: Range<u64>,
        data: &View,
    ) -> Result<u64> {
        if stream.is_empty() {
            return Ok(0);
        }
        let span = self.span(&stream)?;
        let failed = |offset: u64, error: &io::Error| {
            failure::of_access(verb(direction), self.name, offset, error)
        };
        let block = self.block(direction, &stream);
        let is_whole = self.guard.is_atomic() || block.is_none();
        // In atomic mode the whole access is admitted at once; a sieved one admits its blocks.
        let admitted = match (direction, is_whole) {
            (AccessDirection::Read, _) => Some(self.guard.read(&span)),
            (AccessDirection::Write, true) => Some(self.guard.write(&span)),
            (AccessDirection::Write, false) => None,
        };
        let _admitted = admitted.transpose().map_err(|error| failed(span.start, &error))?;
        let done = match (block, direction) {
            (None, _) => self.by_runs(direction, &stream, data)?,
            (Some(block), AccessDirection::Read) => sieve::read(self, &stream, data, block)?,
            (Some(block), AccessDirection::Write) => sieve::write(self, &stream, data, block)?,
        };
        match done.error {
            None => Ok(done.bytes),
            Some(error) => {
                let at = self.view.offset_of(stream.start + done.bytes).unwrap_or(span.start);
                Err(failed(at, &error))
            }
        }
    }

    /// From the first byte of the file that a stretch, which is not empty, may touch to the last.
    pub fn span(&self, stream: &Range<u64>) -> Result<Range<u64>> {
        if self.view.is_ascending() {
            let last = self.view.offset_of(stream.end - 1)?;
            return Ok(self.view.offset_of(stream.start)?..last + 1);
        }
        let mut runs = self.view.runs(stream.clone());
        let first = runs.next().map_or(0..0, |run| run.offset..run.end());
        Ok(runs.fold(first, |span, run| span.start.min(run.offset)..span.end.max(run.end())))
    }

    /// A call for each run.
    fn by_runs(
        &self,
        direction: AccessDirection,
        stream: &Range<u64>,
        data: &View,
    ) -> std::result::Result<Transferred, TypeLayoutError> {
        let packed = Packing::of(data)?;
        let mut done = Transferred::default();
        for run in self.view.runs(stream.clone()) {
            let mut at = 0;
            while at < run.len {
                let position = (run.position - stream.start + at) as usize;
                let (part, len) = packed.part(position, (run.len - at) as usize);
                if direction == AccessDirection::Write {
                    packed.fill(position, len);
                }
                let piece = [FilePiece { view: part.view, position: part.position, len }];
                let moved = match direction {
                    AccessDirection::Read => read_all(self.storage, run.offset + at, &piece),
                    AccessDirection::Write => write_all(self.storage, run.offset + at, &piece),
                };
                if direction == AccessDirection::Read {
                    packed.empty(position, moved.bytes as usize);
                }
                done.bytes += moved.bytes;
                if moved.error.is_some() || moved.bytes < len as u64 {
                    return Ok(Transferred { error: moved.error, ..done });
                }
                at += len as u64;
            }
        }
        Ok(done)
    }
}

/// Memory whose pieces are long enough for the system, or a block that stands in for it.
struct Packing<'a> {
    data: &'a View,
    block: Option<(Region, View)>,
}

impl<'a> Packing<'a> {
    fn of(data: &'a View) -> std::result::Result<Packing<'a>, OutOfMemory> {
        let is_scattered = data.as_contiguous().is_none()
            && data.len() / data.run_count_hint().max(1) < SHORT_PIECES;
        let block = match is_scattered {
            false => None,
            true => Some(staging(data.len().min(PACKED))?),
        };
        Ok(Packing { data, block })
    }

    /// Where at most `len` bytes from `position` on lie for the system, and how many.
    fn part(&self, position: usize, len: usize) -> (FilePiece<'_>, usize) {
        match &self.block {
            None => (FilePiece { view: self.data, position, len }, len),
            Some((_, view)) => {
                let len = len.min(view.len());
                (FilePiece { view, position: 0, len }, len)
            }
        }
    }

    /// Before a write: packs them, where they are packed.
    fn fill(&self, position: usize, len: usize) {
        if let Some((region, _)) = &self.block {
            self.data.pack_to(position, region, len);
        }
    }

    /// After a read: unpacks them.
    fn empty(&self, position: usize, len: usize) {
        if let Some((region, _)) = &self.block {
            self.data.unpack_at(position, region, len);
        }
    }
}

/// Memory of the library, and its bytes as a message.
pub fn staging(bytes: usize) -> std::result::Result<(Region, View), OutOfMemory> {
    let region = Block::allocate(bytes)?;
    let view = region.clone().view(Shape::Contiguous { bytes });
    Ok((region, view))
}

#[cfg(test)]
mod tests;
