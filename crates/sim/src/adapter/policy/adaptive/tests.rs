use std::collections::VecDeque;

use super::*;
use crate::adapter::policy::fixed::{CacheSizes, Incoming, MatchKind, PlacedBytes};
use crate::memory::InjectTarget;

const SAVED: SavedLatency = SavedLatency { l2: 0.95, l3: 0.65 };
const CACHES: CacheSizes = CacheSizes { line: 128, l2: 1920 << 10, l3: Some(36 << 20) };

/// What a program does with injected lines: the part of them that it uses, by where they are.
#[derive(Debug, Clone, Copy)]
struct World {
    events_in_l2: f64,
    payload_in_l2: f64,
    payload_in_l3: f64,
    /// Bytes of a message.
    bytes: u64,
    /// Lines that are written between an injection and its outcome.
    delay: u64,
}

/// Uses small messages at once.
const LATENCY_BOUND: World =
    World { events_in_l2: 0.98, payload_in_l2: 0.05, payload_in_l3: 0.1, bytes: 512, delay: 100 };
/// Uses large messages soon.
const BANDWIDTH_BOUND: World = World {
    events_in_l2: 0.9,
    payload_in_l2: 0.2,
    payload_in_l3: 0.92,
    bytes: 400 << 10,
    delay: 2000,
};
/// Its own data drives everything out of the L3.
const L2_ALONE: World =
    World { events_in_l2: 0.95, payload_in_l2: 0.95, payload_in_l3: 0.3, bytes: 4096, delay: 200 };
/// Uses nothing of what comes.
const POLLUTED: World =
    World { events_in_l2: 0.02, payload_in_l2: 0.02, payload_in_l3: 0.02, bytes: 2048, delay: 500 };

/// A program on simulated caches.
struct Program {
    state: u64,
    lines: u64,
    /// Line count when it is known, and whether the line was used.
    pending: VecDeque<(u64, bool)>,
    counts: InjectionCounts,
    /// What the injections were really worth, in memory reads.
    worth: f64,
}

impl Program {
    fn new() -> Program {
        Program {
            state: 1,
            lines: 0,
            pending: VecDeque::new(),
            counts: InjectionCounts::default(),
            worth: 0.0,
        }
    }

    fn chance(&mut self, probability: f64) -> bool {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        ((self.state >> 11) as f64) < probability * (1_u64 << 53) as f64
    }

    /// Lines are written; how much of them is used, and what a use saves.
    fn inject(&mut self, lines: u64, used: f64, saved: f64, delay: u64) {
        for _ in 0..lines {
            let is_used = self.chance(used);
            self.worth += if is_used { saved } else { -WASTE };
            self.counts.injected += 1;
            self.pending.push_back((self.lines + delay, is_used));
        }
    }

    /// One message and its event under a policy. Returns the lines that were written.
    fn message(&mut self, policy: FixedPolicy, world: &World) -> WrittenLines {
        let incoming = Incoming {
            address: 0,
            bytes: world.bytes,
            kind: if self.chance(0.5) { MatchKind::Preposted } else { MatchKind::Unexpected },
            is_awaited: self.chance(0.5),
            is_hinted: false,
        };
        let runs = policy.payload(&incoming, &CACHES, |_, _| false);
        let event = PlacedBytes { bytes: 1, target: policy.event() };
        let mut written = WrittenLines::default();
        let payload = [world.payload_in_l2, world.payload_in_l3];
        let of_payload = runs.into_iter().map(|run| (run, payload));
        for (run, used) in of_payload.chain([(event, [world.events_in_l2, 0.0])]) {
            let lines = run.bytes.div_ceil(CACHES.line);
            self.lines += lines;
            match run.target {
                InjectTarget::Memory => written.memory += lines,
                InjectTarget::L2 { .. } => {
                    written.l2 += lines;
                    self.inject(lines, used[0], SAVED.l2, world.delay);
                }
                InjectTarget::L3 => {
                    written.l3 += lines;
                    self.inject(lines, used[1], SAVED.l3, world.delay);
                }
            }
        }
        while let Some((due, is_used)) = self.pending.front().copied()
            && due <= self.lines
        {
            self.counts.used += u64::from(is_used);
            self.counts.evicted += u64::from(!is_used);
            self.pending.pop_front();
        }
        written
    }
}

/// Worth of a policy per line over this number of lines of each world in turn.
fn worth_of(policy: FixedPolicy, worlds: &[World], lines: u64) -> f64 {
    let mut program = Program::new();
    for world in worlds {
        let end = program.lines + lines;
        while program.lines < end {
            program.message(policy, world);
        }
    }
    program.worth / program.lines as f64
}

/// The worth of the adaptive policy, and the policy that it ends with.
fn worth_of_adaptive(start: usize, worlds: &[World], lines: u64) -> (f64, FixedPolicy) {
    let mut program = Program::new();
    let mut adaptive = Adaptive::from(start, SAVED);
    for world in worlds {
        let end = program.lines + lines;
        while program.lines < end {
            adaptive.observe(program.message(adaptive.current(), world), program.counts);
        }
    }
    (program.worth / program.lines as f64, adaptive.current())
}

fn best_of(worlds: &[World], lines: u64) -> (f64, FixedPolicy) {
    let all = CANDIDATES.map(|policy| (worth_of(policy, worlds, lines), policy));
    all.into_iter().max_by(|a, b| a.0.total_cmp(&b.0)).expect("there are candidates")
}

/// Lines of a run: about a thousand epochs.
const LONG: u64 = 500_000;

#[test]
fn comes_close_to_the_best_fixed_policy_from_every_start() {
    for world in [LATENCY_BOUND, BANDWIDTH_BOUND, L2_ALONE] {
        let (best, policy) = best_of(&[world], LONG);
        assert!(best > 0.1, "the world has a good policy: {best}");
        for (start, from) in CANDIDATES.iter().enumerate() {
            let (worth, _) = worth_of_adaptive(start, &[world], LONG);
            assert!(worth > 0.9 * best, "{world:?}: from {from} {worth}, best {policy} {best}");
        }
    }
}

#[test]
fn leaves_a_bad_policy_after_few_lines() {
    let bad = CANDIDATES.iter().position(|p| p.to_string() == "message").expect("a candidate");
    let world = LATENCY_BOUND;
    assert!(worth_of(CANDIDATES[bad], &[world], LONG) < 0.0);
    let mut program = Program::new();
    let mut adaptive = Adaptive::from(bad, SAVED);
    while adaptive.current() == CANDIDATES[bad] {
        adaptive.observe(program.message(adaptive.current(), &world), program.counts);
        assert!(program.lines < 1000, "still in force after {} lines", program.lines);
    }
}

#[test]
fn does_little_harm_where_every_injection_does() {
    let (best, policy) = best_of(&[POLLUTED], LONG);
    assert_eq!((best, policy), (0.0, FixedPolicy::BASE));
    for (start, from) in CANDIDATES.iter().enumerate() {
        let (worth, _) = worth_of_adaptive(start, &[POLLUTED], LONG);
        assert!(worth > -0.03, "from {from}: {worth}");
    }
    let message = worth_of(CANDIDATES[0], &[POLLUTED], LONG);
    assert!(message < -0.9, "{message}");
}

#[test]
fn follows_a_program_that_changes() {
    let worlds = [L2_ALONE, POLLUTED, BANDWIDTH_BOUND, LATENCY_BOUND];
    let (fixed, policy) = best_of(&worlds, 3 * LONG);
    let each = worlds.map(|world| best_of(&[world], 3 * LONG).0);
    let ideal = each.iter().sum::<f64>() / worlds.len() as f64;
    let (worth, _) = worth_of_adaptive(0, &worlds, 3 * LONG);
    assert!(worth > 0.85 * ideal, "{worth} of {ideal}");
    assert!(worth > 1.2 * fixed, "{worth}, best fixed {policy} {fixed}");
}

#[test]
fn decides_by_the_counts_alone() {
    let worlds = [L2_ALONE, POLLUTED];
    assert_eq!(worth_of_adaptive(3, &worlds, 100_000), worth_of_adaptive(3, &worlds, 100_000));
}

#[test]
fn saved_latencies_are_those_of_the_machine() {
    let machine = SimulatedMachine::named("power5-redstorm").expect("a shipped machine");
    let SavedLatency { l2, l3 } = SavedLatency::of(&machine);
    assert!((l2 - (1.0 - 10.0 / 230.0)).abs() < 1e-9, "{l2}");
    assert!((l3 - (1.0 - 80.0 / 230.0)).abs() < 1e-9, "{l3}");
}
