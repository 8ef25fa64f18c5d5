//! Tunables, each declared once. This table feeds the environment variables, `mica info`, the
//! documentation and MPI_T's control variables.
//!
//! A variable that was renamed is declared with its [old names](OldName). An old name that the
//! environment has still holds, unless the environment has the new one as well; `mica info` says
//! which variable to set instead.

mod list;
mod value;

pub use list::{ListEntry, ListValue, ListWords};
pub use value::{parse_bytes, set_variable};

use std::sync::OnceLock;

/// The kind of values that a tunable takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TunableKind {
    /// A number of bytes; suffixes K, M and G are allowed.
    Bytes,
    /// A number of bytes, or `auto`: then it follows from the costs of the message paths.
    Threshold,
    /// A plain number.
    Count,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// The path of a file, or one of these words.
    Path(&'static [&'static str]),
    /// A word for all of these entries, and words for single ones, separated by commas.
    List(ListWords),
}

/// A variable of an earlier version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OldName {
    /// The variable.
    pub env: &'static str,
    /// The entry of the list that it set; `None`: the whole value.
    pub entry: Option<&'static str>,
}

/// The declaration of one tunable.
#[derive(Debug)]
pub struct Tunable {
    /// Short name.
    pub name: &'static str,
    /// Environment variable that sets it.
    pub env: &'static str,
    /// Variables that set it, or an entry of it, in earlier versions.
    pub old_names: &'static [OldName],
    /// The default, as it would be written in the environment.
    pub default: &'static str,
    /// The kind of values that it takes.
    pub kind: TunableKind,
    /// Whether ranks may have different values.
    pub agreement: Agreement,
    /// One sentence for users.
    pub description: &'static str,
}

/// What happens when ranks of a job have different values of a tunable, as MPMD sections and
/// wrappers can set them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Agreement {
    /// Each rank uses its own value, or ranks agree on what all can do.
    Own,
    /// The value of who starts the job applies to all ranks.
    Launcher,
    /// All ranks must have the same value: ranks that differ fail in `MPI_Init`
    /// ([`AlikeSettings`](crate::segment::AlikeSettings)).
    Alike,
}

/// A tunable's value does not fit its kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{env}={value}: expected {expected}")]
pub struct BadValue {
    /// The environment variable.
    pub env: &'static str,
    /// Its value.
    pub value: String,
    /// The values that would fit.
    pub expected: String,
}

macro_rules! tunables {
    ($($ident:ident: $name:literal, $env:literal $((was $old_names:expr))?, $default:literal,
        $kind:expr, $description:expr $(, $agreement:ident)?;)*) => {
        /// Every tunable.
        pub const ALL: &[&Tunable] = &[$(&$ident),*];
        $(
            #[doc = $description]
            pub static $ident: Tunable = Tunable {
                name: $name, env: $env, default: $default, kind: $kind, description: $description,
                old_names: old_names!($($old_names)?),
                agreement: agreement!($($agreement)?),
            };
        )*
    };
}

/// The default of a tunable's agreement is `Own`.
macro_rules! agreement {
    () => {
        Agreement::Own
    };
    ($agreement:ident) => {
        Agreement::$agreement
    };
}

/// The default is that there are none.
macro_rules! old_names {
    () => {
        &[]
    };
    ($old_names:expr) => {
        $old_names
    };
}

/// The collectives of `MICA_COLL` with the algorithms that each has within a node.
const COLLECTIVES: &[ListEntry] = &[
    ListEntry { name: "barrier", words: &["auto", "dissemination", "shared"] },
    ListEntry { name: "bcast", words: &["auto", "binomial", "scatter-ring", "shared", "direct"] },
    ListEntry { name: "gather", words: &["auto", "binomial", "linear", "shared", "direct"] },
    ListEntry { name: "scatter", words: &["auto", "binomial", "linear", "shared", "direct"] },
    ListEntry { name: "allgather", words: &["auto", "bruck", "ring", "shared", "direct"] },
    ListEntry { name: "alltoall", words: &["auto", "bruck", "exchange", "shared", "direct"] },
    ListEntry { name: "reduce", words: &["auto", "binomial", "halving", "shared", "direct"] },
    ListEntry { name: "allreduce", words: &["auto", "doubling", "halving", "shared", "direct"] },
    ListEntry {
        name: "reduce_scatter",
        words: &["auto", "halving", "pairwise", "shared", "direct"],
    },
    ListEntry { name: "scan", words: &["auto", "doubling", "shared", "direct"] },
];

/// An old variable for one entry of a list.
const fn entry(env: &'static str, entry: &'static str) -> OldName {
    OldName { env, entry: Some(entry) }
}

tunables! {
    SHM: "shm", "MICA_SHM", "advanced", TunableKind::Choice(&["advanced", "basic", "mixed"]),
        "Design of the shared-memory channel: rings, cells and doorbells, or one large FIFO for \
         each pair; mixed has FIFOs between ranks of the same parity only, as a second channel; \
         the launcher's value holds for the job.", Launcher;
    BASIC_FIFO: "basic_fifo", "MICA_BASIC_FIFO", "1M", TunableKind::Bytes,
        "Size of a pair's FIFO under the basic design (a multiple of 64, at least 4K), allocated \
         for all pairs that have one at MPI_Init; the launcher's value holds for the job.",
        Launcher;
    RING_MAX: "ring_max", "MICA_RING_MAX", "auto", TunableKind::Threshold,
        "Largest message that is copied straight into the receiver's ring (at most 8K).";
    EAGER_MAX: "eager_max", "MICA_EAGER_MAX", "auto", TunableKind::Threshold,
        "Largest message that is sent before its receive is known; longer ones ask first \
         (rendezvous).";
    CELLS: "cells", "MICA_CELLS", "128", TunableKind::Count,
        "Cells in each rank's send buffer pool.", Launcher;
    CELL_BYTES: "cell_bytes", "MICA_CELL_BYTES", "8K", TunableKind::Bytes,
        "Size of a cell (a multiple of 64); under the basic design, of the chunks of a long \
         message.", Launcher;
    PAGE_SIZE: "page_size", "MICA_PAGE_SIZE", "0", TunableKind::Bytes,
        "Bytes of a page of memory, where the kernel's pages are smaller: for tests of what other \
         kernels need (a power of two; the same for all ranks).", Alike;
    DIRECT: "direct", "MICA_DIRECT", "auto",
        TunableKind::Choice(&["auto", "cma", "mapped", "xpmem", "off"]),
        "Single-copy transfer: by process_vm_readv (cma), by load and store in buffers moved to \
         shared memory (mapped) or attached (xpmem); auto is all that work.";
    DIRECT_MIN: "direct_min", "MICA_DIRECT_MIN", "auto", TunableKind::Threshold,
        "Shortest rendezvous message that is copied directly; shorter ones go through cells.";
    DIRECT_RUN_MIN: "direct_run_min", "MICA_DIRECT_RUN_MIN", "auto", TunableKind::Threshold,
        "Shortest average contiguous run for which a non-contiguous message is copied directly.";
    MAPPED: "mapped", "MICA_MAPPED", "auto", TunableKind::Choice(&["auto", "all", "off"]),
        "Which buffers in reuse move to shared memory: those of malloc, MPI_Alloc_mem and static \
         data (auto), those in mappings that the program has made itself as well (all), or none \
         (off).";
    MAPPED_AFTER: "mapped_after", "MICA_MAPPED_AFTER", "8", TunableKind::Count,
        "How often a buffer, or a window's memory, is used before its pages are moved to shared \
         memory.";
    MAPPED_MIN: "mapped_min", "MICA_MAPPED_MIN", "32K", TunableKind::Bytes,
        "Shortest buffer whose pages are moved to shared memory.";
    MAPPED_MAX: "mapped_max", "MICA_MAPPED_MAX", "4G", TunableKind::Bytes,
        "Memory of a rank that is moved to shared memory at most.";
    PATH: "path", "MICA_PATH" (was &[OldName { env: "MICA_WAY", entry: None }]), "auto",
        TunableKind::Choice(&[
            "auto", "cells", "pull", "cooperate", "mapped", "mapped-cooperate", "offload",
        ]),
        "The path of messages that are longer than the ring takes: chosen by cost (auto), or this \
         one wherever it works.";
    TUNING: "tuning", "MICA_TUNING", "auto", TunableKind::Path(&["auto", "off"]),
        "The costs that paths are chosen by: this machine's file of mica tune (auto), none (off), \
         or the file given.";
    WINDOW_ACCESS: "window_access", "MICA_WINDOW_ACCESS", "auto",
        TunableKind::Choice(&["auto", "rma", "accumulate_messages", "messages"]),
        "How one-sided operations reach their targets: by the fastest way (auto: loads and stores \
         within a node; between nodes put and get by RMA where that pays); as auto, but put and \
         get between nodes always by RMA, where the network has it (rma); as auto, but \
         accumulates within a node, too, by messages that the target carries out when it makes \
         progress (accumulate_messages); or all by such messages (messages); the same for all \
         ranks.", Alike;
    WINDOW_LOCK: "window_lock", "MICA_WINDOW_LOCK", "barging",
        TunableKind::Choice(&["barging", "mcs", "test_and_set", "thread", "event"]),
        "How origins take the lock of a window's target: by a queue in which the holder wakes the \
         next (mcs), by such a queue where others may take the lock before those that wait, 256 \
         times or for 20 us at most (barging), by attempts with pauses that double \
         (test_and_set), or by a message to a thread of the target that polls for requests \
         (thread) or sleeps until one comes (event); the same for all ranks.", Alike;
    WINDOW_HELP_MIN: "window_help_min", "MICA_WINDOW_HELP_MIN", "256K", TunableKind::Bytes,
        "Shortest put, get or accumulate within a node that the target helps to copy, if it waits \
         in MPI and ranks do not share cores.";
    PROGRESS_THREAD: "progress_thread", "MICA_PROGRESS_THREAD", "off",
        TunableKind::Choice(&["off", "on"]),
        "on: a thread of the rank makes progress while the program computes, on long messages and \
         on one-sided operations that reach this rank by messages; every call then takes a lock.";
    SKEW: "skew", "MICA_SKEW", "auto", TunableKind::Choice(&["auto", "off"]),
        "auto: a receiver that lags behind notifies its senders, who then do not wait for it with \
         medium messages.";
    SKEW_EAGER_MAX: "skew_eager_max", "MICA_SKEW_EAGER_MAX", "256K", TunableKind::Bytes,
        "Largest message that is sent before its receive is known while its receiver lags behind.";
    PARTITIONS_TOGETHER: "partitions_together", "MICA_PARTITIONS_TOGETHER", "64K",
        TunableKind::Bytes,
        "Partitions of a partitioned send travel in messages of up to 64 neighbours with at most \
         this many bytes; 0: one by one.";
    UNEXPECTED_MAX: "unexpected_max", "MICA_UNEXPECTED_MAX", "64M", TunableKind::Bytes,
        "Most bytes of messages without a receive that a rank keeps; senders that fill it then \
         wait for their receives.";
    SKEW_LENGTH: "skew_length", "MICA_SKEW_LENGTH", "8", TunableKind::Count,
        "More unexpected messages of one sender than these mean that the receiver lags behind.";
    SKEW_PERIOD: "skew_period", "MICA_SKEW_PERIOD", "16", TunableKind::Count,
        "For how many arrivals that must hold before the sender is notified.";
    POLL: "poll", "MICA_POLL", "dynamic", TunableKind::Choice(&["static", "dynamic"]),
        "How often channels beside shared memory are polled: at a fixed ratio, or as their \
         messages come.";
    POLL_RATIO: "poll_ratio", "MICA_POLL_RATIO", "50", TunableKind::Count,
        "Static polling: polls of shared memory for each poll of another channel.";
    POLL_HISTORY: "poll_history", "MICA_POLL_HISTORY", "10", TunableKind::Count,
        "Dynamic polling: messages after which the ratio is found anew.";
    COPY_ENGINE: "copy_engine", "MICA_COPY_ENGINE", "auto",
        TunableKind::Choice(&["auto", "inline", "thread", "dsa", "dsa+thread"]),
        "Who copies long non-blocking messages: the rank, a helper thread, Intel DSA, or DSA \
         driven by a helper thread.";
    OFFLOAD_MIN: "offload_min", "MICA_OFFLOAD_MIN", "256K", TunableKind::Bytes,
        "Shortest non-blocking message that is given to the copy engine.";
    SPIN: "spin", "MICA_SPIN", "20000", TunableKind::Count,
        "How often a waiting rank polls before it yields, when every rank has a core.";
    YIELDS: "yields", "MICA_YIELDS", "0", TunableKind::Count,
        "How often it then yields its core before it parks, when every rank has a core.";
    SPIN_SHARED: "spin_shared", "MICA_SPIN_SHARED", "1", TunableKind::Count,
        "How often a waiting rank polls before it yields, when ranks outnumber cores.";
    YIELDS_SHARED: "yields_shared", "MICA_YIELDS_SHARED", "1000", TunableKind::Count,
        "How often it then yields its core before it parks, when ranks outnumber cores.";
    FENCING: "fencing", "MICA_FENCING", "auto", TunableKind::Choice(&["auto", "sender", "parker"]),
        "Who pays for lost-wake-up safety: every sender by a fence, or the rank that parks by \
         membarrier.", Launcher;
    STATS: "stats", "MICA_STATS", "off", TunableKind::Choice(&["off", "table"]),
        "table: mpiexec prints what moved over which channel, how far, and why ranks waited, when \
         the job has ended.", Launcher;
    LATE: "late", "MICA_LATE", "off", TunableKind::Choice(&["off", "on"]),
        "on: ranks count at each call of a collective who came last and how long they waited, and \
         mpiexec prints it when the job has ended.";
    RECORD_TRANSFERS: "record_transfers", "MICA_RECORD_TRANSFERS", "off",
        TunableKind::Path(&["off"]),
        "Each rank writes the steps of its collectives within the node (phases that it publishes \
         or waits for, bytes that it loads or stores) to the file PREFIX.RANK, for mica links; the \
         fast path of short collectives is off meanwhile.";
    TRANSFER_ACCOUNT: "transfer_account", "MICA_TRANSFER_ACCOUNT", "off",
        TunableKind::Path(&["off"]),
        "Each rank counts the bytes that each of its collectives reads from and writes to every \
         rank's memory, and writes them to the file PREFIX.RANK when MPI ends, for mica links; the \
         fast path of short collectives is off meanwhile.";
    IO_BLOCK: "io_block", "MICA_IO_BLOCK", "1M", TunableKind::Bytes,
        "Bytes of a file that a rank reads or writes at a time for all ranks of a collective \
         access, where the program's hint cb_buffer_size says nothing.";
    IO_SIEVE_BLOCK: "io_sieve_block", "MICA_IO_SIEVE_BLOCK", "512K", TunableKind::Bytes,
        "Bytes of a block in which short pieces of a file are read or written by one rank, where \
         the hints ind_rd_buffer_size and ind_wr_buffer_size say nothing.";
    IO_EXCHANGE: "io_exchange", "MICA_IO_EXCHANGE", "auto",
        TunableKind::Choice(&["auto", "always", "never"]),
        "Whether ranks exchange the data of a collective access to a file, so that few of them \
         access it in large pieces: where that pays (auto), wherever it is possible, or never; for \
         files whose hints romio_cb_read and romio_cb_write leave it to the library; the same for \
         all ranks.", Alike;
    IO_SIEVE: "io_sieve", "MICA_IO_SIEVE", "auto",
        TunableKind::Choice(&["auto", "always", "never"]),
        "Whether a rank reads and writes short pieces of a file in blocks: where that pays (auto), \
         wherever it is possible, or never; for files whose hints romio_ds_read and romio_ds_write \
         leave it to the library.";
    CHECK: "check", "MICA_CHECK", "0", TunableKind::Choice(&["0", "1"]),
        "1: says once on standard error what the program does that MPI does not allow and Mica \
         lets pass, as other MPIs do.";
    ERRHANDLER: "errhandler", "MICA_ERRHANDLER", "fatal",
        TunableKind::Choice(&["fatal", "abort", "return"]),
        "The error handler of MPI_COMM_WORLD and MPI_COMM_SELF, and of errors before MPI_Init, \
         until the program sets another (mpiexec -initial-errhandler).";
    PMI: "pmi", "MICA_PMI", "auto",
        TunableKind::Choice(&["auto", "pmi1", "pmi2", "pmix", "env"]),
        "The interface to another MPI's launcher: the one whose variables are set (auto), or this \
         one; env: RANK and WORLD_SIZE, as torchrun sets them.";
    JOIN_ADDRESS: "join_address", "MICA_JOIN_ADDRESS", "auto", TunableKind::Path(&["auto"]),
        "Where the ranks of a job that RANK and WORLD_SIZE describe meet, as HOST:PORT, a port \
         that rank 0 can listen at; auto is one that follows from MASTER_PORT, at MASTER_ADDR.";
    JOIN_TIMEOUT: "join_timeout", "MICA_JOIN_TIMEOUT", "60", TunableKind::Count,
        "Seconds that ranks which were not started by Mica's mpiexec wait for each other in \
         MPI_Init.";
    PMIX_LIBRARY: "pmix_library", "MICA_PMIX_LIBRARY", "auto", TunableKind::Path(&["auto"]),
        "The PMIx library, for PMIx launchers: the launcher's own or the system's (auto), or the \
         file given.";
    FOREIGN_MPI: "foreign_mpi", "MICA_FOREIGN_MPI", "refuse",
        TunableKind::Choice(&["refuse", "start"]),
        "What mpiexec does with several ranks of a program that is linked to Open MPI, whose \
         library would make each a job of one: refuse them, or start them.", Launcher;
    VIRTUAL_NODES: "virtual_nodes", "MICA_VIRTUAL_NODES", "0", TunableKind::Count,
        "More than 0: treats the job's ranks, in blocks, as if they were on this many nodes (for \
         tests).", Launcher;
    NET: "net", "MICA_NET", "auto", TunableKind::Choice(&["auto", "loopback"]),
        "auto: the network carries messages between nodes; loopback: between the ranks of one node \
         as well, in place of shared memory; the same for all ranks.", Alike;
    NET_PROVIDER: "net_provider", "MICA_NET_PROVIDER", "auto", TunableKind::Path(&["auto"]),
        "libfabric's provider for the network: the best that is there (auto), or a name such as \
         tcp, verbs, efa, cxi, opx, psm3.";
    NET_INTERFACE: "net_interface", "MICA_NET_INTERFACE", "auto", TunableKind::Path(&["auto"]),
        "The network interface, by its libfabric domain's name (such as eth0 or mlx5_0) or by its \
         address; auto is the fastest that leads off the machine.";
    NET_LIBRARY: "net_library", "MICA_NET_LIBRARY", "auto", TunableKind::Path(&["auto"]),
        "The file of libfabric; auto is libfabric.so.1 as the dynamic linker finds it.";
    NET_EAGER_MAX: "net_eager_max", "MICA_NET_EAGER_MAX", "auto", TunableKind::Threshold,
        "Largest payload of one packet on the network; auto is what the provider sends in one \
         piece; the smallest value among the job's ranks holds.";
    COLL_TWO_LEVEL: "coll_two_level", "MICA_COLL_TWO_LEVEL", "auto",
        TunableKind::Choice(&["auto", "on", "off", "leaders", "columns"]),
        "Collectives between nodes go by node leaders or by parallel columns: where that pays \
         (auto), wherever it is correct (on), by one of the two wherever it is possible (leaders, \
         columns), or never (off); the same for all ranks.", Alike;
    COLL: "coll", "MICA_COLL" (was &[
        entry("MICA_COLL_BARRIER", "barrier"),
        entry("MICA_COLL_BCAST", "bcast"),
        entry("MICA_COLL_GATHER", "gather"),
        entry("MICA_COLL_SCATTER", "scatter"),
        entry("MICA_COLL_ALLGATHER", "allgather"),
        entry("MICA_COLL_ALLTOALL", "alltoall"),
        entry("MICA_COLL_REDUCE", "reduce"),
        entry("MICA_COLL_ALLREDUCE", "allreduce"),
        entry("MICA_COLL_REDUCE_SCATTER", "reduce_scatter"),
        entry("MICA_COLL_SCAN", "scan"),
    ]), "auto",
        TunableKind::List(ListWords {
            all: &["auto", "messages", "shared", "direct"],
            entries: COLLECTIVES,
        }),
        "The algorithms of collectives within a node: chosen by cost (auto), of one family \
         wherever that is possible (messages, shared, direct), or COLLECTIVE=ALGORITHM for single \
         ones, which goes first; commas between; the same for all ranks.", Alike;
    COLL_SHAPE: "coll_shape", "MICA_COLL_SHAPE", "auto",
        TunableKind::Choice(&["auto", "flat", "tree"]),
        "How ranks meet in a shared area: each polls all others or one does (flat), or along a \
         tree that follows the machine's caches (tree); the same for all ranks.", Alike;
    COLL_FAN: "coll_fan", "MICA_COLL_FAN", "8", TunableKind::Count,
        "Children of a rank in such a tree at most; the same for all ranks.", Alike;
    COLL_DIRECTION: "coll_direction", "MICA_COLL_DIRECTION", "auto",
        TunableKind::Choice(&["auto", "pull", "push", "both"]),
        "Who copies in direct collectives with a root: the others (pull), the root (push), or both \
         at once; the same for all ranks.", Alike;
    COLL_AREA: "coll_area", "MICA_COLL_AREA", "4M", TunableKind::Bytes,
        "Memory of one communicator's shared area at most, for collectives; 0: none; the \
         launcher's value holds for the job.", Launcher;
    SPARE_RANKS: "spare_ranks", "MICA_SPARE_RANKS", "32", TunableKind::Count,
        "Processes that a job on one node has room for at least beside those it starts with \
         (MPI_Comm_spawn); 0: none. Room costs address space, and memory once it is used.",
        Launcher;
    COLL_AREAS: "coll_areas", "MICA_COLL_AREAS", "256M", TunableKind::Bytes,
        "Memory of all shared areas of a node at most; the launcher's value holds for the job.",
        Launcher;
}

/// The tunables for which all ranks must have the same value, in the order of the table.
pub fn alike() -> impl Iterator<Item = &'static Tunable> {
    let all = ALL.iter().copied();
    all.filter(|tunable| tunable.agreement == Agreement::Alike)
}

/// Every tunable's declaration.
pub fn all() -> &'static [&'static Tunable] {
    ALL
}

/// The tunables that determine the shape of a job segment.
#[derive(Debug, Clone, Copy)]
pub struct SegmentShape {
    /// Number of cells of a pool.
    pub cells: u32,
    /// Bytes of a cell.
    pub cell_bytes: u32,
    /// Bytes of a pair's FIFO under the basic design; `None` for the advanced one.
    pub fifo_bytes: Option<u32>,
    /// Pairs of ranks with the same parity have FIFOs, all others the advanced design's rings.
    pub mixed: bool,
    /// Maximum of bytes of the cells of one communicator's area; 0: there are no areas.
    pub area_bytes: u64,
    /// Maximum of bytes of all areas together.
    pub areas_bytes: u64,
}

/// The segment's shape in force. Values that are not numbers fall back to the defaults;
/// [`check_all`] reports them when the environment is checked.
pub fn segment_shape() -> SegmentShape {
    static SHAPE: OnceLock<SegmentShape> = OnceLock::new();
    let number = |tunable: &Tunable| tunable.number_or_default().min(u64::from(u32::MAX)) as u32;
    *SHAPE.get_or_init(|| SegmentShape {
        cells: number(&CELLS),
        cell_bytes: number(&CELL_BYTES),
        fifo_bytes: matches!(SHM.choice(), Ok("basic" | "mixed")).then(|| number(&BASIC_FIFO)),
        mixed: SHM.choice() == Ok("mixed"),
        area_bytes: COLL_AREA.number_or_default(),
        areas_bytes: COLL_AREAS.number_or_default(),
    })
}

/// Ranks of a node at most for which the job segment has file space for buffers.
pub const RANKS_WITH_SLOTS: u32 = 1 << 13;

/// The ranks that the segment of a job shall have room for beside the `ranks` that it starts with.
/// Room up to the next multiple of 64 costs nothing more. The basic design, whose pairs are all
/// allocated at the start, has none; nor has a job so large that its segment would lose the file
/// space for buffers.
pub fn spare_ranks(ranks: u32) -> u32 {
    let wanted = SPARE_RANKS.number_or_default().min(u64::from(RANKS_WITH_SLOTS)) as u32;
    let capacity = (ranks + wanted).next_multiple_of(64).min(RANKS_WITH_SLOTS);
    match wanted == 0 || segment_shape().fifo_bytes.is_some() {
        true => 0,
        false => capacity.saturating_sub(ranks),
    }
}

/// Checks the values of all tunables in the environment.
///
/// # Errors
/// The first value that does not fit its kind.
pub fn check_all() -> Result<(), BadValue> {
    ALL.iter().try_for_each(|t| t.check())
}

#[cfg(test)]
mod tests;
