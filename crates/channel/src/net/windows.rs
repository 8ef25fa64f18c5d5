//! The operations of windows: put, get and atomic operations on registered memory
//! ([`RemoteMemory`]; MPI 5.0, 12).

use super::Net;
use super::bindings as fi;
use super::operations::{ADD, CAS, OPEN, RmaAction, RmaTransfer, SWAP};
use crate::memory::View;
use crate::transport::{ReadableRegion, TransportCompletion};
use crate::{Capabilities, ChannelError, RemoteMemory, RemoteRegion, Width};

impl Net {
    #[expect(clippy::too_many_arguments, reason = "they are those of the operation")]
    fn start_atomic(
        &mut self,
        flag: Capabilities,
        op: fi::fi_op,
        peer: u32,
        remote: RemoteRegion,
        width: Width,
        operands: [u64; 2],
        token: u64,
    ) -> Result<bool, ChannelError> {
        let (flag, datatype, len) = match width {
            Width::Eight => (flag, fi::FI_UINT64, 8),
            Width::Four => (flag | Capabilities::ATOMIC_4, fi::FI_UINT32, 4),
        };
        let name = match op {
            ADD => "atomic fetch-and-add",
            CAS => "atomic compare-and-swap",
            _ => "atomic swap",
        };
        self.need(flag, name)?;
        self.peers.usable(peer)?;
        if !self.has_room_for_part(peer) {
            return Ok(false);
        }
        self.start(RmaTransfer {
            action: RmaAction::Atomic(datatype, op),
            token,
            serial: 0,
            peer,
            remote,
            view: None,
            local: 0,
            len,
            registration: None,
            operands,
            posted: 0,
            under_way: 0,
            result: Ok(0),
        })
    }
}

impl RemoteMemory for Net {
    fn register(&mut self, address: usize, len: usize) -> Result<RemoteRegion, ChannelError> {
        let exposed = self.open_memory(address, len, OPEN)?;
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
        let words = [value, 0];
        self.start_atomic(Capabilities::ATOMIC_ADD, ADD, peer, at, width, words, token)
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
        let words = [value, expected];
        self.start_atomic(Capabilities::ATOMIC_CAS, CAS, peer, at, width, words, token)
    }

    fn swap(
        &mut self,
        peer: u32,
        at: RemoteRegion,
        width: Width,
        value: u64,
        token: u64,
    ) -> Result<bool, ChannelError> {
        let words = [value, 0];
        self.start_atomic(
            Capabilities::ATOMIC_SWAP,
            SWAP,
            peer,
            at,
            width,
            words,
            token,
        )
    }

    fn flush(&mut self, peer: u32, token: u64) {
        self.remote.flush(peer, token);
    }

    fn next_completion(&mut self) -> Option<TransportCompletion> {
        Net::next_completion(self)
    }
}
