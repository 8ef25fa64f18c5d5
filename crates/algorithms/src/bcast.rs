//! Broadcast. A unit is a byte of the message.
//!
//! - [`binomial`], for short messages: `ceil(log2 p) (a + n b)`.
//! - [`scatter_ring`], for long ones: the root's data is scattered over a binomial tree and
//!   collected again around a ring (van de Geijn), so that every rank sends about as much as the
//!   root: `(ceil(log2 p) + p - 1) a + 2 (p - 1) / p n b`.

use crate::{BinomialTree, Buffer, RankPlace, RoundSink};

/// Down a binomial tree.
pub fn binomial(me: RankPlace, root: usize, bytes: usize, out: &mut impl RoundSink) {
    let message = Buffer::Output.part(0, bytes);
    let tree = BinomialTree::binomial(me.relative(root), me.size);
    if let Some(parent) = tree.parent {
        out.round();
        out.receive(me.actual(root, parent), message);
    }
    out.round();
    for (child, _) in tree.children {
        out.send(me.actual(root, child), message);
    }
}

/// A piece for each rank down a binomial tree, then all pieces around a ring.
pub fn scatter_ring(me: RankPlace, root: usize, bytes: usize, out: &mut impl RoundSink) {
    let (v, size) = (me.relative(root), me.size);
    let piece = bytes.div_ceil(size);
    let range = |first: usize, n: usize| {
        let start = (first * piece).min(bytes);
        Buffer::Output.part(start, ((first + n) * piece).min(bytes) - start)
    };

    let tree = BinomialTree::binomial(v, size);
    if let Some(parent) = tree.parent {
        let part = range(v, tree.span);
        if part.count > 0 {
            out.round();
            out.receive(me.actual(root, parent), part);
        }
    }
    out.round();
    for &(child, span) in &tree.children {
        let part = range(child, span);
        if part.count > 0 {
            out.send(me.actual(root, child), part);
        }
    }

    // Around the ring, except for the pieces that the tree already brought.
    let next = (v + 1) % size;
    let next_span = BinomialTree::binomial(next, size).span;
    let holds = |v: usize, span: usize, i: usize| i >= v && i < v + span;
    for step in 0..size - 1 {
        out.round();
        let (incoming, outgoing) = ((v + 2 * size - step - 1) % size, (v + size - step) % size);
        let part = range(incoming, 1);
        if !holds(v, tree.span, incoming) && part.count > 0 {
            out.receive(me.before(1), part);
        }
        let part = range(outgoing, 1);
        if !holds(next, next_span, outgoing) && part.count > 0 {
            out.send(me.after(1), part);
        }
    }
}
