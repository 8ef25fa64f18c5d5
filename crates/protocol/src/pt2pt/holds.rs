//! The senders that this rank holds back, and when it gives memory back:
//! [`flow_control`](crate::pt2pt::flow_control) has the protocol.

use mica_policy::HoldPolicy;

/// Minimum size in bytes of a backlog whose memory is returned to the system afterwards.
const LARGE: u64 = 8 << 20;

/// The senders that this rank holds back, and the policy.
#[derive(Debug)]
pub(crate) struct Holds {
    pub policy: HoldPolicy,
    /// Senders whose messages are held back.
    pub held: Vec<u32>,
    /// Maximum of bytes kept since memory was last returned.
    peak: u64,
}

impl Holds {
    pub fn new(policy: HoldPolicy) -> Holds {
        Holds { policy, held: Vec::new(), peak: 0 }
    }

    /// Holds `source` back. False if it is held back already.
    pub fn add(&mut self, source: u32) -> bool {
        let is_new = !self.held.contains(&source);
        if is_new {
            self.held.push(source);
        }
        is_new
    }

    /// Whether nothing depends on how much is kept: `total` bytes now.
    #[inline]
    pub fn is_idle(&self, total: u64) -> bool {
        self.held.is_empty() && self.peak < LARGE && total < LARGE
    }

    /// A kept message of `source` has been received; `of_source` bytes of its messages are still
    /// kept, and `total` of all. Gives memory back if that is little of what it was. True if
    /// `source` was held back, and may go on.
    pub fn release(&mut self, source: u32, of_source: u64, total: u64) -> bool {
        self.peak = self.peak.max(total);
        if self.peak >= LARGE && total <= self.peak / 8 {
            self.peak = total;
            mica_memory::give_back();
        }
        if !self.policy.releases(of_source, total) {
            return false;
        }
        let held = self.held.iter().position(|&s| s == source);
        held.map(|at| self.held.swap_remove(at)).is_some()
    }
}
