//! Copy engines: who does the copying of long messages while the program computes (chai-2009,
//! chapter 5).
//!
//! | the paper | here | who copies |
//! |---|---|---|
//! | - | `inline` | the rank, a chunk at each look |
//! | MCNI, multi-core without I/OAT | `thread` | a helper thread of the process, on a core that no rank needs |
//! | SCI, single core with I/OAT | `dsa` | Intel DSA, fed and watched by the rank |
//! | MCI, multi-core with I/OAT | `dsa+thread` | Intel DSA, fed and watched by the helper thread |
//!
//! The paper's calls (Tables 5.1 and 5.2) map as follows; its cookie is a [`Cookie`]:
//!
//! | the paper | here |
//! |---|---|
//! | `ioat_icopy`, `ioat_iread`, `ioat_iwrite` | [`CopyEngine::start`] of [`CopyJob::copy`], [`CopyJob::read`], [`CopyJob::write`] |
//! | `ioat_copy`, `ioat_read`, `ioat_write` | [`CopyEngine::run`] of the same |
//! | `ioat_check_copy`, `ioat_check` | [`Cookie::check`] |
//! | `ioat_wait_copy`, `ioat_wait` | [`Cookie::wait`] |
//!
//! Three promises hold for every engine. A job is reported done only when all its bytes are in
//! place and visible to the caller. It touches no memory after its cookie has reported the end or
//! is gone: dropping a cookie stops the job, and waits for the chunks under way. And an engine that
//! cannot do a job in its own manner (no token for a helper, no page for the device, memory that
//! the device does not reach) has it copied by the CPU rather than refuse it. What fails is only
//! what the kernel refuses: the caller then takes another way for the whole message.

mod dsa;
mod fork;
mod helper;
mod inline;
mod job;
mod peer;
mod recommended;
mod thread;

#[cfg(test)]
mod tests;

pub use dsa::{DsaEngine, DsaReport, DsaThreadEngine, NoDevice, QueueInfo, QueueMode, find_queues};
pub use helper::spawn_helper;
pub use inline::InlineEngine;
pub use job::{CopyJob, Notify};
pub use peer::PeerMemory;
pub use recommended::{EngineFacts, EngineKind, Setup, open, recommended};
pub use thread::ThreadEngine;

use crate::EngineCost;
use job::OffloadJob;
use std::sync::Arc;

bitflags::bitflags! {
    /// What a copy engine does in its own manner; the CPU of the caller does the rest.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct EngineCapabilities: u32 {
        /// Copies between places of this address space: own buffers, and windows through which a
        /// peer's memory is mapped.
        const OWN_MEMORY = 1;
        /// Reads and writes a peer's memory by cross memory attach. A device cannot: it works in
        /// one address space.
        const PEER_MEMORY = 1 << 1;
        /// Goes on while the caller computes, and tells when it is through ([`Setup::notify`]).
        const SELF_DRIVEN = 1 << 2;
        /// Takes no core's time while it copies.
        const HARDWARE = 1 << 3;
    }
}

/// Why a job failed. Some of its bytes may have been copied; the source is unchanged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CopyError {
    /// The kernel refused to read or write memory.
    #[error(
        "copying {bytes} bytes{} failed: {}",
        .pid.map(|pid| format!(" from or to process {pid}")).unwrap_or_default(),
        std::io::Error::from_raw_os_error(*.errno)
    )]
    Kernel {
        /// The error number.
        errno: i32,
        /// Length of the job.
        bytes: usize,
        /// The peer's process, if its memory took part.
        pid: Option<u32>,
    },
    /// The job belongs to the process that this one was forked from: it goes on there.
    #[error("a copy of {bytes} bytes was started before this process was forked")]
    Forked {
        /// Length of the job.
        bytes: usize,
    },
}

/// How far a job is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobProgress {
    /// Bytes are still missing.
    Pending,
    /// All bytes are in place.
    Done,
    /// It will not be completed, and touches no memory any more.
    Failed(CopyError),
}

/// A way to copy memory in the background. One belongs to each rank.
pub trait CopyEngine: Send + std::fmt::Debug {
    /// Short name, as in `MICA_COPY_ENGINE`.
    fn name(&self) -> &'static str;

    /// What it does in its own manner.
    fn capabilities(&self) -> EngineCapabilities;

    /// What a job costs the caller's core, as far as it is known without calibration.
    fn cost(&self) -> EngineCost;

    /// Starts a job and returns at once. Nothing is refused; see the module's head.
    #[must_use = "a job is stopped when its cookie is dropped"]
    fn start(&mut self, job: CopyJob) -> Cookie;

    /// Runs a job to its end. Blocks for as long as the copy takes; the caller's core takes part.
    ///
    /// # Errors
    /// As [`Cookie::wait`].
    fn run(&mut self, job: CopyJob) -> Result<(), CopyError> {
        self.start(job).wait()
    }

    /// Ends the helper thread, if there is one, after its jobs, and so gives its token back to the
    /// node. To be called when the rank stops communicating: other ranks may go on, and want a
    /// helper. The engine may be used again.
    fn close(&mut self) {}
}

/// How an engine gets on with a job when the job's owner looks at it.
trait Driver: Send + Sync + std::fmt::Debug {
    /// Does a bounded piece of work, if the job would not get on otherwise.
    fn look(&self, job: &Arc<OffloadJob>);

    /// Does a bounded piece of work on behalf of an owner who has nothing else to do. False if
    /// there was none: the rest is with somebody who finishes it without the owner.
    fn assist(&self, job: &Arc<OffloadJob>) -> bool;

    /// True if the job gets on, and its end is told, without the owner's looks.
    fn is_self_driven(&self, job: &OffloadJob) -> bool;
}

/// A started job. Whoever has it owns the job: dropping it stops the job where it is, and blocks
/// until the chunks that are being copied at that moment (at most a few, of some 10 us each) are
/// through.
#[derive(Debug)]
pub struct Cookie {
    job: Arc<OffloadJob>,
    driver: Arc<dyn Driver>,
}

impl Cookie {
    fn new(job: Arc<OffloadJob>, driver: Arc<dyn Driver>) -> Cookie {
        Cookie { job, driver }
    }

    /// Looks how far the job is. Never blocks; where nobody else drives the job, copies one chunk
    /// (128 KiB) or feeds the device.
    pub fn check(&self) -> JobProgress {
        if !self.job.is_ours() {
            return self.forked();
        }
        if !self.job.is_settled() {
            self.driver.look(&self.job);
        }
        self.progress()
    }

    /// As [`check`](Cookie::check), for a caller who has nothing else to do: takes a chunk off the
    /// helper's hands and copies it.
    pub fn assist(&self) -> JobProgress {
        if !self.job.is_ours() {
            return self.forked();
        }
        if !self.job.is_settled() {
            self.driver.assist(&self.job);
        }
        self.progress()
    }

    /// Waits for the end of the job, taking part in it; sleeps when only others' chunks are left.
    ///
    /// # Errors
    /// When the kernel refused to copy, or the job belongs to a process that this one was forked
    /// from.
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

    /// True if the job needs no looks: it goes on, and [`Setup::notify`] is called at its end,
    /// while the caller computes or sleeps. Otherwise a caller who has nothing else to do must keep
    /// calling [`check`](Cookie::check) or [`assist`](Cookie::assist) instead of parking. Does not
    /// change from true to false.
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
        // A job that was over before the fork has left its bytes in the child, too.
        match self.progress() {
            JobProgress::Pending => JobProgress::Failed(CopyError::Forked {
                bytes: self.bytes(),
            }),
            over => over,
        }
    }
}

impl Drop for Cookie {
    fn drop(&mut self) {
        if !self.job.is_ours() {
            // The driver is the parent's: its end must not be brought about here, where it may be
            // the last reference.
            std::mem::forget(Arc::clone(&self.driver));
            return;
        }
        if self.job.is_settled() {
            return;
        }
        self.job.stop(libc::ECANCELED);
        while !self.job.is_settled() {
            // Nothing is left to claim: this polls a device, or is nothing.
            if !self.driver.assist(&self.job) {
                self.job.sleep();
            }
        }
    }
}
