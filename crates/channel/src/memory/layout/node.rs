//! The tree of loops and blocks, kept in normal form by its constructors.

use std::sync::Arc;

use super::{LayoutError, Result, span};

const SIZE: LayoutError = LayoutError::overflow("size");
const DISPLACEMENT: LayoutError = LayoutError::overflow("displacement");

/// Parts of at most this many pieces are spliced into the sequence they belong to.
const SPLICE: usize = 32;

/// Bytes relative to an origin, in the order in which they travel.
#[derive(Debug)]
pub(super) struct Node {
    /// Number of bytes.
    pub size: u64,
    /// Displacement of the lowest byte.
    pub low: i64,
    /// One past that of the highest.
    pub high: i64,
    /// Number of blocks, saturating.
    pub blocks: u64,
    pub kind: Kind,
}

#[derive(Debug)]
pub(super) enum Kind {
    /// `size` bytes at 0.
    Block,
    /// `count` bodies, `stride` apart; at least two, and not one block.
    Loop {
        count: u64,
        stride: i64,
        body: Arc<Node>,
    },
    /// Blocks of one length.
    Scatter { len: u64, offsets: Box<[i64]> },
    /// Blocks of different lengths; `starts` are their packed positions, and the whole length at the end.
    Blocks {
        starts: Box<[u64]>,
        offsets: Box<[i64]>,
    },
    /// Different things; `starts` as for `Blocks`.
    Sequence {
        starts: Box<[u64]>,
        parts: Box<[Placed]>,
    },
}

/// A node moved to a displacement.
#[derive(Clone, Debug)]
pub(super) struct Placed {
    pub offset: i64,
    pub node: Arc<Node>,
}

impl Placed {
    /// `len` bytes at `offset`; `offset + len` is representable.
    pub fn block(offset: i64, len: u64) -> Placed {
        let node = Node {
            size: len,
            low: 0,
            high: len as i64,
            blocks: 1,
            kind: Kind::Block,
        };
        Placed {
            offset,
            node: Arc::new(node),
        }
    }

    pub fn empty() -> Placed {
        Placed::block(0, 0)
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
        matches!(self.node.kind, Kind::Block)
    }

    /// This, `by` bytes further on.
    pub fn moved(self, by: i64) -> Result<Placed> {
        let bound = |bound: i64| bound.checked_add(by).ok_or(DISPLACEMENT);
        let (_, _, offset) = (bound(self.low())?, bound(self.high())?, bound(self.offset)?);
        Ok(Placed {
            offset,
            node: self.node,
        })
    }

    /// `count` of this, `stride` apart.
    pub fn repeat(&self, count: u64, stride: i64) -> Result<Placed> {
        let node = &self.node;
        if count == 0 || node.size == 0 {
            return Ok(Placed::empty());
        }
        if count == 1 {
            return Ok(self.clone());
        }
        let size = node
            .size
            .checked_mul(count)
            .filter(|&size| size <= i64::MAX as u64)
            .ok_or(SIZE)?;
        span(self.low(), self.high(), count, stride)?;
        let (low, high) = span(node.low, node.high, count, stride)?;
        let (count, body) = match &node.kind {
            Kind::Block if stride == node.size as i64 => {
                return Ok(Placed::block(self.offset, size));
            }
            Kind::Loop {
                count: inner,
                stride: step,
                body,
            } if i64::try_from(*inner)
                .ok()
                .and_then(|n| n.checked_mul(*step))
                == Some(stride) =>
            {
                (count.checked_mul(*inner).ok_or(SIZE)?, (*step, body))
            }
            _ => (count, (stride, node)),
        };
        let (stride, body) = (body.0, Arc::clone(body.1));
        let blocks = body.blocks.saturating_mul(count);
        let kind = Kind::Loop {
            count,
            stride,
            body,
        };
        Ok(Placed {
            offset: self.offset,
            node: Arc::new(Node {
                size,
                low,
                high,
                blocks,
                kind,
            }),
        })
    }
}

/// Parts one after the other, being merged into a node.
#[derive(Default)]
pub(super) struct Sequence {
    pieces: Vec<Piece>,
}

enum Piece {
    Block { offset: i64, len: u64 },
    Other(Placed),
}

impl Piece {
    fn offset(&self) -> i64 {
        match self {
            Piece::Block { offset, .. } => *offset,
            Piece::Other(placed) => placed.offset,
        }
    }

    fn size(&self) -> u64 {
        match self {
            Piece::Block { len, .. } => *len,
            Piece::Other(placed) => placed.size(),
        }
    }

    fn same_node(&self, other: &Piece) -> bool {
        match (self, other) {
            (Piece::Block { len: a, .. }, Piece::Block { len: b, .. }) => a == b,
            (Piece::Other(a), Piece::Other(b)) => Arc::ptr_eq(&a.node, &b.node),
            _ => false,
        }
    }

    fn into_placed(self) -> Placed {
        match self {
            Piece::Block { offset, len } => Placed::block(offset, len),
            Piece::Other(placed) => placed,
        }
    }
}

impl Sequence {
    /// Adds a part at the end.
    pub fn push(&mut self, part: Placed) -> Result<()> {
        if part.size() == 0 {
            return Ok(());
        }
        // Sums of a base and a piece's offset lie between the part's bounds, which are representable.
        let base = part.offset;
        match &part.node.kind {
            Kind::Block => self.block(base, part.node.size),
            Kind::Scatter { len, offsets } if offsets.len() <= SPLICE => {
                offsets.iter().for_each(|at| self.block(base + at, *len));
            }
            Kind::Blocks { starts, offsets } if offsets.len() <= SPLICE => {
                let lengths = starts.windows(2).map(|pair| pair[1] - pair[0]);
                offsets
                    .iter()
                    .zip(lengths)
                    .for_each(|(at, len)| self.block(base + at, len));
            }
            Kind::Sequence { parts, .. } if parts.len() <= SPLICE => {
                for inner in parts {
                    let offset = base + inner.offset;
                    match inner.node.kind {
                        Kind::Block => self.block(offset, inner.node.size),
                        _ => self.pieces.push(Piece::Other(Placed {
                            offset,
                            node: Arc::clone(&inner.node),
                        })),
                    }
                }
            }
            _ => self.pieces.push(Piece::Other(part)),
        }
        Ok(())
    }

    fn block(&mut self, offset: i64, len: u64) {
        match self.pieces.last_mut() {
            Some(Piece::Block {
                offset: last,
                len: so_far,
            }) if *last + *so_far as i64 == offset => {
                *so_far += len;
            }
            _ => self.pieces.push(Piece::Block { offset, len }),
        }
    }

    /// The node of all parts.
    pub fn finish(self) -> Result<Placed> {
        let mut pieces = self.pieces;
        if pieces.len() <= 1 {
            return Ok(pieces.pop().map_or_else(Placed::empty, Piece::into_placed));
        }
        if let Some(stride) = even_stride(&pieces) {
            let count = pieces.len() as u64;
            return pieces.swap_remove(0).into_placed().repeat(count, stride);
        }
        let mut starts = Vec::with_capacity(pieces.len() + 1);
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
                Piece::Block { offset, len } => (*offset, offset + *len as i64, 1),
                Piece::Other(placed) => {
                    all_blocks = false;
                    (placed.low(), placed.high(), placed.node.blocks)
                }
            };
            (low, high, blocks) = (low.min(from), high.max(to), blocks.saturating_add(n));
        }
        high.checked_sub(low)
            .ok_or(LayoutError::overflow("true extent"))?;
        starts.push(size);
        let offsets = || pieces.iter().map(Piece::offset).collect();
        let kind = if all_blocks && one_length {
            Kind::Scatter {
                len: pieces[0].size(),
                offsets: offsets(),
            }
        } else if all_blocks {
            Kind::Blocks {
                starts: starts.into(),
                offsets: offsets(),
            }
        } else {
            let parts = pieces.into_iter().map(Piece::into_placed).collect();
            Kind::Sequence {
                starts: starts.into(),
                parts,
            }
        };
        Ok(Placed {
            offset: 0,
            node: Arc::new(Node {
                size,
                low,
                high,
                blocks,
                kind,
            }),
        })
    }
}

/// The stride of two or more like pieces that are evenly spaced.
fn even_stride(pieces: &[Piece]) -> Option<i64> {
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

impl Node {
    /// Displacement of the byte at `position`, less than `size`, and the number of bytes that follow without a gap.
    pub fn seek(&self, position: u64) -> (i64, u64) {
        match &self.kind {
            Kind::Block => (position as i64, self.size - position),
            Kind::Loop {
                count: _,
                stride,
                body,
            } => {
                let (at, len) = body.seek(position % body.size);
                ((position / body.size) as i64 * stride + at, len)
            }
            Kind::Scatter { len, offsets } => {
                let within = position % len;
                (
                    offsets[(position / len) as usize] + within as i64,
                    len - within,
                )
            }
            Kind::Blocks { starts, offsets } => {
                let (index, within) = part_at(starts, position);
                (offsets[index] + within as i64, starts[index + 1] - position)
            }
            Kind::Sequence { starts, parts } => {
                let (index, within) = part_at(starts, position);
                let (at, len) = parts[index].node.seek(within);
                (parts[index].offset + at, len)
            }
        }
    }
}
