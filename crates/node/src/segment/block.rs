//! The control data of one rank in the job segment. Data with different writers lie in different
//! lines.

use super::ability::AbilityLine;
use super::geometry::BLOCK_BYTES;
use super::poll_record::PollRecord;
use super::report::AnswerLine;
use super::wait_record::{WaitRecord, Waiting};
use super::worlds::table::ConnectionLine;
use crate::counters::{Counters, LiveCounters};
use crate::migration_gate::MigrationGate;
use crate::park::ParkingSpot;
use crate::topology::CorePlace;
use std::sync::atomic::{AtomicI32, AtomicI64, AtomicU32, AtomicU64, Ordering};

/// State of a rank, as the launcher sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RankState {
    /// It has not called `MPI_Init` (it may never).
    Absent,
    /// It is between `MPI_Init` and `MPI_Finalize`, or has a session open.
    Running {
        /// Its process.
        pid: u32,
    },
    /// It has called `MPI_Finalize`, and closed its sessions.
    Finalized,
    /// It has called `MPI_Abort`, or a fatal error did so for it.
    Aborted {
        /// The error code it gave.
        code: i32,
    },
}

const RUNNING: u32 = 1;
const FINALIZED: u32 = 2;
const ABORTED: u32 = 3;

/// One rank's control data; doorbells and cell marks follow it in memory.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct RankBlock {
    /// Where this rank sleeps.
    pub parking: ParkingLine,
    /// Written by the rank when it attaches and ends.
    pub(super) life: LifeLine,
    /// Written by the rank when it parks.
    pub(super) waiting: WaitRecord,
    /// Written by the rank when a test or probe fails.
    pub(super) polls: PollRecord,
    /// Written by the rank when it answers the launcher's question.
    pub(super) answer: AnswerLine,
    /// Written by the rank at any time, without notice to readers.
    pub(super) counters: LiveCounters,
    /// Written by the launcher before the rank runs.
    pub(super) given: GivenLine,
    /// Written by the rank in `MPI_Init`, and when it loses an ability.
    pub(super) abilities: AbilityLine,
    /// Written by the rank.
    pub(super) connections: ConnectionLine,
    /// Written by peers that store to the rank's memory by address, and by the rank when it
    /// migrates pages.
    pub migration: MigrationGate,
}

/// The parking spot, alone in its line: senders read it with every message.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct ParkingLine(pub ParkingSpot);

#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct LifeLine {
    state: AtomicU32,
    pid: AtomicU32,
    abort_code: AtomicI32,
    /// 1 from MPI_Init to MPI_Finalize; sessions do not change it.
    world: AtomicU32,
    /// 1 once a process that a rank of the node started has said that it is a job of its own. Only
    /// the one of the node's first rank counts.
    descendants: AtomicU32,
    /// Address and value of a word in the rank's private memory, with which peers probe direct
    /// copy.
    pub probe_address: AtomicU64,
    pub probe_value: AtomicU64,
    /// XPMEM's id of the segment that covers this process's memory, 0 if there is none.
    pub xpmem_segment: AtomicI64,
}

#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
pub(super) struct GivenLine {
    pub place: CorePlace,
    pub appnum: u32,
    /// Number of the rank in the job.
    pub rank: u32,
}

const _: () = {
    assert!(size_of::<RankBlock>() <= BLOCK_BYTES, "doorbells follow");
    assert!(align_of::<RankBlock>() == 64);
};

impl RankBlock {
    /// State of the rank.
    pub fn state(&self) -> RankState {
        // SYNC life: pairs with the Release stores below; pid and code are written before the
        // state.
        match self.life.state.load(Ordering::Acquire) {
            RUNNING => RankState::Running { pid: self.pid() },
            FINALIZED => RankState::Finalized,
            ABORTED => RankState::Aborted { code: self.life.abort_code.load(Ordering::Relaxed) },
            _ => RankState::Absent,
        }
    }

    /// Process of the rank (0 before it has attached).
    pub fn pid(&self) -> u32 {
        self.life.pid.load(Ordering::Relaxed)
    }

    /// Assigns this rank to process `pid`. Returns false if another process has it already.
    pub(super) fn claim(&self, pid: u32) -> bool {
        if self.life.pid.compare_exchange(0, pid, Ordering::Relaxed, Ordering::Relaxed).is_err() {
            return false;
        }
        // SYNC life
        self.life.state.store(RUNNING, Ordering::Release);
        true
    }

    /// Marks the rank as finalized.
    pub fn finalize(&self) {
        // SYNC life
        self.life.state.store(FINALIZED, Ordering::Release);
    }

    /// Undoes [`finalize`](Self::finalize): the same process continues after all.
    pub fn resume(&self) {
        // SYNC life
        self.life.state.store(RUNNING, Ordering::Release);
    }

    /// Returns true to the first caller alone.
    pub(super) fn begin_descendants(&self) -> bool {
        // Relaxed: nothing is published by it.
        self.life.descendants.swap(1, Ordering::Relaxed) == 0
    }

    /// Records whether the rank is between MPI_Init and MPI_Finalize, which wait for all ranks of
    /// the job.
    pub fn set_world(&self, inside: bool) {
        // Relaxed: only the launcher reads it, and may act on it at any time.
        self.life.world.store(u32::from(inside), Ordering::Relaxed);
    }

    /// Whether the rank is between MPI_Init and MPI_Finalize.
    pub fn is_in_world(&self) -> bool {
        self.life.world.load(Ordering::Relaxed) == 1
    }

    /// Marks the rank as aborted with `code`.
    pub fn abort(&self, code: i32) {
        self.life.abort_code.store(code, Ordering::Relaxed);
        // SYNC life
        self.life.state.store(ABORTED, Ordering::Release);
    }

    /// Publishes a word of this process's memory, with which peers probe direct copy.
    pub fn publish_probe(&self, address: u64, value: u64) {
        self.life.probe_value.store(value, Ordering::Relaxed);
        // SYNC probe: pairs with `probe`; a peer that sees the address sees the value.
        self.life.probe_address.store(address, Ordering::Release);
    }

    /// Address and value of the rank's probe word, once it has published them.
    pub fn probe(&self) -> Option<(u64, u64)> {
        // SYNC probe
        let address = self.life.probe_address.load(Ordering::Acquire);
        (address != 0).then(|| (address, self.life.probe_value.load(Ordering::Relaxed)))
    }

    /// Publishes XPMEM's id of this process's memory.
    pub fn publish_xpmem(&self, segment: i64) {
        self.life.xpmem_segment.store(segment, Ordering::Relaxed);
    }

    /// XPMEM's id of the rank's memory, if it has one.
    pub fn xpmem(&self) -> Option<i64> {
        let segment = self.life.xpmem_segment.load(Ordering::Relaxed);
        (segment != 0).then_some(segment)
    }

    /// The words in which the rank counts; only the rank may write them.
    pub(crate) fn live_counters(&self) -> &LiveCounters {
        &self.counters
    }

    /// The values of the rank's counters at this moment. Any process that has mapped the segment
    /// may call it at any time; the rank does not notice.
    pub fn counters(&self) -> Counters {
        self.counters.snapshot()
    }

    /// Records what the rank waits for, and since when (nanoseconds of [`monotonic_ns`]). `None`:
    /// its wait is over, and so is the [call's](Self::name_wait).
    pub fn set_waiting(&self, waiting: Option<(&Waiting, u64)>) {
        self.waiting.set(waiting);
    }

    /// Records the function that the rank waits in; to be called between two calls of
    /// [`set_waiting`](Self::set_waiting).
    pub fn name_wait(&self, call: &str) {
        self.waiting.call().set(call);
    }

    /// The rank's failed polls.
    #[inline(always)]
    pub fn polls(&self) -> &PollRecord {
        &self.polls
    }

    /// The name that [`name_wait`](Self::name_wait) recorded.
    #[cfg(feature = "launcher")]
    pub(super) fn call_bytes(&self) -> [u8; super::wait_record::CALL_BYTES] {
        self.waiting.call().bytes()
    }

    /// What the rank waits for, and for how many nanoseconds it has waited.
    pub fn waiting(&self) -> Option<(Waiting, u64)> {
        let (waiting, since) = self.waiting.get()?;
        Some((waiting, monotonic_ns().saturating_sub(since)))
    }
}

/// Nanoseconds of the clock that all processes of the node share.
pub fn monotonic_ns() -> u64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes to `t` only; CLOCK_MONOTONIC always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut t) };
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}
