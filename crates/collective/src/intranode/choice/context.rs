//! What a communicator knows about its ranks on one node: the policy's choices, the shared memory,
//! and how buffers can be accessed. Made once for a communicator, by `plan`.

use std::sync::Arc;

use mica_policy::collective::{Algorithm, Choices, Collective, OperandOrder, Reachability};
use mica_protocol::CounterRef;

use super::fast_limits::FastPath;
use crate::intranode::operation::CollectiveOperation;
use crate::intranode::protocol::group::NodeGroup;

/// What a communicator knows about its ranks on this node.
#[derive(Debug)]
pub struct NodeContext {
    /// Shared with communicators of the same kind.
    pub(in crate::intranode) choices: Arc<Choices>,
    pub(in crate::intranode) direction: RootedDirection,
    /// Which calls take the fast path, without a plan.
    pub(in crate::intranode) fast_path: FastPath,
    /// The best possible access to buffers; known alike to all members.
    pub(in crate::intranode) reach: Reachability,
    pub(in crate::intranode) counters: CounterRef,
    /// `None` if there is no shared area.
    pub(in crate::intranode) group: Option<NodeGroup>,
}

/// Who copies in an operation with a root.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RootedDirection {
    /// Whichever is cheaper.
    Auto,
    /// The receiver.
    Pull,
    /// The sender.
    Push,
    /// Both.
    Both,
}

/// Equal only to itself: there is one context for each communicator.
impl PartialEq for NodeContext {
    fn eq(&self, other: &NodeContext) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for NodeContext {}

impl NodeContext {
    /// The algorithm for an operation.
    pub(in crate::intranode) fn algorithm(&self, operation: &CollectiveOperation) -> Algorithm {
        let (collective, order) = (operation.collective(), operation.order());
        let of = |bytes| self.choices.algorithm(collective, bytes, order, self.reach);
        match operation.bytes() {
            Some(bytes) => of(bytes),
            // No rank knows all amounts: ranks with long parts offer them; if not all ranks do, the
            // operation goes through cells.
            None => match of(MUCH) {
                Algorithm::Direct => Algorithm::Direct,
                _ => of(LITTLE),
            },
        }
    }

    /// Whether a part of `bytes` bytes is worth offering, where not all ranks know the amounts.
    pub(in crate::intranode) fn is_worth_offering(
        &self,
        collective: Collective,
        bytes: usize,
    ) -> bool {
        // These calls have no operator.
        let order = OperandOrder::Any;
        let choice = (self.choices).algorithm(collective, bytes, order, self.reach);
        choice == Algorithm::Direct
    }
}

/// Bytes that stand for unknown amounts: a long and a short part.
pub(in crate::intranode) const MUCH: usize = 1 << 20;
const LITTLE: usize = 1 << 10;
