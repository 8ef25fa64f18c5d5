//! The receives of this rank, and the eager messages whose cells are still coming.

use crate::engine::CompletionActions;
use crate::pt2pt::{OperationTable, ReceiveCompletion, ReceiveStage, RecvId, RecvOp};
use mica_node::peer_table::PeerTable;

/// An eager message that arrives through cells: what has arrived, and its destination.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Inbound {
    pub total: usize,
    pub position: usize,
    pub target: InboundTarget,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InboundTarget {
    Receive(RecvId),
    Unexpected(u32),
    /// Taken by a matched probe; index into `probed`.
    Probed(usize),
}

/// The receives that have begun and whose completion was not taken.
#[derive(Debug, Default)]
pub(crate) struct Receives {
    pub ops: OperationTable<RecvOp>,
    /// By sender: the eager message whose cells are still coming.
    pub inbound: PeerTable<Option<Inbound>>,
    /// Receives that go on but whose completion the program does not ask for.
    pub abandoned: Vec<RecvId>,
}

impl Receives {
    /// The result of a receive, if it is complete.
    #[inline]
    pub fn completion(&self, id: RecvId) -> Option<ReceiveCompletion> {
        match self.ops.get(id.0)?.stage {
            ReceiveStage::Complete(completion) => Some(completion),
            _ => None,
        }
    }

    /// As [`completion`](Self::completion); the receive is then removed.
    #[inline]
    pub fn take(&mut self, id: RecvId) -> Option<ReceiveCompletion> {
        let completion = self.completion(id)?;
        self.ops.remove(id.index());
        Some(completion)
    }

    /// Whether a receive is complete, or gone.
    #[inline]
    pub fn is_over(&self, id: RecvId) -> bool {
        let op = self.ops.get(id.0);
        op.is_none_or(|op| matches!(op.stage, ReceiveStage::Complete(_)))
    }

    /// Completes a receive. Returns what is due then.
    #[inline]
    pub fn complete(&mut self, id: RecvId, completion: ReceiveCompletion) -> CompletionActions {
        let op = &mut self.ops[id.index()];
        op.stage = ReceiveStage::Complete(completion);
        op.exposed = None;
        std::mem::take(&mut op.actions)
    }

    /// Removes the abandoned receives that have completed.
    pub fn reap(&mut self) {
        let mut abandoned = std::mem::take(&mut self.abandoned);
        abandoned.retain(|&id| {
            let is_over = self.is_over(id);
            self.take(id);
            !is_over
        });
        self.abandoned = abandoned;
    }

    /// The eager message of `source` whose cells are still coming.
    pub fn inbound_of(&mut self, source: u32) -> Option<&mut Inbound> {
        self.inbound.get_mut(source)?.as_mut()
    }
}
