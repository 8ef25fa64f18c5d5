//! Messages without a receive: when a receiver holds a sender's messages back, so that what it
//! keeps of them stays bounded.
//!
//! The bytes that a rank may keep are shared by threshold (the dynamic threshold of shared-memory
//! switches, Choudhury and Hahne 1998): a sender may fill as much as is still free. One sender
//! alone thus gets half of all, `n` senders that flood get a part of `n + 1` each, and there is
//! always room for one that comes new.

use mica_node::tunables::{self, BadValue};

/// How many bytes a rank keeps of messages without a receive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HoldPolicy {
    /// Of all senders together, as far as senders heed it at once.
    pub max: u64,
}

impl HoldPolicy {
    /// That of `MICA_UNEXPECTED_MAX`.
    ///
    /// # Errors
    /// When the value there does not fit.
    pub fn from_environment() -> Result<HoldPolicy, BadValue> {
        let max = tunables::UNEXPECTED_MAX.number()?;
        Ok(HoldPolicy { max })
    }

    fn free(&self, total: u64) -> u64 {
        self.max.saturating_sub(total)
    }

    /// Whether a sender is to be held back of whose messages `of_sender` bytes are kept, and
    /// `total` of all.
    #[inline]
    pub fn holds(&self, of_sender: u64, total: u64) -> bool {
        of_sender > self.free(total)
    }

    /// Whether a sender that is held back may go on: well below where it would be held back again.
    #[inline]
    pub fn releases(&self, of_sender: u64, total: u64) -> bool {
        of_sender <= self.free(total) / 4
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: HoldPolicy = HoldPolicy { max: 1200 };

    /// What senders come to keep that send in turn until they are held back.
    fn flood(senders: usize) -> Vec<u64> {
        let mut kept = vec![0; senders];
        loop {
            let before = kept.clone();
            for i in 0..senders {
                let total = kept.iter().sum();
                if !POLICY.holds(kept[i], total) {
                    kept[i] += 1;
                }
            }
            if kept == before {
                return kept;
            }
        }
    }

    #[test]
    fn senders_that_flood_share_what_there_is() {
        assert_eq!(flood(1), [601]);
        for senders in [2, 5, 23] {
            let kept = flood(senders);
            let fair = POLICY.max / (senders as u64 + 1);
            assert!(kept.iter().all(|k| k.abs_diff(fair) <= 1), "{kept:?}");
            assert!(kept.iter().sum::<u64>() <= POLICY.max);
        }
    }

    #[test]
    fn whoever_has_nothing_kept_may_always_go_on() {
        for total in [0, 600, 1200, 1 << 40] {
            assert!(POLICY.releases(0, total) && !POLICY.holds(0, total));
        }
        // Half of it gone is not enough.
        assert!(!POLICY.releases(600, 600) && !POLICY.releases(300, 300));
        assert!(POLICY.releases(240, 240));
    }
}
