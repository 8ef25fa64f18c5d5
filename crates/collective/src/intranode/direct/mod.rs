//! Data movement by direct copy (ma-2011, section 2): the copies of an operation run on all cores
//! at once, from buffer to buffer.
//!
//! | operation | who copies |
//! |---|---|
//! | bcast | each rank pulls from the root; with spare cores, the root pushes a share to each |
//! | scatter | each rank pulls its part from the root |
//! | gather | each rank pushes its part to the root |
//! | allgather, all-to-all | each rank pulls from all others, starting with the next one |
//!
//! In the first phase, ranks describe their buffers; in the second, they copy. If buffers cannot be
//! accessed, nothing has been copied, and the operation goes through cells after the first phase.
//! If a copy is refused later, it goes through cells after the second: in an operation with a root,
//! between the root and the ranks that lack data; otherwise among all.

pub mod exposed;
pub mod span;

use crate::intranode::protocol::shared_slot::SharedSlot;
use mica_memory::{Block, Shape, View};

use crate::intranode::cells::after;
use crate::intranode::cells::parts::{OwnPart, Parts, RootBuffer};
use crate::intranode::choice::context::RootedDirection;
use crate::intranode::protocol::slot::OperationSlot;
use crate::intranode::reduce::direct::AgreedTerms;
use exposed::{
    AddressAccess, BufferAccess, BufferSide, CellFallback, DirectOutcome, ExposedBuffer,
    ExposureChoice, access, access_to_all, describe, open, open_by, settle, span_of,
};
use mica_objects::error::Result;
use span::{ExposedPart, ExposedParts, PartsSpan};

/// A share of the root that is shorter than this (in bytes) is not worth another step.
const SHARE_MIN: usize = 8 << 10;

/// An operation with a root; known alike to all ranks.
#[derive(Debug, Clone, Copy)]
pub struct Rooted {
    /// The root.
    pub root: usize,
    /// Whether it is a gather; otherwise bcast or scatter.
    pub to_root: bool,
    /// Whether all ranks get the same bytes (bcast); otherwise each has a part.
    pub whole: bool,
    /// Bytes of each rank, if all have the same number; else 0.
    pub bytes: usize,
    /// Who is to copy.
    pub direction: RootedDirection,
    /// Whether all ranks can be reached by address.
    pub by_address: AddressAccess,
    /// The last phase used so far.
    pub base: u32,
}

/// How the copying between the root and another rank is shared out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Actors {
    Others,
    Root,
    /// The bytes are cut into as many shares as there are ranks: the root copies one share, the
    /// other rank the rest.
    Both,
}

impl Rooted {
    fn actors(&self, slot: &OperationSlot<'_>) -> Actors {
        match (self.direction, self.to_root) {
            (RootedDirection::Pull, false) | (RootedDirection::Push, true) => Actors::Others,
            (RootedDirection::Pull, true) | (RootedDirection::Push, false) => Actors::Root,
            (RootedDirection::Both, _) => Actors::Both,
            // In gather and scatter, the root copies its own part meanwhile.
            (RootedDirection::Auto, _)
                if self.whole
                    && slot.group().has_cores()
                    && self.bytes / slot.size() >= SHARE_MIN =>
            {
                Actors::Both
            }
            (RootedDirection::Auto, _) => Actors::Others,
        }
    }

    /// The buffer of the root and the buffer of the others between which data moves.
    fn sides(&self) -> (BufferSide, BufferSide) {
        match self.to_root {
            true => (BufferSide::Receive, BufferSide::Send),
            false => (BufferSide::Send, BufferSide::Receive),
        }
    }

    /// The root's part in the operation, with its `buffer`, which the root lets others access as
    /// `offers` says. It copies its own part while the others copy theirs.
    ///
    /// # Errors
    /// When another rank has called something else or takes part with another amount.
    pub async fn at_root(
        &self,
        slot: &OperationSlot<'_>,
        offers: ExposureChoice,
        buffer: RootBuffer<'_>,
        copy_own: impl FnOnce() -> Result<()>,
    ) -> Result<DirectOutcome> {
        let (offered, done) = (self.base + 1, self.base + 2);
        let actors = self.actors(slot);
        let (root_side, _) = self.sides();
        // What others write must not be a packed copy.
        let to_read = match self.to_root {
            true => ExposureChoice::InPlace,
            false => offers,
        };
        let span = PartsSpan::of_root(buffer, slot.size(), to_read)?;
        let offer = match offers {
            ExposureChoice::Nothing => ExposedBuffer::NONE,
            _ => span.offer(slot, self.by_address),
        };
        if !self.whole {
            for member in after(slot.group()) {
                span.announce(member, slot.half(member, 0));
            }
        }
        describe(slot, root_side, &offer, span.bytes());
        slot.publish(offered);
        if offer.access() == BufferAccess::None {
            return Ok(DirectOutcome::not(offered));
        }
        let mut result = Ok(());
        if actors != Actors::Others {
            slot.all_reached(offered).await?;
            result = settle(slot, self.copy_at_root(slot, actors, buffer));
            // Also after an error: the others wait for this rank.
            slot.publish(done);
        }
        result = result.and(copy_own());
        slot.all_reached(done).await?;
        let differs = |member: usize| slot.bytes(member) != buffer.len(member);
        if actors == Actors::Others && after(slot.group()).any(differs) {
            // A member with another number of bytes may expect this rank to copy, and wait for it.
            slot.publish(done);
        }
        if self.to_root {
            let mut lengths = after(slot.group()).map(|member| (member, buffer.len(member)));
            result = result.and_then(|()| {
                lengths.try_for_each(|(member, bytes)| slot.expect_bytes(member, bytes))
            });
        }
        result?;
        if !slot.has_any_refused() {
            return Ok(DirectOutcome::Directly);
        }
        // Any of the others may lack what this rank could not copy.
        let misses = |member| slot.has_refused(slot.me()) || slot.has_refused(member);
        Ok(DirectOutcome::Not(CellFallback {
            base: done,
            among: Some((0..slot.size()).map(misses).collect()),
            operand: None,
        }))
    }

    /// The root's share of the copies. A rank whose number of bytes differs from `buffer` is left
    /// out.
    fn copy_at_root(
        &self,
        slot: &OperationSlot<'_>,
        actors: Actors,
        buffer: RootBuffer<'_>,
    ) -> Result<()> {
        let (_, other_side) = self.sides();
        for member in after(slot.group()) {
            let view = &buffer.view(member)?;
            if slot.bytes(member) != view.len() {
                if self.whole {
                    // It detects that itself.
                    continue;
                }
                return Err(slot.disagreement(member, view.len()));
            }
            let cut = actors.cut(slot, view.len());
            let rest = view.len() - cut;
            if rest == 0 || access(slot, member, other_side) == BufferAccess::None {
                continue;
            }
            let theirs = open(slot, member, other_side, view.len())?;
            match self.to_root {
                true => theirs.load(cut, view, cut, rest)?,
                false => theirs.store(cut, view, cut, rest)?,
            }
            match self.to_root {
                true => slot.loaded(member, rest),
                false => slot.stored(member, rest),
            }
        }
        Ok(())
    }

    /// A non-root rank's part in the operation, with the buffer `own`.
    ///
    /// # Errors
    /// As [`at_root`](Self::at_root); when the root has another number of bytes for this rank.
    pub async fn at_other(&self, slot: &OperationSlot<'_>, own: &View) -> Result<DirectOutcome> {
        let (offered, done) = (self.base + 1, self.base + 2);
        let (actors, root, bytes) = (self.actors(slot), self.root, own.len());
        let (root_side, other_side) = self.sides();
        let mut offer = ExposedBuffer::NONE;
        if actors != Actors::Others {
            if let Some((address, bytes)) = own.as_contiguous()
                && bytes > 0
            {
                offer = ExposedBuffer::of(slot, address, bytes, self.by_address);
            }
            describe(slot, other_side, &offer, bytes);
            slot.publish_for(offered, root);
        }
        slot.reached(root, offered).await?;
        if access(slot, root, root_side) == BufferAccess::None {
            return Ok(DirectOutcome::not(offered));
        }
        let cut = match offer.access() {
            BufferAccess::None => bytes,
            _ => actors.cut(slot, bytes),
        };
        let result = settle(slot, self.copy_at_other(slot, own, cut));
        // Also after an error: the root waits for this rank.
        slot.publish_for(done, root);
        if actors != Actors::Others {
            slot.reached(root, done).await?;
        }
        result?;
        let root_refused = actors != Actors::Others && slot.has_refused(root);
        match root_refused || slot.has_refused(slot.me()) {
            true => Ok(DirectOutcome::not(done)),
            false => Ok(DirectOutcome::Directly),
        }
    }

    /// A non-root rank's share of the copies: the first `cut` bytes of `own`.
    fn copy_at_other(&self, slot: &OperationSlot<'_>, own: &View, cut: usize) -> Result<()> {
        let (root, bytes, span) = (self.root, own.len(), span_of(slot, self.root));
        let (root_side, _) = self.sides();
        let at = match self.whole || cut == 0 {
            true => 0,
            false => PartsSpan::announced(slot.half(slot.me(), 0)),
        };
        // Even parts: the root announces the length of each.
        let is_even_scatter = self.bytes > 0 && !self.whole && !self.to_root;
        if is_even_scatter && slot.bytes(root) != bytes {
            return Err(slot.disagreement(root, bytes));
        }
        if cut > 0 {
            if span < at + bytes {
                return Err(slot.disagreement(root, bytes));
            }
            let theirs = open(slot, root, root_side, span)?;
            match self.to_root {
                true => theirs.store(at, own, 0, cut)?,
                false => theirs.load(at, own, 0, cut)?,
            }
            match self.to_root {
                true => slot.stored(root, cut),
                false => slot.loaded(root, cut),
            }
        }
        match self.whole && span > bytes {
            true => Err(slot.disagreement(root, bytes)),
            false => Ok(()),
        }
    }
}

impl Actors {
    /// Where the root's share of `bytes` bytes begins; it extends to the end.
    fn cut(self, slot: &OperationSlot<'_>, bytes: usize) -> usize {
        match self {
            Actors::Others => bytes,
            Actors::Root => 0,
            Actors::Both => (bytes - bytes / slot.size()) & !63,
        }
    }
}

/// Allgather; as [`allgather`](crate::intranode::cells::allgather). This rank lets
/// others access its part as `offers` says.
///
/// # Errors
/// When another rank has called something else or takes part with another amount.
pub async fn allgather(
    slot: &OperationSlot<'_>,
    send: Option<&View>,
    parts: &Parts,
    offers: ExposureChoice,
    AgreedTerms { by_address, base }: AgreedTerms,
) -> Result<DirectOutcome> {
    let mine = parts.view(slot.me())?;
    let own = send.unwrap_or(&mine);
    if own.len() != mine.len() {
        return Err(crate::intranode::cells::unlike(own.len(), mine.len()));
    }
    let offer = match own.is_empty() {
        // No rank reads it.
        true => ExposedBuffer::EMPTY,
        false => ExposedBuffer::of_message(slot, own, offers, by_address)?,
    };
    describe(slot, BufferSide::Send, &offer, own.len());
    slot.publish(base + 1);
    let mut to_myself = send.map(|send| OwnPart::new(send.clone(), mine.clone()));
    to_myself.iter_mut().for_each(OwnPart::copy_half);
    slot.all_reached(base + 1).await?;
    if access_to_all(slot, BufferSide::Send) == BufferAccess::None {
        return Ok(DirectOutcome::not(base + 1));
    }
    let pull = || {
        after(slot.group()).try_for_each(|member| {
            let bytes = parts.len(member);
            slot.expect_bytes(member, bytes)?;
            if bytes > 0 {
                let theirs = open(slot, member, BufferSide::Send, bytes)?;
                theirs.load(0, &parts.view(member)?, 0, bytes)?;
                slot.loaded(member, bytes);
            }
            Ok(())
        })
    };
    let pulled = settle(slot, pull());
    // Also after an error: the others wait for this rank.
    slot.publish(base + 2);
    to_myself.iter_mut().for_each(OwnPart::copy_rest);
    slot.all_reached(base + 2).await?;
    pulled?;
    Ok(copied_by_all(slot, base + 2))
}

/// The outcome, after phase `done`, of an operation in which all copy from all.
fn copied_by_all(slot: &OperationSlot<'_>, done: u32) -> DirectOutcome {
    match slot.has_any_refused() {
        true => DirectOutcome::not(done),
        false => DirectOutcome::Directly,
    }
}

/// All-to-all; as [`alltoall`](crate::intranode::cells::alltoall). This rank lets
/// others access its parts as `offers` says.
///
/// # Errors
/// When another rank has called something else.
pub async fn alltoall(
    slot: &OperationSlot<'_>,
    send: Option<&Parts>,
    receive: &Parts,
    offers: ExposureChoice,
    AgreedTerms { by_address, base }: AgreedTerms,
) -> Result<DirectOutcome> {
    let (me, out) = (slot.me(), send.unwrap_or(receive));
    let offered = ExposedParts::of(slot, out, offers, by_address)?;
    offered.announce(slot);
    slot.publish(base + 1);
    let mut to_myself = match send {
        Some(_) => Some(OwnPart::new(out.view(me)?, receive.view(me)?)),
        None => None,
    };
    to_myself.iter_mut().for_each(OwnPart::copy_half);
    slot.all_reached(base + 1).await?;
    if access_to_all(slot, BufferSide::Send) == BufferAccess::None {
        return Ok(DirectOutcome::not(base + 1));
    }
    // In place, data that others have yet to read must not be overwritten.
    let beside = match send {
        Some(_) => None,
        None => Some(Block::allocate(out.total())?),
    };
    let mut landed = Vec::new();
    let mut pull = || {
        let mut filled = 0;
        after(slot.group()).try_for_each(|member| {
            let bytes = receive.len(member);
            if bytes == 0 {
                return Ok(());
            }
            let part = ExposedPart::of(slot, member);
            if part.bytes < part.at + bytes {
                return Err(slot.disagreement(member, bytes));
            }
            let into = match &beside {
                None => receive.view(member)?,
                Some(beside) => {
                    let into = beside.offset(filled as isize);
                    let into = into.view(Shape::Contiguous { bytes });
                    landed.push((member, into.clone()));
                    filled += bytes;
                    into
                }
            };
            open_by(slot, member, part.words, part.bytes)?.load(part.at, &into, 0, bytes)?;
            slot.loaded(member, bytes);
            Ok(())
        })
    };
    let pulled = settle(slot, pull());
    // Also after an error: the others wait for this rank.
    slot.publish(base + 2);
    to_myself.iter_mut().for_each(OwnPart::copy_rest);
    slot.all_reached(base + 2).await?;
    pulled?;
    let copied = copied_by_all(slot, base + 2);
    if matches!(copied, DirectOutcome::Directly) {
        for (member, from) in landed {
            receive.view(member)?.copy_from(&from);
        }
    }
    Ok(copied)
}
