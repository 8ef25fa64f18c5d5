//! Barrier: dissemination (Hensgen, Finkel, Manber 1988). In round `k`, every rank signals the rank
//! `2^k` after it and waits for the rank `2^k` before it; after `ceil(log2 size)` rounds, every
//! rank has heard, directly or indirectly, from all others.

use crate::{Buffer, RankPlace, RoundSink};

/// A barrier.
pub fn dissemination(me: RankPlace, out: &mut impl RoundSink) {
    let nothing = Buffer::Output.part(0, 0);
    let mut distance = 1;
    while distance < me.size {
        out.round();
        out.receive(me.before(distance), nothing);
        out.send(me.after(distance), nothing);
        distance *= 2;
    }
}
