//! Runs calls of a collective on a modelled machine: ranks carry out the steps of its recorded
//! [`RecordedSchedule`], transfers share the [`LinkNetwork`] with a [`Background`], and every call
//! yields its times and the bytes on every link, as a measurement would ([`observe_model`]).
//!
//! Event-driven. A rank does one step at a time: a published phase reaches another chip after the
//! latency of the way there; a copy takes that latency, the wait in the queues of the links, then
//! its bytes at the rate that the network gives. Copies in a row by which a rank accesses the same
//! chip in the same way are one: their latencies overlap. Calls follow each other without a barrier
//! (muecke-2010, section 5); as in the library, a rank enters a call only once all have left the
//! call four before it, whose memory it uses.
//!
//! States of a rank ([`ModelRankState`]), moved by [`Simulation`] alone:
//!
//! ```text
//! SlotWait -- a slot is free --> Ready -- a step without time --> Ready
//! Ready -- waits for a phase that is not published --> Blocked -- it is --> Delay or Ready
//! Ready -- copies --> Delay -- latency and queues are over --> Copying -- no bytes left --> Ready
//! Ready -- no step left --> Delay -- between calls --> SlotWait, or Finished after the last call
//! ```
//!
//! Order of an event ([`Simulation::run`]): every rank goes as far as it can at this moment; then
//! time passes to the next end of a delay, a copy or a burst; bytes are counted at the rates that
//! held; then bursts change the rates and delays end. Cost of an event: every rank is looked at,
//! and rates are computed anew where a flow began or ended ([`crate::fairness`]).
//!
//! Not modelled: caches (a load always comes from the owner's memory), the time of operators, and
//! scheduling by the operating system. Deterministic: the same arguments give the same bits.
//! Invariant: time never goes back; a schedule that passed its check runs to its end.
//!
//! [`world`] makes single calls on the same machine, for the uses of the predictor, and [`study`]
//! compares backgrounds and uses.

pub mod study;
pub mod world;

use std::collections::VecDeque;
use std::sync::Arc;

use mica_machine::ChipMachine;

use crate::background::{Background, BurstTimes};
use crate::data::{CallWorkload, Calls, DataError, LinkSet, LoadSource, Observation, Provenance};
use crate::network::{LinkNetwork, TransferClass};
use crate::schedule::{RecordedSchedule, RecordedStep};

/// Calls that may be in progress at once: the library's slots of an area.
const SLOTS: usize = 4;

/// Seconds between the return from a call and the next: a loop's overhead.
const BETWEEN: f64 = 0.2e-6;

/// Bytes; less than this is left of a transfer only by rounding.
const ROUNDING: f64 = 1e-3;

/// What is modelled.
#[derive(Debug, Clone)]
pub struct ModelPlan<'a> {
    /// The machine.
    pub machine: &'a ChipMachine,
    /// What each call does.
    pub schedule: &'a RecordedSchedule,
    /// Other traffic.
    pub background: &'a Background,
    /// The chip of each rank.
    pub chips: Vec<usize>,
    /// Number of calls.
    pub count: usize,
    /// The seed of other traffic.
    pub seed: u64,
}

/// Observes `count` calls of `schedule` on `machine`, with other traffic from `seed`. Ranks are
/// placed one after another ([`ChipMachine::placement`]).
///
/// # Errors
/// If the numbers of the machine lead to times that are not finite.
pub fn observe_model(
    machine: &ChipMachine,
    schedule: &RecordedSchedule,
    background: &Background,
    count: usize,
    seed: u64,
) -> Result<Observation, DataError> {
    let plan = ModelPlan {
        machine,
        schedule,
        background,
        chips: machine.placement(schedule.ranks()),
        count,
        seed,
    };
    plan.observe(&mut |_| ())
}

impl ModelPlan<'_> {
    /// Runs the calls; `ended` is called with the number of calls that have ended, whenever it has
    /// changed.
    ///
    /// # Errors
    /// If the numbers of the machine lead to times that are not finite.
    ///
    /// # Panics
    /// If there are fewer chips in the plan than ranks in the schedule.
    pub fn observe(&self, ended: &mut dyn FnMut(usize)) -> Result<Observation, DataError> {
        let (machine, schedule) = (self.machine, self.schedule);
        let mut simulation = Simulation::new(machine, schedule, &self.chips, self.count);
        simulation.run(&mut BurstTimes::new(self.background, self.seed), ended);
        let observation = Observation {
            provenance: Provenance {
                machine: machine.name().to_owned(),
                source: LoadSource::Model,
                command: schedule.command.clone(),
                seed: self.seed,
                rank_chips: self.chips.iter().map(|&chip| chip as u32).collect(),
                notes: vec![machine.source().to_owned()],
                ..Provenance::default()
            },
            links: LinkSet::of_machine(machine),
            workloads: vec![CallWorkload {
                collective: schedule.collective.clone(),
                bytes: schedule.bytes,
                ranks: schedule.ranks() as u32,
                schedule: schedule.path.clone(),
                pairs: schedule.pairs(),
            }],
            calls: simulation.calls,
            study: None,
        };
        observation.check()?;
        Ok(observation)
    }
}

/// A step of a rank on this machine.
#[derive(Debug, Clone, Copy)]
enum MachineStep {
    Publish(u32),
    Wait(usize, u32),
    WaitAll(u32),
    Copy { class: TransferClass, latency: f64, bytes: f64 },
}

/// What a rank does now.
#[derive(Debug, Clone, Copy)]
enum ModelRankState {
    /// Its next action can be tried.
    Ready,
    /// For another rank's phase.
    Blocked,
    /// Until the slot of its next call is free.
    SlotWait,
    /// Nothing before this time; then the copy begins, if there is one.
    Delay(f64, Option<(TransferClass, f64)>),
    /// It copies; the bytes that are left.
    Copying(TransferClass, f64),
    /// It has made all calls.
    Finished,
}

struct ModelRank {
    actions: Arc<[MachineStep]>,
    next: usize,
    call: usize,
    state: ModelRankState,
    /// Members before this one have reached the phase that [`MachineStep::WaitAll`] waits for.
    seen: usize,
    /// The newest phase: call in the upper half, phase in the lower; and when.
    stamp: u64,
    stamp_time: f64,
    entry: f64,
}

/// A call that not all ranks have left.
struct OpenCall {
    start: f64,
    carried: Vec<f64>,
    background: Vec<f64>,
    entries: Vec<f64>,
    times: Vec<f64>,
    left: usize,
    end: f64,
}

struct Simulation {
    now: f64,
    count: usize,
    network: LinkNetwork,
    ranks: Vec<ModelRank>,
    /// Latency between the chips of two ranks.
    latency: Vec<Vec<f64>>,
    open: VecDeque<OpenCall>,
    /// Number of the first call in `open`.
    first_open: usize,
    calls: Calls,
}

impl Simulation {
    fn new(
        machine: &ChipMachine,
        schedule: &RecordedSchedule,
        chips: &[usize],
        count: usize,
    ) -> Simulation {
        let network = LinkNetwork::new(machine);
        let rank = |(me, steps): (usize, &Vec<RecordedStep>)| ModelRank {
            actions: actions(machine, &network, steps, chips, me).into(),
            next: 0,
            call: 0,
            state: ModelRankState::SlotWait,
            seen: 0,
            stamp: 0,
            stamp_time: 0.0,
            entry: 0.0,
        };
        let latencies =
            |&from: &usize| chips.iter().map(|&to: &usize| machine.latency(from, to)).collect();
        Simulation {
            now: 0.0,
            count,
            ranks: schedule.steps.iter().enumerate().map(rank).collect(),
            latency: chips.iter().map(latencies).collect(),
            open: VecDeque::new(),
            first_open: 0,
            calls: Calls::with_columns(chips.len(), machine.links().len()),
            network,
        }
    }

    /// Runs until all calls have ended.
    fn run(&mut self, bursts: &mut BurstTimes, ended: &mut dyn FnMut(usize)) {
        let mut reported = self.calls.len();
        loop {
            self.settle();
            if self.calls.len() != reported {
                reported = self.calls.len();
                ended(reported);
            }
            if self.calls.len() == self.count {
                return;
            }
            let next = self.next_event().min(bursts.next());
            let passed = (next - self.now).max(0.0);
            self.network.pass(passed);
            self.advance_copies(passed, next);
            self.now = next;
            self.change_bursts(bursts);
            self.end_delays();
        }
    }

    /// Lets time pass between calls.
    fn idle(&mut self, seconds: f64, bursts: &mut BurstTimes) {
        let until = self.now + seconds;
        while self.now < until {
            let next = until.min(bursts.next());
            self.network.pass((next - self.now).max(0.0));
            self.now = next;
            self.change_bursts(bursts);
        }
    }

    /// Begins and ends the bursts that are due.
    fn change_bursts(&mut self, bursts: &mut BurstTimes) {
        while bursts.next() <= self.now {
            let Some(change) = bursts.advance() else { break };
            self.network.change(&change);
        }
    }

    /// Lets every rank go on as far as it can without time passing.
    fn settle(&mut self) {
        loop {
            let mut has_moved = false;
            for rank in 0..self.ranks.len() {
                has_moved |= self.go_on(rank);
            }
            if !has_moved {
                return;
            }
        }
    }

    /// Lets one rank go on; whether it did anything.
    fn go_on(&mut self, me: usize) -> bool {
        let mut has_moved = false;
        loop {
            match self.ranks[me].state {
                ModelRankState::SlotWait if self.may_enter(me) => self.enter(me),
                ModelRankState::Ready | ModelRankState::Blocked => {
                    if !self.act(me) {
                        return has_moved;
                    }
                }
                _ => return has_moved,
            }
            has_moved = true;
        }
    }

    fn may_enter(&self, me: usize) -> bool {
        self.ranks[me].call < self.first_open + SLOTS
    }

    fn enter(&mut self, me: usize) {
        let rank = &mut self.ranks[me];
        if rank.call == self.count {
            rank.state = ModelRankState::Finished;
            return;
        }
        (rank.state, rank.next, rank.entry) = (ModelRankState::Ready, 0, self.now);
        let index = rank.call - self.first_open;
        if index == self.open.len() {
            let ranks = self.ranks.len();
            self.open.push_back(OpenCall {
                start: self.now,
                carried: self.network.carried().to_vec(),
                background: self.network.background_carried().to_vec(),
                entries: vec![0.0; ranks],
                times: vec![0.0; ranks],
                left: 0,
                end: self.now,
            });
        }
    }

    /// Does the rank's next action; false if it must wait for a phase.
    fn act(&mut self, me: usize) -> bool {
        let rank = &mut self.ranks[me];
        let Some(&action) = rank.actions.get(rank.next) else {
            self.leave(me);
            return true;
        };
        let seen_at = match action {
            MachineStep::Publish(phase) => {
                (rank.stamp, rank.stamp_time) = (stamp(rank.call, phase), self.now);
                Some(self.now)
            }
            MachineStep::Wait(member, phase) => self.phase_time(me, member, phase),
            MachineStep::WaitAll(phase) => self.time_of_all(me, phase),
            MachineStep::Copy { class, latency, bytes } => {
                rank.next += 1;
                let start = self.now + latency + self.network.queue_wait(class);
                rank.state = ModelRankState::Delay(start, Some((class, bytes)));
                return true;
            }
        };
        let rank = &mut self.ranks[me];
        let Some(time) = seen_at else {
            rank.state = ModelRankState::Blocked;
            return false;
        };
        (rank.next, rank.seen) = (rank.next + 1, 0);
        rank.state = match time > self.now {
            true => ModelRankState::Delay(time, None),
            false => ModelRankState::Ready,
        };
        true
    }

    /// When this rank sees that `member` has reached a phase; `None` if it has not.
    fn phase_time(&self, me: usize, member: usize, phase: u32) -> Option<f64> {
        let other = &self.ranks[member];
        let has_reached = member == me || other.stamp >= stamp(self.ranks[me].call, phase);
        has_reached.then(|| other.stamp_time + self.latency[member][me])
    }

    /// The same for all other members.
    fn time_of_all(&mut self, me: usize, phase: u32) -> Option<f64> {
        let members = self.ranks.len();
        let mut member = self.ranks[me].seen;
        while member < members && self.phase_time(me, member, phase).is_some() {
            member += 1;
        }
        self.ranks[me].seen = member;
        let others = (0..members).filter(|&other| other != me);
        let times = others.map(|other| self.ranks[other].stamp_time + self.latency[other][me]);
        (member == members).then(|| times.fold(self.now, f64::max))
    }

    /// The rank returns from its call.
    fn leave(&mut self, me: usize) {
        let rank = &mut self.ranks[me];
        let call = &mut self.open[rank.call - self.first_open];
        call.entries[me] = rank.entry - call.start;
        call.times[me] = self.now - rank.entry;
        (call.left, call.end) = (call.left + 1, self.now);
        rank.call += 1;
        rank.state = ModelRankState::Delay(self.now + BETWEEN, None);
        rank.next = usize::MAX;
        while self.open.front().is_some_and(|call| call.left == self.ranks.len()) {
            self.close_first();
        }
    }

    /// All ranks have left the first open call.
    fn close_first(&mut self) {
        let call = self.open.pop_front().expect("checked by the caller");
        self.first_open += 1;
        let calls = &mut self.calls;
        calls.workload.push(0);
        calls.start.push(call.start);
        calls.time.push(call.end - call.start);
        let put = |columns: &mut [Vec<f64>], values: &mut dyn Iterator<Item = f64>| {
            columns.iter_mut().zip(values).for_each(|(column, value)| column.push(value));
        };
        put(&mut calls.rank_entry, &mut call.entries.iter().copied());
        put(&mut calls.rank_time, &mut call.times.iter().copied());
        let since = |now: &[f64], then: &[f64]| -> Vec<f64> {
            now.iter().zip(then).map(|(now, then)| now - then).collect()
        };
        let total = since(self.network.carried(), &call.carried);
        let background = since(self.network.background_carried(), &call.background);
        put(&mut calls.link_bytes, &mut total.into_iter());
        put(&mut calls.background_bytes, &mut background.into_iter());
    }

    /// When the next rank's state ends.
    fn next_event(&mut self) -> f64 {
        let mut next = f64::INFINITY;
        for rank in &self.ranks {
            let end = match rank.state {
                ModelRankState::Delay(until, _) => until,
                ModelRankState::Copying(class, left) => self.now + left / self.network.rate(class),
                _ => continue,
            };
            next = next.min(end);
        }
        next
    }

    /// Lets copies go on until `now`. One that would end before the clock's next value is over.
    fn advance_copies(&mut self, passed: f64, now: f64) {
        for rank in &mut self.ranks {
            if let ModelRankState::Copying(class, left) = &mut rank.state {
                let rate = self.network.rate(*class);
                *left -= passed * rate;
                if now + *left / rate <= now {
                    *left = 0.0;
                }
            }
        }
    }

    /// Ends the delays and the copies that are over now.
    fn end_delays(&mut self) {
        for rank in &mut self.ranks {
            match rank.state {
                ModelRankState::Delay(until, copy) if until <= self.now => {
                    rank.state = match copy {
                        Some((class, bytes)) => {
                            self.network.start(class);
                            ModelRankState::Copying(class, bytes)
                        }
                        None if rank.next == usize::MAX => ModelRankState::SlotWait,
                        None => ModelRankState::Ready,
                    };
                }
                ModelRankState::Copying(class, left) if left <= ROUNDING => {
                    self.network.finish(class);
                    rank.state = ModelRankState::Ready;
                }
                _ => {}
            }
        }
    }
}

fn stamp(call: usize, phase: u32) -> u64 {
    (call as u64 + 1) << 32 | u64::from(phase)
}

/// The steps of rank `me` as actions; copies in a row of one class become one.
fn actions(
    machine: &ChipMachine,
    network: &LinkNetwork,
    steps: &[RecordedStep],
    chips: &[usize],
    me: usize,
) -> Vec<MachineStep> {
    let at = chips[me];
    let mut actions: Vec<MachineStep> = Vec::new();
    for step in steps {
        let (class, chip, more) = match *step {
            RecordedStep::Publish(phase) => {
                actions.push(MachineStep::Publish(phase));
                continue;
            }
            RecordedStep::Wait(member, phase) => {
                actions.push(MachineStep::Wait(member as usize, phase));
                continue;
            }
            RecordedStep::WaitAll(phase) => {
                actions.push(MachineStep::WaitAll(phase));
                continue;
            }
            RecordedStep::Load(member, bytes) => {
                let chip = chips[member as usize];
                (network.load_class(chip, at), chip, bytes as f64)
            }
            RecordedStep::Store(member, bytes) => {
                let chip = chips[member as usize];
                (network.store_class(chip, at), chip, bytes as f64)
            }
        };
        match actions.last_mut() {
            Some(MachineStep::Copy { class: last, bytes, .. }) if *last == class => *bytes += more,
            _ => actions.push(MachineStep::Copy {
                class,
                latency: machine.latency(chip, at),
                bytes: more,
            }),
        }
    }
    actions
}

#[cfg(test)]
mod tests;
