//! What a thread records. Its tables belong to it alone until the end of the process, when
//! `write` reads those of all threads: a lock that is free until then keeps a thread that still
//! runs from changing them meanwhile.

use std::cell::{Cell, UnsafeCell};
use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};

use crate::comm::{self, CommInfo};
use crate::resolve::pmpi;
use crate::stacks::StackCache;
use crate::table::RecordTable;
use crate::traffic::TagPair;
use crate::types::{MPI_Datatype, SUCCESS};

/// Intervals that a thread keeps, unless `MICA_PROFILE_SPANS` says otherwise: 64 bytes each.
const SPANS: usize = 10_000;

/// Arrivals at collectives that a thread keeps: 56 bytes each.
pub const ARRIVALS: usize = 50_000;

/// Sizes of datatypes that a thread remembers.
const DATATYPES: usize = 64;

/// Communicators that a thread remembers.
const COMMS: usize = 8;

/// Duration classes: 2^47 ns are 39 hours.
pub const DURATIONS: usize = 48;

/// Calls of one function at one site.
#[derive(Clone)]
pub struct CallStat {
    pub count: u64,
    pub time_ns: u64,
    pub min_ns: u64,
    pub max_ns: u64,
    pub sends: u64,
    pub bytes: u64,
    pub comm_size: u32,
    pub durations: [u32; DURATIONS],
}

impl Default for CallStat {
    fn default() -> CallStat {
        CallStat {
            count: 0,
            time_ns: 0,
            min_ns: u64::MAX,
            max_ns: 0,
            sends: 0,
            bytes: 0,
            comm_size: 0,
            durations: [0; DURATIONS],
        }
    }
}

/// Messages and their bytes.
#[derive(Clone, Copy, Default)]
pub struct MessageAmount {
    pub messages: u64,
    pub bytes: u64,
}

/// One call on the time line; times in ticks.
pub struct Span {
    pub start: u64,
    pub end: u64,
    pub site: u64,
    pub bytes: u64,
    pub peer: u32,
    pub id: u16,
    /// What its message matches by.
    pub envelope: Option<SpanEnvelope>,
}

const _: () = assert!(size_of::<Span>() == 64);

/// What the messages of a call match by besides the ranks.
#[derive(Clone, Copy)]
pub struct SpanEnvelope {
    /// The communicator's key.
    pub comm: u64,
    pub tags: TagPair,
}

/// The arrival at one blocking collective; times in ticks.
pub struct CollectiveArrival {
    pub comm: &'static CommInfo,
    pub sequence: u64,
    pub start: u64,
    pub end: u64,
    pub site: u64,
    /// World rank, `u32::MAX` if it has none.
    pub root: u32,
    pub id: u16,
    /// Who waits for whom.
    pub kind: WaitingRule,
}

/// Who waits for whom in a collective.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum WaitingRule {
    /// All for all.
    All,
    /// The others for the root.
    ForRoot,
    /// The root for all.
    Root,
}

/// The tables of one thread.
pub struct Tables {
    /// By number of the call and site.
    pub calls: RecordTable<CallStat>,
    /// By number of the call and size class, and the receiver's world rank ([`COLLECTIVE`]).
    pub messages: RecordTable<MessageAmount>,
    /// Blocks of collectives, by receiver.
    pub blocks: RecordTable<MessageAmount>,
    /// Blocks of collectives to all members, by address of the communicator's description.
    pub blocks_to_all: RecordTable<MessageAmount>,
    /// The first calls.
    pub spans: Vec<Span>,
    /// Calls that were not kept.
    pub dropped_spans: u64,
    /// The first arrivals at collectives.
    pub arrivals: Vec<CollectiveArrival>,
    /// Arrivals that were not kept.
    pub dropped_arrivals: u64,
    /// Time in all calls.
    pub mpi_ns: u64,
    /// Stacks that were walked.
    pub stacks: StackCache,
    datatypes: [(MPI_Datatype, u64); DATATYPES],
    datatypes_generation: u64,
    comms: [Option<(usize, &'static CommInfo)>; COMMS],
    comms_generation: u64,
}

/// In place of a receiver, for collectives.
pub const COLLECTIVE: u64 = u64::MAX;

/// A thread that has called MPI. Never freed.
pub struct Thread {
    /// 0 for the first.
    pub number: u32,
    locked: AtomicBool,
    /// Whether the thread is inside a call that is timed: a call that the library makes by its
    /// public name, or a callback of the program, is part of that call.
    pub inside: Cell<bool>,
    tables: UnsafeCell<Tables>,
}

// SAFETY: `inside` is used by the thread itself alone, `tables` by the holder of `locked`.
unsafe impl Sync for Thread {}

static THREADS: Mutex<Vec<&'static Thread>> = Mutex::new(Vec::new());
static DATATYPES_GENERATION: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static CURRENT: Cell<Option<&'static Thread>> = const { Cell::new(None) };
}

/// The calling thread.
#[inline]
pub fn current() -> &'static Thread {
    CURRENT.get().unwrap_or_else(register)
}

#[cold]
fn register() -> &'static Thread {
    let mut threads = THREADS.lock().expect("no panic while locked");
    let thread: &'static Thread = Box::leak(Box::new(Thread {
        number: threads.len() as u32,
        locked: AtomicBool::new(false),
        inside: Cell::new(false),
        tables: UnsafeCell::new(Tables::new()),
    }));
    threads.push(thread);
    CURRENT.set(Some(thread));
    thread
}

/// All threads so far.
pub fn all() -> Vec<&'static Thread> {
    THREADS.lock().expect("no panic while locked").clone()
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
        let text = std::env::var("MICA_PROFILE_SPANS").ok();
        text.and_then(|text| text.parse().ok()).unwrap_or(SPANS)
    })
}

impl Thread {
    /// Runs `f` on the tables, if no other thread has them.
    #[inline]
    pub fn with<T>(&self, f: impl FnOnce(&mut Tables) -> T) -> Option<T> {
        // Acquire and Release: the tables, from one holder to the next.
        if self.locked.swap(true, Ordering::Acquire) {
            return None;
        }
        // SAFETY: the lock is held.
        let result = f(unsafe { &mut *self.tables.get() });
        self.locked.store(false, Ordering::Release);
        Some(result)
    }
}

impl Tables {
    fn new() -> Tables {
        Tables {
            calls: RecordTable::new(),
            messages: RecordTable::new(),
            blocks: RecordTable::new(),
            blocks_to_all: RecordTable::new(),
            spans: Vec::new(),
            dropped_spans: 0,
            arrivals: Vec::new(),
            dropped_arrivals: 0,
            mpi_ns: 0,
            stacks: StackCache::default(),
            datatypes: [(0, 0); DATATYPES],
            datatypes_generation: 0,
            comms: [None; COMMS],
            comms_generation: 0,
        }
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

    /// Keeps an interval, if there is room.
    #[inline]
    pub fn keep_span(&mut self, span: Span) {
        match self.spans.len() < max_spans() {
            true => self.spans.push(span),
            false => self.dropped_spans += 1,
        }
    }

    /// Keeps an arrival, if there is room.
    pub fn keep_arrival(&mut self, arrival: CollectiveArrival) {
        match self.arrivals.len() < ARRIVALS {
            true => self.arrivals.push(arrival),
            false => self.dropped_arrivals += 1,
        }
    }
}
