//! Long messages over the network, once the sender has said where they lie (`REQUEST`).
//!
//! | message | how it comes | packets after the request |
//! |---|---|---|
//! | in one piece on both sides, and the provider reads remote memory | the receiver reads it (RMA; jiang-2004, 2.1.1) | receiver: `DONE` |
//! | otherwise, or if the read is refused | the sender sends it | receiver: `CLEAR`; sender: `CHUNK` ... |

use crate::Fault;
use crate::packet::{self, Request};
use crate::receive::RecvId;
use crate::send::Phase;
use crate::state::State;
use crate::traffic::Way;
use crate::wait::VIGIL;
use mica_channel::RemoteRegion;
use mica_channel::memory::View;
use mica_channel::transport::Wait;
use mica_node::park::Watch;
use mica_node::segment::JobSegment;
use mica_policy::{Message, NetworkLimits, NetworkWay, network_way};
use slab::Slab;
use std::collections::VecDeque;
use std::time::Duration;

/// Between two looks at a network that cannot be waited for.
const MOMENT: Duration = Duration::from_micros(500);

/// The messages that this rank reads from their senders.
#[derive(Debug, Default)]
pub(crate) struct FarReads {
    all: Slab<FarRead>,
    /// Those for which there was no room yet.
    waiting: VecDeque<usize>,
}

#[cfg(test)]
impl FarReads {
    pub fn is_empty(&self) -> bool {
        self.all.is_empty() && self.waiting.is_empty()
    }
}

#[derive(Debug, Clone, Copy)]
struct FarRead {
    recv: RecvId,
    peer: u32,
    sender_op: u32,
    region: RemoteRegion,
    len: usize,
}

impl State {
    /// Announces the send `id` to its receiver, who is reached over the network. False when there is no room.
    pub(crate) fn send_request_far(&mut self, id: u32) -> Result<bool, Fault> {
        let op = &mut self.sends[id as usize];
        let (peer, len) = (op.peer, op.view.len());
        let is_held = self.channels.is_held(peer);
        let Some(net) = self.channels.net_to(peer) else {
            return Ok(false);
        };
        if op.asking.registered.is_none()
            && net.can_read()
            // One that would fit a packet, but for its receiver, is not worth a read.
            && !(is_held && len <= net.payload_max())
            && let Some((address, _)) = op.view.as_contiguous()
        {
            // Without a registration the message goes in chunks.
            op.asking.registered = net.expose(address, len).ok();
        }
        let registered = op.asking.registered.as_ref().map(RemoteRegion::from);
        let request = Request {
            len: len as u64,
            op: id,
            split: None,
            remote: None,
            exposure: None,
            recalled: false,
            registered,
        };
        let head = packet::request(op.context, op.tag, &request);
        let sent = self.channels.send(peer, &head, None)?;
        if sent {
            self.sends[id as usize].phase = Phase::Asked;
        }
        Ok(sent)
    }

    /// Gets the first `len` bytes of a message that `peer` has announced over the network.
    pub(crate) fn fetch_far(
        &mut self,
        id: RecvId,
        peer: u32,
        request: &Request,
        view: &View,
        len: usize,
    ) -> Result<(), Fault> {
        let can_read = self.channels.net_to(peer).is_some_and(|net| net.can_read());
        let limits = NetworkLimits {
            // It was asked for, so it is past that.
            eager_max: 0,
            can_read: can_read && request.registered.is_some(),
        };
        let message = Message {
            pieces: view.run_count_hint(),
            ..Message::contiguous(len)
        };
        let (NetworkWay::Read, Some(region)) = (network_way(&message, &limits), request.registered)
        else {
            return self.ask_for_cells(id, peer, request.op);
        };
        let at = self.far_reads.all.insert(FarRead {
            recv: id,
            peer,
            sender_op: request.op,
            region,
            len,
        });
        self.far_reads.waiting.push_back(at);
        self.start_reads()
    }

    /// Starts the reads that wait, as far as there is room.
    fn start_reads(&mut self) -> Result<(), Fault> {
        while let Some(&at) = self.far_reads.waiting.front() {
            let read = self.far_reads.all[at];
            let view = &self.recvs[read.recv.0 as usize].view;
            let Some(net) = self.channels.net_to(read.peer) else {
                return Ok(());
            };
            if !net.start_read(read.peer, read.region, view, read.len, at as u64)? {
                return Ok(());
            }
            self.far_reads.waiting.pop_front();
        }
        Ok(())
    }

    /// Goes on with what the network has ended. True when anything has.
    pub(crate) fn follow_net(&mut self) -> Result<bool, Fault> {
        let mut ended = false;
        while let Some(end) = self
            .channels
            .net
            .as_deref_mut()
            .and_then(|net| net.next_end())
        {
            ended = true;
            let read = self.far_reads.all.remove(end.token as usize);
            if end.result.is_ok() {
                self.end_fetch(read.recv, read.peer, read.sender_op, Way::Net)?;
            } else if self.lost.is_none() {
                // Refused, or broken off: then the loss is told as well.
                self.ask_for_cells(read.recv, read.peer, read.sender_op)?;
            }
        }
        if !self.far_reads.waiting.is_empty() {
            self.start_reads()?;
        }
        if let Some(loss) = self
            .channels
            .net
            .as_deref_mut()
            .and_then(|net| net.take_loss())
            && self.lost.is_none()
        {
            self.lost = Some(Fault::Lost {
                rank: loss.peer,
                detail: loss.detail,
            });
        }
        Ok(ended)
    }

    /// How to wait for the network; `None` when it has something, or is no part of this job.
    pub(crate) fn watch(&mut self) -> Option<Watch> {
        let net = self.channels.net.as_deref_mut()?;
        match net.prepare_to_wait() {
            Wait::Ready => {
                self.hasten();
                None
            }
            Wait::Descriptor(descriptor) => Some(Watch {
                descriptor: Some(descriptor),
                limit: Some(net.wait_at_most().map_or(VIGIL, |limit| limit.min(VIGIL))),
            }),
            Wait::Poll => {
                self.hasten();
                Some(Watch {
                    descriptor: None,
                    limit: Some(MOMENT),
                })
            }
        }
    }

    /// Looks whether the rank that this one has long waited for is still there, or, if that may be any, all of the node.
    #[cold]
    pub(crate) fn look_for(&mut self, segment: &JobSegment, peer: i32) {
        let mut lost = None;
        match u32::try_from(peer) {
            Ok(peer) if self.channels.is_far(peer) => {
                // What it finds comes as a loss.
                let _ = self.channels.net_to(peer).map(|net| net.probe(peer));
            }
            Ok(peer) => lost = segment.is_gone(peer).then_some(peer),
            Err(_) => {
                lost = segment
                    .members()
                    .iter()
                    .copied()
                    .find(|&m| segment.is_gone(m))
            }
        }
        if let (Some(rank), None) = (lost, &self.lost) {
            self.lost = Some(Fault::Lost {
                rank,
                detail: "its process has ended".to_owned(),
            });
        }
    }
}
