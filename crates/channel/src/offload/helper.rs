//! The helper thread of a process: starts when it is first needed, sleeps when it has nothing to
//! do, and works only while it holds one of the node's [`HelperSlots`](mica_node::helper_slots).
//!
//! The queue is a mutex and a condition variable: jobs come at the rate of long messages, and the
//! mutex is held briefly. The rank acquires the helper slot when it wakes the helper. The helper
//! releases it, under the mutex, when it finds the queue empty; so a queue that is not empty always
//! has a helper working on it.
//!
//! The end of a process kills the thread wherever it is. A forked child has no thread, and perhaps
//! a locked mutex: see [`Helper::claim`].

use super::fork;
use super::job::OffloadJob;
use mica_node::segment::JobSegment;
use mica_node::signals::SignalsBlocked;
use mica_node::topology::{self, CpuSet};
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// How a helper works on a job.
pub(super) trait Worker: Send + 'static {
    /// Works until all chunks of the job are claimed.
    fn take_chunks(&mut self, job: &Arc<OffloadJob>);

    /// Waits for all chunks that this worker has claimed and not settled.
    fn finish(&mut self);
}

/// A helper thread and its queue.
#[derive(Debug)]
pub(super) struct Helper {
    shared: Arc<HelperShared>,
    thread: Option<JoinHandle<()>>,
    segment: Arc<JobSegment>,
    limit: u32,
    generation: u32,
}

#[derive(Debug)]
struct HelperShared {
    segment: Arc<JobSegment>,
    state: Mutex<HelperState>,
    wake: Condvar,
}

#[derive(Debug, Default)]
struct HelperState {
    jobs: VecDeque<Arc<OffloadJob>>,
    /// The helper holds a helper slot: it checks the queue again before it sleeps.
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
    /// started yet.
    pub(super) fn new(segment: &Arc<JobSegment>, limit: u32) -> Helper {
        Helper {
            shared: Arc::new(HelperShared {
                segment: Arc::clone(segment),
                state: Mutex::default(),
                wake: Condvar::new(),
            }),
            thread: None,
            segment: Arc::clone(segment),
            limit,
            generation: fork::generation(),
        }
    }

    fn is_ours(&self) -> bool {
        self.generation == fork::generation()
    }

    /// In a child that was forked since [`new`](Helper::new): abandons the parent's helper and
    /// creates a new one.
    pub(super) fn claim(&mut self) {
        if !self.is_ours() {
            let fresh = Helper::new(&self.segment, self.limit);
            std::mem::forget(std::mem::replace(self, fresh));
        }
    }

    /// Ends the thread after its jobs. The next job starts another thread.
    pub(super) fn renew(&mut self) {
        *self = Helper::new(&self.segment, self.limit);
    }

    /// Gives a job to the helper, whose thread is started if needed, with the worker that `worker`
    /// makes. False if there is no helper slot or no thread: then the job is not queued.
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
        self.thread = spawn_helper(&self.segment, "mica-copy", serve).ok();
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
            // The thread belongs to the parent.
            std::mem::forget(thread);
            return;
        }
        self.shared.lock().quit = true;
        self.shared.wake.notify_one();
        // An error is a panic of the thread, which has been reported.
        let _ = thread.join();
    }
}

/// The main loop of the thread.
fn serve<W: Worker>(shared: &HelperShared, mut worker: W) {
    let mut state = shared.lock();
    loop {
        if let Some(job) = state.jobs.pop_front() {
            drop(state);
            worker.take_chunks(&job);
            // The cookie may be gone by now; then this drops the last reference to the job's
            // blocks.
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
            state = shared.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Starts a thread that works for the rank: it blocks all signals and avoids the cores that ranks
/// are bound to, if there are others.
///
/// # Errors
/// If no thread can be created.
pub fn spawn_helper(
    segment: &JobSegment,
    name: &str,
    run: impl FnOnce() + Send + 'static,
) -> std::io::Result<JoinHandle<()>> {
    let mask = helper_mask(segment);
    let builder = std::thread::Builder::new().name(name.to_owned()).stack_size(256 << 10);
    // So the thread never runs the program's handlers.
    let _blocked = SignalsBlocked::new();
    builder.spawn(move || {
        if let Some(mask) = mask {
            // If the kernel refuses the binding, the helper runs on the rank's cores.
            let _ = topology::bind_thread(&mask);
        }
        run();
    })
}

/// Whether helpers have a core that no rank needs: one to which none is bound, or more cores than
/// ranks.
pub fn has_core_for_helpers(segment: &JobSegment) -> bool {
    segment.available_cores() > segment.ranks() || helper_mask(segment).is_some()
}

/// The cores on which the job's helpers may run; `None` to keep the rank's own mask.
fn helper_mask(segment: &JobSegment) -> Option<CpuSet> {
    // The launcher is not bound, so its mask is what the job may use.
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

/// The processors to which no rank is bound. `None` if there is none, for example because ranks are
/// not bound: then the scheduler finds an idle one better than we could.
fn free_cpus(allowed: &CpuSet, ranks: &[CpuSet]) -> Option<CpuSet> {
    let free = CpuSet::from_cpus(
        allowed.iter().filter(|&cpu| !ranks.iter().any(|rank| rank.contains(cpu))),
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
        assert_eq!(free_cpus(&all, std::slice::from_ref(&all)), None, "ranks are not bound");
        assert_eq!(free_cpus(&set(&[1]), &[set(&[1])]), None);
        assert_eq!(free_cpus(&all, &[]), Some(all.clone()));
    }
}
