//! Transfers of windows that the target copies, too, one step at a time.

use mica_channel::direct::DirectOptions;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use super::rig::{SHAPE, over_shared_memory};
use crate::channels::packet::TargetCopyRequest;
use crate::engine::Engine;
use crate::rma::target_copies::TargetCopier;
use crate::rma::target_copy::SharedTransfer;

const WINDOW: u64 = 0x40;
const BYTES: usize = 1 << 20;
const DIVIDED: Range<usize> = 24..BYTES - 8;

/// The pieces that the target has taken.
type Pieces = Arc<Mutex<Vec<Range<usize>>>>;

/// Takes pieces, at most so many, and notes which.
#[derive(Debug)]
struct Noting {
    most: usize,
    pieces: Pieces,
}

impl TargetCopier for Noting {
    fn copy_pieces(
        &self,
        origin: u32,
        request: &TargetCopyRequest,
        pieces: &mut dyn Iterator<Item = Range<usize>>,
    ) {
        assert_eq!((origin, request), (0, &request_of_window()));
        let mut noted = self.pieces.lock().expect("no panic");
        noted.extend(pieces.take(self.most));
    }

    fn migrate(&self, address: u64) {
        let address = address as usize;
        self.pieces.lock().expect("no panic").push(address..address + 1);
    }
}

fn request_of_window() -> TargetCopyRequest {
    TargetCopyRequest { bytes: BYTES, divided: DIVIDED, offset: 4096, buffer: [5, 6], operation: 7 }
}

/// Two ranks, of which the second helps; what it takes.
fn two_ranks(most: usize) -> (Vec<Engine>, Pieces) {
    let engines = over_shared_memory(2, SHAPE, &DirectOptions::OFF);
    let pieces = Pieces::default();
    let helper = Noting { most, pieces: Arc::clone(&pieces) };
    engines[1].add_target_copier(WINDOW, Arc::new(helper));
    (engines, pieces)
}

fn ask(engines: &[Engine]) -> Option<SharedTransfer<'_>> {
    let may_ask = engines[0].may_request_target_copy(1);
    let asked = engines[0].request_target_copy(1, WINDOW, request_of_window());
    may_ask.then(|| asked.expect("no fault")).flatten()
}

fn progress(engine: &Engine) {
    engine.enter(|state| state.progress()).expect("no fault");
}

fn assert_divided(mut pieces: Vec<Range<usize>>) {
    pieces.sort_by_key(|piece| piece.start);
    assert_eq!(pieces[0].start, DIVIDED.start);
    assert_eq!(pieces[pieces.len() - 1].end, DIVIDED.end);
    assert!(pieces.windows(2).all(|two| two[0].end == two[1].start));
}

#[test]
fn both_sides_take_disjoint_pieces() {
    let (engines, theirs) = two_ranks(2);
    let mut transfer = ask(&engines).expect("room");
    let mut pieces = vec![transfer.next().expect("a piece")];
    progress(&engines[1]);
    pieces.extend(transfer.by_ref());
    transfer.finish().expect("no fault");
    let theirs = theirs.lock().expect("no panic").clone();
    assert_eq!(theirs.len(), 2);
    pieces.extend(theirs);
    assert_divided(pieces);
    assert!(engines[0].may_request_target_copy(1), "it has helped");
}

#[test]
fn a_late_target_takes_nothing() {
    let (engines, theirs) = two_ranks(100);
    let mut transfer = ask(&engines).expect("room");
    assert_divided(transfer.by_ref().collect());
    transfer.finish().expect("no fault");
    progress(&engines[1]);
    assert!(theirs.lock().expect("no panic").is_empty());
}

/// The packet of a target that computes stays in its ring: there is one at most.
#[test]
fn a_target_is_not_asked_again_before_it_has_looked() {
    let (engines, theirs) = two_ranks(100);
    for _ in 0..100 {
        if let Some(mut transfer) = ask(&engines) {
            assert_divided(transfer.by_ref().collect());
            transfer.finish().expect("no fault");
        }
    }
    assert_eq!(engines[0].enter(|state| state.target_copies.unanswered), 1);
    progress(&engines[1]);
    let again = (0..100).find_map(|_| ask(&engines)).expect("it has looked");
    progress(&engines[1]);
    assert_divided(theirs.lock().expect("no panic").clone());
    again.finish().expect("no fault");
    assert_eq!(engines[0].enter(|state| state.target_copies.unanswered), 0);
}

#[test]
fn requests_of_windows_that_are_gone_are_answered() {
    let (engines, theirs) = two_ranks(100);
    let transfer = ask(&engines).expect("room");
    engines[1].remove_target_copier(WINDOW);
    progress(&engines[1]);
    assert!(theirs.lock().expect("no panic").is_empty());
    assert_divided(transfer.collect());
}

#[test]
fn the_owner_is_asked_to_migrate_by_the_address_that_it_knows() {
    let (engines, theirs) = two_ranks(0);
    let asked = |context| engines[0].request_migration(1, context, 4711).expect("no fault");
    assert!(asked(WINDOW) && asked(WINDOW + 1), "room");
    progress(&engines[1]);
    let noted = theirs.lock().expect("no panic").clone();
    assert_eq!(noted, std::slice::from_ref(&(4711..4712)), "once, for its own window");
    while asked(WINDOW) {}
    progress(&engines[1]);
    assert!(asked(WINDOW), "a full ring is no fault, and there is room again");
}
