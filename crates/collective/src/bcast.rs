//! Broadcast by messages: a binomial tree for short ones; for long ones a scatter and a ring.

use mica_algorithms::bcast;
use mica_memory::View;

use super::bind::{PackedBytes, ScheduleBinder, WholeMessage, bind};
use super::place::{RankPlace, bytes_at};
use super::schedule::Schedule;
use super::thresholds::MessageThresholds;
use crate::absent::temporary;
use mica_objects::error::Result;

/// The schedule of a broadcast of `message` from `root`.
pub fn build(
    me: RankPlace,
    thresholds: &MessageThresholds,
    message: View,
    root: usize,
) -> Result<Schedule> {
    let bytes = message.len();
    if me.size == 1 || message.is_empty() {
        Ok(Schedule::new())
    } else if bytes < thresholds.bcast_scatter || me.size == 2 {
        bind(WholeMessage(message), |out| bcast::binomial(me, root, bytes, out))
    } else {
        scatter_ring(me, message, root)
    }
}

/// The pieces are ranges of packed bytes; data with gaps is packed once and unpacked once.
fn scatter_ring(me: RankPlace, message: View, root: usize) -> Result<Schedule> {
    let bytes = message.len();
    let describe =
        |out: &mut ScheduleBinder<PackedBytes>| bcast::scatter_ring(me, root, bytes, out);
    if let Some((address, _)) = message.as_contiguous() {
        let shift = address.wrapping_sub(message.region().address()) as isize;
        return bind(PackedBytes(message.region().offset(shift)), describe);
    }
    let staging = temporary(bytes);
    let packed = bytes_at(&staging, 0, bytes);
    bind(PackedBytes(staging), |out| {
        if me.rank == root {
            out.schedule.round().copy(message, packed);
            describe(out);
        } else {
            describe(out);
            out.schedule.last().copy(packed, message);
        }
    })
}
