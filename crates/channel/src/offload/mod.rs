//! Copy engines: they copy long messages while the program computes (chai-2009, chapter 5).
//!
//! | the paper | here | who copies |
//! |---|---|---|
//! | - | `inline` | the rank, a chunk at each poll |
//! | MCNI, multi-core without I/OAT | `thread` | a helper thread, on a core that no rank needs |
//! | SCI, single core with I/OAT | `dsa` | Intel DSA, fed and polled by the rank |
//! | MCI, multi-core with I/OAT | `dsa+thread` | Intel DSA, fed and polled by the helper thread |
//!
//! The paper's calls (Tables 5.1 and 5.2) map as follows; its cookie is a [`Cookie`]:
//!
//! | the paper | here |
//! |---|---|
//! | `ioat_icopy` | [`CopyEngine::start`] of [`CopyJob::copy`] |
//! | `ioat_iread`, `ioat_iwrite` | [`CopyEngine::start`] of [`CopyJob::read`], [`CopyJob::write`] |
//! | `ioat_copy`, `ioat_read`, `ioat_write` | [`CopyEngine::run`] of the same jobs |
//! | `ioat_check_copy`, `ioat_check` | [`Cookie::check`] |
//! | `ioat_wait_copy`, `ioat_wait` | [`Cookie::wait`] |
//!
//! Three invariants hold for every engine. A job is reported done only when all its bytes are in
//! place and visible to the caller. A job touches no memory after its cookie has reported
//! completion or is gone: dropping a cookie stops the job, and waits for the chunks under way. An
//! engine that cannot copy a job itself (no helper slot, a page that the device finds missing,
//! memory that the device does not reach) lets the CPU copy it rather than refuse it. A job fails
//! only if the kernel refuses: the caller then uses another path for the whole message.

mod error;
mod fork;
mod hardware;
mod helper;
mod inline;
mod job;
mod peer;
mod recommended;
mod setup;
mod thread;

#[cfg(test)]
mod tests;

pub use error::CopyError;
pub use hardware::dsa::{
    DsaEngine, DsaReport, DsaThreadEngine, NoDevice, QueueInfo, QueueMode, find_queues,
};
pub use helper::{has_core_for_helpers, spawn_helper};
pub use inline::InlineEngine;
pub use job::{CopyJob, Notify};
pub use peer::PeerMemory;
pub use recommended::{EngineFacts, EngineKind, open, recommended};
pub use setup::OffloadSetup;
pub use thread::ThreadEngine;

use job::OffloadJob;
use std::sync::Arc;

bitflags::bitflags! {
    /// What a copy engine can do itself; the caller's CPU does the rest.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct EngineCapabilities: u32 {
        /// Makes progress while the caller computes, and reports completion
        /// ([`OffloadSetup::notify`]).
        const SELF_DRIVEN = 1;
        /// Uses no core while it copies.
        const HARDWARE = 1 << 1;
    }
}

/// The progress of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobProgress {
    /// Bytes are still missing.
    Pending,
    /// All bytes are in place.
    Done,
    /// It will not complete, and no longer touches memory.
    Failed(CopyError),
}

/// A method to copy memory in the background. Each rank has one.
pub trait CopyEngine: Send + std::fmt::Debug {
    /// Short name, as in `MICA_COPY_ENGINE`.
    fn name(&self) -> &'static str;

    /// What it can do itself.
    fn capabilities(&self) -> EngineCapabilities;

    /// Starts a job and returns at once. No job is refused; see the module documentation.
    #[must_use = "a job is stopped when its cookie is dropped"]
    fn start(&mut self, job: CopyJob) -> Cookie;

    /// Runs a job to completion. Blocks for the duration of the copy; the caller's core takes part.
    ///
    /// # Errors
    /// Those of [`Cookie::wait`].
    fn run(&mut self, job: CopyJob) -> Result<(), CopyError> {
        self.start(job).wait()
    }

    /// Ends the helper thread, if there is one, after its jobs, which releases its helper slot.
    /// Should be called when the rank stops communicating, because other ranks may need the slot.
    /// The engine may be used again.
    fn close(&mut self) {}
}

/// How a job makes progress when its owner polls it.
trait Driver: Send + Sync + std::fmt::Debug {
    /// Does a bounded amount of work, if the job would make no progress otherwise.
    fn poll(&self, job: &Arc<OffloadJob>);

    /// Does a bounded amount of work for an owner that has nothing else to do. False if there was
    /// none: the remaining chunks complete without the owner.
    fn assist(&self, job: &Arc<OffloadJob>) -> bool;

    /// True if the job makes progress, and its completion is reported, without polls by the owner.
    fn is_self_driven(&self, job: &OffloadJob) -> bool;
}

/// A started job. The holder of the cookie owns the job: dropping it stops the job, and blocks
/// until the chunks that are being copied at that moment (at most a few, of some 10 us each) are
/// settled.
#[derive(Debug)]
pub struct Cookie {
    job: Arc<OffloadJob>,
    driver: Arc<dyn Driver>,
}

impl Cookie {
    fn new(job: Arc<OffloadJob>, driver: Arc<dyn Driver>) -> Cookie {
        Cookie { job, driver }
    }

    /// Polls the job. Never blocks; if no other thread drives the job, copies one chunk (128 KiB)
    /// or feeds the device.
    pub fn check(&self) -> JobProgress {
        if !self.job.is_ours() {
            return self.forked();
        }
        if !self.job.is_settled() {
            self.driver.poll(&self.job);
        }
        self.progress()
    }

    /// Like [`check`](Cookie::check), for a caller that has nothing else to do: also copies a chunk
    /// instead of leaving it to the helper.
    pub fn assist(&self) -> JobProgress {
        if !self.job.is_ours() {
            return self.forked();
        }
        if !self.job.is_settled() {
            self.driver.assist(&self.job);
        }
        self.progress()
    }

    /// Waits for the completion of the job and takes part in the copy; sleeps if all remaining
    /// chunks are claimed by others.
    ///
    /// # Errors
    /// If the kernel refused to copy, or the job belongs to a process from which this one was
    /// forked.
    pub fn wait(self) -> Result<(), CopyError> {
        loop {
            if !self.job.is_ours() {
                break;
            }
            if let Some(outcome) = self.job.outcome() {
                return outcome;
            }
            if !self.driver.assist(&self.job) {
                self.job.sleep();
            }
        }
        match self.forked() {
            JobProgress::Failed(error) => Err(error),
            _ => unreachable!("a forked job is failed"),
        }
    }

    /// True if the job needs no polls: it makes progress, and [`OffloadSetup::notify`] is called on
    /// completion, while the caller computes or sleeps. Otherwise a caller that has nothing else to
    /// do must keep calling [`check`](Cookie::check) or [`assist`](Cookie::assist) instead of
    /// parking. Never changes from true to false.
    pub fn is_self_driven(&self) -> bool {
        self.job.is_ours() && (self.job.is_settled() || self.driver.is_self_driven(&self.job))
    }

    /// Length of the job in bytes.
    pub fn bytes(&self) -> usize {
        self.job.plan.bytes()
    }

    fn progress(&self) -> JobProgress {
        match self.job.outcome() {
            None => JobProgress::Pending,
            Some(Ok(())) => JobProgress::Done,
            Some(Err(error)) => JobProgress::Failed(error),
        }
    }

    #[cold]
    fn forked(&self) -> JobProgress {
        // A job that completed before the fork has its bytes in the child, too.
        match self.progress() {
            JobProgress::Pending => JobProgress::Failed(CopyError::Forked { bytes: self.bytes() }),
            over => over,
        }
    }
}

impl Drop for Cookie {
    fn drop(&mut self) {
        if !self.job.is_ours() {
            // The driver belongs to the parent: it must not be dropped here, where this may be the
            // last reference.
            std::mem::forget(Arc::clone(&self.driver));
            return;
        }
        if self.job.is_settled() {
            return;
        }
        self.job.stop(libc::ECANCELED);
        while !self.job.is_settled() {
            // Nothing is left to claim: this polls a device, or does nothing.
            if !self.driver.assist(&self.job) {
                self.job.sleep();
            }
        }
    }
}
