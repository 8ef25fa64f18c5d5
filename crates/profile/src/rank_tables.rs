//! The tables of a rank as they lie in memory and in a file: what the profiler's library counts in
//! a mapped file, and what `mica profile` reads of it when the rank has ended, however it ended.
//!
//! The file begins with a [`TablesHead`]; all else is found from there by offsets in bytes. Each
//! thread that calls MPI has a [`ThreadHead`], which the one before it names; that has hash tables
//! ([`packed_table`]) and lists ([`ListHead`]). Fields that are written while others may read are
//! words of 64 bits in the byte order of the machine.
//!
//! Memory ordering: the reader comes after the writer has ended, so it sees every store that the
//! writer made, in program order. A table that grows is complete before its offset is stored, an
//! entry of a list before the list's length is. A call that is being recorded when the process is
//! killed may be counted in part.

use std::mem::offset_of;
use std::sync::atomic::AtomicU64;

/// The environment variable that names the directory of the records, and so asks for them.
pub const DIRECTORY_VARIABLE: &str = "MICA_PROFILE_DIR";

/// The environment variable that says how many intervals a thread keeps.
pub const SPANS_VARIABLE: &str = "MICA_PROFILE_SPANS";

/// The environment variable in which Mica's launcher gives a profiled rank the name of its job.
pub const JOB_VARIABLE: &str = "MICA_PROFILE_JOB";

/// The first word of a file: its form, with a version.
pub const MAGIC: u64 = u64::from_ne_bytes(*b"micatab2");

/// Duration classes: 2^47 ns are 39 hours.
pub const DURATIONS: usize = 48;

/// Chunks of a list: 2^31 times [`FIRST_CHUNK`] entries.
pub const CHUNKS: usize = 32;

/// Entries of a list's first chunk; each following chunk has twice as many as the one before.
pub const FIRST_CHUNK: usize = 64;

/// In place of a rank: none.
pub const NO_RANK: u32 = u32::MAX;

/// In place of a receiver, for collectives.
pub const COLLECTIVE: u64 = u64::MAX;

/// The bits of a table's word that hold the logarithm of its capacity; the others are its offset.
const CAPACITY_BITS: u64 = 0x3f;

/// The start of the file.
#[repr(C)]
pub struct TablesHead {
    /// [`MAGIC`].
    pub magic: AtomicU64,
    /// Offset of the newest thread's head; 0 if there is none.
    pub newest_thread: AtomicU64,
    /// 1 if ticks are those of the processor's counter, 0 if they are nanoseconds.
    pub has_counter: AtomicU64,
    /// Ticks at which recording was paused; 0 if it is not.
    pub paused: AtomicU64,
    /// Nanoseconds in a tick times 2^32, as measured at the start.
    pub factor: AtomicU64,
    /// Ticks and nanoseconds at the start.
    pub origin: [AtomicU64; 2],
    /// Which of `later` was read last, plus 1; 0 for none.
    pub latest: AtomicU64,
    /// Ticks and nanoseconds at two later times.
    pub later: [[AtomicU64; 2]; 2],
}

/// A thread.
#[repr(C)]
pub struct ThreadHead {
    /// Offset of the thread before it; 0 if there is none.
    pub older: AtomicU64,
    /// 0 for the first.
    pub number: AtomicU64,
    /// Number of the call that it is in, plus 1; 0 if it is in none.
    pub call: AtomicU64,
    /// Where that call returns to, and when it was entered.
    pub caller: AtomicU64,
    /// Ticks at the entry of that call.
    pub entered: AtomicU64,
    /// Ticks at the end of the last call.
    pub left: AtomicU64,
    /// Time in all calls that have ended.
    pub mpi_ns: AtomicU64,
    /// Calls that are on no time line: none is kept.
    pub unkept_spans: AtomicU64,
    /// Arrivals at collectives that were not kept.
    pub dropped_arrivals: AtomicU64,
    /// Calls by number and site: [`CallTotals`].
    pub calls: AtomicU64,
    /// Messages by call, class and receiver: [`MessageTotals`].
    pub messages: AtomicU64,
    /// Blocks of collectives by receiver: [`MessageTotals`].
    pub blocks: AtomicU64,
    /// Blocks of collectives to all of a group, by its number: [`MessageTotals`].
    pub group_blocks: AtomicU64,
    /// Calls on files by the file's number, and call and class: [`FileTotals`].
    pub files: AtomicU64,
    /// [`SpanEntry`].
    pub spans: ListHead,
    /// While spans are being joined: those from the first of these to the second are void. The
    /// second is 0 at other times.
    pub void_spans: [AtomicU64; 2],
    /// [`ArrivalEntry`].
    pub arrivals: ListHead,
}

/// A list in chunks.
#[repr(C)]
pub struct ListHead {
    /// Number of entries.
    pub length: AtomicU64,
    /// Offset of each chunk.
    pub chunks: [AtomicU64; CHUNKS],
}

/// An entry of a hash table. A key whose first word is 0 is none.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct TotalsEntry<V> {
    /// The first number of the key plus 1, and the second.
    pub key: [u64; 2],
    /// What is counted.
    pub value: V,
}

/// Calls of one function at one site.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CallTotals {
    /// Number of calls.
    pub count: u64,
    /// Sum of their times.
    pub time_ns: u64,
    /// Shortest.
    pub min_ns: u64,
    /// Longest.
    pub max_ns: u64,
    /// Those that sent data.
    pub sends: u64,
    /// Bytes sent.
    pub bytes: u64,
    /// Size of the last call's communicator, 0 for none.
    pub comm_size: u64,
    /// Calls by the logarithm of their duration.
    pub durations: [u32; DURATIONS],
}

/// Messages and their bytes.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct MessageTotals {
    /// Messages.
    pub messages: u64,
    /// Bytes.
    pub bytes: u64,
}

/// Calls on a file.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct FileTotals {
    /// Calls.
    pub calls: u64,
    /// Bytes that they read or write.
    pub bytes: u64,
    /// Sum of their times.
    pub time_ns: u64,
    /// Accesses that begin where the last one of the rank ended.
    pub following: u64,
}

/// What a [`SpanEntry`] stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum SpanKind {
    /// A call.
    Call = 0,
    /// A call with a message: `more` is the communicator's key and the tag.
    Tagged = 1,
    /// A call that sends and receives: the tag of what it receives is the third of `more`.
    TaggedTwice = 2,
    /// Several short calls: `more` is their number, the ticks in them and those of the longest,
    /// whose call, site and peer these are.
    Joined = 3,
    /// Nothing was recorded (`MPI_Pcontrol`).
    Paused = 4,
}

/// An interval of the time line; times in ticks.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SpanEntry {
    /// Start.
    pub start: u64,
    /// End.
    pub end: u64,
    /// Call site.
    pub site: u64,
    /// Bytes sent.
    pub bytes: u64,
    /// The other rank in the world, or [`NO_RANK`].
    pub peer: u32,
    /// Number of the call in the low half, [`SpanKind`] above.
    pub call_and_kind: u32,
    /// By kind.
    pub more: [u64; 3],
}

const _: () = assert!(size_of::<SpanEntry>() == 64);

/// Who waits for whom in a collective.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum WaitingRule {
    /// All for all.
    All = 0,
    /// All for the root.
    ForRoot = 1,
    /// The root for all.
    Root = 2,
}

/// A blocking collective: when the rank came and when it left, in ticks.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ArrivalEntry {
    /// Key of the communicator, equal on its members.
    pub comm: u64,
    /// Number of the collective on it.
    pub sequence: u64,
    /// Entry of the call.
    pub start: u64,
    /// Its end.
    pub end: u64,
    /// Call site.
    pub site: u64,
    /// Members of the communicator.
    pub size: u32,
    /// Root in the world, or [`NO_RANK`].
    pub root: u32,
    /// Number of the call.
    pub call: u32,
    /// [`WaitingRule`].
    pub rule: u32,
}

/// The word of a table: where its entries are and how many there is room for, 2^`log2` of them.
pub const fn packed_table(offset: u64, log2: u32) -> u64 {
    offset | log2 as u64
}

/// Chunk of a list's entry, and its place in the chunk.
#[inline]
pub const fn chunk_of(index: usize) -> (usize, usize) {
    let chunk = (index / FIRST_CHUNK + 1).ilog2() as usize;
    (chunk, index - FIRST_CHUNK * ((1 << chunk) - 1))
}

impl SpanEntry {
    /// Number of the call.
    pub const fn call(&self) -> u16 {
        self.call_and_kind as u16
    }

    /// What it stands for; `None` in a file that is broken.
    pub const fn kind(&self) -> Option<SpanKind> {
        Some(match self.call_and_kind >> 16 {
            0 => SpanKind::Call,
            1 => SpanKind::Tagged,
            2 => SpanKind::TaggedTwice,
            3 => SpanKind::Joined,
            4 => SpanKind::Paused,
            _ => return None,
        })
    }

    /// The word for a call and a kind.
    pub const fn pack(call: u16, kind: SpanKind) -> u32 {
        call as u32 | (kind as u32) << 16
    }
}

impl ArrivalEntry {
    /// Who waits for whom; `None` in a file that is broken.
    pub const fn waiting(&self) -> Option<WaitingRule> {
        Some(match self.rule {
            0 => WaitingRule::All,
            1 => WaitingRule::ForRoot,
            2 => WaitingRule::Root,
            _ => return None,
        })
    }
}

/// From ticks to `CLOCK_MONOTONIC`: a line through a reading of both clocks at the start and a
/// later one.
#[derive(Debug, Clone, Copy)]
pub struct TickLine {
    has_counter: bool,
    origin: [u64; 2],
    ns_per_tick: f64,
}

/// Over less than this (nanoseconds) the scale that was measured at the start is the better one.
const LONG_LINE: u64 = 2_000_000;

impl TickLine {
    /// A point in time.
    pub fn ns(&self, ticks: u64) -> u64 {
        if !self.has_counter {
            return ticks;
        }
        let since = ticks.wrapping_sub(self.origin[0]) as i64;
        self.origin[1].saturating_add_signed((since as f64 * self.ns_per_tick) as i64)
    }

    /// A duration.
    pub fn duration_ns(&self, ticks: u64) -> u64 {
        if self.has_counter { (ticks as f64 * self.ns_per_tick) as u64 } else { ticks }
    }
}

/// What a process left.
#[derive(Debug)]
pub struct RankTables {
    /// Its clock.
    pub clock: TickLine,
    /// Ticks at which recording was paused, if it was at the end.
    pub paused: Option<u64>,
    /// Its threads, the first first.
    pub threads: Vec<ThreadTables>,
}

/// The call that a thread was in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InterruptedCall {
    /// Its number.
    pub call: u16,
    /// Where it returns to.
    pub caller: u64,
    /// Ticks at its entry.
    pub entered: u64,
}

/// What a thread left.
#[derive(Debug, Default)]
pub struct ThreadTables {
    /// 0 for the first.
    pub number: u32,
    /// The call that it was in.
    pub running: Option<InterruptedCall>,
    /// Ticks at the end of its last call.
    pub left: u64,
    /// Time in calls that have ended.
    pub mpi_ns: u64,
    /// Calls that are on no time line.
    pub unkept_spans: u64,
    /// Arrivals that were not kept.
    pub dropped_arrivals: u64,
    /// By number of the call and site.
    pub calls: Vec<([u64; 2], CallTotals)>,
    /// By number of the call times 256 plus class, and receiver ([`COLLECTIVE`]).
    pub messages: Vec<([u64; 2], MessageTotals)>,
    /// By receiver.
    pub blocks: Vec<([u64; 2], MessageTotals)>,
    /// By number of the group.
    pub group_blocks: Vec<([u64; 2], MessageTotals)>,
    /// By number of the file's name, and number of the call times 256 plus class.
    pub files: Vec<([u64; 2], FileTotals)>,
    /// The time line.
    pub spans: Vec<SpanEntry>,
    /// Arrivals at collectives.
    pub arrivals: Vec<ArrivalEntry>,
}

impl RankTables {
    /// Those of a rank that has recorded nothing, with a clock of nanoseconds.
    pub fn empty() -> RankTables {
        let clock = TickLine { has_counter: false, origin: [0; 2], ns_per_tick: 1.0 };
        RankTables { clock, paused: None, threads: Vec::new() }
    }

    /// Reads a file. `None` if it is none, or an offset leads out of it.
    pub fn read(bytes: &[u8]) -> Option<RankTables> {
        let file = FileBytes(bytes);
        if file.word(offset_of!(TablesHead, magic))? != MAGIC {
            return None;
        }
        let mut threads = Vec::new();
        let mut at = file.word(offset_of!(TablesHead, newest_thread))?;
        while at != 0 {
            let thread = file.thread(usize::try_from(at).ok()?)?;
            let older = file.word(at as usize + offset_of!(ThreadHead, older))?;
            // Each thread's head comes after the one before it, so that a chain has an end.
            if older >= at {
                return None;
            }
            threads.push(thread);
            at = older;
        }
        threads.reverse();
        let paused = Some(file.word(offset_of!(TablesHead, paused))?).filter(|ticks| *ticks > 0);
        Some(RankTables { clock: file.clock()?, paused, threads })
    }
}

/// A file, read by offset.
#[derive(Clone, Copy)]
struct FileBytes<'a>(&'a [u8]);

impl FileBytes<'_> {
    fn word(self, at: usize) -> Option<u64> {
        let bytes = self.0.get(at..at.checked_add(8)?)?;
        Some(u64::from_ne_bytes(bytes.try_into().ok()?))
    }

    fn half(self, at: usize) -> Option<u32> {
        let bytes = self.0.get(at..at.checked_add(4)?)?;
        Some(u32::from_ne_bytes(bytes.try_into().ok()?))
    }

    fn clock(self) -> Option<TickLine> {
        let pair = |at: usize| Some([self.word(at)?, self.word(at + 8)?]);
        let origin = pair(offset_of!(TablesHead, origin))?;
        let factor = self.word(offset_of!(TablesHead, factor))? as f64 / (1u64 << 32) as f64;
        let later = match self.word(offset_of!(TablesHead, latest))? {
            0 => origin,
            slot => pair(offset_of!(TablesHead, later) + 16 * (slot as usize - 1).min(1))?,
        };
        let (ticks, ns) = (later[0].wrapping_sub(origin[0]), later[1].saturating_sub(origin[1]));
        Some(TickLine {
            has_counter: self.word(offset_of!(TablesHead, has_counter))? != 0,
            origin,
            ns_per_tick: if ns >= LONG_LINE { ns as f64 / ticks as f64 } else { factor },
        })
    }

    fn thread(self, at: usize) -> Option<ThreadTables> {
        let word = |field: usize| self.word(at.checked_add(field)?);
        let call = word(offset_of!(ThreadHead, call))?;
        let void = offset_of!(ThreadHead, void_spans);
        let void = [word(void)? as usize, word(void + 8)? as usize];
        let spans = self.list(at + offset_of!(ThreadHead, spans), FileBytes::span)?;
        let is_valid = |index: usize| !(void[0]..void[1]).contains(&index);
        let spans = spans.into_iter().enumerate().filter(|(index, _)| is_valid(*index));
        Some(ThreadTables {
            number: word(offset_of!(ThreadHead, number))? as u32,
            running: match call {
                0 => None,
                call => Some(InterruptedCall {
                    call: (call - 1) as u16,
                    caller: word(offset_of!(ThreadHead, caller))?,
                    entered: word(offset_of!(ThreadHead, entered))?,
                }),
            },
            left: word(offset_of!(ThreadHead, left))?,
            mpi_ns: word(offset_of!(ThreadHead, mpi_ns))?,
            unkept_spans: word(offset_of!(ThreadHead, unkept_spans))?,
            dropped_arrivals: word(offset_of!(ThreadHead, dropped_arrivals))?,
            calls: self.table(word(offset_of!(ThreadHead, calls))?, FileBytes::totals)?,
            messages: self.table(word(offset_of!(ThreadHead, messages))?, FileBytes::amount)?,
            blocks: self.table(word(offset_of!(ThreadHead, blocks))?, FileBytes::amount)?,
            group_blocks: self
                .table(word(offset_of!(ThreadHead, group_blocks))?, FileBytes::amount)?,
            files: self.table(word(offset_of!(ThreadHead, files))?, FileBytes::file_totals)?,
            spans: spans.map(|(_, span)| span).collect(),
            arrivals: self.list(at + offset_of!(ThreadHead, arrivals), FileBytes::arrival)?,
        })
    }

    /// The entries of a table whose word this is.
    fn table<V>(
        self,
        packed: u64,
        value: fn(Self, usize) -> Option<V>,
    ) -> Option<Vec<([u64; 2], V)>> {
        let mut entries = Vec::new();
        if packed == 0 {
            return Some(entries);
        }
        let size = size_of::<TotalsEntry<V>>();
        let start = usize::try_from(packed & !CAPACITY_BITS).ok()?;
        let bytes = size.checked_mul(1usize.checked_shl((packed & CAPACITY_BITS) as u32)?)?;
        let end = start.checked_add(bytes)?;
        for at in (start..end).step_by(size) {
            let first = self.word(at)?;
            if first != 0 {
                let key = [first - 1, self.word(at + 8)?];
                entries.push((key, value(self, at + offset_of!(TotalsEntry<V>, value))?));
            }
        }
        Some(entries)
    }

    /// The entries of the list whose head this is.
    fn list<T>(self, head: usize, entry: fn(Self, usize) -> Option<T>) -> Option<Vec<T>> {
        let length = self.word(head + offset_of!(ListHead, length))?;
        // A length that no file of this size can have would be a loop without an end.
        let length = usize::try_from(length).ok().filter(|n| *n <= self.0.len())?;
        let mut entries = Vec::with_capacity(length);
        for index in 0..length {
            let (chunk, place) = chunk_of(index);
            if chunk >= CHUNKS {
                return None;
            }
            let start = self.word(head + offset_of!(ListHead, chunks) + 8 * chunk)?;
            let at = usize::try_from(start).ok()?.checked_add(place * size_of::<T>())?;
            entries.push(entry(self, at)?);
        }
        Some(entries)
    }

    fn totals(self, at: usize) -> Option<CallTotals> {
        let word = |field: usize| self.word(at + field);
        let mut durations = [0; DURATIONS];
        for (index, count) in durations.iter_mut().enumerate() {
            *count = self.half(at + offset_of!(CallTotals, durations) + 4 * index)?;
        }
        Some(CallTotals {
            count: word(offset_of!(CallTotals, count))?,
            time_ns: word(offset_of!(CallTotals, time_ns))?,
            min_ns: word(offset_of!(CallTotals, min_ns))?,
            max_ns: word(offset_of!(CallTotals, max_ns))?,
            sends: word(offset_of!(CallTotals, sends))?,
            bytes: word(offset_of!(CallTotals, bytes))?,
            comm_size: word(offset_of!(CallTotals, comm_size))?,
            durations,
        })
    }

    fn amount(self, at: usize) -> Option<MessageTotals> {
        Some(MessageTotals { messages: self.word(at)?, bytes: self.word(at + 8)? })
    }

    fn file_totals(self, at: usize) -> Option<FileTotals> {
        let word = |field: usize| self.word(at + field);
        Some(FileTotals {
            calls: word(offset_of!(FileTotals, calls))?,
            bytes: word(offset_of!(FileTotals, bytes))?,
            time_ns: word(offset_of!(FileTotals, time_ns))?,
            following: word(offset_of!(FileTotals, following))?,
        })
    }

    fn span(self, at: usize) -> Option<SpanEntry> {
        let more = offset_of!(SpanEntry, more);
        Some(SpanEntry {
            start: self.word(at + offset_of!(SpanEntry, start))?,
            end: self.word(at + offset_of!(SpanEntry, end))?,
            site: self.word(at + offset_of!(SpanEntry, site))?,
            bytes: self.word(at + offset_of!(SpanEntry, bytes))?,
            peer: self.half(at + offset_of!(SpanEntry, peer))?,
            call_and_kind: self.half(at + offset_of!(SpanEntry, call_and_kind))?,
            more: [self.word(at + more)?, self.word(at + more + 8)?, self.word(at + more + 16)?],
        })
    }

    fn arrival(self, at: usize) -> Option<ArrivalEntry> {
        Some(ArrivalEntry {
            comm: self.word(at + offset_of!(ArrivalEntry, comm))?,
            sequence: self.word(at + offset_of!(ArrivalEntry, sequence))?,
            start: self.word(at + offset_of!(ArrivalEntry, start))?,
            end: self.word(at + offset_of!(ArrivalEntry, end))?,
            site: self.word(at + offset_of!(ArrivalEntry, site))?,
            size: self.half(at + offset_of!(ArrivalEntry, size))?,
            root: self.half(at + offset_of!(ArrivalEntry, root))?,
            call: self.half(at + offset_of!(ArrivalEntry, call))?,
            rule: self.half(at + offset_of!(ArrivalEntry, rule))?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_follow_one_another() {
        assert_eq!(chunk_of(0), (0, 0));
        assert_eq!(chunk_of(FIRST_CHUNK - 1), (0, FIRST_CHUNK - 1));
        assert_eq!(chunk_of(FIRST_CHUNK), (1, 0));
        assert_eq!(chunk_of(3 * FIRST_CHUNK - 1), (1, 2 * FIRST_CHUNK - 1));
        assert_eq!(chunk_of(3 * FIRST_CHUNK), (2, 0));
    }

    /// A file whose words are these, from the given offsets on.
    fn file(words: &[(usize, u64)]) -> Vec<u8> {
        let mut bytes = vec![0; 8192];
        for &(at, word) in words {
            bytes[at..at + 8].copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }

    #[test]
    fn refuses_what_is_no_file_or_leads_out_of_it() {
        let thread = 1024;
        let good = [(0, MAGIC), (offset_of!(TablesHead, newest_thread), thread as u64)];
        let read = |more: &[(usize, u64)]| RankTables::read(&file(&[&good, more].concat()));
        assert_eq!(read(&[]).expect("a file").threads.len(), 1);
        assert!(RankTables::read(&file(&[])).is_none(), "no magic word");
        assert!(RankTables::read(&[]).is_none());
        for (field, word) in [
            (offset_of!(ThreadHead, older), thread as u64),
            (offset_of!(ThreadHead, calls), packed_table(1 << 40, 4)),
            (offset_of!(ThreadHead, calls), packed_table(64, 63)),
            (offset_of!(ThreadHead, spans), u64::MAX),
            (offset_of!(ThreadHead, spans), 8000),
        ] {
            assert!(read(&[(thread + field, word)]).is_none(), "{field}: {word}");
        }
    }

    #[test]
    fn a_line_starts_with_the_first_scale_and_ends_with_the_later_reading() {
        let line = |ticks: u64, ns: u64| {
            let words = [
                (0, MAGIC),
                (offset_of!(TablesHead, has_counter), 1),
                (offset_of!(TablesHead, factor), 1 << 31),
                (offset_of!(TablesHead, origin), 1000),
                (offset_of!(TablesHead, origin) + 8, 70_000),
                (offset_of!(TablesHead, latest), 2),
                (offset_of!(TablesHead, later) + 16, ticks),
                (offset_of!(TablesHead, later) + 24, ns),
            ];
            RankTables::read(&file(&words)).expect("a file").clock
        };
        // Half a nanosecond a tick at the start; a quarter over a long time.
        assert_eq!(line(2000, 70_500).ns(3000), 71_000);
        assert_eq!(line(1000 + 400_000_000, 70_000 + 100_000_000).ns(5000), 71_000);
    }
}
