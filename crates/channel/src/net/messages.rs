//! Packets over the network: sending them, and polling the completion queue.

use std::ffi::c_void;

use super::bindings as fi;
use super::buffers::{OperationContexts, OperationPurpose};
use super::endpoint::OperationFailure;
use super::wire::{self, WireError};
use super::{ArrivedPacket, Net, SENDS};
use crate::shm::Packet;
use crate::transport::NetError;
use crate::{ChannelError, PacketSource};
use mica_memory::View;
use mica_node::counters::Counter;

/// Longest message, in bytes, that is assembled on the stack for the provider to copy.
pub(super) const INJECT: usize = 256;

/// With this many receives missing, they are posted again even while completions keep arriving.
const REPOST: usize = 16;

/// Completions read per call.
const BATCH: usize = 16;

/// How the provider reports that it has sent a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PostedSend {
    /// Not at all: it has copied the bytes.
    Injected,
    /// By a completion.
    Completes,
}

impl Net {
    /// Sends `packet`; its `payload` bytes are those of `view` from `position` on. The caller may
    /// reuse the bytes when this returns. False if there is no room: the caller tries again after a
    /// poll.
    ///
    /// # Errors
    /// If the peer is lost or not reachable, or the payload is longer than
    /// [`payload_max`](Net::payload_max) or than `view`.
    pub fn send(
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

    /// Sends the first `len` bytes of `buffer`.
    fn post_send(&mut self, peer: u32, number: u64, buffer: u32, len: usize) -> isize {
        let (sends, index) = self.sends.of(buffer);
        // SAFETY: 1. the buffer is not free until the operation's completion has been read, and its
        // memory is freed after the endpoint; 2. its own registration; 3. its own context.
        let code = unsafe {
            self.endpoint.send(
                sends.start(index).cast::<c_void>(),
                len,
                sends.description(),
                number,
                sends.contexts.at(index),
            )
        };
        if code == 0 {
            self.send_to[buffer as usize] = peer;
            self.peers.takes_off(peer);
        } else {
            self.free_sends.push(buffer);
        }
        code
    }

    /// Evaluates the return code of an attempt to send to `peer`.
    #[inline]
    fn has_sent(
        &mut self,
        peer: u32,
        code: isize,
        posted: PostedSend,
    ) -> Result<bool, ChannelError> {
        if code == 0 {
            self.peers.clear_stuck(peer);
            let peer = self.peers.usable(peer)?;
            peer.sent = peer.sent.wrapping_add(1);
            peer.uncovered = posted == PostedSend::Injected;
            return Ok(true);
        }
        self.not_sent(peer, code, "sending to it")
    }

    /// Handles an operation on `peer` that failed immediately.
    #[cold]
    pub(super) fn not_sent(
        &mut self,
        peer: u32,
        code: isize,
        operation: &str,
    ) -> Result<bool, ChannelError> {
        if code == -fi::FI_EAGAIN {
            self.peers.set_stuck(peer, self.polls);
            return Ok(false);
        }
        if is_loss(-code) {
            let words = self.endpoint.library.describe(-code as i32);
            let detail = format!("{operation} failed: {words} ({})", self.endpoint.provider);
            return Err(self.lose(peer, detail).into());
        }
        Err(self.endpoint.error("a transfer", code).into())
    }

    #[cold]
    fn bad_payload(&self, payload: usize, has: usize) -> NetError {
        NetError::Argument {
            operation: "send",
            why: format!(
                "a payload of {payload} bytes, where {has} are given and a packet takes {}",
                self.payload_max
            ),
        }
    }

    /// False if a packet with `payload` bytes beside its header would certainly not be accepted
    /// now. Also true for a lost peer, so that the caller gets its error.
    #[inline]
    pub fn has_room(&mut self, peer: u32, payload: usize) -> bool {
        if self.peers.loss(peer).is_some() {
            return true;
        }
        let injected = wire::HEAD + crate::shm::INLINE + payload <= self.inject_max;
        (injected || !self.free_sends.is_empty()) && !self.peers.is_stuck(peer, self.polls)
    }

    /// Polls the completion queue once: handles arrivals and completions, and lets the provider
    /// make progress. Does not block.
    #[inline]
    pub fn poll(&mut self) {
        if self.me == u32::MAX {
            // Not connected yet: our messages cannot be distinguished from foreign ones, so they
            // wait.
            return;
        }
        self.polls += 1;
        let mut entries = [fi::fi_cq_msg_entry::default(); BATCH];
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

    /// The send from `buffer` has completed.
    #[inline]
    fn has_left(&mut self, buffer: u32) {
        self.free_sends.push(buffer);
        self.peers.lands(self.send_to[buffer as usize]);
    }

    /// Marks `peer` as lost. Everything under way with it completes with that error, whether or not
    /// the provider reports one; buffers that the provider still holds for it are replaced.
    #[cold]
    pub(super) fn lose(&mut self, peer: u32, detail: String) -> NetError {
        let kept = self.peers.get(peer).map_or(0, |p| p.in_flight);
        let known = self.peers.loss(peer).is_some();
        let error = self.peers.lose(peer, detail);
        if !known {
            if kept > 0 && self.sends.grow(&self.endpoint).is_ok() {
                let first = self.send_to.len() as u32;
                self.send_to.resize((first + SENDS) as usize, u32::MAX);
                self.free_sends.extend(first..first + SENDS);
            }
            self.give_up_on(peer, &error);
        }
        error
    }

    #[cold]
    fn poll_failures(&mut self, code: isize) {
        if code == -fi::FI_EAVAIL {
            while let Some(failure) = self.endpoint.read_failure() {
                self.has_failed(failure);
            }
            return;
        }
        // The queue itself is broken: no operation will ever complete.
        let words = self.endpoint.library.describe(-code as i32);
        for peer in 0..self.peers.len() {
            if self.peers.reaches(peer) {
                self.peers.lose(peer, format!("the network failed: {words}"));
            }
        }
    }

    fn has_failed(&mut self, failure: OperationFailure) {
        // SAFETY: the context was passed to the operation by this channel.
        match unsafe { OperationContexts::work(failure.context) } {
            Some(OperationPurpose::Receive(buffer)) => {
                if failure.code == fi::FI_ETRUNC {
                    self.counters.count(Counter::MalformedArrivals);
                } else {
                    self.counters.count(Counter::FailedArrivals);
                }
                self.unposted.push(buffer);
            }
            Some(OperationPurpose::Send(buffer)) => {
                self.has_left(buffer);
                // The peer will miss this message, whatever the reason, so its next message could
                // not be delivered either.
                let peer = self.send_to[buffer as usize];
                let words = failure.words;
                self.lose(peer, format!("sending to it failed: {words}"));
            }
            Some(OperationPurpose::Part(part)) => self.complete_part(part, Err(failure)),
            None => self.counters.count(Counter::FailedArrivals),
        }
    }

    /// A message of `len` bytes has arrived in `buffer`.
    fn has_received(&mut self, buffer: u32, len: usize) {
        // SAFETY: its receive has completed, and the buffer is posted again only after the last use
        // of the slice.
        let bytes = unsafe { self.receives.filled(buffer, len.min(self.receives.bytes())) };
        let message = match wire::read(bytes, |source| self.peers.expected_token(source)) {
            Ok(message) => message,
            Err(WireError::Token) => {
                self.counters.count(Counter::ForeignArrivals);
                return self.unposted.push(buffer);
            }
            Err(WireError::Bytes) => {
                self.counters.count(Counter::MalformedArrivals);
                return self.unposted.push(buffer);
            }
        };
        // Its token proves that a rank of the job sent it.
        if self.peers.meet(message.source).is_err() {
            self.counters.count(Counter::MalformedArrivals);
            return self.unposted.push(buffer);
        }
        let arrival = ArrivedPacket { source: message.source, packet: message.packet, buffer };
        if message.packet.is_none() {
            self.unposted.push(buffer);
        }
        let ready = &mut self.ready;
        let refused = self.order.admit(message.source, message.number, arrival, |_, arrival| {
            if arrival.packet.is_some() {
                ready.push_back(arrival);
            }
        });
        if let Err(arrival) = refused {
            self.counters.count(Counter::MalformedArrivals);
            if arrival.packet.is_some() {
                self.unposted.push(buffer);
            }
        }
    }

    /// Posts the free receive buffers, as many as the provider accepts.
    pub(super) fn post_receives(&mut self) {
        while let Some(&buffer) = self.unposted.last() {
            // SAFETY: 1. nothing uses the buffer until the receive has completed, and it is freed
            // after the endpoint; 2. its own registration; 3. its own context.
            let code = unsafe {
                self.endpoint.receive(
                    self.receives.start(buffer).cast::<c_void>(),
                    self.receives.bytes(),
                    self.receives.description(),
                    self.receives.contexts.at(buffer),
                )
            };
            if code != 0 {
                return;
            }
            self.unposted.pop();
        }
    }

    /// Copies payload bytes of `packet`, the one just peeked from `source`, to `view` from
    /// `position` on, as many as the view has room for. Returns their number.
    pub fn read_payload(
        &self,
        source: u32,
        packet: &Packet,
        view: &View,
        position: usize,
    ) -> usize {
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

    /// Removes `packet`, the one just peeked from `source`.
    pub fn consume(&mut self, source: u32, _packet: &Packet) {
        debug_assert!(self.ready.front().is_some_and(|a| a.source == source));
        if let Some(arrival) = self.ready.pop_front() {
            self.unposted.push(arrival.buffer);
            if self.unposted.len() >= REPOST {
                self.post_receives();
            }
        }
    }

    /// The next packet that an earlier poll has found.
    #[inline]
    pub fn peek_found(&self) -> Option<(u32, Packet)> {
        let arrival = self.ready.front()?;
        Some((arrival.source, arrival.packet?))
    }

    /// Packets that have arrived and are not consumed yet.
    pub fn waiting(&self) -> usize {
        self.ready.len()
    }

    /// The packets of `source` that have arrived and are not consumed yet, in order.
    pub fn waiting_from(&self, source: u32) -> impl Iterator<Item = Packet> {
        let arrived = self.ready.iter().filter(move |a| a.source == source);
        arrived.filter_map(|arrival| arrival.packet)
    }

    /// True if all sent packets have left this process, or their receivers are lost. Polls once. If
    /// the provider accepted messages without a completion, sends a blank message after them, whose
    /// completion shows that they have left.
    pub fn is_drained(&mut self) -> bool {
        self.poll();
        for peer in 0..self.peers.len() {
            if self.peers.get(peer).is_some_and(|p| p.uncovered) {
                self.send_blank(peer);
            }
        }
        let uncovered = |peer| self.peers.get(peer).is_some_and(|p| p.uncovered);
        self.peers.in_flight() == 0 && !(0..self.peers.len()).any(uncovered)
    }

    /// Finds out whether `peer` still exists, by a message that it ignores: if it is lost, a later
    /// poll reports it. For a rank that waits long for a message of `peer`.
    ///
    /// # Errors
    /// If the peer is already known to be lost, or is not reachable.
    pub fn probe(&mut self, peer: u32) -> Result<(), ChannelError> {
        if self.contact(peer)?.in_flight == 0 {
            self.send_blank(peer);
        }
        self.inspect_in_time();
        match self.peers.loss(peer) {
            Some(lost) => Err(NetError::Lost(lost.clone()).into()),
            None => Ok(()),
        }
    }

    /// Sends a blank message with a completion; does nothing if there is no room.
    fn send_blank(&mut self, peer: u32) {
        let Ok(found) = self.contact(peer) else {
            return;
        };
        let (number, count, token) = (found.number, found.sent, found.token);
        let Some(buffer) = self.free_sends.pop() else {
            return;
        };
        // SAFETY: no operation uses a free buffer.
        let bytes = unsafe { self.sends.to_fill(buffer) };
        let len = wire::write_head(bytes, token, self.me, count, None);
        let code = self.post_send(peer, number, buffer, len);
        // A loss is recorded; if there is no room, a later call tries again.
        let _ = self.has_sent(peer, code, PostedSend::Completes);
    }
}

impl PacketSource for Net {
    /// The next packet; polls the completion queue if none is queued.
    #[inline]
    fn peek(&mut self) -> Option<(u32, Packet)> {
        if self.ready.is_empty() {
            self.poll();
        }
        self.peek_found()
    }

    fn has_arrivals(&mut self) -> bool {
        self.peek().is_some()
    }
}

/// Errors that mean that the peer is gone or unreachable.
pub(super) fn is_loss(code: isize) -> bool {
    let code = i32::try_from(code).unwrap_or(0);
    matches!(
        code,
        libc::ENOTCONN
            | libc::ECONNREFUSED
            | libc::ECONNRESET
            | libc::ECONNABORTED
            | libc::EHOSTUNREACH
            | libc::EHOSTDOWN
            | libc::ENETUNREACH
            | libc::ENETDOWN
            | libc::ENETRESET
            | libc::ETIMEDOUT
            | libc::EPIPE
            | libc::ESHUTDOWN
            | libc::EADDRNOTAVAIL
            // This channel cancels nothing; the provider does when a connection breaks.
            | libc::ECANCELED
    )
}
