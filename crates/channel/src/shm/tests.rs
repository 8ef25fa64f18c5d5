//! The channel between endpoints in one process. Behaviour common to all designs is tested on all.

use super::*;
use mica_memory::{Block, Shape};
use mica_node::segment::{JobSpec, PAGE};
use mica_node::topology::CorePlace;
use mica_node::tunables::SegmentShape;
use std::sync::Arc;

const ADVANCED: SegmentShape = SegmentShape {
    cells: 128,
    cell_bytes: 8192,
    fifo_bytes: None,
    mixed: false,
    area_bytes: 0,
    areas_bytes: 0,
};

const FIFO_BYTES: usize = 256 * 1024;

const BASIC: SegmentShape = SegmentShape { fifo_bytes: Some(FIFO_BYTES as u32), ..ADVANCED };

const MIXED: SegmentShape = SegmentShape { mixed: true, ..BASIC };

fn segment(shape: SegmentShape, ranks: usize) -> Arc<JobSegment> {
    let places = vec![CorePlace::UNKNOWN; ranks];
    let spec = JobSpec::on_one_node(&places, 2, &[]);
    let segment = JobSegment::create_shaped(&spec, shape).expect("segment");
    Arc::new(segment)
}

fn end(segment: &Arc<JobSegment>, me: u32) -> Shm {
    Shm::new(segment, me, Fencing::Sender, NodeTraffic::SharedMemory).expect("memory")
}

fn pair(shape: SegmentShape) -> (Shm, Shm) {
    let segment = segment(shape, 2);
    (end(&segment, 0), end(&segment, 1))
}

/// The next packet by any channel.
fn any(end: &mut Shm) -> Option<(u32, Packet)> {
    end.peek().or_else(|| end.fifos()?.peek())
}

/// Bytes of memory behind a segment.
fn memory(segment: &JobSegment) -> usize {
    use std::os::unix::fs::MetadataExt;
    let file = std::fs::File::from(segment.as_fd().try_clone_to_owned().expect("dup"));
    file.metadata().expect("fstat").blocks() as usize * 512
}

macro_rules! on_all_designs {
    ($($test:ident)*) => {
        mod advanced_design {
            $(#[test] fn $test() { super::$test(super::ADVANCED); })*
        }
        mod basic_design {
            $(#[test] fn $test() { super::$test(super::BASIC); })*
        }
        mod mixed_designs {
            $(#[test] fn $test() { super::$test(super::MIXED); })*
        }
    };
}

on_all_designs! {
    inline_messages_arrive_in_order
    payloads_arrive_whole_and_no_room_is_said
    payloads_land_where_they_should
    every_sender_is_heard
    the_first_message_may_come_before_its_receiver
}

fn view(bytes: &[u8]) -> View {
    let region = Block::allocate(bytes.len().max(1)).expect("memory");
    region.write_bytes(bytes);
    region.view(Shape::Contiguous { bytes: bytes.len() })
}

fn bytes(view: &View) -> Vec<u8> {
    let mut v = vec![0; view.len()];
    view.pack(0, &mut v);
    v
}

fn inline_messages_arrive_in_order(shape: SegmentShape) {
    let (mut a, mut b) = pair(shape);
    b.peek(); // opens the inlet
    assert!(!b.has_arrivals() && any(&mut b).is_none());
    for i in 0..100u8 {
        assert!(
            a.send_inline(1, 3, 2, i32::from(i), &view(&[i; 8])).expect("memory").expect("reached")
        );
    }
    assert!(b.has_arrivals());
    for i in 0..100u8 {
        let (source, packet) = any(&mut b).expect("sent");
        assert_eq!((source, packet.kind, packet.tag, packet.inline_len), (0, 3, i32::from(i), 8));
        assert_eq!(packet.inline[..8], [i; 8]);
        assert_eq!(b.peek_from(0), Some(packet));
        b.consume(source, &packet);
    }
    assert!(any(&mut b).is_none() && !b.has_arrivals());
}

fn payloads_arrive_whole_and_no_room_is_said(shape: SegmentShape) {
    let (mut a, mut b) = pair(shape);
    let max = a.fifo_payload_max(1).unwrap_or(PAYLOAD_MAX) / 3;
    let mut message = 0;
    let mut expected = 0;
    // Many laps, so that payloads wrap at the end of the buffer at many positions.
    for _ in 0..40 {
        loop {
            let len = max - message % 777;
            let v = view(&pattern(message, len));
            let mut packet = Packet::of_kind(1);
            packet.payload = len as u32;
            packet.tag = message as i32;
            let room = a.has_room(1, len);
            assert_eq!(a.send(1, &packet, Some(&v)).expect("memory"), Some(room));
            if !room {
                break;
            }
            message += 1;
        }
        assert!(message > expected + 1, "room for several");
        while let Some((source, p)) = any(&mut b) {
            assert_eq!((source, p.tag), (0, expected as i32));
            let len = max - expected % 777;
            let to = view(&vec![0; len]);
            assert_eq!(b.read_payload(source, &p, &to, 0), len);
            assert_eq!(bytes(&to), pattern(expected, len));
            b.consume(source, &p);
            expected += 1;
        }
        assert_eq!(expected, message);
    }
}

fn pattern(seed: usize, len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 7 + seed * 13) as u8).collect()
}

/// Payloads at a position behind others, of which the view holds only a part, or nothing.
fn payloads_land_where_they_should(shape: SegmentShape) {
    let (mut a, mut b) = pair(shape);
    let data = pattern(5, 3000);
    let mut packet = Packet::of_kind(1);
    packet.payload = 3000;
    assert_eq!(a.send(1, &packet, Some(&view(&data))).expect("memory"), Some(true));
    let (source, p) = any(&mut b).expect("sent");
    let to = view(&[0; 4000]);
    assert_eq!(b.read_payload(source, &p, &to, 1500), 2500);
    assert_eq!(bytes(&to)[1500..], data[..2500]);
    assert_eq!(bytes(&to)[..1500], [0; 1500]);
    assert_eq!(b.read_payload(source, &p, &view(&[0; 10]), 20), 0);
}

fn every_sender_is_heard(shape: SegmentShape) {
    let segment = segment(shape, 4);
    let mut ends: Vec<Shm> = (0..4).map(|me| end(&segment, me)).collect();
    for round in 0..10 {
        for me in [2, 0, 3] {
            for tag in 0..5 {
                let v = view(&[me as u8; 8]);
                assert!(
                    ends[me as usize]
                        .send_inline(1, 1, round, tag, &v)
                        .expect("memory")
                        .expect("reached")
                );
            }
        }
        let mut next = [0; 4];
        while let Some((source, packet)) = any(&mut ends[1]) {
            assert_eq!(packet.context, round);
            assert_eq!(packet.tag, next[source as usize], "in each sender's order");
            assert_eq!(packet.inline[..8], [source as u8; 8]);
            next[source as usize] += 1;
            ends[1].consume(source, &packet);
        }
        assert_eq!(next, [5, 0, 5, 5]);
        assert!(!ends[1].has_arrivals());
    }
}

fn the_first_message_may_come_before_its_receiver(shape: SegmentShape) {
    let segment = segment(shape, 2);
    let mut a = end(&segment, 0);
    assert_eq!(a.send_inline(1, 1, 0, 9, &view(&[1; 8])).expect("memory"), Some(true));
    let mut b = end(&segment, 1);
    assert!(b.has_arrivals());
    assert_eq!(any(&mut b).expect("sent").1.tag, 9);
}

#[test]
fn the_largest_payload_needs_all_of_a_fifo_and_an_arena_holds_four() {
    for (shape, fit) in [(ADVANCED, 4), (BASIC, 1)] {
        let (mut a, mut b) = pair(shape);
        let max = a.fifo_payload_max(1).unwrap_or(PAYLOAD_MAX);
        let v = view(&pattern(1, max));
        let mut packet = Packet::of_kind(1);
        packet.payload = max as u32;
        for _ in 0..3 {
            let mut sent = 0;
            while a.send(1, &packet, Some(&v)).expect("memory") == Some(true) {
                sent += 1;
            }
            assert_eq!(sent, fit);
            while let Some((source, p)) = any(&mut b) {
                b.consume(source, &p);
            }
        }
    }
}

#[test]
fn a_long_message_goes_through_a_fifo_in_chunks() {
    let (mut a, mut b) = pair(BASIC);
    let chunk = a.chunk_bytes(1).expect("the basic design has chunks");
    assert_eq!(chunk, 8192);
    let data = pattern(3, 3 * FIFO_BYTES + 1000);
    let (from, to) = (view(&data), view(&vec![0; data.len()]));
    let (mut sent, mut received, mut stalls) = (0, 0, 0);
    while received < data.len() {
        while sent < data.len() {
            let mut packet = Packet::of_kind(1);
            packet.payload = chunk.min(data.len() - sent) as u32;
            if !a.send_chunk(1, &packet, &from, sent) {
                stalls += 1;
                break;
            }
            sent += packet.payload as usize;
        }
        while let Some((source, packet)) = any(&mut b) {
            received += b.read_payload(source, &packet, &to, received);
            b.consume(source, &packet);
        }
    }
    assert_eq!(stalls, 3);
    assert_eq!(bytes(&to), data);
}

#[test]
fn a_pair_has_the_design_of_its_parity_and_each_channel_is_polled_alone() {
    let segment = segment(MIXED, 3);
    let mut ends: Vec<Shm> = (0..3).map(|me| end(&segment, me)).collect();
    assert!(ends[0].is_mixed() && ends[0].has_fifos());
    let fifo = Some(FIFO_BYTES - size_of::<Packet>());
    let maxima = [0, 1, 2].map(|peer| ends[0].fifo_payload_max(peer));
    assert_eq!(maxima, [None, None, fifo]);
    assert_eq!(ends[0].chunk_bytes(1), None);
    assert!(ends[1].fifo_payload_max(0).is_none() && ends[1].fifo_payload_max(2).is_none());

    for me in [1, 2] {
        let v = view(&[me as u8; 8]);
        assert_eq!(ends[me].send_inline(0, 1, 0, 7, &v).expect("memory"), Some(true));
    }
    let root = &mut ends[0];
    let (source, packet) = root.peek().expect("by the ring");
    assert_eq!((source, packet.inline[0]), (1, 1));
    root.consume(source, &packet);
    assert_eq!(root.peek(), None, "the FIFOs are another channel");
    assert!(root.has_arrivals(), "but to park would be wrong");
    assert!(root.fifos().expect("mixed").has_arrivals());
    assert_eq!(root.peek_from(1), None);
    let (source, packet) = root.fifos().expect("mixed").peek().expect("by the FIFO");
    assert_eq!((source, packet.inline[0]), (2, 2));
    assert_eq!(root.peek_from(2), Some(packet));
    root.consume(source, &packet);
    assert!(!root.has_arrivals());
}

#[test]
fn cells_are_for_those_who_have_rings() {
    let segment = segment(MIXED, 3);
    let mut root = end(&segment, 0);
    let v = view(&[1; 64]);
    while root.load_cell(1, &v, 0).expect("memory").is_some() {}
    assert!(!root.has_cell(1));
    assert!(root.has_cell(2), "who has a FIFO needs none");
}

#[test]
fn memory_of_the_basic_design_is_there_from_the_start_and_grows_with_the_pairs() {
    for ranks in [1, 2, 5] {
        let (basic, advanced) = (segment(BASIC, ranks), segment(ADVANCED, ranks));
        let before = (memory(&basic), memory(&advanced));
        for me in 0..ranks as u32 {
            drop((end(&basic, me), end(&advanced, me)));
        }
        let pairs = ranks * (ranks - 1);
        let grown = memory(&basic) - before.0;
        let expected = pairs * FIFO_BYTES;
        assert!(
            (expected..=expected + pairs * PAGE).contains(&grown),
            "{ranks} ranks: {grown} bytes"
        );
        assert_eq!(memory(&advanced), before.1, "no pair has communicated yet");
    }
}

#[test]
fn cells_travel_and_come_home() {
    let (mut a, mut b) = pair(ADVANCED);
    let data: Vec<u8> = (0..20_000u32).map(|i| (i * 3) as u8).collect();
    let (from, to) = (view(&data), view(&vec![0; data.len()]));
    let mut cells = Vec::new();
    let mut position = 0;
    while position < data.len() {
        let (cell, n) = a.load_cell(1, &from, position).expect("memory").expect("free");
        cells.push((cell, n));
        position += n;
    }
    assert!(!a.is_drained());
    assert_eq!(a.send_inline(1, 1, 0, 0, &view(&[])).expect("memory"), Some(true));
    let (source, packet) = any(&mut b).expect("announced");
    b.consume(source, &packet);
    let mut position = 0;
    for (cell, n) in cells {
        b.unload_cell(source, cell, n, &to, position);
        position += n;
    }
    assert_eq!(bytes(&to), data);
    assert!(a.is_drained());
}

#[test]
fn one_receiver_gets_at_most_half_of_the_pool() {
    let (mut a, _b) = pair(ADVANCED);
    let v = view(&[1; 64]);
    let mut taken = 0;
    while a.load_cell(1, &v, 0).expect("memory").is_some() {
        taken += 1;
    }
    assert_eq!(taken, 64);
}
