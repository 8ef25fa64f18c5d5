//! The adaptive policy: detects on line that a policy is bad, and changes it (what leon-2009 7.2
//! leaves open).
//!
//! What can be seen is what becomes of injected lines: used by the program before they were
//! evicted, or evicted before use. A used line has spared the program a read of memory, down to
//! the latency of the cache where it was; an evicted one has driven out a line that the program
//! may have to fetch again. So the worth of a policy, in memory reads per line that the adapter
//! wrote, is
//!
//! ```text
//! coverage * (used * saved - evicted * WASTE) / (used + evicted)
//! ```
//!
//! with `coverage` the part of the lines that it injects and `saved` the part of memory's latency
//! that the caches spare. `base` is worth 0 by definition.
//!
//! The policies of [`CANDIDATES`] are tried in epochs:
//!
//! 1. *Trial*: each for one epoch, from the one that is in force. One that does evident harm is
//!    left at once ([`Epoch::is_harmful`]). Then the best is kept.
//! 2. *Use*: the best stays in force. From time to time the other that was not tried for longest
//!    has an epoch, and takes over if it is better. How long after the last such probe depends on
//!    what that has cost: all together cost [`PROBE_BUDGET`].
//! 3. A policy in use whose worth falls far below what it was ([`DROP`]) no longer fits what the
//!    program does: back to 1.
//!
//! An epoch ends when enough of its lines have an outcome; lines that have none for very long
//! count as nothing. After a change of policy, outcomes of lines that the former has injected
//! still come; so none count before there were as many as then had none ([`Epoch::is_warm`]).
//!
//! Deterministic: a function of the counts. Called by the adapter after each write.

use super::fixed::{FixedPolicy, HeaderRule, PayloadRule, WrittenLines};
use crate::adapter::host::InjectionCounts;
use crate::machine::SimulatedMachine;
use crate::memory::MemoryTiming;

/// Policies that it chooses from, in the order of the first trial.
pub const CANDIDATES: [FixedPolicy; 8] = [
    with(HeaderRule::L2, PayloadRule::All),
    with(HeaderRule::L2, PayloadRule::Memory),
    with(HeaderRule::L2, PayloadRule::BySize),
    with(HeaderRule::L2, PayloadRule::Preposted),
    with(HeaderRule::L2, PayloadRule::OnWait),
    with(HeaderRule::L2, PayloadRule::InCache),
    with(HeaderRule::Memory, PayloadRule::All),
    FixedPolicy::BASE,
];

/// Lines of an epoch: enough for a worth that is right to a few hundredths.
const EPOCH: u64 = 512;
/// Lines after a change when outcomes count in any case: some lines of the former policy never
/// have one.
const LONGEST_WARM_UP: u64 = 4 * EPOCH;
/// Longest epoch; lines without outcome are given up then.
const LONGEST: u64 = 16 * EPOCH;
/// Lines evicted before use that show harm, if they are more than three times those used.
const HARM: u64 = 32;
/// Memory reads that a line costs which is evicted before use: the one that it drove out.
const WASTE: f64 = 1.0;
/// Fall of the worth of the policy in use that starts a new trial.
const DROP: f64 = 0.2;
/// A policy must be better by this to take over.
const MARGIN: f64 = 0.02;
/// Memory reads for a line in use that may be lost by probes of other policies.
const PROBE_BUDGET: f64 = 0.015;
/// Epochs after a trial before the first probe.
const FIRST_USE: u32 = 8;
/// Most epochs between two probes.
const LONGEST_USE: u32 = 64;

const fn with(header: HeaderRule, payload: PayloadRule) -> FixedPolicy {
    FixedPolicy { header, payload }
}

/// The part of memory's latency that a hit in a cache spares.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SavedLatency {
    /// In the L2.
    pub l2: f64,
    /// In the L3.
    pub l3: f64,
}

impl SavedLatency {
    /// On a machine.
    pub fn of(machine: &SimulatedMachine) -> SavedLatency {
        let memory = MemoryTiming::of(machine).latency_cycles.max(1.0);
        let caches = &machine.caches;
        let saved = |latency: u32| (1.0 - f64::from(latency) / memory).clamp(0.0, 1.0);
        SavedLatency {
            l2: saved(caches.l2.latency),
            l3: caches.l3.as_ref().map_or(0.0, |l3| saved(l3.latency)),
        }
    }
}

/// The adaptive policy.
#[derive(Debug, Clone)]
pub struct Adaptive {
    saved: SavedLatency,
    /// Last worth of each candidate, and the epoch when it was found.
    tried: [Option<PolicyTrial>; CANDIDATES.len()],
    /// The candidate in force.
    in_force: usize,
    phase: Phase,
    epoch: Epoch,
    epochs: u64,
    changes: u64,
}

#[derive(Debug, Clone, Copy)]
struct PolicyTrial {
    worth: f64,
    epoch: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Every candidate that was not tried yet has an epoch.
    Trial,
    /// The best is in force for this number of epochs; then another is tried.
    Use { left: u32 },
    /// Another is tried for one epoch; `best` is the one in use.
    Probe { best: usize },
}

/// What has happened since the epoch began.
#[derive(Debug, Clone, Copy, Default)]
struct Epoch {
    written: WrittenLines,
    /// Counts at its beginning, if a policy came into force then.
    at_change: InjectionCounts,
    /// Counts from when on outcomes count.
    since: Option<InjectionCounts>,
    outcomes: InjectionCounts,
}

impl Epoch {
    /// The first of a policy.
    fn first(counts: InjectionCounts) -> Epoch {
        Epoch { at_change: counts, ..Epoch::default() }
    }

    /// Another of the same policy.
    fn next(counts: InjectionCounts) -> Epoch {
        Epoch { since: Some(counts), ..Epoch::default() }
    }

    fn lines(&self) -> u64 {
        self.written.l2 + self.written.l3 + self.written.memory
    }

    fn injected(&self) -> u64 {
        self.written.l2 + self.written.l3
    }

    fn resolved(&self) -> u64 {
        self.outcomes.used + self.outcomes.evicted
    }

    fn observe(&mut self, written: WrittenLines, counts: InjectionCounts) {
        self.written.l2 += written.l2;
        self.written.l3 += written.l3;
        self.written.memory += written.memory;
        match &self.since {
            Some(since) => self.outcomes = counts.since(since),
            None if self.is_warm(&counts) => self.since = Some(counts),
            None => {}
        }
    }

    /// The lines of the former policy have their outcomes.
    fn is_warm(&self, counts: &InjectionCounts) -> bool {
        let without_outcome = self.at_change.pending();
        let InjectionCounts { used, evicted, .. } = counts.since(&self.at_change);
        let is_settled = used + evicted >= without_outcome;
        is_settled || self.lines() >= LONGEST_WARM_UP
    }

    /// The policy injects lines, and they go unused.
    fn is_harmful(&self) -> bool {
        let InjectionCounts { used, evicted, .. } = self.outcomes;
        self.injected() >= HARM && evicted >= HARM && evicted > 3 * used
    }

    fn is_over(&self) -> bool {
        let enough = self.since.is_some() && self.resolved() >= self.injected() / 2;
        let is_idle = self.injected() == 0;
        self.lines() >= EPOCH && (enough || is_idle || self.lines() >= LONGEST)
    }

    fn worth(&self, saved: &SavedLatency) -> f64 {
        let (injected, resolved) = (self.injected() as f64, self.resolved() as f64);
        if injected == 0.0 || resolved == 0.0 {
            return 0.0;
        }
        let InjectionCounts { used, evicted, .. } = self.outcomes;
        let in_l2 = self.written.l2 as f64 / injected;
        let saved = in_l2 * saved.l2 + (1.0 - in_l2) * saved.l3;
        let gain = used as f64 * saved - evicted as f64 * WASTE;
        injected / self.lines() as f64 * gain / resolved
    }
}

impl Adaptive {
    /// For a machine, from the first of [`CANDIDATES`] on.
    pub fn new(machine: &SimulatedMachine) -> Adaptive {
        Adaptive::from(0, SavedLatency::of(machine))
    }

    /// From a candidate on.
    fn from(candidate: usize, saved: SavedLatency) -> Adaptive {
        Adaptive {
            saved,
            tried: [None; CANDIDATES.len()],
            in_force: candidate,
            phase: Phase::Trial,
            epoch: Epoch::default(),
            epochs: 0,
            changes: 0,
        }
    }

    /// The policy that is in force.
    pub fn current(&self) -> FixedPolicy {
        CANDIDATES[self.in_force]
    }

    /// How many times the policy has changed.
    pub(super) fn changes(&self) -> u64 {
        self.changes
    }

    /// Takes note of lines that were written, and of what has become of all injected lines.
    pub(super) fn observe(&mut self, written: WrittenLines, counts: InjectionCounts) {
        self.epoch.observe(written, counts);
        if self.epoch.is_over() || self.epoch.is_harmful() {
            let before = self.in_force;
            self.end_epoch();
            self.epoch = match self.in_force == before {
                true => Epoch::next(counts),
                false => Epoch::first(counts),
            };
        }
    }

    /// Notes the worth of the policy in force, and decides which is next.
    fn end_epoch(&mut self) {
        let worth = self.epoch.worth(&self.saved);
        let before = self.tried[self.in_force].map(|trial| trial.worth);
        self.epochs += 1;
        self.tried[self.in_force] = Some(PolicyTrial { worth, epoch: self.epochs });
        match self.phase {
            Phase::Trial => self.try_next(),
            Phase::Use { .. } if before.is_some_and(|before| worth < before - DROP) => {
                self.tried = [None; CANDIDATES.len()];
                self.phase = Phase::Trial;
                self.try_next();
            }
            Phase::Use { left: 0 } => {
                let best = self.in_force;
                self.phase = Phase::Probe { best };
                self.put_in_force(self.longest_untried());
            }
            Phase::Use { left } => self.phase = Phase::Use { left: left - 1 },
            Phase::Probe { best } => {
                let in_use = self.tried[best].map_or(0.0, |trial| trial.worth);
                if worth <= in_use + MARGIN {
                    self.put_in_force(best);
                }
                let lost = (in_use - worth).max(0.0) * self.epoch.lines() as f64;
                let left = (lost / PROBE_BUDGET / EPOCH as f64).ceil() as u32;
                let left = left.min(LONGEST_USE);
                self.phase = Phase::Use { left };
            }
        }
    }

    /// Puts the next candidate without a trial in force, or the best if all have had one.
    fn try_next(&mut self) {
        let order = (0..CANDIDATES.len()).map(|step| (self.in_force + step) % CANDIDATES.len());
        if let Some(candidate) = order.clone().find(|candidate| self.tried[*candidate].is_none()) {
            self.put_in_force(candidate);
            return;
        }
        let worth = |candidate: &usize| self.tried[*candidate].map_or(0.0, |t| t.worth);
        let best = order.max_by(|a, b| worth(a).total_cmp(&worth(b)).then(b.cmp(a)));
        self.put_in_force(best.unwrap_or(self.in_force));
        self.phase = Phase::Use { left: FIRST_USE };
    }

    /// The candidate other than the one in use whose last trial was first.
    fn longest_untried(&self) -> usize {
        let others = (0..CANDIDATES.len()).filter(|candidate| *candidate != self.in_force);
        let since = |candidate: &usize| self.tried[*candidate].map_or(0, |trial| trial.epoch);
        others.min_by_key(since).unwrap_or(self.in_force)
    }

    fn put_in_force(&mut self, candidate: usize) {
        if candidate != self.in_force {
            self.changes += 1;
        }
        self.in_force = candidate;
    }
}

#[cfg(test)]
mod tests;
