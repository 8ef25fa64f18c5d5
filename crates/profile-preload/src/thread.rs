//! What a thread records. Its tables belong to it alone; they lie in the records' memory
//! (`memory`), where they are read when the process has ended.

use std::cell::{Cell, UnsafeCell};
use std::ffi::c_int;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};

use mica_profile::rank_tables::{
    ArrivalEntry, CallTotals, FileTotals, MessageTotals, NO_RANK, SPANS_VARIABLE, SpanEntry,
    SpanKind, ThreadHead,
};

use crate::comm::{self, CommInfo};
use crate::list::RecordList;
use crate::memory::{self, Record};
use crate::resolve::pmpi;
use crate::spans::{SpanList, add};
use crate::stacks::StackCache;
use crate::table::RecordTable;
use crate::types::{MPI_Datatype, SUCCESS};

/// Intervals that a thread keeps, unless [`SPANS_VARIABLE`] says otherwise: 64 bytes each.
const SPANS: usize = 10_000;

/// Arrivals at collectives that a thread keeps: 56 bytes each.
pub const ARRIVALS: usize = 50_000;

/// Sizes of datatypes that a thread remembers.
const DATATYPES: usize = 64;

/// Communicators that a thread remembers.
const COMMS: usize = 8;

// SAFETY: numbers, of which all may be zero.
unsafe impl Record for CallTotals {}
// SAFETY: as above.
unsafe impl Record for MessageTotals {}
// SAFETY: as above.
unsafe impl Record for FileTotals {}
// SAFETY: as above.
unsafe impl Record for SpanEntry {}
// SAFETY: as above.
unsafe impl Record for ArrivalEntry {}

/// The tables of one thread.
pub struct Tables {
    /// By number of the call and site.
    pub calls: RecordTable<CallTotals>,
    /// By number of the call and size class, and the receiver's world rank (`COLLECTIVE`).
    pub messages: RecordTable<MessageTotals>,
    /// Blocks of collectives, by receiver.
    pub blocks: RecordTable<MessageTotals>,
    /// Blocks of collectives to all of a group, by its number.
    pub group_blocks: RecordTable<MessageTotals>,
    /// By number of the file's name, and call and size class.
    pub files: RecordTable<FileTotals>,
    /// The time line.
    pub spans: SpanList,
    /// Stacks that were walked.
    pub stacks: StackCache,
    arrivals: RecordList<ArrivalEntry>,
    head: &'static ThreadHead,
    /// When to read the clocks again, in ticks.
    pub next_reading: u64,
    datatypes: [(MPI_Datatype, u64); DATATYPES],
    datatypes_generation: u64,
    comms: [Option<(usize, &'static CommInfo)>; COMMS],
    comms_generation: u64,
}

/// A thread that has called MPI. Never freed.
pub struct Thread {
    /// What it is in, for a reader of the file.
    pub head: &'static ThreadHead,
    /// Whether the thread is inside a call that is timed: a call that the library makes by its
    /// public name, or a callback of the program, is part of that call.
    pub inside: Cell<bool>,
    tables: UnsafeCell<Tables>,
}

/// The number of threads.
static THREADS: Mutex<u64> = Mutex::new(0);
static DATATYPES_GENERATION: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static CURRENT: Cell<Option<&'static Thread>> = const { Cell::new(None) };
}

/// The calling thread. `None` if there is no memory for its records.
#[inline]
pub fn current() -> Option<&'static Thread> {
    CURRENT.get().or_else(register)
}

#[cold]
fn register() -> Option<&'static Thread> {
    let head = new_head()?;
    let tables = UnsafeCell::new(Tables::new(head));
    let thread: &'static Thread =
        Box::leak(Box::new(Thread { head, inside: Cell::new(false), tables }));
    CURRENT.set(Some(thread));
    Some(thread)
}

/// A thread's head in the file, linked with those before it.
pub fn new_head() -> Option<&'static ThreadHead> {
    let mut threads = THREADS.lock().expect("no panic while locked");
    let file = memory::head()?;
    let block = memory::allocate(size_of::<ThreadHead>())?;
    // SAFETY: the block is as large, aligned and zero, which is a value of the type; it is never
    // freed.
    let head: &'static ThreadHead = unsafe { &*block.start.cast() };
    // Relaxed: under the lock.
    head.older.store(file.newest_thread.load(Ordering::Relaxed), Ordering::Relaxed);
    head.number.store(*threads, Ordering::Relaxed);
    // Release: the head before the word that leads to it.
    file.newest_thread.store(block.at, Ordering::Release);
    *threads += 1;
    Some(head)
}

/// A datatype is about to be freed.
pub fn forget_datatypes() {
    // Relaxed: a thread that uses a new type under the same handle has synchronised with the one
    // that freed and made it.
    DATATYPES_GENERATION.fetch_add(1, Ordering::Relaxed);
}

/// How many intervals a thread keeps.
fn max_spans() -> usize {
    static MAX: OnceLock<usize> = OnceLock::new();
    *MAX.get_or_init(|| {
        let text = std::env::var(SPANS_VARIABLE).ok();
        text.and_then(|text| text.parse().ok()).unwrap_or(SPANS)
    })
}

impl Thread {
    /// Runs `f` on the tables. By the thread itself, and not within `f`.
    #[inline]
    pub fn with<T>(&self, f: impl FnOnce(&mut Tables) -> T) -> T {
        // SAFETY: this is the thread that `current` gave, since `Thread` is not `Sync`; `inside`
        // keeps a call within the call from coming here.
        f(unsafe { &mut *self.tables.get() })
    }

    /// A call begins.
    #[inline(always)]
    pub fn enter(&self, id: u16, caller: usize, now: u64) {
        // Relaxed, and Release for the word that makes the others valid: read after the end.
        self.head.caller.store(caller as u64, Ordering::Relaxed);
        self.head.entered.store(now, Ordering::Relaxed);
        self.head.call.store(u64::from(id) + 1, Ordering::Release);
    }

    /// The call has been recorded.
    #[inline(always)]
    pub fn leave(&self, end: u64) {
        self.head.left.store(end, Ordering::Relaxed);
        self.head.call.store(0, Ordering::Release);
        self.inside.set(false);
    }
}

impl Tables {
    fn new(head: &'static ThreadHead) -> Tables {
        Tables {
            calls: RecordTable::new(&head.calls),
            messages: RecordTable::new(&head.messages),
            blocks: RecordTable::new(&head.blocks),
            group_blocks: RecordTable::new(&head.group_blocks),
            files: RecordTable::new(&head.files),
            spans: SpanList::new(head, max_spans()),
            stacks: StackCache::default(),
            arrivals: RecordList::new(&head.arrivals),
            head,
            next_reading: 0,
            datatypes: [(0, 0); DATATYPES],
            datatypes_generation: 0,
            comms: [None; COMMS],
            comms_generation: 0,
        }
    }

    /// Time in a call.
    #[inline]
    pub fn add_time(&self, ns: u64) {
        add(&self.head.mpi_ns, ns);
    }

    /// Bytes of an element. The datatype is valid: a call with it succeeded.
    #[inline]
    pub fn type_size(&mut self, datatype: MPI_Datatype) -> u64 {
        let generation = DATATYPES_GENERATION.load(Ordering::Relaxed);
        if self.datatypes_generation != generation {
            self.datatypes_generation = generation;
            self.datatypes = [(0, 0); DATATYPES];
        }
        let slot = (datatype ^ datatype >> 6) % DATATYPES;
        let (known, size) = self.datatypes[slot];
        if known == datatype {
            return size;
        }
        let mut size: i64 = 0;
        // SAFETY: the datatype is valid.
        let code =
            unsafe { pmpi!(c"MPI_Type_size_c"(datatype => MPI_Datatype, &mut size => *mut i64)) };
        let size = if code == SUCCESS { size.max(0) as u64 } else { 0 };
        self.datatypes[slot] = (datatype, size);
        size
    }

    /// What is known of a communicator (`find` is `comm::info`) or window (`comm::window`).
    #[inline]
    pub fn comm(
        &mut self,
        handle: usize,
        find: fn(usize) -> Option<&'static CommInfo>,
    ) -> Option<&'static CommInfo> {
        let generation = comm::generation();
        if self.comms_generation != generation {
            self.comms_generation = generation;
            self.comms = [None; COMMS];
        }
        let slot = (handle ^ handle >> 4) % COMMS;
        match self.comms[slot] {
            Some((known, info)) if known == handle => Some(info),
            _ => {
                let info = find(handle)?;
                self.comms[slot] = Some((handle, info));
                Some(info)
            }
        }
    }

    /// Keeps an arrival, if there is room.
    pub fn keep_arrival(&mut self, arrival: ArrivalEntry) {
        match self.arrivals.len() < ARRIVALS {
            true => {
                self.arrivals.push(arrival);
            }
            false => add(&self.head.dropped_arrivals, 1),
        }
    }

    /// Keeps a time in which nothing was recorded.
    pub fn keep_pause(&mut self, start: u64, end: u64) {
        self.spans.keep(SpanEntry {
            start,
            end,
            site: 0,
            bytes: 0,
            peer: NO_RANK,
            call_and_kind: SpanEntry::pack(0, SpanKind::Paused),
            more: [0; 3],
        });
    }
}
