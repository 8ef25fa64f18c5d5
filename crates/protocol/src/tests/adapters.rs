//! Messages over adapters that match by themselves: programs against the model, in any order of
//! arrivals and completions; waiting ranks, as threads; schedules; what goes beyond the adapter's
//! room.

use std::sync::Arc;
use std::thread;

use fastrand::Rng;
use mica_channel::adapter::fake::{FakeDelivery, FakeNetwork};
use mica_memory::View;
use mica_node::adapter::EVENTS;
use proptest::prelude::*;

use super::buffers::Buffer;
use super::program::{Call, ObservedNetwork, Run, call};
use super::rig::{assert_idle, over_adapters, over_packets_of_adapters};
use super::scripted::Head;
use crate::adapter::operations::Injection;
use crate::engine::Engine;
use crate::matching::{MatchEnvelope, MatchPattern};
use crate::pt2pt::select::SendCompletion::{self, Local, Matched};
use crate::pt2pt::{ReceiveStage, RecvId};
use crate::schedule::{ScheduleStage, ScheduleStep};

/// Around what the adapter keeps at its sender (200 bytes), and short and long.
const LENGTHS: &[usize] = &[0, 1, 40, 41, 199, 200, 201, 1500];
const EAGER_MAX: usize = 200;

impl ObservedNetwork for FakeNetwork {
    fn bring(&self, rank: u32, random: &mut Rng) {
        FakeNetwork::bring(self, rank, &mut |n| random.usize(..n));
    }

    fn take_heads(&self) -> Vec<Head> {
        let arrivals = self.take_arrivals();
        let of_others = arrivals.iter().filter(|a| a.source != a.receiver);
        let head = |a: &mica_channel::adapter::fake::FakeArrival| Head {
            receiver: a.receiver,
            envelope: MatchEnvelope { context: a.context, source: a.source, tag: a.tag },
            len: a.bytes,
        };
        of_others.map(head).collect()
    }

    fn assert_empty(&self) {
        FakeNetwork::assert_empty(self);
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 300,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn ranks_match_as_the_model_does(
        ranks in 1u32..5,
        calls in prop::collection::vec(call(4, LENGTHS), 0..120),
        seed: u64,
    ) {
        let calls: Vec<_> = calls.into_iter().map(|(rank, call)| (rank % ranks, call)).collect();
        let (engines, network) = over_adapters(ranks, EAGER_MAX, FakeDelivery::Stepped);
        Run::new(&engines, Some(&network), seed).run(&calls);
    }

    #[test]
    fn packets_over_an_adapter_carry_the_same_programs(
        calls in prop::collection::vec(call(2, LENGTHS), 0..60),
        seed: u64,
    ) {
        let is_deterministic = |call: &Call| match call {
            Call::Send { .. } => true,
            Call::Receive { pattern, .. } => pattern.source.is_some(),
            _ => false,
        };
        let calls: Vec<_> = calls.into_iter().filter(|(_, c)| is_deterministic(c)).collect();
        let (engines, _network) = over_packets_of_adapters(2, FakeDelivery::AtOnce);
        Run::new(&engines, None, seed).run(&calls);
    }
}

fn pattern(source: Option<u32>, tag: Option<i32>) -> MatchPattern {
    MatchPattern { context: 0, source, tag }
}

/// Runs `f` for each rank in a thread of its own.
fn in_threads(engines: &[Engine], f: impl Fn(&Engine) + Sync) {
    thread::scope(|scope| {
        for engine in engines {
            let f = &f;
            scope.spawn(move || f(engine));
        }
    });
}

/// The bytes of `view`.
fn bytes(view: &View) -> Vec<u8> {
    let mut bytes = vec![0; view.len()];
    view.pack(0, &mut bytes);
    bytes
}

fn buffer_of(content: &[u8]) -> Buffer {
    let buffer = Buffer::new(content.len(), false);
    buffer.view.unpack(0, content);
    buffer
}

#[test]
fn blocking_calls_wait_by_the_register() {
    let (engines, network) = over_adapters(2, EAGER_MAX, FakeDelivery::AtOnce);
    let lengths = [0usize, 8, 200, 201, 5000];
    in_threads(&engines, |engine| {
        for (round, &len) in (0..).zip(lengths.iter().cycle().take(200)) {
            let (me, peer) = (engine.rank(), 1 - engine.rank());
            let completion = if round % 3 == 0 { Matched } else { Local };
            let outgoing = Buffer::of_message(round as usize, len, false);
            let incoming = Buffer::new(len, round % 2 == 0);
            let from = pattern((round % 5 != 0).then_some(peer), None);
            if me == 0 {
                engine.send(peer, 0, round, &outgoing.view, completion).expect("sent");
            }
            if round % 4 == 1 {
                let found = engine.probe(from, |state| state.probe(&from)).expect("a message");
                assert_eq!((found.envelope.source, found.bytes), (peer, len));
            }
            let done = engine.receive(from, &incoming.view).expect("received");
            assert_eq!((done.envelope.source, done.envelope.tag, done.sent), (peer, round, len));
            incoming.assert_holds(round as usize, len);
            if me == 1 {
                engine.send(peer, 0, round, &outgoing.view, completion).expect("sent");
            }
        }
    });
    engines.iter().for_each(assert_idle);
    network.assert_empty();
    assert!(network.waits(0) > 0 || network.waits(1) > 0, "no rank has waited");
    for engine in &engines {
        assert_eq!(engine.parked_in(), None);
        assert_eq!(engine.counters().get(mica_node::counters::Counter::Parks), 0);
    }
}

#[test]
fn a_matched_probe_takes_the_message_out_of_matching() {
    let (engines, network) = over_adapters(2, EAGER_MAX, FakeDelivery::AtOnce);
    in_threads(&engines, |engine| {
        if engine.rank() == 0 {
            for (tag, len) in [(7, 300), (7, 20)] {
                let buffer = Buffer::of_message(len, len, false);
                engine.send(1, 0, tag, &buffer.view, Local).expect("sent");
            }
            return;
        }
        let any = pattern(None, None);
        let found = engine.probe(any, |state| state.probe_matched(&any));
        let (message, found) = found.expect("a message");
        assert_eq!((found.bytes, found.envelope.tag), (300, 7));
        // The sender of the first message waits for its receive, which starts only now.
        let buffer = Buffer::new(300, false);
        let id = engine.enter(|state| state.receive_probed(message, &buffer.view));
        let id = id.expect("memory");
        let done = engine.drive(|_, _| {}, |state| state.take_received(id));
        assert_eq!(done.expect("received").sent, 300);
        buffer.assert_holds(300, 300);
        let short = Buffer::new(10, false);
        let done = engine.receive(pattern(Some(0), Some(7)), &short.view).expect("received");
        assert_eq!((done.sent, done.capacity), (20, 10), "the message was longer");
    });
    engines.iter().for_each(assert_idle);
    network.assert_empty();
}

/// A dissemination barrier and an allgather by a ring, of which rank `me` sends `own`.
fn allgather(size: u32, me: u32, blocks: &[Buffer]) -> Arc<[ScheduleStage]> {
    let barrier = (0..size.ilog2()).map(|round| {
        let nothing = || Buffer::new(0, false).view;
        let (to, from) = ((me + (1 << round)) % size, (me + size - (1 << round)) % size);
        vec![
            ScheduleStep::Send { peer: to, view: nothing() },
            ScheduleStep::Receive { peer: from, view: nothing() },
        ]
    });
    let ring = (0..size - 1).map(|round| {
        let (right, left) = ((me + 1) % size, (me + size - 1) % size);
        let block = |back: u32| blocks[((me + 2 * size - back) % size) as usize].view.clone();
        vec![
            ScheduleStep::Send { peer: right, view: block(round) },
            ScheduleStep::Receive { peer: left, view: block(round + 1) },
        ]
    });
    let stages = barrier.chain(ring);
    stages.map(|steps| ScheduleStage { steps, local: Vec::new(), task: None }).collect()
}

#[test]
fn schedules_of_collectives_run_at_four_ranks() {
    const SIZE: u32 = 4;
    for (len, seed) in [(16usize, 1u64), (1000, 2), (1000, 3)] {
        let (engines, network) = over_adapters(SIZE, EAGER_MAX, FakeDelivery::Stepped);
        let content = |rank: u32| vec![rank as u8 + 1; len];
        let blocks: Vec<Vec<Buffer>> = (0..SIZE)
            .map(|me| {
                let block = |of| if of == me { content(of) } else { vec![0; len] };
                (0..SIZE).map(|of| buffer_of(&block(of))).collect()
            })
            .collect();
        let mut ids: Vec<_> = (engines.iter().zip(&blocks))
            .map(|(engine, blocks)| {
                let stages = allgather(SIZE, engine.rank(), blocks);
                engine.enter(|state| Some(state.start_schedule(1, 5, stages)))
            })
            .collect();
        let mut random = Rng::with_seed(seed);
        for step in 0.. {
            assert!(step < 100_000, "hangs");
            let rank = random.usize(..SIZE as usize);
            ObservedNetwork::bring(&network, rank as u32, &mut random);
            engines[rank].enter(|state| state.progress()).expect("no fault");
            let result = ids[rank].and_then(|id| engines[rank].enter(|s| s.take_schedule(id)));
            if let Some(result) = result {
                assert!(result.is_ok(), "{result:?}");
                ids[rank] = None;
            }
            if ids.iter().all(Option::is_none) {
                break;
            }
        }
        for blocks in &blocks {
            for (of, block) in (0..).zip(blocks) {
                assert_eq!(bytes(&block.view), content(of));
            }
        }
        // Their sends may complete after the schedule that has abandoned none.
        (0..SIZE).for_each(|rank| network.bring(rank, &mut |n| n - 1));
        engines.iter().for_each(assert_idle);
        network.assert_empty();
    }
}

/// Posts receives with the tags from 0 on.
fn post(engine: &Engine, count: usize) -> Vec<(RecvId, Buffer)> {
    let post = |tag| {
        let buffer = Buffer::new(8, false);
        let wanted = pattern(Some(0), Some(tag));
        let id = engine.enter(|state| state.receive(wanted, &buffer.view));
        (id.expect("memory"), buffer)
    };
    (0..count as i32).map(post).collect()
}

#[test]
fn operations_beyond_the_adapters_room_wait_in_order() {
    const COUNT: usize = EVENTS + 100;
    let (engines, network) = over_adapters(1, EAGER_MAX, FakeDelivery::AtOnce);
    let engine = &engines[0];
    let receives = post(engine, COUNT);
    let last = COUNT as i32 - 1;
    // Queued behind the receives. A probe does not find what a queued receive is to get.
    let send = |tag: i32| {
        let buffer = Buffer::of_message(tag as usize, 8, false);
        let sent = engine.enter(|state| state.send(0, 0, tag, &buffer.view, Local));
        (sent.expect("memory").expect("not at once"), buffer)
    };
    let sends: Vec<_> = [last, 3].map(send).into();
    assert_eq!(engine.enter(|state| state.probe(&pattern(None, Some(last)))), None);
    // A queued receive is cancelled here, a posted one by the adapter.
    for at in [COUNT - 2, 5] {
        engine.enter(|state| {
            state.cancel_receive(receives[at].0);
            assert!(state.take_received(receives[at].0).expect("ended").cancelled);
        });
    }
    // Room comes when others are cancelled.
    for (at, (id, _)) in receives.iter().enumerate() {
        let is_awaited = [3, COUNT - 1].contains(&at);
        let is_ended = [COUNT - 2, 5].contains(&at);
        if !is_awaited && !is_ended {
            engine.enter(|state| {
                state.cancel_receive(*id);
                assert!(state.take_received(*id).expect("ended").cancelled);
            });
        }
    }
    for (id, _buffer) in sends {
        engine.drive(|_, _| {}, |state| state.take_send(id).map(|_| ())).expect("sent");
    }
    for at in [3, COUNT - 1] {
        let (id, buffer) = &receives[at];
        let done = engine.drive(|_, _| {}, |state| state.take_received(*id)).expect("received");
        assert_eq!(done.envelope.tag, at as i32);
        buffer.assert_holds(at, 8);
    }
    assert_idle(engine);
    network.assert_empty();
}

#[test]
fn hints_name_the_receives_of_their_communicator() {
    let (engines, network) = over_adapters(1, EAGER_MAX, FakeDelivery::AtOnce);
    let engine = &engines[0];
    let receive = |context| {
        let buffer = Buffer::new(4, false);
        let wanted = MatchPattern { context, ..pattern(None, None) };
        engine.enter(|state| {
            let id = state.receive(wanted, &buffer.view).expect("memory");
            let stage = state.receives.ops[id.index()].stage;
            let ReceiveStage::AtAdapter { operation } = stage else {
                panic!("{stage:?}");
            };
            let adapter = state.adapter.as_ref().expect("there is one");
            let token = adapter.operations[operation as usize].token;
            state.cancel_receive(id);
            assert!(state.take_received(id).expect("ended").cancelled);
            token
        })
    };
    receive(4);
    engine.hint_receives(4, Injection::Wanted);
    let hinted = [receive(4), receive(5)];
    receive(6);
    engine.hint_receives(4, Injection::Unspecified);
    receive(4);
    assert_eq!(network.hints(0), hinted);
    engine.mark(1);
    engine.mark(-1);
    assert_eq!(network.marks(0), [1, u64::MAX]);
}

#[test]
fn a_send_to_no_rank_is_a_fault() {
    let (engines, _network) = over_adapters(2, EAGER_MAX, FakeDelivery::AtOnce);
    let buffer = Buffer::of_message(1, 8, false);
    // Ranks beyond the job are never named by the layers above; only the adapter can tell.
    let posted = engines[0].enter(|state| {
        let to: (u64, i32) = (0, 0);
        state.send_by_adapter(2, to, &buffer.view, SendCompletion::Local)
    });
    assert!(posted.expect("memory").is_some());
    let fault = engines[0].enter(|state| state.progress()).expect_err("refused");
    assert!(fault.to_string().contains("refused"), "{fault}");
}
