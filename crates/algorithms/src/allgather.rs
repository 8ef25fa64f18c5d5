//! Allgather. A unit is a rank's block; [`Buffer::Input`] has this rank's alone.
//!
//! - [`recursive_doubling`], for short blocks and a power of two of ranks:
//!   `log2 p a + (p - 1) n b`.
//! - [`bruck`], for any number of ranks: `ceil(log2 p) a + (p - 1) n b`, and a copy of all blocks.
//! - [`ring`], for long blocks and for blocks of different lengths: `(p - 1) (a + n b)`, among
//!   neighbours.

use crate::{BlockLengths, Buffer, OwnData, RankPlace, RoundSink};

/// The rank's own block where its result will be.
fn start(me: RankPlace, own: OwnData, out: &mut impl RoundSink) {
    if own == OwnData::Input {
        out.round();
        out.copy(Buffer::Input.part(0, 1), Buffer::Output.part(me.rank, 1));
    }
}

/// Around a ring: each rank passes on what it received last.
pub fn ring(me: RankPlace, own: OwnData, lengths: BlockLengths<'_>, out: &mut impl RoundSink) {
    start(me, own, out);
    for step in 0..me.size - 1 {
        out.round();
        let (incoming, outgoing) = (me.before(step + 1), me.before(step));
        if !lengths.is_empty(incoming) {
            out.receive(me.before(1), Buffer::Output.part(incoming, 1));
        }
        if !lengths.is_empty(outgoing) {
            out.send(me.after(1), Buffer::Output.part(outgoing, 1));
        }
    }
}

/// Partners differ in one bit of their rank, and exchange all that they have.
pub fn recursive_doubling(me: RankPlace, own: OwnData, out: &mut impl RoundSink) {
    start(me, own, out);
    let mut have = 1;
    while have < me.size {
        let partner = me.rank ^ have;
        let first = |rank: usize| rank & !(have - 1);
        out.round();
        out.receive(partner, Buffer::Output.part(first(partner), have));
        out.send(partner, Buffer::Output.part(first(me.rank), have));
        have *= 2;
    }
}

/// Block `i` of the staging memory is that of the `i`th rank after this one; its known prefix
/// doubles in each round.
pub fn bruck(me: RankPlace, own: OwnData, out: &mut impl RoundSink) {
    let staging = out.scratch(me.size);
    let block = match own {
        OwnData::Input => Buffer::Input.part(0, 1),
        OwnData::InPlace => Buffer::Output.part(me.rank, 1),
    };
    out.round();
    out.copy(block, staging.part(0, 1));
    let mut have = 1;
    while have < me.size {
        let n = have.min(me.size - have);
        out.round();
        out.receive(me.after(have), staging.part(have, n));
        out.send(me.before(have), staging.part(0, n));
        have *= 2;
    }
    let before_wrap = me.size - me.rank;
    out.copy(staging.part(0, before_wrap), Buffer::Output.part(me.rank, before_wrap));
    if me.rank > 0 {
        out.copy(staging.part(before_wrap, me.rank), Buffer::Output.part(0, me.rank));
    }
}
