//! The fast path of operations: contiguous bytes of mapped memory that may be accessed now.
//!
//! A function here returns `None` where that does not hold; then it has changed nothing (but see
//! [`fence`]), and the caller takes the path of [`transfer`](super::transfer) or
//! [`accumulate`](mod@super::accumulate), which checks all arguments and reports what is wrong. So
//! nothing is reported here, and no call leaves more than a few instructions behind.
//!
//! The functions that take a handle find the window without thread-local memory
//! ([`sole_table`]), in programs whose threads enter one at a time. The methods serve both paths:
//! with several threads, they are what the other path tries first.

use std::sync::atomic::{Ordering, compiler_fence};

use mica_memory::{AtomicWidth, FEW_BYTES, RegionRef};
use mica_node::counters::AccessClass;
use mica_node::lock::SoleThread;
use mica_node::window::{AtomicUpdate, SingleThreadUpdate, WaitersLeft};

use crate::epoch::AccessEpoch;
use crate::memory::access::{AllTargets, TargetAccess};
pub use crate::memory::element::SumOfEight;
use crate::memory::element::{BULK_ELEMENTS, ElementUpdate, may_be_compared};
use crate::memory::place::Direction;
pub use crate::memory::target::TargetBytes;
use crate::memory::target::WindowTarget;
use crate::window::object::{Window, sole_table};
use mica_collective::intranode::begun_barrier::{self, BarrierProgress};
use mica_objects::constants as c;
use mica_objects::datatype;
use mica_objects::process;

/// `MPI_Put` of the bytes at `origin`. `None`, here and below: nothing was done.
#[inline(always)]
pub fn put(win: usize, origin: RegionRef<'_>, to: TargetBytes) -> Option<()> {
    sole_table()?.get(win)?.copy_at_once(Direction::Put, origin, to)
}

/// `MPI_Get` into the bytes at `origin`.
#[inline(always)]
pub fn get(win: usize, origin: RegionRef<'_>, from: TargetBytes) -> Option<()> {
    sole_table()?.get(win)?.copy_at_once(Direction::Get, origin, from)
}

/// An element of a predefined type for fetch_and_op and compare_and_swap, and the caller's memory.
#[derive(Debug, Clone, Copy)]
pub struct ElementCall<'a> {
    /// The type.
    pub datatype: u32,
    /// The element.
    pub target: TargetBytes,
    /// What is combined with the element, or replaces it.
    pub origin: RegionRef<'a>,
    /// Where its previous value goes.
    pub result: RegionRef<'a>,
}

/// `MPI_Fetch_and_op`.
#[inline(always)]
pub fn fetch_and_op(win: usize, op: u32, call: ElementCall<'_>) -> Option<()> {
    let table = sole_table()?;
    let window = table.get(win)?;
    window.fetch_at_once(op, call, Some(table.section()))
}

/// As [`fetch_and_op`], of the element of 8 bytes at this rank and displacement.
#[inline(always)]
pub fn fetch_and_sum_eight(
    win: usize,
    sum: SumOfEight,
    place: (i32, isize),
    origin: RegionRef<'_>,
    result: RegionRef<'_>,
) -> Option<()> {
    let table = sole_table()?;
    let window = table.get(win)?;
    let input = origin.load(AtomicWidth::Eight);
    let (element, in_progress) = window.open_eight(place, table.section())?;
    let previous = sum.add(element, input);
    window.close_eight(in_progress);
    result.store(AtomicWidth::Eight, previous);
    Some(())
}

/// `MPI_Compare_and_swap` with the value at `compare`.
#[inline(always)]
pub fn compare_and_swap(win: usize, call: ElementCall<'_>, compare: RegionRef<'_>) -> Option<()> {
    let table = sole_table()?;
    let window = table.get(win)?;
    window.compare_at_once(call, compare, Some(table.section()))
}

/// As [`compare_and_swap`], of the integer of 8 bytes at this rank and displacement.
#[inline(always)]
pub fn compare_and_swap_eight(
    win: usize,
    place: (i32, isize),
    [origin, compare, result]: [RegionRef<'_>; 3],
) -> Option<()> {
    let width = AtomicWidth::Eight;
    let table = sole_table()?;
    let window = table.get(win)?;
    let (new, expected) = (origin.load(width), compare.load(width));
    let (element, in_progress) = window.open_eight(place, table.section())?;
    let previous = element.atomic_compare_swap(width, expected, new);
    window.close_eight(in_progress);
    result.store(width, previous);
    Some(())
}

/// As [`accumulate`], of the element of 8 bytes at this rank and displacement.
#[inline(always)]
pub fn accumulate_eight(
    win: usize,
    sum: SumOfEight,
    place: (i32, isize),
    origin: RegionRef<'_>,
) -> Option<()> {
    let table = sole_table()?;
    let window = table.get(win)?;
    let input = origin.load(AtomicWidth::Eight);
    let (element, in_progress) = window.open_eight(place, table.section())?;
    sum.add(element, input);
    window.close_eight(in_progress);
    Some(())
}

/// `MPI_Accumulate` of elements of the predefined `datatype` on both sides.
#[inline(always)]
pub fn accumulate(
    win: usize,
    op: u32,
    datatype: u32,
    origin: RegionRef<'_>,
    to: TargetBytes,
) -> Option<()> {
    // It needs a result.
    if op == c::NO_OP {
        return None;
    }
    let table = sole_table()?;
    let window = table.get(win)?;
    let update = ElementUpdate::of(op, datatype::basic_of(datatype)?)?;
    let element_bytes = datatype::dense_bytes(datatype, usize::MAX, 1)?;
    match to.bytes <= element_bytes {
        true => window.accumulate_at_once(update, origin, to, table.section()),
        false if to.bytes <= BULK_ELEMENTS * element_bytes => {
            window.accumulate_in_locked(&update, origin, to)
        }
        false => None,
    }
}

/// `MPI_Win_flush`.
#[inline(always)]
pub fn flush(win: usize, rank: i32) -> Option<()> {
    flush_local(win, rank).map(|()| crate::synchronization::passive::complete_operations())
}

/// `MPI_Win_flush_local`: of a target without messages, operations are complete at the origin when
/// they return.
#[inline(always)]
pub fn flush_local(win: usize, rank: i32) -> Option<()> {
    let table = sole_table()?;
    let window = &table.get(win)?.0;
    let target = window.targets.get(usize::try_from(rank).ok()?)?;
    let is_known = window.flags.is_flushable(&target.flag);
    (is_known && window.remote.is_none()).then_some(())
}

/// `MPI_Win_lock`, exclusive and without assertions, of a lock that is free.
#[inline(always)]
pub fn lock(win: usize, lock_type: i32, rank: i32, assertions: i32) -> Option<()> {
    if (lock_type, assertions) != (c::LOCK_EXCLUSIVE, 0) {
        return None;
    }
    let table = sole_table()?;
    let window = table.get(win)?;
    // A negative rank is a large one here.
    let target = window.0.targets.get(rank as usize)?;
    let mut epochs = window.0.epochs.lock_in(table.section())?;
    matches!(epochs.access, AccessEpoch::None).then_some(())?;
    target.fast_path_lock()?.take_free().then_some(())?;
    // Nothing is open at once without an epoch.
    debug_assert!(window.0.flags.is_one_by_one());
    epochs.access = AccessEpoch::FastPathLock { target: rank as u32 };
    target.flag.set(TargetAccess::Passive);
    window.0.counters.count_lock();
    Some(())
}

/// `MPI_Win_unlock` of a lock that [`lock`] has taken, and that no other rank is in the queue of.
#[inline(always)]
pub fn unlock(win: usize, rank: i32) -> Option<()> {
    let table = sole_table()?;
    let window = table.get(win)?;
    let target = window.0.targets.get(rank as usize)?;
    let lock = target.fast_path_lock()?;
    // Where there are messages, they are awaited first.
    window.0.remote.is_none().then_some(())?;
    let mut epochs = window.0.epochs.lock_in(table.section())?;
    is_atomic_lock(epochs.access, rank).then_some(())?;
    // No full fence: the next holder of the lock sees the operations by taking it, and no other
    // rank may read what an exclusive lock protects. This one is for the compiler, which would keep
    // the lock's address from above in a register that the leaf had to save.
    compiler_fence(Ordering::AcqRel);
    let waiters = lock.give_back()?;
    target.flag.set(TargetAccess::Closed);
    epochs.access = AccessEpoch::None;
    if waiters == WaitersLeft::Some {
        window.serve_waiters(rank as usize);
    }
    Some(())
}

/// As [`unlock`], of a lock that others wait for.
#[inline]
pub fn unlock_contended(win: usize, rank: i32) -> Option<()> {
    let table = sole_table()?;
    let window = table.get(win)?;
    window.0.remote.is_none().then_some(())?;
    let target = window.0.targets.get(rank as usize)?;
    let (lock, number) = (target.fast_path_lock()?, target.number?);
    let mut epochs = window.0.epochs.lock_in(table.section())?;
    is_atomic_lock(epochs.access, rank).then_some(())?;
    target.flag.set(TargetAccess::Closed);
    epochs.access = AccessEpoch::None;
    window.give_back(number, lock.held_ticket());
    Some(())
}

/// Whether the epoch is that of a lock of `rank` that [`lock`] has taken.
#[inline(always)]
fn is_atomic_lock(access: AccessEpoch, rank: i32) -> bool {
    access == AccessEpoch::FastPathLock { target: rank as u32 }
}

/// `MPI_Put` of few bytes to a target that may not have posted yet.
#[inline(always)]
pub fn put_before_post(win: usize, origin: RegionRef<'_>, to: TargetBytes) -> Option<()> {
    let table = sole_table()?;
    let window = table.get(win)?;
    let target = window.0.targets.get(to.rank as usize)?;
    (!window.0.flags.is_open(&target.flag)).then_some(())?;
    let mut epochs = window.0.epochs.lock_in(table.section())?;
    window.put_before_post(&mut epochs, target, origin, to)
}

/// `MPI_Win_fence` without assertions, if all ranks come soon. `None` as well if they do not: then
/// [`Window::fence`] ends it.
#[inline]
pub fn fence(win: usize, assertions: i32) -> Option<()> {
    let table = sole_table()?;
    let window = table.get(win)?;
    (window.0.remote.is_none() && assertions == 0).then_some(())?;
    let mut epochs = window.0.epochs.lock_in(table.section())?;
    let may_follow = matches!(epochs.access, AccessEpoch::None | AccessEpoch::Fence { .. });
    (may_follow && !epochs.is_exposed).then_some(())?;
    let begun = begun_barrier::begin(&window.0.members, window.0.choices.polls)?;
    epochs.access = AccessEpoch::Fence { has_operations: false };
    window.0.flags.set_all(AllTargets::Ready);
    match begun {
        BarrierProgress::Ended => Some(()),
        BarrierProgress::Begun(barrier) => {
            epochs.begun_fence = Some(barrier);
            None
        }
    }
}

/// `MPI_Win_post` with the group of the last one, of ranks that share memory with this one.
#[inline]
pub fn post(win: usize, group: u32, assertions: i32) -> Option<()> {
    let engine = process::engine().ok()?;
    let table = sole_table()?;
    let window = table.get(win)?;
    (window.0.remote.is_none() && is_hint(assertions)).then_some(())?;
    let mut epochs = window.0.epochs.lock_in(table.section())?;
    let in_fence = matches!(epochs.access, AccessEpoch::Fence { .. });
    (!epochs.is_exposed && !in_fence).then_some(())?;
    epochs.origins.is_named(group).then_some(())?;
    window.expose(engine, &mut epochs);
    Some(())
}

/// `MPI_Win_start` with the group of the last one, of ranks that share memory with this one.
#[inline]
pub fn start(win: usize, group: u32, assertions: i32) -> Option<()> {
    let table = sole_table()?;
    let window = table.get(win)?;
    (window.0.remote.is_none() && is_hint(assertions)).then_some(())?;
    let mut epochs = window.0.epochs.lock_in(table.section())?;
    matches!(epochs.access, AccessEpoch::None).then_some(())?;
    epochs.targets.is_named(group).then_some(())?;
    window.begin_access(&mut epochs);
    Some(())
}

/// `MPI_Win_complete` that need not wait for a target.
#[inline]
pub fn complete(win: usize) -> Option<()> {
    let engine = process::engine().ok()?;
    let table = sole_table()?;
    let window = table.get(win)?;
    let mut epochs = window.0.epochs.lock_in(table.section())?;
    window.complete_at_once(engine, &mut epochs)
}

/// `MPI_Win_wait`, if all origins complete soon.
#[inline]
pub fn wait(win: usize) -> Option<()> {
    let table = sole_table()?;
    let window = table.get(win)?;
    window.0.remote.is_none().then_some(())?;
    let mut epochs = window.0.epochs.lock_in(table.section())?;
    epochs.is_exposed.then_some(())?;
    let mut polls = window.0.choices.polls;
    while !window.end_exposure_of(&mut epochs) {
        polls = polls.checked_sub(1)?;
        std::hint::spin_loop();
    }
    Some(())
}

/// Assertions that post and start know, which change nothing here.
fn is_hint(assertions: i32) -> bool {
    matches!(assertions, 0 | c::MODE_NOCHECK)
}

impl Window {
    /// The bytes, if they are mapped, inside the window, and may be accessed now.
    #[inline(always)]
    pub(crate) fn open_place(&self, range: TargetBytes) -> Option<(&WindowTarget, RegionRef<'_>)> {
        // A negative rank is a large one here.
        let target = self.0.targets.get(range.rank as usize)?;
        self.0.flags.is_open(&target.flag).then_some(())?;
        Some((target, target.mapped(range.disp, range.bytes)?))
    }

    /// Counts an operation by loads and stores.
    #[inline(always)]
    pub(crate) fn count(&self, range: TargetBytes) {
        self.0.counters.count_operation(AccessClass::Memory, range.bytes);
    }

    /// Copies as many bytes as `range` has between `here` and the target. `None` as well from
    /// `help_min` bytes on: the target may help with those.
    #[inline(always)]
    pub(crate) fn copy_at_once(
        &self,
        direction: Direction,
        here: RegionRef<'_>,
        range: TargetBytes,
    ) -> Option<()> {
        // The first is known where the call is: leaves copy few bytes.
        if range.bytes > FEW_BYTES && range.bytes >= self.0.choices.help_min {
            return None;
        }
        let (_, there) = self.open_place(range)?;
        self.count(range);
        direction.copy(here, there, range.bytes);
        Some(())
    }

    /// Begins an atomic update of elements of `target`, which this rank reaches; `None` where
    /// accumulates go by messages.
    #[inline(always)]
    fn begin_update<'a>(
        &'a self,
        target: &'a WindowTarget,
        alone: Option<&SoleThread<'_>>,
    ) -> Option<(Option<SingleThreadUpdate<'a>>, Option<AtomicUpdate<'a>>)> {
        let own = target.locks.as_ref()?.gate();
        let sole = alone.and_then(|alone| own.atomic(alone));
        let counted = sole.is_none().then(|| {
            let (gate, me) = self.gate(target);
            gate.atomic(me)
        });
        Some((sole, counted))
    }

    /// Begins the update of the element of 8 bytes at this rank and displacement by one processor
    /// atomic.
    #[inline(always)]
    fn open_eight<'a>(
        &'a self,
        (rank, disp): (i32, isize),
        alone: &SoleThread<'_>,
    ) -> Option<(RegionRef<'a>, SingleThreadUpdate<'a>)> {
        let bytes = AtomicWidth::Eight.bytes();
        let (target, element) = self.open_place(TargetBytes { rank, disp, bytes })?;
        AtomicWidth::at(element.address(), bytes)?;
        let in_progress = target.locks.as_ref()?.gate().atomic(alone)?;
        Some((element, in_progress))
    }

    /// Ends it, and counts it.
    #[inline(always)]
    fn close_eight(&self, in_progress: SingleThreadUpdate<'_>) {
        drop(in_progress);
        let bytes = AtomicWidth::Eight.bytes();
        self.0.counters.count_operation(AccessClass::Memory, bytes);
    }

    /// Fetch_and_op by a processor atomic.
    pub(crate) fn fetch_at_once(
        &self,
        op: u32,
        call: ElementCall<'_>,
        alone: Option<&SoleThread<'_>>,
    ) -> Option<()> {
        let update = ElementUpdate::of(op, datatype::basic_of(call.datatype)?)?;
        let (target, element) = self.open_place(call.target)?;
        let width = AtomicWidth::at(element.address(), call.target.bytes)?;
        let input = update.input(call.origin, width);
        let in_progress = self.begin_update(target, alone)?;
        let previous = update.apply_atomically(element, width, input);
        drop(in_progress);
        call.result.store(width, previous);
        self.count(call.target);
        Some(())
    }

    /// Compare_and_swap by a processor atomic.
    pub(crate) fn compare_at_once(
        &self,
        call: ElementCall<'_>,
        compare: RegionRef<'_>,
        alone: Option<&SoleThread<'_>>,
    ) -> Option<()> {
        let basic = datatype::basic_of(call.datatype)?;
        may_be_compared(basic).then_some(())?;
        let (target, element) = self.open_place(call.target)?;
        let width = AtomicWidth::at(element.address(), call.target.bytes)?;
        let (expected, new) = (compare.load(width), call.origin.load(width));
        let in_progress = self.begin_update(target, alone)?;
        let previous = element.atomic_compare_swap(width, expected, new);
        drop(in_progress);
        call.result.store(width, previous);
        self.count(call.target);
        Some(())
    }

    /// An accumulate of one element, by a processor atomic.
    #[inline(never)]
    fn accumulate_at_once(
        &self,
        update: ElementUpdate,
        origin: RegionRef<'_>,
        to: TargetBytes,
        alone: &SoleThread<'_>,
    ) -> Option<()> {
        let (target, element) = self.open_place(to)?;
        let width = AtomicWidth::at(element.address(), to.bytes)?;
        let _in_progress = self.begin_update(target, Some(alone))?;
        update.apply_atomically(element, width, update.input(origin, width));
        self.count(to);
        Some(())
    }

    /// An accumulate of more contiguous elements, which excludes other updates of the target.
    /// `None` as well from `help_min` bytes on: the target may help with those.
    #[inline(never)]
    fn accumulate_in_locked(
        &self,
        update: &ElementUpdate,
        origin: RegionRef<'_>,
        to: TargetBytes,
    ) -> Option<()> {
        (to.bytes < self.0.choices.help_min).then_some(())?;
        let (target, first) = self.open_place(to)?;
        // Else accumulates go by messages.
        target.locks.as_ref()?;
        let (gate, me) = self.gate(target);
        let _in_progress = gate.locked(me);
        update.apply(origin, first, to.bytes);
        self.count(to);
        Some(())
    }
}
