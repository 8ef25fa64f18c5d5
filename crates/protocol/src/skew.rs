//! Process skew: a receiver that lags behind notifies its senders (chai-2009, 6.3.2).
//!
//! Whenever a message arrives that is longer than the ring takes, the receiver checks how many
//! unexpected messages of that sender it holds; shorter messages never wait for their receiver.
//! When the connection becomes skewed, or even again, the receiver sends `SKEW`, and the sender's
//! thresholds follow.

use crate::Fault;
use crate::packet;
use crate::state::EngineState;
use mica_channel::shm::Packet;
use mica_policy::{SkewChange, SkewMonitor, SkewPolicy};

/// The skew of this rank's senders.
#[derive(Debug)]
pub(crate) struct SkewState {
    /// `None`: skew is not monitored.
    policy: Option<SkewPolicy>,
    monitors: Vec<SkewMonitor>,
}

impl SkewState {
    pub fn new(policy: Option<SkewPolicy>, ranks: usize) -> SkewState {
        SkewState {
            policy,
            monitors: vec![SkewMonitor::default(); ranks],
        }
    }
}

impl EngineState {
    /// A message from `source` that was not short has arrived, and is matched or queued.
    #[inline]
    pub(crate) fn watch_skew(&mut self, source: u32) -> Result<(), Fault> {
        let Some(policy) = &self.skew.policy else {
            return Ok(());
        };
        let unexpected = self.unexpected.len_from(source);
        match self.skew.monitors[source as usize].observe(policy, unexpected) {
            None => Ok(()),
            Some(change) => self.send_control(source, packet::skew(change == SkewChange::Skewed)),
        }
    }

    /// The receiver has announced whether it lags behind.
    pub(crate) fn on_skew(&mut self, source: u32, packet: &Packet) {
        self.selection.set_skewed(source, packet::read_skew(packet));
    }
}
