//! Puts and gets by RMA: copies between this process's memory and memory that a peer has registered
//! with the network (jiang-2004, chapter 3; MPI 5.0, 12.3).
//!
//! A transfer copies the bytes of a view to or from a shape in the peer's memory. It goes in parts,
//! each of which lies in one piece on both sides: an operation of [`RemoteMemory`]. Where the local
//! bytes lie in many small pieces, a part goes through a bounce buffer, which lives as long as the
//! part is under way.
//!
//! | state of a transfer | moves by |
//! |---|---|
//! | unstarted, in part or whole | progress, up to [`PARTS_MAX`] parts of all, if there is room |
//! | under way | completions of its parts; one that fails ends the starting of others |
//! | ended: nothing unstarted, nothing under way | the window, which takes its result |
//!
//! A part for which the channel has no room waits (back-pressure): so neither the network's queues
//! nor the bounce buffers grow with the transfer.
//!
//! **Ordering.** The channel completes a put when its bytes are visible to the peer
//! (FI_DELIVERY_COMPLETE), so nothing else is needed for a flush. The parts of a transfer, and
//! transfers, are carried out in any order.
//!
//! Cost, with alpha for an operation of the network and beta for a byte: p alpha + n beta for p
//! parts, which overlap; a bounce buffer adds a copy of n bytes and makes p smaller.
//!
//! Called by the windows of the `mpi` layer; [`run`] does it inside the engine.
//! [`target_copy`] is for targets on this node that help their origins to copy.
//!
//! [`RemoteMemory`]: mica_channel::RemoteMemory

pub(crate) mod run;
pub(crate) mod target_copies;
pub(crate) mod target_copy;
pub(crate) mod windows;

use crate::engine::Fault;
use mica_channel::RemoteRegion;
use mica_memory::{Block, Region, Shape, View};
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
pub(crate) const PART: u64 = 1 << 63;

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

/// A transfer that has been started; it must be [taken](crate::EngineState::take_rma).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RmaId(pub(crate) usize);

/// The transfers of this rank.
#[derive(Debug, Default)]
pub(crate) struct RmaTransfers {
    pub all: Slab<ActiveTransfer>,
    pub parts: Slab<TransferPart>,
    /// Transfers of which not all parts have been started.
    pub unstarted: VecDeque<usize>,
}

/// A transfer whose result was not taken.
#[derive(Debug)]
pub(crate) struct ActiveTransfer {
    pub transfer: RmaTransfer,
    /// Bytes of the parts that have been started.
    pub position: usize,
    pub under_way: u32,
    pub error: Option<Fault>,
}

/// A part under way.
#[derive(Debug)]
pub(crate) struct TransferPart {
    pub of: usize,
    /// Where the bytes of a get go from here: a position in the message, and how many.
    pub bounce: Option<(Region, usize, usize)>,
}

impl ActiveTransfer {
    pub fn has_unstarted(&self) -> bool {
        self.position < self.transfer.view.len()
    }

    pub fn has_ended(&self) -> bool {
        self.under_way == 0 && !self.has_unstarted()
    }

    pub fn fail(&mut self, error: Fault) {
        self.position = self.transfer.view.len();
        self.error.get_or_insert(error);
    }

    /// Where the next part lies in the peer's memory, from the shape's start on; the bytes here and
    /// their number; the bounce buffer that they are in.
    pub fn next_part(&self) -> Result<(isize, View, usize, Option<Region>), Fault> {
        let RmaTransfer { direction, shape, view, .. } = &self.transfer;
        let position = self.position;
        let (there, there_bytes) = piece_at(shape, position);
        let (here, here_bytes) = piece_at(view.shape(), position);
        if here_bytes >= there_bytes.min(PIECE_MIN) {
            let n = here_bytes.min(there_bytes);
            let local = view.region().offset(here).view(Shape::Contiguous { bytes: n });
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
