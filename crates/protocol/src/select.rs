//! The choice of the way, as pure functions of the message and the thresholds in force (DESIGN.md, section 4).

use mica_channel::memory::View;
use mica_channel::shm::{INLINE, PAYLOAD_MAX};
use mica_node::tunables::{self, BadValue};

/// How a message leaves its sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plan {
    /// With the head, in one slot.
    Inline,
    /// In the ring's arena.
    Ring,
    /// Through cells, at once.
    Cells,
    /// After a request to send.
    Rendezvous,
}

/// The thresholds in force, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Thresholds {
    /// Largest message for the ring.
    pub ring_max: usize,
    /// Largest message that does not ask first.
    pub eager_max: usize,
    /// Shortest rendezvous message that is pulled.
    pub direct_min: usize,
    /// Shortest average run of a non-contiguous message that is pulled.
    pub direct_run_min: usize,
}

impl Thresholds {
    /// Those of the environment.
    ///
    /// # Errors
    /// When a value there is no number.
    pub fn in_force() -> Result<Thresholds, BadValue> {
        Ok(Thresholds {
            ring_max: (tunables::RING_MAX.number()? as usize).min(PAYLOAD_MAX),
            eager_max: tunables::EAGER_MAX.number()? as usize,
            direct_min: tunables::DIRECT_MIN.number()? as usize,
            direct_run_min: tunables::DIRECT_RUN_MIN.number()? as usize,
        })
    }

    /// The same for the basic design: whatever fits a pair's FIFO, a payload of `payload_max` bytes, goes through it at
    /// once (chai-2009, 3.1.1), unless [`EAGER_MAX`](tunables::EAGER_MAX) is set and says less.
    pub fn through_fifo(self, payload_max: usize) -> Thresholds {
        let eager_max = if tunables::EAGER_MAX.is_set() {
            self.eager_max.min(payload_max)
        } else {
            payload_max
        };
        Thresholds {
            ring_max: eager_max,
            eager_max,
            ..self
        }
    }
}

/// The way of a message of `len` bytes; `sync` if its sender must know that it was matched.
#[inline]
pub fn plan(len: usize, sync: bool, t: &Thresholds) -> Plan {
    if len <= INLINE && !sync {
        Plan::Inline
    } else if len <= t.ring_max {
        Plan::Ring
    } else if len <= t.eager_max && !sync {
        Plan::Cells
    } else {
        Plan::Rendezvous
    }
}

/// Whether a message's memory is worth being read as it lies: long enough, and its pieces too.
pub fn worth_pulling(view: &View, len: usize, t: &Thresholds) -> bool {
    len >= t.direct_min
        && (view.as_contiguous().is_some()
            || len / view.run_count_hint().max(1) >= t.direct_run_min)
}

#[cfg(test)]
mod tests {
    use super::*;

    const T: Thresholds = Thresholds {
        ring_max: 4096,
        eager_max: 32768,
        direct_min: 32768,
        direct_run_min: 512,
    };

    #[test]
    fn a_fifo_takes_all_that_fits_it_and_nothing_goes_through_cells() {
        let t = T.through_fifo(1000);
        assert_eq!((t.direct_min, t.direct_run_min), (32768, 512));
        for (len, sync, expected) in [
            (INLINE, false, Plan::Inline),
            (INLINE + 1, false, Plan::Ring),
            (1000, false, Plan::Ring),
            (1000, true, Plan::Ring),
            (1001, false, Plan::Rendezvous),
            (1001, true, Plan::Rendezvous),
        ] {
            assert_eq!(plan(len, sync, &t), expected, "{len} {sync}");
        }
    }

    #[test]
    fn plans_follow_the_thresholds() {
        for (len, sync, expected) in [
            (0, false, Plan::Inline),
            (INLINE, false, Plan::Inline),
            (INLINE + 1, false, Plan::Ring),
            (4096, false, Plan::Ring),
            (4097, false, Plan::Cells),
            (32768, false, Plan::Cells),
            (32769, false, Plan::Rendezvous),
            (0, true, Plan::Ring),
            (4097, true, Plan::Rendezvous),
        ] {
            assert_eq!(plan(len, sync, &T), expected, "{len} {sync}");
        }
    }
}
