//! Routes through a topology as lists of directed links.
//!
//! Torus: dimension order, the short way round each ring, upwards if both are equal. Node `n` owns
//! the links to its neighbours: number `2 D n + 2 d` upwards in dimension `d` of `D`, one more
//! downwards.
//!
//! Fat tree: up to the lowest switch above both nodes, then down. A switch of level `l` is (`s`, `u`):
//! `s` the subtree below it, `u` which of the switches above this subtree, a number whose digits
//! are the choices made on the way up. The way up is chosen by the destination (D-mod-k, Zahavi
//! 2012): all packets to a node come down over the same links, and shift permutations never share a
//! link if the bisection is full. The links between (`s`, `u`) and its `c`-th parent have the number
//! of (`l`, `s`, `u`, `c`), upwards even, downwards odd; level "-1" are the nodes' own links.

use super::parameters::Topology;

/// Finds routes.
#[derive(Debug, Clone)]
pub(super) enum Routes {
    Crossbar,
    Torus { dimensions: Vec<u32>, nodes: usize },
    FatTree(Tree),
}

/// A fat tree's numbers, by level.
#[derive(Debug, Clone)]
pub(super) struct Tree {
    nodes: u32,
    levels: Vec<TreeLevel>,
    links: u32,
}

#[derive(Debug, Clone)]
struct TreeLevel {
    /// Nodes below a switch.
    below: u64,
    /// Nodes below each of a switch's children.
    below_child: u64,
    /// Parents of a switch; 0 at the highest level.
    parents: u32,
    /// Switches above each subtree.
    width: u32,
    /// Number of the first link from this level to the next.
    first_link: u32,
}

impl Routes {
    /// For a topology that was checked.
    pub fn new(topology: &Topology, nodes: u32) -> Routes {
        match topology {
            Topology::Crossbar => Routes::Crossbar,
            Topology::Torus { dimensions } => Routes::Torus {
                dimensions: dimensions.clone(),
                nodes: dimensions.iter().map(|d| *d as usize).product(),
            },
            Topology::FatTree { children, parents } => {
                Routes::FatTree(Tree::new(children, parents, nodes))
            }
        }
    }

    /// Number of directed links.
    pub fn links(&self) -> usize {
        match self {
            Routes::Crossbar => 0,
            Routes::Torus { dimensions, nodes } => 2 * dimensions.len() * nodes,
            Routes::FatTree(tree) => tree.links as usize,
        }
    }

    /// Writes the links from `from` to `to` to `route`, in order.
    pub fn find(&self, from: u32, to: u32, route: &mut Vec<u32>) {
        route.clear();
        match self {
            Routes::Crossbar => {}
            Routes::Torus { dimensions, .. } => torus_route(dimensions, from, to, route),
            Routes::FatTree(tree) => tree.find(from, to, route),
        }
    }
}

fn torus_route(dimensions: &[u32], from: u32, to: u32, route: &mut Vec<u32>) {
    let links = 2 * dimensions.len() as u32;
    let mut at = from;
    let mut stride = 1;
    for (dimension, size) in dimensions.iter().enumerate() {
        let mut place = at / stride % size;
        let target = to / stride % size;
        let upwards = (target + size - place) % size;
        let (steps, is_down) = if 2 * upwards <= *size {
            (upwards, 0)
        } else {
            (size - upwards, 1)
        };
        for _ in 0..steps {
            route.push(links * at + 2 * dimension as u32 + is_down);
            let next = (place + if is_down == 1 { size - 1 } else { 1 }) % size;
            at = at - place * stride + next * stride;
            place = next;
        }
        stride *= size;
    }
}

impl Tree {
    fn new(children: &[u32], parents: &[u32], nodes: u32) -> Tree {
        let mut levels = Vec::new();
        let (mut below, mut width, mut first_link) = (1_u64, 1_u32, 2 * nodes);
        for (level, count) in children.iter().enumerate() {
            let below_child = below;
            below = below.saturating_mul(u64::from(*count));
            let parents = parents.get(level).copied().unwrap_or(0);
            levels.push(TreeLevel {
                below,
                below_child,
                parents,
                width,
                first_link,
            });
            let subtrees = u64::from(nodes).div_ceil(below) as u32;
            first_link += 2 * subtrees * width * parents;
            width *= parents.max(1);
        }
        Tree {
            nodes,
            levels,
            links: first_link,
        }
    }

    fn find(&self, from: u32, to: u32, route: &mut Vec<u32>) {
        debug_assert!(from < self.nodes && to < self.nodes);
        if from == to {
            return;
        }
        let (source, target) = (u64::from(from), u64::from(to));
        let common = |level: &TreeLevel| source / level.below == target / level.below;
        let top = self.levels.iter().position(common);
        let top = top.unwrap_or(self.levels.len() - 1);
        route.push(2 * from);
        // The switch among those above its subtree, as one goes up.
        let mut switch = 0;
        for level in &self.levels[..top] {
            let choice = (target / level.below_child % u64::from(level.parents)) as u32;
            route.push(level.link(source, switch, choice));
            switch += choice * level.width;
        }
        for level in self.levels[..top].iter().rev() {
            let choice = switch / level.width;
            switch %= level.width;
            route.push(level.link(target, switch, choice) + 1);
        }
        route.push(2 * to + 1);
    }
}

impl TreeLevel {
    /// The link up from a switch of this level above `node`.
    fn link(&self, node: u64, switch: u32, choice: u32) -> u32 {
        let subtree = (node / self.below) as u32;
        self.first_link + 2 * ((subtree * self.width + switch) * self.parents + choice)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn route(routes: &Routes, from: u32, to: u32) -> Vec<u32> {
        let mut route = Vec::new();
        routes.find(from, to, &mut route);
        route
    }

    /// Follows a route of links from router to router.
    fn walk(dimensions: &[u32], from: u32, route: &[u32]) -> u32 {
        let links = 2 * dimensions.len() as u32;
        route.iter().fold(from, |at, link| {
            assert_eq!(link / links, at, "a link leaves from where the packet is");
            let dimension = (link % links / 2) as usize;
            let stride: u32 = dimensions[..dimension].iter().product();
            let size = dimensions[dimension];
            let place = at / stride % size;
            let step = if link % 2 == 1 { size - 1 } else { 1 };
            at - place * stride + (place + step) % size * stride
        })
    }

    proptest! {
        #[test]
        fn torus_routes_are_shortest_and_in_dimension_order(
            dimensions in prop::collection::vec(1_u32..6, 1..4),
            ends in (any::<u32>(), any::<u32>()),
        ) {
            let nodes: u32 = dimensions.iter().product();
            let topology = Topology::Torus { dimensions: dimensions.clone() };
            let routes = Routes::new(&topology, nodes);
            let (from, to) = (ends.0 % nodes, ends.1 % nodes);
            let route = route(&routes, from, to);
            prop_assert_eq!(walk(&dimensions, from, &route), to);
            let mut stride = 1;
            let mut distance = 0;
            for size in &dimensions {
                let apart = (from / stride % size).abs_diff(to / stride % size);
                distance += apart.min(size - apart);
                stride *= size;
            }
            prop_assert_eq!(route.len() as u32, distance);
            let links = 2 * dimensions.len() as u32;
            prop_assert!(route.is_sorted_by_key(|link| link % links / 2));
            prop_assert!(route.iter().all(|link| (*link as usize) < routes.links()));
        }

        #[test]
        fn fat_tree_routes_are_up_and_down_and_never_twice_over_a_link(
            children in prop::collection::vec(1_u32..5, 1..4),
            seed in (any::<u32>(), any::<u32>(), 1_u32..4),
        ) {
            let nodes: u32 = children.iter().product();
            let parents = vec![seed.2; children.len() - 1];
            let topology = Topology::FatTree { children: children.clone(), parents };
            let routes = Routes::new(&topology, nodes);
            let (from, to) = (seed.0 % nodes, seed.1 % nodes);
            let route = route(&routes, from, to);
            let mut levels = 0;
            let mut below = 1;
            while from / below != to / below {
                below *= children[levels];
                levels += 1;
            }
            prop_assert_eq!(route.len(), 2 * levels);
            let distinct: BTreeSet<u32> = route.iter().copied().collect();
            prop_assert_eq!(distinct.len(), route.len());
            let is_down: Vec<u32> = route.iter().map(|link| link % 2).collect();
            prop_assert!(is_down.is_sorted());
            prop_assert!(route.iter().all(|link| (*link as usize) < routes.links()));
        }
    }

    #[test]
    fn routes_to_a_node_come_down_over_the_same_links() {
        let (children, parents) = (vec![4, 4, 4], vec![4, 4]);
        let routes = Routes::new(&Topology::FatTree { children, parents }, 64);
        let down = |from| route(&routes, from, 37)[3..].to_vec();
        assert_eq!(route(&routes, 0, 37).len(), 6);
        assert!((1..32).all(|from| down(from) == down(0)));
    }

    #[test]
    fn shifts_share_no_link_of_a_fat_tree_with_full_bisection() {
        let (children, parents) = (vec![4, 4, 4], vec![4, 4]);
        let routes = Routes::new(&Topology::FatTree { children, parents }, 64);
        for shift in 1..64 {
            let mut taken = BTreeSet::new();
            for from in 0..64 {
                let links = route(&routes, from, (from + shift) % 64);
                assert!(links.into_iter().all(|link| taken.insert(link)), "{shift}");
            }
        }
    }
}
