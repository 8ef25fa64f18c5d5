//! Passive target synchronization (MPI 5.0, 12.5.3 and 12.5.4): lock, unlock, flush, sync
//! (jiang-2004, chapter 4).

use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use std::time::Duration;

use mica_node::lock::Guard;
use mica_node::ticks;
use mica_node::window::{LockDesign, LockMode, LockTicket, TurnOrder, WindowLock};
use mica_protocol::{EngineState, WaitList};

use super::active::check_assertions;
use crate::epoch::{AccessEpoch, Epochs, HeldLock, wrong_epoch};
use crate::memory::access::{AllTargets, TargetAccess};
use crate::remote::GrantedLock;
use crate::window::object::Window;
use mica_objects::constants as c;
use mica_objects::error::{Error, Result};
use mica_objects::process;

/// How long an origin that waits for a Test&Set lock sleeps at most: no other rank wakes it.
const TEST_AND_SET_SLEEP: Duration = Duration::from_micros(100);

/// Nanoseconds between two polls from which on the origin has slept, or lost its core. Polls of a
/// thread that is awake are less than 1 us apart.
const HAS_SLEPT_NS: u64 = 20_000;

impl Window {
    /// `MPI_Win_lock`. Does not block, except for the lock of this rank's own memory.
    ///
    /// # Errors
    /// `MPI_ERR_LOCKTYPE`, `MPI_ERR_RANK`, `MPI_ERR_ASSERT`; `MPI_ERR_RMA_SYNC` when the target is
    /// locked already, in another epoch, or where `no_locks` is set.
    pub fn lock(&self, lock_type: i32, rank: i32, assertions: i32) -> Result<()> {
        let mode = match lock_type {
            c::LOCK_SHARED => LockMode::Shared,
            c::LOCK_EXCLUSIVE => LockMode::Exclusive,
            _ => {
                let reason = "it is MPI_LOCK_SHARED or MPI_LOCK_EXCLUSIVE";
                return Err(Error::argument(c::ERR_LOCKTYPE, "lock_type", lock_type, reason));
            }
        };
        let target = self.target(rank).map_err(|e| e.renamed(RANK))?;
        check_assertions(assertions)?;
        self.must_allow_locks()?;
        let Some(target) = target else { return Ok(()) };
        {
            let mut epochs = self.epochs();
            if epochs.locks.contains(target) {
                return Err(wrong_epoch(format!("target {target} is locked already")));
            }
            if epochs.access != AccessEpoch::Lock {
                epochs.must_not_access("end it before MPI_Win_lock")?;
            }
            self.open_lock_epoch(&mut epochs);
            let mode = (assertions & c::MODE_NOCHECK == 0).then_some(mode);
            if let Err(error) = join(self, epochs, target, mode) {
                let mut epochs = self.epochs();
                epochs.close_unlocked();
                return Err(error);
            }
        }
        match target == self.0.members.rank() {
            true => await_lock(self, target),
            false => Ok(()),
        }
    }

    /// Makes the access epoch one of locks, if it is not.
    #[inline(always)]
    pub(crate) fn open_lock_epoch(&self, epochs: &mut Epochs) {
        self.0.flags.set_all(AllTargets::Closed);
        epochs.access = AccessEpoch::Lock;
    }

    /// Closes `target`, whose lock was taken out of the access epoch of locks. With the last one
    /// the epoch ends.
    #[inline(always)]
    pub(crate) fn close_lock_epoch(&self, epochs: &mut Epochs, target: usize) {
        self.0.targets[target].flag.set(TargetAccess::Closed);
        if epochs.locks.is_empty() {
            epochs.access = AccessEpoch::None;
        }
    }

    /// Joins the queue of the shared lock of `target`, whose flag is open if it is held at once.
    #[inline(always)]
    pub(crate) fn join_queue(&self, target: usize, number: u32, mode: LockMode) -> LockTicket {
        let lock = self.window_lock(number);
        let mut ticket = lock.begin(self.0.node_peers.me, mode);
        if lock.poll(&mut ticket) {
            self.0.targets[target].flag.set(TargetAccess::Passive);
        }
        ticket
    }

    /// Gives the shared lock with this number back.
    #[inline(always)]
    pub(crate) fn give_back(&self, number: u32, ticket: LockTicket) {
        let lock = self.window_lock(number);
        if lock.release(ticket, |next| self.wake(next, number)) == TurnOrder::Barged {
            self.0.counters.count_lock_barge();
        }
        if self.0.choices.locking.design == LockDesign::TestAndSet && self.0.remote.is_some() {
            // The target may wait for the lock in the name of another node's rank, and Test&Set
            // wakes no rank.
            self.wake(number, number);
        }
    }

    /// Sees to those who wait for the lock of `target`, which this rank has given back.
    #[cold]
    #[inline(never)]
    pub(crate) fn serve_waiters(&self, target: usize) {
        let Some(number) = self.lock_number(target) else {
            return;
        };
        let me = self.0.node_peers.me;
        self.window_lock(number).serve_waiters(me, &mut |next| self.wake(next, number));
    }

    /// Wakes the rank with the number `next`, which waits for the lock of the target `number`.
    fn wake(&self, next: u32, number: u32) {
        // While the library ends, no rank waits.
        if let Ok(engine) = process::engine() {
            self.0.node_peers.wake(engine, next, number);
        }
    }

    /// `MPI_Win_lock_all`. Does not block, except for the lock of this rank's own memory.
    ///
    /// # Errors
    /// `MPI_ERR_ASSERT`; `MPI_ERR_RMA_SYNC` in another epoch, or where `no_locks` is set.
    pub fn lock_all(&self, assertions: i32) -> Result<()> {
        check_assertions(assertions)?;
        self.must_allow_locks()?;
        let unchecked = assertions & c::MODE_NOCHECK != 0;
        {
            let mut epochs = self.epochs();
            epochs.must_not_access("end it before MPI_Win_lock_all")?;
            epochs.access = AccessEpoch::LockAll { unchecked };
            self.0.flags.set_all(match unchecked {
                true => AllTargets::Passive,
                false => AllTargets::Closed,
            });
            if unchecked {
                return Ok(());
            }
            join(self, epochs, self.0.members.rank(), Some(LockMode::Shared))?;
        }
        await_lock(self, self.0.members.rank())
    }

    /// `MPI_Win_unlock`. Blocks until the lock was held.
    ///
    /// # Errors
    /// `MPI_ERR_RANK`; `MPI_ERR_RMA_SYNC` when the target is not locked by `MPI_Win_lock`. Those of
    /// operations, after which the epoch has ended nevertheless.
    pub fn unlock(&self, rank: i32) -> Result<()> {
        let target = self.target(rank).map_err(|e| e.renamed(RANK))?;
        let Some(target) = target else { return Ok(()) };
        let mut epochs = self.epochs();
        if let AccessEpoch::LockAll { .. } = epochs.access {
            let detail = "MPI_Win_lock_all has locked all targets; call MPI_Win_unlock_all";
            return Err(wrong_epoch(detail.to_owned()));
        }
        epochs.must_be_passive(Some(target))?;
        let mut flushed = Ok(());
        if !self.is_open(target) || self.has_messages(target) {
            drop(epochs);
            // A lock that is still awaited cannot be given back.
            await_lock(self, target)?;
            flushed = self.flush_before_release(&[target]);
            epochs = self.epochs();
        }
        let held = epochs.locks.remove(target);
        self.close_lock_epoch(&mut epochs, target);
        complete_operations();
        let released = release(self, epochs, held.map(|held| (target, held)));
        flushed.and(released)
    }

    /// `MPI_Win_unlock_all`. Does not block.
    ///
    /// # Errors
    /// `MPI_ERR_RMA_SYNC` without `MPI_Win_lock_all`. Those of operations, after which the epoch
    /// has ended nevertheless.
    pub fn unlock_all(&self) -> Result<()> {
        {
            let epochs = self.epochs();
            if !matches!(epochs.access, AccessEpoch::LockAll { .. }) {
                let described = epochs.describe();
                let detail = format!("MPI_Win_lock_all has not been called: {described}");
                return Err(wrong_epoch(detail));
            }
        }
        let flushed = self.flush_before_release(&self.remote_targets());
        let mut epochs = self.epochs();
        epochs.access = AccessEpoch::None;
        self.0.flags.set_all(AllTargets::Closed);
        let held = epochs.locks.take_all();
        for &(target, _) in &held {
            self.0.targets[target].flag.set(TargetAccess::Closed);
        }
        // Each is held: the operation that joined the queue has waited.
        let released = release(self, epochs, held);
        flushed.and(released)
    }

    /// All operations on those of `targets` that are accessed by messages are done when this
    /// returns.
    fn flush_before_release(&self, targets: &[usize]) -> Result<()> {
        complete_operations();
        match &self.0.remote {
            Some(remote) => remote.flush(&self.remote_among(targets)),
            None => Ok(()),
        }
    }

    /// Those of `targets` that are accessed by messages.
    pub(crate) fn remote_among(&self, targets: &[usize]) -> Vec<usize> {
        let is_remote = |&&target: &&usize| self.has_messages(target);
        targets.iter().filter(is_remote).copied().collect()
    }

    /// `MPI_Win_flush` and `MPI_Win_flush_local`, and their forms for all targets (`None`). Blocks
    /// until the operations are done that go by messages; others are complete already.
    ///
    /// # Errors
    /// `MPI_ERR_RANK`; `MPI_ERR_RMA_SYNC` when the target is not locked; those of the operations.
    #[inline]
    pub fn flush(&self, rank: Option<i32>, side: FlushedSide) -> Result<()> {
        let target = match rank {
            None => None,
            Some(rank) => match self.target(rank).map_err(|e| e.renamed(RANK))? {
                None => return Ok(()),
                target => target,
            },
        };
        if side == FlushedSide::Both {
            complete_operations();
        }
        let is_known = target.is_some_and(|target| {
            let flag = &self.0.targets[target].flag;
            self.0.flags.is_flushable(flag)
        });
        if is_known && self.0.remote.is_none() {
            return Ok(());
        }
        self.epochs().must_be_passive(target)?;
        match &self.0.remote {
            None => Ok(()),
            Some(remote) => {
                self.serve_once()?;
                let targets = match target {
                    Some(target) => self.remote_among(&[target]),
                    None => self.remote_targets(),
                };
                match side {
                    FlushedSide::Both => remote.flush(&targets),
                    FlushedSide::Origin => remote.flush_local(&targets),
                }
            }
        }
    }

    /// `MPI_Win_sync`: orders this rank's loads and stores against those of others. Does not
    /// block.
    ///
    /// # Errors
    /// `MPI_ERR_RMA_SYNC` when no epoch is open.
    pub fn sync(&self) -> Result<()> {
        let epochs = self.epochs();
        if epochs.access == AccessEpoch::None && !epochs.is_exposed {
            return Err(wrong_epoch("no epoch is open".to_owned()));
        }
        drop(epochs);
        self.serve_once()?;
        // SeqCst: the program's own loads and stores follow. Pairs with the same fence in another
        // rank's `sync` or `complete_operations`: of two ranks that store and then read what the
        // other has stored, at least one sees it.
        fence(Ordering::SeqCst);
        Ok(())
    }

    /// Carries out requests that have come: a program that polls its own memory may call nothing
    /// else.
    fn serve_once(&self) -> Result<()> {
        if self.0.remote.is_some() {
            process::engine()?.enter(EngineState::progress)?;
        }
        Ok(())
    }

    fn must_allow_locks(&self) -> Result<()> {
        match self.0.has_locks {
            true => Ok(()),
            false => {
                let detail = "the window was created with the info key no_locks=true";
                Err(wrong_epoch(detail.to_owned()))
            }
        }
    }

    /// The number of a target whose lock this rank takes itself; `None`: by the target's server.
    pub(crate) fn lock_number(&self, target: usize) -> Option<u32> {
        match self.0.choices.locking.by_thread && target != self.0.members.rank() {
            true => None,
            false => self.0.targets[target].number,
        }
    }

    /// The lock of a target with this number.
    #[inline(always)]
    fn window_lock(&self, number: u32) -> WindowLock<'_> {
        self.0.locks.lock(self.0.choices.locking.design, number)
    }

    /// Who holds the lock of `target`, for hang reports.
    fn holders(&self, target: usize) -> String {
        let Some(lock) = self.0.targets[target].number else {
            return "a rank that shares no memory with this one, perhaps".to_owned();
        };
        let ranks = &self.0.node_peers.window_ranks;
        let holders: Vec<String> = self
            .window_lock(lock)
            .holders()
            .map(|(number, mode)| {
                let served = self.window_lock(lock).served(number);
                let mode = match mode {
                    LockMode::Shared => "shared",
                    LockMode::Exclusive => "exclusive",
                };
                match ranks.get(number as usize) {
                    Some(rank) => format!("rank {rank} ({mode})"),
                    None => match served {
                        Some((rank, 0 | 1)) => format!("rank {rank} ({mode})"),
                        Some((rank, ranks)) => {
                            format!("rank {rank} and {} more ({mode})", ranks - 1)
                        }
                        None => format!("a rank that the target serves ({mode})"),
                    },
                }
            })
            .collect();
        match holders.is_empty() {
            true => "no rank".to_owned(),
            false => holders.join(", "),
        }
    }
}

/// What the calls of this file name the rank.
const RANK: &[(&str, &str)] = &[("target_rank", "rank")];

/// This rank's operations by loads and stores are done at the target, also for an origin that does
/// the same with another of its own before it reads what these have written: at least one of the
/// two sees the other's (MPI 5.0, 12.5.4). Stores leave a processor before later loads by a full
/// fence alone.
#[inline(always)]
pub(crate) fn complete_operations() {
    fence(Ordering::SeqCst);
}

/// Joins the queue of `target`'s lock, or asks the target for it; `None`: no lock is needed
/// (`MPI_MODE_NOCHECK`).
pub(crate) fn join<'a>(
    window: &'a Window,
    mut epochs: Guard<'a, Epochs>,
    target: usize,
    mode: Option<LockMode>,
) -> Result<()> {
    if mode.is_some() {
        window.0.counters.count_lock();
    }
    let held = match (mode, window.lock_number(target)) {
        (None, _) => HeldLock::Unchecked,
        (Some(mode), Some(number)) => HeldLock::Ticket(window.join_queue(target, number, mode)),
        (Some(mode), None) => {
            epochs.locks.insert(target, HeldLock::Asking);
            drop(epochs);
            let asked = window.remote().lock(target, mode);
            epochs = window.epochs();
            match asked {
                Ok(granted) => HeldLock::Remote(granted),
                Err(error) => {
                    epochs.locks.remove(target);
                    return Err(error);
                }
            }
        }
    };
    epochs.locks.insert(target, held);
    Ok(())
}

/// Gives back locks that are held, by target. All operations on the targets are done.
fn release(
    window: &Window,
    epochs: Guard<'_, Epochs>,
    locks: impl IntoIterator<Item = (usize, HeldLock)>,
) -> Result<()> {
    let mut by_message = Vec::new();
    for (target, held) in locks {
        match (held, window.lock_number(target)) {
            (HeldLock::Ticket(ticket), Some(number)) => window.give_back(number, ticket),
            (HeldLock::Remote(_), _) => by_message.push(target),
            _ => {}
        }
    }
    // Not before: another thread of this rank may lock the targets again, by the same lines.
    drop(epochs);
    // All of them, whatever becomes of one.
    let unlocked = by_message.into_iter().map(|target| window.remote().unlock(target));
    unlocked.fold(Ok(()), Result::and)
}

/// Returns when the lock of `target` is held, whose queue this rank has joined. Blocks.
pub(crate) fn await_lock(window: &Window, target: usize) -> Result<()> {
    if window.is_open(target) {
        return Ok(());
    }
    match poll_lock(window, target, Pause::Lasts) {
        LockState::Held => return Ok(()),
        LockState::Remote(granted) => {
            window.0.counters.count_lock_wait();
            let waiting = awaited_lock(window, target);
            window.remote().wait_for_lock(&granted, waiting)?;
            window.0.targets[target].flag.set(TargetAccess::Passive);
            return Ok(());
        }
        LockState::Awaited => {}
    }
    window.0.counters.count_lock_wait();
    let waiting = awaited_lock(window, target);
    let engine = process::engine()?;
    let mut last = ticks::now_ns();
    let poll = || {
        let now = ticks::now_ns();
        let has_slept = now.saturating_sub(last) >= HAS_SLEPT_NS;
        let pause = match has_slept || engine.is_about_to_sleep() {
            true => Pause::IsOver,
            false => Pause::Lasts,
        };
        last = now;
        match poll_lock(window, target, pause) {
            LockState::Awaited => None,
            state => Some(state),
        }
    };
    let state = match window.0.choices.locking.design {
        LockDesign::Mcs | LockDesign::Barging => engine.watch(waiting, poll)?,
        LockDesign::TestAndSet => engine.watch_at_intervals(waiting, poll, TEST_AND_SET_SLEEP)?,
    };
    match state {
        // Another thread has asked for it meanwhile.
        LockState::Remote(_) => await_lock(window, target),
        _ => Ok(()),
    }
}

/// What a hang report says about a rank that waits for the lock of `target`: the holders are those
/// at the time of the report.
fn awaited_lock(window: &Window, target: usize) -> impl Fn(&EngineState, &mut WaitList) + '_ {
    move |_, list| {
        let holders = window.holders(target);
        list.add(window.pending(&format!("the lock of rank {target}, which is held by {holders}")));
    }
}

/// How far a lock is.
enum LockState {
    Held,
    Awaited,
    /// It is held when this operation is complete.
    Remote(GrantedLock),
}

/// The pause before the next attempt to get a lock that is waited for.
enum Pause {
    /// As far as is known.
    Lasts,
    /// The rank has slept meanwhile, or is about to.
    IsOver,
}

/// The state of `target`'s lock; its flag is open if it is held.
fn poll_lock(window: &Window, target: usize, pause: Pause) -> LockState {
    let mut epochs = window.epochs();
    let number = window.lock_number(target);
    let held = match (epochs.locks.get_mut(target), number) {
        (None, _) => return LockState::Held, // another thread has unlocked it
        (Some(HeldLock::Ticket(ticket)), Some(number)) => {
            if matches!(pause, Pause::IsOver) {
                ticket.end_pause();
            }
            window.window_lock(number).poll(ticket)
        }
        (Some(HeldLock::Asking), _) => false,
        (Some(HeldLock::Remote(granted)), _) => return LockState::Remote(Arc::clone(granted)),
        (Some(HeldLock::Unchecked | HeldLock::Ticket(_)), _) => true,
    };
    match held {
        true => {
            window.0.targets[target].flag.set(TargetAccess::Passive);
            LockState::Held
        }
        false => LockState::Awaited,
    }
}

/// Where the operations are to be done after a flush.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlushedSide {
    /// At the target as well: `MPI_Win_flush`.
    Both,
    /// At the origin: `MPI_Win_flush_local`.
    Origin,
}
