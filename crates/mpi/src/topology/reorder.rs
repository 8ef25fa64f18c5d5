//! New ranks for the processes of a topology, so that neighbours sit close on the machine.
//!
//! The mapper is `mica_policy::mapping`, which `mpiexec --map-by profile:FILE` uses too; here are
//! its inputs. Every link has its weight, and costs by the number of levels of the machine between
//! its ends. For a grid there is one more proposal: it is cut into bricks, one for each node or
//! package, these into bricks for each NUMA node, and so on down to the cores, each with as little
//! surface as its number of processes allows (Gropp, "Using Node and Socket Information to
//! Implement MPI Cartesian Topologies", 2019).
//!
//! Where ranks are on several nodes, only the node counts: a process does not know where on another
//! node a rank sits.
//!
//! Both are only proposals: ranks stay as they are unless the total length of all links shrinks, so
//! they also stay where places are unknown or equal. All processes compute the same result from the
//! same places.

use mica_policy::mapping::{
    LEVELS, Links, MappingEffort, Place, along, differ, length_cost, map, parts_at,
};

use super::cart::Cart;

/// The links of a graph with these edges (from, to, weight).
pub fn links(nodes: usize, edges: impl Iterator<Item = (usize, usize, u64)>) -> Links {
    Links::new(nodes, edges.map(|(from, to, weight)| (from, to, length_cost(weight))))
}

fn links_of_grid(cart: &Cart) -> Links {
    let around = |from: usize| cart.around(from).into_iter().map(move |to| (from, to));
    let edges = (0..cart.size()).flat_map(around);
    let inside = edges.filter_map(|(from, to)| Some((from, usize::try_from(to).ok()?, 1)));
    links(cart.size(), inside)
}

/// The old rank of each rank of a grid, whose old ranks sit at `places`.
pub fn grid(cart: &Cart, places: &[Place]) -> Vec<usize> {
    if !differ(places) {
        return (0..places.len()).collect();
    }
    let slots = along(places);
    let whole = Brick { corner: vec![0; cart.dims().len()], lengths: cart.dims().to_vec() };
    let mut order = vec![0; places.len()];
    fill(cart, &whole, &slots, places, 0, &mut order);
    map(&links_of_grid(cart), places, vec![order], MappingEffort::CALL)
}

/// A part of a grid.
struct Brick {
    corner: Vec<i32>,
    lengths: Vec<i32>,
}

impl Brick {
    /// The brick's parts of these lengths, in row-major order.
    fn cut(&self, lengths: &[i32]) -> impl Iterator<Item = Brick> {
        let counts = self.lengths.iter().zip(lengths).map(|(a, b)| a / b);
        let counts: Vec<i32> = counts.collect();
        let number: usize = counts.iter().map(|&count| count as usize).product();
        let steps = Cart::new(&counts, &vec![false; counts.len()], number);
        let steps = steps.expect("counts are positive");
        (0..number).map(move |i| {
            let corner = steps.coords(i);
            let corner = corner.iter().zip(lengths).zip(&self.corner);
            Brick {
                corner: corner.map(|((step, length), from)| from + step * length).collect(),
                lengths: lengths.to_vec(),
            }
        })
    }

    /// Lengths of equal parts with `size` cells each and the least surface; `None` if the brick has
    /// no such parts.
    fn cells(&self, size: usize) -> Option<Vec<i32>> {
        let mut best = None;
        self.try_cells(size, &mut Vec::new(), &mut best);
        best.map(|(_, lengths)| lengths)
    }

    fn try_cells(&self, left: usize, lengths: &mut Vec<i32>, best: &mut Option<(usize, Vec<i32>)>) {
        let Some(&whole) = self.lengths.get(lengths.len()) else {
            if left == 1 {
                let surface = surface(lengths);
                if best.as_ref().is_none_or(|(least, _)| surface < *least) {
                    *best = Some((surface, lengths.clone()));
                }
            }
            return;
        };
        // Longest first: of equal surfaces, the one that keeps the first dimensions whole wins.
        for length in (1..=whole).rev() {
            if whole % length == 0 && left.is_multiple_of(length as usize) {
                lengths.push(length);
                self.try_cells(left / length as usize, lengths, best);
                lengths.pop();
            }
        }
    }
}

/// Number of cells at the faces of a brick with these lengths, one face for each dimension.
fn surface(lengths: &[i32]) -> usize {
    let size: usize = lengths.iter().map(|&length| length as usize).product();
    lengths.iter().map(|&length| size / length as usize).sum()
}

/// Gives the cells of `brick` to the processes in `slots`, part by part of the machine from `level`
/// on.
fn fill(
    cart: &Cart,
    brick: &Brick,
    slots: &[usize],
    places: &[Place],
    level: usize,
    order: &mut [usize],
) {
    if level < LEVELS {
        let groups = parts_at(slots, places, level);
        if let [_] = groups[..] {
            return fill(cart, brick, slots, places, level + 1, order);
        }
        let size = groups[0].len();
        if let Some(lengths) = brick.cells(size).filter(|_| groups.iter().all(|g| g.len() == size))
        {
            for (group, brick) in groups.iter().zip(brick.cut(&lengths)) {
                fill(cart, &brick, group, places, level + 1, order);
            }
            return;
        }
    }
    let ones = vec![1; brick.lengths.len()];
    for (cell, &slot) in brick.cut(&ones).zip(slots) {
        let rank = cart.rank(&cell.corner).expect("a cell lies in its grid");
        order[rank as usize] = slot;
    }
}

/// The old rank of each node of a graph, whose old ranks sit at `places`.
pub fn graph(links: &Links, places: &[Place]) -> Vec<usize> {
    map(links, places, Vec::new(), MappingEffort::CALL)
}

#[cfg(test)]
mod tests {
    use super::*;
    use mica_node::topology::CorePlace;

    fn place(core: u32, shared_cache: u32, package: u32) -> Place {
        let core = CorePlace { core, shared_cache, package, numa: package, processing_unit: core };
        Place { node: 0, core }
    }

    const UNKNOWN: Place = Place { node: 0, core: CorePlace::UNKNOWN };

    /// `packages` of `caches` of `cores`, ranks spread round-robin over the packages.
    fn machine(packages: u32, caches: u32, cores: u32) -> Vec<Place> {
        let each = caches * cores;
        let rank = |r: u32| {
            let (package, core) = (r % packages, r % packages * each + r / packages);
            let core = package * each + core;
            place(core, core / cores, package)
        };
        (0..packages * each).map(rank).collect()
    }

    fn grid_of(dims: &[i32], ring: bool) -> Cart {
        Cart::new(dims, &vec![ring; dims.len()], 10_000).unwrap()
    }

    fn is_permutation(order: &[usize]) {
        let mut sorted = order.to_vec();
        sorted.sort_unstable();
        assert!(sorted.into_iter().eq(0..order.len()));
    }

    #[test]
    fn ranks_stay_where_nothing_is_known_or_all_is_alike() {
        let cart = grid_of(&[4, 3], true);
        for place in [UNKNOWN, place(0, 0, 0)] {
            let places = vec![place; 12];
            assert!(grid(&cart, &places).into_iter().eq(0..12));
            assert!(graph(&links_of_grid(&cart), &places).into_iter().eq(0..12));
        }
    }

    #[test]
    fn nodes_get_bricks() {
        // 4 x 4 cells on 4 nodes, ranks dealt round-robin: 2 x 2 cells a node.
        let node = |r: u32| Place { node: r % 4, ..UNKNOWN };
        let places: Vec<Place> = (0..16).map(node).collect();
        let cart = grid_of(&[4, 4], false);
        let order = grid(&cart, &places);
        is_permutation(&order);
        let cell = |x: i32, y: i32| places[order[cart.rank(&[x, y]).unwrap() as usize]].node;
        for (x, y) in (0..4).flat_map(|x| (0..4).map(move |y| (x, y))) {
            assert_eq!(cell(x, y), cell(x / 2 * 2, y / 2 * 2));
        }
    }

    #[test]
    fn packages_get_bricks() {
        // 8 x 8 cells on 4 packages of 16: bricks of 4 x 4, in which caches have 2 x 2.
        let (cart, places) = (grid_of(&[8, 8], false), machine(4, 4, 4));
        let order = grid(&cart, &places);
        is_permutation(&order);
        let cell = |x: i32, y: i32| places[order[cart.rank(&[x, y]).unwrap() as usize]];
        for x in 0..8 {
            for y in 0..8 {
                assert_eq!(cell(x, y).core.package, cell(x / 4 * 4, y / 4 * 4).core.package);
                assert_eq!(
                    cell(x, y).core.shared_cache,
                    cell(x / 2 * 2, y / 2 * 2).core.shared_cache
                );
            }
        }
    }

    #[test]
    fn no_order_makes_links_longer() {
        for (packages, caches, cores) in [(1, 1, 8), (2, 2, 3), (3, 2, 2), (4, 1, 6), (2, 8, 1)] {
            let mut places = machine(packages, caches, cores);
            for round in 0..3 {
                let n = places.len() as i32;
                for dims in [vec![n], vec![n / 2, 2], vec![2, n / 4, 2]] {
                    let cart = grid_of(&dims, round == 0);
                    let size = cart.size();
                    let links = links_of_grid(&cart);
                    for order in [grid(&cart, &places[..size]), graph(&links, &places[..size])] {
                        is_permutation(&order);
                        let plain: Vec<usize> = (0..size).collect();
                        assert!(links.cost(&order, &places) <= links.cost(&plain, &places));
                    }
                }
                // Unequal parts, and a place that is not known.
                places.truncate(places.len() - 1);
                places[1] = UNKNOWN;
            }
        }
    }

    #[test]
    fn pairs_of_a_graph_come_together() {
        // Node i talks to i + 4 only; ranks 0 to 3 sit in one package, 4 to 7 in the other.
        let places: Vec<Place> = (0..8).map(|r| place(r, r / 4, r / 4)).collect();
        let links = super::links(8, (0..4).map(|i| (i, i + 4, 3)));
        let order = graph(&links, &places);
        is_permutation(&order);
        for i in 0..4 {
            assert_eq!(places[order[i]].core.package, places[order[i + 4]].core.package);
        }
    }
}
