//! Long transfers that the target helps to copy, if it happens to wait in MPI
//! ([`mica_protocol`]'s `rma::target_copy` has the protocol).
//!
//! The origin copies as ever, from the front; the target copies pieces from the back between its
//! own part of the window and the origin's buffer, which must be migrated memory
//! (docs/design/mapped.md). So a transfer takes two cores and both their caches, where one of them
//! would do nothing. Accumulates are divided as well: the origin holds the target's
//! [`AccumulateGate`](mica_node::window::AccumulateGate) for both.

use std::ops::Range;
use std::sync::Arc;

use mica_channel::direct::PeerAccess;
use mica_memory::{Region, RegionRef};
use mica_protocol::{Engine, TargetCopier, TargetCopyRequest};

use crate::memory::element::ElementUpdate;
use crate::memory::movable::MovableOwner;
use crate::memory::place::{Direction, TargetPlace};
use crate::memory::target::TargetMemory;
use crate::window::object::Window;
use mica_objects::datatype::BasicType;
use mica_objects::error::Result;
use mica_objects::process;

/// What is done with the bytes of a transfer.
#[derive(Debug, Clone, Copy)]
pub(crate) enum TransferOperation {
    Copy(Direction),
    /// Of elements without gaps, by the operator of this handle.
    Accumulate(u32, ElementUpdate),
}

/// The lowest bits of [`TransferOperation::to_word`].
const PUT: u64 = 0;
const GET: u64 = 1;
const ACCUMULATE: u64 = 2;

impl TransferOperation {
    /// The transfer in a word of a request.
    fn to_word(self) -> u64 {
        match self {
            TransferOperation::Copy(Direction::Put) => PUT,
            TransferOperation::Copy(Direction::Get) => GET,
            TransferOperation::Accumulate(op, update) => {
                ACCUMULATE | u64::from(update.basic.code()) << 8 | u64::from(op) << 32
            }
        }
    }

    fn of_word(word: u64) -> Option<TransferOperation> {
        match word & 0xff {
            PUT => Some(TransferOperation::Copy(Direction::Put)),
            GET => Some(TransferOperation::Copy(Direction::Get)),
            _ => {
                let (op, basic) = ((word >> 32) as u32, BasicType::of_code((word >> 8) as u8)?);
                Some(TransferOperation::Accumulate(op, ElementUpdate::of(op, basic)?))
            }
        }
    }

    /// Transfers `bytes` bytes between the origin's buffer and the target's memory.
    fn piece(self, here: RegionRef<'_>, there: RegionRef<'_>, bytes: usize) -> Result<()> {
        match self {
            TransferOperation::Copy(direction) => direction.copy(here, there, bytes),
            TransferOperation::Accumulate(_, update) => {
                let (input, target) = (here.to_region(), there.to_region());
                let elements = bytes / update.basic.size() as usize;
                if elements > 0 {
                    let place = TargetPlace::Mapped(&target, 0);
                    update.apply_locked(place, &input, None, elements)?;
                }
            }
        }
        Ok(())
    }

    /// Whether pages of the origin's buffer may be divided, of which the first begins `before`
    /// bytes after the buffer.
    fn may_divide(self, before: usize) -> bool {
        match self {
            TransferOperation::Copy(_) => true,
            TransferOperation::Accumulate(_, update) => {
                let size = update.basic.size() as usize;
                size.is_power_of_two() && before.is_multiple_of(size)
            }
        }
    }
}

/// A transfer that may be divided with its target.
#[derive(Debug)]
pub(crate) struct LongTransfer {
    pub what: TransferOperation,
    /// Rank in the window.
    pub target: usize,
    /// Where it begins in the target's part of the window.
    pub offset: usize,
    pub bytes: usize,
}

impl LongTransfer {
    /// Carries it out without help.
    pub(crate) fn alone(&self, here: RegionRef<'_>, there: RegionRef<'_>) -> Result<()> {
        self.what.piece(here, there, self.bytes)
    }
}

impl Window {
    /// Whether the target may help with the next long transfer.
    pub(crate) fn may_be_helped(&self, target: usize) -> Result<bool> {
        Ok(target != self.0.members.rank()
            && process::engine()?.may_request_target_copy(self.0.members.peer(target)))
    }

    /// Carries out a transfer between the origin's buffer and the target's memory, which is mapped
    /// and may be accessed, with the target's help. False if that is not to be had; then nothing
    /// was done. Blocks while the target copies its last piece.
    #[cold]
    #[inline(never)]
    pub(crate) fn transfer_with_help(
        &self,
        long: &LongTransfer,
        here: RegionRef<'_>,
        there: RegionRef<'_>,
    ) -> Result<bool> {
        let LongTransfer { what, bytes, .. } = *long;
        let engine = process::engine()?;
        let buffer = engine.peer_access().expose(here.address(), bytes);
        let divided = buffer.reachable(bytes);
        if divided.len() < self.0.choices.help_min || !what.may_divide(divided.start) {
            return Ok(false);
        }
        let request = TargetCopyRequest {
            bytes,
            divided: divided.clone(),
            offset: long.offset as u64,
            buffer: buffer.words(),
            operation: what.to_word(),
        };
        let peer = self.0.members.peer(long.target);
        let Some(mut pieces) =
            engine.request_target_copy(peer, self.0.members.context(), request)?
        else {
            return Ok(false);
        };
        let ends = [0..divided.start, divided.end..bytes];
        let copied = pieces.by_ref().chain(ends).try_for_each(|piece| {
            let at = piece.start;
            what.piece(here.at(at), there.at(at), piece.len())
        });
        pieces.finish()?;
        copied?;
        Ok(true)
    }

    /// Lets the origins of long transfers have this rank's help, and those that use its memory
    /// often have it migrated.
    pub(crate) fn offer_help(&self, engine: &Engine) {
        if self.0.node_peers.job_ranks.len() == 1 {
            return;
        }
        let region = match &self.0.targets[self.0.members.rank()].memory {
            TargetMemory::Mapped(region) => Some(region.clone()),
            _ => None,
        };
        let created = self.0.created.clone().map(|own| own as Arc<dyn MovableOwner>);
        let attached = self.0.attachments.clone().map(|own| own as Arc<dyn MovableOwner>);
        let (movable, access) = (created.or(attached), engine.peer_access().clone());
        let helper = WindowHelper { region, movable, access };
        engine.add_target_copier(self.0.members.context(), Arc::new(helper));
    }
}

/// This rank's part of a window, for the origins that ask for help.
#[derive(Debug)]
struct WindowHelper {
    /// `None` in a dynamic window.
    region: Option<Region>,
    movable: Option<Arc<dyn MovableOwner>>,
    access: PeerAccess,
}

impl TargetCopier for WindowHelper {
    fn copy_pieces(
        &self,
        origin: u32,
        request: &TargetCopyRequest,
        pieces: &mut dyn Iterator<Item = Range<usize>>,
    ) {
        let TargetCopyRequest { bytes, divided, .. } = request;
        let Some(what) = TransferOperation::of_word(request.operation) else {
            return;
        };
        let Some(region) = &self.region else {
            return;
        };
        let Some(there) = region.piece(request.offset as usize, *bytes) else {
            return;
        };
        let buffer = self.access.open(origin, request.buffer, *bytes);
        let Some(here) = buffer.and_then(|b| b.region(divided.start, divided.len())) else {
            return;
        };
        for piece in pieces {
            let (at, len) = (piece.start, piece.len());
            let done = what.piece(here.at(at - divided.start), there.at(at), len);
            debug_assert!(done.is_ok(), "mapped memory needs no allocation");
        }
    }

    fn migrate(&self, address: u64) {
        if let Some(movable) = &self.movable {
            movable.migrate(&self.access, address as usize);
        }
    }
}
