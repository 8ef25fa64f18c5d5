//! A buffer that has a part for each rank.

use mica_channel::memory::View;

use crate::collective::place::Blocks;
use crate::error::Result;

/// The parts of a buffer, one for each rank.
#[derive(Clone, Debug)]
pub enum Parts {
    /// As many elements for each of so many ranks.
    Even(Blocks, usize),
    /// Each as it is.
    Each(Vec<View>),
}

impl Parts {
    /// Bytes of all parts.
    #[inline]
    pub fn total(&self) -> usize {
        match self {
            Parts::Even(blocks, ranks) => blocks.bytes().saturating_mul(*ranks),
            Parts::Each(views) => views.iter().map(View::len).sum(),
        }
    }

    /// The part for `rank`.
    ///
    /// # Errors
    /// When it reaches further than an address can.
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
