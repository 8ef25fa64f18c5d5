//! Single-process tests of the FIFO on the heap.

use super::*;

const LINES: usize = 37;
/// Number of packets. Miri is some thousand times slower, and a few laps suffice for what it can
/// detect.
const PACKETS: i32 = if cfg!(miri) { 12 } else { 5000 };

type Producer<'a> = FifoProducer<&'a FifoHead, &'a [FifoLine]>;
type Consumer<'a> = FifoConsumer<&'a FifoHead, &'a [FifoLine]>;

fn ends(boxed: &(Box<FifoHead>, Box<[FifoLine]>)) -> (Producer<'_>, Consumer<'_>) {
    let storage = FifoStorage { head: &*boxed.0, lines: &*boxed.1 };
    (FifoProducer::new(storage), FifoConsumer::new(storage))
}

fn message(i: i32, max: usize) -> Vec<u8> {
    (0..(i as usize * 97) % (max + 1)).map(|b| (b as i32 ^ i) as u8).collect()
}

fn push_bytes(p: &mut Producer<'_>, tag: i32, bytes: &[u8]) -> bool {
    let mut packet = Packet::of_kind(1);
    packet.tag = tag;
    packet.payload = bytes.len() as u32;
    p.push(&packet, |offset, to, n| {
        // SAFETY: the FIFO hands out room for `n` bytes.
        unsafe { std::ptr::copy_nonoverlapping(bytes[offset..offset + n].as_ptr(), to, n) }
    })
}

fn pop_bytes(c: &mut Consumer<'_>) -> Option<(i32, Vec<u8>)> {
    let packet = c.peek()?;
    let mut bytes = Vec::new();
    c.with_payload(&packet, |offset, from, n| {
        assert_eq!(offset, bytes.len());
        // SAFETY: the packet carries this many payload bytes here.
        bytes.extend_from_slice(unsafe { std::slice::from_raw_parts(from, n) });
    });
    c.consume(&packet);
    Some((packet.tag, bytes))
}

#[test]
fn packets_arrive_in_order_with_their_payload_over_many_laps() {
    let storage = boxed(LINES);
    let (mut p, mut c) = ends(&storage);
    let max = p.payload_max();
    assert_eq!(max, (LINES - 1) * LINE);
    let mut received = 0;
    let mut take = |c: &mut Consumer<'_>| {
        let (tag, got) = pop_bytes(c)?;
        assert_eq!((tag, &got), (received, &message(tag, max)));
        received += 1;
        Some(received)
    };
    for i in 0..PACKETS {
        while !push_bytes(&mut p, i, &message(i, max)) {
            take(&mut c).expect("a FIFO without room has a packet");
        }
        if i % 3 == 0 {
            take(&mut c).expect("just pushed");
        }
    }
    let mut last = 0;
    while let Some(n) = take(&mut c) {
        last = n;
    }
    assert_eq!(last, PACKETS);
}

#[test]
fn all_of_the_buffer_is_used_and_no_more() {
    let storage = boxed(LINES);
    let (mut p, mut c) = ends(&storage);
    for round in 0..if cfg!(miri) { 2 } else { 100 } {
        for i in 0..LINES as i32 {
            assert!(push_bytes(&mut p, i, &[]), "round {round}, packet {i}");
        }
        assert!(!p.has_room(0) && !push_bytes(&mut p, -1, &[]));
        assert_eq!(pop_bytes(&mut c), Some((0, Vec::new())));
        assert!(p.has_room(0) && !p.has_room(1), "a line is free, not two");
        while pop_bytes(&mut c).is_some() {}
        assert!(push_bytes(&mut p, 7, &[7; (LINES - 1) * LINE]));
        assert!(!p.has_room(0));
        assert_eq!(pop_bytes(&mut c).map(|(_, b)| b.len()), Some((LINES - 1) * LINE));
    }
}

#[test]
#[should_panic(expected = "payload of 2305 bytes exceeds a FIFO's 2304")]
fn a_payload_beyond_the_buffer_is_refused_loudly() {
    let storage = boxed(LINES);
    let (mut p, _) = ends(&storage);
    push_bytes(&mut p, 0, &[0; (LINES - 1) * LINE + 1]);
}

#[test]
fn a_fifo_that_is_held_takes_control_but_no_messages() {
    let storage = boxed(LINES);
    let (mut p, mut c) = ends(&storage);
    c.hold(true);
    // The producer notices the hold only when it checks for room.
    let unasked = (0..).take_while(|&i| p.has_room(0) && push_bytes(&mut p, i, &[])).count();
    assert_eq!(unasked, LINES);
    assert!(!p.has_room_for_control(0));
    while pop_bytes(&mut c).is_some() {}
    for round in 0..3 * LINES as i32 {
        assert!(!p.has_room(0) && p.is_held());
        assert!(p.has_room_for_control(p.payload_max()));
        assert!(push_bytes(&mut p, round, &[3; 100]));
        assert_eq!(pop_bytes(&mut c), Some((round, vec![3; 100])));
    }
    c.hold(false);
    assert!(p.has_room(p.payload_max()) && !p.is_held());
}
