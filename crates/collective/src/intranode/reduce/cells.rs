//! Reductions through cells. Operands lie in the cells as in a buffer, one extent apart.
//!
//! Short vectors are reduced by each rank that gets the result, for itself: one step. Long ones go
//! in pieces of half a cell. Each rank reduces its share of a piece and leaves the result in its
//! own cell for the others: two steps for each piece, and every operand is read once. All ranks
//! reduce in rank order ([`Reduction::fold`]), so all get the same bits, in every run.
//!
//! What has one step a piece is written once, as the algorithms of
//! [`cells`](crate::intranode::cells) are: for elements of any datatype and operator, and for the
//! fast path's.

use mica_memory::{Block, RegionRef};
use mica_objects::op::kernel::Kernel;

use super::operands::{share, stride};
use crate::intranode::cells::{in_line, most_pieces, phase, place};
use crate::intranode::protocol::group::NodeGroup;
use crate::intranode::protocol::shared_slot::SharedSlot;
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

    /// Whether each rank reduces for itself.
    fn is_short(&self, slot: &OperationSlot<'_>) -> bool {
        self.bytes() <= alone_max(slot.size()).min(slot.group().cell_bytes())
    }
}

/// What is reduced at once: elements of the first members.
#[derive(Debug, Clone, Copy)]
pub struct ReducedElements {
    /// This rank's number.
    pub me: usize,
    /// Members whose operands are reduced.
    pub members: usize,
    /// Where the elements start in this rank's operand.
    pub own: usize,
    /// Where they start in the target.
    pub first: usize,
    /// How many they are.
    pub count: usize,
}

/// This rank's operand of a reduction with one step a piece.
pub trait CellOperand {
    /// Where results go.
    type Target;

    /// Elements of the whole vector.
    fn count(&self) -> usize;

    /// Bytes from one element to the next.
    fn stride(&self) -> usize;

    /// Copies `count` elements from element `first` on to shared memory.
    ///
    /// # Errors
    /// When the elements extend past the largest address.
    fn bring(&self, first: usize, count: usize, to: RegionRef<'_>) -> Result<()>;

    /// Whether the operand lies in place.
    fn lies_in(&self, target: &Self::Target) -> bool;

    /// Reduces elements to the `target`. `place` is where a member's lie in shared memory; those of
    /// this rank are read from its operand, unless the result goes there: what this rank has
    /// published is in the others' caches by now.
    ///
    /// # Errors
    /// Those of the operator.
    fn fold<'t>(
        &self,
        elements: ReducedElements,
        target: &Self::Target,
        place: impl Fn(usize) -> RegionRef<'t>,
    ) -> Result<()>;
}

impl CellOperand for Operands<'_> {
    type Target = Elements;

    fn count(&self) -> usize {
        self.reduction.count
    }

    fn stride(&self) -> usize {
        self.stride
    }

    fn bring(&self, first: usize, count: usize, to: RegionRef<'_>) -> Result<()> {
        match count {
            0 => Ok(()),
            _ => self.reduction.copy_elements(&self.own.region(first), &to.to_region(), count),
        }
    }

    fn lies_in(&self, target: &Elements) -> bool {
        target.same_place(self.own)
    }

    fn fold<'t>(
        &self,
        ReducedElements { me, members, own, first, count }: ReducedElements,
        target: &Elements,
        place: impl Fn(usize) -> RegionRef<'t>,
    ) -> Result<()> {
        let target = target.region(first);
        self.reduction.fold(members, count, &target, |member| {
            let own = || Some(self.own.region(own)).filter(|own| own.address() != target.address());
            let mine = if member == me { own() } else { None };
            Ok(mine.unwrap_or_else(|| place(member).to_region()))
        })
    }
}

/// Operands without gaps and a predefined operator, not in place: the fast path's.
#[derive(Debug, Clone, Copy)]
pub struct DenseOperand<'a> {
    /// This rank's operand.
    pub own: RegionRef<'a>,
    /// Elements.
    pub count: usize,
    /// Bytes of one.
    pub element: usize,
    /// The operator.
    pub kernel: Kernel,
}

impl<'a> CellOperand for DenseOperand<'a> {
    type Target = RegionRef<'a>;

    #[inline(always)]
    fn count(&self) -> usize {
        self.count
    }

    #[inline(always)]
    fn stride(&self) -> usize {
        self.element
    }

    #[inline(always)]
    fn bring(&self, first: usize, count: usize, to: RegionRef<'_>) -> Result<()> {
        self.own.at(first * self.element).copy_to(to, count * self.element);
        Ok(())
    }

    #[inline(always)]
    fn lies_in(&self, _: &RegionRef<'a>) -> bool {
        false
    }

    #[inline(always)]
    fn fold<'t>(
        &self,
        ReducedElements { me, members, own, first, count }: ReducedElements,
        target: &RegionRef<'a>,
        place: impl Fn(usize) -> RegionRef<'t>,
    ) -> Result<()> {
        let (target, bytes) = (target.at(first * self.element), count * self.element);
        for member in (0..members).rev() {
            let memory = match member == me {
                true => self.own.at(own * self.element),
                false => place(member),
            };
            match member == members - 1 {
                true => memory.copy_to(target, bytes),
                false => memory.combine_into(target, bytes, self.kernel),
            }
        }
        Ok(())
    }
}

/// Puts the whole operand where the others read it: in the line or in the cell.
#[inline(always)]
fn bring_all(slot: &impl SharedSlot, operand: &impl CellOperand, base: u32) -> Result<()> {
    let (me, bytes) = (slot.me(), operand.count() * operand.stride());
    if !in_line(bytes, base) {
        slot.prepare(me)?;
    }
    operand.bring(0, operand.count(), place(slot, me, (bytes, base), 0))?;
    slot.stored(me, bytes);
    Ok(())
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
        return match (root, slot.group().tree()) {
            (Some(root), _) => reduce_short::<true, _>(slot, &operands, wants, root, base).await,
            (None, None) => reduce_short::<false, _>(slot, &operands, wants, 0, base).await,
            (None, Some(tree)) => {
                let result = result.expect("an allreduce has a receive buffer everywhere");
                up_and_down(slot, operands, result, tree, base).await
            }
        };
    }
    let most = (slot.half_bytes() / operands.stride).max(1);
    // A rank without a result buffer reduces its share to temporary memory.
    let beside = match wants {
        Some(_) => None,
        None => {
            let memory = Block::allocate(most.div_ceil(size) * operands.stride)?;
            Some(Elements::new(memory, &reduction.datatype))
        }
    };
    for k in 0..reduction.count.div_ceil(most) {
        let first = k * most;
        let count = most.min(reduction.count - first);
        CellOperand::bring(&operands, first, count, slot.half(me, k))?;
        slot.stored(me, count * operands.stride);
        let (brought, reduced) = (phase(base, 2 * k + 1), phase(base, 2 * k + 2));
        slot.publish(brought);
        slot.all_reached(brought).await?;
        if k == 0 {
            slot.expect_bytes_of_all(operands.bytes())?;
        }
        let mine = share(count, me, size);
        let own = first + mine.start;
        let (target, at) = match (wants, &beside) {
            (Some(result), _) => (result, own),
            (None, Some(beside)) => (beside, 0),
            (None, None) => unreachable!("one of the two is there"),
        };
        let cell = |member: usize, element: usize| {
            slot.half(member, k).at(element * operands.stride).to_region()
        };
        let elements = ReducedElements { me, members: size, own, first: at, count: mine.len() };
        operands.fold(elements, target, |member| {
            slot.loaded(member, mine.len() * operands.stride);
            slot.half(member, k).at(mine.start * operands.stride)
        })?;
        // Only this rank reads its share of its own cell.
        if !mine.is_empty() {
            let to = reduction.elements(cell(me, mine.start), mine.len())?;
            to.copy_from(&target.view(at, mine.len())?);
            slot.stored(me, mine.len() * operands.stride);
        }
        slot.publish(reduced);
        if let Some(result) = wants {
            for member in crate::intranode::cells::after(slot.group()) {
                let theirs = share(count, member, size);
                slot.reached(member, reduced).await?;
                if !theirs.is_empty() {
                    let from = reduction.elements(cell(member, theirs.start), theirs.len())?;
                    result.view(first + theirs.start, theirs.len())?.copy_from(&from);
                    slot.loaded(member, theirs.len() * operands.stride);
                }
            }
        }
    }
    Ok(())
}

/// [`reduce`] of a vector that fits a cell, to `root` if it is `ROOTED`; the rank has a `result` if
/// it wants one.
// flag: makes two functions of it, each with one caller on the fast path, which inlines it.
pub async fn reduce_short<const ROOTED: bool, O: CellOperand>(
    slot: &impl SharedSlot,
    operand: &O,
    result: Option<&O::Target>,
    root: usize,
    base: u32,
) -> Result<()> {
    let (me, size, count) = (slot.me(), slot.size(), operand.count());
    let bytes = count * operand.stride();
    let is_root = ROOTED && root == me;
    // Only the root reads its own operand, so it is published only if the result overwrites it.
    if !is_root || result.is_some_and(|result| operand.lies_in(result)) {
        bring_all(slot, operand, base)?;
    }
    match is_root {
        true => slot.announce(),
        false if ROOTED => slot.publish_for(base + 1, root),
        false => slot.publish(base + 1),
    }
    if let Some(result) = result {
        slot.all_reached(base + 1).await?;
        slot.expect_bytes_of_all(bytes)?;
        let elements = ReducedElements { me, members: size, own: 0, first: 0, count };
        operand.fold(elements, result, |member| {
            slot.loaded(member, bytes);
            place(slot, member, (bytes, base), 0)
        })?;
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
    bring_all(slot, &operands, base)?;
    let place = |member: usize| place(slot, member, (operands.bytes(), base), 0).to_region();
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
    let (reduction, mine) = (operands.reduction, counts[slot.me()]);
    let scatter =
        |target| reduce_scatter_beside(slot, &operands, |member| counts[member], target, base);
    if !operands.lies_in(result) {
        return scatter(result).await;
    }
    // A block would be overwritten while later pieces of it have yet to be copied to cells.
    let beside = reduction.temporary(mine)?;
    scatter(&beside).await?;
    if mine > 0 {
        result.view(0, mine)?.copy_from(&beside.view(0, mine)?);
    }
    Ok(())
}

/// Elements of a piece of each member's block.
#[inline(always)]
pub fn scattered_piece(group: &NodeGroup, operand: &impl CellOperand) -> usize {
    (group.half_bytes() / operand.stride() / group.size()).max(1)
}

/// [`reduce_scatter`], not in place; `count_of` a member are the elements of its block.
pub async fn reduce_scatter_beside<S: SharedSlot, O: CellOperand>(
    slot: &S,
    operand: &O,
    count_of: impl Fn(usize) -> usize,
    result: &O::Target,
    base: u32,
) -> Result<()> {
    let (me, size, stride) = (slot.me(), slot.size(), operand.stride());
    let most = scattered_piece(slot.group(), operand);
    slot.prepare(me)?;
    for k in 0..most_pieces(slot, &count_of, most) {
        let (mut block, mut own) = (0, 0);
        for member in 0..size {
            let count = count_of(member);
            let (first, part) = S::part(k, count, most);
            if member == me {
                own = block;
            } else {
                operand.bring(block + first, part, slot.half(me, k).at(member * most * stride))?;
                slot.stored(me, part * stride);
            }
            block += count;
        }
        slot.publish(phase(base, k + 1));
        slot.all_reached(phase(base, k + 1)).await?;
        if k == 0 {
            slot.expect_bytes_of_all(operand.count() * stride)?;
        }
        let (first, part) = S::part(k, count_of(me), most);
        let elements = ReducedElements { me, members: size, own: own + first, first, count: part };
        operand.fold(elements, result, |member| {
            slot.loaded(member, part * stride);
            slot.half(member, k).at(me * most * stride)
        })?;
    }
    Ok(())
}

/// Scan: `x0 op ... xi` goes to rank `i`'s `result`; exclusive: without `xi`, and rank 0's `result`
/// is left alone.
pub async fn scan<S: SharedSlot, O: CellOperand>(
    slot: &S,
    operand: &O,
    result: &O::Target,
    kind: ScanKind,
    base: u32,
) -> Result<()> {
    let (me, stride, total) = (slot.me(), operand.stride(), operand.count());
    let before = me + usize::from(kind == ScanKind::Inclusive);
    let bytes = total * stride;
    if !in_line(bytes, base) {
        slot.prepare(me)?;
    }
    let most = if S::ONE_PIECE { total } else { (slot.group().half_bytes() / stride).max(1) };
    let mut k = 0;
    while S::ONE_PIECE || k < total.div_ceil(most) {
        if k >= 2 {
            // A member that has published piece k - 1 has read all of round k - 2.
            slot.all_reached(phase(base, k)).await?;
        }
        let (first, count) = S::part(k, total, most);
        operand.bring(first, count, place(slot, me, (bytes, base), k))?;
        slot.stored(me, count * stride);
        slot.publish(phase(base, k + 1));
        for member in 0..me {
            slot.reached(member, phase(base, k + 1)).await?;
            slot.expect_bytes(member, bytes)?;
        }
        let elements = ReducedElements { me, members: before, own: first, first, count };
        operand.fold(elements, result, |member| {
            slot.loaded(member, count * stride);
            place(slot, member, (bytes, base), k)
        })?;
        k += 1;
        if S::ONE_PIECE {
            break;
        }
    }
    Ok(())
}
