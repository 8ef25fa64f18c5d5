//! What the array constructors select (MPI 5.0, 5.1.3 and 5.1.4), as trees.

use std::ffi::c_int;

use super::tree::{MaybeTree, fields, repeat, shifted};
use crate::abi::constants as c;

/// The elements of an array: their tree and their extent.
#[derive(Debug)]
pub struct ArrayElements {
    /// One of them.
    pub tree: MaybeTree,
    /// From one to the next.
    pub extent: i64,
}

/// The arguments of `MPI_Type_create_subarray`, but for the element.
#[derive(Debug)]
pub struct Subarray<'a> {
    /// Of the array, by dimension.
    pub sizes: &'a [i64],
    /// Of the part.
    pub subsizes: &'a [i64],
    /// Where it starts.
    pub starts: &'a [i64],
    /// `MPI_ORDER_*`.
    pub order: c_int,
}

/// The arguments of `MPI_Type_create_darray`, but for the number of processes and the element.
#[derive(Debug)]
pub struct DistributedArray<'a> {
    /// The process.
    pub rank: i64,
    /// Elements, by dimension.
    pub sizes: &'a [i64],
    /// `MPI_DISTRIBUTE_*`.
    pub distributions: &'a [c_int],
    /// Sizes of blocks.
    pub blocks: &'a [c_int],
    /// Of the process grid.
    pub processes: &'a [c_int],
    /// `MPI_ORDER_*`.
    pub order: c_int,
}

/// SectionDimension numbers, the one first whose elements follow one another.
fn dimensions(number: usize, order: c_int) -> impl Iterator<Item = usize> {
    (0..number).map(move |i| if order == c::ORDER_C { number - 1 - i } else { i })
}

impl Subarray<'_> {
    /// The part of the array.
    pub fn select(&self, elements: ArrayElements) -> MaybeTree {
        let ArrayElements { mut tree, extent: mut stride } = elements;
        let mut first = 0;
        for i in dimensions(self.sizes.len(), self.order) {
            tree = repeat(self.subsizes[i], stride, &tree);
            first += self.starts[i] * stride;
            stride *= self.sizes[i];
        }
        shifted(first, tree)
    }
}

impl DistributedArray<'_> {
    /// The process's part of the array.
    ///
    /// # Errors
    /// `MPI_ERR_TYPE` for a process grid of no processes.
    pub fn select(&self, elements: ArrayElements) -> Result<MaybeTree, c_int> {
        let ArrayElements { mut tree, extent: mut stride } = elements;
        let number = self.sizes.len();
        let mut first = 0;
        for i in dimensions(number, self.order) {
            // The grid's last dimension varies fastest, whatever the order of the array is.
            let below: i64 =
                self.processes[i + 1..].iter().map(|&number| i64::from(number)).product();
            let place = (self.rank.checked_div(below))
                .and_then(|rest| rest.checked_rem(self.processes[i].into()))
                .ok_or(c::ERR_TYPE)?;
            let (start, owned) = self.dimension(i, place, stride, &tree);
            tree = owned;
            first += start * stride;
            stride *= self.sizes[i];
        }
        Ok(shifted(first, tree))
    }

    /// What the process at `place` of the grid's dimension `i` owns of it: the index of the first
    /// element, and copies of `tree`.
    fn dimension(&self, i: usize, place: i64, stride: i64, tree: &MaybeTree) -> (i64, MaybeTree) {
        let (size, processes) = (self.sizes[i], i64::from(self.processes[i]));
        let block = match (self.distributions[i], self.blocks[i]) {
            (c::DISTRIBUTE_BLOCK, c::DISTRIBUTE_DFLT_DARG) => (size + processes - 1) / processes,
            (c::DISTRIBUTE_CYCLIC, c::DISTRIBUTE_DFLT_DARG) => 1,
            (c::DISTRIBUTE_BLOCK | c::DISTRIBUTE_CYCLIC, block) => i64::from(block).max(1),
            _ => size,
        };
        let round = block * processes;
        let start = place * block;
        let rest = (size - start).max(0);
        let last = (rest % round).min(block);
        let full = repeat(rest / round, round * stride, &repeat(block, stride, tree));
        let part = repeat(last, stride, tree);
        let parts = [(0, full), (rest / round * round * stride, part)];
        let owned = parts.into_iter().filter_map(|(at, part)| Some((at, part?)));
        (start, fields(owned.collect()))
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;
    use crate::section::tree::{TreeParts, TypeTree};

    fn elements() -> ArrayElements {
        let parts = TreeParts::Whole { handle: 1, extent: 4 };
        let tree = Some(Rc::new(TypeTree { low: 0, high: 4, parts }));
        ArrayElements { tree, extent: 4 }
    }

    #[test]
    fn a_cyclic_distribution_ends_with_a_partial_block() {
        let array = DistributedArray {
            rank: 1,
            sizes: &[11],
            distributions: &[c::DISTRIBUTE_CYCLIC],
            blocks: &[2],
            processes: &[3],
            order: c::ORDER_C,
        };
        // Elements 2, 3, 8 and 9.
        let tree = array.select(elements()).unwrap().unwrap();
        assert_eq!((tree.low, tree.high), (8, 40));
    }

    #[test]
    fn a_subarray_of_c_varies_its_last_dimension_fastest() {
        let (sizes, subsizes, starts) = (&[4, 10], &[2, 3], &[1, 5]);
        let array = Subarray { sizes, subsizes, starts, order: c::ORDER_C };
        let tree = array.select(elements()).unwrap();
        assert_eq!((tree.low, tree.high), (60, 60 + 40 + 12));
    }
}
