//! What windows need of the engine (MPI 5.0, chapter 12): memory that the ranks of a node share,
//! and waits that end by what a peer writes there.

use crate::engine::{Engine, EngineState, Fault};
use crate::wait::pending::WaitList;
use std::time::Duration;

use mica_channel::shm::NodeTraffic;
use mica_node::segment::SegmentError;
use mica_node::window::{PartUser, SharedWindow, WindowLocks};

impl Engine {
    /// Whether windows of this rank and of `rank` can lie in memory that both share.
    pub fn shares_windows_with(&self, rank: u32) -> bool {
        self.segment.has_slots() && self.segment.is_member(rank)
    }

    /// Whether messages between ranks of this node go over the network, as if they shared no
    /// memory.
    pub fn is_loopback(&self) -> bool {
        self.node_traffic == NodeTraffic::Network
    }

    /// Allocates window memory of this rank. See [`SharedWindow::allocate`].
    ///
    /// # Errors
    /// When there is no memory, address space or file space, with the number of bytes.
    pub fn allocate_window(
        &self,
        bytes: usize,
        user: PartUser,
    ) -> Result<SharedWindow, SegmentError> {
        SharedWindow::allocate(&self.segment, self.rank, bytes, user)
    }

    /// Maps window memory of `owner`, a rank that [shares windows](Self::shares_windows_with). See
    /// [`SharedWindow::open`].
    ///
    /// # Errors
    /// When there is no address space, or no such memory.
    pub fn open_window(
        &self,
        owner: u32,
        offset: u64,
        bytes: usize,
        user: PartUser,
    ) -> Result<SharedWindow, SegmentError> {
        SharedWindow::open(&self.segment, owner, offset, bytes, user)
    }

    /// Allocates the locks of a window of `ranks` ranks. See [`WindowLocks::allocate`].
    ///
    /// # Errors
    /// As [`allocate_window`](Self::allocate_window).
    pub fn allocate_window_locks(&self, ranks: u32) -> Result<WindowLocks, SegmentError> {
        WindowLocks::allocate(&self.segment, self.rank, ranks)
    }

    /// Maps the locks that `owner` has allocated. See [`WindowLocks::open`].
    ///
    /// # Errors
    /// As [`open_window`](Self::open_window).
    pub fn open_window_locks(
        &self,
        owner: u32,
        offset: u64,
        ranks: u32,
    ) -> Result<WindowLocks, SegmentError> {
        WindowLocks::open(&self.segment, owner, offset, ranks)
    }

    /// Wakes `rank` of this node if it sleeps in a [`watch`](Self::watch). To be called after
    /// writing what it polls.
    ///
    /// # Panics
    /// If `rank` is not on this node.
    #[inline]
    pub fn wake(&self, rank: u32) {
        self.segment.block(rank).parking.0.wake(self.wake_fencing);
    }

    /// How often a rank may look for what a peer writes to shared memory before it
    /// [watches](Self::watch): not at all if it shares its core.
    #[inline]
    pub fn polls_before_watch(&self) -> u32 {
        match self.wait.shares_core {
            true => 0,
            false => self.wait.direct_polls,
        }
    }

    /// Whether a poll of [`watch`](Self::watch) may be the last one before this rank sleeps.
    pub fn is_about_to_sleep(&self) -> bool {
        self.segment.block(self.rank).parking.0.is_announced()
    }

    /// As [`watch`](Self::watch), for a condition whose change wakes no rank: sleeps for `interval`
    /// at most between two polls.
    ///
    /// # Errors
    /// When progress fails for lack of memory.
    pub fn watch_at_intervals<R>(
        &self,
        waiting: impl Fn(&EngineState, &mut WaitList),
        poll: impl FnMut() -> Option<R>,
        interval: Duration,
    ) -> Result<R, Fault> {
        self.watch_for(waiting, poll, Some(interval))
    }
}
