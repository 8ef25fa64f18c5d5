//! The tree of loops and blocks, kept in normal form by its constructors.

use std::sync::Arc;

use super::arithmetic::{Result, TypeLayoutError, span};
use crate::{NestedNode, drop_parts, try_collect, try_push, try_with_capacity};

const SIZE: TypeLayoutError = TypeLayoutError::overflow("size");
const DISPLACEMENT: TypeLayoutError = TypeLayoutError::overflow("displacement");

/// Parts of at most this many pieces are spliced into the sequence they belong to.
const SPLICE: usize = 32;

/// Bytes relative to an origin, in message order.
#[derive(Debug)]
pub(super) struct LayoutNode {
    /// Number of bytes.
    pub size: u64,
    /// Displacement of the lowest byte.
    pub low: i64,
    /// One past the displacement of the highest byte.
    pub high: i64,
    /// Number of blocks, saturating.
    pub blocks: u64,
    /// Levels of the tree.
    pub depth: u32,
    pub kind: LayoutNodeKind,
}

impl Drop for LayoutNode {
    fn drop(&mut self) {
        drop_parts(self);
    }
}

#[derive(Debug)]
pub(super) enum LayoutNodeKind {
    /// `size` bytes at 0.
    Block,
    /// `count` bodies, `stride` apart; at least two, and never equal to one block.
    Loop { count: u64, stride: i64, body: Arc<LayoutNode> },
    /// Blocks of one length.
    Scatter { len: u64, offsets: Box<[i64]> },
    /// Blocks of different lengths; `starts` are their packed positions, followed by the total
    /// length.
    Blocks { starts: Box<[u64]>, offsets: Box<[i64]> },
    /// Parts of different kinds; `starts` as for `Blocks`.
    Sequence { starts: Box<[u64]>, parts: Box<[PlacedNode]> },
}

/// A node at a displacement.
#[derive(Clone, Debug)]
pub(super) struct PlacedNode {
    pub offset: i64,
    pub node: Arc<LayoutNode>,
}

impl PlacedNode {
    /// `len` bytes at `offset`; `offset + len` is representable.
    pub fn block(offset: i64, len: u64) -> PlacedNode {
        let node = LayoutNode {
            size: len,
            low: 0,
            high: len as i64,
            blocks: 1,
            depth: 1,
            kind: LayoutNodeKind::Block,
        };
        PlacedNode { offset, node: Arc::new(node) }
    }

    pub fn empty() -> PlacedNode {
        PlacedNode::block(0, 0)
    }

    pub fn size(&self) -> u64 {
        self.node.size
    }

    /// Displacement of the lowest byte.
    pub fn low(&self) -> i64 {
        self.offset + self.node.low
    }

    /// One past the displacement of the highest byte.
    pub fn high(&self) -> i64 {
        self.offset + self.node.high
    }

    pub fn is_block(&self) -> bool {
        matches!(self.node.kind, LayoutNodeKind::Block)
    }

    /// This node, `by` bytes further on.
    pub fn moved(self, by: i64) -> Result<PlacedNode> {
        let bound = |bound: i64| bound.checked_add(by).ok_or(DISPLACEMENT);
        let (_, _, offset) = (bound(self.low())?, bound(self.high())?, bound(self.offset)?);
        Ok(PlacedNode { offset, node: self.node })
    }

    /// `count` copies of this node, `stride` apart.
    pub fn repeat(&self, count: u64, stride: i64) -> Result<PlacedNode> {
        let node = &self.node;
        if count == 0 || node.size == 0 {
            return Ok(PlacedNode::empty());
        }
        if count == 1 {
            return Ok(self.clone());
        }
        let size =
            node.size.checked_mul(count).filter(|&size| size <= i64::MAX as u64).ok_or(SIZE)?;
        span(self.low(), self.high(), count, stride)?;
        let (low, high) = span(node.low, node.high, count, stride)?;
        let (count, body) = match &node.kind {
            LayoutNodeKind::Block if stride == node.size as i64 => {
                return Ok(PlacedNode::block(self.offset, size));
            }
            LayoutNodeKind::Loop { count: inner, stride: step, body }
                if i64::try_from(*inner).ok().and_then(|n| n.checked_mul(*step))
                    == Some(stride) =>
            {
                (count.checked_mul(*inner).ok_or(SIZE)?, (*step, body))
            }
            _ => (count, (stride, node)),
        };
        let (stride, body) = (body.0, Arc::clone(body.1));
        let blocks = body.blocks.saturating_mul(count);
        let depth = body.depth.saturating_add(1);
        let kind = LayoutNodeKind::Loop { count, stride, body };
        Ok(PlacedNode {
            offset: self.offset,
            node: Arc::new(LayoutNode { size, low, high, blocks, depth, kind }),
        })
    }
}

/// Consecutive parts, to be merged into a node.
#[derive(Default)]
pub(super) struct Sequence {
    pieces: Vec<LayoutPiece>,
}

enum LayoutPiece {
    Block { offset: i64, len: u64 },
    Other(PlacedNode),
}

impl LayoutPiece {
    fn depth(&self) -> u32 {
        match self {
            LayoutPiece::Block { .. } => 1,
            LayoutPiece::Other(placed) => placed.node.depth,
        }
    }

    fn offset(&self) -> i64 {
        match self {
            LayoutPiece::Block { offset, .. } => *offset,
            LayoutPiece::Other(placed) => placed.offset,
        }
    }

    fn size(&self) -> u64 {
        match self {
            LayoutPiece::Block { len, .. } => *len,
            LayoutPiece::Other(placed) => placed.size(),
        }
    }

    fn same_node(&self, other: &LayoutPiece) -> bool {
        match (self, other) {
            (LayoutPiece::Block { len: a, .. }, LayoutPiece::Block { len: b, .. }) => a == b,
            (LayoutPiece::Other(a), LayoutPiece::Other(b)) => Arc::ptr_eq(&a.node, &b.node),
            _ => false,
        }
    }

    fn into_placed(self) -> PlacedNode {
        match self {
            LayoutPiece::Block { offset, len } => PlacedNode::block(offset, len),
            LayoutPiece::Other(placed) => placed,
        }
    }
}

impl Sequence {
    /// Adds a part at the end.
    pub fn push(&mut self, part: PlacedNode) -> Result<()> {
        if part.size() == 0 {
            return Ok(());
        }
        // Sums of a base and a piece's offset lie between the part's bounds, which are
        // representable.
        let base = part.offset;
        match &part.node.kind {
            LayoutNodeKind::Block => self.block(base, part.node.size)?,
            LayoutNodeKind::Scatter { len, offsets } if offsets.len() <= SPLICE => {
                offsets.iter().try_for_each(|at| self.block(base + at, *len))?;
            }
            LayoutNodeKind::Blocks { starts, offsets } if offsets.len() <= SPLICE => {
                let lengths = starts.windows(2).map(|pair| pair[1] - pair[0]);
                let mut blocks = offsets.iter().zip(lengths);
                blocks.try_for_each(|(at, len)| self.block(base + at, len))?;
            }
            LayoutNodeKind::Sequence { parts, .. } if parts.len() <= SPLICE => {
                for inner in parts {
                    let offset = base + inner.offset;
                    match inner.node.kind {
                        LayoutNodeKind::Block => self.block(offset, inner.node.size)?,
                        _ => {
                            let node = Arc::clone(&inner.node);
                            let piece = LayoutPiece::Other(PlacedNode { offset, node });
                            try_push(&mut self.pieces, piece)?;
                        }
                    }
                }
            }
            _ => try_push(&mut self.pieces, LayoutPiece::Other(part))?,
        }
        Ok(())
    }

    fn block(&mut self, offset: i64, len: u64) -> Result<()> {
        match self.pieces.last_mut() {
            Some(LayoutPiece::Block { offset: last, len: so_far })
                if *last + *so_far as i64 == offset =>
            {
                *so_far += len;
            }
            _ => try_push(&mut self.pieces, LayoutPiece::Block { offset, len })?,
        }
        Ok(())
    }

    /// The node of all parts.
    pub fn finish(self) -> Result<PlacedNode> {
        let mut pieces = self.pieces;
        if pieces.len() <= 1 {
            return Ok(pieces.pop().map_or_else(PlacedNode::empty, LayoutPiece::into_placed));
        }
        if let Some(stride) = even_stride(&pieces) {
            let count = pieces.len() as u64;
            return pieces.swap_remove(0).into_placed().repeat(count, stride);
        }
        let mut starts = try_with_capacity(pieces.len() + 1)?;
        let (mut size, mut blocks, mut low, mut high) = (0u64, 0u64, i64::MAX, i64::MIN);
        let (mut all_blocks, mut one_length) = (true, true);
        for piece in &pieces {
            starts.push(size);
            size = size
                .checked_add(piece.size())
                .filter(|&size| size <= i64::MAX as u64)
                .ok_or(SIZE)?;
            one_length &= piece.size() == pieces[0].size();
            let (from, to, n) = match piece {
                LayoutPiece::Block { offset, len } => (*offset, offset + *len as i64, 1),
                LayoutPiece::Other(placed) => {
                    all_blocks = false;
                    (placed.low(), placed.high(), placed.node.blocks)
                }
            };
            (low, high, blocks) = (low.min(from), high.max(to), blocks.saturating_add(n));
        }
        high.checked_sub(low).ok_or(TypeLayoutError::overflow("true extent"))?;
        starts.push(size);
        let offsets = || try_collect(pieces.iter().map(LayoutPiece::offset)).map(Box::from);
        let below = pieces.iter().map(LayoutPiece::depth).max().unwrap_or(0);
        let depth = if all_blocks { 1 } else { below.saturating_add(1) };
        let kind = if all_blocks && one_length {
            LayoutNodeKind::Scatter { len: pieces[0].size(), offsets: offsets()? }
        } else if all_blocks {
            LayoutNodeKind::Blocks { starts: starts.into(), offsets: offsets()? }
        } else {
            let parts = try_collect(pieces.into_iter().map(LayoutPiece::into_placed))?;
            LayoutNodeKind::Sequence { starts: starts.into(), parts: parts.into() }
        };
        let node = LayoutNode { size, low, high, blocks, depth, kind };
        Ok(PlacedNode { offset: 0, node: Arc::new(node) })
    }
}

/// The stride of two or more equal pieces, if they are evenly spaced.
fn even_stride(pieces: &[LayoutPiece]) -> Option<i64> {
    let stride = pieces[1].offset().checked_sub(pieces[0].offset())?;
    pieces
        .windows(2)
        .all(|pair| {
            pair[0].same_node(&pair[1])
                && pair[1].offset().checked_sub(pair[0].offset()) == Some(stride)
        })
        .then_some(stride)
}

/// Which part holds `position`, and where in it: `starts` are the parts' positions and the total.
pub(super) fn part_at(starts: &[u64], position: u64) -> (usize, u64) {
    let index = starts.partition_point(|&start| start <= position) - 1;
    (index, position - starts[index])
}

/// Equal blocks of bytes at equal distances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayoutGroup {
    /// Displacement of the first byte.
    pub at: i64,
    /// Bytes of a block.
    pub len: u64,
    /// From the beginning of one block to that of the next.
    pub stride: i64,
    /// How many blocks.
    pub count: u64,
}

impl LayoutGroup {
    /// One block.
    pub(super) fn block(at: i64, len: u64) -> LayoutGroup {
        LayoutGroup { at, len, stride: 0, count: 1 }
    }
}

impl LayoutNode {
    /// Whether each byte lies behind the one before it.
    pub fn is_ascending(&self) -> bool {
        self.all_pairs(|before, len, next| next - before >= len)
    }

    /// Whether no block begins before the one before it.
    pub fn never_steps_back(&self) -> bool {
        self.all_pairs(|before, _, next| next >= before)
    }

    /// Whether `holds(first byte of a part, bytes from its lowest to its highest, first byte of the
    /// next part)` for all consecutive parts of each node. Where parts are in order, the first byte
    /// is the lowest.
    fn all_pairs(&self, holds: impl Fn(i64, i64, i64) -> bool) -> bool {
        let mut below = vec![self];
        while let Some(node) = below.pop() {
            let in_order = match &node.kind {
                LayoutNodeKind::Block => true,
                LayoutNodeKind::Loop { stride, body, .. } => {
                    below.push(body);
                    holds(0, body.high - body.low, *stride)
                }
                LayoutNodeKind::Scatter { len, offsets } => {
                    offsets.windows(2).all(|pair| holds(pair[0], *len as i64, pair[1]))
                }
                LayoutNodeKind::Blocks { starts, offsets } => (1..offsets.len())
                    .all(|i| holds(offsets[i - 1], (starts[i] - starts[i - 1]) as i64, offsets[i])),
                LayoutNodeKind::Sequence { parts, .. } => {
                    below.extend(parts.iter().map(|part| &*part.node));
                    parts.windows(2).all(|pair| {
                        holds(pair[0].low(), pair[0].high() - pair[0].low(), pair[1].low())
                    })
                }
            };
            if !in_order {
                return false;
            }
        }
        true
    }

    /// The bytes from `position`, less than `size`, on: those that follow without a gap, and the
    /// equal blocks after them, as far as one loop has them.
    pub fn group_at(&self, mut position: u64) -> LayoutGroup {
        let (mut node, mut base) = (self, 0);
        loop {
            match &node.kind {
                LayoutNodeKind::Loop { count, stride, body }
                    if matches!(body.kind, LayoutNodeKind::Block) =>
                {
                    let (number, within) = (position / body.size, position % body.size);
                    let at = base + number as i64 * stride + within as i64;
                    return match within {
                        0 => LayoutGroup {
                            at,
                            len: body.size,
                            stride: *stride,
                            count: count - number,
                        },
                        _ => LayoutGroup::block(at, body.size - within),
                    };
                }
                LayoutNodeKind::Loop { stride, body, .. } => {
                    base += (position / body.size) as i64 * stride;
                    position %= body.size;
                    node = body;
                }
                LayoutNodeKind::Sequence { starts, parts } => {
                    let (index, within) = part_at(starts, position);
                    (base, position) = (base + parts[index].offset, within);
                    node = &parts[index].node;
                }
                LayoutNodeKind::Block
                | LayoutNodeKind::Scatter { .. }
                | LayoutNodeKind::Blocks { .. } => {
                    let (at, len) = node.seek(position);
                    return LayoutGroup::block(base + at, len);
                }
            }
        }
    }

    /// Displacement of the byte at `position`, less than `size`, and the number of bytes that
    /// follow without a gap.
    pub fn seek(&self, mut position: u64) -> (i64, u64) {
        let (mut node, mut base) = (self, 0);
        loop {
            match &node.kind {
                LayoutNodeKind::Block => return (base + position as i64, node.size - position),
                LayoutNodeKind::Loop { count: _, stride, body } => {
                    base += (position / body.size) as i64 * stride;
                    position %= body.size;
                    node = body;
                }
                LayoutNodeKind::Scatter { len, offsets } => {
                    let within = position % len;
                    let at = offsets[(position / len) as usize] + within as i64;
                    return (base + at, len - within);
                }
                LayoutNodeKind::Blocks { starts, offsets } => {
                    let (index, within) = part_at(starts, position);
                    return (base + offsets[index] + within as i64, starts[index + 1] - position);
                }
                LayoutNodeKind::Sequence { starts, parts } => {
                    let (index, within) = part_at(starts, position);
                    (base, position) = (base + parts[index].offset, within);
                    node = &parts[index].node;
                }
            }
        }
    }
}

impl NestedNode for LayoutNode {
    fn depth(&self) -> u32 {
        self.depth
    }

    fn give_up_parts(&mut self, to: &mut Vec<Arc<LayoutNode>>) {
        self.depth = 1;
        match std::mem::replace(&mut self.kind, LayoutNodeKind::Block) {
            LayoutNodeKind::Loop { body, .. } => to.push(body),
            LayoutNodeKind::Sequence { parts, .. } => {
                to.extend(parts.into_iter().map(|part| part.node));
            }
            LayoutNodeKind::Block
            | LayoutNodeKind::Scatter { .. }
            | LayoutNodeKind::Blocks { .. } => {}
        }
    }
}
