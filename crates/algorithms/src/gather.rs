//! Gather and scatter. A unit is a rank's block; [`Buffer::Output`] of a gather, and
//! [`Buffer::Input`] of a scatter, are the root's blocks of all ranks. A rank's own block is the
//! only unit of its other buffer.
//!
//! - [`gather_binomial`], [`scatter_binomial`], for short blocks: an inner node handles its whole
//!   subtree as one message: `ceil(log2 p) a + (p - 1) n b`.
//! - [`gather_linear`], [`scatter_linear`], for long ones, and for blocks of different lengths,
//!   which only the root knows: the root with each rank, `(p - 1) (a + n b)`.

use crate::{BinomialTree, BlockLengths, Buffer, BufferPart, OwnData, RankPlace, RoundSink};

const OWN_SENT: BufferPart = Buffer::Input.part(0, 1);
const OWN_RECEIVED: BufferPart = Buffer::Output.part(0, 1);

/// Up a binomial tree. `own` is in place at the root only.
pub fn gather_binomial(me: RankPlace, root: usize, own: OwnData, out: &mut impl RoundSink) {
    let v = me.relative(root);
    let tree = BinomialTree::binomial(v, me.size);
    let Some(parent) = tree.parent else {
        if own == OwnData::Input {
            out.round();
            out.copy(OWN_SENT, Buffer::Output.part(root, 1));
        }
        for (child, span) in tree.children {
            let first = me.actual(root, child);
            if first + span <= me.size {
                out.receive(first, Buffer::Output.part(first, span));
            } else {
                // The subtree's ranks wrap around from the last rank to 0: two places in the
                // buffer.
                let (staging, before) = (out.scratch(span), me.size - first);
                out.receive(first, staging.part(0, span));
                out.copy(staging.part(0, before), Buffer::Output.part(first, before));
                let (from, rest) = (staging.part(before, span - before), span - before);
                out.copy(from, Buffer::Output.part(0, rest));
            }
        }
        return;
    };
    let parent = me.actual(root, parent);
    out.round();
    if tree.span == 1 {
        return out.send(parent, OWN_SENT);
    }
    let staging = out.scratch(tree.span);
    for (child, span) in tree.children {
        out.receive(me.actual(root, child), staging.part(child - v, span));
    }
    out.copy(OWN_SENT, staging.part(0, 1));
    out.round();
    out.send(parent, staging.part(0, tree.span));
}

/// The root receives from each rank. Ranks other than the root need to know the length of their own
/// block only.
pub fn gather_linear(
    me: RankPlace,
    root: usize,
    own: OwnData,
    lengths: BlockLengths<'_>,
    out: &mut impl RoundSink,
) {
    out.round();
    if me.rank != root {
        if !lengths.is_empty(me.rank) {
            out.send(root, OWN_SENT);
        }
        return;
    }
    for rank in 0..me.size {
        let block = Buffer::Output.part(rank, 1);
        if rank != root {
            if !lengths.is_empty(rank) {
                out.receive(rank, block);
            }
        } else if own == OwnData::Input {
            out.copy(OWN_SENT, block);
        }
    }
}

/// Down a binomial tree. `own` is in place at the root only.
pub fn scatter_binomial(me: RankPlace, root: usize, own: OwnData, out: &mut impl RoundSink) {
    let v = me.relative(root);
    let tree = BinomialTree::binomial(v, me.size);
    let Some(parent) = tree.parent else {
        let mut messages = Vec::with_capacity(tree.children.len());
        for (child, span) in tree.children {
            let first = me.actual(root, child);
            if first + span <= me.size {
                messages.push((first, Buffer::Input.part(first, span)));
            } else {
                let (staging, before) = (out.scratch(span), me.size - first);
                out.copy(Buffer::Input.part(first, before), staging.part(0, before));
                let (to, rest) = (staging.part(before, span - before), span - before);
                out.copy(Buffer::Input.part(0, rest), to);
                messages.push((first, staging.part(0, span)));
            }
        }
        out.round();
        for (to, message) in messages {
            out.send(to, message);
        }
        if own == OwnData::Input {
            out.copy(Buffer::Input.part(root, 1), OWN_RECEIVED);
        }
        return;
    };
    let parent = me.actual(root, parent);
    out.round();
    if tree.span == 1 {
        return out.receive(parent, OWN_RECEIVED);
    }
    let staging = out.scratch(tree.span);
    out.receive(parent, staging.part(0, tree.span));
    out.round();
    for (child, span) in tree.children {
        out.send(me.actual(root, child), staging.part(child - v, span));
    }
    out.copy(staging.part(0, 1), OWN_RECEIVED);
}

/// The root sends to each rank. Ranks other than the root need to know the length of their own
/// block only.
pub fn scatter_linear(
    me: RankPlace,
    root: usize,
    own: OwnData,
    lengths: BlockLengths<'_>,
    out: &mut impl RoundSink,
) {
    out.round();
    if me.rank != root {
        if !lengths.is_empty(me.rank) {
            out.receive(root, OWN_RECEIVED);
        }
        return;
    }
    for rank in 0..me.size {
        let block = Buffer::Input.part(rank, 1);
        if rank != root {
            if !lengths.is_empty(rank) {
                out.send(rank, block);
            }
        } else if own == OwnData::Input {
            out.copy(block, OWN_RECEIVED);
        }
    }
}
