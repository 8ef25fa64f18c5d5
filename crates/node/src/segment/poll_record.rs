//! What a rank polls for: a loop of `MPI_Test`, `MPI_Iprobe` and their kin that finds nothing.
//!
//! Such a rank neither waits nor computes, and nothing but the count of its failed polls says so.
//! It is in the segment, so that `mica top` sees it move, and beside it what was asked for: the
//! rank writes that when the count reaches [`POLLS`], and every now and then as long as it goes on.
//! A count that does not move says that the rank has stopped polling.
//!
//! Written by the rank alone, read by other processes without notice (relaxed: they show it).

use super::wait_record::{CallName, WaitKind, Waiting};
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};

/// Number of failed polls from which on a rank counts as polling; a power of two.
pub const POLLS: u32 = 64;

/// A rank's failed polls, and what they asked for.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct PollRecord {
    /// Failed polls since the last successful one.
    failed: AtomicU32,
    /// A [`WaitKind`]; meaningful from [`POLLS`] failed polls on, as all below.
    kind: AtomicU32,
    peer: AtomicI32,
    tag: AtomicI32,
    context: AtomicU64,
    since_ns: AtomicU64,
    call: CallName,
}

impl PollRecord {
    /// Counts a failed poll; returns how many there are since the last successful one. With several
    /// threads the count is not exact, and need not be.
    #[inline(always)]
    pub fn count_failed(&self) -> u32 {
        let failed = self.failed.load(Ordering::Relaxed).wrapping_add(1);
        self.failed.store(failed, Ordering::Relaxed);
        failed
    }

    /// A poll has succeeded.
    #[inline(always)]
    pub fn succeed(&self) {
        self.failed.store(0, Ordering::Relaxed);
    }

    /// The rank has begun to poll.
    pub fn begin(&self, now_ns: u64) {
        self.since_ns.store(now_ns, Ordering::Relaxed);
        self.call.clear();
    }

    /// When it did, by [`monotonic_ns`](super::monotonic_ns).
    pub fn since_ns(&self) -> u64 {
        self.since_ns.load(Ordering::Relaxed)
    }

    /// Records what it polls for.
    pub fn record(&self, what: &Waiting) {
        self.kind.store(what.kind as u32, Ordering::Relaxed);
        self.peer.store(what.peer, Ordering::Relaxed);
        self.tag.store(what.tag, Ordering::Relaxed);
        self.context.store(what.context, Ordering::Relaxed);
    }

    /// The function that it polls by.
    pub fn call(&self) -> &CallName {
        &self.call
    }

    /// Number of failed polls, what they ask for, and since when; `None` if they are few.
    pub fn polling(&self) -> Option<(u32, Waiting, u64)> {
        let failed = self.failed.load(Ordering::Relaxed);
        let kind = WaitKind::of(self.kind.load(Ordering::Relaxed))?;
        let what = Waiting {
            kind,
            peer: self.peer.load(Ordering::Relaxed),
            tag: self.tag.load(Ordering::Relaxed),
            context: self.context.load(Ordering::Relaxed),
            unexpected: 0,
        };
        (failed >= POLLS).then(|| (failed, what, self.since_ns()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rank_polls_from_some_failures_on_until_a_success() {
        let record = PollRecord::default();
        let what = Waiting { kind: WaitKind::Receive, peer: 3, tag: 9, context: 64, unexpected: 0 };
        for poll in 1..=POLLS {
            assert_eq!(record.polling(), None);
            assert_eq!(record.count_failed(), poll);
            record.record(&what);
        }
        record.begin(5);
        record.call().set("MPI_Test");
        assert_eq!(record.polling(), Some((POLLS, what, 5)));
        record.begin(6);
        assert_eq!(record.call().bytes(), [0; 32]);
        record.succeed();
        assert_eq!(record.polling(), None);
    }
}
