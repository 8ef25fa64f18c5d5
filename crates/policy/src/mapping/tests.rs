use mica_node::topology::{BindTo, Machine, MapBy, map as map_to_cores};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::*;

/// The places of `ranks` ranks on a synthetic machine, core after core.
fn machine(description: &str, ranks: usize) -> Vec<Place> {
    let machine = Machine::synthetic(description).unwrap();
    let slots = map_to_cores(&machine, ranks, MapBy::Core, BindTo::Core);
    slots.iter().map(|slot| Place { node: 0, core: slot.place }).collect()
}

fn on_nodes(nodes: &[u32]) -> Vec<Place> {
    let place = |&node: &u32| Place { node, core: CorePlace::UNKNOWN };
    nodes.iter().map(place).collect()
}

fn weighted(n: usize, edges: &[(usize, usize, u64)]) -> Links {
    let edges = edges.iter();
    Links::new(n, edges.map(|&(a, b, w)| (a, b, length_cost(w))))
}

fn is_permutation(order: &[usize]) {
    let mut sorted = order.to_vec();
    sorted.sort_unstable();
    assert!(sorted.into_iter().eq(0..order.len()));
}

/// The least cost of all maps.
fn brute_force(links: &Links, places: &[Place]) -> u128 {
    fn go(at: usize, order: &mut [usize], links: &Links, places: &[Place], best: &mut u128) {
        if at == order.len() {
            *best = (*best).min(links.cost(order, places));
            return;
        }
        for other in at..order.len() {
            order.swap(at, other);
            go(at + 1, order, links, places, best);
            order.swap(at, other);
        }
    }
    let mut best = u128::MAX;
    let mut order: Vec<usize> = (0..places.len()).collect();
    go(0, &mut order, links, places, &mut best);
    best
}

#[test]
fn packages_that_share_a_numa_node_are_as_near_as_one_node() {
    // hwloc gives both packages one NUMA node.
    let places = machine("pack:2 l3:2 core:2 pu:1", 8);
    let near = |a: usize, b: usize| places[a].nearness(&places[b]);
    assert_eq!(near(0, 0), Nearness::Core);
    assert_eq!(near(0, 1), Nearness::SharedCache);
    assert_eq!(near(0, 2), Nearness::Numa);
    assert_eq!(near(0, 4), Nearness::Node);
    let unknown = on_nodes(&[0, 0, 1]);
    assert_eq!(unknown[0].nearness(&unknown[1]), Nearness::Node);
    assert_eq!(unknown[0].nearness(&unknown[2]), Nearness::Apart);
}

#[test]
fn heavy_pairs_share_a_cache() {
    let places = machine("pack:2 l3:2 core:2 pu:1", 8);
    let mut edges: Vec<(usize, usize, u64)> = (0..4).map(|i| (i, i + 4, 100)).collect();
    edges.extend((0..8).map(|i| (i, (i + 1) % 8, 1)));
    let links = weighted(8, &edges);
    let order = map(&links, &places, vec![], MappingEffort::CALL);
    is_permutation(&order);
    for i in 0..4 {
        let near = places[order[i]].nearness(&places[order[i + 4]]);
        assert_eq!(near, Nearness::SharedCache);
    }
}

#[test]
fn a_shuffled_ring_is_laid_along_the_machine() {
    // Neighbours on the ring are 5 ranks apart. Two links of the eight leave a package, two more a
    // cache in each: 4 * 1 + 2 * 3 + 2 * 4.
    let places = machine("pack:2 l3:2 core:2 pu:1", 8);
    let edges: Vec<_> = (0..8).map(|i| (i * 5 % 8, (i + 1) * 5 % 8, 1)).collect();
    let links = weighted(8, &edges);
    let order = map(&links, &places, vec![], MappingEffort::CALL);
    assert_eq!(links.cost(&order, &places), brute_force(&links, &places));
}

/// Links of a grid without wrap-around, rank = x * columns + y.
fn grid(rows: usize, columns: usize) -> Vec<(usize, usize, u64)> {
    let mut edges = Vec::new();
    for (x, y) in (0..rows).flat_map(|x| (0..columns).map(move |y| (x, y))) {
        let rank = x * columns + y;
        if y + 1 < columns {
            edges.push((rank, rank + 1, 1));
        }
        if x + 1 < rows {
            edges.push((rank, rank + columns, 1));
        }
    }
    edges
}

fn crossing(links: &Links, order: &[usize], places: &[Place]) -> u128 {
    links.costs(order, places)[Nearness::Apart as usize] / Nearness::Apart as u128
}

#[test]
fn stencils_are_cut_where_few_links_cross() {
    // 2 x 4 on two nodes of 4: cut in the middle, 2 links cross (row by row it would be 4).
    let links = weighted(8, &grid(2, 4));
    let places = on_nodes(&[0, 0, 0, 0, 1, 1, 1, 1]);
    let order = map(&links, &places, vec![], MappingEffort::CALL);
    assert_eq!(crossing(&links, &order, &places), 2);
    // 4 x 8 on four nodes of 8: two rows or 4 x 2 columns each; 3 cuts of 4 links, or 2 x 4 bricks
    // with 8 + 4.
    let links = weighted(32, &grid(4, 8));
    let places = on_nodes(&(0..32).map(|rank| rank / 8).collect::<Vec<_>>());
    let order = map(&links, &places, vec![], MappingEffort::TOOL);
    is_permutation(&order);
    assert_eq!(crossing(&links, &order, &places), 12);
}

#[test]
fn unequal_nodes_and_more_ranks_than_cores() {
    // Three ranks that talk, two that talk: nodes of 2 and 3.
    let links = weighted(5, &[(0, 2, 9), (2, 4, 9), (0, 4, 9), (1, 3, 5)]);
    let places = on_nodes(&[0, 0, 1, 1, 1]);
    let order = map(&links, &places, vec![], MappingEffort::CALL);
    assert_eq!(crossing(&links, &order, &places), 0);
    // Two ranks on each core: pairs meet there.
    let places = machine("pack:1 l3:2 core:2 pu:1", 8);
    let links = weighted(8, &[(0, 1, 1), (2, 3, 1), (4, 5, 1), (6, 7, 1)]);
    let order = map(&links, &places, vec![], MappingEffort::CALL);
    assert_eq!(links.cost(&order, &places), 0);
}

#[test]
fn ranks_stay_if_nothing_is_gained() {
    let all: Vec<_> = (0..6).flat_map(|a| (0..a).map(move |b| (a, b, 7))).collect();
    let places = machine("pack:2 core:3 pu:1", 6);
    for links in [weighted(6, &all), weighted(6, &[])] {
        assert!(map(&links, &places, vec![], MappingEffort::CALL).into_iter().eq(0..6));
    }
    let alike = on_nodes(&[3; 6]);
    let links = weighted(6, &[(0, 5, 1)]);
    assert!(map(&links, &alike, vec![], MappingEffort::CALL).into_iter().eq(0..6));
}

#[test]
fn near_messages_take_less_time() {
    let costs = PathCosts::default();
    for length in [0, 8, 1 << 10, 64 << 10, 4 << 20] {
        let traffic = PairTraffic { from: 0, to: 1, messages: 10, bytes: 10 * length };
        let cost = time_cost(&traffic, &costs);
        assert!(cost.is_sorted() && cost[0] > 0, "{length}: {cost:?}");
        assert!(cost[Nearness::Node as usize] < cost[Nearness::Apart as usize]);
    }
    let none = PairTraffic { from: 0, to: 1, messages: 0, bytes: 0 };
    assert_eq!(time_cost(&none, &costs), [0; NEARNESSES]);
}

const MACHINES: [&str; 4] = [
    "pack:2 l3:2 core:2 pu:1",
    "pack:1 l3:4 core:2 pu:1",
    "pack:2 core:4 pu:1",
    "pack:3 l3:1 core:1 pu:1",
];

proptest! {
    // The search is a heuristic: of cases that differ in each run, one in some ten thousand is
    // above the bound.
    #![proptest_config(ProptestConfig {
        cases: 400,
        rng_seed: RngSeed::Fixed(1),
        ..ProptestConfig::default()
    })]

    /// On machines of any kind and nodes of different sizes: not above the least cost by more
    /// than a tenth, which all permutations prove, and never above the cost of no change.
    #[test]
    fn is_near_the_best_of_all_maps(
        n in 2_usize..8,
        edges in proptest::collection::vec((0_usize..8, 0_usize..8, 1_u64..1000), 1..20),
        which in 0_usize..4,
        split in 0_usize..8,
    ) {
        let mut places = machine(MACHINES[which], n);
        for (rank, place) in places.iter_mut().enumerate() {
            place.node = u32::from(rank >= split);
        }
        let edges: Vec<_> = edges.iter().map(|&(a, b, w)| (a % n, b % n, w)).collect();
        let links = weighted(n, &edges);
        let order = map(&links, &places, vec![], MappingEffort::CALL);
        is_permutation(&order);
        let cost = links.cost(&order, &places);
        let plain: Vec<usize> = (0..n).collect();
        prop_assert!(cost <= links.cost(&plain, &places));
        prop_assert!(cost * 10 <= brute_force(&links, &places) * 11);
        prop_assert_eq!(order, map(&links, &places, vec![], MappingEffort::CALL));
    }
}
