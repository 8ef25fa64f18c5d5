//! Barrier: dissemination (Hensgen, Finkel, Manber 1988). In round `k`, every rank signals the rank
//! `2^k` after it and waits for the rank `2^k` before it; after `ceil(log2 size)` rounds, every
//! rank has heard, directly or indirectly, from all others.

use mica_memory::Region;

use super::place::{RankPlace, bytes_at};
use super::schedule::Schedule;

/// The schedule of a barrier.
pub fn build(me: RankPlace) -> Schedule {
    let nothing = bytes_at(&Region::null(), 0, 0);
    let mut schedule = Schedule::new();
    let mut distance = 1;
    while distance < me.size {
        schedule
            .round()
            .receive(me.before(distance), nothing.clone())
            .send(me.after(distance), nothing.clone());
        distance *= 2;
    }
    schedule
}
