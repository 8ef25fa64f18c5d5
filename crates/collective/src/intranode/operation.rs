//! What a collective does, from one rank's view: its buffers and its operator, without an
//! algorithm.

use std::sync::Arc;

use mica_memory::View;
use mica_policy::collective::{Collective, OperandOrder};

use crate::absent::absent_view;
use crate::intranode::cells::parts::Parts;
use crate::intranode::protocol::group::NodeGroup;
use crate::intranode::protocol::header::OperationKind;
use crate::intranode::reduce::operands::stride;
use crate::place::Elements;
use crate::reduction::Reduction;
use crate::reduction::ScanKind;
use mica_objects::constants as c;
use mica_objects::error::{Error, Result};

/// A collective among ranks of an intracommunicator, with this rank's buffers. A buffer is `None`
/// if `MPI_IN_PLACE` replaces it, or if only another rank has it.
#[derive(Clone, Debug)]
pub enum CollectiveOperation {
    /// `MPI_Barrier`.
    Barrier,
    /// `MPI_Finalize`, on `MPI_COMM_WORLD`: a barrier that matches no other call.
    Finalize,
    /// `MPI_Bcast`.
    Bcast {
        /// The message.
        view: View,
        /// The rank that has the message.
        root: usize,
    },
    /// `MPI_Gather`, `MPI_Gatherv`.
    Gather {
        /// What this rank sends.
        send: Option<View>,
        /// At the root, where the ranks' messages go.
        parts: Option<Parts>,
        /// The rank that receives.
        root: usize,
        /// Bytes of each rank, if all ranks know them.
        bytes: Option<usize>,
    },
    /// `MPI_Scatter`, `MPI_Scatterv`.
    Scatter {
        /// At the root, what it sends.
        parts: Option<Parts>,
        /// Where this rank's part goes.
        receive: Option<View>,
        /// The rank that sends.
        root: usize,
        /// Bytes of each rank, if all ranks know them.
        bytes: Option<usize>,
    },
    /// `MPI_Allgather`, `MPI_Allgatherv`.
    Allgather {
        /// What this rank sends.
        send: Option<View>,
        /// Where all parts go.
        parts: Parts,
    },
    /// `MPI_Alltoall`, `MPI_Alltoallv`, `MPI_Alltoallw`.
    Alltoall {
        /// What this rank sends to each rank.
        send: Option<Parts>,
        /// Where the message from each rank goes.
        receive: Parts,
    },
    /// `MPI_Reduce`, `MPI_Allreduce`.
    Reduce {
        /// Operator, datatype and count.
        reduction: Reduction,
        /// This rank's operand; in place, it lies where the result goes.
        send: Option<Elements>,
        /// Where the result goes, at ranks that get it.
        result: Option<Elements>,
        /// The rank that gets it; `None`: all ranks.
        root: Option<usize>,
    },
    /// `MPI_Reduce_scatter`, `MPI_Reduce_scatter_block`.
    ReduceScatter {
        /// Operator, datatype and count of all blocks.
        reduction: Reduction,
        /// This rank's operand; in place, it lies where the result goes.
        send: Option<Elements>,
        /// Elements of each rank's block.
        counts: Arc<[usize]>,
        /// Where this rank's block goes.
        result: Elements,
    },
    /// `MPI_Scan`, `MPI_Exscan`.
    Scan {
        /// Operator, datatype and count.
        reduction: Reduction,
        /// This rank's operand; in place, it lies where the result goes.
        send: Option<Elements>,
        /// Where the result goes.
        result: Elements,
        /// Whether this rank's operand counts.
        kind: ScanKind,
    },
}

impl CollectiveOperation {
    /// Which collective it is.
    #[inline]
    pub fn collective(&self) -> Collective {
        match self {
            CollectiveOperation::Barrier | CollectiveOperation::Finalize => Collective::Barrier,
            CollectiveOperation::Bcast { .. } => Collective::Bcast,
            CollectiveOperation::Gather { .. } => Collective::Gather,
            CollectiveOperation::Scatter { .. } => Collective::Scatter,
            CollectiveOperation::Allgather { .. } => Collective::Allgather,
            CollectiveOperation::Alltoall { .. } => Collective::Alltoall,
            CollectiveOperation::Reduce { root: None, .. } => Collective::Allreduce,
            CollectiveOperation::Reduce { .. } => Collective::Reduce,
            CollectiveOperation::ReduceScatter { .. } => Collective::ReduceScatter,
            CollectiveOperation::Scan { .. } => Collective::Scan,
        }
    }

    /// Bytes that a buffer has no memory for.
    pub fn absent_bytes(&self) -> Option<usize> {
        let parts = |parts: Option<&Parts>| parts.and_then(Parts::absent_bytes);
        let elements = |elements: Option<&Elements>| elements.and_then(Elements::absent_bytes);
        match self {
            CollectiveOperation::Barrier | CollectiveOperation::Finalize => None,
            CollectiveOperation::Bcast { view, .. } => absent_view([view]),
            CollectiveOperation::Gather { send: view, parts: all, .. }
            | CollectiveOperation::Scatter { receive: view, parts: all, .. } => {
                absent_view(view).or_else(|| parts(all.as_ref()))
            }
            CollectiveOperation::Allgather { send, parts: all } => {
                absent_view(send).or_else(|| parts(Some(all)))
            }
            CollectiveOperation::Alltoall { send, receive } => {
                parts(send.as_ref()).or_else(|| parts(Some(receive)))
            }
            CollectiveOperation::Reduce { send, result, .. } => {
                elements(send.as_ref()).or_else(|| elements(result.as_ref()))
            }
            CollectiveOperation::ReduceScatter { send, result, .. }
            | CollectiveOperation::Scan { send, result, .. } => {
                elements(send.as_ref()).or_else(|| elements(Some(result)))
            }
        }
    }

    /// What its members must call alike. `directly`: it copies directly where possible.
    pub fn kind(&self, directly: bool) -> OperationKind {
        let kind = match self {
            CollectiveOperation::Scan { kind: ScanKind::Exclusive, .. } => OperationKind::EXSCAN,
            CollectiveOperation::Finalize => OperationKind::FINALIZE,
            _ => OperationKind::from(self.collective()),
        };
        let kind = match directly {
            true => kind.copying_directly(),
            false => kind,
        };
        self.root().map_or(kind, |root| kind.rooted(root))
    }

    /// The rank that sends to all others, or receives from them, if there is one.
    pub fn root(&self) -> Option<usize> {
        match self {
            CollectiveOperation::Bcast { root, .. }
            | CollectiveOperation::Gather { root, .. }
            | CollectiveOperation::Scatter { root, .. } => Some(*root),
            CollectiveOperation::Reduce { root, .. } => *root,
            _ => None,
        }
    }

    /// In which order its operator, if there is one, takes the operands.
    #[inline]
    pub fn order(&self) -> OperandOrder {
        self.reduction().map_or(OperandOrder::Any, |r| r.op.order())
    }

    fn reduction(&self) -> Option<&Reduction> {
        match self {
            CollectiveOperation::Reduce { reduction, .. }
            | CollectiveOperation::ReduceScatter { reduction, .. }
            | CollectiveOperation::Scan { reduction, .. } => Some(reduction),
            _ => None,
        }
    }

    /// The bytes by which the algorithm is chosen, if all ranks know them alike: those of the
    /// vector, or of the longest part.
    #[inline]
    pub fn bytes(&self) -> Option<usize> {
        match self {
            CollectiveOperation::Barrier | CollectiveOperation::Finalize => Some(0),
            CollectiveOperation::Bcast { view, .. } => Some(view.len()),
            CollectiveOperation::Gather { bytes, .. }
            | CollectiveOperation::Scatter { bytes, .. } => *bytes,
            CollectiveOperation::Allgather { parts, .. } => Some(parts.longest()),
            CollectiveOperation::Alltoall { receive, .. } => match receive {
                Parts::Even(blocks, _) => Some(blocks.bytes()),
                Parts::Each(_) => None,
            },
            CollectiveOperation::Reduce { reduction, .. }
            | CollectiveOperation::Scan { reduction, .. } => Some(reduction.bytes()),
            CollectiveOperation::ReduceScatter { reduction, counts, .. } => {
                let longest = counts.iter().copied().max().unwrap_or(0);
                Some(longest.saturating_mul(reduction.datatype.size() as usize))
            }
        }
    }

    /// Bytes of the longest of this rank's parts.
    pub fn longest(&self) -> usize {
        match self {
            CollectiveOperation::Gather { parts: Some(parts), .. }
            | CollectiveOperation::Scatter { parts: Some(parts), .. } => parts.longest(),
            CollectiveOperation::Alltoall { send, receive } => {
                send.as_ref().unwrap_or(receive).longest()
            }
            _ => self.bytes().unwrap_or(0),
        }
    }

    /// The bytes that this rank announces to the others.
    #[inline]
    pub fn own_bytes(&self, me: usize) -> usize {
        match self {
            CollectiveOperation::Gather { send: Some(send), .. } => send.len(),
            CollectiveOperation::Scatter { bytes, receive, .. } => match (bytes, receive) {
                (Some(bytes), _) => *bytes,
                (None, receive) => receive.as_ref().map_or(0, View::len),
            },
            CollectiveOperation::Alltoall { .. } => self.bytes().unwrap_or(0),
            CollectiveOperation::Gather { .. }
            | CollectiveOperation::Barrier
            | CollectiveOperation::Finalize => 0,
            CollectiveOperation::Bcast { view, .. } => view.len(),
            CollectiveOperation::Allgather { send, parts } => match send {
                Some(send) => send.len(),
                None => parts.len(me),
            },
            CollectiveOperation::Reduce { reduction, .. }
            | CollectiveOperation::ReduceScatter { reduction, .. }
            | CollectiveOperation::Scan { reduction, .. } => {
                reduction.count * stride(reduction).unwrap_or(0)
            }
        }
    }

    /// Bytes that this rank contributes: what counts as sent.
    #[inline]
    pub fn brought(&self, me: usize) -> usize {
        match self {
            CollectiveOperation::Barrier | CollectiveOperation::Finalize => 0,
            CollectiveOperation::Bcast { view, root } if *root == me => view.len(),
            CollectiveOperation::Bcast { .. } => 0,
            CollectiveOperation::Gather { send, .. } => send.as_ref().map_or(0, View::len),
            CollectiveOperation::Scatter { parts, .. } => parts.as_ref().map_or(0, Parts::total),
            CollectiveOperation::Allgather { parts, .. } => parts.len(me),
            CollectiveOperation::Alltoall { send, receive } => {
                send.as_ref().unwrap_or(receive).total()
            }
            CollectiveOperation::Reduce { reduction, .. }
            | CollectiveOperation::ReduceScatter { reduction, .. }
            | CollectiveOperation::Scan { reduction, .. } => reduction.bytes(),
        }
    }

    /// Whether all ranks know that there is nothing to do.
    #[inline]
    pub fn is_empty(&self) -> bool {
        !matches!(self, CollectiveOperation::Barrier | CollectiveOperation::Finalize)
            && self.bytes() == Some(0)
            && self.reduction().is_none_or(|r| r.count == 0)
    }

    /// Whether the node group's cells can carry it, as far as all ranks know its amounts: its
    /// operands fit in, and it does not have too many pieces.
    pub fn fits(&self, group: &NodeGroup) -> bool {
        let most = group.most_bytes(self.collective());
        if self.bytes().is_some_and(|bytes| bytes > most) {
            return false;
        }
        let Some(reduction) = self.reduction() else {
            return true;
        };
        let room = group.cell_bytes() / 2 / group.size();
        stride(reduction).is_some_and(|stride| stride <= room)
    }

    /// Refuses a part of this rank that is too long for the node group's cells. The other ranks do
    /// not know of it, as otherwise the call would not [fit](Self::fits).
    ///
    /// # Errors
    /// `MPI_ERR_COUNT`.
    pub fn check_longest(&self, group: &NodeGroup) -> Result<()> {
        let own = self.own_bytes(group.me());
        let longest = match self {
            // The longest part is included in these bytes.
            CollectiveOperation::Reduce { .. }
            | CollectiveOperation::ReduceScatter { .. }
            | CollectiveOperation::Scan { .. } => own,
            _ => self.longest().max(own),
        };
        let most = group.most_bytes(self.collective());
        if longest <= most {
            return Ok(());
        }
        let detail = format!(
            "a part of {longest} bytes: where the lengths of parts differ, one has at most {most} \
             bytes between the {} ranks of this node; MICA_COLL=messages has no such limit",
            group.size()
        );
        Err(Error::other(c::ERR_COUNT, detail))
    }
}
