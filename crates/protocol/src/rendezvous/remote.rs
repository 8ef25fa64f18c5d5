//! Long messages over the network, after their RTS; and what it completes, loses, and waits for.
//!
//! | message | transfer | packets after the RTS | cost of the receive |
//! |---|---|---|---|
//! | readable | the receiver reads it (RMA; jiang-2004, 2.1.1) | r: `FIN` | 3 alpha + n beta |
//! | other, or refused | the sender sends it | r: `CTS`; s: `CHUNK` ... | 3 alpha + 3 n beta |
//!
//! (r: receiver, s: sender; alpha: a packet's way, beta: a byte's; chunks are copied on both
//! sides.) A message is readable if it is contiguous on both sides and the provider reads remote
//! memory.
//!
//! | state of a read | moves by |
//! |---|---|
//! | waiting | the provider's queue has room: started, in the order of the matches |
//! | under way | its completion: `FIN` to the sender; or it was refused: `CTS` |
//! | under way when its peer is lost | nothing: the loss ends the wait for the receive |
//!
//! The sender's memory stays registered from the RTS until its send ends. A completion is reported
//! by the provider after the bytes are here, so nothing else orders them. All is under the engine's
//! lock.

use crate::channels::packet::{self, RtsPacket};
use crate::engine::{EngineState, Fault};
use crate::pt2pt::{RecvId, SendPhase};
use crate::rendezvous::state::RemoteRead;
use crate::rma::run;
use crate::wait::policy::LIVENESS_INTERVAL;
use mica_channel::RemoteRegion;
use mica_channel::transport::WaitMode;
use mica_memory::View;
use mica_node::counters::TrafficClass;
use mica_node::park::WakeEvents;
use mica_node::segment::JobSegment;
use mica_policy::{NetworkLimits, NetworkPath, OutgoingMessage, network_path};
use std::time::Duration;

/// Time between two polls of a network that cannot be waited for.
const POLL_SLEEP: Duration = Duration::from_micros(500);

impl EngineState {
    /// Sends the RTS of send `id` to its receiver, which is reached over the network. False when
    /// there is no room.
    pub(crate) fn send_rts_remote(&mut self, id: u32) -> Result<bool, Fault> {
        let op = &mut self.sends.ops[id];
        let (peer, len) = (op.peer, op.view.len());
        let is_held = self.channels.is_held(peer);
        let Some(net) = self.channels.network_to(peer) else {
            return Ok(false);
        };
        if op.rts_state.registered.is_none()
            && net.can_read()
            // A message that fits a packet, but is held back by its receiver, is not worth a read.
            && !(is_held && len <= net.payload_max())
            && let Some((address, _)) = op.view.as_contiguous()
        {
            // Without a registration the message goes in chunks.
            op.rts_state.registered = net.expose(address, len).ok();
        }
        let registered = op.rts_state.registered.as_ref().map(RemoteRegion::from);
        let rts = RtsPacket {
            len: len as u64,
            op: id,
            copy_index: None,
            remote: None,
            exposure: None,
            unverified: false,
            registered,
        };
        let head = packet::rts(op.context, op.tag, &rts);
        let sent = self.channels.send(peer, &head, None)?;
        if sent {
            self.sends.ops[id].phase = SendPhase::AwaitingReply;
        }
        Ok(sent)
    }

    /// Transfers the first `len` bytes of a message that `peer` has announced over the network.
    pub(crate) fn fetch_remote(
        &mut self,
        id: RecvId,
        peer: u32,
        rts: &RtsPacket,
        view: &View,
        len: usize,
    ) -> Result<(), Fault> {
        let can_read = self.channels.network_to(peer).is_some_and(|net| net.can_read());
        let limits = NetworkLimits {
            // The message was announced by RTS, so it is not eager.
            eager_max: 0,
            can_read: can_read && rts.registered.is_some(),
        };
        let message =
            OutgoingMessage { pieces: view.run_count_hint(), ..OutgoingMessage::contiguous(len) };
        let (NetworkPath::Read, Some(region)) = (network_path(&message, &limits), rts.registered)
        else {
            return self.ask_for_cells(id, peer, rts.op);
        };
        let at = self.rendezvous.reads.all.insert(RemoteRead {
            recv: id,
            peer,
            sender_op: rts.op,
            region,
            len,
        });
        self.rendezvous.reads.waiting.push_back(at);
        self.rendezvous.reads.start(&mut self.channels, &self.receives)
    }

    /// Handles what the network has completed. True when there was anything.
    pub(crate) fn handle_network(&mut self) -> Result<bool, Fault> {
        let mut completed = false;
        while let Some(completion) = self.channels.next_completion() {
            completed = true;
            if run::is_part(&completion) {
                self.rma.finish_part(completion, &mut self.completions);
                continue;
            }
            let read = self.rendezvous.reads.all.remove(completion.token as usize);
            if completion.result.is_ok() {
                self.finish_fetch(read.recv, read.peer, read.sender_op, TrafficClass::Net)?;
            } else if self.lost.is_none() {
                // The read was refused, or aborted by a loss, which is then reported as well.
                self.ask_for_cells(read.recv, read.peer, read.sender_op)?;
            }
        }
        if !self.rendezvous.reads.waiting.is_empty() {
            self.rendezvous.reads.start(&mut self.channels, &self.receives)?;
        }
        self.rma.start_parts(&mut self.channels, &mut self.completions);
        if let Some(loss) = self.channels.take_loss()
            && self.lost.is_none()
        {
            self.lost = Some(Fault::Lost { rank: loss.peer, detail: loss.detail });
        }
        Ok(completed)
    }

    /// How to wait for the network; `None` when it has something to do.
    pub(crate) fn watch(&mut self) -> Option<WakeEvents> {
        let (mut descriptor, mut limit) = (None, LIVENESS_INTERVAL);
        match self.channels.network.as_mut().map(|network| network.prepare_to_wait()) {
            Some(WaitMode::Ready) => {
                self.poll_all_next();
                return None;
            }
            Some(WaitMode::Descriptor(own)) => {
                descriptor = Some(own);
                let network = self.channels.network.as_ref();
                limit = limit.min(network.and_then(|net| net.wait_at_most()).unwrap_or(limit));
            }
            Some(WaitMode::Poll) => {
                self.poll_all_next();
                limit = limit.min(POLL_SLEEP);
            }
            Some(WaitMode::WakeUp) | None => {}
        }
        Some(WakeEvents { descriptor, limit: Some(limit) })
    }

    /// Checks whether the rank that this one has long waited for still exists, or, if it may be any
    /// rank, all ranks of the node.
    #[cold]
    pub(crate) fn check_alive(&mut self, segment: &JobSegment, peer: i32) {
        let mut lost = None;
        match u32::try_from(peer) {
            Ok(peer) if self.channels.is_remote(peer) => {
                // What it finds is reported as a loss.
                let _ = self.channels.network_to(peer).map(|net| net.probe(peer));
            }
            Ok(peer) => lost = segment.is_gone(peer).then_some(peer),
            Err(_) => {
                let partners = segment.partners_of(self.me);
                lost = partners.into_iter().find(|&rank| segment.is_gone(rank));
            }
        }
        if let (Some(rank), None) = (lost, &self.lost) {
            self.lost = Some(Fault::Lost { rank, detail: "its process has ended".to_owned() });
        }
    }
}
