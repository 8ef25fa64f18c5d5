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
fn each_new_sender_is_taken_once() {
    let bits: Vec<AtomicU64> = (0..3).map(|_| AtomicU64::new(0)).collect();
    let mut new_senders = NewSenders::new(&bits[..]);
    assert!(!new_senders.has_new());
    for rank in [130, 0, 63, 64] {
        announce_sender(&bits, rank);
    }
    assert!(new_senders.has_new());
    let mut heard = Vec::new();
    new_senders.take(|rank| heard.push(rank));
    assert_eq!(heard, [0, 63, 64, 130]);
    announce_sender(&bits, 64);
    assert!(!new_senders.has_new());
    new_senders.take(|rank| panic!("rank {rank} was taken before"));
}

/// The numbers of processes that have ended are given to others.
#[test]
fn a_number_is_taken_again_only_when_its_former_sender_is_forgotten() {
    let bits = [AtomicU64::new(0)];
    let mut new_senders = NewSenders::new(&bits[..]);
    let mut taken = Vec::new();
    announce_sender(&bits, 5);
    new_senders.take(|rank| taken.push(rank));
    bits[0].store(0, Ordering::Relaxed);
    announce_sender(&bits, 6);
    new_senders.take(|rank| taken.push(rank));
    announce_sender(&bits, 5);
    assert!(!new_senders.has_new());
    new_senders.take(|rank| taken.push(rank));
    assert_eq!(taken, [5, 6]);
    new_senders.forget(5);
    assert!(new_senders.has_new());
    new_senders.take(|rank| taken.push(rank));
    assert_eq!(taken, [5, 6, 5]);
}
