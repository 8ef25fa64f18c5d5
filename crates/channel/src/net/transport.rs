//! [`Net`] as a [`Transport`]: sends, polls, reads of peers' memory, and how to wait.

use std::time::Duration;

use super::bindings as fi;
use super::buffers::{OperationContexts, OperationPurpose};
use super::messages::{INJECT, PostedSend};
use super::operations::{READABLE, RmaAction};
use super::remote::NO_BYTES;
use super::{Net, inspection, wire};
use crate::shm::Packet;
use crate::transport::{
    LostPeer, NetError, ReadableRegion, Transport, TransportCompletion, WaitMode,
};
use crate::{Capabilities, ChannelError, RemoteMemory, RemoteRegion};
use mica_memory::View;
use mica_node::counters::Counters;

/// With this many receives missing, they are posted again even while completions keep arriving.
const REPOST: usize = 16;

/// Completions read per call.
const BATCH: usize = 16;

impl Transport for Net {
    fn name(&self) -> &'static str {
        "net"
    }

    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn reaches(&self, peer: u32) -> bool {
        self.peers.reaches(peer)
    }

    fn payload_max(&self) -> usize {
        self.payload_max
    }

    fn send(
        &mut self,
        peer: u32,
        packet: &Packet,
        view: Option<&View>,
        position: usize,
    ) -> Result<bool, ChannelError> {
        let payload = packet.payload as usize;
        let has = view.map_or(0, |view| view.len().saturating_sub(position));
        if payload > self.payload_max || payload > has {
            return Err(self.bad_payload(payload, has).into());
        }
        let (number, count, token) = {
            let peer = self.contact(peer)?;
            (peer.number, peer.sent, peer.token)
        };
        let len = wire::head_bytes(packet) + payload;
        let code = if len <= self.inject_max {
            let mut bytes = [0; INJECT];
            let head = wire::write_head(&mut bytes, token, self.me, count, Some(packet));
            if let Some(view) = view.filter(|_| payload > 0) {
                view.pack(position, &mut bytes[head..len]);
            }
            self.endpoint.inject(&bytes[..len], number)
        } else {
            let Some(buffer) = self.free_sends.pop() else {
                return Ok(false);
            };
            // SAFETY: no operation uses a free buffer.
            let bytes = unsafe { self.sends.to_fill(buffer) };
            let head = wire::write_head(bytes, token, self.me, count, Some(packet));
            if let Some(view) = view.filter(|_| payload > 0) {
                view.pack(position, &mut bytes[head..len]);
            }
            self.post_send(peer, number, buffer, len)
        };
        let posted = match len <= self.inject_max {
            true => PostedSend::Injected,
            false => PostedSend::Completes,
        };
        self.has_sent(peer, code, posted)
    }

    fn has_room(&mut self, peer: u32, payload: usize) -> bool {
        if self.peers.loss(peer).is_some() {
            return true;
        }
        let injected = wire::HEAD + crate::shm::INLINE + payload <= self.inject_max;
        (injected || !self.free_sends.is_empty()) && !self.peers.is_stuck(peer, self.polls)
    }

    fn poll(&mut self) {
        if self.me == u32::MAX {
            // Not connected yet: our messages cannot be distinguished from foreign ones, so they
            // wait.
            return;
        }
        self.polls += 1;
        let mut entries =
            [fi::fi_cq_msg_entry { op_context: std::ptr::null_mut(), flags: 0, len: 0 }; BATCH];
        let count = self.endpoint.read_completions(&mut entries);
        if count > 0 {
            for entry in &entries[..count as usize] {
                // SAFETY: the context was passed to the operation by this channel.
                let work = unsafe { OperationContexts::work(entry.op_context) };
                match work {
                    Some(OperationPurpose::Receive(buffer)) => self.has_received(buffer, entry.len),
                    Some(OperationPurpose::Send(buffer)) => self.has_left(buffer),
                    Some(OperationPurpose::Part(part)) => self.complete_part(part, Ok(())),
                    None => {}
                }
            }
        } else if count != -fi::FI_EAGAIN {
            self.poll_failures(count);
        }
        // New arrivals go first; receives are still posted in time.
        if !self.unposted.is_empty() && (count <= 0 || self.unposted.len() >= REPOST) {
            self.post_receives();
        }
        if self.remote.is_stuck() {
            self.post_parts();
        }
        self.watch();
    }

    fn peek_found(&self) -> Option<(u32, Packet)> {
        let arrival = self.ready.front()?;
        Some((arrival.source, arrival.packet?))
    }

    fn waiting(&self) -> usize {
        self.ready.len()
    }

    fn for_each_waiting(&self, source: u32, f: &mut dyn FnMut(&Packet)) {
        let arrived = self.ready.iter().filter(|arrival| arrival.source == source);
        arrived.filter_map(|arrival| arrival.packet.as_ref()).for_each(f);
    }

    fn read_payload(&self, source: u32, packet: &Packet, view: &View, position: usize) -> usize {
        let Some(arrival) = self.ready.front().filter(|a| a.source == source) else {
            debug_assert!(false, "no packet of rank {source} was peeked");
            return 0;
        };
        let head = wire::head_bytes(packet);
        // SAFETY: the buffer is not posted until the packet is consumed. The message is as long as
        // the packet states; this was checked on arrival.
        let bytes = unsafe { self.receives.filled(arrival.buffer, head + packet.payload as usize) };
        view.unpack(position, &bytes[head..])
    }

    fn consume(&mut self, source: u32, _packet: &Packet) {
        debug_assert!(self.ready.front().is_some_and(|a| a.source == source));
        if let Some(arrival) = self.ready.pop_front() {
            self.unposted.push(arrival.buffer);
            if self.unposted.len() >= REPOST {
                self.post_receives();
            }
        }
    }

    /// Where the provider accepted messages without a completion, sends a blank message after them,
    /// whose completion shows that they have left.
    fn is_drained(&mut self) -> bool {
        self.poll();
        for peer in 0..self.peers.len() {
            if self.peers.get(peer).is_some_and(|p| p.uncovered) {
                self.send_blank(peer);
            }
        }
        let uncovered = |peer| self.peers.get(peer).is_some_and(|p| p.uncovered);
        self.peers.in_flight() == 0 && !(0..self.peers.len()).any(uncovered)
    }

    /// If registration only assigns a key to addresses, it is kept for the next use; if it pins
    /// memory, it is not kept.
    fn expose(&mut self, address: usize, len: usize) -> Result<ReadableRegion, ChannelError> {
        self.need(Capabilities::READ, "remote memory access")?;
        match len {
            0 => Ok(NO_BYTES),
            _ => {
                let used = self.acquire(address, len, READABLE)?;
                Ok(self.named(&used, address))
            }
        }
    }

    fn conceal(&mut self, exposed: ReadableRegion) {
        if let Some(id) = exposed.id() {
            self.release(id);
        }
    }

    fn start_read(
        &mut self,
        peer: u32,
        from: RemoteRegion,
        view: &View,
        len: usize,
        token: u64,
    ) -> Result<bool, ChannelError> {
        self.start_copy(RmaAction::Get, peer, from, view, len, token)
    }

    fn remote_memory(&mut self) -> Option<&mut dyn RemoteMemory> {
        let needed = Capabilities::READ | Capabilities::WRITE;
        match self.capabilities.contains(needed) {
            true => Some(self),
            false => None,
        }
    }

    fn next_completion(&mut self) -> Option<TransportCompletion> {
        self.remote.ends.pop_front()
    }

    fn counters(&self) -> Counters {
        self.counters
    }

    fn take_loss(&mut self) -> Option<LostPeer> {
        self.peers.take_loss()
    }

    fn prepare_to_wait(&mut self) -> WaitMode {
        if self.is_waiting_for_peers() {
            self.inspect_in_time();
        }
        if !self.ready.is_empty() || self.remote.has_completions() || self.peers.has_losses() {
            return WaitMode::Ready;
        }
        if self.peers.is_any_stuck() || self.remote.is_stuck() || !self.unposted.is_empty() {
            return WaitMode::Poll;
        }
        match self.endpoint.descriptor() {
            None => WaitMode::Poll,
            Some(_) if !self.endpoint.may_wait() => WaitMode::Ready,
            Some(descriptor) => WaitMode::Descriptor(descriptor),
        }
    }

    /// If something is under way and its peer is lost, only polling from time to time may find that
    /// out.
    fn wait_at_most(&self) -> Option<Duration> {
        self.is_waiting_for_peers().then_some(inspection::PERIOD)
    }

    fn probe(&mut self, peer: u32) -> Result<(), ChannelError> {
        if self.contact(peer)?.in_flight == 0 {
            self.send_blank(peer);
        }
        self.inspect_in_time();
        match self.peers.loss(peer) {
            Some(lost) => Err(NetError::Lost(lost.clone()).into()),
            None => Ok(()),
        }
    }
}
