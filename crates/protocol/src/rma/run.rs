//! Puts and gets by RMA inside the engine: starts the parts of transfers and takes their
//! completions in. [`rma`](crate::rma) has the design.

use crate::channels::Channels;
use crate::engine::{CompletionNotes, EngineState, Fault};
use crate::rma::{
    ActiveTransfer, PART, PARTS_MAX, RmaDirection, RmaId, RmaTransfer, RmaTransfers, TransferPart,
};
use mica_channel::transport::{NetError, TransportCompletion};
use mica_channel::{ChannelError, RemoteRegion};

/// Whether a part was started.
enum StartedPart {
    Yes,
    NoRoom,
}

/// Whether a completion is that of a part of a transfer.
pub(crate) fn is_part(completion: &TransportCompletion) -> bool {
    completion.token & PART != 0
}

impl EngineState {
    /// Registers this process's `bytes` bytes at `address` for the puts and gets of peers that are
    /// reached over the network. `None` if the network has none, or the provider refuses.
    pub fn register_memory(&mut self, address: usize, bytes: usize) -> Option<RemoteRegion> {
        self.channels.remote_memory()?.register(address, bytes).ok()
    }

    /// Whether `peer`'s registered memory can be reached by transfers.
    pub fn reaches_memory_of(&mut self, peer: u32) -> bool {
        let network = self.channels.network_to(peer);
        network.is_some_and(|network| network.remote_memory().is_some())
    }

    /// Revokes a registration. The peers have completed their transfers.
    pub fn unregister_memory(&mut self, region: RemoteRegion) {
        if let Some(memory) = self.channels.remote_memory() {
            memory.unregister(region);
        }
    }

    /// Starts a transfer. Does not block. A transfer that fails has ended.
    pub fn start_rma(&mut self, transfer: RmaTransfer) -> RmaId {
        debug_assert_eq!(transfer.shape.len(), transfer.view.len());
        let active = ActiveTransfer { transfer, position: 0, under_way: 0, error: None };
        let has_bytes = active.has_unstarted();
        let at = self.rma.all.insert(active);
        if has_bytes {
            self.rma.unstarted.push_back(at);
            self.rma.start_parts(&mut self.channels, &mut self.completions);
        }
        RmaId(at)
    }

    /// Takes the result of a transfer that has ended. `None`: it goes on.
    pub fn take_rma(&mut self, id: RmaId) -> Option<Result<(), Fault>> {
        match self.rma.all[id.0].has_ended() {
            false => None,
            true => Some(self.rma.all.remove(id.0).error.map_or(Ok(()), Err)),
        }
    }
}

impl RmaTransfers {
    /// Starts the parts that wait, as far as there is room.
    pub fn start_parts(&mut self, channels: &mut Channels, completions: &mut CompletionNotes) {
        while let Some(&at) = self.unstarted.front() {
            while self.all[at].has_unstarted() {
                if self.parts.len() >= PARTS_MAX {
                    return;
                }
                match self.start_part(at, channels) {
                    Ok(StartedPart::Yes) => {}
                    Ok(StartedPart::NoRoom) => {
                        // It may be this peer alone that has none: another goes first next time.
                        self.unstarted.rotate_left(1);
                        return;
                    }
                    Err(error) => self.all[at].fail(error),
                }
            }
            self.unstarted.pop_front();
            if self.all[at].has_ended() {
                completions.note();
            }
        }
    }

    fn start_part(&mut self, at: usize, channels: &mut Channels) -> Result<StartedPart, Fault> {
        let active = &self.all[at];
        let (there, local, n, bounce) = active.next_part()?;
        let (direction, peer) = (active.transfer.direction, active.transfer.peer);
        let RemoteRegion { key, address } = active.transfer.remote;
        let remote = RemoteRegion { key, address: address.wrapping_add_signed(there as i64) };
        let entry = self.parts.vacant_entry();
        let token = PART | entry.key() as u64;
        let network = channels.network_to(peer);
        let memory = network.and_then(|network| network.remote_memory());
        let memory = memory.ok_or_else(|| unreached(peer))?;
        let started = match direction {
            RmaDirection::Put => memory.put(peer, remote, &local, n, token)?,
            RmaDirection::Get => memory.get(peer, remote, &local, n, token)?,
        };
        if !started {
            return Ok(StartedPart::NoRoom);
        }
        let active = &mut self.all[at];
        entry.insert(TransferPart {
            of: at,
            bounce: bounce.map(|bounce| (bounce, active.position, n)),
        });
        active.position += n;
        active.under_way += 1;
        Ok(StartedPart::Yes)
    }

    /// A part has completed.
    pub fn finish_part(
        &mut self,
        completion: TransportCompletion,
        completions: &mut CompletionNotes,
    ) {
        let part = self.parts.remove((completion.token & !PART) as usize);
        let active = &mut self.all[part.of];
        active.under_way -= 1;
        match (completion.result, part.bounce) {
            (Err(error), _) => {
                active.fail(ChannelError::from(error).into());
                self.unstarted.retain(|&at| at != part.of);
            }
            (Ok(_), Some((bounce, position, n)))
                if active.transfer.direction == RmaDirection::Get =>
            {
                active.transfer.view.unpack_at(position, &bounce, n);
            }
            (Ok(_), _) => {}
        }
        if active.has_ended() {
            completions.note();
        }
    }
}

/// Nobody has a registration of such a peer.
#[cold]
fn unreached(peer: u32) -> Fault {
    let error = NetError::Unsupported {
        operation: "remote memory access",
        provider: format!("rank {peer}"),
    };
    ChannelError::from(error).into()
}
