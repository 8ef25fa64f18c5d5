//! What the algorithms share: a rank's place among the ranks, the binomial tree, elements and
//! packed bytes in memory.

use mica_memory::{Region, Shape, View};

use crate::collective::absent::{absent_region, temporary};
use crate::datatype::Datatype;
use crate::error::{Error, Result};

/// The rank that a schedule is for, and the number of ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RankPlace {
    /// This rank.
    pub rank: usize,
    /// Number of ranks.
    pub size: usize,
}

impl RankPlace {
    /// The rank `distance` after this one in the ring of ranks.
    pub(super) fn after(self, distance: usize) -> usize {
        (self.rank + distance) % self.size
    }

    /// The rank `distance` (at most `size`) before this one in the ring of ranks.
    pub(super) fn before(self, distance: usize) -> usize {
        (self.rank + self.size - distance) % self.size
    }

    /// This rank's number when the ring of ranks is counted from `root`.
    pub(super) fn relative(self, root: usize) -> usize {
        (self.rank + self.size - root) % self.size
    }
}

/// A node of the binomial tree over `0..size` with root 0. The subtree of `v` is `v..v + span`, so
/// the data of a subtree is contiguous when ordered by rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BinomialTree {
    pub parent: Option<usize>,
    pub span: usize,
    /// Children and their spans, the largest subtree first.
    pub children: Vec<(usize, usize)>,
}

impl BinomialTree {
    pub(super) fn binomial(v: usize, size: usize) -> BinomialTree {
        let reach = if v == 0 { size.next_power_of_two() } else { v & v.wrapping_neg() };
        let span_of = |v: usize, reach: usize| reach.min(size - v);
        let mut children = Vec::new();
        let mut bit = reach / 2;
        while bit > 0 {
            if v + bit < size {
                children.push((v + bit, span_of(v + bit, bit)));
            }
            bit /= 2;
        }
        BinomialTree { parent: (v > 0).then(|| v - reach), span: span_of(v, reach), children }
    }
}

/// The ranks as the recursive doubling and halving algorithms see them: `active` of them, a power
/// of two, after each surplus rank has joined its neighbour. Neighbours join, so what an active
/// rank holds stays contiguous in rank order, as operators that do not commute need it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Halves {
    /// Number of active ranks.
    pub active: usize,
    surplus: usize,
    /// A rank that must stay active (the root of a reduction).
    keep: Option<usize>,
}

/// What a rank does before and after the power-of-two part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HalvingPart {
    /// It is active under this number; `joined` is the passive neighbour whose data it also holds.
    Active { number: usize, joined: Option<usize> },
    /// It gives its data to this neighbour.
    Passive { speaker: usize },
}

impl Halves {
    pub(super) fn of(size: usize, keep: Option<usize>) -> Halves {
        let active = 1 << size.ilog2();
        Halves { active, surplus: size - active, keep }
    }

    /// The rank that is active under `number`. Of the first `2 * surplus` ranks, the odd ones are
    /// active, unless `keep` is their even neighbour.
    pub(super) fn rank(&self, number: usize) -> usize {
        if number >= self.surplus {
            number + self.surplus
        } else if self.keep == Some(2 * number) {
            2 * number
        } else {
            2 * number + 1
        }
    }

    pub(super) fn part(&self, rank: usize) -> HalvingPart {
        if rank >= 2 * self.surplus {
            return HalvingPart::Active { number: rank - self.surplus, joined: None };
        }
        let speaker = self.rank(rank / 2);
        if speaker == rank {
            HalvingPart::Active { number: rank / 2, joined: Some(rank ^ 1) }
        } else {
            HalvingPart::Passive { speaker }
        }
    }

    /// The first rank whose data active rank `number` holds.
    pub(super) fn first(&self, number: usize) -> usize {
        if number < self.surplus { 2 * number } else { number + self.surplus }
    }
}

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

    /// Whether elements of one may share bytes with elements of the other.
    pub(super) fn may_share(&self, other: &Elements) -> bool {
        self.origin.may_share(&other.origin)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_reaches_every_rank_once_and_agrees_with_itself() {
        for size in 1..40 {
            let mut reached = vec![0; size];
            for v in 0..size {
                let tree = BinomialTree::binomial(v, size);
                let below: usize = tree.children.iter().map(|&(_, span)| span).sum();
                assert_eq!(tree.span, below + 1);
                for (child, span) in tree.children {
                    reached[child] += 1;
                    let other = BinomialTree::binomial(child, size);
                    assert_eq!((other.parent, other.span), (Some(v), span));
                }
            }
            assert_eq!(reached[0], 0);
            assert!(reached[1..].iter().all(|&n| n == 1));
        }
    }

    #[test]
    fn halves_cover_the_ranks_in_order() {
        for size in 1..40 {
            for keep in (0..size).map(Some).chain([None]) {
                let halves = Halves::of(size, keep);
                let mut covered = Vec::new();
                for number in 0..halves.active {
                    assert_eq!(halves.first(number), covered.len());
                    let rank = halves.rank(number);
                    let HalvingPart::Active { number: same, joined } = halves.part(rank) else {
                        panic!("rank {rank} of {size} is not active")
                    };
                    assert_eq!(same, number);
                    if let Some(other) = joined {
                        assert_eq!(halves.part(other), HalvingPart::Passive { speaker: rank });
                        covered.push(rank.min(other));
                        covered.push(rank.max(other));
                    } else {
                        covered.push(rank);
                    }
                }
                assert_eq!(covered, (0..size).collect::<Vec<_>>());
                if let Some(root) = keep {
                    assert!(matches!(halves.part(root), HalvingPart::Active { .. }));
                }
            }
        }
    }
}
