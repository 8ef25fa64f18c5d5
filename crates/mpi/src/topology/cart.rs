//! Cartesian topologies (MPI 5.0, 8.5.1, 8.5.5 to 8.5.8): ranks lie in the grid in row-major order.

use crate::constants as c;
use crate::error::{Error, Result};
use crate::lenient;

/// A grid of processes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cart {
    dims: Vec<i32>,
    periods: Vec<bool>,
}

impl Cart {
    /// A grid of these lengths; `periods` says which dimensions close to a ring.
    ///
    /// # Errors
    /// `MPI_ERR_DIMS` unless all lengths are positive and `room` processes fill the grid.
    pub fn new(dims: &[i32], periods: &[bool], room: usize) -> Result<Cart> {
        if let Some((i, dim)) = dims.iter().enumerate().find(|&(_, &dim)| dim < 1) {
            let reason = format!("dims[{i}] = {dim}; the length of a dimension is at least 1");
            return Err(Error::argument(c::ERR_DIMS, "dims", list(dims), reason));
        }
        let size = dims.iter().try_fold(1_usize, |size, &dim| size.checked_mul(dim as usize));
        if size.is_none_or(|size| size > room) {
            let reason =
                format!("the grid is larger than the communicator, which has {room} ranks");
            return Err(Error::argument(c::ERR_DIMS, "dims", list(dims), reason));
        }
        Ok(Cart { dims: dims.to_vec(), periods: periods.to_vec() })
    }

    /// As [`new`](Self::new), but `None` for a grid without processes, as MPICH and Intel MPI have
    /// it.
    pub(super) fn unless_empty(
        dims: &[i32],
        periods: &[bool],
        room: usize,
    ) -> Result<Option<Cart>> {
        if dims.contains(&0) && dims.iter().all(|&dim| dim >= 0) {
            lenient::EMPTY_GRID.note();
            return Ok(None);
        }
        Cart::new(dims, periods, room).map(Some)
    }

    /// The lengths of its dimensions.
    pub fn dims(&self) -> &[i32] {
        &self.dims
    }

    /// Which dimensions are rings.
    pub fn periods(&self) -> &[bool] {
        &self.periods
    }

    /// Number of its processes.
    pub fn size(&self) -> usize {
        self.dims.iter().map(|&dim| dim as usize).product()
    }

    /// Where `rank`, one of its ranks, lies.
    pub fn coords(&self, rank: usize) -> Vec<i32> {
        let mut rest = rank as i32; // a rank fits: ranks are C ints
        let mut coords = vec![0; self.dims.len()];
        for (coord, &dim) in coords.iter_mut().zip(&self.dims).rev() {
            *coord = rest % dim;
            rest /= dim;
        }
        coords
    }

    /// The rank at `coords`; those of rings are taken modulo the length.
    ///
    /// # Errors
    /// `MPI_ERR_ARG` outside the grid.
    pub fn rank(&self, coords: &[i32]) -> Result<i32> {
        self.find(coords.iter().map(|&coord| i64::from(coord))).ok_or_else(|| {
            let reason = format!("the grid has the lengths {}", list(&self.dims));
            Error::argument(c::ERR_ARG, "coords", list(coords), reason)
        })
    }

    /// The rank at these coordinates, if it is in the grid.
    fn find(&self, coords: impl IntoIterator<Item = i64>) -> Option<i32> {
        let mut rank = 0;
        for ((coord, &dim), &ring) in coords.into_iter().zip(&self.dims).zip(&self.periods) {
            let dim = i64::from(dim);
            let coord = if ring { coord.rem_euclid(dim) } else { coord };
            if !(0..dim).contains(&coord) {
                return None;
            }
            rank = rank * dim + coord;
        }
        Some(rank as i32)
    }

    /// `MPI_Cart_shift` for `rank`: the ranks that it receives from and sends to when all data
    /// moves
    /// `distance` along `direction`.
    ///
    /// # Errors
    /// `MPI_ERR_DIMS` if there is no such dimension.
    pub fn shift(&self, rank: usize, direction: i32, distance: i32) -> Result<(i32, i32)> {
        let dimension = usize::try_from(direction).ok().filter(|&d| d < self.dims.len());
        let dimension = dimension.ok_or_else(|| {
            let reason = format!("the grid has {} dimensions, from 0 on", self.dims.len());
            Error::argument(c::ERR_DIMS, "direction", direction, reason)
        })?;
        let here = self.coords(rank);
        let distance = i64::from(distance);
        Ok((self.along(&here, dimension, -distance), self.along(&here, dimension, distance)))
    }

    fn along(&self, from: &[i32], dimension: usize, distance: i64) -> i32 {
        let moved = from.iter().enumerate().map(|(i, &coord)| {
            let step = if i == dimension { distance } else { 0 };
            i64::from(coord) + step
        });
        self.find(moved).unwrap_or(c::PROC_NULL)
    }

    /// The neighbours of `rank`: for each dimension the one before and the one after.
    pub fn around(&self, rank: usize) -> Vec<i32> {
        let here = self.coords(rank);
        (0..self.dims.len())
            .flat_map(|d| [self.along(&here, d, -1), self.along(&here, d, 1)])
            .collect()
    }

    /// The grid of the dimensions that `remain`; the number of `rank`'s slice, and its rank in
    /// there.
    pub(super) fn slice(&self, remain: &[bool], rank: usize) -> (Cart, i32, i32) {
        let kept = |keep: bool| move |&(_, &remains): &(usize, &bool)| remains == keep;
        let part = |keep: bool| -> Cart {
            let kept = remain.iter().enumerate().filter(kept(keep));
            let (dims, periods) = kept.map(|(i, _)| (self.dims[i], self.periods[i])).unzip();
            Cart { dims, periods }
        };
        let here = self.coords(rank);
        let number = |keep: bool| {
            let kept = remain.iter().enumerate().filter(kept(keep));
            let inside = part(keep).find(kept.map(|(i, _)| i64::from(here[i])));
            inside.expect("the coordinates of a rank lie in the grid")
        };
        (part(true), number(false), number(true))
    }
}

/// A list of numbers as messages show it.
pub(super) fn list(numbers: &[i32]) -> String {
    format!("{numbers:?}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid(dims: &[i32], periods: &[bool]) -> Cart {
        Cart::new(dims, periods, 1000).unwrap()
    }

    #[test]
    fn coordinates_and_ranks_are_inverse_and_row_major() {
        let cart = grid(&[2, 3, 4], &[false; 3]);
        assert_eq!(cart.coords(23), [1, 2, 3]);
        for rank in 0..24 {
            assert_eq!(cart.rank(&cart.coords(rank)), Ok(rank as i32));
        }
        let point = grid(&[], &[]);
        assert_eq!((point.size(), point.coords(0), point.rank(&[])), (1, vec![], Ok(0)));
    }

    #[test]
    fn rings_wrap_and_lines_end() {
        let cart = grid(&[3, 4], &[true, false]);
        assert_eq!(cart.rank(&[-1, 2]), cart.rank(&[2, 2]));
        assert_eq!(cart.rank(&[i32::MIN, 0]).unwrap(), 4 * i32::MIN.rem_euclid(3));
        assert_eq!(cart.rank(&[0, 4]).unwrap_err().code(), c::ERR_ARG);
        assert_eq!(cart.shift(0, 0, 1), Ok((8, 4)));
        assert_eq!(cart.shift(0, 1, 1), Ok((c::PROC_NULL, 1)));
        assert_eq!(cart.shift(5, 0, i32::MIN), Ok((1, 9)));
        assert_eq!(cart.shift(5, 1, 0), Ok((5, 5)));
        assert_eq!(cart.shift(5, 2, 1).unwrap_err().code(), c::ERR_DIMS);
        assert_eq!(cart.around(3), [11, 7, 2, c::PROC_NULL]);
    }

    #[test]
    fn grids_that_do_not_fit_are_refused() {
        for dims in [&[2, 0][..], &[-1], &[11, 91], &[i32::MAX; 8]] {
            let error = Cart::new(dims, &vec![false; dims.len()], 1000).unwrap_err();
            assert_eq!(error.code(), c::ERR_DIMS);
        }
    }

    #[test]
    pub(super) fn slices_partition_the_grid() {
        let cart = grid(&[2, 3, 4], &[true, false, true]);
        let (sub, color, key) = cart.slice(&[false, true, true], 23);
        assert_eq!(sub, grid(&[3, 4], &[false, true]));
        assert_eq!((color, key), (1, 11));
        let (sub, color, key) = cart.slice(&[true, false, false], 23);
        assert_eq!((sub.size(), color, key), (2, 11, 1));
        let (point, color, key) = cart.slice(&[false; 3], 7);
        assert_eq!((point.size(), color, key), (1, 7, 0));
    }
}
