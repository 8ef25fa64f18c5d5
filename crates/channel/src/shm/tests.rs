//! The channel between two ends in one process.

use super::*;
use crate::memory::{Block, Shape};
use mica_node::segment::JobSpec;
use mica_node::topology::Place;

fn pair() -> (Shm, Shm) {
    let spec = JobSpec {
        places: &[Place::UNKNOWN; 2],
        available_cores: 2,
        appnum: &[],
    };
    let segment: &'static JobSegment =
        Box::leak(Box::new(JobSegment::create(&spec).expect("segment")));
    (
        Shm::new(segment, 0, Fencing::Sender),
        Shm::new(segment, 1, Fencing::Sender),
    )
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

#[test]
fn inline_messages_arrive_in_order() {
    let (mut a, mut b) = pair();
    assert!(!b.has_arrivals() && b.peek().is_none());
    for i in 0..100u8 {
        assert!(
            a.send_inline(1, 3, 2, i32::from(i), &view(&[i; 8]))
                .expect("memory")
        );
    }
    assert!(b.has_arrivals());
    for i in 0..100u8 {
        let (source, packet) = b.peek().expect("sent");
        assert_eq!(
            (source, packet.kind, packet.tag, packet.inline_len),
            (0, 3, i32::from(i), 8)
        );
        assert_eq!(packet.inline[..8], [i; 8]);
        assert_eq!(b.peek_from(0), Some(packet));
        b.consume(source, &packet);
    }
    assert!(b.peek().is_none() && !b.has_arrivals());
}

#[test]
fn payloads_arrive_whole_and_a_full_ring_says_so() {
    let (mut a, mut b) = pair();
    let data: Vec<u8> = (0..PAYLOAD_MAX).map(|i| (i * 7) as u8).collect();
    let v = view(&data);
    let mut packet = Packet::of_kind(1);
    packet.payload = PAYLOAD_MAX as u32;
    let mut sent = 0;
    while a.send(1, &packet, Some(&v)).expect("memory") {
        sent += 1;
    }
    assert_eq!(sent, 4, "the arena holds four of the largest payloads");
    for _ in 0..sent {
        let (source, p) = b.peek().expect("sent");
        let to = view(&vec![0; PAYLOAD_MAX]);
        assert_eq!(b.read_payload(source, &p, &to, 0), PAYLOAD_MAX);
        assert_eq!(bytes(&to), data);
        b.consume(source, &p);
    }
    assert!(a.send(1, &packet, Some(&v)).expect("memory"), "room again");
}

#[test]
fn cells_travel_and_come_home() {
    let (mut a, mut b) = pair();
    let data: Vec<u8> = (0..20_000u32).map(|i| (i * 3) as u8).collect();
    let (from, to) = (view(&data), view(&vec![0; data.len()]));
    let mut cells = Vec::new();
    let mut position = 0;
    while position < data.len() {
        let (cell, n) = a
            .load_cell(1, &from, position)
            .expect("memory")
            .expect("free");
        cells.push((cell, n));
        position += n;
    }
    assert!(!a.is_drained());
    assert!(a.send_inline(1, 1, 0, 0, &view(&[])).expect("memory"));
    let (source, packet) = b.peek().expect("announced");
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
    let (mut a, _b) = pair();
    let v = view(&[1; 64]);
    let mut taken = 0;
    while a.load_cell(1, &v, 0).expect("memory").is_some() {
        taken += 1;
    }
    assert_eq!(taken, 64);
}
