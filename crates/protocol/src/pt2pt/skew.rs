//! Process skew: a receiver that lags behind notifies its senders (chai-2009, 6.3.2).
//!
//! Whenever a message arrives that is longer than the ring takes, the receiver checks how many
//! unexpected messages of that sender it holds; shorter messages never wait for their receiver.
//! When the connection becomes skewed, or even again, the receiver sends `SKEW`, and the sender's
//! thresholds follow ([`Selection::set_skewed`](crate::pt2pt::select::Selection::set_skewed)).

use crate::matching::UnexpectedQueue;
use mica_node::peer_table::PeerTable;
use mica_policy::{SkewChange, SkewMonitor, SkewPolicy};

/// Whether this rank lags behind its senders.
#[derive(Debug, Default)]
pub(crate) struct SkewMonitors {
    /// `None`: not observed.
    pub policy: Option<SkewPolicy>,
    by_sender: PeerTable<SkewMonitor>,
}

impl SkewMonitors {
    /// A message of `source` that was not short has arrived, and is matched or in `queue`. What to
    /// announce to `source`, if anything.
    #[inline]
    pub fn observe<T>(&mut self, source: u32, queue: &UnexpectedQueue<T>) -> Option<SkewChange> {
        let policy = self.policy.as_ref()?;
        self.by_sender.entry(source).observe(policy, queue.len_from(source))
    }

    /// Forgets `source`, which is no peer any more.
    pub fn forget(&mut self, source: u32) {
        self.by_sender.remove(source);
    }
}
