//! Reduce by messages: a binomial tree for short vectors; long ones by halving, and a gather at the
//! root.

use mica_algorithms::{ReduceBuffers, reduce as described};

use super::bind::{VectorMemory, bind, own_data};
use super::place::{Elements, RankPlace};
use super::reduction::Reduction;
use super::schedule::Schedule;
use super::thresholds::MessageThresholds;
use mica_objects::error::Result;

/// The schedule of a reduce. `send` is absent in place (at the root), `receive` away from the root.
pub fn build(
    me: RankPlace,
    thresholds: &MessageThresholds,
    reduction: &Reduction,
    send: Option<&Elements>,
    receive: Option<&Elements>,
    root: usize,
) -> Result<Schedule> {
    if reduction.count == 0 {
        return Ok(Schedule::new());
    }
    let halves =
        reduction.bytes() >= thresholds.reduce_split && reduction.count >= me.size && me.size > 2;
    let operands = ReduceBuffers { own: own_data(send), has_output: receive.is_some() };
    bind(VectorMemory::new(reduction, send, receive), |out| match halves {
        true => described::halving(me, root, reduction.shape(), operands, out),
        false => described::binomial(me, root, reduction.shape(), operands, out),
    })
}
