//! `MPI_Cancel` of sends (MPI 5.0, 3.8.4).
//!
//! A send that waits in its outbox is cancelled at once. One that was announced, or that waits for
//! its match, asks the receiver (`CANCEL`). If no receive has matched the message, the receiver
//! drops it and answers (`CANCELLED`); else the send goes on, and completes as any other. Packets
//! keep their order, so the answer cannot meet another operation at the same index.
//!
//! So the cancelled send completes as soon as the receiver's process makes progress, whatever the
//! program there does. A send whose message is in the receiver's hands already, or with an adapter
//! that matches, is not cancelled. `MPI_Finalize` does not wait for the answer to a send that was
//! cancelled and freed: all ranks have called it then, so that a receive that had matched the
//! message is complete, and a receiver that had not may be gone.

use crate::channels::packet;
use crate::engine::{EngineState, Fault};
use crate::pt2pt::{SendEnd, SendId, SendPhase, UnexpectedMessage};
use mica_channel::shm::Packet;

impl EngineState {
    /// Cancels a send if no receive has matched it; it then completes as cancelled.
    ///
    /// # Errors
    /// When progress fails for lack of memory.
    pub fn cancel_send(&mut self, id: SendId) -> Result<(), Fault> {
        let Some(op) = self.sends.ops.get(id.0) else {
            return Ok(());
        };
        let (peer, phase, index) = (op.peer, op.phase, id.0.index());
        if self.goes_to_adapter(Some(peer)) {
            return Ok(());
        }
        match phase {
            SendPhase::Queued { .. } => {
                self.sends.outboxes.entry(peer).ordered.retain(|&queued| queued != index);
                self.end_send(index, SendEnd::Cancelled);
                Ok(())
            }
            SendPhase::AwaitingReply if peer == self.me => {
                if self.drop_unmatched(peer, index)? {
                    self.end_send(index, SendEnd::Cancelled);
                }
                Ok(())
            }
            SendPhase::AwaitingReply => {
                self.sends.ops[index].phase = SendPhase::Cancelling;
                self.send_control(peer, packet::cancel(index))
            }
            SendPhase::Streaming { .. } | SendPhase::Cancelling | SendPhase::Ended(_) => Ok(()),
        }
    }

    /// Drops the message of operation `index` of `source`, if no receive has matched it.
    fn drop_unmatched(&mut self, source: u32, index: u32) -> Result<bool, Fault> {
        let is_it = |message: &UnexpectedMessage| match message {
            UnexpectedMessage::Announced(rts) => rts.op == index,
            UnexpectedMessage::Buffered { acknowledge, .. } => *acknowledge == Some(index),
            UnexpectedMessage::FromSelf { send, .. } => *send == index,
            UnexpectedMessage::AtAdapter { .. } => false,
        };
        let Some(ticket) = self.queues.unexpected.find_from(source, is_it) else {
            return Ok(false);
        };
        self.queues.remove(ticket, &self.counters);
        self.received_unexpected(source)?;
        Ok(true)
    }

    /// The sender cancels one of its messages.
    pub(crate) fn on_cancel(&mut self, source: u32, packet: &Packet) -> Result<(), Fault> {
        let index = packet::read_cancel(packet);
        match self.drop_unmatched(source, index)? {
            true => self.send_control(source, packet::cancelled(index)),
            false => Ok(()),
        }
    }

    /// The receiver has dropped a message that this rank has cancelled.
    pub(crate) fn on_cancelled(&mut self, packet: &Packet) {
        self.end_send(packet::read_cancel(packet), SendEnd::Cancelled);
    }
}
