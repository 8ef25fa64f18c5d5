//! A buffer that has a part for each rank.

use mica_memory::View;

use crate::absent::absent_view;
use crate::place::Blocks;
use mica_objects::error::Result;

/// The parts of a buffer, one for each rank.
#[derive(Clone, Debug)]
pub enum Parts {
    /// Blocks of equal length, and the number of ranks.
    Even(Blocks, usize),
    /// Each part separately.
    Each(Vec<View>),
}

impl Parts {
    /// The blocks, where all have equal length.
    pub fn blocks(&self) -> Option<&Blocks> {
        match self {
            Parts::Even(blocks, _) => Some(blocks),
            Parts::Each(_) => None,
        }
    }

    /// Bytes of all parts.
    #[inline]
    pub fn total(&self) -> usize {
        match self {
            Parts::Even(blocks, ranks) => blocks.bytes().saturating_mul(*ranks),
            Parts::Each(views) => views.iter().map(View::len).sum(),
        }
    }

    /// Bytes that one of them has no memory for.
    pub(crate) fn absent_bytes(&self) -> Option<usize> {
        match self {
            Parts::Even(blocks, _) => blocks.absent_bytes(),
            Parts::Each(views) => absent_view(views),
        }
    }

    /// Bytes of the longest part.
    #[inline]
    pub fn longest(&self) -> usize {
        match self {
            Parts::Even(blocks, _) => blocks.bytes(),
            Parts::Each(views) => views.iter().map(View::len).max().unwrap_or(0),
        }
    }

    /// Address and bytes of all parts, if all have equal length and lie one after the other without
    /// gaps.
    ///
    /// # Errors
    /// As [`view`](Self::view).
    #[inline]
    pub fn stretch(&self) -> Result<Option<(usize, usize)>> {
        Ok(match self {
            Parts::Even(blocks, ranks) => blocks.view(0, *ranks)?.as_contiguous(),
            Parts::Each(_) => None,
        })
    }

    /// The parts of the first `ranks` ranks.
    ///
    /// # Errors
    /// As [`view`](Self::view).
    pub fn views(&self, ranks: usize) -> Result<Vec<View>> {
        (0..ranks).map(|rank| self.view(rank)).collect()
    }

    /// The part for `rank`.
    ///
    /// # Errors
    /// When it extends past the largest address.
    #[inline]
    pub fn view(&self, rank: usize) -> Result<View> {
        match self {
            Parts::Even(blocks, _) => blocks.view(rank, 1),
            Parts::Each(views) => Ok(views[rank].clone()),
        }
    }

    /// Bytes of the part for `rank`.
    #[inline]
    pub fn len(&self, rank: usize) -> usize {
        match self {
            Parts::Even(blocks, _) => blocks.bytes(),
            Parts::Each(views) => views[rank].len(),
        }
    }
}

/// What the root of an operation holds for the other ranks, or lets them fill.
#[derive(Clone, Copy, Debug)]
pub enum RootBuffer<'a> {
    /// The same for all.
    Whole(&'a View),
    /// A part for each.
    Parts(&'a Parts),
}

impl RootBuffer<'_> {
    /// The part for `rank`.
    ///
    /// # Errors
    /// As [`Parts::view`].
    #[inline]
    pub fn view(&self, rank: usize) -> Result<View> {
        match self {
            RootBuffer::Whole(view) => Ok((*view).clone()),
            RootBuffer::Parts(parts) => parts.view(rank),
        }
    }

    /// Bytes of the part for `rank`.
    #[inline]
    pub fn len(&self, rank: usize) -> usize {
        match self {
            RootBuffer::Whole(view) => view.len(),
            RootBuffer::Parts(parts) => parts.len(rank),
        }
    }
}

/// Maximum bytes of a rank's own part that it copies before the others' parts. A longer one would
/// evict from its cache what it is about to copy.
const SHORT: usize = 256 << 10;

/// A rank's part for itself. The rank copies it while it waits for others. An operation that copies
/// directly waits twice: half of the part is copied each time, if it is contiguous.
#[derive(Debug)]
pub struct OwnPart {
    from: View,
    to: View,
    copied: usize,
}

impl OwnPart {
    /// The part that goes `from` here `to` there.
    pub fn new(from: View, to: View) -> OwnPart {
        OwnPart { from, to, copied: 0 }
    }

    /// Copies the first half, during the first wait.
    pub fn copy_half(&mut self) {
        let bytes = self.from.len().min(self.to.len());
        if bytes <= SHORT && self.from.as_contiguous().is_some() {
            self.copy_up_to((bytes / 2) & !63);
        }
    }

    /// Copies the rest, during the second wait.
    pub fn copy_rest(&mut self) {
        match self.copied {
            0 => _ = self.to.copy_from(&self.from),
            _ => self.copy_up_to(self.from.len().min(self.to.len())),
        }
    }

    /// Continues the copy up to byte `end`, if the destination is contiguous.
    fn copy_up_to(&mut self, end: usize) {
        if let Some((address, _)) = self.to.as_contiguous() {
            let region = self.to.region();
            let shift = (address + self.copied).wrapping_sub(region.address());
            let to = region.offset(shift as isize);
            self.copied += self.from.pack_to(self.copied, &to, end - self.copied);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mica_memory::{Block, Shape, TypeLayout};
    use std::sync::Arc;

    #[test]
    fn two_halves_are_the_whole() {
        let byte = TypeLayout::basic(1, 1).unwrap();
        let shapes = |bytes: usize| {
            let pairs = Arc::new(byte.hvector(bytes as u64 / 2, 2, 4).unwrap());
            let plain = Shape::Contiguous { bytes };
            [plain, Shape::of(&pairs, 1).unwrap()]
        };
        for bytes in [0, 2, 64, 126, 128, 130, 1000] {
            let content: Vec<u8> = (0..bytes).map(|i| i as u8).collect();
            for from in shapes(bytes) {
                for to in shapes(bytes) {
                    let view = |shape: &Shape| {
                        let region = Block::allocate(2 * bytes + 4).unwrap();
                        region.view(shape.clone())
                    };
                    let (from, to) = (view(&from), view(&to));
                    from.unpack(0, &content);
                    let mut own = OwnPart::new(from, to.clone());
                    own.copy_half();
                    own.copy_rest();
                    let mut seen = vec![0; bytes];
                    to.pack(0, &mut seen);
                    assert_eq!(seen, content);
                }
            }
        }
    }
}
