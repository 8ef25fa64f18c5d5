//! The rounds of a collective as the replay carries them out: the library's own descriptions
//! (`mica_algorithms`), of which only sizes and peers matter here.
//!
//! In a round a rank posts its receives, starts its sends in order, and waits for the receives.
//! Ranks are numbered in the group, from 0. A rank's rounds are described a few at a time, since
//! all ranks of a large group are in a collective together.

use mica_algorithms::{Buffer, BufferPart, BufferPlace, Collective, MessageCall, RoundSink};
use mica_policy::collective::MessageThresholds;

/// What a rank does in a collective, one step after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RoundStep {
    /// It starts a message.
    Send {
        /// Destination.
        to: u32,
        /// Bytes.
        bytes: u64,
    },
    /// It posts a receive.
    Receive {
        /// Source.
        from: u32,
    },
    /// It waits for the round's receives, and combines operands.
    End {
        /// Their bytes.
        combine: u64,
    },
}

/// The call with the library's choice between nodes. `bytes` are those of [`MessageCall::bytes`].
pub fn chosen(collective: Collective, ranks: u32, root: u32, bytes: u64) -> MessageCall {
    let (ranks, bytes) = (ranks as usize, usize::try_from(bytes).unwrap_or(usize::MAX));
    MessageCall {
        collective,
        algorithm: MessageThresholds::NETWORK.algorithm(collective, ranks, bytes),
        ranks,
        root: root as usize,
        bytes,
        commutes: true,
    }
}

/// Replaces `out` by the steps of `me` in `count` rounds from `first` on; fewer are left if `out`
/// has fewer ends.
pub fn rounds(call: &MessageCall, me: u32, first: u32, count: u32, out: &mut Vec<RoundStep>) {
    out.clear();
    if call.ranks < 2 {
        return;
    }
    let unit = call.unit_bytes() as u64;
    let wanted = first..first.saturating_add(count);
    let mut window = RoundWindow { wanted, number: 0, combine: None, unit, scratch: 0, out };
    call.describe(me as usize, &mut window);
    window.round();
}

/// Takes some rounds of a description.
struct RoundWindow<'a> {
    wanted: std::ops::Range<u32>,
    /// The round that is described.
    number: u32,
    /// Bytes that are combined in it; `None` while it is empty.
    combine: Option<u64>,
    unit: u64,
    scratch: usize,
    out: &'a mut Vec<RoundStep>,
}

impl RoundWindow<'_> {
    /// Adds a step, or what is combined at the round's end.
    fn add(&mut self, step: Option<RoundStep>, combined: usize) {
        *self.combine.get_or_insert(0) += combined as u64 * self.unit;
        if self.wanted.contains(&self.number) {
            self.out.extend(step);
        }
    }
}

impl RoundSink for RoundWindow<'_> {
    const TAKES_COPIES: bool = false;

    fn scratch(&mut self, _: usize) -> Buffer {
        self.scratch += 1;
        Buffer::Scratch(self.scratch - 1)
    }

    fn round(&mut self) {
        if let Some(combine) = self.combine.take() {
            if self.wanted.contains(&self.number) {
                self.out.push(RoundStep::End { combine });
            }
            self.number += 1;
        }
    }

    fn send(&mut self, to: usize, part: BufferPart) {
        let bytes = part.count as u64 * self.unit;
        self.add(Some(RoundStep::Send { to: to as u32, bytes }), 0);
    }

    fn receive(&mut self, from: usize, _: BufferPart) {
        self.add(Some(RoundStep::Receive { from: from as u32 }), 0);
    }

    /// Copies within a rank take no time in LogGP.
    fn copy(&mut self, _: BufferPart, _: BufferPart) {}

    fn combine(&mut self, _: BufferPlace, _: BufferPlace, count: usize) {
        self.add(None, count);
    }
}

/// ceil(log2 n)
pub fn ceil_log2(n: u32) -> u32 {
    n.max(1).next_power_of_two().trailing_zeros()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(call: &MessageCall, me: u32) -> Vec<RoundStep> {
        let mut steps = Vec::new();
        rounds(call, me, 0, u32::MAX, &mut steps);
        steps
    }

    /// However many rounds are asked for at once, the steps are the same.
    #[test]
    fn windows_join_to_all_rounds() {
        for collective in Collective::ALL {
            for (ranks, bytes) in [(2, 8), (7, 64), (12, 1 << 20)] {
                let call = chosen(collective, ranks, 0, bytes);
                for me in 0..ranks {
                    for count in [1, 2, 5] {
                        let (mut joined, mut part) = (Vec::<RoundStep>::new(), Vec::new());
                        for first in (0..).step_by(count) {
                            rounds(&call, me, first, count as u32, &mut part);
                            if part.is_empty() {
                                break;
                            }
                            joined.extend(&part);
                        }
                        assert_eq!(joined, all(&call, me), "{call:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn what_is_sent_is_received_and_counted_in_bytes() {
        for collective in Collective::ALL {
            for (ranks, bytes) in [(2, 8), (7, 64), (12, 1 << 20), (40, 100)] {
                let call = chosen(collective, ranks, ranks / 2, bytes);
                let mut open = std::collections::BTreeMap::<(u32, u32), i64>::new();
                let mut least = u64::MAX;
                for me in 0..ranks {
                    for step in all(&call, me) {
                        match step {
                            RoundStep::Send { to, bytes } => {
                                *open.entry((me, to)).or_default() += 1;
                                least = least.min(bytes);
                            }
                            RoundStep::Receive { from } => {
                                *open.entry((from, me)).or_default() -= 1;
                            }
                            RoundStep::End { .. } => {}
                        }
                    }
                }
                assert!(open.values().all(|count| *count == 0), "{call:?}");
                let shortest = match collective {
                    Collective::Barrier => 0,
                    _ => bytes / u64::from(2 * ranks),
                };
                let longest = bytes * u64::from(ranks);
                assert!(least >= shortest && least <= longest, "{call:?}: {least}");
            }
        }
    }

    #[test]
    fn a_rank_alone_and_calls_without_bytes_have_no_rounds() {
        assert_eq!(all(&chosen(Collective::Allreduce, 1, 0, 8), 0), []);
        assert_eq!(all(&chosen(Collective::Allreduce, 4, 0, 0), 3), []);
        assert_eq!(all(&chosen(Collective::Barrier, 4, 0, 0), 3).len(), 2 * 3);
    }
}
