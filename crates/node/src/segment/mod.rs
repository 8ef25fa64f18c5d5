//! The job segment: all memory that the ranks of a node share, in one anonymous memfd
//! (docs/design/house.md, section 3).
//!
//! Nothing is named in a file system, so nothing is left behind however a job ends. The segment is
//! sparse: address space is reserved for all pairs ([`Geometry`]), and memory is allocated when a
//! pair first communicates ([`JobSegment::allocate`], which returns an error if there is no memory,
//! where a page fault would raise SIGBUS). The launcher creates the segment and its children
//! inherit the descriptor; under another launcher, the first rank of the node creates it and hands
//! it over; a program that runs alone creates its own.

mod ability;
mod ability_exchange;
pub mod answer;
mod area_budget;
mod block;
mod error;
mod geometry;
mod kept_parts;
mod late;
mod open;
mod poll_record;
#[cfg(feature = "launcher")]
mod reader;
mod reference;
mod report;
mod services;
mod skip_reason;
mod spec;
#[cfg(test)]
mod tests;
mod wait_record;
mod window_budget;
mod window_space;
mod worlds;

pub use ability::{
    Abilities, AlikeSettings, CommonAbilities, Difference, Limit, Means, SETTINGS_MAX,
};
pub use ability_exchange::AbilityWait;
pub use area_budget::AreaBudget;
pub use block::{RankBlock, RankState, monotonic_ns};
pub use error::SegmentError;
pub use geometry::{AREA_SPAN, Geometry, PAGE, REPORT_BYTES, SLOT_SPAN, SLOTS, SPLITS};
pub(crate) use kept_parts::{KeptPart, largest_kept};
pub(crate) use open::MappedPart;
pub use open::inherited_descriptor;
pub use poll_record::{POLLS, PollRecord};
#[cfg(feature = "launcher")]
pub use reader::{RankView, SegmentReader, WaitView};
pub use reference::SegmentRef;
pub use services::{SERVICE_BYTES, SERVICES, ServiceError};
pub use skip_reason::SkipReason;
pub use spec::JobSpec;
pub use wait_record::{WaitKind, Waiting};
pub use window_space::WINDOW_ZONE;
pub use worlds::{ParentPort, WORLDS, World, WorldSpec};

use crate::cooperative::CooperativeCopy;
use crate::counters::ALL;
use crate::doorbell::{self, Doorbell};
use crate::fifo::{FifoHead, FifoLine, FifoStorage};
use crate::helper_slots::HelperSlots;
use crate::page::page_size;
use crate::park::{self, Fencing};
use crate::process_stat::exists;
use crate::ring::{LINE, RingStorage};
use crate::sync::{AtomicU32, AtomicU64};
use crate::topology::CorePlace;
use kept_parts::KeptParts;
use spec::NodeMembers;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use window_budget::WindowBudget;
use window_space::TakenParts;

/// Environment variable: number of the descriptor that holds the segment.
pub const SEGMENT_FD_VARIABLE: &str = "MICA_SEGMENT_FD";
/// Environment variable: identifies the segment among all files ([`JobSegment::identity`]).
pub const SEGMENT_ID_VARIABLE: &str = "MICA_SEGMENT_ID";
/// Environment variable: the socket from which a process that did not inherit the descriptor
/// requests the segment ([`crate::handover`]).
pub const SEGMENT_SOCKET_VARIABLE: &str = "MICA_SEGMENT_SOCKET";
/// Environment variable: rank of the process in the job.
pub const RANK_VARIABLE: &str = "MICA_RANK";
/// Environment variable: the folder that Mica is installed in, for files that it ships.
pub const PREFIX_VARIABLE: &str = "MICA_PREFIX";
/// Environment variable: number of ranks of the job (for information; the segment contains it).
pub const SIZE_VARIABLE: &str = "MICA_SIZE";

const MAGIC: u64 = u64::from_le_bytes(*b"MICAjob\x07");

#[derive(Debug)]
#[repr(C)]
struct SegmentHeader {
    magic: u64,
    geometry: Geometry,
    available_cores: u32,
    launcher_pid: u32,
    /// 1: the rank that parks fences, by membarrier; 0: every sender fences.
    parker_fences: u32,
    job_size: u32,
    /// Ranks that there is room for beside those that the job starts with.
    spare: u32,
    /// Maximum of bytes of the cells of one communicator's area.
    area_bytes: u64,
    /// Maximum of bytes of all areas together.
    areas_bytes: u64,
    /// [`layout`].
    layout: u64,
}

/// A number that differs between versions whose control data, or whose counters, are laid out
/// differently: who reads them from outside of the job compares it.
pub fn layout() -> u64 {
    let numbers = [
        MAGIC,
        size_of::<RankBlock>() as u64,
        std::mem::offset_of!(RankBlock, life) as u64,
        std::mem::offset_of!(RankBlock, waiting) as u64,
        std::mem::offset_of!(RankBlock, polls) as u64,
        std::mem::offset_of!(RankBlock, counters) as u64,
        std::mem::offset_of!(RankBlock, given) as u64,
    ];
    let numbers = numbers.iter().flat_map(|number| number.to_le_bytes());
    let names = ALL.iter().flat_map(|counter| counter.name.bytes().chain([0]));
    // FNV-1a.
    numbers.chain(names).fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// Offset of the helper slots: in the header's page, in a line of their own.
const TOKENS_OFFSET: usize = 2048;

/// Offset of the count of area bytes: in the header's page, in a line of its own.
const AREAS_OFFSET: usize = 2048 + 128;

/// Offset of the count of window bytes, likewise.
const WINDOWS_OFFSET: usize = 2048 - 128;

const _: () = assert!(size_of::<SegmentHeader>() <= WINDOWS_OFFSET);
const _: () = assert!(AREAS_OFFSET + 128 <= report::QUESTION_OFFSET);

/// A mapped job segment.
#[derive(Debug)]
pub struct JobSegment {
    fd: OwnedFd,
    base: NonNull<u8>,
    geometry: Geometry,
    /// What the geometry says, computed once: each message and each wake looks for a block.
    block_stride: usize,
    has_slots: bool,
    members: NodeMembers,
    /// What this process has taken of its zone for windows.
    taken_parts: Mutex<TakenParts>,
    kept_parts: Mutex<KeptParts<MappedPart>>,
    /// Known once it was asked for.
    wake_fencing: OnceLock<Fencing>,
}

// SAFETY: the mapping is shared memory that is only accessed through atomics, or under the
// protocols of ring and cells.
unsafe impl Send for JobSegment {}
// SAFETY: as above.
unsafe impl Sync for JobSegment {}

impl JobSegment {
    /// The descriptor of the memfd.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Whether the file has the [slots](Geometry::slot), the [areas](Geometry::area) and the
    /// [windows](Geometry::window_zone). It has not if a file size limit (RLIMIT_FSIZE) or the
    /// number of ranks did not allow them when the job started.
    pub fn has_slots(&self) -> bool {
        self.has_slots
    }

    /// Returns the memory of `bytes` bytes of the file from `offset` on to the system; they read as
    /// zeros afterwards.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn punch(&self, offset: u64, bytes: u64) -> io::Result<()> {
        assert!(
            offset >= self.geometry.total_bytes() as u64,
            "offset {offset:#x} is in use by the job segment"
        );
        self.punch_any(offset, bytes)
    }

    /// [`punch`](Self::punch) of memory that may be part of the mapped segment, and that no process
    /// uses any more.
    fn punch_any(&self, offset: u64, bytes: u64) -> io::Result<()> {
        // SAFETY: plain system call on our descriptor. What references lead into, if any, are
        // atomics and ring storage, for which zeros are valid.
        let result = unsafe {
            libc::fallocate(
                self.fd.as_raw_fd(),
                libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE,
                offset as libc::off_t,
                bytes as libc::off_t,
            )
        };
        if result < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }

    /// Sizes and offsets.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Number of ranks on this node that the job started with.
    pub fn ranks(&self) -> u32 {
        self.members.ranks.len() as u32
    }

    /// Number of ranks that the job started with, on all its nodes.
    pub fn job_size(&self) -> u32 {
        self.header().job_size
    }

    /// The ranks on this node that the job started with, in rising order.
    pub fn members(&self) -> &[u32] {
        &self.members.ranks
    }

    /// Whether `rank` is on this node, or would be if it is a number that is not in use.
    #[inline]
    pub fn is_member(&self, rank: u32) -> bool {
        self.members.index(rank).is_some()
    }

    /// The rank with this index in the segment.
    pub fn rank_at(&self, index: u32) -> u32 {
        self.members.ranks.get(index as usize).copied().unwrap_or(index)
    }

    /// Index of `rank` in the segment.
    ///
    /// # Panics
    /// If it is not on this node.
    #[inline]
    pub fn index(&self, rank: u32) -> u32 {
        match self.members.index(rank) {
            Some(index) => index,
            None => panic!("rank {rank} is not on this node"),
        }
    }

    /// Cores that the job may use.
    pub fn available_cores(&self) -> u32 {
        self.header().available_cores
    }

    /// True when ranks outnumber the cores that they may use.
    pub fn is_oversubscribed(&self) -> bool {
        self.occupied().count() as u32 > self.available_cores()
    }

    /// Whether senders or parkers fence: one decision for all ranks.
    pub fn fencing(&self) -> Fencing {
        if self.header().parker_fences == 1 { Fencing::Parker } else { Fencing::Sender }
    }

    /// How this process orders its stores before it wakes ranks of the segment.
    pub fn wake_fencing(&self) -> Fencing {
        *self.wake_fencing.get_or_init(|| {
            let fencing = self.fencing();
            // A sender that is not reached by the others' membarriers fences itself.
            match fencing == Fencing::Sender || park::membarrier_register() {
                true => fencing,
                false => Fencing::Sender,
            }
        })
    }

    /// The node's count of copy helpers at work.
    pub fn helper_tokens(&self) -> &HelperSlots {
        // SAFETY: in the header's page, after the header, allocated and zeroed by `create`; zero is
        // a valid count. The bytes are used for nothing else, and only accessed through the atomic.
        unsafe { &*self.at(TOKENS_OFFSET).cast::<HelperSlots>() }
    }

    /// The memory that the areas of this node's communicators use, and its limits.
    pub fn area_budget(&self) -> AreaBudget<'_> {
        // SAFETY: as for the helper slots; zeroed memory is a count of no bytes.
        let used = unsafe { &*self.at(AREAS_OFFSET).cast::<AtomicU64>() };
        let header = self.header();
        AreaBudget::new(used, header.areas_bytes, header.area_bytes)
    }

    /// The memory of this node's windows.
    pub(crate) fn window_budget(&self) -> WindowBudget<'_> {
        // SAFETY: as for the helper slots; zeroed memory is a count of no bytes.
        let promised = unsafe { &*self.at(WINDOWS_OFFSET).cast::<AtomicU64>() };
        WindowBudget::new(promised)
    }

    /// Bytes of the file that have memory.
    ///
    /// # Errors
    /// When the kernel does not say.
    pub(crate) fn allocated_bytes(&self) -> io::Result<u64> {
        // SAFETY: all-zero bytes are a valid stat.
        let mut stat: libc::stat = unsafe { std::mem::zeroed() };
        // SAFETY: fstat writes to `stat` only.
        match unsafe { libc::fstat(self.fd.as_raw_fd(), &mut stat) } {
            0 => Ok(stat.st_blocks as u64 * 512),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Process that started the ranks of this node, as far as known; in a job of one rank, the rank
    /// itself.
    pub fn launcher_pid(&self) -> u32 {
        self.header().launcher_pid
    }

    /// Place of rank `rank`.
    pub fn place(&self, rank: u32) -> CorePlace {
        self.block(rank).given.place
    }

    /// MPMD section of rank `rank`.
    pub fn appnum(&self, rank: u32) -> u32 {
        self.block(rank).given.appnum
    }

    /// State of rank `rank`.
    pub fn rank_state(&self, rank: u32) -> RankState {
        self.block(rank).state()
    }

    /// True when rank `rank` was running and its process no longer exists.
    pub fn is_gone(&self, rank: u32) -> bool {
        matches!(self.rank_state(rank), RankState::Running { pid } if !exists(pid))
    }

    /// True when rank `rank` is running and its process exists.
    fn is_running(&self, rank: u32) -> bool {
        matches!(self.rank_state(rank), RankState::Running { pid } if exists(pid))
    }

    /// Blocks until rank `rank` [is gone](Self::is_gone), does not run any more by its own account,
    /// or `limit` has passed. A process that was killed loses its memory a moment before who
    /// started it learns of its death; afterwards an error that follows from the death cannot be
    /// taken for its cause.
    #[cold]
    pub fn wait_until_gone(&self, rank: u32, limit: Duration) {
        let start = Instant::now();
        while self.is_running(rank) && start.elapsed() < limit {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Adds the limits of rank `rank` to the report `said`.
    pub fn with_limits(&self, rank: u32, said: String) -> String {
        let limits = self.block(rank).limits_in_words();
        match limits.is_empty() {
            true => said,
            false => format!("{said}; its communicators do without {limits}"),
        }
    }

    /// A report of what rank `rank` waits for right now; `None` when it does not wait in MPI.
    pub fn wait_report(&self, rank: u32) -> Option<String> {
        let (w, ns) = self.block(rank).waiting()?;
        let since = format!(
            "communicator {:#x}, for {:.3} s; {} unexpected messages queued",
            w.context & !1,
            ns as f64 / 1e9,
            w.unexpected
        );
        let what = match w.kind {
            WaitKind::Collective => {
                return Some(format!("waits for other ranks in a collective on {since}"));
            }
            WaitKind::Send => "its message to be taken",
            WaitKind::Receive => "a message",
            WaitKind::Probe => "a message to probe",
            WaitKind::Requests => "one of several requests",
            WaitKind::Window => "a peer of a window",
        };
        let peer = match (w.kind, w.peer) {
            (WaitKind::Requests, p) if p < 0 => String::new(),
            (_, p) if p < 0 => " from any rank".to_owned(),
            (WaitKind::Send, p) => format!(" by rank {p}"),
            (_, p) => format!(" from rank {p}"),
        };
        let tag = if w.tag < 0 { "any tag".to_owned() } else { format!("tag {}", w.tag) };
        let plane = if w.context & 1 == 1 { "a collective on " } else { "" };
        Some(format!("waits for {what}{peer}, {tag}, {plane}{since}"))
    }

    /// Control data of rank `rank`.
    ///
    /// # Panics
    /// If there is no such rank.
    #[inline]
    pub fn block(&self, rank: u32) -> &RankBlock {
        let at = self.geometry.block(0) + self.index(rank) as usize * self.block_stride;
        // SAFETY: the block lies in the allocated part of the mapping, page-aligned; all its fields
        // are atomics or have not been written since `create`.
        unsafe { &*self.at(at).cast::<RankBlock>() }
    }

    /// The doorbell of `sender` at `receiver`, which only the sender writes: the low half of the
    /// position that it has reached in its ring to `receiver`.
    pub fn doorbell(&self, receiver: u32, sender: u32) -> &Doorbell {
        let at = self.geometry.block(self.index(receiver)) + self.geometry.doorbells_in_block();
        // SAFETY: in the allocated control part; the geometry reserves these bytes for nothing
        // else.
        let all: &[Doorbell] =
            unsafe { std::slice::from_raw_parts(self.at(at).cast(), self.geometry.ranks as usize) };
        &all[self.index(sender) as usize]
    }

    /// Sets `sender`'s new-sender bit at `receiver`. To be called once, before its first message,
    /// so that the receiver need not poll the doorbells of ranks that never send to it.
    pub fn announce_sender(&self, receiver: u32, sender: u32) {
        doorbell::announce_sender(self.new_sender_bits(receiver), self.index(sender));
    }

    /// The new-sender bits of rank `rank`, by index of the sender in the segment: the order of
    /// [`JobSegment::members`].
    pub fn new_sender_bits(&self, rank: u32) -> &[AtomicU64] {
        let at = self.geometry.block(self.index(rank)) + self.geometry.new_senders_in_block();
        // SAFETY: as for the doorbells.
        unsafe { std::slice::from_raw_parts(self.at(at).cast(), self.geometry.new_sender_words()) }
    }

    /// Cell marks of rank `rank`.
    pub fn marks(&self, rank: u32) -> &[AtomicU32] {
        let at = self.geometry.block(self.index(rank)) + self.geometry.marks_in_block();
        // SAFETY: as for the doorbells.
        unsafe { std::slice::from_raw_parts(self.at(at).cast(), self.geometry.cells as usize) }
    }

    /// Address of the bytes of cell `cell` of rank `rank`. They must have been
    /// [allocated](JobSegment::allocate).
    pub fn cell(&self, rank: u32, cell: u16) -> *mut u8 {
        assert!(u32::from(cell) < self.geometry.cells);
        self.at(self.cell_offset(rank, cell))
    }

    /// Offset of the bytes of cell `cell` of rank `rank`, for [`JobSegment::allocate`].
    pub fn cell_offset(&self, rank: u32, cell: u16) -> usize {
        self.geometry.cell(self.index(rank), u32::from(cell))
    }

    /// Offset of the ring, or the FIFO, from `from` to `to`, for [`JobSegment::allocate`].
    pub fn pair_offset(&self, from: u32, to: u32) -> usize {
        self.geometry.pair(self.index(from), self.index(to))
    }

    /// Offset of the cooperative copies of rank `rank`, for [`JobSegment::allocate`].
    pub fn splits_offset(&self, rank: u32) -> usize {
        self.geometry.splits(self.index(rank))
    }

    /// Offset in the file of slot `slot` of rank `rank`: see [`Geometry::slot`].
    pub fn slot_offset(&self, rank: u32, slot: u32) -> u64 {
        self.geometry.slot(self.index(rank), slot)
    }

    /// Offset in the file of the windows of rank `rank`: see [`Geometry::window_zone`].
    pub(crate) fn window_offset(&self, rank: u32) -> u64 {
        self.geometry.window_zone(self.index(rank))
    }

    /// What this process has taken of its zone for windows.
    pub(crate) fn taken_parts(&self) -> MutexGuard<'_, TakenParts> {
        // A poisoned table is usable: each change is one statement.
        self.taken_parts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn kept_parts(&self) -> MutexGuard<'_, KeptParts<MappedPart>> {
        // As above.
        self.kept_parts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether messages from `from` to `to` go through a FIFO: see [`Geometry::is_fifo`].
    pub fn is_fifo(&self, from: u32, to: u32) -> bool {
        self.geometry.is_fifo(self.index(from), self.index(to))
    }

    /// The ring from `from` to `to`. It must have been [allocated](JobSegment::allocate) by its
    /// sender before use.
    ///
    /// # Panics
    /// If there are no such ranks, or they have a FIFO.
    pub fn ring(&self, from: u32, to: u32) -> &RingStorage {
        assert!(!self.is_fifo(from, to));
        // SAFETY: inside the mapping, page-aligned; zeroed memory is a valid empty ring; all access
        // goes through its atomics and cells.
        unsafe { &*self.at(self.pair_offset(from, to)).cast::<RingStorage>() }
    }

    /// The FIFO from `from` to `to`. It must have been [allocated](JobSegment::allocate) by its
    /// sender before use.
    ///
    /// # Panics
    /// If there are no such ranks, or they have a ring.
    pub fn fifo(&self, from: u32, to: u32) -> FifoStorage<&FifoHead, &[FifoLine]> {
        assert!(self.is_fifo(from, to));
        let head = self.at(self.pair_offset(from, to));
        // SAFETY: inside the mapping, page-aligned; zeroed memory is a valid empty FIFO; all access
        // goes through its atomics and cells. The geometry reserves `fifo_bytes` bytes after the
        // head.
        unsafe {
            FifoStorage {
                head: &*head.cast::<FifoHead>(),
                lines: std::slice::from_raw_parts(
                    head.wrapping_add(size_of::<FifoHead>()).cast(),
                    self.geometry.fifo_bytes as usize / LINE,
                ),
            }
        }
    }

    /// The cooperative copies of rank `rank`. They must have been [allocated](JobSegment::allocate)
    /// by that rank before use.
    pub fn splits(&self, rank: u32) -> &[CooperativeCopy] {
        // SAFETY: inside the mapping, page-aligned; zeroed memory is a valid cooperative copy; all
        // access goes through its atomics.
        unsafe { std::slice::from_raw_parts(self.at(self.splits_offset(rank)).cast(), SPLITS) }
    }

    /// Allocates memory for `bytes` bytes from `offset` on, so that accessing them cannot fail.
    ///
    /// # Errors
    /// When there is no memory, with the number of bytes wanted.
    pub fn allocate(&self, offset: usize, bytes: usize) -> Result<(), SegmentError> {
        loop {
            // SAFETY: plain system call on our descriptor; allocating does not change existing
            // bytes.
            let result = unsafe {
                libc::fallocate(self.fd.as_raw_fd(), 0, offset as libc::off_t, bytes as libc::off_t)
            };
            if result == 0 {
                return Ok(());
            }
            let source = io::Error::last_os_error();
            if source.kind() != io::ErrorKind::Interrupted {
                return Err(SegmentError::System { call: "fallocate", bytes, source });
            }
        }
    }

    /// Maps `bytes` [allocated](JobSegment::allocate) bytes from `offset` on for writing, to avoid
    /// page faults at the first access. A kernel without this feature (before Linux 5.14) leaves
    /// the page faults.
    pub fn populate(&self, offset: usize, bytes: usize) {
        let end = offset + bytes;
        let start = offset - offset % page_size();
        debug_assert!(end <= self.geometry.total_bytes());
        // SAFETY: the range lies in our mapping; populating does not change its bytes.
        unsafe { libc::madvise(self.at(start).cast(), end - start, libc::MADV_POPULATE_WRITE) };
    }

    fn header(&self) -> &SegmentHeader {
        // SAFETY: written by `create` before any other process saw the segment, and never changed.
        unsafe { self.base.cast::<SegmentHeader>().as_ref() }
    }

    fn at(&self, offset: usize) -> *mut u8 {
        debug_assert!(offset <= self.geometry.total_bytes());
        self.base.as_ptr().wrapping_add(offset)
    }
}
