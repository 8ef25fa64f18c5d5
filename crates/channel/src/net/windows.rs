//! The operations of windows: put, get and atomic operations on registered memory
//! ([`RemoteMemory`]; MPI 5.0, 12).

use super::Net;
use super::bindings as fi;
use super::operations::{ADD, CAS, PostedTransfer, RmaAction, SWAP};
use crate::memory::View;
use crate::transport::{ReadableRegion, TransportCompletion};
use crate::{Capabilities, ChannelError, RemoteMemory, RemoteRegion, Width};

/// An atomic operation on one integer of a peer's memory.
struct AtomicOperation {
    op: fi::fi_op,
    /// The capability that it needs, for eight bytes.
    capability: Capabilities,
    /// In error messages.
    name: &'static str,
    /// Operand and compare value.
    operands: [u64; 2],
}

impl AtomicOperation {
    fn fetch_add(value: u64) -> AtomicOperation {
        AtomicOperation {
            op: ADD,
            capability: Capabilities::ATOMIC_ADD,
            name: "atomic fetch-and-add",
            operands: [value, 0],
        }
    }

    fn compare_swap(expected: u64, value: u64) -> AtomicOperation {
        AtomicOperation {
            op: CAS,
            capability: Capabilities::ATOMIC_CAS,
            name: "atomic compare-and-swap",
            operands: [value, expected],
        }
    }

    fn swap(value: u64) -> AtomicOperation {
        AtomicOperation {
            op: SWAP,
            capability: Capabilities::ATOMIC_SWAP,
            name: "atomic swap",
            operands: [value, 0],
        }
    }
}

impl Net {
    fn start_atomic(
        &mut self,
        operation: AtomicOperation,
        peer: u32,
        remote: RemoteRegion,
        width: Width,
        token: u64,
    ) -> Result<bool, ChannelError> {
        let (needed, datatype, len) = match width {
            Width::Eight => (operation.capability, fi::FI_UINT64, 8),
            Width::Four => (
                operation.capability | Capabilities::ATOMIC_4,
                fi::FI_UINT32,
                4,
            ),
        };
        self.need(needed, operation.name)?;
        self.contact(peer)?;
        if !self.has_room_for_part(peer) {
            return Ok(false);
        }
        self.start(PostedTransfer {
            action: RmaAction::Atomic(datatype, operation.op),
            token,
            serial: 0,
            peer,
            remote,
            view: None,
            local: 0,
            len,
            registration: None,
            operands: operation.operands,
            posted: 0,
            under_way: 0,
            result: Ok(0),
        })
    }
}

impl RemoteMemory for Net {
    fn register(&mut self, address: usize, len: usize) -> Result<RemoteRegion, ChannelError> {
        let exposed = self.open_memory(address, len)?;
        let region = RemoteRegion::from(&exposed);
        self.remote.registered.push(exposed);
        Ok(region)
    }

    fn unregister(&mut self, region: RemoteRegion) {
        let found = |e: &ReadableRegion| RemoteRegion::from(e) == region;
        if let Some(at) = self.remote.registered.iter().position(found) {
            let exposed = self.remote.registered.swap_remove(at);
            self.conceal(exposed);
        }
    }

    fn put(
        &mut self,
        peer: u32,
        to: RemoteRegion,
        view: &View,
        len: usize,
        token: u64,
    ) -> Result<bool, ChannelError> {
        self.start_copy(RmaAction::Put, peer, to, view, len, token)
    }

    fn get(
        &mut self,
        peer: u32,
        from: RemoteRegion,
        view: &View,
        len: usize,
        token: u64,
    ) -> Result<bool, ChannelError> {
        self.start_copy(RmaAction::Get, peer, from, view, len, token)
    }

    fn fetch_add(
        &mut self,
        peer: u32,
        at: RemoteRegion,
        width: Width,
        value: u64,
        token: u64,
    ) -> Result<bool, ChannelError> {
        self.start_atomic(AtomicOperation::fetch_add(value), peer, at, width, token)
    }

    fn compare_swap(
        &mut self,
        peer: u32,
        at: RemoteRegion,
        width: Width,
        expected: u64,
        value: u64,
        token: u64,
    ) -> Result<bool, ChannelError> {
        let operation = AtomicOperation::compare_swap(expected, value);
        self.start_atomic(operation, peer, at, width, token)
    }

    fn swap(
        &mut self,
        peer: u32,
        at: RemoteRegion,
        width: Width,
        value: u64,
        token: u64,
    ) -> Result<bool, ChannelError> {
        self.start_atomic(AtomicOperation::swap(value), peer, at, width, token)
    }

    fn flush(&mut self, peer: u32, token: u64) {
        self.remote.flush(peer, token);
    }

    fn next_completion(&mut self) -> Option<TransportCompletion> {
        Net::next_completion(self)
    }
}
