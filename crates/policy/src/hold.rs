//! Flow control of unexpected messages: when a receiver holds a sender's messages back, so that the
//! bytes that it keeps stay bounded.
//!
//! The bytes that a rank may keep are shared by a dynamic threshold (as in shared-memory switches,
//! Choudhury and Hahne 1998): a sender may use as much as is still free. A single sender thus gets
//! half of the total, `n` flooding senders get a share of `1 / (n + 1)` each, and there is always
//! room for a new one.

use mica_node::tunables::{self, BadValue};

/// The limit of the bytes that a rank keeps of unexpected messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HoldPolicy {
    /// Bytes of all senders together, provided that senders react at once.
    pub max: u64,
}

impl HoldPolicy {
    /// The policy from `MICA_UNEXPECTED_MAX`.
    ///
    /// # Errors
    /// If its value is invalid.
    pub fn from_environment() -> Result<HoldPolicy, BadValue> {
        let max = tunables::UNEXPECTED_MAX.number()?;
        Ok(HoldPolicy { max })
    }

    fn free(&self, total: u64) -> u64 {
        self.max.saturating_sub(total)
    }

    /// Whether to hold back a sender of whose messages `of_sender` bytes are queued, and `total`
    /// bytes of all senders.
    #[inline]
    pub fn holds(&self, of_sender: u64, total: u64) -> bool {
        of_sender > self.free(total)
    }

    /// Whether a sender that is held back may resume: well below the point where it would be held
    /// back again.
    #[inline]
    pub fn releases(&self, of_sender: u64, total: u64) -> bool {
        of_sender <= self.free(total) / 4
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: HoldPolicy = HoldPolicy { max: 1200 };

    /// The bytes queued of each sender if all send in turn until they are held back.
    fn flood(senders: usize) -> Vec<u64> {
        let mut queued = vec![0; senders];
        loop {
            let before = queued.clone();
            for i in 0..senders {
                let total = queued.iter().sum();
                if !POLICY.holds(queued[i], total) {
                    queued[i] += 1;
                }
            }
            if queued == before {
                return queued;
            }
        }
    }

    #[test]
    fn flooding_senders_share_the_buffer() {
        assert_eq!(flood(1), [601]);
        for senders in [2, 5, 23] {
            let queued = flood(senders);
            let fair = POLICY.max / (senders as u64 + 1);
            assert!(queued.iter().all(|k| k.abs_diff(fair) <= 1), "{queued:?}");
            assert!(queued.iter().sum::<u64>() <= POLICY.max);
        }
    }

    #[test]
    fn sender_without_queued_messages_is_never_held() {
        for total in [0, 600, 1200, 1 << 40] {
            assert!(POLICY.releases(0, total) && !POLICY.holds(0, total));
        }
        // Draining half of it is not enough.
        assert!(!POLICY.releases(600, 600) && !POLICY.releases(300, 300));
        assert!(POLICY.releases(240, 240));
    }
}
