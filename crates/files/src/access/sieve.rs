//! Data sieving: short runs of a file are read and written a block at a time (Thakur, Gropp and
//! Lusk, "Data Sieving and Collective I/O in ROMIO", 1999), by views that are ascending.
//!
//! To write, a block is locked against all others ([`crate::guard`]), read, filled in and written.
//! Blocks of all ranks have the same bounds, so that two ranks meet in few of them.

use std::ops::Range;

use mica_memory::{Region, TypeLayoutError, View};
use mica_node::counters::Counter;
use mica_policy::files::AccessDirection;

use super::{FileAccess, staging};
use crate::pieces::{PieceList, in_window};
use crate::storage::{FilePiece, Transferred, read_all, write_all};

/// What of a stretch of a stream lies in one block.
struct SieveBlock {
    /// From its first byte in the file to its last.
    range: Range<u64>,
    stream: Range<u64>,
}

/// The blocks of `most` bytes that a stretch has bytes in.
fn blocks<'a>(
    access: &'a FileAccess<'_>,
    stream: &'a Range<u64>,
    most: u64,
) -> impl Iterator<Item = SieveBlock> + 'a {
    let mut next = stream.start;
    std::iter::from_fn(move || {
        if next >= stream.end {
            return None;
        }
        let start = access.view.offset_of(next).ok()?;
        let end = (start / most + 1) * most;
        let part = access.view.within(&(next..stream.end), &(start..end));
        let last = access.view.offset_of(part.end - 1).ok()?;
        next = part.end;
        Some(SieveBlock { range: start..last + 1, stream: part })
    })
}

impl SieveBlock {
    fn len(&self) -> usize {
        (self.range.end - self.range.start) as usize
    }

    fn bytes(&self) -> u64 {
        self.stream.end - self.stream.start
    }

    /// Its pieces in a block of memory, and in the program's.
    fn sides(
        &self,
        access: &FileAccess<'_>,
        region: &Region,
        (data, start): (&View, u64),
    ) -> Result<(View, View), TypeLayoutError> {
        let list = PieceList::of(access.view, self.stream.clone(), &self.range);
        let from = (self.stream.start - start) as usize;
        Ok((in_window(&list, region)?, data.part(from..from + self.bytes() as usize)?))
    }
}

/// Reads blocks, and takes the runs from them.
pub fn read(
    access: &FileAccess<'_>,
    stream: &Range<u64>,
    data: &View,
    most: u64,
) -> Result<Transferred, TypeLayoutError> {
    let (region, view) = staging(most as usize)?;
    let mut done = Transferred::default();
    for block in blocks(access, stream, most) {
        access.counters.count(Counter::FileSievedBlocks);
        let piece = [FilePiece { view: &view, position: 0, len: block.len() }];
        let got = read_all(access.storage, block.range.start, &piece);
        let end = block.range.start + got.bytes;
        let there = SieveBlock { stream: access.view.within(&block.stream, &(0..end)), ..block };
        let (from, to) = there.sides(access, &region, (data, stream.start))?;
        to.copy_from(&from);
        done.bytes += there.bytes();
        if got.error.is_some() || end < there.range.end {
            return Ok(Transferred { error: got.error, ..done });
        }
    }
    Ok(done)
}

/// Writes blocks with the runs put in.
pub fn write(
    access: &FileAccess<'_>,
    stream: &Range<u64>,
    data: &View,
    most: u64,
) -> Result<Transferred, TypeLayoutError> {
    let (region, view) = staging(most as usize)?;
    let mut done = Transferred::default();
    for block in blocks(access, stream, most) {
        let sieved = match block.bytes() < block.len() as u64 {
            true => sieve(access, &block, (&region, &view), (data, stream.start))?,
            false => None,
        };
        let written = match sieved {
            Some(written) => written,
            // One run, or a file whose blocks cannot be locked.
            None => {
                let from = (block.stream.start - stream.start) as usize;
                let part = data.part(from..from + block.bytes() as usize)?;
                match access.guard.write_block(&block.range) {
                    Ok(_admitted) => {
                        access.by_runs(AccessDirection::Write, &block.stream, &part)?
                    }
                    Err(error) => Transferred { bytes: 0, error: Some(error) },
                }
            }
        };
        done.bytes += written.bytes;
        if written.error.is_some() {
            return Ok(Transferred { error: written.error, ..done });
        }
    }
    Ok(done)
}

/// Writes one block; `None` if it cannot be locked.
fn sieve(
    access: &FileAccess<'_>,
    block: &SieveBlock,
    (region, view): (&Region, &View),
    data: (&View, u64),
) -> Result<Option<Transferred>, TypeLayoutError> {
    let Some(admitted) = access.guard.sieve(&block.range) else {
        return Ok(None);
    };
    access.counters.count(Counter::FileSievedBlocks);
    let piece = [FilePiece { view, position: 0, len: block.len() }];
    let old = read_all(access.storage, block.range.start, &piece);
    if old.error.is_some() {
        return Ok(Some(Transferred { bytes: 0, error: old.error }));
    }
    let beyond = old.bytes as usize;
    mica_memory::fill(&region.offset(beyond as isize), 0, block.len() - beyond);
    let (to, from) = block.sides(access, region, data)?;
    to.copy_from(&from);
    let written = write_all(access.storage, block.range.start, &piece);
    drop(admitted);
    // A block that was written in part has some of its runs at most.
    let bytes = if written.error.is_none() { block.bytes() } else { 0 };
    Ok(Some(Transferred { bytes, error: written.error }))
}
