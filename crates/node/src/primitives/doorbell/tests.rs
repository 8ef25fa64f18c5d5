use super::*;

#[test]
fn a_doorbell_rings_until_its_position_is_reached() {
    let doorbell = Doorbell::new();
    assert!(!doorbell.has_rung(0));
    doorbell.ring(3);
    assert!(doorbell.has_rung(0) && doorbell.has_rung(2) && !doorbell.has_rung(3));
    doorbell.ring(0x1_0002);
    assert!(doorbell.has_rung(0xffff) && !doorbell.has_rung(0x1_0002), "the low half counts");
}

#[test]
fn each_knock_is_answered_once() {
    let bits: Vec<AtomicU64> = (0..3).map(|_| AtomicU64::new(0)).collect();
    let mut knocks = Knocks::new(&bits[..]);
    assert!(!knocks.is_heard());
    for rank in [130, 0, 63, 64] {
        knock(&bits, rank);
    }
    assert!(knocks.is_heard());
    let mut heard = Vec::new();
    knocks.answer(|rank| heard.push(rank));
    assert_eq!(heard, [0, 63, 64, 130]);
    knock(&bits, 64);
    assert!(!knocks.is_heard());
    knocks.answer(|rank| panic!("rank {rank} was answered before"));
}
