//! The operations of windows: put and get on registered memory ([`RemoteMemory`]; MPI 5.0, 12).

use super::Net;
use super::operations::RmaAction;
use crate::transport::{ReadableRegion, TransportCompletion};
use crate::{ChannelError, RemoteMemory, RemoteRegion};
use mica_memory::View;

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

    fn next_completion(&mut self) -> Option<TransportCompletion> {
        Net::next_completion(self)
    }
}
