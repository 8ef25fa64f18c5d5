//! Packets over the network: sending them, and polling the completion queue.

use std::ffi::c_void;

use super::bindings as fi;
use super::buffers::{OperationContexts, OperationPurpose};
use super::endpoint::OperationFailure;
use super::wire::{self, WireError};
use super::{ArrivedPacket, Net, SENDS};
use crate::shm::Packet;
use crate::transport::{NetError, Transport};
use crate::{ChannelError, PacketSource};
use mica_node::counters::Counter;

/// Longest message, in bytes, that is assembled on the stack for the provider to copy.
pub(super) const INJECT: usize = 256;

/// How the provider reports that it has sent a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PostedSend {
    /// Not at all: it has copied the bytes.
    Injected,
    /// By a completion.
    Completes,
}

impl Net {
    /// Sends the first `len` bytes of `buffer`.
    pub(super) fn post_send(&mut self, peer: u32, number: u64, buffer: u32, len: usize) -> isize {
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
    pub(super) fn has_sent(
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
    pub(super) fn bad_payload(&self, payload: usize, has: usize) -> NetError {
        NetError::Argument {
            operation: "send",
            why: format!(
                "a payload of {payload} bytes, where {has} are given and a packet takes {}",
                self.payload_max
            ),
        }
    }

    /// The send from `buffer` has completed.
    #[inline]
    pub(super) fn has_left(&mut self, buffer: u32) {
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
    pub(super) fn poll_failures(&mut self, code: isize) {
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
    pub(super) fn has_received(&mut self, buffer: u32, len: usize) {
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

    /// Sends a blank message with a completion; does nothing if there is no room.
    pub(super) fn send_blank(&mut self, peer: u32) {
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
