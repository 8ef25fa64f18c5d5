//! Grids of processes: ranks in row-major order, the last dimension fastest, as `MPI_Cart_create`
//! numbers them.

/// A grid of processes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grid {
    /// Ranks in each dimension.
    pub dimensions: Vec<u32>,
    /// Whether each dimension is a ring.
    pub periodic: Vec<bool>,
}

/// A neighbour as an offset: -1, 0 or 1 in each dimension.
pub type Direction = Vec<i8>;

impl Grid {
    /// A grid without rings.
    pub fn open(dimensions: &[u32]) -> Grid {
        Grid { dimensions: dimensions.to_vec(), periodic: vec![false; dimensions.len()] }
    }

    /// Number of ranks.
    pub fn ranks(&self) -> u64 {
        self.dimensions.iter().map(|size| u64::from(*size)).product()
    }

    /// A rank's place.
    pub fn coordinates(&self, rank: u32) -> Vec<u32> {
        let mut rest = rank;
        let mut at: Vec<u32> = self
            .dimensions
            .iter()
            .rev()
            .map(|size| {
                let place = rest % size;
                rest /= size;
                place
            })
            .collect();
        at.reverse();
        at
    }

    /// The rank at a place.
    pub fn rank(&self, at: &[u32]) -> u32 {
        self.dimensions.iter().zip(at).fold(0, |rank, (size, place)| rank * size + place)
    }

    /// The neighbour in a direction, if there is one.
    pub fn neighbour(&self, rank: u32, direction: &[i8]) -> Option<u32> {
        let mut at = self.coordinates(rank);
        for (dimension, step) in direction.iter().enumerate() {
            let size = i64::from(self.dimensions[dimension]);
            let moved = i64::from(at[dimension]) + i64::from(*step);
            let wraps = !(0..size).contains(&moved);
            if wraps && !self.periodic[dimension] {
                return None;
            }
            at[dimension] = moved.rem_euclid(size) as u32;
        }
        Some(self.rank(&at))
    }

    /// The directions in which `peer` is a neighbour of `rank`: none, one, or several in a ring of
    /// two or one.
    pub fn directions(&self, rank: u32, peer: u32) -> Vec<Direction> {
        let all = all_directions(self.dimensions.len());
        all.into_iter().filter(|direction| self.neighbour(rank, direction) == Some(peer)).collect()
    }
}

/// Every direction but none at all, in order.
pub fn all_directions(dimensions: usize) -> Vec<Direction> {
    let mut all: Vec<Direction> = vec![Vec::new()];
    for _ in 0..dimensions {
        let longer = |direction: Direction| {
            [-1, 0, 1].map(|step| direction.iter().copied().chain([step]).collect())
        };
        all = all.into_iter().flat_map(longer).collect();
    }
    all.retain(|direction| direction.iter().any(|step| *step != 0));
    all
}

/// All ways to write `ranks` as a product of `dimensions` factors, in order.
pub fn factorizations(ranks: u32, dimensions: usize) -> Vec<Vec<u32>> {
    match dimensions {
        0 => Vec::new(),
        1 => vec![vec![ranks]],
        _ => {
            let divisors = (1..=ranks).filter(|d| ranks.is_multiple_of(*d));
            let with = |first: u32| {
                let rest = factorizations(ranks / first, dimensions - 1);
                rest.into_iter().map(move |rest| [vec![first], rest].concat())
            };
            divisors.flat_map(with).collect()
        }
    }
}

/// The most even factors, the largest first, as `MPI_Dims_create` gives them.
pub fn balanced(ranks: u32, dimensions: usize) -> Vec<u32> {
    let spread = |factors: &Vec<u32>| {
        let largest = factors.iter().max().copied().unwrap_or(1);
        let smallest = factors.iter().min().copied().unwrap_or(1);
        (largest - smallest, largest)
    };
    let mut all = balanced_candidates(ranks, dimensions);
    all.sort_by_key(spread);
    let mut best = all.into_iter().next().unwrap_or_else(|| vec![ranks]);
    best.sort_unstable_by(|a, b| b.cmp(a));
    best
}

/// Factors in ascending order only: few enough for 10^5 ranks and more.
fn balanced_candidates(ranks: u32, dimensions: usize) -> Vec<Vec<u32>> {
    fn extend(rest: u32, least: u32, left: usize, chosen: &mut Vec<u32>, all: &mut Vec<Vec<u32>>) {
        if left == 1 {
            all.push(chosen.iter().copied().chain([rest]).collect());
            return;
        }
        let mut factor = least;
        while u64::from(factor).pow(left as u32) <= u64::from(rest) {
            if rest.is_multiple_of(factor) {
                chosen.push(factor);
                extend(rest / factor, factor, left - 1, chosen, all);
                chosen.pop();
            }
            factor += 1;
        }
    }
    let mut all = Vec::new();
    extend(ranks, 1, dimensions.max(1), &mut Vec::new(), &mut all);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_ranks_in_rows() {
        let grid = Grid::open(&[3, 4, 5]);
        assert_eq!(grid.coordinates(33), [1, 2, 3]);
        for rank in 0..60 {
            assert_eq!(grid.rank(&grid.coordinates(rank)), rank);
        }
    }

    #[test]
    fn borders_have_no_neighbour_unless_the_dimension_is_a_ring() {
        let mut grid = Grid::open(&[2, 3]);
        assert_eq!(grid.neighbour(0, &[-1, 0]), None);
        assert_eq!(grid.neighbour(0, &[0, 1]), Some(1));
        assert_eq!(grid.neighbour(5, &[0, 1]), None);
        assert_eq!(grid.neighbour(1, &[1, 1]), Some(5));
        grid.periodic = vec![false, true];
        assert_eq!(grid.neighbour(5, &[0, 1]), Some(3));
        assert_eq!(grid.neighbour(0, &[-1, 0]), None);
        grid.periodic = vec![true, false];
        assert_eq!(grid.directions(0, 3), [vec![-1, 0], vec![1, 0]]);
        assert_eq!(all_directions(3).len(), 26);
    }

    #[test]
    fn balances_as_dims_create_does() {
        assert_eq!(balanced(8, 2), [4, 2]);
        assert_eq!(balanced(100_000, 2), [400, 250]);
        assert_eq!(balanced(12, 3), [3, 2, 2]);
        assert_eq!(balanced(7, 2), [7, 1]);
        assert_eq!(balanced(100_000, 3), [50, 50, 40]);
        assert_eq!(factorizations(6, 2).len(), 4);
    }
}
