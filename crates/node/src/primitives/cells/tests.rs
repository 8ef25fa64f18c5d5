use super::*;

fn marks(n: usize) -> Vec<AtomicU32> {
    (0..n).map(|_| AtomicU32::new(0)).collect()
}

#[test]
fn marked_cells_are_swept_back_to_the_pool() {
    let m = marks(4);
    let mut pool = CellPool::new(&m[..], 0);
    let taken: Vec<u16> = (0..4).map(|_| pool.take(1, 4).expect("free")).collect();
    assert_eq!(pool.take(1, 4), None);
    assert!(!pool.is_idle());
    Marks::new(&m[..]).free(taken[2]);
    assert_eq!(pool.take(0, 4), Some(taken[2]));
    for &i in &taken {
        Marks::new(&m[..]).free(i);
    }
    assert!(pool.is_idle());
}

#[test]
fn one_receiver_cannot_hold_all() {
    let m = marks(4);
    let mut pool = CellPool::new(&m[..], 0);
    assert!(pool.take(0, 2).is_some() && pool.take(0, 2).is_some());
    assert_eq!(pool.take(0, 2), None, "receiver 0 is at its limit");
    assert!(pool.take(1, 2).is_some(), "receiver 1 is not");
}

#[test]
fn the_cell_used_last_is_used_next() {
    let m = marks(8);
    let mut pool = CellPool::new(&m[..], 0);
    let first = pool.take(0, 8).expect("free");
    Marks::new(&m[..]).free(first);
    pool.sweep();
    assert_eq!(pool.take(0, 8), Some(first));
}
