//! Segments that are added to running engines, and removed again.

use std::ops::Range;
use std::sync::{Arc, Weak};

use mica_channel::direct::DirectOptions;
use mica_node::counters::TrafficClass;
use mica_node::segment::{JobSegment, JobSpec};
use mica_node::topology::CorePlace;
use mica_node::tunables::SegmentShape;

use super::buffers::Buffer;
use super::rig::{HOLD, SHAPE, alone, assert_idle, engine, over_shared_memory};
use crate::engine::Engine;
use crate::matching::MatchPattern;
use crate::pt2pt::{RecvId, SendCompletion, SendId};
use crate::segments::RemoveError;

/// Around the limits of a header and a packet, and longer than the ring.
const LENGTHS: [usize; 8] = [0, 8, 40, 41, 2000, 8192, 8193, 300_000];

const FIFOS: SegmentShape = SegmentShape { fifo_bytes: Some(64 << 10), ..SHAPE };

const MIXED: SegmentShape = SegmentShape { mixed: true, ..FIFOS };

/// A segment for `ranks` ranks, all of which this process has claimed.
fn segment(ranks: u32, shape: SegmentShape) -> Arc<JobSegment> {
    let places = vec![CorePlace::UNKNOWN; ranks as usize];
    let spec = JobSpec::on_one_node(&places, ranks, &[]);
    let segment = JobSegment::create_shaped(&spec, shape).expect("segment");
    (0..ranks).for_each(|rank| segment.claim(rank).expect("free"));
    Arc::new(segment)
}

/// The engines of two jobs: one of two ranks, one of a single rank.
fn two_jobs() -> Vec<Engine> {
    let mut engines = over_shared_memory(2, SHAPE, &DirectOptions::OFF);
    engines.push(engine(&alone(1, 0), 0, None, &DirectOptions::OFF, HOLD));
    engines
}

/// Adds `segment` to all engines, as its ranks in order. Returns what each calls its ranks.
fn add(engines: &[Engine], segment: &Arc<JobSegment>) -> Vec<Range<u32>> {
    let added = (0..).zip(engines);
    let added = added.map(|(me, engine)| engine.add_segment(segment, me).expect("memory"));
    added.collect()
}

fn remove(engines: &[Engine], names: &[Range<u32>]) {
    for (engine, peers) in engines.iter().zip(names) {
        engine.remove_segment(peers).expect("nothing is pending");
    }
}

fn from(source: Option<u32>) -> MatchPattern {
    MatchPattern { context: 4, source, tag: Some(7) }
}

/// A message between two engines, in progress.
struct Transfer {
    engines: [usize; 2],
    send: Option<SendId>,
    receive: Option<RecvId>,
    /// The receiver's name of the sender.
    source: u32,
    sent: Buffer,
    received: Buffer,
    id: usize,
}

impl Transfer {
    fn start(
        engines: &[Engine],
        [from_at, to_at]: [usize; 2],
        [to, source]: [u32; 2],
        [id, len]: [usize; 2],
    ) -> Transfer {
        let (sent, received) = (Buffer::of_message(id, len, id % 3 == 2), Buffer::new(len, false));
        // Synchronous sends and wildcards, in turn.
        let completion = match id % 2 {
            0 => SendCompletion::Local,
            _ => SendCompletion::Matched,
        };
        let any = id % 5 == 4;
        let pattern = from((!any).then_some(source));
        let receive = engines[to_at].enter(|state| state.receive(pattern, &received.view));
        let send = engines[from_at].enter(|state| state.send(to, 4, 7, &sent.view, completion));
        Transfer {
            engines: [from_at, to_at],
            send: send.expect("no fault"),
            receive: Some(receive.expect("no fault")),
            source,
            sent,
            received,
            id,
        }
    }

    /// True when it is complete on both sides.
    fn step(&mut self, engines: &[Engine]) -> bool {
        let [from, to] = self.engines;
        engines[from].enter(|state| {
            if self.send.is_some_and(|id| state.take_send(id).is_some()) {
                self.send = None;
                self.sent.reuse();
            }
        });
        engines[to].enter(|state| {
            if let Some(done) = self.receive.and_then(|id| state.take_received(id)) {
                assert_eq!(done.envelope.source, self.source);
                assert_eq!(done.sent, self.sent.view.len());
                self.received.assert_holds(self.id, done.sent);
                self.receive = None;
            }
        });
        self.send.is_none() && self.receive.is_none()
    }
}

/// Messages of all lengths between all pairs, several of a pair at a time, until all have arrived.
fn exchange(engines: &[Engine], names: &[Range<u32>]) {
    let count = engines.len();
    for from in 0..count {
        let mut transfers: Vec<Transfer> = Vec::new();
        for to in (0..count).filter(|&to| to != from) {
            let called = [names[from].start + to as u32, names[to].start + from as u32];
            for (id, len) in LENGTHS.into_iter().enumerate() {
                transfers.push(Transfer::start(engines, [from, to], called, [id, len]));
            }
        }
        while !transfers.is_empty() {
            for engine in engines {
                engine.enter(|state| state.progress().expect("no fault"));
            }
            transfers.retain_mut(|transfer| !transfer.step(engines));
        }
    }
}

/// Panics if memory of the segment with this identity is mapped in this process.
fn assert_unmapped(segment: &Weak<JobSegment>, identity: &str) {
    assert!(segment.upgrade().is_none(), "an engine refers to the segment");
    let inode = identity.rsplit(':').next().expect("a device and an inode");
    let maps = std::fs::read_to_string("/proc/self/maps").expect("maps");
    let has_inode = |line: &str| line.split_whitespace().nth(4) == Some(inode);
    let mapped = maps.lines().find(|line| line.contains("mica-job") && has_inode(line));
    assert_eq!(mapped, None, "segment {identity} is mapped");
}

#[test]
fn peers_of_added_segment_communicate_until_it_is_removed() {
    for shape in [SHAPE, FIFOS, MIXED] {
        let engines = two_jobs();
        let segment = segment(3, shape);
        let (alive, identity) = (Arc::downgrade(&segment), segment.identity());
        let names = add(&engines, &segment);
        drop(segment);
        assert_eq!(names, [2..5, 2..5, 1..4]);
        exchange(&engines, &names);
        // The job's own path goes on beside it.
        exchange(&engines[..2], &[0..2, 0..2]);
        remove(&engines, &names);
        assert_unmapped(&alive, &identity);
        engines.iter().for_each(assert_idle);
        exchange(&engines[..2], &[0..2, 0..2]);
    }
}

#[test]
fn several_segments_come_and_go_in_any_order() {
    let engines = two_jobs();
    let [first, second] = [segment(3, SHAPE), segment(3, SHAPE)];
    let (alive, identity) = (Arc::downgrade(&first), first.identity());
    let [first_names, second_names] = [&first, &second].map(|segment| add(&engines, segment));
    drop(first);
    assert_eq!(second_names[0], 5..8);
    exchange(&engines, &first_names);
    exchange(&engines, &second_names);
    remove(&engines, &first_names);
    assert_unmapped(&alive, &identity);
    exchange(&engines, &second_names);
    remove(&engines, &second_names);
    let third = segment(3, SHAPE);
    let third_names = add(&engines, &third);
    assert_eq!(third_names, [2..5, 2..5, 1..4], "numbers are free again");
    exchange(&engines, &third_names);
}

#[test]
fn segment_with_pending_communication_is_not_removed() {
    let engines = two_jobs();
    let segment = segment(3, SHAPE);
    let names = add(&engines, &segment);
    let refusal = |at: usize| match engines[at].remove_segment(&names[at]) {
        Err(RemoveError::Pending { pending, .. }) => pending,
        other => panic!("engine {at}: {other:?}"),
    };
    // From the first engine to the third, which the first calls 4.
    let (message, buffer) = (Buffer::of_message(1, 100, false), Buffer::new(100, false));
    let send =
        engines[0].enter(|state| state.send(4, 4, 7, &message.view, SendCompletion::Matched));
    let send = send.expect("no fault").expect("waits for its match");
    assert_eq!(refusal(0), "a send");
    assert_eq!(refusal(2), "a message");
    engines[2].enter(|state| state.progress().expect("no fault"));
    assert_eq!(refusal(2), "the receive of a message");
    let receive = engines[2].enter(|state| state.receive(from(Some(1)), &buffer.view));
    let receive = receive.expect("no fault");
    assert!(engines[2].enter(|state| state.take_received(receive)).is_some());
    engines[0].enter(|state| state.progress().expect("no fault"));
    assert!(engines[0].enter(|state| state.take_send(send).is_some()));
    let posted = engines[1].enter(|state| state.receive(from(Some(4)), &buffer.view));
    assert_eq!(refusal(1), "a receive");
    engines[1].enter(|state| state.cancel_receive(posted.expect("no fault")));
    remove(&engines, &names);
    let gone = RemoveError::NoSuchSegment { peers: 2..5 };
    assert_eq!(engines[0].remove_segment(&names[0]), Err(gone));
}

#[test]
fn messages_through_an_added_segment_are_not_counted_as_network_traffic() {
    let engines = two_jobs();
    let segment = segment(3, SHAPE);
    let names = add(&engines, &segment);
    exchange(&engines, &names);
    let counters = engines[0].counters();
    assert_eq!(counters.messages(TrafficClass::Net), 0);
    assert_eq!(counters.messages(TrafficClass::Ring), 2 * LENGTHS.len() as u64);
}

/// Waits until `engine` has announced what it waits for, which it does before it parks.
fn await_sleeper(engine: &Engine) {
    while engine.segment.block(engine.rank).waiting().is_none() {
        std::thread::yield_now();
    }
}

#[test]
fn thread_that_sleeps_when_a_segment_is_added_is_woken_by_its_peers() {
    let mut engines = two_jobs();
    // Without a limit on its sleep, a lost wake-up would hang here.
    engines.iter_mut().for_each(|engine| engine.is_watchful = false);
    engines.iter().for_each(Engine::set_thread_multiple);
    let segment = segment(3, SHAPE);
    let buffer = Buffer::new(100, false);
    std::thread::scope(|scope| {
        let engines = &engines;
        let sleeper = scope.spawn(|| engines[2].receive(from(None), &buffer.view));
        await_sleeper(&engines[2]);
        add(engines, &segment);
        let message = Buffer::of_message(3, 100, false);
        engines[0].send(4, 4, 7, &message.view, SendCompletion::Matched).expect("no fault");
        let done = sleeper.join().expect("no panic").expect("no fault");
        assert_eq!(done.envelope.source, 1);
    });
    buffer.assert_holds(3, 100);
}

#[test]
fn rank_that_sleeps_is_woken_by_all_its_segments() {
    let engines = two_jobs();
    let segment = segment(3, SHAPE);
    let names = add(&engines, &segment);
    // The second engine sleeps; the first wakes it through the job's segment and the added one.
    let sources = [0, names[1].start, names[1].start + 2];
    std::thread::scope(|scope| {
        let engines = &engines;
        scope.spawn(move || {
            for source in sources {
                let buffer = Buffer::new(100, false);
                let done = engines[1].receive(from(Some(source)), &buffer.view);
                assert_eq!(done.expect("no fault").envelope.source, source);
                buffer.assert_holds(2, 100);
            }
        });
        let message = Buffer::of_message(2, 100, false);
        for (at, peer) in [(0, 1), (0, names[0].start + 1), (2, names[2].start + 1)] {
            await_sleeper(&engines[1]);
            engines[at].send(peer, 4, 7, &message.view, SendCompletion::Matched).expect("no fault");
        }
    });
}
