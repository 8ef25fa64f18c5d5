//! Costs of algorithms of messages: rounds, each of which costs its messages as in point-to-point
//! communication.

use super::load::Load;
use crate::collective::costs::CollectiveCosts;
use crate::collective::{Algorithm, Collective, CollectiveCall, OperandOrder, Reachability};
use crate::costs::{MessagePath, MessagePaths};
use crate::select::{OutgoingMessage, PathVerdict, Situation, select};

/// ceil(log2 n)
fn log2(n: usize) -> usize {
    n.max(1).next_power_of_two().trailing_zeros() as usize
}

/// The largest power of two that is at most `n`.
fn power_below(n: usize) -> usize {
    1 << n.max(1).ilog2()
}

/// The cost formulas of algorithms of messages.
pub(super) struct MessageFormulas<'a> {
    costs: &'a CollectiveCosts,
    situation: Situation,
    ranks: usize,
}

impl<'a> MessageFormulas<'a> {
    pub fn new(costs: &'a CollectiveCosts, question: &CollectiveCall) -> MessageFormulas<'a> {
        let kernel =
            MessagePaths::SHARED_MEMORY.with(MessagePath::Pull).with(MessagePath::Cooperate);
        let paths = match question.reach {
            Reachability::None => MessagePaths::SHARED_MEMORY,
            Reachability::Windows => {
                kernel.with(MessagePath::Mapped).with(MessagePath::MappedCooperate)
            }
            Reachability::Unknown | Reachability::Cma | Reachability::Packed => kernel,
        };
        let setting = &question.setting;
        MessageFormulas {
            costs,
            situation: Situation {
                oversubscribed: setting.ranks > setting.cores,
                ..Situation::waiting(setting.level, paths)
            },
            ranks: setting.ranks,
        }
    }

    /// The path of a message of `len` bytes with the least `measure`, which gets the path, the
    /// nanoseconds until the bytes have arrived, and the nanoseconds of both cores.
    fn least(
        &self,
        len: usize,
        measure: impl Fn(MessagePath, f64, f64) -> f64,
    ) -> (MessagePath, f64) {
        let decision =
            select(&OutgoingMessage::contiguous(len), &self.situation, &self.costs.messages);
        let mut least = (MessagePath::Streamed, f64::INFINITY);
        for (path, verdict) in decision.considered() {
            if let PathVerdict::Possible(estimate) = verdict {
                let ns = measure(path, estimate.elapsed_ns, estimate.busy_ns);
                if ns < least.1 {
                    least = (path, ns);
                }
            }
        }
        least
    }

    /// A round in which some ranks send `len` bytes and others receive them, in `pairs` pairs.
    fn transfer(&self, len: usize, pairs: usize) -> Load {
        let elapsed = self.least(len, |_, elapsed, _| elapsed);
        self.round(elapsed, self.exchange_ns(len).1, pairs)
    }

    /// A round in which every rank sends `len` bytes and receives as many.
    fn exchange(&self, len: usize) -> Load {
        let (path, ns) = self.exchange_ns(len);
        self.round((path, ns), ns, self.ranks)
    }

    /// Path and time for a rank to send one message and to receive another of the same length. The
    /// ring and its slots are not pipelined: their time is that of both sides. Cooperative copies
    /// are excluded, because each rank is busy with its own messages.
    fn exchange_ns(&self, len: usize) -> (MessagePath, f64) {
        self.least(len, |path, elapsed, busy| match path {
            MessagePath::Inline | MessagePath::Ring if !self.situation.oversubscribed => elapsed,
            MessagePath::Cooperate | MessagePath::MappedCooperate => f64::INFINITY,
            _ => busy,
        })
    }

    /// A round whose longest chain is `chain_ns` of messages, and whose messages take `message_ns`
    /// of both cores each.
    fn round(
        &self,
        (path, chain_ns): (MessagePath, f64),
        message_ns: f64,
        messages: usize,
    ) -> Load {
        Load {
            // A rendezvous also waits for a reply.
            passes: if path.is_eager() { 1 } else { 2 },
            chain_ns: self.costs.round_ns + chain_ns,
            work_ns: self.costs.round_ns * self.ranks as f64 + message_ns * messages as f64,
        }
    }

    /// Every rank copies `bytes` within its own memory.
    fn pack(&self, bytes: usize) -> Load {
        self.alone(self.costs.copy_ns(self.situation.level, bytes, 1))
    }

    /// Every rank combines `bytes`.
    fn combine(&self, bytes: usize) -> Load {
        self.alone(self.costs.reduce_byte_ns * bytes as f64)
    }

    /// Every rank is busy for `ns`.
    fn alone(&self, ns: f64) -> Load {
        Load { passes: 0, chain_ns: ns, work_ns: ns * self.ranks as f64 }
    }

    /// The sum of the loads.
    fn sum(loads: impl IntoIterator<Item = Load>) -> Load {
        loads.into_iter().fold(Load::NOTHING, Load::then)
    }

    #[expect(clippy::too_many_lines, reason = "a table, one arm for each algorithm")]
    pub fn load(&self, question: &CollectiveCall, algorithm: Algorithm) -> Load {
        let (ranks, bytes) = (self.ranks, question.bytes);
        let rounds = log2(ranks);
        // The vector, or all blocks of it.
        let all = match question.collective {
            Collective::ReduceScatter => bytes.saturating_mul(ranks),
            _ => bytes,
        };
        let part = |k: usize| all >> k.min(63);
        match (question.collective, algorithm) {
            (_, Algorithm::Dissemination) => Self::sum((0..rounds).map(|_| self.exchange(0))),
            (Collective::Reduce, Algorithm::Binomial) => {
                let step = |k: usize| {
                    let pairs = (ranks >> (k + 1)).max(1);
                    let message = self.transfer(bytes, pairs);
                    message.then(self.combine_by(bytes, pairs))
                };
                // If the root is not the first rank, the result is sent once more.
                let last = match question.order {
                    OperandOrder::Any => 0,
                    OperandOrder::ByRank => 1,
                };
                Self::sum((0..rounds).map(step))
                    .then(Self::sum((0..last).map(|_| self.transfer(bytes, 1))))
            }
            (Collective::Bcast, Algorithm::Binomial) => {
                Self::sum((0..rounds).map(|k| self.transfer(bytes, ranks.min(1 << k))))
            }
            // Gather, and scatter in reverse: subtrees double.
            (_, Algorithm::Binomial) => Self::sum((0..rounds).map(|k| {
                let subtree = (1usize << k).min(ranks - (1 << k));
                self.transfer(bytes.saturating_mul(subtree), (ranks >> (k + 1)).max(1))
            })),
            (_, Algorithm::ScatterRing) => {
                let scatter = (1..=rounds).map(|k| self.transfer(part(k), ranks.min(1 << (k - 1))));
                let ring = (1..ranks).map(|_| self.exchange(bytes / ranks));
                Self::sum(scatter).then(Self::sum(ring))
            }
            (_, Algorithm::Linear) => {
                // The first like any message; each further one takes the root's side only.
                let first = self.transfer(bytes, ranks - 1);
                let (_, each) = self.least(bytes, |path, elapsed, _| match path {
                    MessagePath::Inline | MessagePath::Ring => {
                        (elapsed + self.start_ns(path)) / 2.0
                    }
                    _ => elapsed - self.start_ns(path) / 2.0,
                });
                Load { chain_ns: first.chain_ns + each * (ranks - 2) as f64, ..first }
            }
            (Collective::Allgather, Algorithm::Bruck) => {
                let steps = (0..rounds).map(|k| {
                    let blocks = (1usize << k).min(ranks - (1 << k));
                    self.exchange(bytes.saturating_mul(blocks))
                });
                // Recursive doubling needs no staging buffer.
                let staged = if ranks.is_power_of_two() { 0 } else { 1 };
                let staging = bytes.saturating_mul(ranks).saturating_mul(staged);
                Self::sum(steps).then(self.pack(staging))
            }
            (_, Algorithm::Ring) => Self::sum((1..ranks).map(|_| self.exchange(bytes))),
            (_, Algorithm::Bruck) => {
                // Packed and unpacked in each round, rotated before and after.
                let half = bytes.saturating_mul(ranks / 2);
                let staged = half.saturating_mul(2 * rounds + 4);
                Self::sum((0..rounds).map(|_| self.exchange(half))).then(self.pack(staged))
            }
            (_, Algorithm::Exchange) => {
                let peers = ranks - 1;
                let (path, one) = self.exchange_ns(bytes);
                let ns = one * peers as f64;
                self.round((path, ns), ns, ranks)
            }
            (_, Algorithm::Doubling) => {
                let folds = match question.collective {
                    // Combined into the prefix and into the group's result.
                    Collective::Scan => 2,
                    _ => 1,
                };
                let step = self.exchange(bytes).then(self.combine(bytes.saturating_mul(folds)));
                let steps = match question.collective {
                    Collective::Scan => rounds,
                    _ => log2(power_below(ranks)),
                };
                let surplus = match question.collective {
                    Collective::Scan => Load::NOTHING,
                    _ => self.surplus(bytes, bytes),
                };
                Self::sum((0..steps).map(|_| step)).then(surplus)
            }
            (collective, Algorithm::Halving) => {
                let steps = log2(power_below(ranks));
                let down = (1..=steps).map(|k| self.exchange(part(k)).then(self.combine(part(k))));
                let back = (1..=steps).map(|k| match collective {
                    Collective::Reduce => self.transfer(part(k), ranks.min(1 << (k - 1))),
                    Collective::Allreduce => self.exchange(part(k)),
                    _ => Load::NOTHING,
                });
                let returned = if collective == Collective::Allreduce { all } else { bytes };
                self.pack(all)
                    .then(Self::sum(down))
                    .then(Self::sum(back))
                    .then(self.surplus(all, returned))
            }
            (_, Algorithm::Pairwise) => {
                let step = self.exchange(bytes).then(self.combine(bytes));
                Self::sum((1..ranks).map(|_| step))
            }
            (_, Algorithm::Shared | Algorithm::Direct) => {
                unreachable!("{algorithm:?} is no algorithm of messages")
            }
        }
    }

    /// The start of a path, in nanoseconds.
    fn start_ns(&self, path: MessagePath) -> f64 {
        self.costs.messages.of(self.situation.level, path).start_ns
    }

    /// `busy` ranks combine `bytes` each.
    fn combine_by(&self, bytes: usize, busy: usize) -> Load {
        let ns = self.costs.reduce_byte_ns * bytes as f64;
        Load { passes: 0, chain_ns: ns, work_ns: ns * busy as f64 }
    }

    /// Ranks beyond a power of two first send `given` bytes to a neighbour, and receive `returned`
    /// bytes at the end.
    fn surplus(&self, given: usize, returned: usize) -> Load {
        match self.ranks - power_below(self.ranks) {
            0 => Load::NOTHING,
            more => self
                .transfer(given, more)
                .then(self.combine_by(given, more))
                .then(self.transfer(returned, more)),
        }
    }
}
