//! Puts and gets by RMA: copies between this process's memory and memory that a peer has registered
//! with the network (jiang-2004, chapter 3; MPI 5.0, 12.3).
//!
//! A transfer copies the bytes of a view to or from a shape in the peer's memory. It goes in parts,
//! each of which lies in one piece on both sides: an operation of [`RemoteMemory`]. Where the local
//! bytes lie in many small pieces, a part goes through a bounce buffer, which lives as long as the
//! part is under way. At most [`PARTS_MAX`] parts of all transfers are under way at a time, and a
//! part for which the channel has no room waits (back-pressure): so neither the network's queues nor
//! the bounce buffers grow with the transfer.
//!
//! A transfer has ended when all its parts have completed. The channel completes a put when its
//! bytes are visible to the peer (FI_DELIVERY_COMPLETE), so nothing else is needed for a flush. The
//! parts of a transfer, and transfers, are carried out in any order.
//!
//! Called by the windows of the `mpi` layer; all of it runs inside the engine.
//!
//! [`RemoteMemory`]: mica_channel::RemoteMemory

use crate::fault::Fault;
use crate::state::EngineState;
use mica_channel::memory::{Block, Region, Shape, View};
use mica_channel::transport::{NetError, TransportCompletion};
use mica_channel::{ChannelError, RemoteRegion};
use slab::Slab;
use std::collections::VecDeque;

/// Parts that are under way at a time: half of what the network channel takes, so that reads of
/// long messages find room beside them.
pub(crate) const PARTS_MAX: usize = 32;

/// Bytes of a bounce buffer at most: with [`PARTS_MAX`] parts, 2 MiB.
pub(crate) const BOUNCE_MAX: usize = 64 << 10;

/// Local pieces of at least these bytes are transferred without a bounce buffer: a part costs some
/// microseconds, a copy of 4 KiB a fraction of one.
const PIECE_MIN: usize = 4 << 10;

/// Tells the completion of a part from that of a read of a message.
const PART: u64 = 1 << 63;

/// Which way the bytes go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RmaDirection {
    /// To the peer.
    Put,
    /// From the peer.
    Get,
}

/// A put or get.
#[derive(Debug)]
pub struct RmaTransfer {
    /// Which way the bytes go.
    pub direction: RmaDirection,
    /// The owner of the memory.
    pub peer: u32,
    /// Where the shape starts from in the peer's memory. All its bytes lie in the registration.
    pub remote: RemoteRegion,
    /// The bytes there.
    pub shape: Shape,
    /// The local bytes, as many as the shape has. They stay valid until the transfer has ended, and
    /// unchanged for a put.
    pub view: View,
}

/// A transfer that has been started; it must be [taken](EngineState::take_rma).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RmaId(usize);

/// The transfers of this rank.
#[derive(Debug, Default)]
pub(crate) struct RmaTransfers {
    all: Slab<ActiveTransfer>,
    parts: Slab<TransferPart>,
    /// Transfers of which not all parts have been started.
    unstarted: VecDeque<usize>,
}

#[derive(Debug)]
struct ActiveTransfer {
    transfer: RmaTransfer,
    /// Bytes of the parts that have been started.
    position: usize,
    under_way: u32,
    error: Option<Fault>,
}

/// A part under way.
#[derive(Debug)]
struct TransferPart {
    of: usize,
    /// Where the bytes of a get go from here: a position in the message, and how many.
    bounce: Option<(Region, usize, usize)>,
}

#[cfg(test)]
impl RmaTransfers {
    pub fn is_empty(&self) -> bool {
        self.all.is_empty() && self.parts.is_empty() && self.unstarted.is_empty()
    }

    /// Parts under way, and bytes of bounce buffers that they hold.
    pub fn under_way(&self) -> (usize, usize) {
        let bounced = |part: &TransferPart| part.bounce.as_ref().map_or(0, |bounce| bounce.2);
        let parts = self.parts.iter().map(|(_, part)| part);
        (self.parts.len(), parts.map(bounced).sum())
    }
}

/// Whether a part was started.
enum StartedPart {
    Yes,
    NoRoom,
}

impl ActiveTransfer {
    fn has_unstarted(&self) -> bool {
        self.position < self.transfer.view.len()
    }

    fn has_ended(&self) -> bool {
        self.under_way == 0 && !self.has_unstarted()
    }

    fn fail(&mut self, error: Fault) {
        self.position = self.transfer.view.len();
        self.error.get_or_insert(error);
    }

    /// Where the next part lies in the peer's memory, from the shape's start on; the bytes here and
    /// their number; the bounce buffer that they are in.
    fn next_part(&self) -> Result<(isize, View, usize, Option<Region>), Fault> {
        let RmaTransfer {
            direction,
            shape,
            view,
            ..
        } = &self.transfer;
        let position = self.position;
        let (there, there_bytes) = piece_at(shape, position);
        let (here, here_bytes) = piece_at(view.shape(), position);
        if here_bytes >= there_bytes.min(PIECE_MIN) {
            let n = here_bytes.min(there_bytes);
            let local = view
                .region()
                .offset(here)
                .view(Shape::Contiguous { bytes: n });
            return Ok((there, local, n, None));
        }
        let n = there_bytes.min(BOUNCE_MAX);
        let bounce = Block::allocate(n)?;
        if *direction == RmaDirection::Put {
            view.pack_to(position, &bounce, n);
        }
        let local = bounce.clone().view(Shape::Contiguous { bytes: n });
        Ok((there, local, n, Some(bounce)))
    }
}

/// The piece in one stretch that begins at `position` of a message: its offset, and its bytes.
fn piece_at(shape: &Shape, position: usize) -> (isize, usize) {
    match shape.dense_at() {
        Some(at) => (at + position as isize, shape.len() - position),
        None => shape.seek(position).unwrap_or((0, 0)),
    }
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
        let transport = self.channels.transport_to(peer);
        transport.is_some_and(|transport| transport.remote_memory().is_some())
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
        let active = ActiveTransfer {
            transfer,
            position: 0,
            under_way: 0,
            error: None,
        };
        let has_bytes = active.has_unstarted();
        let at = self.rma.all.insert(active);
        if has_bytes {
            self.rma.unstarted.push_back(at);
            self.start_parts();
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

    /// Starts the parts that wait, as far as there is room.
    pub(crate) fn start_parts(&mut self) {
        while let Some(&at) = self.rma.unstarted.front() {
            while self.rma.all[at].has_unstarted() {
                if self.rma.parts.len() >= PARTS_MAX {
                    return;
                }
                match self.start_part(at) {
                    Ok(StartedPart::Yes) => {}
                    Ok(StartedPart::NoRoom) => {
                        // It may be this peer alone that has none: another goes first next time.
                        self.rma.unstarted.rotate_left(1);
                        return;
                    }
                    Err(error) => self.rma.all[at].fail(error),
                }
            }
            self.rma.unstarted.pop_front();
            if self.rma.all[at].has_ended() {
                self.note_completion();
            }
        }
    }

    fn start_part(&mut self, at: usize) -> Result<StartedPart, Fault> {
        let active = &self.rma.all[at];
        let (there, local, n, bounce) = active.next_part()?;
        let (direction, peer) = (active.transfer.direction, active.transfer.peer);
        let RemoteRegion { key, address } = active.transfer.remote;
        let remote = RemoteRegion {
            key,
            address: address.wrapping_add_signed(there as i64),
        };
        let entry = self.rma.parts.vacant_entry();
        let token = PART | entry.key() as u64;
        let transport = self.channels.transport_to(peer);
        let memory = transport.and_then(|transport| transport.remote_memory());
        let memory = memory.ok_or_else(|| unreached(peer))?;
        let started = match direction {
            RmaDirection::Put => memory.put(peer, remote, &local, n, token)?,
            RmaDirection::Get => memory.get(peer, remote, &local, n, token)?,
        };
        if !started {
            return Ok(StartedPart::NoRoom);
        }
        let active = &mut self.rma.all[at];
        entry.insert(TransferPart {
            of: at,
            bounce: bounce.map(|bounce| (bounce, active.position, n)),
        });
        active.position += n;
        active.under_way += 1;
        Ok(StartedPart::Yes)
    }

    /// A part has completed.
    pub(crate) fn finish_part(&mut self, completion: TransportCompletion) {
        let part = self.rma.parts.remove((completion.token & !PART) as usize);
        let active = &mut self.rma.all[part.of];
        active.under_way -= 1;
        match (completion.result, part.bounce) {
            (Err(error), _) => {
                active.fail(ChannelError::from(error).into());
                self.rma.unstarted.retain(|&at| at != part.of);
            }
            (Ok(_), Some((bounce, position, n)))
                if active.transfer.direction == RmaDirection::Get =>
            {
                active.transfer.view.unpack_at(position, &bounce, n);
            }
            (Ok(_), _) => {}
        }
        if active.has_ended() {
            self.note_completion();
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
