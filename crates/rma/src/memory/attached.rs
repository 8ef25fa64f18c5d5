//! Memory that ranks attach to a dynamic window and detach again (MPI 5.0, 12.2.4).
//!
//! Attaching is local: no other rank takes part, and no page moves. Each rank keeps a
//! [table](super::attachment_table) of what it has attached in memory that its node shares, and an
//! origin reads the table of its target whenever its version has changed. What origins use often is
//! migrated later ([`movable`](super::movable)).

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use mica_channel::direct::{PeerAccess, PublishedBuffer};
use mica_memory::Region;
use mica_node::lock::SoleThread;
use mica_protocol::{Engine, ThreadLock, ThreadMode};

use super::attachment_list::{Attached, AttachmentList, ByteRange};
use super::attachment_table::{AttachmentTable, PeerAttachmentTable, TableEntry};
use super::movable::{MovableMemory, MovableOwner};
use super::place::{MemoryPiece, MemoryPieces, TargetPlace};
use mica_objects::constants as c;
use mica_objects::error::{Error, Result};
use mica_objects::process;

/// What this rank has attached.
#[derive(Debug)]
pub(crate) struct OwnAttachments {
    /// Elided while the lock of all windows is.
    state: ThreadLock<OwnState, &'static ThreadMode>,
    /// Where peers find the table; 0 if there is none.
    offset: u64,
}

#[derive(Debug)]
struct OwnState {
    list: AttachmentList,
    /// Numbers below `next` that are free.
    free: Vec<u32>,
    next: u32,
    /// Keep what has been migrated where it is, by number.
    migrated: HashMap<u32, PublishedBuffer>,
    /// In which the peers of this rank find what it has attached, by number; `None` if no peer
    /// shares memory with it.
    table: Option<AttachmentTable>,
}

/// What a rank has attached, as this rank sees it.
#[derive(Debug)]
pub(crate) enum PeerAttachments {
    /// This rank itself.
    Own(Arc<OwnAttachments>),
    /// A node peer.
    Peer {
        table: PeerAttachmentTable,
        /// Of the window.
        context: u64,
        copy: RwLock<TableCopy>,
    },
}

/// A copy of a peer's table, with its memory opened where it was used.
#[derive(Debug, Default)]
pub(crate) struct TableCopy {
    version: u64,
    /// By number.
    entries: Vec<Option<PeerAttachment>>,
    /// The numbers of those that are there, by address.
    ordered: Vec<u32>,
}

#[derive(Debug)]
struct PeerAttachment {
    entry: TableEntry,
    /// Empty before the first use. `None`: this rank cannot reach it, and operations on it fail.
    memory: OnceLock<Option<MovableMemory>>,
}

impl OwnAttachments {
    /// Nothing attached; with a table for peers, if they share memory with this rank. Its lock is
    /// elided while `mode` is.
    ///
    /// # Errors
    /// `MPI_ERR_NO_MEM`.
    // flag: the call passes the field of this name.
    pub fn new(
        engine: &Engine,
        mode: &'static ThreadMode,
        is_shared: bool,
    ) -> Result<OwnAttachments> {
        let table = match is_shared {
            false => None,
            true => Some(AttachmentTable::new(engine)?),
        };
        let offset = table.as_ref().map_or(0, AttachmentTable::offset);
        let state = OwnState {
            list: AttachmentList::new(),
            free: Vec::new(),
            next: 0,
            migrated: HashMap::new(),
            table,
        };
        Ok(OwnAttachments { state: ThreadLock::under(mode, state), offset })
    }

    /// Where the table's head lies in this rank's zone; 0 if there is none.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// `MPI_Win_attach` of `bytes` bytes. `section`: of the only thread inside the library.
    ///
    /// # Errors
    /// `MPI_ERR_RMA_ATTACH` if some of them are attached already; `MPI_ERR_NO_MEM`.
    #[inline]
    pub fn attach(
        &self,
        section: Option<&SoleThread<'_>>,
        memory: &Region,
        bytes: usize,
    ) -> Result<()> {
        let engine = process::engine()?;
        match section.and_then(|section| self.state.lock_in(section)) {
            Some(mut state) => state.attach(engine, memory, bytes),
            None => self.state.lock().attach(engine, memory, bytes),
        }
    }

    /// `MPI_Win_detach` of the memory at `address`. `section`: as for [`attach`](Self::attach).
    ///
    /// # Errors
    /// `MPI_ERR_RMA_ATTACH` if none is attached there.
    #[inline(always)]
    pub fn detach(&self, section: Option<&SoleThread<'_>>, address: usize) -> Result<()> {
        let detached = match section.and_then(|section| self.state.lock_in(section)) {
            Some(mut state) => state.detach(address),
            None => self.state.lock().detach(address),
        };
        match detached {
            true => Ok(()),
            false => Err(refused(address, "no memory is attached here".to_owned())),
        }
    }
}

impl OwnState {
    #[inline]
    fn attach(&mut self, engine: &Engine, memory: &Region, bytes: usize) -> Result<()> {
        let address = memory.address();
        if address.checked_add(bytes).is_none() {
            let reason = format!("{bytes} bytes from here on go beyond all addresses");
            return Err(refused(address, reason));
        }
        let place = match self.list.place_for((address, bytes)) {
            Ok(place) => place,
            Err(other) => return Err(overlap((address, bytes), other)),
        };
        let number = self.take_number(engine)?;
        if let Some(table) = &mut self.table {
            let words = engine.peer_access().words_in_place(address);
            table.put(number, &TableEntry { address, bytes, words });
        }
        self.list.insert(place, Attached { memory: memory.clone(), bytes, number });
        Ok(())
    }

    /// False: no memory is attached at `address`.
    #[inline(always)]
    fn detach(&mut self, address: usize) -> bool {
        let Some(number) = self.list.remove(address) else {
            return false;
        };
        if let Some(table) = &mut self.table {
            table.clear(number);
        }
        // After the peers can no longer find it.
        if !self.migrated.is_empty() {
            self.migrated.remove(&number);
        }
        self.free.push(number);
        true
    }

    /// A free number, for which the table has room.
    #[inline]
    fn take_number(&mut self, engine: &Engine) -> Result<u32> {
        if let Some(number) = self.free.pop() {
            return Ok(number);
        }
        if let Some(table) = &mut self.table {
            table.reserve(engine, self.next)?;
        }
        self.next += 1;
        Ok(self.next - 1)
    }
}

impl MovableOwner for OwnAttachments {
    fn migrate(&self, access: &PeerAccess, address: usize) {
        let state = &mut *self.state.lock();
        let Some(&Attached { bytes, number, .. }) = state.list.at(address) else {
            return;
        };
        if state.migrated.contains_key(&number) {
            return;
        }
        let migrated = access.expose_for_long(address, bytes);
        if !migrated.is_whole(bytes) {
            return;
        }
        if let Some(table) = &mut state.table {
            table.put(number, &TableEntry { address, bytes, words: migrated.words() });
        }
        state.migrated.insert(number, migrated);
    }
}

impl PeerAttachments {
    /// The attachments of `rank`, whose table's head lies at `offset` of its zone, in the window of
    /// `context`.
    pub fn of(rank: u32, offset: u64, context: u64) -> PeerAttachments {
        let table = PeerAttachmentTable::new(rank, offset);
        PeerAttachments::Peer { table, context, copy: RwLock::default() }
    }

    /// Calls `f` with the place of the `bytes` bytes at `address`; `None` if the rank has not
    /// attached all of `runs`, the bytes that matter, relative to `address`. They may lie in
    /// several pieces (MPI 5.0, 12.2.4: what is accessed has to be attached).
    ///
    /// # Errors
    /// Those of `f`; `MPI_ERR_RMA_ATTACH` if this rank cannot reach the memory.
    pub fn with<R, I: Iterator<Item = Range<isize>>>(
        &self,
        (address, bytes): (usize, usize),
        runs: impl FnOnce() -> I,
        f: impl FnOnce(TargetPlace<'_>) -> Result<R>,
    ) -> Result<Option<R>> {
        let wanted = Wanted { address, bytes };
        match self {
            PeerAttachments::Own(own) => {
                // The lock is not held during the operation.
                let state = own.state.lock();
                let met = state.list.near((address, bytes));
                let met: Vec<_> = met.map(|a| (a.range(), a.memory.clone())).collect();
                drop(state);
                if let [(range, memory)] = &met[..]
                    && wanted.lies_in(*range)
                {
                    let at = address.wrapping_sub(range.0) as isize;
                    return f(TargetPlace::Mapped(memory, at)).map(Some);
                }
                let pieces =
                    met.iter().map(|(r, memory)| wanted.piece(*r, TargetPlace::Mapped(memory, 0)));
                on_pieces(pieces.collect(), runs(), f)
            }
            PeerAttachments::Peer { table, context, copy } => {
                let version = table.version()?;
                if copy.read().unwrap_or_else(PoisonError::into_inner).version != version {
                    copy.write().unwrap_or_else(PoisonError::into_inner).renew(table)?;
                }
                let copy = copy.read().unwrap_or_else(PoisonError::into_inner);
                let owner = (table.rank(), *context);
                if let Some(found) = copy.find(wanted) {
                    let memory = found.open(owner)?;
                    let at = address.wrapping_sub(found.entry.address) as isize;
                    let result = f(TargetPlace::Peer(memory.buffer(), at));
                    memory.note_use(bytes);
                    return result.map(Some);
                }
                let met = copy.near(wanted);
                let pieces: Result<Vec<_>> = met
                    .map(|a| {
                        let place = TargetPlace::Peer(a.open(owner)?.buffer(), 0);
                        Ok(wanted.piece(a.entry.range(), place))
                    })
                    .collect();
                on_pieces(pieces?, runs(), f)
            }
        }
    }
}

/// The bytes that an operation needs.
#[derive(Clone, Copy)]
struct Wanted {
    address: usize,
    bytes: usize,
}

impl Wanted {
    fn lies_in(self, (start, length): ByteRange) -> bool {
        let before = self.address.wrapping_sub(start);
        before <= length && self.bytes <= length - before
    }

    fn meets(self, (start, length): ByteRange) -> bool {
        // From whichever of the two begins first.
        start.wrapping_sub(self.address) < self.bytes || self.address.wrapping_sub(start) < length
    }

    fn piece<'a>(self, (start, bytes): ByteRange, place: TargetPlace<'a>) -> MemoryPiece<'a> {
        MemoryPiece { at: start.wrapping_sub(self.address) as isize, bytes, place }
    }
}

impl TableEntry {
    fn range(&self) -> ByteRange {
        (self.address, self.bytes)
    }
}

impl PeerAttachment {
    /// The memory, opened the first time, of a rank of the job and a window's context.
    #[inline]
    fn open(&self, owner: (u32, u64)) -> Result<&MovableMemory> {
        let opened = match self.memory.get() {
            Some(opened) => opened,
            None => {
                let engine = process::engine()?;
                self.memory.get_or_init(|| {
                    let TableEntry { address, bytes, words } = self.entry;
                    let buffer = engine.peer_access().open(owner.0, words, bytes)?;
                    Some(MovableMemory::new(engine, buffer, owner, (address, bytes)))
                })
            }
        };
        opened.as_ref().ok_or_else(|| unreachable_memory(owner.0, &self.entry))
    }
}

/// Calls `f` with the place of bytes in several pieces, if all of `runs` lie in them.
#[cold]
fn on_pieces<R>(
    pieces: Vec<MemoryPiece<'_>>,
    runs: impl Iterator<Item = Range<isize>>,
    f: impl FnOnce(TargetPlace<'_>) -> Result<R>,
) -> Result<Option<R>> {
    match MemoryPieces::of(pieces, runs) {
        Some(pieces) => f(TargetPlace::Pieces(&pieces, 0)).map(Some),
        None => Ok(None),
    }
}

impl TableCopy {
    /// Copies the table anew.
    fn renew(&mut self, table: &PeerAttachmentTable) -> Result<()> {
        let (version, entries) = table.read(process::engine()?)?;
        self.entries.resize_with(entries.len().max(self.entries.len()), || None);
        for (known, entry) in self.entries.iter_mut().zip(entries) {
            if known.as_ref().map(|known| known.entry) != entry {
                let memory = OnceLock::new;
                *known = entry.map(|entry| PeerAttachment { entry, memory: memory() });
            }
        }
        let there = self
            .entries
            .iter()
            .zip(0..)
            .filter_map(|(entry, at)| entry.as_ref().map(|known| (known.entry.address, at)));
        let mut ordered: Vec<(usize, u32)> = there.collect();
        ordered.sort_unstable();
        self.ordered = ordered.into_iter().map(|(_, at)| at).collect();
        self.version = version;
        Ok(())
    }

    /// Those that share a byte with what is wanted, from the last on.
    fn near(&self, wanted: Wanted) -> impl Iterator<Item = &PeerAttachment> {
        let end = wanted.address.saturating_add(wanted.bytes);
        let after = self.ordered.partition_point(|&at| self.at(at).entry.address < end);
        let before = self.ordered[..after].iter().rev().map(|&at| self.at(at));
        before.take_while(move |known| wanted.meets(known.entry.range()))
    }

    /// The one that all wanted bytes lie in.
    #[inline]
    fn find(&self, wanted: Wanted) -> Option<&PeerAttachment> {
        self.near(wanted).next().filter(|known| wanted.lies_in(known.entry.range()))
    }

    fn at(&self, at: u32) -> &PeerAttachment {
        self.entries[at as usize].as_ref().expect("it is ordered, so it is there")
    }
}

#[cold]
fn overlap((address, bytes): ByteRange, (start, other): ByteRange) -> Error {
    let reason =
        format!("the {bytes} bytes here overlap {other} bytes at {start:#x}, which are attached");
    refused(address, reason)
}

#[cold]
fn refused(address: usize, reason: String) -> Error {
    Error::argument(c::ERR_RMA_ATTACH, "base", format_args!("{address:#x}"), reason)
}

#[cold]
fn unreachable_memory(rank: u32, entry: &TableEntry) -> Error {
    let detail = format!(
        "rank {rank} of the job has attached {} bytes at {:#x}, which this rank cannot reach: \
         neither migration nor the kernel's copies (CMA) work between the two (mica info says why)",
        entry.bytes, entry.address
    );
    Error::other(c::ERR_RMA_ATTACH, detail)
}
