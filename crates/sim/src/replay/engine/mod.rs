//! Carries out the operations of all ranks in the LogGP model.
//!
//! Each rank has a clock and the two ports of `crate::network`. A send advances the clock by `o_s`
//! and hands the message to the sending port; it leaves when the port takes it, comes over links
//! that are always free, and passes the receiver's port. The rank that waits for it does so until
//! `L` after its last byte and spends `o_r`. So this is the model of `mica sim run` without
//! contention inside the network, and without its events: the states of a rank are running, blocked
//! (what it expects has not been sent) and ended, and only [`ReplayEngine`] moves them.
//!
//! There is no queue of events: a rank runs until it waits for a message that has not been sent,
//! and goes on when it is. Times do not depend on the order in which ranks run, since everything
//! shared has one writer: messages that a rank waits for at the same time pass its port in order of
//! their arrival, and those of different waits in the order of these waits (an approximation: a
//! message that no rank waits for yet does not keep the port busy).
//!
//! Collectives are carried out message by message ([`MessageCall`]). Those whose number of messages
//! grows with the square of the ranks are not, in groups of more than [`EXPANDED_MAX`]: their ranks
//! leave together, the last to enter and the time of one rank's rounds later, which is exact if all
//! enter at the same time and else an upper bound.

use std::collections::{HashMap, VecDeque};
use std::ops::Add as _;

use mica_algorithms::{Collective, MessageCall};

use super::algorithm::{RoundStep, chosen, rounds};
use super::cluster::ReplayCluster;
use crate::loggp::Parameters;
use crate::network::{Port, PortTiming};
use crate::time::SimTime;

/// Ranks up to which every message of a collective is carried out.
pub const EXPANDED_MAX: u32 = 64;

/// What a rank does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplayOperation {
    /// It computes.
    Compute(SimTime),
    /// It starts a message.
    Send {
        /// Destination.
        to: u32,
        /// Bytes.
        bytes: u64,
        /// What it matches by.
        stream: MessageStream,
    },
    /// It posts a receive.
    Receive {
        /// Source.
        from: u32,
        /// What it matches by.
        stream: MessageStream,
    },
    /// It waits for all receives that it has posted.
    Wait,
    /// It takes part in a collective.
    Collective(GroupCollective),
}

/// Messages of one sender to one receiver that match in order: those with the same communicator
/// and tag have the same number.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MessageStream(pub u32);

/// A collective and its group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupCollective {
    /// The operation.
    pub collective: Collective,
    /// Root, by its number in the group.
    pub root: u32,
    /// Bytes, as [`MessageCall::bytes`].
    pub bytes: u64,
    /// The ranks.
    pub group: RankGroup,
}

/// Ranks of a communicator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RankGroup {
    /// `first`, `first + stride` and so on.
    Strided {
        /// The first.
        first: u32,
        /// Distance.
        stride: u32,
        /// How many.
        count: u32,
    },
    /// Number of a list of the workload.
    Listed(u32),
}

/// What all ranks do, in steps. The steps of a rank are asked for one after the other.
pub trait Workload {
    /// Number of ranks.
    fn ranks(&self) -> u32;
    /// Number of steps of each rank.
    fn steps(&self) -> u32;
    /// Appends what `rank` does in `step`.
    fn operations(&self, rank: u32, step: u32, out: &mut Vec<ReplayOperation>);
    /// The ranks of a [`RankGroup::Listed`].
    fn listed(&self, group: u32) -> &[u32] {
        let _ = group;
        &[]
    }
}

/// The outcome of a replay.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Prediction {
    /// Number of ranks.
    pub ranks: u32,
    /// When the last rank ends.
    pub time: SimTime,
    /// The rank that ends last, the first of those.
    pub last_rank: u32,
    /// Mean over ranks of the time that they compute.
    pub computing: SimTime,
    /// Messages that were carried out one by one.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Collectives that were carried out as a whole.
    pub whole_collectives: u64,
}

/// A replay cannot go on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReplayError {
    /// Ranks wait for messages that are never sent.
    #[error(
        "{stuck} of {ranks} ranks wait for ever; rank {rank} waits in step {step} for a message of \
         rank {from}"
    )]
    Stuck {
        /// How many.
        stuck: u32,
        /// Of how many.
        ranks: u32,
        /// The first of them.
        rank: u32,
        /// Its step.
        step: u32,
        /// The rank that it waits for.
        from: u32,
    },
    /// Ranks wait in a collective that others do not call.
    #[error("rank {rank} waits in step {step} in a collective that not all of its ranks call")]
    Missing {
        /// The first of them.
        rank: u32,
        /// Its step.
        step: u32,
    },
    /// A rank that there is not.
    #[error("rank {rank} names rank {peer} in step {step}, and there are {ranks} ranks")]
    NoSuchRank {
        /// Which rank does.
        rank: u32,
        /// The rank that it names.
        peer: u32,
        /// Its step.
        step: u32,
        /// How many there are.
        ranks: u32,
    },
}

/// Carries out the workload. `progress` gets the number of steps that ranks have begun since it
/// was called before.
///
/// # Errors
/// If ranks wait for what never happens.
pub fn replay(
    workload: &dyn Workload,
    cluster: &ReplayCluster,
    progress: &mut dyn FnMut(u64),
) -> Result<Prediction, ReplayError> {
    let mut engine = ReplayEngine::new(workload, cluster);
    engine.run(progress)?;
    Ok(engine.prediction())
}

/// Kinds of messages, which do not match one another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Context {
    PointToPoint(MessageStream),
    Collective,
}

/// A message on its way: its head is at the receiver's port at `head` if that is free.
#[derive(Debug, Clone, Copy)]
struct MessageUnderWay {
    from: u32,
    context: Context,
    head: SimTime,
    bytes: u64,
}

/// LogGP of one level.
#[derive(Debug, Clone, Copy)]
struct LevelTimes {
    port: PortTiming,
    send_overhead: SimTime,
    receive_overhead: SimTime,
}

impl LevelTimes {
    fn new(parameters: &Parameters) -> LevelTimes {
        let Parameters { latency, gap, gap_per_byte, .. } = *parameters;
        LevelTimes {
            port: PortTiming::new(latency, gap, gap_per_byte),
            send_overhead: SimTime::from_ns(parameters.send_overhead),
            receive_overhead: SimTime::from_ns(parameters.receive_overhead),
        }
    }
}

#[derive(Default)]
struct ReplayRank {
    clock: SimTime,
    sending: Port,
    receiving: Port,
    computing: SimTime,
    step: u32,
    /// The operation of `operations` that is next, or under way.
    at: usize,
    /// Some rounds of the collective under way, the step of them that is next, and how many rounds
    /// have been described so far.
    round_steps: Vec<RoundStep>,
    step_at: usize,
    described: u32,
    is_blocked: bool,
    has_ended: bool,
    operations: Vec<ReplayOperation>,
    posted: Vec<(u32, MessageStream)>,
    /// What a blocked rank waits for.
    expected: Vec<(u32, Context)>,
    arrived: Vec<MessageUnderWay>,
    unexpected: Vec<MessageUnderWay>,
}

/// Whether a rank can go on.
enum OperationOutcome {
    GoesOn,
    Blocks,
}

/// A collective that is carried out as a whole.
#[derive(Default)]
struct Entered {
    ranks: Vec<u32>,
    latest: SimTime,
}

struct ReplayEngine<'a> {
    workload: &'a dyn Workload,
    cluster: &'a ReplayCluster,
    node: LevelTimes,
    network: LevelTimes,
    combine_byte: f64,
    ranks: Vec<ReplayRank>,
    ready: VecDeque<u32>,
    entered: HashMap<RankGroup, Entered>,
    /// Time of one rank's rounds, of plans that were carried out as a whole.
    durations: HashMap<MessageCall, SimTime>,
    prediction: Prediction,
    begun: u64,
}

/// Rounds that are described at once, which bounds the memory of ranks that are in a collective.
const ROUNDS_AT_ONCE: u32 = 8;

/// Steps between two calls of `progress`.
const REPORT_EVERY: u64 = 1 << 16;

impl<'a> ReplayEngine<'a> {
    fn new(workload: &'a dyn Workload, cluster: &'a ReplayCluster) -> ReplayEngine<'a> {
        let ranks = workload.ranks();
        ReplayEngine {
            workload,
            cluster,
            node: LevelTimes::new(&cluster.node),
            network: LevelTimes::new(&cluster.network),
            combine_byte: cluster.combine_byte_ns * 1e3,
            ranks: (0..ranks).map(|_| ReplayRank::default()).collect(),
            ready: (0..ranks).collect(),
            entered: HashMap::new(),
            durations: HashMap::new(),
            prediction: Prediction { ranks, ..Prediction::default() },
            begun: 0,
        }
    }

    fn run(&mut self, progress: &mut dyn FnMut(u64)) -> Result<(), ReplayError> {
        for rank in 0..self.workload.ranks() {
            if self.workload.steps() > 0 {
                self.begin(rank, 0)?;
            }
        }
        while let Some(rank) = self.ready.pop_front() {
            self.advance(rank)?;
            if self.begun >= REPORT_EVERY {
                progress(std::mem::take(&mut self.begun));
            }
        }
        progress(std::mem::take(&mut self.begun));
        self.check_end()
    }

    /// The operations of a rank's step replace those of the one before.
    fn begin(&mut self, rank: u32, step: u32) -> Result<(), ReplayError> {
        self.begun += 1;
        let state = &mut self.ranks[rank as usize];
        (state.step, state.at) = (step, 0);
        state.operations.clear();
        self.workload.operations(rank, step, &mut state.operations);
        let ranks = self.workload.ranks();
        let peers = state.operations.iter().filter_map(|operation| match operation {
            ReplayOperation::Send { to: peer, .. }
            | ReplayOperation::Receive { from: peer, .. } => Some(*peer),
            _ => None,
        });
        match peers.into_iter().find(|peer| *peer >= ranks) {
            Some(peer) => Err(ReplayError::NoSuchRank { rank, peer, step, ranks }),
            None => Ok(()),
        }
    }

    /// Runs a rank until it blocks or ends.
    fn advance(&mut self, rank: u32) -> Result<(), ReplayError> {
        loop {
            let state = &mut self.ranks[rank as usize];
            let Some(&operation) = state.operations.get(state.at) else {
                let next = state.step + 1;
                if next >= self.workload.steps() {
                    state.has_ended = true;
                    return Ok(());
                }
                self.begin(rank, next)?;
                continue;
            };
            let outcome = match operation {
                ReplayOperation::Compute(time) => {
                    state.clock += time;
                    state.computing += time;
                    OperationOutcome::GoesOn
                }
                ReplayOperation::Send { to, bytes, stream } => {
                    self.send(rank, to, bytes, Context::PointToPoint(stream));
                    OperationOutcome::GoesOn
                }
                ReplayOperation::Receive { from, stream } => {
                    state.posted.push((from, stream));
                    OperationOutcome::GoesOn
                }
                ReplayOperation::Wait => {
                    let posted = state.posted.drain(..);
                    let posted = posted.map(|(from, stream)| (from, Context::PointToPoint(stream)));
                    state.expected.extend(posted);
                    self.wait(rank)
                }
                ReplayOperation::Collective(call) => self.collective(rank, &call),
            };
            match outcome {
                OperationOutcome::GoesOn => self.ranks[rank as usize].at += 1,
                OperationOutcome::Blocks => return Ok(()),
            }
        }
    }

    /// The level between two ranks, and what the links between them add.
    fn between(&self, from: u32, to: u32) -> (&LevelTimes, SimTime) {
        let (from, to) = (self.cluster.node_of(from), self.cluster.node_of(to));
        match &self.cluster.hops {
            _ if from == to && self.cluster.ranks_per_node > 1 => (&self.node, SimTime::default()),
            Some(hops) => (&self.network, hops.latency(from, to)),
            None => (&self.network, SimTime::default()),
        }
    }

    fn send(&mut self, rank: u32, to: u32, bytes: u64, context: Context) {
        let (level, links) = self.between(rank, to);
        let (level, links) = (*level, links);
        let state = &mut self.ranks[rank as usize];
        state.clock += level.send_overhead;
        let start = state.sending.send(state.clock, state.clock, bytes, &level.port).first;
        self.prediction.messages += 1;
        self.prediction.bytes += bytes;
        self.deliver(to, MessageUnderWay { from: rank, context, head: start + links, bytes });
    }

    /// Hands a message to a rank: into what it waits for, or its unexpected queue.
    fn deliver(&mut self, to: u32, message: MessageUnderWay) {
        let state = &mut self.ranks[to as usize];
        let key = (message.from, message.context);
        let wanted = match state.is_blocked {
            true => state.expected.iter().position(|expected| *expected == key),
            false => None,
        };
        let Some(place) = wanted else {
            state.unexpected.push(message);
            return;
        };
        state.expected.swap_remove(place);
        state.arrived.push(message);
        if state.expected.is_empty() {
            state.is_blocked = false;
            self.ready.push_back(to);
        }
    }

    /// Takes what is expected from the unexpected queue; blocks if something is missing, else
    /// receives it.
    fn wait(&mut self, rank: u32) -> OperationOutcome {
        let state = &mut self.ranks[rank as usize];
        let ReplayRank { unexpected, arrived, expected, .. } = state;
        expected.retain(|&(from, context)| {
            // Messages of a stream are in order.
            match unexpected.iter().position(|m| (m.from, m.context) == (from, context)) {
                Some(place) => {
                    arrived.push(unexpected.remove(place));
                    false
                }
                None => true,
            }
        });
        if !expected.is_empty() {
            state.is_blocked = true;
            return OperationOutcome::Blocks;
        }
        let mut arrived = std::mem::take(&mut state.arrived);
        arrived.sort_unstable_by_key(|message| (message.head, message.from));
        for message in arrived.drain(..) {
            self.receive(rank, &message);
        }
        self.ranks[rank as usize].arrived = arrived;
        OperationOutcome::GoesOn
    }

    fn receive(&mut self, rank: u32, message: &MessageUnderWay) {
        let level = *self.between(message.from, rank).0;
        let state = &mut self.ranks[rank as usize];
        let done = state.receiving.receive(message.head, message.bytes, &level.port);
        state.clock = state.clock.max(done + level.port.latency) + level.receive_overhead;
    }

    /// Ranks of a group, and the number of one among them.
    fn place(&self, group: RankGroup, rank: u32) -> (u32, u32) {
        match group {
            RankGroup::Strided { first, stride, count } => (count, (rank - first) / stride.max(1)),
            RankGroup::Listed(list) => {
                let ranks = self.workload.listed(list);
                let place = ranks.iter().position(|member| *member == rank);
                (ranks.len() as u32, place.unwrap_or(0) as u32)
            }
        }
    }

    fn member(&self, group: RankGroup, number: u32) -> u32 {
        match group {
            RankGroup::Strided { first, stride, .. } => first + number * stride,
            RankGroup::Listed(list) => self.workload.listed(list)[number as usize],
        }
    }

    /// Goes on with a collective.
    fn collective(&mut self, rank: u32, call: &GroupCollective) -> OperationOutcome {
        let (count, me) = self.place(call.group, rank);
        let plan = chosen(call.collective, count, call.root, call.bytes);
        if count > EXPANDED_MAX && plan.is_quadratic() && plan.bytes > 0 {
            return self.as_a_whole(rank, call.group, &plan);
        }
        loop {
            let state = &mut self.ranks[rank as usize];
            match state.round_steps.get(state.step_at).copied() {
                None => {
                    rounds(&plan, me, state.described, ROUNDS_AT_ONCE, &mut state.round_steps);
                    (state.described, state.step_at) = (state.described + ROUNDS_AT_ONCE, 0);
                    if state.round_steps.is_empty() {
                        state.described = 0;
                        return OperationOutcome::GoesOn;
                    }
                    continue;
                }
                Some(RoundStep::Send { to, bytes }) => {
                    let to = self.member(call.group, to);
                    self.send(rank, to, bytes, Context::Collective);
                }
                Some(RoundStep::Receive { from }) => {
                    let from = self.member(call.group, from);
                    let expected = &mut self.ranks[rank as usize].expected;
                    expected.push((from, Context::Collective));
                }
                Some(RoundStep::End { combine }) => {
                    if let OperationOutcome::Blocks = self.wait(rank) {
                        return OperationOutcome::Blocks;
                    }
                    let combining = self.combining(combine);
                    self.ranks[rank as usize].clock += combining;
                }
            }
            self.ranks[rank as usize].step_at += 1;
        }
    }

    /// The last rank to enter releases all.
    fn as_a_whole(&mut self, rank: u32, group: RankGroup, plan: &MessageCall) -> OperationOutcome {
        let clock = self.ranks[rank as usize].clock;
        let entered = self.entered.entry(group).or_default();
        entered.ranks.push(rank);
        entered.latest = entered.latest.max(clock);
        if entered.ranks.len() < plan.ranks {
            return OperationOutcome::Blocks;
        }
        let Entered { ranks, latest } = self.entered.remove(&group).expect("just entered");
        let known = self.durations.get(plan).copied();
        let duration = known.unwrap_or_else(|| self.symmetric_duration(group, plan));
        self.durations.insert(*plan, duration);
        self.prediction.whole_collectives += 1;
        for member in ranks {
            let state = &mut self.ranks[member as usize];
            state.clock = latest + duration;
            state.sending.occupy_until(state.clock);
            state.receiving.occupy_until(state.clock);
            if member != rank {
                state.at += 1;
                self.ready.push_back(member);
            }
        }
        OperationOutcome::GoesOn
    }

    /// The time of the rounds of one rank, whose messages arrive as its own do at others. The part
    /// of a broadcast that is a tree is the longest path down.
    fn symmetric_duration(&self, group: RankGroup, plan: &MessageCall) -> SimTime {
        let (level, links) = self.mean_level(group, plan.ranks as u32);
        let mut clock = SimTime::default();
        let (mut sending, mut receiving) = (Port::default(), Port::default());
        let (mut steps, mut heads, mut received) = (Vec::new(), Vec::new(), 0);
        for phase in plan.phases() {
            if !phase.is_symmetric() {
                clock += self.tree_path(plan, &level, links);
                continue;
            }
            rounds(&phase, 0, 0, u32::MAX, &mut steps);
            for &step in &steps {
                match step {
                    RoundStep::Send { bytes, .. } => {
                        clock += level.send_overhead;
                        let start = sending.send(clock, clock, bytes, &level.port).first;
                        heads.push((start + links, bytes));
                    }
                    RoundStep::Receive { .. } => received += 1,
                    RoundStep::End { combine } => {
                        for (head, bytes) in heads.drain(..).take(std::mem::take(&mut received)) {
                            let done = receiving.receive(head, bytes, &level.port);
                            clock = clock.max(done + level.port.latency) + level.receive_overhead;
                        }
                        clock += self.combining(combine);
                    }
                }
            }
        }
        clock
    }

    /// What it takes to combine operands of `bytes`.
    fn combining(&self, bytes: u64) -> SimTime {
        SimTime((self.combine_byte * bytes as f64).round() as u64)
    }

    /// Down the tree: half of the data, a quarter, and so on.
    fn tree_path(&self, plan: &MessageCall, level: &LevelTimes, links: SimTime) -> SimTime {
        let depth = super::algorithm::ceil_log2(plan.ranks as u32);
        let hop = |k: u32| {
            let overheads = level.send_overhead + level.receive_overhead;
            let transfer = level.port.transfer(plan.bytes as u64 >> k);
            overheads + links + level.port.latency + transfer
        };
        (1..=depth).map(hop).fold(SimTime::default(), SimTime::add)
    }

    /// The level that most pairs of a group are at, and the mean of what links add from its first
    /// rank.
    fn mean_level(&self, group: RankGroup, count: u32) -> (LevelTimes, SimTime) {
        let first = self.member(group, 0);
        let others = (1..count).map(|number| self.between(first, self.member(group, number)));
        let links: u64 = others.map(|(_, links)| links.0).sum();
        let last = self.member(group, count - 1);
        (*self.between(first, last).0, SimTime(links / u64::from(count - 1).max(1)))
    }

    fn check_end(&self) -> Result<(), ReplayError> {
        let stuck = |rank: &&u32| !self.ranks[**rank as usize].has_ended;
        let all: Vec<u32> = (0..self.workload.ranks()).collect();
        let Some(&rank) = all.iter().find(stuck).filter(|_| self.workload.steps() > 0) else {
            return Ok(());
        };
        let state = &self.ranks[rank as usize];
        Err(match state.expected.first() {
            Some(&(from, _)) => ReplayError::Stuck {
                stuck: all.iter().filter(stuck).count() as u32,
                ranks: self.workload.ranks(),
                rank,
                step: state.step,
                from,
            },
            None => ReplayError::Missing { rank, step: state.step },
        })
    }

    fn prediction(&self) -> Prediction {
        let ends = self.ranks.iter().map(|rank| rank.clock).enumerate();
        let latest = ends.max_by_key(|(at, time)| (*time, usize::MAX - at));
        let (last, time) = latest.unwrap_or_default();
        let computing: u128 = self.ranks.iter().map(|rank| u128::from(rank.computing.0)).sum();
        Prediction {
            time,
            last_rank: last as u32,
            computing: SimTime((computing / self.ranks.len().max(1) as u128) as u64),
            ..self.prediction
        }
    }
}

#[cfg(test)]
mod tests;
