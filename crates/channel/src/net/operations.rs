//! The RMA operations of a rank: what is posted, in which parts, and what has completed.

use std::collections::VecDeque;

use super::bindings as fi;
use super::buffers::{OperationContexts, OperationPurpose};
use super::endpoint::Endpoint;
use super::registration::RegistrationUse;
use crate::transport::NetError;
use crate::transport::{ReadableRegion, TransportCompletion};
use crate::{Capabilities, RemoteRegion};
use mica_memory::View;

/// Parts that are under way at a time.
pub(super) const PARTS: u32 = 64;

/// Access rights of peers to memory that is exposed for one message.
pub(super) const READABLE: u64 = fi::FI_REMOTE_READ;

/// Access rights of peers to registered memory.
pub(super) const OPEN: u64 = fi::FI_REMOTE_READ | fi::FI_REMOTE_WRITE;

/// Access rights of this rank to the local side of its operations.
pub(super) const LOCAL: u64 = fi::FI_READ | fi::FI_WRITE;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RmaAction {
    Get,
    Put,
}

impl RmaAction {
    pub fn name(self) -> &'static str {
        match self {
            RmaAction::Get => "reading its memory",
            RmaAction::Put => "writing its memory",
        }
    }
}

/// An operation under way.
#[derive(Debug)]
pub(super) struct PostedTransfer {
    pub action: RmaAction,
    pub token: u64,
    pub peer: u32,
    pub remote: RemoteRegion,
    /// The local memory; keeps one of our own blocks alive.
    pub view: Option<View>,
    pub local: usize,
    pub len: usize,
    /// The registration of the local side, if the provider requires one.
    pub registration: Option<RegistrationUse<*mut fi::fid_mr>>,
    /// Bytes already assigned to parts.
    pub posted: usize,
    pub under_way: u32,
    pub result: Result<(), NetError>,
}

/// The RMA operations of a rank.
#[derive(Debug)]
pub(super) struct RmaOperations {
    pub contexts: OperationContexts,
    /// By part: the index of its operation.
    pub of_part: Vec<usize>,
    pub free_parts: Vec<u32>,
    pub transfers: Vec<Option<PostedTransfer>>,
    pub free_transfers: Vec<usize>,
    /// Operations of which not all parts have been posted.
    pub unposted: VecDeque<usize>,
    pub ends: VecDeque<TransportCompletion>,
    /// Longest part in bytes.
    pub part_max: usize,
    /// Memory registered for peers, by key and address.
    pub registered: Vec<ReadableRegion>,
}

impl RmaOperations {
    pub fn new(endpoint: &Endpoint) -> RmaOperations {
        // SAFETY: the attributes are allocated with the info.
        let part_max = unsafe { (*endpoint.info.get().ep_attr).max_msg_size };
        RmaOperations {
            contexts: OperationContexts::new(PARTS, OperationPurpose::Part),
            of_part: vec![usize::MAX; PARTS as usize],
            free_parts: (0..PARTS).rev().collect(),
            transfers: Vec::new(),
            free_transfers: Vec::new(),
            unposted: VecDeque::new(),
            ends: VecDeque::new(),
            part_max: part_max.max(1),
            registered: Vec::new(),
        }
    }

    pub fn has_completions(&self) -> bool {
        !self.ends.is_empty()
    }

    /// Whether any operation is under way.
    pub fn has_transfers(&self) -> bool {
        self.transfers.len() > self.free_transfers.len()
    }

    /// Whether an operation on `peer` is under way.
    pub fn is_busy_with(&self, peer: u32) -> bool {
        self.transfers.iter().flatten().any(|t| t.peer == peer)
    }

    /// Whether an operation has parts that are not posted yet.
    pub fn is_stuck(&self) -> bool {
        !self.unposted.is_empty()
    }

    pub fn abandon(&self) {
        for transfer in self.transfers.iter().flatten() {
            std::mem::forget(transfer.view.clone());
        }
    }

    pub fn add(&mut self, transfer: PostedTransfer) -> usize {
        match self.free_transfers.pop() {
            Some(at) => {
                self.transfers[at] = Some(transfer);
                at
            }
            None => {
                self.transfers.push(Some(transfer));
                self.transfers.len() - 1
            }
        }
    }

    pub fn end(&mut self, token: u64, result: Result<(), NetError>) {
        self.ends.push_back(TransportCompletion { token, result });
    }
}

/// The capabilities that the open endpoint reports.
pub(super) fn capabilities(endpoint: &Endpoint) -> Capabilities {
    let capabilities = Capabilities::MESSAGES;
    let caps = endpoint.info.get().caps;
    if caps & fi::FI_RMA == 0 {
        return capabilities;
    }
    capabilities | Capabilities::READ | Capabilities::WRITE
}
