//! Counters, each declared once. The declaration feeds the values that a rank counts in the job
//! segment, the launcher's table (`MICA_STATS=table`), `docs/counters.md`, the performance
//! variables of MPI_T, and live views.
//!
//! A rank counts in its block of the segment ([`LiveCounters`]), by plain loads and stores; it
//! is the only writer. Another process of the job reads the values at any time
//! ([`RankBlock::counters`]), each of them whole, though not all of one moment. Few words are
//! published later than they are counted: what transports drop (before a rank parks, and when it
//! ends), and late arrivals (when it ends).
//!
//! Messages are counted by path ([`TrafficClass`]), and by distance of the receiver and size class
//! ([`Level`], [`size_class`]). The class of sizes up to `4^k` bytes is the interval
//! `(4^(k-1), 4^k]`: chai-2009 (2.2.2) draws its message distributions over such intervals, and all
//! bounds that it names (256 B, 4 KB, 64 KB, 256 KB) are among them.
//!
//! [`RankBlock::counters`]: crate::segment::RankBlock::counters

mod live;
#[cfg(test)]
mod tests;
mod window;

pub use live::{CounterRef, LiveCounters, WindowCounterRef};
pub use window::{WINDOW_SLOTS, WindowCounters, WindowCounts};

use crate::topology::Level;

/// What a counter's value stands for: the classes of MPI_T that the library has (MPI 5.0, 15.3.7).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CounterClass {
    /// Occurrences since the start (`MPI_T_PVAR_CLASS_COUNTER`).
    Count,
    /// A sum of amounts, such as bytes, since the start (`MPI_T_PVAR_CLASS_AGGREGATE`).
    Sum,
    /// A sum of nanoseconds since the start (`MPI_T_PVAR_CLASS_TIMER`).
    Nanoseconds,
    /// An amount at this moment (`MPI_T_PVAR_CLASS_LEVEL`).
    Current,
    /// The largest amount so far (`MPI_T_PVAR_CLASS_HIGHWATERMARK`).
    Largest,
}

impl CounterClass {
    /// The name used in tables.
    pub const fn name(self) -> &'static str {
        match self {
            CounterClass::Count => "count",
            CounterClass::Sum => "sum",
            CounterClass::Nanoseconds => "nanoseconds",
            CounterClass::Current => "current",
            CounterClass::Largest => "largest",
        }
    }
}

/// The subjects by which counters are listed; MPI_T has a category for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CounterGroup {
    /// Messages by path.
    Paths,
    /// Messages by level and size class.
    Levels,
    /// Waits by reason.
    Waits,
    /// Collectives by algorithm, and late arrivals.
    Collectives,
    /// Messages without a receive, and flow control.
    Matching,
    /// One-sided communication.
    Windows,
    /// Files.
    Files,
    /// Arrivals that were dropped.
    Network,
}

/// The declaration of one counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CounterDeclaration {
    /// Short name.
    pub name: &'static str,
    /// Where it is listed.
    pub group: CounterGroup,
    /// What its value stands for.
    pub class: CounterClass,
    /// Index of its first value among all values.
    pub first: usize,
    /// Number of its values: 1, or one for each size class.
    pub elements: usize,
    /// One sentence for users.
    pub description: &'static str,
}

/// A declaration whose place is not known yet.
const fn counter(
    name: &'static str,
    group: CounterGroup,
    class: CounterClass,
    elements: usize,
    description: &'static str,
) -> CounterDeclaration {
    CounterDeclaration { name, group, class, first: 0, elements, description }
}

/// Declares an enum whose variants are counted one by one, and their number.
macro_rules! classes {
    (
        $(#[$doc:meta])*
        $type:ident, $count:ident { $($variant:ident: $name:literal, $meaning:literal;)* }
    ) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $type {
            $(#[doc = concat!("Name: `", $name, "`. ", $meaning, ".")] $variant,)*
        }

        impl $type {
            /// All of them, in order.
            pub const ALL: [$type; $count] = [$($type::$variant),*];

            /// Short name.
            pub const fn name(self) -> &'static str {
                [$($name),*][self as usize]
            }

            /// What happens, for users.
            pub const fn meaning(self) -> &'static str {
                [$($meaning),*][self as usize]
            }
        }

        #[doc = concat!("Number of [`", stringify!($type), "`]s.")]
        pub const $count: usize = [$($name),*].len();
    };
}

macro_rules! counters {
    (
        traffic { $($path:ident: $path_name:literal, $meaning:literal;)* }
        access { $($access:ident: $access_name:literal, $access_meaning:literal;)* }
        levels { $($level_name:literal, $level_meaning:literal;)* }
        waits { $($wait:ident: $wait_name:literal, $wait_meaning:literal;)* }
        algorithms { $($algorithm_name:literal, $algorithm_meaning:literal;)* }
        $($counter:ident: $name:literal, $group:ident, $class:ident, $description:literal;)*
    ) => {
        classes! {
            /// The path that a message took, as its sender counts it.
            TrafficClass, TRAFFIC_CLASSES { $($path: $path_name, $meaning;)* }
        }
        classes! {
            /// How a one-sided operation reached its target's memory, as its origin counts it.
            AccessClass, ACCESS_CLASSES { $($access: $access_name, $access_meaning;)* }
        }
        classes! {
            /// Why a rank waited, or where its time in a wait went.
            WaitReason, WAIT_REASONS { $($wait: $wait_name, $wait_meaning;)* }
        }

        /// Number of [`Level`]s.
        pub const LEVELS: usize = [$($level_name),*].len();

        /// The names of the algorithms by which collectives are counted: the policy's, in its
        /// order, with `_` for `-`, then those beside them.
        pub const ALGORITHM_NAMES: [&str; ALGORITHM_COUNTERS] = [$($algorithm_name),*];

        /// Number of [`ALGORITHM_NAMES`].
        pub const ALGORITHM_COUNTERS: usize = [$($algorithm_name),*].len();

        /// The counters that are one number alone.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Counter {
            $(#[doc = $description] $counter,)*
        }

        /// Number of values.
        pub const COUNTERS: usize = FIRST_SINGLE + [$($name),*].len();

        const DECLARATIONS: usize =
            2 * (TRAFFIC_CLASSES + ACCESS_CLASSES + LEVELS + WAIT_REASONS)
            + ALGORITHM_COUNTERS + [$($name),*].len();

        /// Every counter, in the order of the values.
        pub const ALL: [CounterDeclaration; DECLARATIONS] = {
            use {CounterClass::*, CounterGroup::*};
            in_order([
            $(counter(concat!("sent_", $path_name, "_messages"), Paths, Count, 1,
                concat!("Messages sent by this path: ", $meaning, ".")),
            counter(concat!("sent_", $path_name, "_bytes"), Paths, Sum, 1,
                concat!("Bytes of the messages that `sent_", $path_name, "_messages` counts.")),)*
            $(counter(concat!("window_", $access_name, "_operations"), Windows, Count, 1,
                concat!("One-sided operations of this rank ", $access_meaning, ".")),
            counter(concat!("window_", $access_name, "_bytes"), Windows, Sum, 1,
                concat!("Bytes of the operations that `window_", $access_name,
                    "_operations` counts.")),)*
            $(counter(concat!("level_", $level_name, "_messages"), Levels, Count, SIZE_CLASSES,
                concat!("Messages sent to ranks ", $level_meaning, ", by size class.")),
            counter(concat!("level_", $level_name, "_bytes"), Levels, Sum, SIZE_CLASSES,
                concat!("Bytes of the messages that `level_", $level_name,
                    "_messages` counts.")),)*
            $(counter(concat!("wait_", $wait_name, "_count"), Waits, Count, 1,
                concat!("Waits, or parts of waits: ", $wait_meaning, ".")),
            counter(concat!("wait_", $wait_name, "_time"), Waits, Nanoseconds, 1,
                concat!("Time of what `wait_", $wait_name, "_count` counts.")),)*
            $(counter(concat!("collective_", $algorithm_name, "_calls"), Collectives, Count, 1,
                concat!("Collectives by ", $algorithm_meaning, ".")),)*
            $(counter($name, $group, $class, 1, $description),)*
            ])
        };
    };
}

counters! {
    traffic {
        Own: "own", "to the rank itself";
        Inline: "inline", "shared memory, in the ring's slot";
        Ring: "ring", "shared memory, in the ring's arena";
        Cells: "cells", "shared memory, through cells";
        Direct: "direct", "single copy by the kernel";
        Mapped: "mapped", "single copy in memory that both ranks map";
        Net: "net", "over the network";
        Area: "area", "collectives, through a communicator's area";
    }
    access {
        Memory: "memory", "by loads and stores";
        Kernel: "kernel", "by copies of the kernel";
        Rma: "rma", "by RMA of the network";
        Requests: "requests", "by messages that the target carries out";
    }
    levels {
        "shared_cache", "whose core shares a cache with this rank's";
        "package", "in the same package, without a shared cache";
        "node", "on the same node, in another package or in an unknown place";
        "network", "on other nodes";
    }
    waits {
        Peer: "peer", "nothing to do before a peer acts";
        Copying: "copying", "messages of 64 KiB and more that this rank copied itself, or has a \
            copy engine copy";
        QueueFull: "queue_full", "messages could not leave, because a queue to their receiver was \
            full";
        Progress: "progress", "other messages arrived and were handled";
    }
    algorithms {
        "dissemination", "messages in a dissemination pattern";
        "binomial", "messages along a binomial tree";
        "scatter_ring", "messages: a scatter, then an allgather around a ring";
        "linear", "messages between the root and each rank";
        "bruck", "messages of Bruck's algorithm";
        "ring", "messages around a ring";
        "exchange", "messages from each rank to each other";
        "doubling", "messages in recursive doubling";
        "halving", "messages in recursive halving";
        "pairwise", "messages in pairwise exchange";
        "shared", "the communicator's shared area";
        "direct", "access to the ranks' own buffers";
        "by_size", "messages whose algorithm follows from the sizes alone, since ranks are on \
         several nodes or share no area";
        "two_level", "steps within nodes, which are counted as well, and messages between them";
    }
    WindowLocks: "window_locks", Windows, Count,
        "Locks of windows that this rank has asked for.";
    WindowLockWaits: "window_lock_waits", Windows, Count,
        "Times that this rank waited for a lock of a window.";
    WindowLockBarges: "window_lock_barges", Windows, Count,
        "Locks of windows that this rank took before others that waited for them in a queue.";
    WindowHelps: "window_helps", Windows, Count,
        "Long one-sided operations of this rank that their targets have helped to copy.";
    FileReads: "file_reads", Files, Count,
        "Reads of files that this rank has called for and that are complete.";
    FileReadBytes: "file_read_bytes", Files, Sum,
        "Bytes that they have put into the program's memory.";
    FileWrites: "file_writes", Files, Count,
        "Writes of files that this rank has called for and that are complete.";
    FileWriteBytes: "file_write_bytes", Files, Sum,
        "Bytes of the program's memory that they have written.";
    FileExchanges: "file_exchanges", Files, Count,
        "Those of the reads and writes, collective ones, in which ranks exchanged their data.";
    FileSievedBlocks: "file_sieved_blocks", Files, Count,
        "Blocks of files that this rank has read, or read and written, for short pieces in them.";
    UnexpectedMessages: "unexpected_messages", Matching, Count,
        "Messages that arrived before a receive for them was posted.";
    UnexpectedQueue: "unexpected_queue", Matching, Current,
        "Messages that have arrived and wait for their receives.";
    UnexpectedQueueLongest: "unexpected_queue_longest", Matching, Largest,
        "The most of them at any time.";
    UnexpectedDepth: "unexpected_depth", Matching, Sum,
        "Messages that were in the queue already, summed over all that `unexpected_messages` \
         counts: divided by it, the mean length of the queue that a message meets; the queue is \
         not walked, since messages are found by hashing.";
    HeldSenders: "held_senders", Matching, Count,
        "Times that this rank asked a sender to hold its messages back, because too many waited.";
    SkewedSenders: "skewed_senders", Matching, Count,
        "Times that this rank notified a sender that it lags behind.";
    Parks: "parks", Waits, Count,
        "Times that a thread of this rank slept in a call of MPI.";
    ForeignArrivals: "foreign_arrivals", Network, Count,
        "Arrivals from the network that were dropped because no rank of this job sent them.";
    MalformedArrivals: "malformed_arrivals", Network, Count,
        "Arrivals from the network that were dropped because of their length, sender or number.";
    FailedArrivals: "failed_arrivals", Network, Count,
        "Arrivals from the network that the provider completed with an error.";
    LateCalls: "late_calls", Collectives, Count,
        "Collective calls observed for late arrivals (`MICA_LATE`); known when the rank ends, as \
         the next two.";
    LateWaits: "late_waits", Collectives, Count,
        "Those of them in which another rank arrived after this one.";
    LateWaitTime: "late_wait_time", Collectives, Nanoseconds,
        "From this rank's arrival to that of the last rank, summed over those calls.";
}

/// Classes of message sizes: up to 64 B, by factors of 4 up to 4 MiB, and all above.
pub const SIZE_CLASSES: usize = 10;

/// Largest size of the first class, as a power of 2.
const FIRST_CLASS_BITS: u32 = 6;

/// The class of a message of `bytes` bytes.
#[inline(always)]
pub const fn size_class(bytes: usize) -> usize {
    let bits = usize::BITS - bytes.saturating_sub(1).leading_zeros();
    let class = bits.saturating_sub(FIRST_CLASS_BITS - 1) as usize / 2;
    if class < SIZE_CLASSES { class } else { SIZE_CLASSES - 1 }
}

/// Largest size in bytes of a class; `None` for the last one, which has no bound.
pub const fn size_class_max(class: usize) -> Option<usize> {
    if class + 1 < SIZE_CLASSES { Some(1 << (FIRST_CLASS_BITS as usize + 2 * class)) } else { None }
}

/// Sets the index of each declaration's first value.
const fn in_order<const N: usize>(mut all: [CounterDeclaration; N]) -> [CounterDeclaration; N] {
    let (mut at, mut first) = (0, 0);
    while at < N {
        all[at].first = first;
        first += all[at].elements;
        at += 1;
    }
    assert!(first == COUNTERS);
    all
}

/// Where the values by level and size class begin: for each level messages, then bytes.
const FIRST_LEVEL: usize = 2 * (TRAFFIC_CLASSES + ACCESS_CLASSES);
/// Where the values by reason of a wait begin: for each count and time.
const FIRST_WAIT: usize = FIRST_LEVEL + 2 * LEVELS * SIZE_CLASSES;
/// Where the collectives by algorithm begin.
const FIRST_ALGORITHM: usize = FIRST_WAIT + 2 * WAIT_REASONS;
/// Where the values begin that stand for one number alone.
const FIRST_SINGLE: usize = FIRST_ALGORITHM + ALGORITHM_COUNTERS;

/// Where the messages of a level and size class are; their bytes are [`SIZE_CLASSES`] further.
#[inline(always)]
const fn level_index(level: usize, class: usize) -> usize {
    FIRST_LEVEL + 2 * SIZE_CLASSES * level + class
}

/// The index of an algorithm among [`ALGORITHM_NAMES`].
///
/// # Panics
/// If there is none of this name.
pub const fn algorithm_index(name: &str) -> usize {
    let mut at = 0;
    while at < ALGORITHM_COUNTERS {
        if same_text(ALGORITHM_NAMES[at], name) {
            return at;
        }
        at += 1;
    }
    panic!("no algorithm of this name is declared")
}

const fn same_text(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut at = 0;
    while at < a.len() && at < b.len() && a[at] == b[at] {
        at += 1;
    }
    at == a.len() && at == b.len()
}

/// The values of all counters of one rank, at one time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counters {
    /// In the order of [`ALL`].
    values: [u64; COUNTERS],
}

impl Default for Counters {
    fn default() -> Counters {
        Counters::new([0; COUNTERS])
    }
}

impl Counters {
    /// Counters with these values, in the order of [`ALL`].
    pub const fn new(values: [u64; COUNTERS]) -> Counters {
        Counters { values }
    }

    /// Counts `messages` messages of `bytes` bytes in total.
    pub const fn add_messages(&mut self, path: TrafficClass, messages: u64, bytes: u64) {
        self.add_two(2 * path as usize, 2 * path as usize + 1, messages, bytes);
    }

    /// Adds to two values. They may come from another process, which may have written anything:
    /// sums wrap.
    const fn add_two(&mut self, one: usize, other: usize, messages: u64, bytes: u64) {
        self.values[one] = self.values[one].wrapping_add(messages);
        self.values[other] = self.values[other].wrapping_add(bytes);
    }

    /// Counts `messages` messages of one size class, of `bytes` bytes in total.
    pub const fn add_by_size(&mut self, level: Level, class: usize, messages: u64, bytes: u64) {
        let at = level_index(level as usize, class);
        self.add_two(at, at + SIZE_CLASSES, messages, bytes);
    }

    /// Counts a wait of `ns` nanoseconds.
    pub const fn add_wait(&mut self, reason: WaitReason, ns: u64) {
        self.values[FIRST_WAIT + 2 * reason as usize] += 1;
        self.values[FIRST_WAIT + 2 * reason as usize + 1] += ns;
    }

    /// Counts one occurrence.
    #[inline(always)]
    pub const fn count(&mut self, counter: Counter) {
        self.add(counter, 1);
    }

    /// Adds `amount` to a counter.
    #[inline(always)]
    pub const fn add(&mut self, counter: Counter, amount: u64) {
        self.values[FIRST_SINGLE + counter as usize] += amount;
    }

    /// Adds the values of another rank; of largest amounts, the larger remains.
    pub fn merge(&mut self, other: &Counters) {
        for counter in &ALL {
            for at in counter.first..counter.first + counter.elements {
                let (ours, theirs) = (self.values[at], other.values[at]);
                self.values[at] = match counter.class {
                    CounterClass::Largest => ours.max(theirs),
                    _ => ours.wrapping_add(theirs),
                };
            }
        }
    }

    /// Counts `operations` one-sided operations on `bytes` bytes in total.
    pub const fn add_operations(&mut self, access: AccessClass, operations: u64, bytes: u64) {
        let at = 2 * (TRAFFIC_CLASSES + access as usize);
        self.values[at] += operations;
        self.values[at + 1] += bytes;
    }

    /// Adds what a window has counted.
    pub(super) fn add_window(&mut self, window: &WindowCounts) {
        for (access, (operations, bytes)) in window.operations.into_iter().enumerate() {
            let at = 2 * (TRAFFIC_CLASSES + access);
            self.add_two(at, at + 1, operations, bytes);
        }
        let locks = FIRST_SINGLE + Counter::WindowLocks as usize;
        let waits = FIRST_SINGLE + Counter::WindowLockWaits as usize;
        self.add_two(locks, waits, window.locks, window.lock_waits);
        let barges = &mut self.values[FIRST_SINGLE + Counter::WindowLockBarges as usize];
        *barges = barges.wrapping_add(window.lock_barges);
    }

    /// One-sided operations of one kind, and their bytes.
    pub const fn operations(&self, access: AccessClass) -> (u64, u64) {
        let at = 2 * (TRAFFIC_CLASSES + access as usize);
        (self.values[at], self.values[at + 1])
    }

    /// Messages sent by a path.
    pub const fn messages(&self, path: TrafficClass) -> u64 {
        self.values[2 * path as usize]
    }

    /// Bytes sent by a path.
    pub const fn bytes(&self, path: TrafficClass) -> u64 {
        self.values[2 * path as usize + 1]
    }

    /// Messages of one size class sent to ranks at a level, and their bytes.
    pub const fn by_size(&self, level: Level, class: usize) -> (u64, u64) {
        let at = level_index(level as usize, class);
        (self.values[at], self.values[at + SIZE_CLASSES])
    }

    /// Messages sent to ranks at a level, and their bytes.
    pub fn by_level(&self, level: Level) -> (u64, u64) {
        (0..SIZE_CLASSES)
            .map(|class| self.by_size(level, class))
            .fold((0, 0), |sum, of| (sum.0 + of.0, sum.1 + of.1))
    }

    /// Waits for one reason, and their nanoseconds.
    pub const fn waits(&self, reason: WaitReason) -> (u64, u64) {
        let at = FIRST_WAIT + 2 * reason as usize;
        (self.values[at], self.values[at + 1])
    }

    /// Collectives by an algorithm, by its index in [`ALGORITHM_NAMES`].
    pub const fn collectives(&self, algorithm: usize) -> u64 {
        assert!(algorithm < ALGORITHM_COUNTERS);
        self.values[FIRST_ALGORITHM + algorithm]
    }

    /// The value of a counter.
    pub const fn get(&self, counter: Counter) -> u64 {
        self.values[FIRST_SINGLE + counter as usize]
    }

    /// All values, in the order of [`ALL`].
    pub const fn values(&self) -> &[u64; COUNTERS] {
        &self.values
    }
}
