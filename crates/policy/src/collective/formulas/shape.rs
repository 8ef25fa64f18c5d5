//! The steps of a described algorithm that cost time, whatever the length of its data: those of the
//! longest chain, and those of all ranks together.
//!
//! [`CallShape::of`] carries out the descriptions of all ranks (of one, if all do the same) in a
//! nominal time, in which a message counts much and a unit little, and follows the chain of events
//! back from the last one. Rules of the nominal time, which are those of [`super::messages`]:
//!
//! - a round's messages go one after the other; of the second and later ones a rank only spends its
//!   own side's time;
//! - a message that is sent in a round in which another is received is an exchange: both overlap;
//! - a rank leaves a round when its messages have been sent and have arrived, and then combines and
//!   copies. The copy of its own block from its input to its output, which a collective that only
//!   moves data makes by any algorithm, is left out.
//!
//! Lengths are in units of the description for a vector of [`nominal`] bytes, so that a shape
//! serves all lengths; shapes are kept for the life of the process.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex};

use mica_algorithms::{
    Algorithm, Buffer, BufferPart, BufferPlace, Collective, MessageCall, RoundSink,
};

use crate::collective::OperandOrder;

/// A step on the longest chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ChainStep {
    /// A rank sends a message and receives another.
    Exchange(MessageOrder),
    /// A rank sends a message to one that waits for it.
    Message(MessageOrder),
    /// A rank combines operands.
    Combine,
    /// A rank copies within its own memory.
    Copy,
}

/// Which of the messages of a round it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum MessageOrder {
    /// The first.
    First,
    /// A later one.
    Further,
}

/// Steps by their kind and number of units: how many there are.
pub type StepCounts = BTreeMap<(ChainStep, usize), usize>;

/// What an algorithm does among a number of ranks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CallShape {
    /// Units that stand for [`MessageCall::bytes`].
    pub nominal: usize,
    /// The steps of the longest chain.
    pub chain: StepCounts,
    /// The steps of all ranks. Messages count once, for both sides.
    pub work: StepCounts,
}

/// What a shape depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct ShapeKey {
    collective: Collective,
    algorithm: Algorithm,
    ranks: usize,
    order: OperandOrder,
}

/// The shapes that have been asked for.
static SHAPES: Mutex<Option<HashMap<ShapeKey, Arc<CallShape>>>> = Mutex::new(None);

/// Bytes for which a call is described: as many as it is divided into.
fn nominal(collective: Collective, algorithm: Algorithm, ranks: usize) -> usize {
    match (collective, algorithm) {
        (Collective::ReduceScatter, _) => 1,
        (_, Algorithm::Halving) => 1 << ranks.max(1).ilog2(),
        (_, Algorithm::ScatterRing) => ranks,
        _ => 1,
    }
}

impl CallShape {
    /// The shape of a call among `ranks` ranks.
    pub fn of(
        collective: Collective,
        algorithm: Algorithm,
        ranks: usize,
        order: OperandOrder,
    ) -> Arc<CallShape> {
        let key = ShapeKey { collective, algorithm, ranks, order };
        // A panic leaves the map as it was.
        let mut shapes = SHAPES.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let shapes = shapes.get_or_insert_default();
        shapes.entry(key).or_insert_with(|| Arc::new(CallShape::computed(key))).clone()
    }

    fn computed(key: ShapeKey) -> CallShape {
        let ShapeKey { collective, algorithm, ranks, order } = key;
        let commutes = order == OperandOrder::Any;
        let nominal = nominal(collective, algorithm, ranks);
        // A reduction in rank order ends at rank 0, and costs a message more for any other root.
        let root = usize::from(!commutes && collective == Collective::Reduce).min(ranks - 1);
        let call = MessageCall { collective, algorithm, ranks, root, bytes: nominal, commutes };
        let mut shape = CallShape { nominal, ..CallShape::default() };
        for phase in call.phases() {
            let (chain, work) = NominalRun::new(&phase).run();
            for (sum, part) in [(&mut shape.chain, chain), (&mut shape.work, work)] {
                part.into_iter().for_each(|(step, count)| *sum.entry(step).or_default() += count);
            }
        }
        shape
    }
}

/// A step that ends at a nominal time, and the event that it had to wait for.
struct Event {
    time: u64,
    cause: Option<usize>,
    step: Option<(ChainStep, usize)>,
}

/// A round of a description, with lengths in units.
#[derive(Default)]
struct UnitRound {
    sends: Vec<(usize, usize)>,
    receives: Vec<usize>,
    work: Vec<(ChainStep, usize)>,
}

/// Takes a description's rounds.
#[derive(Default)]
struct UnitRounds {
    rounds: Vec<UnitRound>,
    scratch: usize,
    reduces: bool,
}

impl UnitRounds {
    fn last(&mut self) -> &mut UnitRound {
        if self.rounds.is_empty() {
            self.rounds.push(UnitRound::default());
        }
        self.rounds.last_mut().expect("a round was just made sure of")
    }
}

impl RoundSink for UnitRounds {
    fn scratch(&mut self, _: usize) -> Buffer {
        self.scratch += 1;
        Buffer::Scratch(self.scratch - 1)
    }

    fn round(&mut self) {
        self.rounds.push(UnitRound::default());
    }

    fn send(&mut self, to: usize, part: BufferPart) {
        self.last().sends.push((to, part.count));
    }

    fn receive(&mut self, from: usize, _: BufferPart) {
        self.last().receives.push(from);
    }

    fn copy(&mut self, from: BufferPart, to: BufferPart) {
        let is_own_block = (from.buffer, to.buffer) == (Buffer::Input, Buffer::Output);
        if self.reduces || !is_own_block {
            self.last().work.push((ChainStep::Copy, from.count));
        }
    }

    fn combine(&mut self, _: BufferPlace, _: BufferPlace, count: usize) {
        self.last().work.push((ChainStep::Combine, count));
    }
}

/// A rank on its way through its rounds.
struct NominalRank {
    rounds: Vec<UnitRound>,
    at: usize,
    /// The event with which it entered the round, or left its sends.
    event: usize,
    has_sent: bool,
    /// Events with which messages of this round arrived.
    arrived: Vec<usize>,
    /// Receives of the round that have no message yet.
    missing: Vec<usize>,
}

struct NominalRun {
    events: Vec<Event>,
    ranks: Vec<NominalRank>,
    /// Events with which messages arrive, by sender and receiver.
    mail: HashMap<(usize, usize), VecDeque<usize>>,
    work: StepCounts,
    /// How many ranks each described rank stands for.
    weight: usize,
}

impl NominalRun {
    fn new(call: &MessageCall) -> NominalRun {
        NominalRun::of(call, if call.is_symmetric() { 1 } else { call.ranks })
    }

    /// With this many of its ranks, each of which stands for as many others.
    fn of(call: &MessageCall, described: usize) -> NominalRun {
        let rank = |rank: usize| {
            let reduces = call.collective.reduces();
            let mut units = UnitRounds { reduces, ..UnitRounds::default() };
            call.describe(rank, &mut units);
            NominalRank {
                rounds: units.rounds,
                at: 0,
                event: 0,
                has_sent: false,
                arrived: Vec::new(),
                missing: Vec::new(),
            }
        };
        NominalRun {
            events: vec![Event { time: 0, cause: None, step: None }],
            ranks: (0..described).map(rank).collect(),
            mail: HashMap::new(),
            work: StepCounts::new(),
            weight: call.ranks / described,
        }
    }

    /// Steps of the longest chain, and of all ranks.
    fn run(mut self) -> (StepCounts, StepCounts) {
        let mut ready: VecDeque<usize> = (0..self.ranks.len()).collect();
        while let Some(rank) = ready.pop_front() {
            self.advance(rank, &mut ready);
        }
        debug_assert!(self.ranks.iter().all(|rank| rank.at == rank.rounds.len()));
        let last = self.ranks.iter().map(|rank| rank.event);
        let mut event = last.max_by_key(|&event| self.events[event].time);
        let mut chain = StepCounts::new();
        while let Some(Event { cause, step, .. }) = event.map(|event| &self.events[event]) {
            if let Some(step) = step {
                *chain.entry(*step).or_default() += 1;
            }
            event = *cause;
        }
        (chain, self.work)
    }

    /// Appends a step after `cause`.
    fn step(&mut self, cause: usize, step: ChainStep, units: usize) -> usize {
        let nominal = match step {
            ChainStep::Exchange(MessageOrder::First) | ChainStep::Message(MessageOrder::First) => {
                1000 + units
            }
            ChainStep::Exchange(_) | ChainStep::Message(_) => 500 + units,
            ChainStep::Combine | ChainStep::Copy => 1,
        };
        let time = self.events[cause].time + nominal as u64;
        self.events.push(Event { time, cause: Some(cause), step: Some((step, units)) });
        self.events.len() - 1
    }

    fn count(&mut self, step: ChainStep, units: usize) {
        *self.work.entry((step, units)).or_default() += self.weight;
    }

    fn later(&self, a: usize, b: usize) -> usize {
        if self.events[b].time > self.events[a].time { b } else { a }
    }

    /// Lets a rank go on until it waits for a message.
    fn advance(&mut self, rank: usize, ready: &mut VecDeque<usize>) {
        while self.ranks[rank].at < self.ranks[rank].rounds.len() {
            if !self.ranks[rank].has_sent {
                self.enter(rank, ready);
            }
            let state = &mut self.ranks[rank];
            let (mail, arrived) = (&mut self.mail, &mut state.arrived);
            state.missing.retain(|&from| {
                let event = mail.get_mut(&(from, rank)).and_then(VecDeque::pop_front);
                arrived.extend(event);
                event.is_none()
            });
            if !state.missing.is_empty() {
                return;
            }
            self.leave(rank);
        }
    }

    /// Starts the messages of a round.
    fn enter(&mut self, rank: usize, ready: &mut VecDeque<usize>) {
        let is_alone = self.ranks.len() == 1;
        let state = &mut self.ranks[rank];
        let round = std::mem::take(&mut state.rounds[state.at]);
        let mut event = state.event;
        for (number, &(to, units)) in round.sends.iter().enumerate() {
            let order = if number == 0 { MessageOrder::First } else { MessageOrder::Further };
            let step = match number < round.receives.len() {
                true => ChainStep::Exchange(order),
                false => ChainStep::Message(order),
            };
            event = self.step(event, step, units);
            self.count(ChainStep::Message(MessageOrder::First), units);
            if !is_alone {
                self.mail.entry((rank, to)).or_default().push_back(event);
                ready.push_back(to);
            }
        }
        let state = &mut self.ranks[rank];
        (state.event, state.has_sent) = (event, true);
        // Where all ranks do the same, messages arrive when the rank's own do elsewhere.
        if !is_alone {
            state.missing.clone_from(&round.receives);
        }
        state.rounds[state.at] = round;
    }

    /// Receives what has arrived, and does the round's work.
    fn leave(&mut self, rank: usize) {
        let state = &mut self.ranks[rank];
        let round = std::mem::take(&mut state.rounds[state.at]);
        let mut event = state.event;
        let mut arrived = std::mem::take(&mut state.arrived);
        (state.at, state.has_sent) = (state.at + 1, false);
        arrived.sort_unstable_by_key(|&event| (self.events[event].time, event));
        for (number, arrival) in arrived.into_iter().enumerate() {
            // The first costs its time at the sender, and exchanges are the rank's own steps.
            if number >= round.sends.len().max(1) {
                let units = self.events[arrival].step.map_or(0, |(_, units)| units);
                event = self.step(event, ChainStep::Message(MessageOrder::Further), units);
            }
            event = self.later(event, arrival);
        }
        for (step, units) in round.work {
            event = self.step(event, step, units);
            self.count(step, units);
        }
        self.ranks[rank].event = event;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mica_algorithms::AlgorithmFamily;

    fn chain(collective: Collective, algorithm: Algorithm, ranks: usize) -> Vec<(String, usize)> {
        let shape = CallShape::of(collective, algorithm, ranks, OperandOrder::Any);
        let name = |((step, units), count): (&(ChainStep, usize), &usize)| {
            let name = match step {
                ChainStep::Exchange(MessageOrder::First) => "exchange",
                ChainStep::Message(MessageOrder::First) => "message",
                ChainStep::Exchange(_) | ChainStep::Message(_) => "further",
                ChainStep::Combine => "combine",
                ChainStep::Copy => "copy",
            };
            (format!("{name} {units}"), *count)
        };
        shape.chain.iter().map(name).collect()
    }

    fn messages(collective: Collective, algorithm: Algorithm, ranks: usize) -> Vec<(usize, usize)> {
        let shape = CallShape::of(collective, algorithm, ranks, OperandOrder::Any);
        let is_message = |step: ChainStep| matches!(step, ChainStep::Message(_));
        let messages = shape.work.iter().filter(|((step, _), _)| is_message(*step));
        messages.map(|((_, units), count)| (*units, *count)).collect()
    }

    fn named(steps: &[(&str, usize)]) -> Vec<(String, usize)> {
        steps.iter().map(|(name, count)| (name.to_string(), *count)).collect()
    }

    /// The chains of the algorithms as papers count them, for 8 ranks.
    #[test]
    fn chains_are_those_of_the_algorithms() {
        use Algorithm::{
            Binomial, Bruck, Dissemination, Doubling, Exchange, Halving, Linear, Ring,
        };
        use Collective::{
            Allgather, Allreduce, Alltoall, Barrier, Bcast, Gather, Reduce, ReduceScatter, Scan,
        };
        assert_eq!(chain(Barrier, Dissemination, 8), named(&[("exchange 0", 3)]));
        assert_eq!(chain(Bcast, Binomial, 8), named(&[("message 1", 3)]));
        let gather = [("message 1", 1), ("message 2", 1), ("message 4", 1), ("copy 1", 2)];
        assert_eq!(chain(Gather, Binomial, 8), named(&gather));
        assert_eq!(chain(Gather, Linear, 8), named(&[("message 1", 1), ("further 1", 6)]));
        let doubling = [("exchange 1", 1), ("exchange 2", 1), ("exchange 4", 1)];
        assert_eq!(chain(Allgather, Bruck, 8), named(&doubling));
        assert_eq!(chain(Allgather, Ring, 8), named(&[("exchange 1", 7)]));
        let exchange = [("exchange 1", 1), ("further 1", 6)];
        assert_eq!(chain(Alltoall, Exchange, 8), named(&exchange));
        assert_eq!(chain(Reduce, Binomial, 8), named(&[("message 1", 3), ("combine 1", 3)]));
        let doubling = [("exchange 1", 3), ("combine 1", 3), ("copy 1", 2)];
        assert_eq!(chain(Allreduce, Doubling, 8), named(&doubling));
        assert_eq!(chain(Scan, Doubling, 8)[..2], named(&[("exchange 1", 3), ("combine 1", 6)]));
        let halved = [("exchange 1", 1), ("exchange 2", 1), ("exchange 4", 1)];
        assert_eq!(chain(ReduceScatter, Halving, 8)[..3], named(&halved));
        let halved = [("exchange 1", 2), ("exchange 2", 2), ("exchange 4", 2)];
        assert_eq!(chain(Allreduce, Halving, 8)[..3], named(&halved));
        let returned = [("message 1", 1), ("message 2", 1), ("message 4", 1)];
        assert_eq!(chain(Reduce, Halving, 8)[3..6], named(&returned));
    }

    /// The units of each kind of step: ranks that copy as much may do so in unlike pieces.
    fn totals((chain, work): (StepCounts, StepCounts)) -> [BTreeMap<ChainStep, usize>; 2] {
        [chain, work].map(|counts| {
            let mut totals = BTreeMap::new();
            for ((step, units), count) in counts {
                *totals.entry(step).or_default() += units * count;
            }
            totals
        })
    }

    #[test]
    fn one_rank_of_a_symmetric_call_stands_for_all() {
        for ranks in [2, 4, 5, 8, 16] {
            for collective in Collective::ALL {
                let algorithms = collective.algorithms().iter();
                let by_messages = |a: &&Algorithm| a.family() == AlgorithmFamily::Messages;
                for &algorithm in algorithms.filter(by_messages) {
                    let bytes = nominal(collective, algorithm, ranks);
                    let (root, commutes) = (0, true);
                    let call = MessageCall { collective, algorithm, ranks, root, bytes, commutes };
                    if call.is_symmetric() {
                        let [one, all] = [1, ranks]
                            .map(|described| totals(NominalRun::of(&call, described).run()));
                        assert_eq!(one, all, "{call:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn work_counts_every_message_once() {
        use Collective::{Allgather, Alltoall, Bcast, Gather};
        assert_eq!(messages(Bcast, Algorithm::Binomial, 13), [(1, 12)]);
        assert_eq!(messages(Gather, Algorithm::Binomial, 8), [(1, 4), (2, 2), (4, 1)]);
        assert_eq!(messages(Allgather, Algorithm::Ring, 13), [(1, 13 * 12)]);
        assert_eq!(messages(Alltoall, Algorithm::Exchange, 40), [(1, 40 * 39)]);
        assert_eq!(messages(Alltoall, Algorithm::Bruck, 8), [(4, 24)]);
        // A scatter of 8 pieces, then a ring.
        assert_eq!(messages(Bcast, Algorithm::ScatterRing, 8), [(1, 4 + 56), (2, 2), (4, 1)]);
    }
}
