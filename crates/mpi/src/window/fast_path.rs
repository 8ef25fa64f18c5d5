//! The fast path of operations: contiguous bytes of mapped memory that may be accessed now.
//!
//! A function here returns `None` where that does not hold; then it has changed nothing, and the
//! caller takes the path of [`transfer`](super::transfer) or
//! [`accumulate`](mod@super::accumulate), which checks all arguments and reports what is wrong. So
//! nothing is reported here, and no call leaves more than a few instructions behind.
//!
//! The functions that take a handle find the window without thread-local memory
//! ([`sole_table`]), in programs whose threads enter one at a time. The methods serve both paths:
//! with several threads, they are what the other path tries first.

use mica_channel::memory::{AtomicWidth, RegionRef};
use mica_node::counters::AccessClass;
use mica_node::lock::SoleThread;
use mica_node::window::{BriefUpdate, LockMode};

use super::element::{BRIEF_ELEMENTS, ElementUpdate, may_be_compared};
use super::epoch::{AccessEpoch, HeldLock};
use super::object::{Window, sole_table};
use super::place::Direction;
pub use super::target::TargetBytes;
use super::target::{TargetMemory, WindowTarget};
use crate::constants as c;
use crate::datatype;

/// `MPI_Put` of the bytes at `origin`. `None`, here and below: nothing was done.
#[inline(always)]
pub fn put(win: u32, origin: RegionRef<'_>, to: TargetBytes) -> Option<()> {
    sole_table()?
        .get(win)?
        .copy_at_once(Direction::Put, origin, to)
}

/// `MPI_Get` into the bytes at `origin`.
#[inline(always)]
pub fn get(win: u32, origin: RegionRef<'_>, from: TargetBytes) -> Option<()> {
    sole_table()?
        .get(win)?
        .copy_at_once(Direction::Get, origin, from)
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
pub fn fetch_and_op(win: u32, op: u32, call: ElementCall<'_>) -> Option<()> {
    let table = sole_table()?;
    let window = table.get(win)?;
    window.fetch_briefly(op, call, Some(table.section()))
}

/// `MPI_Compare_and_swap` with the value at `compare`.
#[inline(always)]
pub fn compare_and_swap(win: u32, call: ElementCall<'_>, compare: RegionRef<'_>) -> Option<()> {
    let table = sole_table()?;
    let window = table.get(win)?;
    window.compare_briefly(call, compare, Some(table.section()))
}

/// `MPI_Accumulate` of elements of the predefined `datatype` on both sides.
#[inline(always)]
pub fn accumulate(
    win: u32,
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
    let basic = datatype::basic_of(datatype)?;
    if to.bytes == EIGHT
        && let Some(sum) = ElementUpdate::sum_of_eight(op, basic)
    {
        return window.accumulate_eight(sum, origin, to, table.section());
    }
    let update = ElementUpdate::of(op, basic)?;
    let element_bytes = datatype::dense_bytes(datatype, usize::MAX, 1)?;
    window.accumulate_briefly((update, element_bytes), origin, to, table.section())
}

/// `MPI_Win_flush` and `MPI_Win_flush_local`.
#[inline(always)]
pub fn flush(win: u32, rank: i32) -> Option<()> {
    let table = sole_table()?;
    let window = &table.get(win)?.0;
    let target = usize::try_from(rank).ok()?;
    let is_known = target < window.targets.len() && window.flags.is_flushable(target);
    (is_known && window.remote.is_none()).then(super::passive::order_memory)
}

/// `MPI_Win_lock` of another rank of the node, without assertions.
#[inline(always)]
pub fn lock(win: u32, lock_type: i32, rank: i32, assertions: i32) -> Option<()> {
    let mode = match lock_type {
        c::LOCK_SHARED => LockMode::Shared,
        c::LOCK_EXCLUSIVE => LockMode::Exclusive,
        _ => return None,
    };
    let table = sole_table()?;
    let window = table.get(win)?;
    let target = usize::try_from(rank).ok()?;
    let number = window.0.targets.get(target)?.number?;
    // The lock of this rank's own memory is awaited.
    let takes_locks = window.0.has_locks && !window.0.choices.locking.by_thread;
    let is_usual = assertions == 0 && takes_locks && number != window.0.neighbours.me;
    is_usual.then_some(())?;
    let mut epochs = window.0.epochs.lock_in(table.section())?;
    match epochs.access {
        AccessEpoch::None => window.open_lock_epoch(&mut epochs),
        AccessEpoch::Lock if !epochs.locks.contains(target) => {}
        _ => return None,
    }
    let ticket = window.join_queue(target, number, mode);
    epochs.locks.add(target, HeldLock::Ticket(ticket));
    window.0.counters.count_lock();
    Some(())
}

/// `MPI_Win_unlock` of a lock that is held.
#[inline(always)]
pub fn unlock(win: u32, rank: i32) -> Option<()> {
    let table = sole_table()?;
    let window = table.get(win)?;
    let target = usize::try_from(rank).ok()?;
    let number = window.0.targets.get(target)?.number?;
    // Its flag is open, so it is held. Where there are messages, they are awaited first.
    let is_usual = window.0.flags.is_open(target) && window.0.remote.is_none();
    is_usual.then_some(())?;
    let mut epochs = window.0.epochs.lock_in(table.section())?;
    if !matches!(epochs.access, AccessEpoch::Lock) {
        return None;
    }
    let ticket = epochs.locks.take_first_ticket(target)?;
    window.close_lock_epoch(&mut epochs, target);
    super::passive::order_memory();
    window.give_back(number, ticket);
    Some(())
}

impl Window {
    /// The bytes, if they are mapped, inside the window, and may be accessed now.
    #[inline(always)]
    fn open_place(&self, range: TargetBytes) -> Option<(&WindowTarget, RegionRef<'_>)> {
        // A negative rank is a large one here.
        let rank = range.rank as usize;
        let target = self.0.targets.get(rank)?;
        let TargetMemory::Mapped(region) = &target.memory else {
            return None;
        };
        let at = target.locate(range.disp, 0, range.bytes)?;
        self.0.flags.is_open(rank).then(|| (target, region.at(at)))
    }

    /// Counts an operation by loads and stores.
    #[inline(always)]
    fn count(&self, range: TargetBytes) {
        self.0
            .counters
            .count_operation(AccessClass::Memory, range.bytes);
    }

    /// Copies as many bytes as `range` has between `here` and the target.
    #[inline(always)]
    pub(super) fn copy_at_once(
        &self,
        direction: Direction,
        here: RegionRef<'_>,
        range: TargetBytes,
    ) -> Option<()> {
        let (_, there) = self.open_place(range)?;
        match direction {
            Direction::Put => here.copy_to(there, range.bytes),
            Direction::Get => there.copy_to(here, range.bytes),
        }
        self.count(range);
        Some(())
    }

    /// Begins a brief update of elements of `target`, which this rank reaches; `None` where
    /// accumulates go by messages.
    #[inline(always)]
    fn begin_update(
        &self,
        target: &WindowTarget,
        alone: Option<&SoleThread<'_>>,
    ) -> Option<BriefUpdate<'_>> {
        if self.0.choices.sends_accumulates() {
            return None;
        }
        let gate = self.0.locks.accumulate_gate(target.number?);
        let me = self.0.neighbours.me;
        Some(match alone {
            Some(alone) => gate.brief_of_sole_thread(me, alone),
            None => gate.brief(me),
        })
    }

    /// Fetch_and_op by a processor atomic.
    #[inline(always)]
    pub(super) fn fetch_briefly(
        &self,
        op: u32,
        call: ElementCall<'_>,
        alone: Option<&SoleThread<'_>>,
    ) -> Option<()> {
        let basic = datatype::basic_of(call.datatype)?;
        // A counter, mostly: where width and operator are known, nothing is chosen at each step,
        // and what is passed on stays in registers.
        match ElementUpdate::sum_of_eight(op, basic) {
            Some(sum) if call.target.bytes == EIGHT => self.fetch(sum, EIGHT, call, alone),
            _ => self.fetch_any(ElementUpdate::of(op, basic)?, call, alone),
        }
    }

    /// As [`fetch_briefly`](Self::fetch_briefly), for any update and width.
    #[inline(never)]
    fn fetch_any(
        &self,
        update: ElementUpdate,
        call: ElementCall<'_>,
        alone: Option<&SoleThread<'_>>,
    ) -> Option<()> {
        self.fetch(update, call.target.bytes, call, alone)
    }

    #[inline(always)]
    fn fetch(
        &self,
        update: ElementUpdate,
        bytes: usize,
        call: ElementCall<'_>,
        alone: Option<&SoleThread<'_>>,
    ) -> Option<()> {
        let (target, element) = self.open_place(call.target)?;
        let width = AtomicWidth::at(element.address(), bytes)?;
        let input = update.input(call.origin, width);
        let in_progress = self.begin_update(target, alone)?;
        let previous = update.apply_atomically(element, width, input);
        drop(in_progress);
        call.result.store(width, previous);
        self.count(call.target);
        Some(())
    }

    /// Compare_and_swap by a processor atomic.
    #[inline(always)]
    pub(super) fn compare_briefly(
        &self,
        call: ElementCall<'_>,
        compare: RegionRef<'_>,
        alone: Option<&SoleThread<'_>>,
    ) -> Option<()> {
        match call.target.bytes {
            // As in `fetch_briefly`.
            EIGHT => self.compare(EIGHT, call, compare, alone),
            _ => self.compare_any(call, compare, alone),
        }
    }

    /// As [`compare_briefly`](Self::compare_briefly), for any width.
    #[inline(never)]
    fn compare_any(
        &self,
        call: ElementCall<'_>,
        compare: RegionRef<'_>,
        alone: Option<&SoleThread<'_>>,
    ) -> Option<()> {
        self.compare(call.target.bytes, call, compare, alone)
    }

    #[inline(always)]
    fn compare(
        &self,
        bytes: usize,
        call: ElementCall<'_>,
        compare: RegionRef<'_>,
        alone: Option<&SoleThread<'_>>,
    ) -> Option<()> {
        let basic = datatype::basic_of(call.datatype)?;
        may_be_compared(basic).then_some(())?;
        let (target, element) = self.open_place(call.target)?;
        let width = AtomicWidth::at(element.address(), bytes)?;
        let (expected, new) = (compare.load(width), call.origin.load(width));
        let in_progress = self.begin_update(target, alone)?;
        let previous = element.atomic_compare_swap(width, expected, new);
        drop(in_progress);
        call.result.store(width, previous);
        self.count(call.target);
        Some(())
    }

    /// An accumulate of few elements side by side, by processor atomics.
    #[inline(never)]
    fn accumulate_briefly(
        &self,
        (update, element_bytes): (ElementUpdate, usize),
        origin: RegionRef<'_>,
        to: TargetBytes,
        alone: &SoleThread<'_>,
    ) -> Option<()> {
        let (target, first) = self.open_place(to)?;
        let width = AtomicWidth::at(first.address(), element_bytes)?;
        if to.bytes > BRIEF_ELEMENTS * width.bytes() {
            return None;
        }
        let _in_progress = self.begin_update(target, Some(alone))?;
        for at in (0..to.bytes).step_by(width.bytes()) {
            let input = update.input(origin.at(at), width);
            update.apply_atomically(first.at(at), width, input);
        }
        self.count(to);
        Some(())
    }

    /// As [`accumulate_briefly`](Self::accumulate_briefly), for one element of 8 bytes.
    #[inline(always)]
    fn accumulate_eight(
        &self,
        sum: ElementUpdate,
        origin: RegionRef<'_>,
        to: TargetBytes,
        alone: &SoleThread<'_>,
    ) -> Option<()> {
        let (target, element) = self.open_place(to)?;
        let width = AtomicWidth::at(element.address(), EIGHT)?;
        let input = sum.input(origin, width);
        let _in_progress = self.begin_update(target, Some(alone))?;
        sum.apply_atomically(element, width, input);
        self.count(to);
        Some(())
    }
}

/// Bytes of an element that has a path of its own.
const EIGHT: usize = AtomicWidth::Eight.bytes();
