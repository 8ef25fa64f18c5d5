//! Progress: taking in what has arrived, sending what waits.

use crate::packet;
use crate::{Fault, State};

/// Packets that one round takes in before it looks at the waiting operation again.
const ROUND: usize = 32;

impl State {
    /// One round of progress. True when something arrived.
    ///
    /// # Errors
    /// When memory for a message cannot be had.
    #[inline]
    pub fn progress(&mut self) -> Result<bool, Fault> {
        let mut arrived = false;
        for _ in 0..ROUND {
            let Some((source, packet)) = self.shm.peek() else {
                break;
            };
            arrived = true;
            self.take_in(source, &packet)?;
        }
        self.shm.next_turn();
        if self.has_offloaded() {
            arrived |= self.follow_offload()?;
        }
        if !self.backlog.is_empty() {
            self.advance_backlog()?;
        }
        if self.completed && !(self.under_way.is_empty() && self.reactions.is_empty()) {
            self.follow_up();
        }
        Ok(arrived)
    }

    /// Handles the packet that was just peeked from `source`, and removes it.
    #[inline]
    pub(crate) fn take_in(
        &mut self,
        source: u32,
        packet: &mica_channel::shm::Packet,
    ) -> Result<(), Fault> {
        let result = match packet.kind {
            packet::EAGER | packet::EAGER_SYNC => self.on_eager(source, packet),
            packet::CELLS => self.on_cells(source, packet),
            packet::MORE_CELLS | packet::CHUNK => {
                self.on_more_cells(source, packet);
                Ok(())
            }
            packet::REQUEST => self.on_request(source, packet),
            packet::REQUEST_MORE => self.on_request_more(source, packet),
            packet::CLEAR => self.on_clear(packet),
            packet::DONE => {
                self.on_done(packet);
                Ok(())
            }
            packet::JOIN => self.on_join(packet),
            packet::SKEW => {
                self.on_skew(source, packet);
                Ok(())
            }
            packet::PUSHED => self.on_pushed(source, packet),
            kind => {
                debug_assert!(false, "packet of unknown kind {kind} from rank {source}");
                Ok(())
            }
        };
        self.shm.consume(source, packet);
        result
    }
}
