//! What a rank keeps of unexpected messages is bounded, in whatever order packets arrive
//! (`crate::pt2pt::flow_control`).
//!
//! Each rank sends to all others, many messages at a time, and no rank receives. When nothing makes
//! progress any more, everything is received. Without `HOLD`, all messages would be kept; without
//! the window (`CREDIT`), all could be in flight before the `HOLD` arrives.

use fastrand::Rng;
use mica_node::counters::Counter;
use proptest::prelude::*;

use super::buffers::Buffer;
use super::rig::{assert_idle, over_fabric};
use super::scripted::{Fabric, Script};
use crate::channels::packet;
use crate::engine::Engine;
use crate::matching::{MatchPattern, UnexpectedQueue};
use crate::pt2pt::{SendCompletion, SendId, UnexpectedMessage};
use mica_memory::Block;
use mica_policy::HoldPolicy;

/// Messages of each pair.
const MESSAGES: usize = 1200;

/// Bytes of a message, and those that it is counted with.
const LEN: usize = 300;
const COUNTED: usize = UnexpectedQueue::<UnexpectedMessage>::ENTRY + Block::heap_bytes(LEN);

/// Sends of one pair that a rank starts before it waits for one of them.
const AT_ONCE: usize = 8;

/// Maximum number of messages of a rank that are in flight to another (`crate::channels`).
const WINDOW: u64 = 256;

const HOLD: HoldPolicy = HoldPolicy { max: 100_000 };

/// Maximum of bytes that a rank may keep beyond the limit of a sender that floods it: a window of
/// messages, and those that are only announced.
const BEYOND: u64 = (WINDOW + AT_ONCE as u64) * COUNTED as u64;

/// One direction of a pair.
struct Flow {
    from: u32,
    to: u32,
    begun: usize,
    active: Vec<(SendId, Buffer)>,
}

impl Flow {
    /// Advances its sends. True if anything changed.
    fn step(&mut self, engines: &[Engine], fabric: &Fabric) -> bool {
        let engine = &engines[self.from as usize];
        let before = (self.begun, self.active.len());
        self.active.retain(|(id, buffer)| {
            let done = engine.enter(|state| state.take_send(*id).is_some());
            if done {
                fabric.remove_buffer(self.from, buffer.address());
                buffer.reuse();
            }
            !done
        });
        if self.active.len() < AT_ONCE && self.begun < MESSAGES {
            let buffer = Buffer::of_message(self.begun, LEN, false);
            let (region, bytes) = buffer.memory();
            fabric.add_buffer(self.from, region, bytes);
            let sent = engine
                .enter(|state| state.send(self.to, 0, 0, &buffer.view, SendCompletion::Local));
            match sent.expect("no fault") {
                Some(id) => self.active.push((id, buffer)),
                None => fabric.remove_buffer(self.from, buffer.address()),
            }
            self.begun += 1;
        }
        (self.begun, self.active.len()) != before
    }

    fn is_over(&self) -> bool {
        self.begun == MESSAGES && self.active.is_empty()
    }
}

/// Consecutive steps without any progress after which there will be none.
const IDLE: usize = 500;

/// Floods all ranks, and receives everything when there is no more progress. Returns the maximum of
/// bytes that any rank kept.
fn flood(ranks: u32, script: Script, seed: u64) -> u64 {
    let (engines, fabric) = over_fabric(ranks, script, seed, HOLD);
    let mut random = Rng::with_seed(!seed);
    let pairs = (0..ranks).flat_map(|from| (0..ranks).map(move |to| (from, to)));
    let mut flows: Vec<Flow> = pairs
        .filter(|(from, to)| from != to)
        .map(|(from, to)| Flow { from, to, begun: 0, active: Vec::new() })
        .collect();
    let (mut most, mut idle) = (0, 0);
    while idle < IDLE {
        idle += 1;
        let at = random.usize(..flows.len());
        for _ in 0..random.usize(..40) {
            if flows[at].step(&engines, &fabric) {
                idle = 0;
            }
        }
        let rank = random.usize(..ranks as usize);
        engines[rank].enter(|state| {
            if state.progress().expect("no fault") {
                idle = 0;
            }
            most = most.max(state.queues.unexpected.bytes_from(0).1);
        });
    }
    let mut received = vec![0; flows.len()];
    while received.iter().any(|&n| n < MESSAGES) {
        idle += 1;
        assert!(idle < 200 * IDLE, "hangs: {received:?} received");
        let at = random.usize(..flows.len());
        flows[at].step(&engines, &fabric);
        let Flow { from, to, .. } = flows[at];
        let pattern = MatchPattern { context: 0, source: Some(from), tag: Some(0) };
        engines[to as usize].enter(|state| {
            state.progress().expect("no fault");
            for _ in 0..random.usize(..100) {
                let Some(found) = state.probe(&pattern) else {
                    break;
                };
                assert_eq!(found.bytes, LEN);
                let buffer = Buffer::new(LEN, false);
                let id = state.receive(pattern, &buffer.view).expect("no fault");
                let mut end = state.take_received(id);
                // A message that was only announced is fetched.
                let mut steps = 0;
                while end.is_none() {
                    steps += 1;
                    assert!(steps < 100 * IDLE, "an announced message is not fetched");
                    engines_but(&engines, to, |other| {
                        other.progress().expect("no fault");
                    });
                    state.progress().expect("no fault");
                    end = state.take_received(id);
                }
                buffer.assert_holds(received[at], LEN);
                received[at] += 1;
                idle = 0;
            }
        });
    }
    while !flows.iter().all(Flow::is_over) || !engines.iter().all(is_flushed) {
        idle += 1;
        assert!(idle < 200 * IDLE, "hangs");
        flows.iter_mut().for_each(|flow| _ = flow.step(&engines, &fabric));
        for engine in &engines {
            engine.enter(|state| state.progress()).expect("no fault");
        }
    }
    engines.iter().for_each(assert_idle);
    for (engine, peer) in engines.iter().flat_map(|e| (0..ranks).map(move |peer| (e, peer))) {
        let is_held = engine.enter(|state| state.channels.is_held(peer));
        assert!(!is_held, "rank {} is still held back by {peer}", engine.rank());
    }
    assert!(fabric.sent(packet::RTS) > 0, "no sender was held back");
    let total = |counter| engines.iter().map(|e| e.counters().get(counter)).sum::<u64>();
    assert!(total(Counter::HeldSenders) > 0, "holds are counted");
    assert!(total(Counter::UnexpectedMessages) > 0, "unexpected messages are counted");
    most
}

fn engines_but(engines: &[Engine], but: u32, f: impl Fn(&mut crate::EngineState)) {
    let others = engines.iter().filter(|engine| engine.rank() != but);
    others.for_each(|engine| engine.enter(&f));
}

fn is_flushed(engine: &Engine) -> bool {
    engine.enter(|state| state.is_flushed() && !state.has_work())
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 60,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn what_is_kept_stays_bounded_in_any_order(
        ranks in 2u32..4,
        link_room in prop::sample::select(&[3usize, 100, 100_000][..]),
        brings in prop::sample::select(&[1usize, 30, 64][..]),
        refuses_sends in prop::sample::select(&[0usize, 3][..]),
        reads: bool,
        seed: u64,
    ) {
        let script = Script {
            payload_max: 400,
            link_room,
            brings,
            refuses_sends,
            reads,
            ..Script::PLAIN
        };
        let most = flood(ranks, script, seed);
        let limit = HOLD.max + u64::from(ranks - 1) * BEYOND;
        prop_assert!(most <= limit, "{most} bytes are kept, where {limit} may be");
    }
}
