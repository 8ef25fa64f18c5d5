//! Times of single messages against sums of the machine's parameters.

use super::*;

const COMMAND: u64 = 100_000;
const ARRIVAL: u64 = 200_000;
const EVENT: u64 = 50_000;
const LATENCY: u64 = 1_000_000;

/// When a message of this length is sent and received that starts at 0, its receive posted.
fn times(bytes: u64) -> (u64, u64) {
    let mut cluster = Cluster::new(&machine(), 2, &policy("base"));
    let sent = send(1, 7, (BUFFERS, bytes), 1);
    let received = receive(0, 7, (BUFFERS, bytes), 2);
    cluster.run(vec![(SimTime(0), 1, received), (SimTime(1_000_000), 0, sent)]);
    let at = |node, token| cluster.completion(node, token).expect("an event").0.0 - 1_000_000;
    (at(0, 1), at(1, 2))
}

#[test]
fn eager_message_takes_its_stages_and_its_bytes_once() {
    for bytes in [0, 1] {
        assert_eq!(times(bytes), (COMMAND + EVENT, COMMAND + LATENCY + ARRIVAL + EVENT));
    }
    // 1001 bytes follow for 250 ns, longer than the match takes.
    assert_eq!(times(1001), (COMMAND + EVENT, COMMAND + LATENCY + 1000 * 250 + EVENT));
}

#[test]
fn long_message_is_announced_and_pulled() {
    let bytes = 100_001;
    let announced = COMMAND + LATENCY;
    let pulled = announced + ARRIVAL + LATENCY + ARRIVAL;
    let last = pulled + LATENCY + 100_000 * 250;
    assert_eq!(times(bytes), (pulled + EVENT, last + EVENT));
}

#[test]
fn stream_of_messages_is_as_fast_as_the_ports() {
    let bytes = 801;
    let mut cluster = Cluster::new(&machine(), 2, &policy("base"));
    let span = (BUFFERS, bytes);
    let receives = (0..50).map(|k| (SimTime(0), 1, receive(0, 7, span, k)));
    let sends = (0..50).map(|k| (SimTime(10_000_000), 0, send(1, 7, span, k)));
    cluster.run(receives.chain(sends).collect());
    let at = |k| cluster.completion(1, k).expect("an event").0.0;
    let port = 300_000 + 800 * 250;
    for k in 1..50 {
        assert_eq!(at(k) - at(k - 1), port, "message {k}");
    }
}

#[test]
fn message_to_the_own_rank_takes_the_loopback() {
    let mut node = Node::new(0, 1, policy("base"));
    node.command(SimTime(0), &receive(0, 7, (BUFFERS, 100), 2));
    let start = SimTime(1_000_000);
    node.command(start, &send(0, 7, (BUFFERS + 512, 100), 1));
    let done = start.0 + COMMAND + 500_000 + ARRIVAL + EVENT;
    assert_eq!(node.events(SimTime(done - 1)).len(), 1, "the send alone");
    assert_eq!(node.events(SimTime(done))[0].token, 2);
    assert!(node.out.is_empty());
}

#[test]
fn synchronous_send_completes_when_the_message_is_matched() {
    for bytes in [10, 5000] {
        let mut cluster = Cluster::new(&machine(), 2, &policy("base"));
        let sent = AdapterRequest {
            operation: Some(CommandKind::SendSynchronous),
            ..send(1, 7, (BUFFERS, bytes), 1)
        };
        let posted = SimTime(50_000_000);
        let received = receive(0, 7, (BUFFERS, bytes), 2);
        cluster.run(vec![(SimTime(0), 0, sent), (posted, 1, received)]);
        let (sent_at, _) = cluster.completion(0, 1).expect("an event");
        assert_eq!(sent_at.0, posted.0 + COMMAND + LATENCY + ARRIVAL + EVENT);
    }
}

#[test]
fn nothing_is_visible_before_its_time() {
    let mut node = Node::new(0, 2, policy("base"));
    node.command(SimTime(0), &request(CommandKind::Probe, 1));
    assert_eq!(node.adapter.next_due(), SimTime(COMMAND + EVENT));
    assert_eq!(node.events(SimTime(COMMAND + EVENT - 1)), []);
    assert_eq!(node.events(SimTime(COMMAND + EVENT)).len(), 1);
    assert_eq!(node.adapter.next_due(), SimTime::NEVER);
}

#[test]
fn packets_are_handed_over_when_they_leave() {
    let mut node = Node::new(0, 2, policy("base"));
    node.command(SimTime(0), &send(1, 7, (BUFFERS, 10), 1));
    node.advance(SimTime(COMMAND - 1));
    assert!(node.out.is_empty());
    node.advance(SimTime(COMMAND));
    assert_eq!((node.out[0].at, node.out[0].to), (SimTime(COMMAND), 1));
}

#[test]
fn commands_and_packets_are_processed_in_order() {
    let mut node = Node::new(0, 2, policy("base"));
    node.arrive(SimTime(0), 1, eager(7, &[1]));
    // It takes less time than the packet, but needs what that brings.
    node.command(SimTime(10), &receive(1, 7, (BUFFERS, 1), 1));
    assert_eq!(node.events(SimTime(ARRIVAL + EVENT - 1)), []);
    assert_eq!(node.events(SimTime(ARRIVAL + EVENT)).len(), 1);
}

#[test]
fn packets_leave_in_the_order_of_their_commands() {
    let mut slow = machine();
    slow.adapter.dma_gb_s = 0.1;
    let mut node = Node::on(&slow, 0, 2, policy("base"));
    node.host.model = Some((NodeMemory::new(&slow), WriteMode::Clean));
    node.command(SimTime(0), &send(1, 7, (BUFFERS, 1000), 1));
    node.command(SimTime(1), &send(1, 7, (BUFFERS, 5000), 2));
    while node.step() {}
    let bytes: Vec<usize> = node.out.iter().map(|d| d.packet.payload.len()).collect();
    assert_eq!(bytes, [1000, 0], "the message, then the announcement");
    assert!(node.out[0].last.0 > COMMAND + 5_000_000, "the reads are slow");
    assert!(node.out[0].at.0 < COMMAND + 5_000_000, "the first byte does not wait for the last");
    assert_eq!(node.out[1].at, node.out[0].last);
}

#[test]
fn packets_still_leave_when_the_process_has_ended() {
    let mut node = Node::new(0, 2, policy("base"));
    node.command(SimTime(0), &send(1, 7, (BUFFERS, 10), 1));
    node.adapter.finish(&mut node.out);
    assert_eq!((node.out[0].at, node.out.len()), (SimTime(COMMAND), 1));
    assert_eq!(node.adapter.counts().events, 0);
    assert_eq!(node.adapter.next_due(), SimTime::NEVER);
}
