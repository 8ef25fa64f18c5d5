//! Allreduce by messages: recursive doubling for short vectors; long ones by halving and its
//! reverse.

use mica_algorithms::{Halves, allreduce as described};

use super::bind::{VectorMemory, bind, own_data};
use super::place::{Elements, RankPlace};
use super::reduction::Reduction;
use super::schedule::Schedule;
use super::thresholds::MessageThresholds;
use mica_objects::error::Result;

/// The schedule of an allreduce. In place, `send` is absent and `receive` holds the operand.
pub fn build(
    me: RankPlace,
    thresholds: &MessageThresholds,
    reduction: &Reduction,
    send: Option<&Elements>,
    receive: &Elements,
) -> Result<Schedule> {
    if reduction.count == 0 {
        return Ok(Schedule::new());
    }
    let halves = reduction.bytes() >= thresholds.reduce_split
        && reduction.count >= Halves::of(me.size, None).active
        && me.size > 2;
    bind(VectorMemory::new(reduction, send, Some(receive)), |out| match halves {
        true => described::halving(me, reduction.shape(), own_data(send), out),
        false => described::doubling(me, reduction.shape(), own_data(send), out),
    })
}
