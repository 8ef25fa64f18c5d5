//! Routes through a topology as lists of directed links.
//!
//! Torus: dimension order, first the first; the short way round each ring, upwards if both are as
//! short; in a dimension that is no ring, straight on. Node `n` owns the links to its neighbours:
//! number `2 D n + 2 d` upwards in dimension `d` of `D`, one more downwards.
//!
//! Fat tree (a k-ary n-tree, Petrini and Vanneschi 1997): up to the lowest switches above both
//! nodes, then down. A switch of level `l` is (`s`, `u`): `s` the subtree below it, `u` which of
//! the `k^l` switches above this subtree, a number whose digits are the choices made on the way
//! up. They are made by the destination (D-mod-k, Zahavi 2012): all packets to a node come down
//! over the same links, and no two packets of a shift permutation share a link. The links between
//! (`s`, `u`) and its `c`-th parent are numbered by (`l`, `s`, `u`, `c`), upwards even, downwards
//! odd, after the nodes' own.

use crate::machine::NetworkTopology;

/// Finds routes.
#[derive(Debug, Clone)]
pub(super) enum Routes {
    Crossbar,
    Torus(Vec<Dimension>),
    FatTree(FatTree),
}

/// A dimension of a torus.
#[derive(Debug, Clone)]
pub(super) struct Dimension {
    size: u32,
    /// Distance of neighbours in the numbers of nodes.
    stride: u32,
    is_ring: bool,
}

/// A fat tree's numbers.
#[derive(Debug, Clone)]
pub(super) struct FatTree {
    arity: u32,
    levels: Vec<TreeLevel>,
    links: u32,
}

#[derive(Debug, Clone)]
struct TreeLevel {
    /// Nodes below a switch.
    below: u64,
    /// Switches above each subtree.
    width: u32,
    /// Number of the first link from this level to the next.
    first_link: u32,
}

impl Routes {
    /// For a topology with room for `nodes` nodes.
    pub fn new(topology: &NetworkTopology, nodes: u32) -> Routes {
        match topology {
            NetworkTopology::Crossbar => Routes::Crossbar,
            NetworkTopology::Torus { dimensions, rings } => {
                let sizes = dimensions.iter().enumerate();
                let dimensions = sizes.map(|(d, size)| Dimension {
                    size: *size,
                    stride: dimensions[d + 1..].iter().product(),
                    is_ring: rings.get(d).copied().unwrap_or(true),
                });
                Routes::Torus(dimensions.collect())
            }
            NetworkTopology::FatTree { arity, levels } => {
                Routes::FatTree(FatTree::new(*arity, *levels, nodes))
            }
        }
    }

    /// Number of directed links.
    pub fn links(&self) -> usize {
        match self {
            Routes::Crossbar => 0,
            Routes::Torus(dimensions) => {
                let sizes = dimensions.iter().map(|d| d.size as usize);
                2 * dimensions.len() * sizes.product::<usize>()
            }
            Routes::FatTree(tree) => tree.links as usize,
        }
    }

    /// Writes the links from `from` to `to` to `route`, in order.
    pub fn find(&self, from: u32, to: u32, route: &mut Vec<u32>) {
        route.clear();
        match self {
            Routes::Crossbar => {}
            Routes::Torus(dimensions) => torus_route(dimensions, from, to, route),
            Routes::FatTree(tree) => tree.find(from, to, route),
        }
    }
}

fn torus_route(dimensions: &[Dimension], from: u32, to: u32, route: &mut Vec<u32>) {
    let links = 2 * dimensions.len() as u32;
    let mut at = from;
    for (d, dimension) in dimensions.iter().enumerate() {
        let (size, stride) = (dimension.size, dimension.stride);
        let mut place = at / stride % size;
        let target = to / stride % size;
        let upwards = (target + size - place) % size;
        let is_up = if dimension.is_ring { 2 * upwards <= size } else { target > place };
        while place != target {
            route.push(links * at + 2 * d as u32 + u32::from(!is_up));
            let next = (place + if is_up { 1 } else { size - 1 }) % size;
            at = at - place * stride + next * stride;
            place = next;
        }
    }
}

impl FatTree {
    fn new(arity: u32, levels: u32, nodes: u32) -> FatTree {
        let (mut below, mut width, mut first_link) = (1_u64, 1_u32, 2 * nodes);
        let mut tree_levels = Vec::new();
        // Levels above a switch that has all nodes below it are never used.
        while below < u64::from(nodes) && tree_levels.len() < levels as usize {
            below = below.saturating_mul(u64::from(arity));
            tree_levels.push(TreeLevel { below, width, first_link });
            let subtrees = u64::from(nodes).div_ceil(below) as u32;
            width = width.saturating_mul(arity);
            if subtrees > 1 {
                first_link += 2 * subtrees * width;
            }
        }
        FatTree { arity, levels: tree_levels, links: first_link }
    }

    fn find(&self, from: u32, to: u32, route: &mut Vec<u32>) {
        if from == to {
            return;
        }
        let (source, target) = (u64::from(from), u64::from(to));
        let common = |level: &TreeLevel| source / level.below == target / level.below;
        let top = self.levels.iter().position(common).unwrap_or(0);
        route.push(2 * from);
        // The switch among those above its subtree, as one goes up.
        let mut switch = 0;
        for level in &self.levels[..top] {
            let arity = u64::from(self.arity);
            let choice = (target / (level.below / arity) % arity) as u32;
            route.push(self.link(level, source, switch, choice));
            switch += choice * level.width;
        }
        for level in self.levels[..top].iter().rev() {
            let choice = switch / level.width;
            switch %= level.width;
            route.push(self.link(level, target, switch, choice) + 1);
        }
        route.push(2 * to + 1);
    }

    /// The link up from a switch of a level above `node` to its parent `choice`.
    fn link(&self, level: &TreeLevel, node: u64, switch: u32, choice: u32) -> u32 {
        let subtree = (node / level.below) as u32;
        level.first_link + 2 * ((subtree * level.width + switch) * self.arity + choice)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::replay::Grid;

    fn route(routes: &Routes, from: u32, to: u32) -> Vec<u32> {
        let mut route = Vec::new();
        routes.find(from, to, &mut route);
        route
    }

    fn torus(dimensions: &[u32], rings: &[bool]) -> Routes {
        let topology =
            NetworkTopology::Torus { dimensions: dimensions.to_vec(), rings: rings.to_vec() };
        Routes::new(&topology, dimensions.iter().product())
    }

    fn tree(arity: u32, levels: u32) -> Routes {
        Routes::new(&NetworkTopology::FatTree { arity, levels }, arity.pow(levels))
    }

    /// Coordinates of a node; the last varies fastest.
    fn coordinates(dimensions: &[u32], node: u32) -> Vec<u32> {
        Grid::open(dimensions).coordinates(node)
    }

    /// Follows a route of links from router to router; ends at the coordinates where it ends.
    fn walk(dimensions: &[u32], rings: &[bool], from: u32, route: &[u32]) -> Vec<u32> {
        let links = 2 * dimensions.len() as u32;
        let mut at = coordinates(dimensions, from);
        for link in route {
            let owner = coordinates(dimensions, link / links);
            assert_eq!(owner, at, "a link leaves from where the packet is");
            let dimension = (link % links / 2) as usize;
            let (size, place) = (dimensions[dimension], at[dimension]);
            let end = if link % 2 == 1 { 0 } else { size - 1 };
            assert!(rings[dimension] || place != end, "no link round the ends");
            let step = if link % 2 == 1 { size - 1 } else { 1 };
            at[dimension] = (place + step) % size;
        }
        at
    }

    proptest! {
        #[test]
        fn torus_routes_are_shortest_and_in_dimension_order(
            shape in prop::collection::vec((1_u32..6, any::<bool>()), 1..4),
            ends in (any::<u32>(), any::<u32>()),
        ) {
            let (dimensions, rings): (Vec<u32>, Vec<bool>) = shape.into_iter().unzip();
            let nodes: u32 = dimensions.iter().product();
            let routes = torus(&dimensions, &rings);
            let (from, to) = (ends.0 % nodes, ends.1 % nodes);
            let route = route(&routes, from, to);
            prop_assert_eq!(walk(&dimensions, &rings, from, &route), coordinates(&dimensions, to));
            let topology = NetworkTopology::Torus { dimensions: dimensions.clone(), rings };
            prop_assert_eq!(route.len() as u32, topology.hops(from, to));
            let links = 2 * dimensions.len() as u32;
            prop_assert!(route.is_sorted_by_key(|link| link % links / 2));
            prop_assert!(route.iter().all(|link| (*link as usize) < routes.links()));
        }

        #[test]
        fn fat_tree_routes_are_up_and_down_and_never_twice_over_a_link(
            arity in 2_u32..5,
            levels in 1_u32..5,
            ends in (any::<u32>(), any::<u32>()),
        ) {
            let nodes = arity.pow(levels);
            let routes = tree(arity, levels);
            let (from, to) = (ends.0 % nodes, ends.1 % nodes);
            let route = route(&routes, from, to);
            let height = (0..).find(|l| from / arity.pow(*l) == to / arity.pow(*l));
            prop_assert_eq!(Some(route.len() as u32 / 2), height);
            let topology = NetworkTopology::FatTree { arity, levels };
            prop_assert_eq!(route.len() as u32, topology.hops(from, to));
            prop_assert_eq!(route.iter().copied().collect::<BTreeSet<u32>>().len(), route.len());
            prop_assert!(route.is_sorted_by_key(|link| link % 2));
            prop_assert!(route.iter().all(|link| (*link as usize) < routes.links()));
        }
    }

    #[test]
    fn routes_to_a_node_come_down_over_the_same_links() {
        let routes = tree(4, 3);
        let down = |from| route(&routes, from, 37)[3..].to_vec();
        assert_eq!(route(&routes, 0, 37).len(), 6);
        assert!((1..32).all(|from| down(from) == down(0)));
    }

    #[test]
    fn shifts_share_no_link_of_a_fat_tree() {
        let routes = tree(4, 3);
        for shift in 1..64 {
            let mut taken = BTreeSet::new();
            for from in 0..64 {
                let links = route(&routes, from, (from + shift) % 64);
                assert!(links.into_iter().all(|link| taken.insert(link)), "shift by {shift}");
            }
        }
    }

    #[test]
    fn a_tree_that_is_larger_than_its_nodes_has_links_for_these_alone() {
        let large = Routes::new(&NetworkTopology::FatTree { arity: 4, levels: 8 }, 20);
        assert!(large.links() < 200);
        assert_eq!(route(&large, 0, 19).len(), 6);
    }
}
