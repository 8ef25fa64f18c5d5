//! Memory that ranks attach to a dynamic window and detach again (MPI 5.0, 12.2.4).
//!
//! Attaching is local: no other rank takes part. So each rank keeps a table of what it has attached
//! in memory that its node shares, and an origin reads the table of its target. A version in the
//! table's head says whether it has changed since.
//!
//! | word of the head | content |
//! |---|---|
//! | 0 | version: odd while the owner writes |
//! | 1 | number of entries |
//! | 2 | where the entries lie in the owner's zone |
//! | 3 | how many fit there |
//!
//! An entry is an address, a number of bytes, and the two words by which a peer opens the memory
//! ([`PublishedBuffer`]). Entries move to a larger table when they no longer fit; the old one stays
//! until the window is freed, since an origin may still read it.
//!
//! SYNC attachments: a sequence lock. The owner makes the version odd, writes, and makes it even;
//! an origin that has read the same even version before and after its reads has a consistent copy.
//! All words are accessed by atomics with Acquire and Release. The program orders an attachment
//! before the operations on it: the target sends the address.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use mica_channel::direct::{PeerBuffer, PublishedBuffer};
use mica_channel::memory::{AtomicWidth, Region, RegionRef};
use mica_channel::window::SharedWindow;
use mica_protocol::Engine;

use super::place::{MemoryPiece, MemoryPieces, TargetPlace};
use crate::constants as c;
use crate::error::{Error, Result};
use crate::process;
use crate::sync::lock;

const VERSION: usize = 0;
const ENTRIES: usize = 1;
const OFFSET: usize = 2;
const CAPACITY: usize = 3;

/// Bytes of the head.
const HEAD: usize = 4 * WORD;
const WORD: usize = 8;
/// Words of an entry.
const ENTRY: usize = 4;
/// Entries of the first table, which fills a page.
const FIRST_CAPACITY: usize = 128;

/// What this rank has attached.
type OwnList = Arc<Mutex<Vec<OwnAttachment>>>;

#[derive(Debug)]
pub(super) struct OwnAttachment {
    memory: Region,
    bytes: usize,
    /// Peers reach the memory as long as this lives.
    published: PublishedBuffer,
}

/// The table in which the peers of this rank find what it has attached.
#[derive(Debug)]
pub(super) struct OwnAttachments {
    list: OwnList,
    /// `None` if no peer shares memory with this rank.
    table: Option<OwnTable>,
}

#[derive(Debug)]
struct OwnTable {
    head: SharedWindow,
    /// All tables so far; the last one is in use.
    tables: Mutex<Vec<SharedWindow>>,
}

/// What a rank has attached, as this rank sees it.
#[derive(Debug)]
pub(super) enum PeerAttachments {
    /// This rank itself.
    Own(OwnList),
    Peer {
        /// Job-wide rank.
        rank: u32,
        head: SharedWindow,
        copy: RwLock<TableCopy>,
    },
}

/// A copy of a peer's table, with its memory opened.
#[derive(Debug, Default)]
pub(super) struct TableCopy {
    version: u64,
    /// The table, and where it lies in the peer's zone.
    table: Option<(u64, SharedWindow)>,
    entries: Vec<PeerAttachment>,
}

#[derive(Debug)]
struct PeerAttachment {
    entry: TableEntry,
    /// `None`: this rank cannot reach it, and operations on it fail.
    buffer: Option<PeerBuffer>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct TableEntry {
    address: usize,
    bytes: usize,
    words: [u64; 2],
}

impl OwnAttachments {
    /// Nothing attached; with a table for peers, if they share memory with this rank.
    ///
    /// # Errors
    /// `MPI_ERR_NO_MEM`.
    // flag: the call passes the field of this name.
    pub fn new(engine: &Engine, is_shared: bool) -> Result<OwnAttachments> {
        let table = match is_shared {
            false => None,
            true => Some(OwnTable::new(engine)?),
        };
        Ok(OwnAttachments { list: OwnList::default(), table })
    }

    /// Where the table's head lies in this rank's zone; 0 if there is none.
    pub fn offset(&self) -> u64 {
        self.table.as_ref().map_or(0, |table| table.head.offset())
    }

    /// This rank's memory as its own operations see it.
    pub fn own(&self) -> PeerAttachments {
        PeerAttachments::Own(Arc::clone(&self.list))
    }

    /// `MPI_Win_attach` of `bytes` bytes.
    ///
    /// # Errors
    /// `MPI_ERR_RMA_ATTACH` if some of them are attached already; `MPI_ERR_NO_MEM`.
    pub fn attach(&self, engine: &Engine, memory: Region, bytes: usize) -> Result<()> {
        let mut list = lock(&self.list);
        let address = memory.address();
        if address.checked_add(bytes).is_none() {
            let reason = format!("{bytes} bytes from here on go beyond all addresses");
            return Err(refused(address, reason));
        }
        let meets = |a: &&OwnAttachment| {
            let start = a.memory.address();
            start < address + bytes && address < start + a.bytes
        };
        if let Some(other) = list.iter().find(meets) {
            let reason = format!(
                "the {bytes} bytes here overlap {} bytes at {:#x}, which are attached",
                other.bytes,
                other.memory.address()
            );
            return Err(refused(address, reason));
        }
        let published = engine.peer_access().expose_for_long(address, bytes);
        list.push(OwnAttachment { memory, bytes, published });
        let added = self.publish(engine, &list);
        if added.is_err() {
            list.pop();
        }
        added
    }

    /// `MPI_Win_detach` of the memory at `address`.
    ///
    /// # Errors
    /// `MPI_ERR_RMA_ATTACH` if none is attached there.
    pub fn detach(&self, engine: &Engine, address: usize) -> Result<()> {
        let mut list = lock(&self.list);
        let found = list.iter().position(|a| a.memory.address() == address);
        let at = found.ok_or_else(|| refused(address, "no memory is attached here".to_owned()))?;
        let gone = list.remove(at);
        let published = self.publish(engine, &list);
        // After the peers can no longer find it.
        drop(gone);
        published
    }

    fn publish(&self, engine: &Engine, list: &[OwnAttachment]) -> Result<()> {
        match &self.table {
            None => Ok(()),
            Some(table) => table.publish(engine, list),
        }
    }
}

impl OwnTable {
    fn new(engine: &Engine) -> Result<OwnTable> {
        let table = OwnTable { head: engine.allocate_window(HEAD)?, tables: Mutex::default() };
        table.grow(engine, FIRST_CAPACITY)?;
        Ok(table)
    }

    /// Writes the table anew.
    fn publish(&self, engine: &Engine, list: &[OwnAttachment]) -> Result<()> {
        if list.len() > self.word(CAPACITY) as usize {
            self.grow(engine, 2 * list.len())?;
        }
        let tables = lock(&self.tables);
        let table = tables.last().expect("made with the window").region();
        self.change(|| {
            for (at, attachment) in list.iter().enumerate() {
                let [a, b] = attachment.published.words();
                let address = attachment.memory.address() as u64;
                let words = [address, attachment.bytes as u64, a, b];
                for (word, value) in words.into_iter().enumerate() {
                    put(table.at((at * ENTRY + word) * WORD), value);
                }
            }
            self.put_word(ENTRIES, list.len() as u64);
        });
        Ok(())
    }

    /// Gives the entries a table with room for `capacity`, still to be written.
    fn grow(&self, engine: &Engine, capacity: usize) -> Result<()> {
        let table = engine.allocate_window(capacity * ENTRY * WORD)?;
        self.change(|| {
            self.put_word(ENTRIES, 0);
            self.put_word(OFFSET, table.offset());
            self.put_word(CAPACITY, capacity as u64);
        });
        lock(&self.tables).push(table);
        Ok(())
    }

    /// Runs `f` between an odd and an even version.
    fn change(&self, f: impl FnOnce()) {
        // SYNC attachments
        let version = self.word(VERSION);
        self.put_word(VERSION, version + 1);
        f();
        self.put_word(VERSION, version + 2);
    }

    fn word(&self, index: usize) -> u64 {
        head_word(&self.head, index)
    }

    fn put_word(&self, index: usize, value: u64) {
        put(self.head.region().at(index * WORD), value);
    }
}

fn put(word: RegionRef<'_>, value: u64) {
    word.atomic_swap(AtomicWidth::Eight, value);
}

fn head_word(head: &SharedWindow, index: usize) -> u64 {
    head.region().at(index * WORD).atomic_load(AtomicWidth::Eight)
}

impl PeerAttachments {
    /// The attachments of `rank`, whose table's head lies at `offset` of its zone.
    ///
    /// # Errors
    /// `MPI_ERR_NO_MEM`.
    pub fn open(engine: &Engine, rank: u32, offset: u64) -> Result<PeerAttachments> {
        Ok(PeerAttachments::Peer {
            rank,
            head: engine.open_window(rank, offset, HEAD)?,
            copy: RwLock::default(),
        })
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
            PeerAttachments::Own(list) => {
                // The lock is not held during the operation.
                let list = lock(list);
                let found = list.iter().find(|a| wanted.lies_in(a.range()));
                if let Some(memory) = found.map(|a| a.memory.clone()) {
                    drop(list);
                    let at = address.wrapping_sub(memory.address()) as isize;
                    return f(TargetPlace::Mapped(&memory, at)).map(Some);
                }
                let met = list.iter().filter(|a| wanted.meets(a.range()));
                let met: Vec<_> = met.map(|a| (a.range(), a.memory.clone())).collect();
                drop(list);
                let pieces =
                    met.iter().map(|(r, memory)| wanted.piece(*r, TargetPlace::Mapped(memory, 0)));
                on_pieces(pieces.collect(), runs(), f)
            }
            PeerAttachments::Peer { rank, head, copy } => {
                if copy.read().unwrap_or_else(PoisonError::into_inner).version
                    != head_word(head, VERSION)
                {
                    let mut copy = copy.write().unwrap_or_else(PoisonError::into_inner);
                    copy.renew(*rank, head)?;
                }
                let copy = copy.read().unwrap_or_else(PoisonError::into_inner);
                if let Some(found) = copy.entries.iter().find(|a| wanted.lies_in(a.entry.range())) {
                    let at = address.wrapping_sub(found.entry.address) as isize;
                    return f(TargetPlace::Peer(found.buffer(*rank)?, at)).map(Some);
                }
                let met = copy.entries.iter().filter(|a| wanted.meets(a.entry.range()));
                let pieces: Result<Vec<_>> = met
                    .map(|a| {
                        let place = TargetPlace::Peer(a.buffer(*rank)?, 0);
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

/// An address, and a number of bytes.
type ByteRange = (usize, usize);

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

impl OwnAttachment {
    fn range(&self) -> ByteRange {
        (self.memory.address(), self.bytes)
    }
}

impl TableEntry {
    fn range(&self) -> ByteRange {
        (self.address, self.bytes)
    }
}

impl PeerAttachment {
    fn buffer(&self, rank: u32) -> Result<&PeerBuffer> {
        self.buffer.as_ref().ok_or_else(|| unreachable_memory(rank, &self.entry))
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
    /// Copies the table of `rank` anew, and opens the memory that is new in it.
    fn renew(&mut self, rank: u32, head: &SharedWindow) -> Result<()> {
        let engine = process::engine()?;
        let (version, entries) = loop {
            // SYNC attachments
            let version = head_word(head, VERSION);
            let entries = self.read(engine, rank, head)?;
            if version.is_multiple_of(2) && head_word(head, VERSION) == version {
                break (version, entries);
            }
            std::thread::yield_now();
        };
        let mut known = std::mem::take(&mut self.entries);
        for entry in entries {
            let same = known.iter().position(|a| a.entry == entry);
            let mut attachment = match same {
                Some(at) => known.swap_remove(at),
                None => PeerAttachment { entry, buffer: None },
            };
            if attachment.buffer.is_none() {
                attachment.buffer = engine.peer_access().open(rank, entry.words, entry.bytes);
            }
            self.entries.push(attachment);
        }
        self.version = version;
        Ok(())
    }

    /// The entries as they are now; consistent if the version has not changed.
    fn read(&mut self, engine: &Engine, rank: u32, head: &SharedWindow) -> Result<Vec<TableEntry>> {
        let (offset, capacity) = (head_word(head, OFFSET), head_word(head, CAPACITY) as usize);
        let bytes = capacity.saturating_mul(ENTRY * WORD);
        let table = match &self.table {
            Some((known, table)) if *known == offset && table.bytes() >= bytes => table,
            _ => {
                let table = engine.open_window(rank, offset, bytes)?;
                &self.table.insert((offset, table)).1
            }
        };
        let region = table.region();
        let count = (head_word(head, ENTRIES) as usize).min(capacity);
        let entry = |at: usize| {
            let word = |word: usize| {
                let place = region.at((at * ENTRY + word) * WORD);
                place.atomic_load(AtomicWidth::Eight)
            };
            TableEntry {
                address: word(0) as usize,
                bytes: word(1) as usize,
                words: [word(2), word(3)],
            }
        };
        Ok((0..count).map(entry).collect())
    }
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
