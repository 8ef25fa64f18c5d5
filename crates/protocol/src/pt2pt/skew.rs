//! Process skew: a receiver that lags behind notifies its senders (chai-2009, 6.3.2).
//!
//! Whenever a message arrives that is longer than the ring takes, the receiver checks how many
//! unexpected messages of that sender it holds; shorter messages never wait for their receiver.
//! When the connection becomes skewed, or even again, the receiver sends `SKEW`, and the sender's
//! thresholds follow.

use crate::channels::packet;
use crate::engine::fault::Fault;
use crate::engine::state::EngineState;
use mica_channel::shm::Packet;
use mica_node::counters::Counter;
use mica_policy::SkewChange;

impl EngineState {
    /// A message from `source` that was not short has arrived, and is matched or queued.
    #[inline]
    pub(crate) fn watch_skew(&mut self, source: u32) -> Result<(), Fault> {
        let Some(policy) = &self.skew else {
            return Ok(());
        };
        let unexpected = self.matching.unexpected.len_from(source);
        match self.peers.entry(source).skew.observe(policy, unexpected) {
            None => Ok(()),
            Some(change) => {
                let lags = change == SkewChange::Skewed;
                self.counters.add(Counter::SkewedSenders, u64::from(lags));
                self.send_control(source, packet::skew(lags))
            }
        }
    }

    /// The receiver has announced whether it lags behind.
    pub(crate) fn on_skew(&mut self, source: u32, packet: &Packet) {
        self.selection.set_skewed(source, packet::read_skew(packet));
    }
}
