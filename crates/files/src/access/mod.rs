//! One process's access to a stretch of its view: which calls of the system carry it out.
//!
//! | the bytes in the file | what is done |
//! |---|---|
//! | in one run | one call |
//! | long runs | a call for each; reads together |
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
use crate::storage::{FilePiece, FileRead, READS_MAX, Storage, Transferred, read_all, write_all};
use crate::view::FileView;

pub use choice::RunSample;

/// Bytes that are packed at a time.
const PACKED: usize = 1 << 20;
/// Bytes of a run above which it is read by itself.
const TOGETHER_MAX: usize = 256 << 10;
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

    /// A call for each run; reads of short ones, which may have to wait for a device, together.
    fn by_runs(
        &self,
        direction: AccessDirection,
        stream: &Range<u64>,
        data: &View,
    ) -> std::result::Result<Transferred, TypeLayoutError> {
        let packed = Packing::of(data)?;
        let mut parts = self.parts(stream, packed.room()).peekable();
        let mut done = Transferred::default();
        let mut batch = Vec::new();
        while let Some(first) = parts.next() {
            let mut bytes = first.len;
            let fits = |part: &RunPart, bytes| {
                part.len.max(first.len) <= TOGETHER_MAX && bytes + part.len <= packed.room()
            };
            batch.clear();
            batch.push(first);
            while direction == AccessDirection::Read
                && batch.len() < READS_MAX
                && let Some(next) = parts.next_if(|part| fits(part, bytes))
            {
                bytes += next.len;
                batch.push(next);
            }
            let moved = match direction {
                AccessDirection::Write => self.write_part(&first, &packed),
                AccessDirection::Read => self.read_parts(&batch, &packed),
            };
            done.bytes += moved.bytes;
            if moved.error.is_some() || moved.bytes < bytes as u64 {
                return Ok(Transferred { error: moved.error, ..done });
            }
        }
        Ok(done)
    }

    /// The runs of a stretch, in parts of at most `most` bytes.
    fn parts(&self, stream: &Range<u64>, most: usize) -> impl Iterator<Item = RunPart> + '_ {
        let start = stream.start;
        self.view.runs(stream.clone()).flat_map(move |run| {
            (0..run.len).step_by(most).map(move |at| RunPart {
                offset: run.offset + at,
                position: (run.position - start + at) as usize,
                len: (run.len - at).min(most as u64) as usize,
            })
        })
    }

    fn write_part(&self, part: &RunPart, packed: &Packing<'_>) -> Transferred {
        packed.fill(part.position, part.len);
        write_all(self.storage, part.offset, &[packed.piece(part, 0)])
    }

    fn read_parts(&self, parts: &[RunPart], packed: &Packing<'_>) -> Transferred {
        if let [part] = parts {
            let moved = read_all(self.storage, part.offset, &[packed.piece(part, 0)]);
            packed.empty(part.position, 0, moved.bytes as usize);
            return moved;
        }
        let mut places = Vec::with_capacity(parts.len());
        let mut at = 0;
        for part in parts {
            places.push(FileRead { offset: part.offset, piece: packed.piece(part, at) });
            at += part.len;
        }
        let results = self.storage.read_together(&places);
        let mut done = Transferred::default();
        let mut at = 0;
        for ((part, read), result) in parts.iter().zip(&places).zip(results) {
            let moved = go_on(self.storage, read, result);
            packed.empty(part.position, at, moved.bytes as usize);
            at += part.len;
            done.bytes += moved.bytes;
            if moved.error.is_some() || moved.bytes < part.len as u64 {
                return Transferred { error: moved.error, ..done };
            }
        }
        done
    }
}

/// Reads what is left of a read that has got so far.
fn go_on(storage: &dyn Storage, read: &FileRead<'_>, result: io::Result<usize>) -> Transferred {
    let got = match result {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::Interrupted => 0,
        Err(error) => return Transferred { bytes: 0, error: Some(error) },
    };
    let piece = read.piece;
    let rest = FilePiece { position: piece.position + got, len: piece.len - got, ..piece };
    let more = read_all(storage, read.offset + got as u64, &[rest]);
    Transferred { bytes: got as u64 + more.bytes, ..more }
}

/// A part of a run.
#[derive(Clone, Copy, Debug)]
struct RunPart {
    /// Its first byte in the file.
    offset: u64,
    /// And in the memory.
    position: usize,
    len: usize,
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

    /// Bytes that there is room for at a time.
    fn room(&self) -> usize {
        self.block.as_ref().map_or(usize::MAX, |(_, view)| view.len())
    }

    /// Where a part lies for the system, `at` in the block where there is one.
    fn piece(&self, part: &RunPart, at: usize) -> FilePiece<'_> {
        match &self.block {
            None => FilePiece { view: self.data, position: part.position, len: part.len },
            Some((_, view)) => FilePiece { view, position: at, len: part.len },
        }
    }

    /// Before a write: packs them, where they are packed.
    fn fill(&self, position: usize, len: usize) {
        if let Some((region, _)) = &self.block {
            self.data.pack_to(position, region, len);
        }
    }

    /// After a read: unpacks them from this place of the block, where they are packed.
    fn empty(&self, position: usize, at: usize, len: usize) {
        if let Some((region, _)) = &self.block {
            self.data.unpack_at(position, &region.offset(at as isize), len);
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
