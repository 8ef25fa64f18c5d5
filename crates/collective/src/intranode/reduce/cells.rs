//! Reductions through cells. Operands lie in the cells as in a buffer, one extent apart.
//!
//! Short vectors are reduced by each rank that gets the result, for itself: one step. Long ones go
//! in pieces of half a cell. Each rank reduces its share of a piece and leaves the result in its
//! own cell for the others: two steps for each piece, and every operand is read once. All ranks
//! reduce in rank order ([`Reduction::fold`]), so all get the same bits, in every run.

use mica_memory::{Block, Region, RegionRef};
use mica_node::area::INLINE;

use super::operands::{share, stride};
use crate::intranode::cells::{phase, pieces};
use crate::intranode::protocol::slot::OperationSlot;
use crate::place::Elements;
use crate::reduction::Reduction;
use crate::reduction::ScanKind;
use mica_objects::constants as c;
use mica_objects::error::{Error, Result};

/// Vectors up to this length, in bytes, are reduced by each rank for itself.
const ALONE_MAX: usize = 2048;

/// The same between two ranks, where it costs no more work.
const ALONE_MAX_OF_TWO: usize = 8192;

/// Bytes up to which each of `ranks` ranks reduces for itself.
#[inline]
pub fn alone_max(ranks: usize) -> usize {
    match ranks {
        2 => ALONE_MAX_OF_TWO,
        _ => ALONE_MAX,
    }
}

/// What a reduction through cells works on.
#[derive(Debug, Clone, Copy)]
pub struct Operands<'a> {
    /// Operator, datatype and length.
    pub reduction: &'a Reduction,
    /// Bytes from one element to the next.
    pub stride: usize,
    /// This rank's operand.
    pub own: &'a Elements,
}

impl<'a> Operands<'a> {
    /// Operands of a datatype whose elements have gaps only within their own extents.
    ///
    /// # Errors
    /// For other datatypes, which are never passed here.
    pub fn spaced(reduction: &'a Reduction, own: &'a Elements) -> Result<Operands<'a>> {
        let stride = stride(reduction).ok_or_else(|| {
            let detail = "elements that reach beyond their extent cannot lie in cells";
            Error::other(c::ERR_INTERN, detail)
        })?;
        Ok(Operands { reduction, stride, own })
    }

    /// Operands of a datatype without gaps; `None` for other datatypes.
    pub fn dense(reduction: &'a Reduction, own: &'a Elements) -> Option<Operands<'a>> {
        let stride = stride(reduction)?;
        let is_dense = reduction.datatype.size() as usize == stride;
        is_dense.then_some(Operands { reduction, stride, own })
    }

    pub(in crate::intranode) fn bytes(&self) -> usize {
        self.reduction.count * self.stride
    }

    /// Copies `count` elements of this rank's operand, from element `first` on, to `to`.
    fn bring(&self, first: usize, count: usize, to: &Region) -> Result<()> {
        match count {
            0 => Ok(()),
            _ => self.reduction.copy_elements(&self.own.region(first), to, count),
        }
    }

    /// The operand of `member` from element `first` on, which that member has put in `cell`, for a
    /// reduction to `result`. What this rank has published is in the others' caches by now, so it
    /// reads its own operand from the source buffer, unless the result goes there.
    fn of(
        &self,
        slot: &OperationSlot<'_>,
        member: usize,
        first: usize,
        cell: Region,
        result: &Region,
    ) -> Region {
        let own = self.own.region(first);
        match member == slot.me() && own.address() != result.address() {
            true => own,
            false => cell,
        }
    }

    fn offset(&self, region: &Region, element: usize) -> Region {
        region.offset((element * self.stride) as isize)
    }

    /// Whether each rank reduces for itself.
    fn is_short(&self, slot: &OperationSlot<'_>) -> bool {
        self.bytes() <= alone_max(slot.size()).min(slot.group().cell_bytes())
    }

    /// Puts the whole operand where the others read it: in the line or in the cell.
    fn bring_all(&self, slot: &OperationSlot<'_>, base: u32) -> Result<()> {
        slot.stored(slot.me(), self.bytes());
        let place = self.whole(slot, slot.me(), base);
        self.bring(0, self.reduction.count, &place.to_region())
    }

    /// Where a member's whole operand is.
    fn whole<'t>(&self, slot: &OperationSlot<'t>, member: usize, base: u32) -> RegionRef<'t> {
        match self.in_line(base) {
            true => slot.inline_region(member),
            false => slot.cell(member),
        }
    }

    fn in_line(&self, base: u32) -> bool {
        base == 0 && self.bytes() <= INLINE
    }

    /// Reduces the whole operands of the first `members` members to `result`.
    fn reduce_all(
        &self,
        slot: &OperationSlot<'_>,
        base: u32,
        members: usize,
        result: &Region,
    ) -> Result<()> {
        let (reduction, count) = (self.reduction, self.reduction.count);
        reduction.fold(members, count, result, |member| {
            slot.loaded(member, self.bytes());
            let place = self.whole(slot, member, base).to_region();
            Ok(self.of(slot, member, 0, place, result))
        })
    }
}

/// Allreduce: to the `result` of every rank. Reduce: to the root's; the others have none.
pub async fn reduce(
    slot: &OperationSlot<'_>,
    operands: Operands<'_>,
    result: Option<&Elements>,
    root: Option<usize>,
    base: u32,
) -> Result<()> {
    let (me, size, reduction) = (slot.me(), slot.size(), operands.reduction);
    let wants = result.filter(|_| root.is_none_or(|root| root == me));
    if operands.is_short(slot) {
        return reduce_short(slot, operands, wants, root, base).await;
    }
    let most = (slot.half_bytes() / operands.stride).max(1);
    // A rank without a result buffer reduces its share to temporary memory.
    let beside = match wants {
        Some(_) => None,
        None => Some(Block::allocate(most.div_ceil(size) * operands.stride)?),
    };
    for k in 0..pieces(reduction.count, most) {
        let first = k * most;
        let count = most.min(reduction.count - first);
        operands.bring(first, count, &slot.half(me, k))?;
        slot.stored(me, count * operands.stride);
        let (brought, reduced) = (phase(base, 2 * k + 1), phase(base, 2 * k + 2));
        slot.publish(brought);
        slot.all_reached(brought).await?;
        if k == 0 {
            slot.expect_bytes_of_all(operands.bytes())?;
        }
        let mine = share(count, me, size);
        let target = match (wants, &beside) {
            (Some(result), _) => result.region(first + mine.start),
            (None, Some(beside)) => beside.clone(),
            (None, None) => unreachable!("one of the two is there"),
        };
        let at = |member: usize, element: usize| operands.offset(&slot.half(member, k), element);
        reduction.fold(size, mine.len(), &target, |member| {
            slot.loaded(member, mine.len() * operands.stride);
            let cell = at(member, mine.start);
            Ok(operands.of(slot, member, first + mine.start, cell, &target))
        })?;
        // Only this rank reads its share of its own cell.
        if !mine.is_empty() {
            let to = reduction.elements(at(me, mine.start), mine.len())?;
            to.copy_from(&reduction.elements(target, mine.len())?);
            slot.stored(me, mine.len() * operands.stride);
        }
        slot.publish(reduced);
        if let Some(result) = wants {
            for member in crate::intranode::cells::after(slot.group()) {
                let theirs = share(count, member, size);
                slot.reached(member, reduced).await?;
                if !theirs.is_empty() {
                    let from = reduction.elements(at(member, theirs.start), theirs.len())?;
                    result.view(first + theirs.start, theirs.len())?.copy_from(&from);
                    slot.loaded(member, theirs.len() * operands.stride);
                }
            }
        }
    }
    Ok(())
}

/// [`reduce`] of a vector that fits a cell; the rank has a `result` if it wants one.
async fn reduce_short(
    slot: &OperationSlot<'_>,
    operands: Operands<'_>,
    result: Option<&Elements>,
    root: Option<usize>,
    base: u32,
) -> Result<()> {
    if let (Some(tree), None) = (slot.group().tree(), root) {
        let result = result.expect("an allreduce has a receive buffer everywhere");
        return up_and_down(slot, operands, result, tree, base).await;
    }
    let is_in_place = result.is_some_and(|result| result.same_place(operands.own));
    // Only the root reads its own operand, so it is published only if the result overwrites it.
    if root != Some(slot.me()) || is_in_place {
        operands.bring_all(slot, base)?;
    }
    match root {
        Some(root) if root != slot.me() => slot.publish_for(base + 1, root),
        Some(_) => {}
        None => slot.publish(base + 1),
    }
    if let Some(result) = result {
        slot.all_reached(base + 1).await?;
        slot.expect_bytes_of_all(operands.bytes())?;
        operands.reduce_all(slot, base, slot.size(), &result.region(0))?;
    }
    Ok(())
}

/// An allreduce of a short vector by many members: partial results go up the tree, the result goes
/// down.
async fn up_and_down(
    slot: &OperationSlot<'_>,
    operands: Operands<'_>,
    result: &Elements,
    tree: &crate::intranode::protocol::tree::MemberTree,
    base: u32,
) -> Result<()> {
    let (me, reduction) = (slot.me(), operands.reduction);
    let count = reduction.count;
    operands.bring_all(slot, base)?;
    let place = |member: usize| operands.whole(slot, member, base).to_region();
    let to = result.region(0);
    for &child in &tree.children {
        slot.reached(child, base + 1).await?;
        slot.expect_bytes(child, operands.bytes())?;
    }
    // Own operand first, then those of the children's subtrees: the order of ranks.
    reduction.fold(1 + tree.children.len(), count, &to, |i| {
        let member = if i == 0 { me } else { tree.children[i - 1] };
        slot.loaded(member, operands.bytes());
        Ok(place(member))
    })?;
    let mine = reduction.elements(place(me), count)?;
    let in_result = result.view(0, count)?;
    if let Some(parent) = tree.parent {
        mine.copy_from(&in_result);
        slot.publish_for(base + 1, parent);
        slot.reached(parent, base + 2).await?;
        in_result.copy_from(&reduction.elements(place(parent), count)?);
        slot.loaded(parent, operands.bytes());
    }
    if !tree.children.is_empty() {
        mine.copy_from(&in_result);
    }
    slot.publish_for_some(base + 2, tree.children.iter().copied());
    Ok(())
}

/// Reduce-scatter: block `j`, of `counts[j]` elements, of the reduced vector goes to rank `j`'s
/// `result`. In place, the operand is where the result goes.
pub async fn reduce_scatter(
    slot: &OperationSlot<'_>,
    operands: Operands<'_>,
    counts: &[usize],
    result: &Elements,
    base: u32,
) -> Result<()> {
    let (me, size, reduction) = (slot.me(), slot.size(), operands.reduction);
    let most = (slot.half_bytes() / operands.stride / size).max(1);
    let mine = counts[me];
    // In place, a block would be overwritten while later pieces of it have yet to be copied to
    // cells.
    let in_place = result.same_place(operands.own);
    let beside = match in_place {
        true => Some(reduction.temporary(mine)?),
        false => None,
    };
    let target = beside.as_ref().unwrap_or(result);
    let longest = counts.iter().copied().max().unwrap_or(0);
    let my_block: usize = counts[..me].iter().sum();
    for k in 0..pieces(longest, most) {
        let mut block = 0;
        for (member, &count) in counts.iter().enumerate() {
            let first = (k * most).min(count);
            let part = most.min(count - first);
            if member != me {
                let to = operands.offset(&slot.half(me, k), member * most);
                operands.bring(block + first, part, &to)?;
                slot.stored(me, part * operands.stride);
            }
            block += count;
        }
        slot.publish(phase(base, k + 1));
        slot.all_reached(phase(base, k + 1)).await?;
        if k == 0 {
            slot.expect_bytes_of_all(operands.bytes())?;
        }
        let first = (k * most).min(mine);
        let part = most.min(mine - first);
        reduction.fold(size, part, &target.region(first), |member| {
            slot.loaded(member, part * operands.stride);
            Ok(match member == me {
                true => operands.own.region(my_block + first),
                false => operands.offset(&slot.half(member, k), me * most),
            })
        })?;
    }
    if beside.is_some() && mine > 0 {
        result.view(0, mine)?.copy_from(&target.view(0, mine)?);
    }
    Ok(())
}

/// Scan: `x0 op ... xi` goes to rank `i`'s `result`; exclusive: without `xi`, and rank 0's `result`
/// is left alone.
pub async fn scan(
    slot: &OperationSlot<'_>,
    operands: Operands<'_>,
    result: &Elements,
    kind: ScanKind,
    base: u32,
) -> Result<()> {
    let (me, reduction) = (slot.me(), operands.reduction);
    let most = (slot.half_bytes() / operands.stride).max(1);
    let before = me + usize::from(kind == ScanKind::Inclusive);
    let room = |member, k| match operands.in_line(base) {
        true => slot.inline_region(member).to_region(),
        false => slot.half(member, k),
    };
    for k in 0..pieces(reduction.count, most) {
        let first = k * most;
        let count = most.min(reduction.count - first);
        if k >= 2 {
            // A member that has published piece k - 1 has read all of round k - 2.
            slot.all_reached(phase(base, k)).await?;
        }
        operands.bring(first, count, &room(me, k))?;
        slot.stored(me, count * operands.stride);
        slot.publish(phase(base, k + 1));
        for member in 0..me {
            slot.reached(member, phase(base, k + 1)).await?;
            slot.expect_bytes(member, operands.bytes())?;
        }
        let target = result.region(first);
        reduction.fold(before, count, &target, |member| {
            slot.loaded(member, count * operands.stride);
            Ok(operands.of(slot, member, first, room(member, k), &target))
        })?;
    }
    Ok(())
}
