//! All-to-all. A unit is the block of a pair of ranks.
//!
//! - [`bruck`], for many ranks with short blocks: `ceil(log2 p) (a + p / 2 n b)`, and copies of
//!   what is sent and received.
//! - [`exchange`], a direct exchange with a window of peers at a time (a window of one is the
//!   pairwise exchange): `(p - 1) (a + n b)`.
//! - [`swap`], in place: pairs of ranks swap through a temporary block.

use crate::{BlockLengths, Buffer, RankPlace, RoundSink};

/// Peers that a rank exchanges with at the same time in [`exchange`], unless thresholds say else.
pub const WINDOW: usize = 32;

/// A direct exchange: block `i` of the input goes to rank `i`, block `i` of the output comes from
/// it. `sent` and `received` are the lengths of these blocks.
pub fn exchange(
    me: RankPlace,
    window: usize,
    sent: BlockLengths<'_>,
    received: BlockLengths<'_>,
    out: &mut impl RoundSink,
) {
    out.round();
    out.copy(Buffer::Input.part(me.rank, 1), Buffer::Output.part(me.rank, 1));
    let window = window.max(1);
    for distance in 1..me.size {
        if (distance - 1) % window == 0 && distance > 1 {
            out.round();
        }
        let (to, from) = (me.after(distance), me.before(distance));
        if !received.is_empty(from) {
            out.receive(from, Buffer::Output.part(from, 1));
        }
        if !sent.is_empty(to) {
            out.send(to, Buffer::Input.part(to, 1));
        }
    }
}

/// An exchange in place: block `i` of the output is sent to rank `i` and replaced by what comes
/// from there. In round `r`, partners are ranks that add up to `r` modulo the number of ranks, so
/// each pair exchanges once. Blocks may have any length, so units of the temporary memory are
/// bytes; `length` has the bytes of each block.
pub fn swap(me: RankPlace, length: impl Fn(usize) -> usize, out: &mut impl RoundSink) {
    let longest = (0..me.size).map(&length).max().unwrap_or(0);
    if longest == 0 {
        return;
    }
    let staging = out.scratch(longest);
    for round in 0..me.size {
        let partner = (round + me.size - me.rank) % me.size;
        if partner == me.rank || length(partner) == 0 {
            continue;
        }
        let (block, incoming) = (Buffer::Output.part(partner, 1), staging.part(0, length(partner)));
        out.round();
        out.receive(partner, incoming);
        out.send(partner, block);
        out.copy(incoming, block);
    }
}

/// Block `i` of the staging memory is on its way to the `i`th rank after the one where it started.
/// In round `k`, all blocks whose `i` has bit `k` set move on by `2^k` ranks, so each arrives when
/// all bits of its distance are processed.
pub fn bruck<S: RoundSink>(me: RankPlace, out: &mut S) {
    let (moving, outgoing) = (out.scratch(me.size), out.scratch(me.size));
    let incoming = out.scratch(me.size);
    let before_wrap = me.size - me.rank;
    out.round();
    out.copy(Buffer::Input.part(me.rank, before_wrap), moving.part(0, before_wrap));
    if me.rank > 0 {
        out.copy(Buffer::Input.part(0, me.rank), moving.part(before_wrap, me.rank));
    }
    let mut distance = 1;
    while distance < me.size {
        let copied = if S::TAKES_COPIES { me.size } else { 0 };
        let travelling = || (0..copied).filter(|i| i & distance != 0).enumerate();
        for (slot, i) in travelling() {
            out.copy(moving.part(i, 1), outgoing.part(slot, 1));
        }
        let twice = 2 * distance;
        let blocks = me.size / twice * distance + (me.size % twice).saturating_sub(distance);
        out.round();
        out.receive(me.before(distance), incoming.part(0, blocks));
        out.send(me.after(distance), outgoing.part(0, blocks));
        for (slot, i) in travelling() {
            out.copy(incoming.part(slot, 1), moving.part(i, 1));
        }
        distance *= 2;
    }
    // What is now at distance `i` started at the `i`th rank before this one.
    for i in (0..me.size).take_while(|_| S::TAKES_COPIES) {
        out.copy(moving.part(i, 1), Buffer::Output.part(me.before(i), 1));
    }
}
