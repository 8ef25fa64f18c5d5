//! Shared memory of windows, for layers that forbid unsafe code: [`Region`]s name the bytes (MPI
//! 5.0, chapter 12).
//!
//! [`SharedWindow`] is the memory that a rank offers in `MPI_Win_allocate`, as its owner and its
//! peers on the node see it: a load or store of the region is the transfer. [`WindowLocks`] are the
//! locks and counts of a window, in memory that one of its ranks allocates for all.
//!
//! What the bytes mean, and when they may be touched, is the window's synchronization; elements
//! that several origins update at a time are accessed by the [atomics](mica_memory::AtomicWidth)
//! of a region, or under the target's accumulate lock.

use super::memory::WindowMemory;
use super::{EpochCounts, LockDesign, OwnGate, OwnLock, PartUser, WindowControl};
use crate::park::Fencing;
use crate::segment::{JobSegment, SegmentError};
use mica_memory::{Block, Region, fill};
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::Arc;

/// Memory of a window in this process. Cheap to clone; all clones and their regions share it.
#[derive(Debug, Clone)]
pub struct SharedWindow {
    memory: Arc<WindowMemory>,
    block: Arc<Block>,
}

impl SharedWindow {
    /// Allocates `bytes` bytes for this process's rank `me`, at least: they are rounded up to whole
    /// pages, and zero.
    ///
    /// # Errors
    /// When there is no memory, address space or file space, with the number of bytes.
    pub fn allocate(
        segment: &Arc<JobSegment>,
        me: u32,
        bytes: usize,
        user: PartUser,
    ) -> Result<SharedWindow, SegmentError> {
        WindowMemory::allocate(segment, me, bytes, user).map(SharedWindow::new)
    }

    /// Maps the `bytes` bytes that rank `owner` of this node has allocated, and announced by their
    /// [offset](Self::offset).
    ///
    /// # Errors
    /// When there is no address space, or the owner's zone has no such part, with the number of
    /// bytes.
    ///
    /// # Panics
    /// If `owner` is not on this node.
    pub fn open(
        segment: &Arc<JobSegment>,
        owner: u32,
        offset: u64,
        bytes: usize,
        user: PartUser,
    ) -> Result<SharedWindow, SegmentError> {
        WindowMemory::open(segment, owner, offset, bytes, user).map(SharedWindow::new)
    }

    fn new(memory: WindowMemory) -> SharedWindow {
        let memory = Arc::new(memory);
        let start = memory.base().as_ptr().expose_provenance();
        let addresses = start..start + memory.bytes();
        // SAFETY: 1. mapped for reading and writing as long as `memory` lives, at an address of the
        // kernel's choice; 2. what is accessed, and when, is the window's synchronization, and
        // regions make no references that outlive an access.
        let block = unsafe { Block::mapped(addresses, Arc::clone(&memory)) };
        SharedWindow { memory, block }
    }

    /// All of its bytes, from the first. Keeps them mapped.
    pub fn region(&self) -> Region {
        self.block.region_at(self.block.addresses().start)
    }

    /// Bytes: whole pages.
    pub fn bytes(&self) -> usize {
        self.memory.bytes()
    }

    /// Where it lies in the owner's zone, for [`open`](Self::open).
    pub fn offset(&self) -> u64 {
        self.memory.offset()
    }
}

/// The locks and counts of one window on one node: a [`WindowControl`] and its memory.
#[derive(Debug)]
pub struct WindowLocks {
    control: WindowControl,
    memory: LockMemory,
}

/// What keeps the memory of the locks.
#[derive(Debug)]
enum LockMemory {
    Shared(SharedWindow),
    Private(#[expect(dead_code, reason = "kept alive")] Region),
}

/// The locks of one target as one rank uses them: their addresses are computed once.
#[derive(Debug)]
pub struct OwnLocks {
    gate: OwnGate<'static>,
    lock: Option<OwnLock<'static>>,
    _locks: Arc<WindowLocks>,
}

impl OwnLocks {
    /// Those of rank `me` at `target`; `design` is the window lock's, if this rank takes it itself.
    ///
    /// # Panics
    /// If there is no such rank.
    pub fn new(
        locks: &Arc<WindowLocks>,
        design: Option<LockDesign>,
        target: u32,
        me: u32,
    ) -> OwnLocks {
        let gate = locks.accumulate_gate(target).own(me);
        let lock = design.and_then(|design| locks.lock(design, target).own(me));
        // SAFETY: they refer to the memory of `locks`, which stays where it is as long as `_locks`
        // lives; the methods give them out for no longer than that.
        unsafe {
            OwnLocks {
                gate: std::mem::transmute::<OwnGate<'_>, OwnGate<'static>>(gate),
                lock: std::mem::transmute::<Option<OwnLock<'_>>, Option<OwnLock<'static>>>(lock),
                _locks: Arc::clone(locks),
            }
        }
    }

    /// What keeps this rank's accumulates atomic.
    #[inline(always)]
    pub fn gate(&self) -> &OwnGate<'_> {
        &self.gate
    }

    /// The window's lock, in a design with a queue, if this rank takes it itself.
    #[inline(always)]
    pub fn lock(&self) -> Option<&OwnLock<'_>> {
        self.lock.as_ref()
    }
}

/// The epochs of one rank with its peers: where their counts lie is computed once.
#[derive(Debug)]
pub struct OwnCounts {
    counts: EpochCounts<'static>,
    _locks: Arc<WindowLocks>,
}

impl OwnCounts {
    /// Those of rank `me`, before its first epoch.
    ///
    /// # Panics
    /// If there is no such rank.
    pub fn new(locks: &Arc<WindowLocks>, me: u32) -> OwnCounts {
        let counts = locks.board().counts(me);
        // SAFETY: they refer to the memory of `locks`, which stays where it is as long as `_locks`
        // lives; `with` gives them out for no longer than that.
        let counts =
            unsafe { std::mem::transmute::<EpochCounts<'_>, EpochCounts<'static>>(counts) };
        OwnCounts { counts, _locks: Arc::clone(locks) }
    }

    /// Calls `f` with them. It takes those of any lifetime, so that it can neither keep nor replace
    /// them.
    #[inline(always)]
    pub fn with<R>(&mut self, f: impl for<'a> FnOnce(&mut EpochCounts<'a>) -> R) -> R {
        f(&mut self.counts)
    }
}

/// Alignment of a [`WindowControl`].
const CONTROL_ALIGN: usize = 128;

impl WindowLocks {
    /// Allocates the locks of a window of `ranks` ranks, as rank `me` of the job, one of them, for
    /// all of them.
    ///
    /// # Errors
    /// As [`SharedWindow::allocate`].
    pub fn allocate(
        segment: &Arc<JobSegment>,
        me: u32,
        ranks: u32,
    ) -> Result<WindowLocks, SegmentError> {
        let window = SharedWindow::allocate(segment, me, bytes(ranks)?, PartUser::Library)?;
        Ok(WindowLocks::new(window, ranks, segment.wake_fencing()))
    }

    /// Locks in this process's own memory, for a rank that shares none.
    ///
    /// # Errors
    /// When there is no memory.
    pub fn private(ranks: u32) -> Result<WindowLocks, SegmentError> {
        let bytes = bytes(ranks)?;
        let failed = |_| SegmentError::NoFileSpace { bytes };
        let memory = Block::allocate(bytes + CONTROL_ALIGN).map_err(failed)?;
        fill(&memory, 0, bytes + CONTROL_ALIGN);
        let start = memory.address().next_multiple_of(CONTROL_ALIGN);
        let base = std::ptr::with_exposed_provenance_mut(start);
        let base = NonNull::new(base).expect("memory is not at address 0");
        // SAFETY: 1. the block has the control's bytes after the alignment, and lives as long as
        // the region; 2. it was just zeroed, and nothing else uses it.
        let control = unsafe { WindowControl::new(base, ranks, Fencing::Sender) };
        Ok(WindowLocks { control, memory: LockMemory::Private(memory) })
    }

    /// Maps the locks that rank `owner` has allocated for `ranks` ranks at `offset`.
    ///
    /// # Errors
    /// As [`SharedWindow::open`].
    ///
    /// # Panics
    /// As [`SharedWindow::open`].
    pub fn open(
        segment: &Arc<JobSegment>,
        owner: u32,
        offset: u64,
        ranks: u32,
    ) -> Result<WindowLocks, SegmentError> {
        let window = SharedWindow::open(segment, owner, offset, bytes(ranks)?, PartUser::Library)?;
        Ok(WindowLocks::new(window, ranks, segment.wake_fencing()))
    }

    fn new(window: SharedWindow, ranks: u32, fencing: Fencing) -> WindowLocks {
        // SAFETY: 1. the memory begins on a page, has the control's bytes, and stays mapped with
        // `window`; 2. it was zero when its owner allocated it, and only the locks of this window
        // for this number of ranks are made on it.
        let control = unsafe { WindowControl::new(window.memory.base(), ranks, fencing) };
        let memory = LockMemory::Shared(window);
        WindowLocks { control, memory }
    }

    /// Where they lie in the owner's zone, for [`open`](Self::open); 0 for private ones.
    pub fn offset(&self) -> u64 {
        match &self.memory {
            LockMemory::Shared(window) => window.offset(),
            LockMemory::Private(_) => 0,
        }
    }
}

impl Deref for WindowLocks {
    type Target = WindowControl;

    fn deref(&self) -> &WindowControl {
        &self.control
    }
}

fn bytes(ranks: u32) -> Result<usize, SegmentError> {
    WindowControl::bytes(ranks).ok_or(SegmentError::NoFileSpace { bytes: usize::MAX })
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::segment::JobSpec;
    use crate::topology::CorePlace;
    use crate::window::LockMode;
    use mica_memory::AtomicWidth;

    /// The segment of a job of `ranks` ranks, as two of its processes have it.
    fn segments(ranks: usize) -> [Arc<JobSegment>; 2] {
        let places = vec![CorePlace::UNKNOWN; ranks];
        let spec = JobSpec::on_one_node(&places, 2, &[]);
        let mine = JobSegment::create(&spec).expect("segment");
        let fd = mine.as_fd().try_clone_to_owned().expect("dup");
        let theirs = JobSegment::attach(fd).expect("attach");
        [Arc::new(mine), Arc::new(theirs)]
    }

    #[test]
    fn what_an_origin_stores_the_target_loads() {
        let [mine, theirs] = segments(2);
        let target = SharedWindow::allocate(&mine, 1, 10_000, PartUser::Program).expect("memory");
        assert_eq!(target.bytes(), 12_288);
        let origin = SharedWindow::open(&theirs, 1, target.offset(), 10_000, PartUser::Program)
            .expect("maps");
        origin.region().offset(5000).write_bytes(b"put");
        let mut got = [0; 3];
        target.region().offset(5000).read_bytes(&mut got);
        assert_eq!(&got, b"put");
        let (there, here) = (origin.region(), target.region());
        assert_eq!(there.at(8).atomic_add(AtomicWidth::Eight, 5), 0);
        assert_eq!(here.at(8).atomic_add(AtomicWidth::Eight, 2), 5);
        assert_eq!(there.at(8).atomic_load(AtomicWidth::Eight), 7);
    }

    #[test]
    fn a_region_keeps_the_memory_mapped() {
        let [mine, _] = segments(1);
        let window = SharedWindow::allocate(&mine, 0, 1, PartUser::Program).expect("memory");
        let region = window.region();
        drop(window);
        region.write_bytes(&[1; 4096]);
        let next = SharedWindow::allocate(&mine, 0, 1, PartUser::Program).expect("memory");
        assert_ne!(next.offset(), 0, "the place is taken as long as a region has it");
        drop(region);
        assert_eq!(
            SharedWindow::allocate(&mine, 0, 1, PartUser::Program).expect("memory").offset(),
            0
        );
    }

    #[test]
    #[should_panic(expected = "reach outside the 4096 bytes")]
    fn a_window_is_never_left() {
        let [mine, _] = segments(1);
        let window = SharedWindow::allocate(&mine, 0, 100, PartUser::Program).expect("memory");
        window.region().offset(4093).write_bytes(&[0; 4]);
    }

    #[test]
    fn both_processes_see_one_lock() {
        let [mine, theirs] = segments(3);
        let here = WindowLocks::allocate(&mine, 0, 3).expect("memory");
        let there = WindowLocks::open(&theirs, 0, here.offset(), 3).expect("maps");
        for design in [LockDesign::Mcs, LockDesign::TestAndSet] {
            let held = here.lock(design, 2).begin(0, LockMode::Exclusive);
            let mut waits = there.lock(design, 2).begin(1, LockMode::Exclusive);
            assert!(!there.lock(design, 2).poll(&mut waits));
            let holders: Vec<_> = there.lock(design, 2).holders().collect();
            assert_eq!(holders, [(0, LockMode::Exclusive)]);
            here.lock(design, 2).release(held, |_| ());
            while !there.lock(design, 2).poll(&mut waits) {}
            there.lock(design, 2).release(waits, |_| ());
        }
    }
}
