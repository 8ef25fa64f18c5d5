//! This rank's part in a collective on the shared area, as a description that can be kept.

use std::sync::Arc;

use mica_policy::collective::{Algorithm, Reachability};

use super::operation::CollectiveOperation;
use crate::intranode::choice::context::{MUCH, NodeContext};
use crate::intranode::protocol::group::{AddressUse, NodeGroup, ReservedOperation};
use crate::label::CallLabel;

/// This rank's part in a collective on the shared area.
#[derive(Clone, Debug)]
pub struct NodeCall {
    /// Always has a node group.
    pub(super) local: Arc<NodeContext>,
    pub(super) operation: CollectiveOperation,
    /// Whether to copy directly where buffers can be reached.
    pub(super) directly: bool,
    /// The members' ranks in the communicator; `None` if the members are all of its ranks.
    pub(super) ranks: Option<Arc<[usize]>>,
    /// The function by which the program called it.
    pub(super) label: CallLabel,
}

impl NodeCall {
    /// Bytes that it has no memory for.
    pub(crate) fn absent_bytes(&self) -> Option<usize> {
        self.operation.absent_bytes()
    }

    /// Names the function that the program called.
    pub(crate) fn set_label(&mut self, label: CallLabel) {
        self.label = label;
    }

    #[inline]
    pub(super) fn group(&self) -> &NodeGroup {
        let group = self.local.group.as_ref();
        group.expect("calls are made where there is a node group")
    }

    /// The algorithm for parts of `bytes` bytes, once it is known that they can be reached so.
    pub(super) fn once_reachable(&self, bytes: usize, reach: Reachability) -> Algorithm {
        let (operation, choices) = (&self.operation, &self.local.choices);
        let (collective, order) = (operation.collective(), operation.order());
        choices.once_reachable(collective, bytes, order, reach)
    }

    /// Takes this call's place in the order of the node group's operations. All ranks must call it
    /// in the same order.
    pub(crate) fn reserve(&self) -> ReservedOperation {
        let operation = &self.operation;
        // Whether direct copy still pays where some buffers can be reached only by the kernel's
        // copies.
        let bytes = || operation.bytes().unwrap_or(MUCH);
        let pays = || self.once_reachable(bytes(), Reachability::Cma) == Algorithm::Direct;
        let by_address = match self.directly && pays() {
            true => AddressUse::Allowed,
            false => AddressUse::Never,
        };
        self.group().reserve(operation.kind(self.directly), by_address)
    }
}
