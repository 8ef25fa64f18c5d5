//! Single-process tests of the ring on the heap.

use super::*;
use crate::sync::Ordering;

/// Number of packets; fewer under Miri, but still more than one lap.
const PACKETS: i32 = if cfg!(miri) { 60 } else { 5000 };

fn push_bytes(p: &mut RingProducer<&RingStorage>, tag: i32, bytes: &[u8]) -> bool {
    let mut packet = Packet::of_kind(1);
    packet.tag = tag;
    packet.payload = bytes.len() as u32;
    p.push(&packet, |to| {
        // SAFETY: the ring hands out room for `bytes.len()` bytes.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) }
    })
}

fn pop_bytes(c: &mut RingConsumer<&RingStorage>) -> Option<(i32, Vec<u8>)> {
    let packet = c.peek()?;
    let bytes = c.with_payload(&packet, |from| {
        // SAFETY: the packet carries this many payload bytes.
        unsafe { std::slice::from_raw_parts(from, packet.payload as usize) }.to_vec()
    });
    c.consume(&packet);
    Some((packet.tag, bytes))
}

#[test]
fn packets_arrive_in_order_with_their_payload_over_many_laps() {
    let storage = RingStorage::boxed();
    let (mut p, mut c) = (RingProducer::new(&*storage), RingConsumer::new(&*storage));
    let mut received = 0;
    for i in 0..PACKETS {
        let bytes: Vec<u8> =
            (0..(i as usize * 37) % (PAYLOAD_MAX + 1)).map(|b| (b as i32 ^ i) as u8).collect();
        while !push_bytes(&mut p, i, &bytes) {
            let (tag, _) = pop_bytes(&mut c).expect("a full ring has a packet");
            assert_eq!(tag, received);
            received += 1;
        }
        if i % 3 == 0 {
            let (tag, got) = pop_bytes(&mut c).expect("just pushed");
            assert_eq!(tag, received);
            let expected: Vec<u8> = (0..(tag as usize * 37) % (PAYLOAD_MAX + 1))
                .map(|b| (b as i32 ^ tag) as u8)
                .collect();
            assert_eq!(got, expected);
            received += 1;
        }
    }
    while let Some((tag, _)) = pop_bytes(&mut c) {
        assert_eq!(tag, received);
        received += 1;
    }
    assert_eq!(received, PACKETS);
}

#[test]
fn a_full_ring_refuses_and_a_drained_one_always_takes_the_largest_payload() {
    let storage = RingStorage::boxed();
    let (mut p, mut c) = (RingProducer::new(&*storage), RingConsumer::new(&*storage));
    for i in 0..SLOTS as i32 {
        assert!(push_bytes(&mut p, i, &[]));
    }
    assert!(!push_bytes(&mut p, 0, &[]), "no slot is free");
    while pop_bytes(&mut c).is_some() {}
    for round in 0..if cfg!(miri) { 5 } else { 1000usize } {
        let len = PAYLOAD_MAX - (round * 61) % 300;
        assert!(
            push_bytes(&mut p, 1, &vec![7; len]),
            "round {round}: a drained ring takes {len} bytes"
        );
        assert_eq!(pop_bytes(&mut c).map(|(_, b)| b.len()), Some(len));
    }
}

#[test]
fn payload_bytes_are_never_taken_for_a_stamp() {
    let storage = RingStorage::boxed();
    let (mut p, mut c) = (RingProducer::new(&*storage), RingConsumer::new(&*storage));
    // Write inline bytes that could look like a future stamp.
    for lap in 0..3 * SLOTS as u32 {
        assert!(p.push_inline(1, 0, 0, 0, INLINE, |b| {
            for chunk in b.chunks_mut(8) {
                chunk.copy_from_slice(&u64::from(lap + 2).to_ne_bytes());
            }
        }));
        let packet = c.peek().expect("pushed");
        c.consume(&packet);
        assert!(c.peek().is_none(), "nothing was pushed after lap {lap}");
    }
}

#[test]
fn positions_wrap_around() {
    assert_eq!(slot::stamp(u32::MAX, 0, 0, 0) as u32, 0);
    let (start, end) = place(u32::MAX - 63, 64);
    assert_eq!((start, end), (u32::MAX - 63, 0));
}

#[test]
fn a_ring_that_is_held_takes_control_but_no_messages() {
    let storage = RingStorage::boxed();
    let (mut p, mut c) = (RingProducer::new(&*storage), RingConsumer::new(&*storage));
    let inline = |p: &mut RingProducer<&RingStorage>| p.push_inline(1, 0, 0, 0, 0, |_| ());
    assert!(inline(&mut p));
    c.hold(true);
    // The producer notices the hold only when it checks for room, after a lap at the latest.
    let unasked = (0..).take_while(|_| inline(&mut p)).count();
    assert!(unasked < SLOTS);
    assert!(p.is_held() && !p.has_room(0) && !p.has_room(64));
    while pop_bytes(&mut c).is_some() {}
    for round in 0..3 * SLOTS {
        assert!(!inline(&mut p), "{round}");
        assert!(p.has_room_for_control(0) && p.has_room_for_control(PAYLOAD_MAX));
        assert!(push_bytes(&mut p, round as i32, &[]));
        assert_eq!(pop_bytes(&mut c), Some((round as i32, Vec::new())));
    }
    c.hold(false);
    assert!(inline(&mut p) && push_bytes(&mut p, 7, &[1; 64]));
    assert!(!p.is_held());
    assert_eq!(pop_bytes(&mut c), Some((0, Vec::new())));
    assert_eq!(pop_bytes(&mut c), Some((7, vec![1; 64])));
}

#[test]
fn held_ring_fills_up_with_control_packets() {
    let storage = RingStorage::boxed();
    let (mut p, mut c) = (RingProducer::new(&*storage), RingConsumer::new(&*storage));
    c.hold(true);
    assert!(!p.is_held(), "the producer reads the credits when it lacks room");
    while p.push_inline(1, 0, 0, 0, 0, |_| ()) {}
    assert!(p.is_held());
    while pop_bytes(&mut c).is_some() {}
    let taken = (0..).take_while(|&i| push_bytes(&mut p, i, &[])).count();
    assert_eq!(taken, SLOTS);
    assert!(!p.has_room_for_control(0));
    while pop_bytes(&mut c).is_some() {}
    assert!(p.has_room_for_control(0) && !p.has_room(0));
}

/// The former sender of a number has reached a position; the next one begins anew in the zeroed
/// ring, which the receiver does not know.
#[test]
fn a_consumer_takes_nothing_of_the_next_producer() {
    let storage = RingStorage::boxed();
    let begin = |generation| {
        let first = first_position(generation);
        (
            RingProducer::with_backing(&*storage, 8).beginning_at(first),
            RingConsumer::new(&*storage).beginning_at(first),
        )
    };
    let (mut former, mut consumer) = begin(1);
    former.back(SLOTS);
    for _ in 0..20 {
        assert!(former.push(&Packet::of_kind(1), |_| ()));
        let packet = consumer.peek().expect("a packet");
        consumer.consume(&packet);
    }
    for slot in &storage.slots {
        slot.stamp.store(0, Ordering::Relaxed);
    }
    let (mut next, mut its_consumer) = begin(2);
    let mut sent = 0;
    for backed in [8, SLOTS] {
        next.back(backed);
        while next.push(&Packet::of_kind(2), |_| ()) {
            assert!(consumer.peek().is_none());
            sent += 1;
        }
        assert_eq!(next.wants_memory(), backed == 8);
    }
    assert_eq!(sent, SLOTS);
    for _ in 0..sent {
        let packet = its_consumer.peek().expect("a packet");
        assert_eq!(packet.kind, 2);
        its_consumer.consume(&packet);
    }
    assert!(next.push(&Packet::of_kind(3), |_| ()) && its_consumer.peek().is_some());
}
