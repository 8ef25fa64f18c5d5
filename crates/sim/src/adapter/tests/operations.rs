//! Single operations, and commands and packets that are wrong.

use mica_node::adapter::{COMMANDS_OFFSET, Command, OperationStatus};

use super::*;

fn node() -> Node {
    Node::new(0, 2, policy("base"))
}

fn status(node: &mut Node) -> (u64, OperationStatus) {
    let events = node.finish();
    assert_eq!(events.len(), 1, "{events:?}");
    (events[0].token, events[0].status)
}

#[test]
fn command_is_read_from_the_ring() {
    let mut node = node();
    let place = 5;
    let address = DEVICE + (COMMANDS_OFFSET + place * size_of::<Command>()) as u64;
    let command = node.host.part(address, 64);
    command[0] = CommandKind::Probe as u8;
    command[4..8].copy_from_slice(&ANY_SOURCE.to_le_bytes());
    command[48] = 77;
    let token_at = std::mem::offset_of!(Command, token);
    command[token_at..token_at + 8].copy_from_slice(&99_u64.to_le_bytes());
    node.adapter.doorbell(SimTime(0), 5 + 64, &mut node.host, &mut node.out);
    assert_eq!(status(&mut node), (99, OperationStatus::NotFound));
}

#[test]
fn longer_messages_are_truncated() {
    let mut node = node();
    node.command(SimTime(0), &receive(1, 7, (BUFFERS, 3), 1));
    node.arrive(SimTime(1), 1, eager(7, b"abcdef"));
    let events = node.finish();
    assert_eq!((events[0].status, events[0].length), (OperationStatus::Truncated, 6));
    assert_eq!(node.host.part(BUFFERS, 6), b"abc\0\0\0");

    node.command(SimTime(2), &receive(1, 7, (BUFFERS, 3), 2));
    node.arrive(SimTime(3), 1, announce(7, 5000, 40));
    node.finish();
    let pull = PacketHeader::Pull { send: 40, length: 3, receive: 0 };
    assert_eq!(node.out.pop().map(|d| d.packet.header), Some(pull));
    node.arrive(SimTime(4_000_000), 1, data(0, b"xyz".to_vec()));
    let events = node.finish();
    assert_eq!((events[0].status, events[0].length), (OperationStatus::Truncated, 5000));
    assert_eq!(node.host.part(BUFFERS, 6), b"xyz\0\0\0");
}

#[test]
fn empty_messages_have_source_and_tag() {
    let mut node = node();
    let wild = AdapterRequest {
        operation: Some(CommandKind::Receive),
        ..request(CommandKind::Receive, 1)
    };
    node.command(SimTime(0), &wild);
    node.arrive(SimTime(1), 1, eager(-9, b""));
    let wanted = RequestCompletion {
        token: 1,
        status: OperationStatus::Done,
        source: 1,
        tag: -9,
        length: 0,
    };
    assert_eq!(node.finish(), [wanted]);
    assert!(node.host.writes.is_empty());
}

#[test]
fn cancelled_receives_match_nothing() {
    let mut node = node();
    let cancel = |token, target| AdapterRequest { target, ..request(CommandKind::Cancel, token) };
    node.command(SimTime(0), &receive(1, 7, (BUFFERS, 3), 1));
    node.command(SimTime(1), &cancel(2, 1));
    node.command(SimTime(2), &cancel(3, 1));
    node.arrive(SimTime(3), 1, eager(7, b"abc"));
    let events: Vec<_> = node.finish().iter().map(|e| (e.token, e.status)).collect();
    let wanted = [
        (1, OperationStatus::Cancelled),
        (2, OperationStatus::Done),
        (3, OperationStatus::NotFound),
    ];
    assert_eq!(events, wanted);
    node.command(SimTime(1 << 40), &receive(1, 7, (BUFFERS, 3), 1));
    assert_eq!(status(&mut node), (1, OperationStatus::Done));
}

#[test]
fn extracted_messages_are_matched_by_nothing_else() {
    let mut node = node();
    node.arrive(SimTime(0), 1, eager(7, b"first"));
    node.arrive(SimTime(1), 1, eager(7, b"second"));
    node.command(SimTime(2), &request(CommandKind::Extract, 1));
    let found = node.finish()[0];
    assert_eq!((found.status, found.length), (OperationStatus::Done, 5));
    node.command(SimTime(1 << 40), &receive(1, 7, (BUFFERS, 9), 2));
    assert_eq!(node.finish()[0].length, 6);
    let take = |token| AdapterRequest {
        address: BUFFERS,
        length: 9,
        target: 1,
        ..request(CommandKind::ReceiveExtracted, token)
    };
    // The name of the message is taken until it is received.
    node.command(SimTime(2 << 40), &request(CommandKind::Probe, 1));
    assert_eq!(status(&mut node), (1, OperationStatus::Invalid));
    node.command(SimTime(3 << 40), &take(3));
    assert_eq!(status(&mut node), (3, OperationStatus::Done));
    assert_eq!(node.host.part(BUFFERS, 6), b"firstd");
    node.command(SimTime(4 << 40), &take(4));
    assert_eq!(status(&mut node), (4, OperationStatus::Invalid));
}

#[test]
fn announced_messages_are_matched_in_their_turn() {
    let mut node = node();
    node.arrive(SimTime(0), 1, announce(7, 5000, 40));
    node.arrive(SimTime(1), 1, eager(7, b"later"));
    node.command(SimTime(2), &receive(1, 7, (BUFFERS, 5000), 1));
    node.command(SimTime(3), &receive(1, 7, (BUFFERS + 8192, 5000), 2));
    let events = node.finish();
    assert_eq!((events.len(), events[0].token, events[0].length), (1, 2, 5));
    node.arrive(SimTime(1 << 40), 1, data(0, vec![3; 5000]));
    let events = node.finish();
    assert_eq!((events[0].token, events[0].length), (1, 5000));
}

#[test]
fn wait_wakes_for_events_and_for_unexpected_messages() {
    let mut node = node();
    assert!(!node.adapter.should_wake(0));
    node.arrive(SimTime(0), 1, eager(7, b"abc"));
    assert!(!node.adapter.should_wake(0), "not before it is known");
    node.finish();
    assert!(node.adapter.should_wake(0));
    assert!(!node.adapter.should_wake(0), "it has ended one wait");
    node.arrive(SimTime(1 << 30), 1, eager(7, b"abc"));
    node.finish();
    let other = AdapterRequest { tag: 8, flags: 0, ..request(CommandKind::Probe, 1) };
    node.command(SimTime(1 << 40), &other);
    assert!(!node.adapter.should_wake(0), "it was probed since");
    assert_eq!(status(&mut node), (1, OperationStatus::NotFound));
    assert!(node.adapter.should_wake(0) && !node.adapter.should_wake(1));
    // One that matches is an event and nothing else.
    node.command(SimTime(2 << 40), &receive(1, 9, (BUFFERS, 9), 2));
    node.arrive(SimTime(3 << 40), 1, eager(9, b"abc"));
    assert!(!node.adapter.should_wake(1));
    node.finish();
    assert!(node.adapter.should_wake(1) && !node.adapter.should_wake(2));
}

#[test]
fn probe_that_sees_a_message_leaves_no_news() {
    let mut node = node();
    node.arrive(SimTime(0), 1, eager(7, b"abc"));
    node.command(SimTime(1), &request(CommandKind::Probe, 1));
    assert_eq!(status(&mut node), (1, OperationStatus::Done));
    assert!(!node.adapter.should_wake(1));
}

#[test]
fn invalid_commands_complete_as_invalid() {
    let far = 1 << 47;
    let bad = [
        AdapterRequest { operation: None, ..request(CommandKind::Probe, 1) },
        send(2, 0, (BUFFERS, 1), 1),
        send(ANY_SOURCE, 0, (BUFFERS, 1), 1),
        send(1, 0, (u64::MAX, 2), 1),
        send(1, 0, (far - 1, 2), 1),
        receive(2, 0, (BUFFERS, 1), 1),
        receive(1, 0, (BUFFERS, u64::MAX), 1),
        AdapterRequest { flags: 6, ..request(CommandKind::Probe, 1) },
        AdapterRequest { peer: 17, ..request(CommandKind::Extract, 1) },
        request(CommandKind::ReceiveExtracted, 1),
    ];
    for request in bad {
        let mut node = node();
        node.command(SimTime(0), &request);
        assert_eq!(status(&mut node), (1, OperationStatus::Invalid), "{request:?}");
        assert!(node.out.is_empty());
    }
    let mut node = node();
    node.command(SimTime(0), &receive(1, 7, (BUFFERS, 3), 1));
    node.command(SimTime(1), &receive(1, 8, (BUFFERS, 3), 1));
    assert_eq!(status(&mut node), (1, OperationStatus::Invalid), "the token is taken");
    node.arrive(SimTime(1 << 40), 1, eager(7, b"abc"));
    assert_eq!(status(&mut node), (1, OperationStatus::Done));
}

#[test]
fn stray_packets_are_dropped_and_counted() {
    let mut node = node();
    node.command(SimTime(0), &send(1, 7, (BUFFERS, 5000), 1));
    node.finish();
    let (send, receive, length) = (1, 0, 5000);
    let pull = PacketHeader::Pull { send, length, receive };
    let strays = [
        (0, pull.clone()),
        (1, PacketHeader::Acknowledge { send }),
        (1, PacketHeader::Data { receive }),
        (1, PacketHeader::Acknowledge { send: 5 }),
    ];
    for (from, header) in strays {
        node.arrive(SimTime(1 << 40), from, AdapterPacket::bare(header));
    }
    assert_eq!(node.adapter.counts().strays, 4);
    node.arrive(SimTime(2 << 40), 1, AdapterPacket::bare(pull));
    assert_eq!(status(&mut node), (1, OperationStatus::Done));
}
