//! Costs of algorithms of messages: the steps of their descriptions ([`CallShape`]), whose messages
//! cost what they do in point-to-point communication.

use super::load::{Load, busy, times};
use super::shape::{CallShape, ChainStep, MessageOrder};
use crate::collective::costs::CollectiveCosts;
use crate::collective::{Algorithm, CollectiveCall, Reachability};
use crate::costs::{MessagePath, MessagePaths};
use crate::select::{OutgoingMessage, PathVerdict, Situation, select};

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

    /// The time of the root's side alone of a message that follows others.
    fn further_ns(&self, len: usize) -> f64 {
        let side = self.least(len, |path, elapsed, _| match path {
            MessagePath::Inline | MessagePath::Ring => (elapsed + self.start_ns(path)) / 2.0,
            _ => elapsed - self.start_ns(path) / 2.0,
        });
        side.1
    }

    /// The start of a path, in nanoseconds.
    fn start_ns(&self, path: MessagePath) -> f64 {
        self.costs.messages.of(self.situation.level, path).start_ns
    }

    /// A round that starts with a message by this path.
    fn round(&self, (path, message_ns): (MessagePath, f64)) -> Load {
        Load {
            // A rendezvous also waits for a reply.
            passes: if path.is_eager() { 1 } else { 2 },
            chain_ns: self.costs.round_ns + message_ns,
            // Every rank polls while the longest chain is in this round.
            work_ns: self.costs.round_ns * self.ranks as f64,
        }
    }

    /// A step on the longest chain that takes `bytes`.
    fn chain_step(&self, step: ChainStep, bytes: usize) -> Load {
        match step {
            ChainStep::Exchange(MessageOrder::First) => self.round(self.exchange_ns(bytes)),
            ChainStep::Message(MessageOrder::First) => {
                self.round(self.least(bytes, |_, elapsed, _| elapsed))
            }
            ChainStep::Exchange(MessageOrder::Further) => busy(self.exchange_ns(bytes).1, 0.0),
            ChainStep::Message(MessageOrder::Further) => busy(self.further_ns(bytes), 0.0),
            ChainStep::Combine => busy(self.costs.reduce_byte_ns * bytes as f64, 0.0),
            ChainStep::Copy => busy(self.copy_ns(bytes), 0.0),
        }
    }

    /// Nanoseconds of cores for one of the steps of all ranks. Of a message, of both cores.
    fn work_ns(&self, step: ChainStep, bytes: usize) -> f64 {
        match step {
            ChainStep::Exchange(_) | ChainStep::Message(_) => self.exchange_ns(bytes).1,
            ChainStep::Combine => self.costs.reduce_byte_ns * bytes as f64,
            ChainStep::Copy => self.copy_ns(bytes),
        }
    }

    /// A rank copies `bytes` within its own memory.
    fn copy_ns(&self, bytes: usize) -> f64 {
        self.costs.copy_ns(self.situation.level, bytes, 1)
    }

    /// The sum over the steps of the algorithm's description. What a rank copies is taken together.
    pub fn load(&self, question: &CollectiveCall, algorithm: Algorithm) -> Load {
        let shape = CallShape::of(question.collective, algorithm, self.ranks, question.order);
        let bytes = |units: usize| {
            let bytes = question.bytes as u128 * units as u128 / shape.nominal as u128;
            usize::try_from(bytes).unwrap_or(usize::MAX)
        };
        let chain = shape.chain.iter().map(|(&(step, units), &count)| match step {
            ChainStep::Copy => self.chain_step(step, bytes(units * count)),
            _ => times(count, self.chain_step(step, bytes(units))),
        });
        let work = shape.work.iter().map(|(&(step, units), &count)| match step {
            // Each rank its part.
            ChainStep::Copy => {
                self.ranks as f64 * self.work_ns(step, bytes(units * count) / self.ranks)
            }
            _ => count as f64 * self.work_ns(step, bytes(units)),
        });
        chain.fold(Load::NOTHING, Load::then).then(busy(0.0, work.sum()))
    }
}
