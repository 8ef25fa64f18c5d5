//! loom model: two sides never take the same unit, and leave none.

use super::*;
use loom::sync::Arc;

#[test]
fn every_unit_is_taken_once() {
    const LEN: usize = 2 * PIECE_MIN as usize * UNIT + 1;
    loom::model(|| {
        let split = Arc::new(Split::new());
        let theirs = split.clone();
        let back = loom::thread::spawn(move || {
            let mut sum = 0;
            while let Some(piece) = theirs.take(End::Back, LEN) {
                sum += piece.len();
            }
            sum
        });
        let mut sum = 0;
        let mut last = 0;
        while let Some(piece) = split.take(End::Front, LEN) {
            assert_eq!(piece.start, last);
            last = piece.end;
            sum += piece.len();
        }
        assert_eq!(sum + back.join().expect("back"), LEN);
    });
}
