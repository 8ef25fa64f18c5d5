//! The RMA operations of a rank: what is posted, in which parts, and what has completed.

use std::collections::VecDeque;

use super::bindings as fi;
use super::buffers::{OperationContexts, OperationPurpose, RegisteredBuffers};
use super::endpoint::Endpoint;
use super::registration::RegistrationUse;
use crate::memory::View;
use crate::transport::NetError;
use crate::transport::{ReadableRegion, TransportCompletion};
use crate::{Capabilities, RemoteRegion};

/// Parts that are under way at a time.
pub(super) const PARTS: u32 = 64;

/// Words of an atomic operation: operand, compare value, result.
pub(super) const WORDS: usize = 3;

/// Access rights of peers to memory that is exposed for one message.
pub(super) const READABLE: u64 = fi::FI_REMOTE_READ;

/// Access rights of peers to registered memory.
pub(super) const OPEN: u64 = fi::FI_REMOTE_READ | fi::FI_REMOTE_WRITE;

/// Access rights of this rank to the local side of its operations.
pub(super) const LOCAL: u64 = fi::FI_READ | fi::FI_WRITE;

/// The atomic operations, by libfabric's constants.
pub(super) const ADD: fi::fi_op = fi::FI_SUM;
pub(super) const SWAP: fi::fi_op = fi::FI_ATOMIC_WRITE;
pub(super) const CAS: fi::fi_op = fi::FI_CSWAP;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RmaAction {
    Get,
    Put,
    Atomic(fi::fi_datatype, fi::fi_op),
}

impl RmaAction {
    pub fn name(self) -> &'static str {
        match self {
            RmaAction::Get => "reading its memory",
            RmaAction::Put => "writing its memory",
            RmaAction::Atomic(..) => "an atomic operation on its memory",
        }
    }
}

/// An operation under way.
#[derive(Debug)]
pub(super) struct PostedTransfer {
    pub action: RmaAction,
    pub token: u64,
    /// Sequence number among all operations.
    pub serial: u64,
    pub peer: u32,
    pub remote: RemoteRegion,
    /// The local memory; keeps one of our own blocks alive.
    pub view: Option<View>,
    pub local: usize,
    pub len: usize,
    /// The registration of the local side, if the provider requires one.
    pub registration: Option<RegistrationUse<*mut fi::fid_mr>>,
    /// Operand and compare value.
    pub operands: [u64; 2],
    /// Bytes already assigned to parts.
    pub posted: usize,
    pub under_way: u32,
    pub result: Result<u64, NetError>,
}

/// A flush: waits for the operations on one peer that were started before it.
#[derive(Debug)]
pub(super) struct RmaFlush {
    pub token: u64,
    pub peer: u32,
    pub serial: u64,
}

/// The RMA operations of a rank.
#[derive(Debug)]
pub(super) struct RmaOperations {
    pub contexts: OperationContexts,
    /// By part: the index of its operation.
    pub of_part: Vec<usize>,
    pub free_parts: Vec<u32>,
    /// By part: the words of its atomic operation.
    pub words: RegisteredBuffers,
    pub transfers: Vec<Option<PostedTransfer>>,
    pub free_transfers: Vec<usize>,
    /// Operations of which not all parts have been posted.
    pub unposted: VecDeque<usize>,
    pub flushes: Vec<RmaFlush>,
    pub ends: VecDeque<TransportCompletion>,
    pub serial: u64,
    /// Longest part in bytes.
    pub part_max: usize,
    /// Memory registered for peers, by key and address.
    pub registered: Vec<ReadableRegion>,
}

impl RmaOperations {
    /// # Errors
    /// If memory runs out.
    pub fn new(endpoint: &Endpoint) -> Result<RmaOperations, NetError> {
        // SAFETY: the attributes are allocated with the info.
        let part_max = unsafe { (*endpoint.info.get().ep_attr).max_msg_size };
        Ok(RmaOperations {
            contexts: OperationContexts::new(PARTS, OperationPurpose::Part),
            of_part: vec![usize::MAX; PARTS as usize],
            free_parts: (0..PARTS).rev().collect(),
            words: RegisteredBuffers::new(endpoint, PARTS, WORDS * 8, OperationPurpose::Part)?,
            transfers: Vec::new(),
            free_transfers: Vec::new(),
            unposted: VecDeque::new(),
            flushes: Vec::new(),
            ends: VecDeque::new(),
            serial: 0,
            part_max: part_max.max(1),
            registered: Vec::new(),
        })
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

    pub fn close(&mut self, endpoint: &Endpoint) {
        self.words.close(endpoint);
    }

    pub fn abandon(&self) {
        self.words.abandon();
        for transfer in self.transfers.iter().flatten() {
            std::mem::forget(transfer.view.clone());
        }
    }

    pub fn word(&self, part: u32, index: usize) -> *mut u64 {
        self.words.start(part).cast::<u64>().wrapping_add(index)
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

    pub fn end(&mut self, token: u64, result: Result<u64, NetError>) {
        self.ends.push_back(TransportCompletion { token, result });
    }

    /// Completes with `token` when everything started on `peer` before has completed.
    pub fn flush(&mut self, peer: u32, token: u64) {
        let serial = self.serial + 1;
        self.flushes.push(RmaFlush {
            token,
            peer,
            serial,
        });
        self.settle_flushes();
    }

    /// Completes the flushes that no longer wait for an operation.
    pub fn settle_flushes(&mut self) {
        let mut at = 0;
        while at < self.flushes.len() {
            let RmaFlush {
                token,
                peer,
                serial,
            } = self.flushes[at];
            let waits = self
                .transfers
                .iter()
                .flatten()
                .any(|t| t.peer == peer && t.serial < serial);
            if waits {
                at += 1;
            } else {
                self.flushes.swap_remove(at);
                self.end(token, Ok(0));
            }
        }
    }
}

/// The capabilities that the open endpoint reports.
pub(super) fn capabilities(endpoint: &Endpoint) -> Capabilities {
    let mut capabilities = Capabilities::MESSAGES;
    let caps = endpoint.info.get().caps;
    if caps & fi::FI_RMA == 0 {
        return capabilities;
    }
    capabilities |= Capabilities::PULL | Capabilities::READ | Capabilities::WRITE;
    if caps & fi::FI_ATOMIC == 0 {
        return capabilities;
    }
    let mut four = true;
    for (op, flag) in [
        (ADD, Capabilities::ATOMIC_ADD),
        (CAS, Capabilities::ATOMIC_CAS),
        (SWAP, Capabilities::ATOMIC_SWAP),
    ] {
        if endpoint.fetches(fi::FI_UINT64, op) {
            capabilities |= flag;
            four &= endpoint.fetches(fi::FI_UINT32, op);
        }
    }
    capabilities.set(Capabilities::ATOMIC_4, four);
    capabilities
}
