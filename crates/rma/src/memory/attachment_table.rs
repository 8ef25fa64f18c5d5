//! The table in which the peers of a rank find what it has attached to a dynamic window, in memory
//! that their node shares.
//!
//! | word of the head | content |
//! |---|---|
//! | 0 | version: grows with each change |
//! | 1 | where the entries lie in the owner's zone; in the lowest bits, logarithm of their room |
//! | 2 | entries that were ever in use |
//!
//! An entry is a number of bytes, 0 if it is free; an address; and the two words by which a peer
//! opens the memory ([`PublishedBuffer`](mica_channel::direct::PublishedBuffer)). The head lies
//! before the first entry of the first table. Entries move to a table twice as large when all are
//! in use; the old one stays until the window is freed, since an origin may still read it.
//!
//! SYNC attachments: all words are accessed by atomics with Acquire and Release. The owner writes
//! an entry's bytes after its other words, and the version last. An origin reads the version, of
//! each entry the bytes first, and the version again: if it is the same, no entry was used twice
//! meanwhile, and one with bytes is whole. What an origin misses was attached later: the program
//! orders an attachment before the operations on it, since the target sends the address.

use std::sync::{Mutex, OnceLock};

use mica_memory::{AtomicWidth, Region, RegionRef};
use mica_node::window::{PartUser, SharedWindow};
use mica_protocol::Engine;

use mica_objects::error::Result;
use mica_objects::process;
use mica_objects::sync::lock;

const VERSION: usize = 0;
const TABLE: usize = 1;
const USED: usize = 2;

const WORD: usize = 8;
/// Words of an entry.
const ENTRY: usize = 4;
/// The head takes the place of one.
const FIRST_ENTRY: u32 = 1;
/// Logarithm of the entries of the first table: 32 KiB, which stay mapped for the next window.
const FIRST: u32 = 10;
/// The bits of [`TABLE`] that are the logarithm: parts of a zone begin on pages.
const LOGARITHM: u64 = 0xff;

/// What a peer needs to reach attached memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TableEntry {
    pub address: usize,
    pub bytes: usize,
    /// By which a peer opens it.
    pub words: [u64; 2],
}

/// The table as its owner writes it, one thread at a time.
#[derive(Debug)]
pub(crate) struct AttachmentTable {
    /// All tables so far: the first has the head, the last the entries.
    tables: Vec<SharedWindow>,
    head: Region,
    entries: Region,
    logarithm: u32,
    /// As in the head, which the owner alone writes.
    version: u64,
    used: u32,
}

impl AttachmentTable {
    /// A table without entries.
    ///
    /// # Errors
    /// `MPI_ERR_NO_MEM`.
    pub fn new(engine: &Engine) -> Result<AttachmentTable> {
        let first = allocate(engine, FIRST)?;
        let (head, entries) = (first.region(), first.region());
        let tables = vec![first];
        let table =
            AttachmentTable { tables, head, entries, logarithm: FIRST, version: 0, used: 0 };
        table.announce_table();
        Ok(table)
    }

    /// Where its head lies in this rank's zone.
    pub fn offset(&self) -> u64 {
        self.tables[0].offset()
    }

    /// Makes room for the entry `at`, if all before it are there.
    ///
    /// # Errors
    /// `MPI_ERR_NO_MEM`; then nothing has changed.
    #[inline]
    pub fn reserve(&mut self, engine: &Engine, at: u32) -> Result<()> {
        match (at + FIRST_ENTRY) >> self.logarithm {
            0 => Ok(()),
            _ => self.grow(engine),
        }
    }

    #[cold]
    fn grow(&mut self, engine: &Engine) -> Result<()> {
        let larger = allocate(engine, self.logarithm + 1)?;
        let entries = larger.region();
        let bytes = table_bytes(self.logarithm);
        self.entries.at(0).copy_to(entries.at(0), bytes);
        self.entries = entries;
        self.logarithm += 1;
        self.tables.push(larger);
        self.announce_table();
        self.announce_change();
        Ok(())
    }

    /// Writes the entry `at`, for which there is [room](Self::reserve), and which is free, or had
    /// the same address and bytes.
    #[inline]
    pub fn put(&mut self, at: u32, entry: &TableEntry) {
        // Bounds of a constant size: of the words one by one nothing is left to check.
        let place = self.entries.piece(offset(at), ENTRY * WORD).expect("there is room");
        let [first, second] = entry.words;
        // SYNC attachments: the bytes last.
        for (word, value) in [(1, entry.address as u64), (2, first), (3, second)] {
            store(place.at(word * WORD), value);
        }
        store(place, entry.bytes as u64);
        if at >= self.used {
            self.used = at + 1;
            store(self.head.at(USED * WORD), u64::from(self.used));
        }
        self.announce_change();
    }

    /// Frees the entry `at`.
    #[inline]
    pub fn clear(&mut self, at: u32) {
        store(self.entries.at(offset(at)), 0);
        self.announce_change();
    }

    fn announce_table(&self) {
        let last = self.tables.last().expect("there is a first one");
        let table = last.offset() | u64::from(self.logarithm);
        store(self.head.at(TABLE * WORD), table);
    }

    /// SYNC attachments: what has changed comes before the version.
    #[inline]
    fn announce_change(&mut self) {
        self.version += 1;
        let head = self.head.piece(0, ENTRY * WORD).expect("the head is there");
        store(head.at(VERSION * WORD), self.version);
    }
}

/// The table of a peer, as this rank reads it.
#[derive(Debug)]
pub(crate) struct PeerAttachmentTable {
    /// Job-wide rank.
    rank: u32,
    /// Where its head lies in the owner's zone.
    offset: u64,
    /// The first table, mapped when it is first read. Keeps it mapped.
    first: OnceLock<Region>,
    /// A later table, and the head's word that names it.
    later: Mutex<Option<(u64, Region)>>,
}

impl PeerAttachmentTable {
    /// The table of `rank`, whose head lies at `offset` of its zone.
    pub fn new(rank: u32, offset: u64) -> PeerAttachmentTable {
        PeerAttachmentTable { rank, offset, first: OnceLock::new(), later: Mutex::default() }
    }

    #[inline]
    fn first(&self) -> Result<&Region> {
        match self.first.get() {
            Some(first) => Ok(first),
            None => self.open(),
        }
    }

    #[cold]
    fn open(&self) -> Result<&Region> {
        let (bytes, user) = (table_bytes(FIRST), PartUser::Library);
        let first = process::engine()?.open_window(self.rank, self.offset, bytes, user)?;
        Ok(self.first.get_or_init(|| first.region()))
    }

    /// The owner's rank in the job.
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// Changes whenever the table does.
    ///
    /// # Errors
    /// `MPI_ERR_NO_MEM`, the first time.
    #[inline]
    pub fn version(&self) -> Result<u64> {
        Ok(load(self.first()?.at(VERSION * WORD)))
    }

    /// The entries by number, `None` for those that are free, and the version that they are of.
    ///
    /// # Errors
    /// `MPI_ERR_NO_MEM`.
    pub fn read(&self, engine: &Engine) -> Result<(u64, Vec<Option<TableEntry>>)> {
        loop {
            // SYNC attachments
            let version = self.version()?;
            let entries = self.read_entries(engine)?;
            if self.version()? == version {
                return Ok((version, entries));
            }
            std::thread::yield_now();
        }
    }

    fn read_entries(&self, engine: &Engine) -> Result<Vec<Option<TableEntry>>> {
        let first = self.first()?;
        let named = load(first.at(TABLE * WORD));
        let logarithm = (named & LOGARITHM) as u32;
        let mut later = lock(&self.later);
        let table = match &*later {
            _ if logarithm == FIRST => first,
            Some((known, later)) if *known == named => later,
            _ => {
                let bytes = table_bytes(logarithm);
                let opened =
                    engine.open_window(self.rank, named & !LOGARITHM, bytes, PartUser::Library)?;
                &later.insert((named, opened.region())).1
            }
        };
        let room = (1 << logarithm) - FIRST_ENTRY;
        let used = (load(first.at(USED * WORD)) as u32).min(room);
        let entry = |at: u32| {
            let place = table.at(offset(at));
            // SYNC attachments: the bytes first.
            let bytes = load(place) as usize;
            let [address, first, second] = [1, 2, 3].map(|word| load(place.at(word * WORD)));
            let entry = TableEntry { address: address as usize, bytes, words: [first, second] };
            (bytes > 0).then_some(entry)
        };
        Ok((0..used).map(entry).collect())
    }
}

fn table_bytes(logarithm: u32) -> usize {
    (ENTRY * WORD) << logarithm
}

fn allocate(engine: &Engine, logarithm: u32) -> Result<SharedWindow> {
    Ok(engine.allocate_window(table_bytes(logarithm), PartUser::Library)?)
}

/// Where the entry with a number lies in its table.
#[inline]
fn offset(at: u32) -> usize {
    (at + FIRST_ENTRY) as usize * ENTRY * WORD
}

#[inline]
fn load(word: RegionRef<'_>) -> u64 {
    word.atomic_load(AtomicWidth::Eight)
}

#[inline]
fn store(word: RegionRef<'_>, value: u64) {
    word.atomic_store(AtomicWidth::Eight, value);
}
