//! Passive target synchronization (MPI 5.0, 12.5.3 and 12.5.4): lock, unlock, flush, sync
//! (jiang-2004, chapter 4).

use std::sync::atomic::{Ordering, fence};
use std::time::Duration;

use mica_node::ticks;
use mica_node::window::{LockDesign, LockMode, LockTicket, WindowLock};
use mica_protocol::WaitList;

use super::active::check_assertions;
use super::epoch::{AccessEpoch, HeldLock, wrong_epoch};
use super::object::Window;
use crate::constants as c;
use crate::error::{Error, Result};
use crate::process;
use crate::sync::lock;

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
                return Err(Error::argument(
                    c::ERR_LOCKTYPE,
                    "lock_type",
                    lock_type,
                    reason,
                ));
            }
        };
        let target = self.target(rank).map_err(|e| e.renamed(RANK))?;
        check_assertions(assertions)?;
        self.must_allow_locks()?;
        let Some(target) = target else { return Ok(()) };
        {
            let mut epochs = lock(&self.0.epochs);
            if epochs.locks.contains_key(&target) {
                return Err(wrong_epoch(format!("target {target} is locked already")));
            }
            if epochs.access != AccessEpoch::Lock {
                epochs.must_not_access("end it before MPI_Win_lock")?;
            }
            let held = match assertions & c::MODE_NOCHECK {
                0 => HeldLock::Ticket(join(self, target, mode)?),
                _ => HeldLock::Unchecked,
            };
            self.0.flags.set_all(false);
            epochs.access = AccessEpoch::Lock;
            epochs.locks.insert(target, held);
        }
        match target == self.0.comm.rank() {
            true => await_lock(self, target),
            false => Ok(()),
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
            let mut epochs = lock(&self.0.epochs);
            epochs.must_not_access("end it before MPI_Win_lock_all")?;
            epochs.access = AccessEpoch::LockAll { unchecked };
            self.0.flags.set_all(unchecked);
            if unchecked {
                return Ok(());
            }
            let me = self.0.comm.rank();
            let own = join_shared(self, me)?;
            epochs.locks.insert(me, own);
        }
        await_lock(self, self.0.comm.rank())
    }

    /// `MPI_Win_unlock`. Blocks until the lock was held.
    ///
    /// # Errors
    /// `MPI_ERR_RANK`; `MPI_ERR_RMA_SYNC` when the target is not locked by `MPI_Win_lock`.
    pub fn unlock(&self, rank: i32) -> Result<()> {
        let target = self.target(rank).map_err(|e| e.renamed(RANK))?;
        let Some(target) = target else { return Ok(()) };
        {
            let epochs = lock(&self.0.epochs);
            if let AccessEpoch::LockAll { .. } = epochs.access {
                let detail = "MPI_Win_lock_all has locked all targets; call MPI_Win_unlock_all";
                return Err(wrong_epoch(detail.to_owned()));
            }
            epochs.must_be_passive(Some(target))?;
        }
        // A lock that is still awaited cannot be given back.
        await_lock(self, target)?;
        let mut epochs = lock(&self.0.epochs);
        self.0.flags.set(target, false);
        let held = epochs.locks.remove(&target);
        if epochs.locks.is_empty() {
            epochs.access = AccessEpoch::None;
        }
        drop(epochs);
        match held {
            Some(HeldLock::Ticket(ticket)) => release(self, target, ticket),
            Some(HeldLock::Unchecked) | None => {
                order_memory();
                Ok(())
            }
        }
    }

    /// `MPI_Win_unlock_all`. Does not block.
    ///
    /// # Errors
    /// `MPI_ERR_RMA_SYNC` without `MPI_Win_lock_all`.
    pub fn unlock_all(&self) -> Result<()> {
        let mut epochs = lock(&self.0.epochs);
        if !matches!(epochs.access, AccessEpoch::LockAll { .. }) {
            let detail = format!(
                "MPI_Win_lock_all has not been called: {}",
                epochs.describe()
            );
            return Err(wrong_epoch(detail));
        }
        epochs.access = AccessEpoch::None;
        self.0.flags.set_all(false);
        let held = std::mem::take(&mut epochs.locks);
        held.keys()
            .for_each(|&target| self.0.flags.set(target, false));
        drop(epochs);
        order_memory();
        for (target, held) in held {
            // Each is held: the operation that joined the queue has waited.
            if let HeldLock::Ticket(ticket) = held {
                release(self, target, ticket)?;
            }
        }
        Ok(())
    }

    /// `MPI_Win_flush` and `MPI_Win_flush_local`, and their forms for all targets (`None`).
    /// Operations are complete already. Does not block.
    ///
    /// # Errors
    /// `MPI_ERR_RANK`; `MPI_ERR_RMA_SYNC` when the target is not locked.
    #[inline]
    pub fn flush(&self, rank: Option<i32>) -> Result<()> {
        let target = match rank {
            None => None,
            Some(rank) => match self.target(rank).map_err(|e| e.renamed(RANK))? {
                None => return Ok(()),
                target => target,
            },
        };
        lock(&self.0.epochs).must_be_passive(target)?;
        order_memory();
        Ok(())
    }

    /// `MPI_Win_sync`: orders this rank's loads and stores against those of others. Does not
    /// block.
    ///
    /// # Errors
    /// `MPI_ERR_RMA_SYNC` when no epoch is open.
    pub fn sync(&self) -> Result<()> {
        let epochs = lock(&self.0.epochs);
        if epochs.access == AccessEpoch::None && epochs.exposure.is_none() {
            return Err(wrong_epoch("no epoch is open".to_owned()));
        }
        drop(epochs);
        // The program's own loads and stores follow.
        fence(Ordering::SeqCst);
        Ok(())
    }

    fn must_allow_locks(&self) -> Result<()> {
        match lock(&self.0.properties).has_locks {
            true => Ok(()),
            false => {
                let detail = "the window was created with the info key no_locks=true";
                Err(wrong_epoch(detail.to_owned()))
            }
        }
    }

    fn window_lock(&self, target: usize) -> WindowLock<'_> {
        let number = self.0.targets[target].number;
        self.0.locks.lock(self.0.design, number)
    }

    /// Who holds the lock of `target`, for hang reports.
    fn holders(&self, target: usize) -> String {
        let ranks = &self.0.neighbours.window_ranks;
        let holders: Vec<String> = self
            .window_lock(target)
            .holders()
            .map(|(number, mode)| {
                let mode = match mode {
                    LockMode::Shared => "shared",
                    LockMode::Exclusive => "exclusive",
                };
                format!("rank {} ({mode})", ranks[number as usize])
            })
            .collect();
        match holders.is_empty() {
            true => "nobody".to_owned(),
            false => holders.join(", "),
        }
    }
}

/// What the calls of this file name the rank.
const RANK: &[(&str, &str)] = &[("target_rank", "rank")];

/// What was done before is visible to whom the program notifies afterwards.
#[inline]
fn order_memory() {
    fence(Ordering::AcqRel);
}

/// Joins the queue of `target`'s lock.
fn join(window: &Window, target: usize, mode: LockMode) -> Result<LockTicket> {
    let engine = process::engine()?;
    let neighbours = &window.0.neighbours;
    let ticket = window
        .window_lock(target)
        .begin(neighbours.me, mode, |number| {
            engine.wake(neighbours.job_ranks[number as usize]);
        });
    Ok(ticket)
}

/// Joins the queue of `target`'s lock in shared mode.
pub(super) fn join_shared(window: &Window, target: usize) -> Result<HeldLock> {
    join(window, target, LockMode::Shared).map(HeldLock::Ticket)
}

fn release(window: &Window, target: usize, ticket: LockTicket) -> Result<()> {
    let engine = process::engine()?;
    let neighbours = &window.0.neighbours;
    window.window_lock(target).release(ticket, |number| {
        engine.wake(neighbours.job_ranks[number as usize]);
    });
    Ok(())
}

/// Returns when the lock of `target`, whose queue this rank has joined, is held. Blocks.
pub(super) fn await_lock(window: &Window, target: usize) -> Result<()> {
    if window.0.flags.is_open(target) || poll_lock(window, target, false) {
        return Ok(());
    }
    let what = format!(
        "the lock of rank {target}, which is held by {}",
        window.holders(target)
    );
    let pending = window.pending(&what);
    let waiting = |_: &_, list: &mut WaitList| list.add(pending.clone());
    let engine = process::engine()?;
    match window.0.design {
        LockDesign::Mcs => {
            engine.watch(waiting, || poll_lock(window, target, false).then_some(()))?;
        }
        LockDesign::TestAndSet => {
            let mut last = ticks::now_ns();
            let poll = || {
                let now = ticks::now_ns();
                let has_slept = now.saturating_sub(last) >= HAS_SLEPT_NS;
                last = now;
                poll_lock(window, target, has_slept).then_some(())
            };
            engine.watch_at_intervals(waiting, poll, TEST_AND_SET_SLEEP)?;
        }
    }
    Ok(())
}

/// True when the lock of `target` is held; its flag is open then. `has_slept`: the pause before the
/// next attempt of the Test&Set design is over.
fn poll_lock(window: &Window, target: usize, has_slept: bool) -> bool {
    let mut epochs = lock(&window.0.epochs);
    let held = match epochs.locks.get_mut(&target) {
        None => return true, // another thread has unlocked it
        Some(HeldLock::Unchecked) => true,
        Some(HeldLock::Ticket(ticket)) => {
            if has_slept {
                ticket.end_pause();
            }
            window.window_lock(target).poll(ticket)
        }
    };
    if held {
        window.0.flags.set(target, true);
    }
    held
}
