//! Scan and exscan by messages: recursive doubling.

use mica_algorithms::scan;

use super::bind::{VectorMemory, bind, own_data};
use super::place::{Elements, RankPlace};
use super::reduction::{Reduction, ScanKind};
use super::schedule::Schedule;
use mica_objects::error::Result;

/// The schedule of a scan. In place, `send` is absent and `receive` holds the operand.
pub fn build(
    me: RankPlace,
    kind: ScanKind,
    reduction: &Reduction,
    send: Option<&Elements>,
    receive: &Elements,
) -> Result<Schedule> {
    if reduction.count == 0 {
        return Ok(Schedule::new());
    }
    bind(VectorMemory::new(reduction, send, Some(receive)), |out| {
        scan::doubling(me, kind, reduction.shape(), own_data(send), out);
    })
}
