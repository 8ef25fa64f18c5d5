//! Reduce-scatter by messages, with equal or unequal blocks: recursive halving for short vectors,
//! pairwise exchange for long ones; in rank order for operators that do not commute.

use mica_algorithms::reduce_scatter::{self as described, ScatteredBlocks};

use super::bind::{VectorMemory, bind, own_data};
use super::place::{Elements, RankPlace};
use super::reduction::Reduction;
use super::schedule::Schedule;
use super::thresholds::MessageThresholds;
use mica_objects::error::Result;

/// The schedule of a reduce-scatter: rank `i` gets the `counts[i]` elements after those of the
/// ranks before it. In place, `send` is absent, `receive` holds the whole operand and gets the
/// block at its start.
pub fn build(
    me: RankPlace,
    thresholds: &MessageThresholds,
    reduction: &Reduction,
    counts: &[usize],
    send: Option<&Elements>,
    receive: &Elements,
) -> Result<Schedule> {
    if reduction.count == 0 {
        return Ok(Schedule::new());
    }
    let mut first = vec![0];
    for count in counts {
        first.push(first[first.len() - 1] + count);
    }
    let blocks = ScatteredBlocks { first: &|rank| first[rank], own: own_data(send) };
    let commutes = reduction.op.is_commutative();
    let is_long = reduction.bytes() >= thresholds.reduce_scatter_pairwise;
    bind(VectorMemory::new(reduction, send, Some(receive)), |out| match (commutes, is_long) {
        (false, _) => described::in_order(me, blocks, out),
        (true, true) => described::pairwise(me, blocks, out),
        (true, false) => described::halving(me, blocks, out),
    })
}
