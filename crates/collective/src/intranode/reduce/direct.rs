//! Reductions by direct copy: each rank reduces its own share of the vector straight from its
//! peers' memory, in blocks that stay in the first-level cache, and stores the result to all ranks
//! that get it. Every operand is read once, and no byte is copied on the way.
//!
//! Only the rank that reduces a share reads or writes it, so working in place needs nothing more as
//! long as no copy is refused. If a copy is refused, all start again through cells. So if any rank
//! works in place, there is one more phase before any rank stores to others: by then all have
//! opened the others' vectors, and loads and stores can no longer be refused; where the kernel
//! copies, a rank that works in place has kept a copy of its operand. Operands are combined in rank
//! order, as through cells.

use crate::intranode::protocol::shared_slot::SharedSlot;
use mica_channel::direct::PeerBuffer;
use mica_memory::{Block, Region, Shape, View};

use super::cells::Operands;
use super::operands::share;
use crate::intranode::direct::exposed::{
    AddressAccess, BufferAccess, BufferSide, CellFallback, DirectOutcome, ExposedBuffer,
    ResultPlace, access_to, access_to_all, any_in_place, describe_operands, open,
};
use crate::intranode::protocol::slot::OperationSlot;
use crate::place::Elements;
use crate::reduction::ScanKind;
use mica_objects::constants as c;
use mica_objects::error::{Error, Result};

/// Bytes reduced at a time where peers are read by loads: the result stays in a first-level cache
/// until it is stored to all.
const BLOCK: usize = 16 << 10;

/// The same where the kernel copies: one system call for each block and peer.
const BLOCK_BY_ADDRESS: usize = 64 << 10;

/// What all ranks know alike about an operation.
#[derive(Debug, Clone, Copy)]
pub struct AgreedTerms {
    /// Whether all ranks can be reached by address.
    pub by_address: AddressAccess,
    /// The last phase used so far.
    pub base: u32,
}

/// The vectors of all ranks, as this rank accesses them.
struct Vectors {
    /// Operands by member; `None`: this rank's own.
    sources: Vec<Option<PeerBuffer>>,
    /// Copies of blocks that cannot be read in place, one for each rank.
    copies: Option<Region>,
    /// Bytes of a block.
    block: usize,
    own: Region,
}

impl Vectors {
    /// Opens the operands, of which this rank's own is at `own`; each has `bytes` bytes.
    fn open(slot: &OperationSlot<'_>, own: Region, bytes: usize, stride: usize) -> Result<Vectors> {
        let me = slot.me();
        let sources = (0..slot.size())
            .map(|member| match member == me {
                true => Ok(None),
                false => open(slot, member, BufferSide::Send, bytes).map(Some),
            })
            .collect::<Result<Vec<_>>>()?;
        let by_address = sources.iter().flatten().any(|source| !source.is_window());
        let block = if by_address { BLOCK_BY_ADDRESS } else { BLOCK };
        let block = (block / stride).max(1) * stride;
        let copies = match by_address {
            true => Some(Block::allocate(slot.size() * block)?),
            false => None,
        };
        Ok(Vectors { sources, copies, block, own })
    }

    /// `bytes` bytes of a member's operand at `position`, for reading.
    fn operand(&self, member: usize, position: usize, bytes: usize) -> Result<Region> {
        let Some(source) = &self.sources[member] else {
            return Ok(self.own.offset(position as isize));
        };
        if let Some(region) = source.region(position, bytes) {
            return Ok(region);
        }
        let copies = self.copies.as_ref().expect("made where a source is no window");
        let copy = copies.offset((member * self.block) as isize);
        source.load(position, &plain(&copy, bytes), 0, bytes)?;
        Ok(copy)
    }
}

fn plain(region: &Region, bytes: usize) -> View {
    region.clone().view(Shape::Contiguous { bytes })
}

/// The blocks, of at most `block` bytes, of a range of bytes: start and length.
fn blocks(range: std::ops::Range<usize>, block: usize) -> impl Iterator<Item = (usize, usize)> {
    let end = range.end;
    range.step_by(block).map(move |at| (at, block.min(end - at)))
}

/// What is known about an operation once all have described their vectors.
struct VectorAccess {
    /// The last phase used so far.
    base: u32,
    /// Whether any member's result goes where its operand is.
    in_place: bool,
    /// Whether all members still have their operands after results were stored.
    is_repeatable: bool,
    /// A copy of this rank's operand, if it may be overwritten while copies can still be refused.
    kept: Option<Elements>,
}

/// Describes this rank's vectors, and waits for the descriptions of the others. `None` if not all
/// can be accessed. `result`: where this rank's result goes; `targets`: the members that get a
/// result.
async fn meet(
    slot: &OperationSlot<'_>,
    offers: &(ExposedBuffer, ExposedBuffer),
    operands: &Operands<'_>,
    (result, targets): (Option<&Elements>, std::ops::Range<usize>),
    terms: AgreedTerms,
) -> Result<Option<VectorAccess>> {
    let bytes = operands.bytes();
    let mine = match result {
        Some(result) if result.same_place(operands.own) => ResultPlace::Operand,
        _ => ResultPlace::Apart,
    };
    describe_operands(slot, &offers.0, &offers.1, bytes, mine);
    let base = terms.base + 1;
    slot.publish(base);
    slot.all_reached(base).await?;
    slot.expect_bytes_of_all(bytes)?;
    let read = access_to_all(slot, BufferSide::Send);
    let written = match targets.is_empty() {
        true => BufferAccess::Window,
        false => access_to(slot, BufferSide::Receive, targets),
    };
    let access = read.min(written);
    if access == BufferAccess::None {
        return Ok(None);
    }
    let kept = match mine == ResultPlace::Operand && access == BufferAccess::ByAddress {
        true => {
            let kept = Block::allocate(bytes)?;
            plain(&kept, bytes).copy_from(&plain(&operands.own.region(0), bytes));
            Some(Elements::new(kept, &operands.reduction.datatype))
        }
        false => None,
    };
    let in_place = any_in_place(slot);
    let is_repeatable = !in_place || access == BufferAccess::ByAddress;
    Ok(Some(VectorAccess { base, in_place, is_repeatable, kept }))
}

impl VectorAccess {
    /// Before any rank stores to others: if any rank works in place, all wait here until all have
    /// `opened` what they need. False if one could not, and the operation must go through cells
    /// after this phase.
    async fn may_store<T>(&mut self, slot: &OperationSlot<'_>, opened: &Result<T>) -> Result<bool> {
        if !self.in_place {
            return Ok(true);
        }
        self.base += 1;
        if opened.is_err() {
            slot.refuse();
        }
        slot.publish(self.base);
        slot.all_reached(self.base).await?;
        Ok(!slot.has_any_refused())
    }
}

/// This rank is done with the others' vectors; waits until the others are done with its own. If one
/// could not do its share, which is part of every rank's result, all go through cells, where it
/// meets its error again or does not.
///
/// # Errors
/// That of this rank, or of another, if operands are lost by then.
async fn part(
    slot: &OperationSlot<'_>,
    met: VectorAccess,
    outcome: Result<()>,
) -> Result<DirectOutcome> {
    let base = met.base + 1;
    if outcome.is_err() {
        slot.refuse();
    }
    slot.publish(base);
    slot.all_reached(base).await?;
    match slot.has_any_refused() {
        false => Ok(DirectOutcome::Directly),
        true if met.is_repeatable => {
            Ok(DirectOutcome::Not(CellFallback { base, among: None, operand: met.kept }))
        }
        true => {
            outcome?;
            let detail = "another rank could not do its share of the reduction";
            Err(Error::other(c::ERR_OTHER, detail))
        }
    }
}

/// Allreduce, or reduce to `root`; as [`reduce`](super::cells::reduce).
///
/// # Errors
/// When another rank has called something else or takes part with another amount.
pub async fn reduce(
    slot: &OperationSlot<'_>,
    operands: Operands<'_>,
    result: Option<&Elements>,
    root: Option<usize>,
    terms: AgreedTerms,
) -> Result<DirectOutcome> {
    let (me, size, bytes) = (slot.me(), slot.size(), operands.bytes());
    let own = operands.own.region(0);
    let mine = result.filter(|_| root.is_none_or(|root| root == me));
    let source = ExposedBuffer::of(slot, own.address(), bytes, terms.by_address);
    let offers = match mine {
        Some(result) => {
            let target = result.region(0).address();
            (source, ExposedBuffer::of(slot, target, bytes, terms.by_address))
        }
        None => (source, ExposedBuffer::NONE),
    };
    let targets = || root.map_or(0..size, |root| root..root + 1);
    let Some(mut met) = meet(slot, &offers, &operands, (mine, targets()), terms).await? else {
        return Ok(DirectOutcome::not(terms.base + 1));
    };
    let open_all = || -> Result<_> {
        let vectors = Vectors::open(slot, own.clone(), bytes, operands.stride)?;
        let others = targets()
            .filter(|&member| member != me)
            .map(|member| Ok((member, open(slot, member, BufferSide::Receive, bytes)?)))
            .collect::<Result<Vec<_>>>()?;
        // In place, the result must not overwrite the operand that is still to be read; a rank
        // without a result buffer needs memory for it.
        let beside = match mine {
            Some(result) if !result.same_place(operands.own) => None,
            _ => Some(Block::allocate(vectors.block)?),
        };
        Ok((vectors, others, beside))
    };
    let opened = open_all();
    if !met.may_store(slot, &opened).await? {
        return Ok(DirectOutcome::not(met.base));
    }
    let work = || -> Result<()> {
        let (vectors, others, beside) = opened?;
        let range = share(operands.reduction.count, me, size);
        let range = range.start * operands.stride..range.end * operands.stride;
        for (at, len) in blocks(range, vectors.block) {
            let target = match (&beside, mine) {
                (Some(beside), _) => beside.clone(),
                (None, Some(result)) => result.region(0).offset(at as isize),
                (None, None) => unreachable!("without a result there is memory beside"),
            };
            let count = len / operands.stride;
            operands.reduction.fold(size, count, &target, |member| {
                slot.loaded(member, len);
                vectors.operand(member, at, len)
            })?;
            let reduced = plain(&target, len);
            if let (Some(_), Some(result)) = (&beside, mine) {
                plain(&result.region(0).offset(at as isize), len).copy_from(&reduced);
            }
            for (member, other) in &others {
                other.store(at, &reduced, 0, len)?;
                slot.stored(*member, len);
            }
        }
        Ok(())
    };
    let outcome = work();
    part(slot, met, outcome).await
}

/// Reduce-scatter; as [`reduce_scatter`](super::cells::reduce_scatter).
///
/// # Errors
/// As [`reduce`].
pub async fn reduce_scatter(
    slot: &OperationSlot<'_>,
    operands: Operands<'_>,
    counts: &[usize],
    result: &Elements,
    terms: AgreedTerms,
) -> Result<DirectOutcome> {
    let (me, size, bytes, stride) = (slot.me(), slot.size(), operands.bytes(), operands.stride);
    let own = operands.own.region(0);
    let source = ExposedBuffer::of(slot, own.address(), bytes, terms.by_address);
    let offers = (source, ExposedBuffer::NONE);
    // No rank stores to others, and in place nothing is overwritten before all are done.
    let Some(met) = meet(slot, &offers, &operands, (None, 0..0), terms).await? else {
        return Ok(DirectOutcome::not(terms.base + 1));
    };
    let first: usize = counts[..me].iter().sum();
    let mine = counts[me] * stride;
    // In place, the result lies where others have yet to read.
    let beside = match result.same_place(operands.own) {
        true => Some(Block::allocate(mine)?),
        false => None,
    };
    let target = beside.clone().unwrap_or_else(|| result.region(0));
    let work = || -> Result<()> {
        let vectors = Vectors::open(slot, own.clone(), bytes, stride)?;
        let range = first * stride..first * stride + mine;
        for (at, len) in blocks(range, vectors.block) {
            let to = target.offset((at - first * stride) as isize);
            operands.reduction.fold(size, len / stride, &to, |member| {
                slot.loaded(member, len);
                vectors.operand(member, at, len)
            })?;
        }
        Ok(())
    };
    let outcome = work();
    let done = part(slot, met, outcome).await?;
    if let (Some(beside), DirectOutcome::Directly) = (beside, &done) {
        plain(&result.region(0), mine).copy_from(&plain(&beside, mine));
    }
    Ok(done)
}

/// Scan; as [`scan`](super::cells::scan). Each rank computes its share of the result of
/// every rank.
///
/// # Errors
/// As [`reduce`].
pub async fn scan(
    slot: &OperationSlot<'_>,
    operands: Operands<'_>,
    result: &Elements,
    kind: ScanKind,
    terms: AgreedTerms,
) -> Result<DirectOutcome> {
    let (me, size, bytes, stride) = (slot.me(), slot.size(), operands.bytes(), operands.stride);
    let own = operands.own.region(0);
    let to = result.region(0);
    let offers = (
        ExposedBuffer::of(slot, own.address(), bytes, terms.by_address),
        ExposedBuffer::of(slot, to.address(), bytes, terms.by_address),
    );
    let Some(mut met) = meet(slot, &offers, &operands, (Some(result), 0..size), terms).await?
    else {
        return Ok(DirectOutcome::not(terms.base + 1));
    };
    let reduction = operands.reduction;
    let open_all = || -> Result<_> {
        let vectors = Vectors::open(slot, own.clone(), bytes, stride)?;
        let targets = (0..size)
            .map(|member| match member == me {
                true => Ok(None),
                false => open(slot, member, BufferSide::Receive, bytes).map(Some),
            })
            .collect::<Result<Vec<_>>>()?;
        // The running result, and memory for the next operand.
        let running = [Block::allocate(vectors.block)?, Block::allocate(vectors.block)?];
        Ok((vectors, targets, running))
    };
    let opened = open_all();
    if !met.may_store(slot, &opened).await? {
        return Ok(DirectOutcome::not(met.base));
    }
    let work = || -> Result<()> {
        let (vectors, targets, [mut so_far, mut next]) = opened?;
        let store = |member: usize, at: usize, from: &View| -> Result<()> {
            match &targets[member] {
                None => drop(plain(&to.offset(at as isize), from.len()).copy_from(from)),
                Some(target) => target.store(at, from, 0, from.len())?,
            }
            slot.stored(member, from.len());
            Ok(())
        };
        let range = share(reduction.count, me, size);
        for (at, len) in blocks(range.start * stride..range.end * stride, vectors.block) {
            for member in 0..size {
                let operand = vectors.operand(member, at, len)?;
                slot.loaded(member, len);
                plain(&next, len).copy_from(&plain(&operand, len));
                if member > 0 {
                    if kind == ScanKind::Exclusive {
                        store(member, at, &plain(&so_far, len))?;
                    }
                    let count = len / stride;
                    reduction.op.apply(&so_far, &next, count, &reduction.datatype)?;
                }
                std::mem::swap(&mut so_far, &mut next);
                if kind == ScanKind::Inclusive {
                    store(member, at, &plain(&so_far, len))?;
                }
            }
        }
        Ok(())
    };
    let outcome = work();
    part(slot, met, outcome).await
}
