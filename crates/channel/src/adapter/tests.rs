//! The driver against the fake adapter: queues, packets, matching.

use super::fake::{FakeDelivery, FakeNetwork};
use super::*;
use crate::PacketSource;
use crate::shm::{INLINE, Packet};
use crate::transport::{
    MatchCompletion, MatchKey, MatchOperation, MatchOutcome, MatchingAdapter, Transport,
};
use mica_memory::{Block, Shape, View};
use mica_node::adapter::{COMMANDS, CommandKind, EVENTS, OperationStatus};

fn view(bytes: &[u8]) -> View {
    let region = Block::allocate(bytes.len()).expect("memory");
    region.write_bytes(bytes);
    region.view(Shape::Contiguous { bytes: bytes.len() })
}

fn content(view: &View) -> Vec<u8> {
    let mut bytes = vec![0; view.len()];
    view.pack(0, &mut bytes);
    bytes
}

fn network(ranks: u32, delivery: FakeDelivery) -> FakeNetwork {
    FakeNetwork::new(ranks, 16, delivery).expect("memory")
}

fn transport(network: &FakeNetwork, rank: u32) -> AdapterTransport {
    let (memory, registers) = network.end(rank);
    AdapterTransport::with_registers(memory, registers).expect("memory")
}

fn key(context: u64, peer: u32, tag: i32) -> MatchKey {
    MatchKey { context, peer: Some(peer), tag: Some(tag) }
}

fn next(transport: &mut AdapterTransport) -> Option<MatchCompletion> {
    transport.poll();
    transport.next_match()
}

#[test]
fn events_come_in_order_through_many_turns_of_both_rings() {
    let network = network(1, FakeDelivery::AtOnce);
    let (memory, registers) = network.end(0);
    let mut queue = AdapterQueue::new(memory, registers);
    for token in 0..3 * EVENTS as u64 {
        assert!(!queue.has_event());
        assert!(queue.post(&AdapterCommand::of(CommandKind::Probe, token)));
        let event = queue.take_event().expect("probes complete at once");
        assert_eq!((event.token, event.status), (token, OperationStatus::NotFound));
    }
    const { assert!(EVENTS > 2 * COMMANDS) };
}

#[test]
fn refuses_more_operations_than_events_have_places() {
    let network = network(1, FakeDelivery::AtOnce);
    let (memory, registers) = network.end(0);
    let mut queue = AdapterQueue::new(memory, registers);
    let receive = |token| AdapterCommand::of(CommandKind::Receive, token);
    for token in 0..EVENTS as u64 {
        assert!(queue.post(&receive(token)));
    }
    assert!(!queue.post(&receive(EVENTS as u64)));
    assert_eq!(queue.take_event(), None);
}

#[test]
fn messages_leave_room_for_probes() {
    let network = network(1, FakeDelivery::AtOnce);
    let mut transport = transport(&network, 0);
    let to = view(&[0; 4]);
    let mut posted = 0;
    while transport.post(MatchOperation::Receive(key(0, 0, 1), &to), posted) {
        posted += 1;
    }
    assert!(posted > EVENTS as u64 / 2);
    assert!(transport.post(MatchOperation::Probe(key(0, 0, 2)), posted));
    let found = next(&mut transport).expect("a probe completes");
    assert_eq!((found.token, found.outcome), (posted, MatchOutcome::NotFound));
}

#[test]
fn operations_complete_as_the_adapter_says() {
    let network = network(2, FakeDelivery::AtOnce);
    let mut sender = transport(&network, 0);
    let mut receiver = transport(&network, 1);
    let (short, long) = (view(b"short"), view(&[7; 100]));
    let to = view(&[0; 50]);

    assert!(receiver.post(MatchOperation::Receive(key(4, 0, 1), &to), 1));
    assert!(sender.post(MatchOperation::Send(key(4, 1, 1), &short), 2));
    assert_eq!(next(&mut sender).map(|c| c.token), Some(2));
    let done = next(&mut receiver).expect("matched");
    assert_eq!((done.outcome, done.bytes, done.source, done.tag), (MatchOutcome::Done, 5, 0, 1));
    assert_eq!(&content(&to)[..5], b"short");

    // A long message completes when it is matched; the receive is too short for it.
    assert!(sender.post(MatchOperation::Send(key(4, 1, 9), &long), 3));
    assert_eq!(next(&mut sender), None);
    let any = MatchKey { context: 4, peer: None, tag: None };
    assert!(receiver.post(MatchOperation::Probe(any), 4));
    let found = next(&mut receiver).expect("a probe completes");
    assert_eq!((found.bytes, found.source, found.tag), (100, 0, 9));
    assert!(receiver.post(MatchOperation::Extract(any), 5));
    assert_eq!(next(&mut receiver).map(|c| c.outcome), Some(MatchOutcome::Done));
    assert!(receiver.post(MatchOperation::Probe(any), 6));
    assert_eq!(next(&mut receiver).map(|c| c.outcome), Some(MatchOutcome::NotFound));
    assert!(receiver.post(MatchOperation::ReceiveExtracted(5, &to), 7));
    let done = next(&mut receiver).expect("received");
    assert_eq!((done.outcome, done.bytes), (MatchOutcome::Done, 100));
    assert_eq!(content(&to), [7; 50]);
    assert_eq!(next(&mut sender).map(|c| c.token), Some(3));

    assert!(receiver.post(MatchOperation::Receive(any, &to), 8));
    assert!(receiver.post(MatchOperation::Cancel(8), 9));
    let ends = [next(&mut receiver), receiver.next_match()];
    let ends = ends.map(|end| end.map(|c| (c.token, c.outcome)));
    assert!(ends.contains(&Some((9, MatchOutcome::Done))));
    assert!(ends.contains(&Some((8, MatchOutcome::Cancelled))));
    assert!(receiver.post(MatchOperation::Cancel(8), 10));
    assert_eq!(next(&mut receiver).map(|c| c.outcome), Some(MatchOutcome::NotFound));

    assert!(sender.post(MatchOperation::Send(key(4, 2, 0), &short), 11));
    assert_eq!(next(&mut sender).map(|c| c.outcome), Some(MatchOutcome::Refused));
    network.assert_empty();
}

fn packet(number: usize, payload: usize) -> Packet {
    let mut packet = Packet {
        context: u64::MAX - number as u64,
        tag: -(number as i32),
        payload: payload as u32,
        inline_len: INLINE as u8,
        aux: number as u16,
        ..Packet::of_kind(number as u8)
    };
    packet.inline = std::array::from_fn(|i| (i * number) as u8);
    packet
}

#[test]
fn packets_stay_in_order_though_long_ones_take_longer() {
    let network = network(2, FakeDelivery::Stepped);
    let mut ends = [transport(&network, 0), transport(&network, 1)];
    let payload: Vec<u8> = (0..ends[0].payload_max()).map(|i| i as u8).collect();
    let bytes = view(&payload);
    // Below and above the length up to which the fake adapter keeps no message at its sender.
    let len = |number: usize| [0, 1, 700, payload.len() - number % 9][number % 4];
    let mut random = 12345u64;
    let mut pick = |n: usize| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (random >> 33) as usize % n
    };
    let (mut sent, mut received) = (0, 0);
    while received < 200 {
        let number = sent;
        let position = number % 9;
        let head = packet(number, len(number));
        if sent < 200 && ends[0].send(1, &head, Some(&bytes), position).expect("valid") {
            sent += 1;
        }
        network.bring(0, &mut pick);
        network.bring(1, &mut pick);
        ends[0].poll();
        while let Some((source, found)) = ends[1].peek() {
            assert_eq!((source, found), (0, packet(received, len(received))));
            let to = view(&vec![0; len(received)]);
            assert_eq!(ends[1].read_payload(0, &found, &to, 0), to.len());
            let position = received % 9;
            assert_eq!(content(&to), payload[position..position + to.len()]);
            ends[1].consume(0, &found);
            received += 1;
        }
    }
    while !ends[0].is_drained() {
        network.bring(0, &mut pick);
    }
    network.assert_empty();
}

#[test]
fn refuses_a_payload_that_is_not_there() {
    let network = network(2, FakeDelivery::AtOnce);
    let mut sender = transport(&network, 0);
    let bytes = view(&[0; 10]);
    assert!(sender.send(1, &packet(1, 11), Some(&bytes), 0).is_err());
    assert!(sender.send(1, &packet(1, 5), Some(&bytes), 6).is_err());
    assert!(sender.send(1, &packet(1, 1), None, 0).is_err());
    let longest = sender.payload_max() + 1;
    let bytes = view(&vec![0; longest]);
    assert!(sender.send(1, &packet(1, longest), Some(&bytes), 0).is_err());
    assert!(sender.is_drained());
}
