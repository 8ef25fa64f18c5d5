//! A datatype compiled to loops over blocks of bytes (MPI 5.0, chapter 5).
//!
//! A [`TypeLayout`] describes a datatype without the types of its entries: where its bytes lie
//! relative to a buffer's address, in message order, and its bounds. Construction normalises:
//! adjacent blocks become one block, a vector without gaps a block, evenly spaced parts a loop, and
//! nested loops with matching strides one loop. So the innermost copy loop is as long and as
//! regular as the datatype allows, and a position in the packed bytes is found by division and
//! binary search, never by a walk.

mod arithmetic;
pub(super) mod copy;
pub(super) mod elements;
mod node;

pub use arithmetic::TypeLayoutError;
pub use node::LayoutGroup;

use arithmetic::{Result, span};
use node::{PlacedNode, Sequence};

/// A datatype's byte layout. Sizes and displacements are 64-bit, and all arithmetic is checked.
#[derive(Clone, Debug)]
pub struct TypeLayout {
    root: PlacedNode,
    lb: i64,
    ub: i64,
    /// Whether the bounds come from [`resized`](Self::resized), here or in a part: such bounds
    /// override computed ones.
    marked: bool,
    /// Alignment of the most demanding entry.
    align: u64,
}

/// The lowest lower bound and the highest upper bound of the parts of a layout.
#[derive(Default)]
struct Bounds {
    /// Of the parts whose bounds come from [`TypeLayout::resized`].
    given: Option<(i64, i64)>,
    /// Of the others.
    computed: Option<(i64, i64)>,
}

impl Bounds {
    /// Adds a part with these bounds.
    fn cover(&mut self, part: &TypeLayout, (lb, ub): (i64, i64)) {
        let so_far = match part.marked {
            true => &mut self.given,
            false => &mut self.computed,
        };
        let (low, high) = so_far.unwrap_or((lb, ub));
        *so_far = Some((low.min(lb), high.max(ub)));
    }
}

impl TypeLayout {
    /// `bytes` bytes at displacement 0, which C would align to `align` (a power of two).
    pub fn basic(bytes: u64, align: u64) -> Result<TypeLayout> {
        let ub = i64::try_from(bytes).map_err(|_| TypeLayoutError::overflow("size"))?;
        Ok(TypeLayout {
            root: PlacedNode::block(0, bytes),
            lb: 0,
            ub,
            marked: false,
            align: align.max(1),
        })
    }

    /// A layout without bytes.
    pub fn empty() -> TypeLayout {
        TypeLayout { root: PlacedNode::empty(), lb: 0, ub: 0, marked: false, align: 1 }
    }

    /// `count` elements, one extent apart (`MPI_Type_contiguous`).
    pub fn contiguous(&self, count: u64) -> Result<TypeLayout> {
        self.hvector(1, count, 0)
    }

    /// `count` blocks of `length` elements each, `stride` bytes apart (`MPI_Type_create_hvector`).
    pub fn hvector(&self, count: u64, length: u64, stride: i64) -> Result<TypeLayout> {
        if count == 0 || length == 0 || self.is_void() {
            return Ok(TypeLayout::empty());
        }
        let block = self.root.repeat(length, self.extent())?;
        let root = block.repeat(count, stride)?;
        let (lb, ub) = span(self.lb, self.ub, length, self.extent())?;
        let mut bounds = Bounds::default();
        bounds.cover(self, span(lb, ub, count, stride)?);
        TypeLayout::bounded(root, bounds, self.align)
    }

    /// Blocks of elements, each given as (number of elements, displacement in bytes)
    /// (`MPI_Type_create_hindexed`).
    pub fn hindexed(&self, blocks: impl IntoIterator<Item = (u64, i64)>) -> Result<TypeLayout> {
        TypeLayout::structure(blocks.into_iter().map(|(length, at)| (length, at, self)))
    }

    /// Blocks of different layouts, each given as (number of elements, displacement in bytes,
    /// layout) (`MPI_Type_create_struct`).
    pub fn structure<'a>(
        fields: impl IntoIterator<Item = (u64, i64, &'a TypeLayout)>,
    ) -> Result<TypeLayout> {
        let mut sequence = Sequence::default();
        let mut last: Option<(u64, &TypeLayout, PlacedNode)> = None;
        let mut bounds = Bounds::default();
        let mut align = 1;
        for (length, at, layout) in fields {
            if length == 0 || layout.is_void() {
                continue;
            }
            // Equal blocks share one node: that saves memory, and the sequence can detect that they
            // are equal.
            let block = match last.take() {
                Some((n, same, block)) if n == length && std::ptr::eq(same, layout) => block,
                _ => layout.root.repeat(length, layout.extent())?,
            };
            sequence.push(block.clone().moved(at)?)?;
            last = Some((length, layout, block));
            align = align.max(layout.align);
            let (lb, ub) = span(layout.lb, layout.ub, length, layout.extent())?;
            let moved =
                |bound: i64| bound.checked_add(at).ok_or(TypeLayoutError::overflow("extent"));
            bounds.cover(layout, (moved(lb)?, moved(ub)?));
        }
        TypeLayout::bounded(sequence.finish()?, bounds, align)
    }

    /// The same bytes with these bounds (`MPI_Type_create_resized`).
    pub fn resized(&self, lb: i64, extent: i64) -> Result<TypeLayout> {
        let ub = lb.checked_add(extent).ok_or(TypeLayoutError::overflow("upper bound"))?;
        Ok(TypeLayout { lb, ub, marked: true, ..self.clone() })
    }

    /// A layout with the explicit bounds of its parts. If no part has any, from the first byte to
    /// the end of the last part, the extent rounded up to the alignment.
    ///
    /// The rounding is the epsilon of MPI 5.0, 5.1.6. The standard takes it from the bytes alone;
    /// here a part ends at its own upper bound, its own epsilon included. The two differ only where
    /// parts lie at displacements that do not fit their alignment: then by the standard's formula a
    /// datatype can be shorter than its parts laid end to end. MPICH, Intel MPI and Open MPI avoid
    /// that, and programs that compute sizes from the parts' extents rely on it.
    fn bounded(root: PlacedNode, bounds: Bounds, align: u64) -> Result<TypeLayout> {
        const ERROR: TypeLayoutError = TypeLayoutError::overflow("extent");
        let (lb, ub) = match bounds.given {
            Some(bounds) => bounds,
            None => {
                let low = root.low();
                let high = bounds.computed.map_or(root.high(), |(_, ub)| ub.max(root.high()));
                let extent = high.checked_sub(low).ok_or(ERROR)? as u64;
                let extent = i64::try_from(extent.next_multiple_of(align)).map_err(|_| ERROR)?;
                (low, low.checked_add(extent).ok_or(ERROR)?)
            }
        };
        ub.checked_sub(lb).ok_or(ERROR)?;
        Ok(TypeLayout { root, lb, ub, marked: bounds.given.is_some(), align })
    }

    /// Whether the layout has neither bytes nor explicit bounds: such parts are ignored.
    fn is_void(&self) -> bool {
        self.root.size() == 0 && !self.marked
    }

    /// Number of bytes of one element.
    #[inline]
    pub fn size(&self) -> u64 {
        self.root.size()
    }

    /// Lower bound.
    #[inline]
    pub fn lb(&self) -> i64 {
        self.lb
    }

    /// Upper bound.
    #[inline]
    pub fn ub(&self) -> i64 {
        self.ub
    }

    /// Distance from one element to the next.
    #[inline]
    pub fn extent(&self) -> i64 {
        // Every constructor has checked that this does not overflow.
        self.ub.wrapping_sub(self.lb)
    }

    /// Displacement of the first byte, 0 if there is none.
    pub fn true_lb(&self) -> i64 {
        self.root.low()
    }

    /// One past the displacement of the last byte, 0 if there is none.
    pub fn true_ub(&self) -> i64 {
        self.root.high()
    }

    /// Alignment that C would give the most demanding entry.
    pub fn align(&self) -> u64 {
        self.align
    }

    /// Number of separate blocks of bytes in one element, at most.
    pub fn blocks(&self) -> u64 {
        self.root.node.blocks
    }

    /// Packed length of `count` elements.
    #[inline]
    pub fn packed(&self, count: usize) -> Result<usize> {
        (count as u64)
            .checked_mul(self.size())
            .filter(|&bytes| bytes <= isize::MAX as u64)
            .map(|bytes| bytes as usize)
            .ok_or(TypeLayoutError::overflow("packed size"))
    }

    /// First and one past the last displacement of a byte of `count` elements.
    pub fn true_span(&self, count: usize) -> Result<(i64, i64)> {
        if count == 0 || self.size() == 0 {
            return Ok((0, 0));
        }
        span(self.true_lb(), self.true_ub(), count as u64, self.extent())
    }

    /// Displacement of the first byte of `count` elements, if their bytes lie in memory in message
    /// order without gaps.
    #[inline]
    pub fn dense_at(&self, count: usize) -> Option<i64> {
        if count == 0 || self.size() == 0 {
            return Some(0);
        }
        let block = self.root.is_block() && (count == 1 || self.extent() as u64 == self.size());
        block.then_some(self.root.offset)
    }

    /// Whether each byte of a message of such elements lies behind the one before it: no overlaps,
    /// no steps back, neither within an element nor from one to the next. Takes as long as the
    /// layout's description is, however many blocks it describes.
    pub fn is_ascending(&self) -> bool {
        let span = self.true_ub() - self.true_lb();
        self.size() == 0 || (self.extent() >= span && self.root.node.is_ascending())
    }

    /// Whether no block of an element begins before the block before it.
    pub fn never_steps_back(&self) -> bool {
        self.root.node.never_steps_back()
    }

    /// Displacement of the byte at `position` in a message of such elements, which has bytes.
    /// `None` where displacements exceed 63 bits.
    pub fn displacement_of(&self, position: u64) -> Option<i64> {
        self.shift_of(position)?;
        Some(self.seek(position).0)
    }

    /// The bytes from `position` on in a message of such elements, which has bytes: those that
    /// follow without a gap, and equal blocks after them that the layout's description has as one
    /// loop. `None` where displacements exceed 63 bits.
    pub fn group_at(&self, position: u64) -> Option<LayoutGroup> {
        let shift = self.shift_of(position)? + self.root.offset;
        let within = position % self.size();
        let group = self.root.node.group_at(within);
        if self.root.is_block() && within == 0 {
            // Elements are blocks themselves.
            let count = (i64::MAX - shift - group.len as i64) / self.extent().max(1);
            return Some(LayoutGroup {
                at: shift,
                stride: self.extent(),
                count: count.max(1) as u64,
                ..group
            });
        }
        Some(LayoutGroup { at: shift + group.at, ..group })
    }

    /// How far the element of a position lies from the first.
    fn shift_of(&self, position: u64) -> Option<i64> {
        let element = i64::try_from(position / self.size()).ok()?;
        let shift = element.checked_mul(self.extent())?;
        shift.checked_add(self.true_ub())?;
        shift.checked_add(self.true_lb())?;
        Some(shift)
    }

    /// Displacement of the byte at `position` in a message of such elements, and a lower bound of
    /// the number of bytes that follow it without a gap.
    pub(super) fn seek(&self, position: u64) -> (i64, u64) {
        let size = self.size();
        let element = position / size;
        let (at, len) = self.root.node.seek(position % size);
        (element as i64 * self.extent() + self.root.offset + at, len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn basic(n: u64) -> TypeLayout {
        TypeLayout::basic(n, n).unwrap()
    }

    #[test]
    fn what_has_no_gaps_is_a_block() {
        let int = basic(4);
        assert_eq!(int.contiguous(10).unwrap().dense_at(7), Some(0));
        assert_eq!(int.hvector(5, 3, 12).unwrap().dense_at(2), Some(0));
        assert_eq!(int.hindexed([(1, 4), (2, 8), (0, 100), (1, 16)]).unwrap().dense_at(1), Some(4));
        assert_eq!(int.hindexed([(1, 8), (1, 4)]).unwrap().dense_at(1), None);
        assert_eq!(int.hvector(5, 3, 16).unwrap().dense_at(1), None);
    }

    #[test]
    fn regular_things_are_loops_and_nested_loops_merge() {
        let int = basic(4);
        let column = int.hvector(6, 1, 40).unwrap();
        let by_index = int.hindexed((0..6).map(|i| (1, i * 40))).unwrap();
        assert_eq!(format!("{:?}", column.root), format!("{:?}", by_index.root));
        let blocks = column.hindexed((0..5).map(|i| (2, i * 1000))).unwrap();
        let strided = column.hvector(5, 2, 1000).unwrap();
        assert_eq!(format!("{:?}", blocks.root), format!("{:?}", strided.root));
        let twice = column.hvector(2, 1, 240).unwrap();
        assert_eq!(
            format!("{:?}", twice.root),
            format!("{:?}", int.hvector(12, 1, 40).unwrap().root)
        );
    }

    #[test]
    fn bounds_follow_the_standard() {
        let (double, int) = (basic(8), basic(4));
        let pair = TypeLayout::structure([(1, 0, &double), (1, 8, &int)]).unwrap();
        assert_eq!((pair.size(), pair.extent(), pair.true_ub()), (12, 16, 12));
        let wide = int.resized(-4, 16).unwrap();
        assert_eq!((wide.lb(), wide.ub(), wide.true_lb(), wide.true_ub()), (-4, 12, 0, 4));
        // A resized part's bounds are sticky: the other parts are ignored.
        let sticky = TypeLayout::structure([(1, 0, &wide), (1, 20, &int)]).unwrap();
        assert_eq!((sticky.lb(), sticky.ub()), (-4, 12));
        let backwards = int.hvector(3, 2, -8).unwrap();
        assert_eq!((backwards.lb(), backwards.ub()), (-16, 8));
        assert_eq!(int.hvector(0, 4, 4).unwrap().extent(), 0);
    }

    #[test]
    fn a_layout_ends_where_its_last_part_ends() {
        let int = basic(4);
        // 2 x 25 + 16 = 66 bytes, rounded up to the alignment.
        let inner = int.hvector(3, 4, 25).unwrap();
        assert_eq!((inner.extent(), inner.true_ub()), (68, 66));
        // The second block begins at 273, which is not a multiple of the alignment, and its three
        // parts end at 273 + 204 = 477.
        let outer = inner.hvector(2, 3, 4 * 68 + 1).unwrap();
        assert_eq!((outer.extent(), outer.true_ub()), (480, 273 + 2 * 68 + 66));
        let indexed = inner.hindexed([(3, 0), (3, 273)]).unwrap();
        assert_eq!(indexed.extent(), 480);
        let fields = TypeLayout::structure([(3, 0, &inner), (3, 273, &inner)]).unwrap();
        assert_eq!(fields.extent(), 480);
        // Parts that fit their alignment need no more than their bytes do.
        assert_eq!(inner.contiguous(3).unwrap().extent(), 3 * 68);
        // Explicit bounds override all this.
        let cut = inner.resized(0, 60).unwrap();
        assert_eq!(cut.hvector(2, 1, 100).unwrap().extent(), 160);
    }

    #[test]
    fn ascending_layouts_have_no_byte_twice_and_none_before_another() {
        let int = basic(4);
        let yes = [
            int.clone(),
            int.hvector(6, 2, 40).unwrap(),
            int.hindexed([(1, 4), (2, 8), (1, 100)]).unwrap(),
            int.hvector(3, 1, 8).unwrap().hindexed([(1, 0), (2, 100)]).unwrap(),
            int.resized(0, 16).unwrap(),
            TypeLayout::empty(),
        ];
        let no = [
            int.hvector(3, 2, -8).unwrap(),
            int.hvector(3, 2, 4).unwrap(),
            int.hindexed([(1, 8), (1, 4)]).unwrap(),
            int.hindexed([(2, 0), (3, 4)]).unwrap(),
            int.hvector(3, 1, 8).unwrap().hindexed([(1, 0), (1, 4)]).unwrap(),
            int.resized(0, 2).unwrap(),
            int.hvector(2, 1, 64).unwrap().resized(0, 8).unwrap(),
        ];
        assert!(yes.iter().all(TypeLayout::is_ascending));
        assert!(!no.iter().any(TypeLayout::is_ascending));
        let back: Vec<bool> = no.iter().map(|layout| !layout.never_steps_back()).collect();
        assert_eq!(back, [true, false, true, false, false, false, false]);
        let far = int.hvector(2, 1, 1 << 40).unwrap();
        assert_eq!(far.displacement_of(4), Some(1 << 40));
        assert_eq!(far.displacement_of(u64::MAX / 2), None);
    }

    #[test]
    fn groups_are_loops_from_a_position_on() {
        let int = basic(4);
        let group = |layout: &TypeLayout, position| {
            let LayoutGroup { at, len, stride, count } = layout.group_at(position).unwrap();
            (at, len, stride, count)
        };
        let rows = int.hvector(5, 2, 20).unwrap();
        assert_eq!(group(&rows, 0), (0, 8, 20, 5));
        assert_eq!(group(&rows, 3), (3, 5, 0, 1));
        assert_eq!(group(&rows, 16), (40, 8, 20, 3));
        // The second element begins at the extent, 88.
        assert_eq!(group(&rows, 48), (108, 8, 20, 4));
        let planes = rows.hvector(3, 1, 1000).unwrap();
        assert_eq!(group(&planes, 40), (1000, 8, 20, 5));
        let apart = int.resized(0, 16).unwrap();
        let (at, len, stride, count) = group(&apart, 8);
        assert_eq!((at, len, stride), (32, 4, 16));
        assert!(count > 1 << 50);
        let ragged = int.hindexed([(1, 0), (2, 8), (1, 100)]).unwrap();
        assert_eq!(group(&ragged, 4), (8, 8, 0, 1));
    }

    #[test]
    fn too_large_is_an_error() {
        let int = basic(4);
        assert!(int.contiguous(u64::MAX).is_err());
        assert!(int.contiguous(1 << 62).is_err());
        assert!(int.hvector(3, 1, i64::MAX / 2).is_err());
        assert!(int.hindexed([(1, i64::MAX)]).is_err());
        assert!(int.resized(i64::MAX, 1).is_err());
        assert!(int.contiguous(1 << 40).unwrap().packed(1 << 40).is_err());
        assert_eq!(int.contiguous(1 << 40).unwrap().size(), 1 << 42);
    }
}
