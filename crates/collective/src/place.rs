//! What schedules are bound to: elements, blocks and packed bytes in memory; and a rank's place
//! among the ranks.

pub use mica_algorithms::RankPlace;
use mica_memory::{Region, Shape, View};

use crate::absent::{absent_region, temporary};
use mica_objects::datatype::Datatype;
use mica_objects::error::{Error, Result};

/// Elements of a datatype in memory, addressed by index.
#[derive(Clone, Debug)]
pub struct Elements {
    origin: Region,
    datatype: Datatype,
}

impl Elements {
    /// Elements of `datatype` from `origin` on.
    pub fn new(origin: Region, datatype: &Datatype) -> Elements {
        Elements { origin, datatype: datatype.clone() }
    }

    /// New memory for `count` elements.
    pub(super) fn temporary(datatype: &Datatype, count: usize) -> Result<Elements> {
        let (lb, extent) = (i128::from(datatype.lb()), i128::from(datatype.extent()));
        let (true_lb, true_extent) =
            (i128::from(datatype.true_lb()), i128::from(datatype.true_extent()));
        // User operators may touch whole elements, the gaps between lb and ub included.
        let (low, high) = (true_lb.min(lb), (true_lb + true_extent).max(lb + extent));
        let last = extent * (count.max(1) as i128 - 1);
        let (low, high) = (low + last.min(0), high + last.max(0));
        let too_large = |bytes: i128| Error::OutOfMemory {
            bytes: u64::try_from(bytes).unwrap_or(u64::MAX),
            what: "a temporary buffer",
        };
        let bytes = usize::try_from(high - low).map_err(|_| too_large(high - low))?;
        let shift = isize::try_from(-low).map_err(|_| too_large(high - low))?;
        Ok(Elements { origin: temporary(bytes).offset(shift), datatype: datatype.clone() })
    }

    /// Bytes that they have no memory for.
    pub(super) fn absent_bytes(&self) -> Option<usize> {
        absent_region([&self.origin])
    }

    pub(super) fn datatype(&self) -> &Datatype {
        &self.datatype
    }

    /// Where element `index` starts.
    pub(super) fn region(&self, index: usize) -> Region {
        self.origin.offset((index as isize).wrapping_mul(self.datatype.extent() as isize))
    }

    /// The elements from `index` on.
    pub(super) fn from(&self, index: usize) -> Elements {
        Elements { origin: self.region(index), datatype: self.datatype.clone() }
    }

    /// `count` elements from `first` on.
    pub fn view(&self, first: usize, count: usize) -> Result<View> {
        Ok(self.region(first).view(self.datatype.shape(count as i64)?))
    }

    /// Whether both start at the same address.
    pub(super) fn same_place(&self, other: &Elements) -> bool {
        self.origin.address() == other.origin.address()
    }
}

/// Blocks of `count` elements each, one per rank, one after the other in a buffer.
#[derive(Clone, Debug)]
pub struct Blocks {
    elements: Elements,
    count: usize,
}

impl Blocks {
    /// Blocks of `count` elements.
    pub fn new(elements: Elements, count: usize) -> Blocks {
        Blocks { elements, count }
    }

    /// The elements of all.
    pub(super) fn elements(&self) -> &Elements {
        &self.elements
    }

    /// Elements of each.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// `n` blocks from `first` on.
    pub fn view(&self, first: usize, n: usize) -> Result<View> {
        self.elements.view(first * self.count, n * self.count)
    }

    /// Bytes that they have no memory for.
    pub(super) fn absent_bytes(&self) -> Option<usize> {
        self.elements.absent_bytes()
    }

    /// Bytes of one block, packed.
    pub(super) fn bytes(&self) -> usize {
        self.count * self.elements.datatype.size() as usize
    }

    /// The blocks one by one.
    pub(super) fn each(&self, size: usize) -> Result<Vec<View>> {
        (0..size).map(|i| self.view(i, 1)).collect()
    }
}

/// Memory for packed blocks of bytes.
#[derive(Clone, Debug)]
pub(super) struct Packed {
    region: Region,
    block: usize,
}

impl Packed {
    /// New memory for `blocks` blocks.
    pub(super) fn temporary(blocks: usize, block: usize) -> Packed {
        Packed { region: temporary(blocks.saturating_mul(block)), block }
    }

    /// `n` blocks from `first` on.
    pub(super) fn view(&self, first: usize, n: usize) -> View {
        bytes_at(&self.region, first * self.block, n * self.block)
    }
}

/// `bytes` bytes that start `offset` from the region's origin.
pub(super) fn bytes_at(region: &Region, offset: usize, bytes: usize) -> View {
    region.offset(offset as isize).view(Shape::Contiguous { bytes })
}
