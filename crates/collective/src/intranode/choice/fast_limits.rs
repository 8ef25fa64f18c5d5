//! Which calls of a communicator may take the [fast path](crate::intranode::fast_path):
//! found out once, from the choices of the policy.

use mica_policy::collective::{Algorithm, Choices, Collective, OperandOrder, Reachability};

use crate::intranode::cells::share_of;
use crate::intranode::reduce::cells::alone_max;

/// Which calls may take the fast path: longest messages in bytes, by collective.
#[derive(Debug, Clone, Copy, Default)]
pub struct FastPath {
    pub(in crate::intranode) barrier: bool,
    pub(in crate::intranode) bcast: usize,
    pub(in crate::intranode) gather: usize,
    pub(in crate::intranode) scatter: usize,
    pub(in crate::intranode) allgather: usize,
    pub(in crate::intranode) alltoall: usize,
    pub(in crate::intranode) allreduce: usize,
    pub(in crate::intranode) reduce: usize,
    pub(in crate::intranode) reduce_scatter: usize,
    pub(in crate::intranode) scan: usize,
}

impl FastPath {
    /// Those calls that these choices send through cells anyway.
    pub fn new(choices: &Choices, reach: Reachability) -> FastPath {
        let is_shared = |collective, bytes| {
            choices.algorithm(collective, bytes, OperandOrder::Any, reach) == Algorithm::Shared
        };
        // Lengths at which the choice may change.
        let lengths =
            (1..16).chain((4..28).flat_map(|octave| (4..8usize).map(move |n| n << octave >> 2)));
        let up_to = |collective, most: usize| {
            lengths
                .clone()
                .take_while(|&bytes| bytes <= most && is_shared(collective, bytes))
                .last()
                .unwrap_or(0)
        };
        let setting = choices.setting();
        let cell = setting.area_cell.unwrap_or(0);
        let (half, alone) = (cell / 2, alone_max(setting.ranks).min(cell));
        FastPath {
            barrier: is_shared(Collective::Barrier, 0),
            bcast: up_to(Collective::Bcast, half),
            gather: up_to(Collective::Gather, half),
            scatter: up_to(Collective::Scatter, half),
            allgather: up_to(Collective::Allgather, half),
            alltoall: up_to(Collective::Alltoall, share_of(half, setting.ranks)),
            allreduce: up_to(Collective::Allreduce, alone),
            reduce: up_to(Collective::Reduce, alone),
            reduce_scatter: up_to(Collective::ReduceScatter, half),
            scan: up_to(Collective::Scan, half),
        }
    }
}
