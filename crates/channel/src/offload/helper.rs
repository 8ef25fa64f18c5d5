//! The helper thread of a process: starts when it is first needed, sleeps when it has nothing to
//! do, and is at work only while it holds one of the node's
//! [`HelperSlots`](mica_node::helper_slots).
//!
//! The queue is a mutex and a condition variable: jobs come at the rate of long messages, and the
//! mutex is held for moments. The rank takes the token when it wakes the helper and the helper
//! gives it back, under the mutex, when it finds the queue empty; so a queue that is not empty
//! always has a helper at work on it.
//!
//! A process that ends kills the thread wherever it is. A child of a fork has no thread, and
//! perhaps a locked mutex: see [`Helper::claim`].

use super::fork;
use super::job::OffloadJob;
use mica_node::segment::JobSegment;
use mica_node::topology::{self, CpuSet};
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// How a helper works on a job.
pub(super) trait Worker: Send + 'static {
    /// Works until the job has no chunk that nobody has taken.
    fn take_chunks(&mut self, job: &Arc<OffloadJob>);

    /// Waits for all that this worker has taken and not settled.
    fn finish(&mut self);
}

/// A helper thread and its queue.
#[derive(Debug)]
pub(super) struct Helper {
    shared: Arc<HelperShared>,
    thread: Option<JoinHandle<()>>,
    segment: &'static JobSegment,
    limit: u32,
    generation: u32,
}

#[derive(Debug)]
struct HelperShared {
    segment: &'static JobSegment,
    state: Mutex<HelperState>,
    wake: Condvar,
}

#[derive(Debug, Default)]
struct HelperState {
    jobs: VecDeque<Arc<OffloadJob>>,
    /// The helper holds a token: it looks at the queue again before it sleeps.
    is_active: bool,
    quit: bool,
}

impl HelperShared {
    fn lock(&self) -> MutexGuard<'_, HelperState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Helper {
    /// A helper that may work while fewer than `limit` others of the node do. Its thread is not
    /// started.
    pub(super) fn new(segment: &'static JobSegment, limit: u32) -> Helper {
        Helper {
            shared: Arc::new(HelperShared {
                segment,
                state: Mutex::default(),
                wake: Condvar::new(),
            }),
            thread: None,
            segment,
            limit,
            generation: fork::generation(),
        }
    }

    fn is_ours(&self) -> bool {
        self.generation == fork::generation()
    }

    /// In a child that was forked since [`new`](Helper::new): leaves the parent's helper alone and
    /// makes an own one.
    pub(super) fn claim(&mut self) {
        if !self.is_ours() {
            let fresh = Helper::new(self.segment, self.limit);
            std::mem::forget(std::mem::replace(self, fresh));
        }
    }

    /// Ends the thread after its jobs. The next job starts another.
    pub(super) fn renew(&mut self) {
        *self = Helper::new(self.segment, self.limit);
    }

    /// Gives a job to the helper, started if need be with the worker that `worker` makes. False
    /// when there is no token for it or no thread: the job is not queued then.
    pub(super) fn give<W: Worker>(
        &mut self,
        job: &Arc<OffloadJob>,
        worker: impl FnOnce() -> W,
    ) -> bool {
        if self.limit == 0 || (self.thread.is_none() && !self.spawn(worker)) {
            return false;
        }
        let mut state = self.shared.lock();
        if !state.is_active {
            if !self.segment.helper_tokens().try_acquire(self.limit) {
                return false;
            }
            state.is_active = true;
            self.shared.wake.notify_one();
        }
        state.jobs.push_back(Arc::clone(job));
        true
    }

    #[cold]
    fn spawn<W: Worker>(&mut self, worker: impl FnOnce() -> W) -> bool {
        let (shared, worker) = (Arc::clone(&self.shared), worker());
        let serve = move || serve(&shared, worker);
        self.thread = spawn_helper(self.segment, "mica-copy", serve).ok();
        self.thread.is_some()
    }
}

impl Drop for Helper {
    /// Ends the thread after the jobs in its queue.
    fn drop(&mut self) {
        let Some(thread) = self.thread.take() else {
            return;
        };
        if !self.is_ours() {
            // The thread is the parent's.
            std::mem::forget(thread);
            return;
        }
        self.shared.lock().quit = true;
        self.shared.wake.notify_one();
        // An error is a panic of the thread, which has been reported.
        let _ = thread.join();
    }
}

/// The thread's life.
fn serve<W: Worker>(shared: &HelperShared, mut worker: W) {
    let mut state = shared.lock();
    loop {
        if let Some(job) = state.jobs.pop_front() {
            drop(state);
            worker.take_chunks(&job);
            // The cookie may be gone by now, and with it the last owner of the job's blocks.
            drop(job);
            state = shared.lock();
            if state.jobs.is_empty() {
                drop(state);
                worker.finish();
                state = shared.lock();
            }
        } else if state.is_active {
            state.is_active = false;
            shared.segment.helper_tokens().release();
        } else if state.quit {
            return;
        } else {
            state = shared
                .wake
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Starts a thread that works for the rank: it blocks all signals and stays away from the cores
/// that ranks are bound to, where there are others.
///
/// # Errors
/// When there is no thread to be had.
pub fn spawn_helper(
    segment: &'static JobSegment,
    name: &str,
    run: impl FnOnce() + Send + 'static,
) -> std::io::Result<JoinHandle<()>> {
    let mask = helper_mask(segment);
    let builder = std::thread::Builder::new()
        .name(name.to_owned())
        .stack_size(256 << 10);
    with_signals_blocked(|| {
        builder.spawn(move || {
            if let Some(mask) = mask {
                // Where the kernel refuses it, the helper runs where the rank does.
                let _ = topology::bind_thread(&mask);
            }
            run();
        })
    })
}

/// Runs `f` with all signals blocked, so that a thread started there never runs the program's
/// handlers.
fn with_signals_blocked<R>(f: impl FnOnce() -> R) -> R {
    // SAFETY: both sets live here; sigfillset and pthread_sigmask only write to them and to the
    // thread's mask.
    let old = unsafe {
        let (mut all, mut old) = std::mem::zeroed::<(libc::sigset_t, libc::sigset_t)>();
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut old);
        old
    };
    let result = f();
    // SAFETY: as above; `old` is the mask that was in force.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &old, std::ptr::null_mut()) };
    result
}

/// Where the job's helpers may run: `None` to stay with the rank's own mask.
fn helper_mask(segment: &JobSegment) -> Option<CpuSet> {
    // The launcher is not bound: its mask is what the job may use.
    let allowed = topology::affinity_of(segment.launcher_pid()).ok()?;
    let ranks: Vec<CpuSet> = segment
        .members()
        .iter()
        .filter_map(|&rank| match segment.block(rank).pid() {
            0 => None,
            pid => topology::affinity_of(pid).ok(),
        })
        .collect();
    free_cpus(&allowed, &ranks)
}

/// The processors that no rank is bound to. `None` where there is none, as when ranks are not
/// bound: the scheduler then finds an idle one better than we.
fn free_cpus(allowed: &CpuSet, ranks: &[CpuSet]) -> Option<CpuSet> {
    let free = CpuSet::from_cpus(
        allowed
            .iter()
            .filter(|&cpu| !ranks.iter().any(|rank| rank.contains(cpu))),
    );
    (!free.is_empty()).then_some(free)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_helper_goes_where_no_rank_is_bound() {
        let set = |cpus: &[u32]| CpuSet::from_cpus(cpus.iter().copied());
        let all = set(&[0, 1, 2, 3]);
        assert_eq!(free_cpus(&all, &[set(&[0]), set(&[2])]), Some(set(&[1, 3])));
        assert_eq!(
            free_cpus(&all, std::slice::from_ref(&all)),
            None,
            "ranks are not bound"
        );
        assert_eq!(free_cpus(&set(&[1]), &[set(&[1])]), None);
        assert_eq!(free_cpus(&all, &[]), Some(all.clone()));
    }
}
