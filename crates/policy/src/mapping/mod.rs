//! Rank placement: which process runs where, so that those which exchange much are close
//! (chai-2009, 9.2).
//!
//! The input is the traffic between the processes ([`Links`]) and the places that they may take
//! ([`Place`]), one for each process. A link costs what its traffic takes over the nearest part of
//! the machine that both its ends lie in ([`Nearness`]); the cost of a map is the sum over all
//! links. This is the quadratic assignment problem on a tree. Two heuristics of the literature
//! answer it:
//!
//! - recursive partitioning along the tree of the machine, as in TreeMatch (Jeannot, Mercier,
//!   Tessier, 2014): the processes are divided among the nodes, those of a node among its packages,
//!   and so on. A part grows by the process with the heaviest links into it, and pairs of processes
//!   in different parts are exchanged as long as that gains (Kernighan and Lin, 1970);
//! - exchange of pairs in the whole map until none gains. It starts from each proposal: the
//!   partitions, those of the caller, and no change; then from perturbations of the best. The
//!   cheapest result wins, and no change wins a tie.
//!
//! All numbers are integers and every choice is decided by the lowest index, so that each process
//! of a communicator computes the same map from the same input. `MPI_Cart_create` and its kin,
//! `mpiexec --map-by profile:FILE` and `mica place` call [`map`]. `docs/design/placement.md` has
//! the reasons, and the crates that were considered.

use mica_node::topology::{CorePlace, Level, UNKNOWN};

use crate::costs::{MessagePath, PathCost, PathCosts};

mod partition;
#[cfg(test)]
mod tests;

/// The nearest part of the machine that two places share, nearest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Nearness {
    /// One core.
    Core,
    /// One shared cache.
    SharedCache,
    /// The memory of one NUMA node.
    Numa,
    /// One package.
    Package,
    /// One node.
    Node,
    /// Nothing: they are on different nodes.
    Apart,
}

/// Number of kinds of [`Nearness`].
pub const NEARNESSES: usize = 6;

impl Nearness {
    /// All of them, nearest first.
    pub const ALL: [Nearness; NEARNESSES] = [
        Nearness::Core,
        Nearness::SharedCache,
        Nearness::Numa,
        Nearness::Package,
        Nearness::Node,
        Nearness::Apart,
    ];

    /// The level whose costs a message between two such places has.
    pub fn level(self) -> Level {
        match self {
            Nearness::Core | Nearness::SharedCache => Level::SharedCache,
            Nearness::Numa | Nearness::Package => Level::Package,
            Nearness::Node => Level::Node,
            Nearness::Apart => Level::Network,
        }
    }
}

/// A place for one process: its node, and its core there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The node's number.
    pub node: u32,
    /// The place within the node, as far as it is known.
    pub core: CorePlace,
}

/// Number of levels of the tree of places.
const DEPTH: usize = NEARNESSES - 1;

impl Place {
    /// The parts of the machine that it lies in, the largest first.
    fn parts(&self) -> [u32; DEPTH] {
        let core = &self.core;
        [self.node, core.package, core.numa, core.shared_cache, core.core]
    }

    /// The nearest part that it shares with `other`. Parts that are not known are not shared, and
    /// what lies in different parts shares none of their parts: a NUMA node may span packages.
    pub fn nearness(&self, other: &Place) -> Nearness {
        let (a, b) = (self.parts(), other.parts());
        if a[0] != b[0] {
            return Nearness::Apart;
        }
        let is_known = |&i: &usize| i == 0 || (a[i] != UNKNOWN && b[i] != UNKNOWN);
        let shared = (0..DEPTH).filter(is_known).take_while(|&i| a[i] == b[i]);
        Nearness::ALL[DEPTH - 1 - shared.last().unwrap_or(0)]
    }
}

/// Whether some places are in other parts of the machine than others.
pub fn differ(places: &[Place]) -> bool {
    places.windows(2).any(|pair| pair[0].parts() != pair[1].parts())
}

/// The cost of a link, by the nearness of its ends.
pub type LinkCost = [u64; NEARNESSES];

/// The cost of a link of this weight where only the length counts: 0 on one core, 5 between nodes.
pub fn length_cost(weight: u64) -> LinkCost {
    std::array::from_fn(|nearness| weight.saturating_mul(nearness as u64))
}

/// The links of each process: the other process and the cost. A link is in the lists of both ends.
#[derive(Debug, Clone, Default)]
pub struct Links {
    of: Vec<Vec<(usize, LinkCost)>>,
}

impl Links {
    /// The links with these costs (from, to, cost). Several between the same two processes are
    /// added up; a process's link to itself costs the same everywhere and is left out.
    pub fn new(processes: usize, edges: impl Iterator<Item = (usize, usize, LinkCost)>) -> Links {
        let mut of: Vec<Vec<(usize, LinkCost)>> = vec![Vec::new(); processes];
        for (from, to, cost) in edges.filter(|(from, to, _)| from != to) {
            of[from].push((to, cost));
            of[to].push((from, cost));
        }
        for links in &mut of {
            links.sort_by_key(|&(other, _)| other);
            links.dedup_by(|next, kept| {
                let same = next.0 == kept.0;
                if same {
                    kept.1 = std::array::from_fn(|i| kept.1[i].saturating_add(next.1[i]));
                }
                same
            });
        }
        Links { of }
    }

    /// The number of processes.
    pub fn processes(&self) -> usize {
        self.of.len()
    }

    /// The cost of the map by which process `i` is at `places[order[i]]`, by nearness.
    pub fn costs(&self, order: &[usize], places: &[Place]) -> [u128; NEARNESSES] {
        let mut sums = [0; NEARNESSES];
        for (from, links) in self.of.iter().enumerate() {
            for &(to, cost) in links.iter().filter(|&&(to, _)| to > from) {
                let nearness = places[order[from]].nearness(&places[order[to]]) as usize;
                sums[nearness] += u128::from(cost[nearness]);
            }
        }
        sums
    }

    /// The sum of [`costs`](Self::costs).
    pub fn cost(&self, order: &[usize], places: &[Place]) -> u128 {
        self.costs(order, places).iter().sum()
    }

    /// What the links of `process` cost at `place`, without that to `except`.
    fn cost_at(&self, process: usize, place: &Place, except: usize, map: &Map<'_>) -> u128 {
        let links = self.of[process].iter();
        let links = links.filter(|&&(other, _)| other != except);
        let costs = links.map(|&(other, cost)| {
            let there = &map.places[map.order[other]];
            u128::from(cost[place.nearness(there) as usize])
        });
        costs.sum()
    }
}

/// A map under improvement.
struct Map<'a> {
    places: &'a [Place],
    order: Vec<usize>,
}

/// How many links an improvement may look at. It bounds the time of [`map`]: about 2 ns each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MappingEffort(pub u64);

impl MappingEffort {
    /// For a library call, which the program waits for.
    pub const CALL: MappingEffort = MappingEffort(4_000_000);
    /// For a tool, which a person waits for.
    pub const TOOL: MappingEffort = MappingEffort(400_000_000);
}

/// The place of each process: process `i` at `places[order[i]]`. `proposals` are maps to improve
/// upon besides the mapper's own. The result costs no more than any of them, and no more than no
/// change at all.
///
/// # Panics
/// If there are not as many places as processes, or a proposal is not a permutation of them.
pub fn map(
    links: &Links,
    places: &[Place],
    proposals: Vec<Vec<usize>>,
    effort: MappingEffort,
) -> Vec<usize> {
    assert_eq!(links.processes(), places.len(), "one place a process");
    let plain: Vec<usize> = (0..places.len()).collect();
    if !differ(places) || links.of.iter().all(Vec::is_empty) {
        return plain;
    }
    let mut candidates = vec![plain.clone()];
    candidates.extend(proposals);
    candidates.extend(partition::Seed::ALL.map(|seed| partition::by_tree(links, places, seed)));
    let mut left = effort.0 / 2;
    let share = left / candidates.len() as u64;
    let mut best = (links.cost(&plain, places), plain);
    for candidate in candidates {
        let order = improve(links, places, candidate, &mut share.clone());
        keep_cheaper(&mut best, links, places, order);
    }
    let mut random = Random(1);
    for _ in 0..PERTURBATIONS {
        if left == 0 || best.0 == 0 {
            break;
        }
        let perturbed = random.perturb(&best.1);
        let order = improve(links, places, perturbed, &mut left);
        keep_cheaper(&mut best, links, places, order);
    }
    best.1
}

/// Attempts to leave a local minimum: the best map with some places exchanged, improved again
/// (iterated local search).
const PERTURBATIONS: usize = 64;

fn keep_cheaper(best: &mut (u128, Vec<usize>), links: &Links, places: &[Place], order: Vec<usize>) {
    let cost = links.cost(&order, places);
    if cost < best.0 {
        *best = (cost, order);
    }
}

/// Numbers that are the same in every process (xorshift64, Marsaglia 2003).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }

    /// `order` with an eighth of the places, and at least three, moved.
    fn perturb(&mut self, order: &[usize]) -> Vec<usize> {
        let mut order = order.to_vec();
        for _ in 0..(order.len() / 16).max(2) {
            let (a, b) = (self.below(order.len()), self.below(order.len()));
            order.swap(a, b);
        }
        order
    }
}

/// Exchanges pairs as long as that gains, and as long as there is effort left: to 0 if it ends for
/// lack of it.
fn improve(links: &Links, places: &[Place], order: Vec<usize>, left: &mut u64) -> Vec<usize> {
    let mut map = Map { places, order };
    loop {
        let mut changed = false;
        for a in 0..places.len() {
            for b in a + 1..places.len() {
                let degree = links.of[a].len() + links.of[b].len();
                let price = 2 * degree as u64 + 1;
                if *left < price {
                    *left = 0;
                    return map.order;
                }
                *left -= price;
                if exchange_gains(links, &map, a, b) {
                    map.order.swap(a, b);
                    changed = true;
                }
            }
        }
        if !changed {
            return map.order;
        }
    }
}

/// Whether the map costs less with the places of two processes exchanged. The link between them
/// costs the same then.
fn exchange_gains(links: &Links, map: &Map<'_>, a: usize, b: usize) -> bool {
    let (at_a, at_b) = (&map.places[map.order[a]], &map.places[map.order[b]]);
    if at_a.parts() == at_b.parts() {
        return false;
    }
    let before = links.cost_at(a, at_a, b, map) + links.cost_at(b, at_b, a, map);
    let after = links.cost_at(a, at_b, b, map) + links.cost_at(b, at_a, a, map);
    after < before
}

/// The places sorted along the machine; alike ones in their order.
pub fn along(places: &[Place]) -> Vec<usize> {
    let mut slots: Vec<usize> = (0..places.len()).collect();
    slots.sort_by_key(|&i| (places[i].parts(), places[i].core.processing_unit));
    slots
}

/// The parts of `slots` (in the order of [`along`]) at this level of the tree.
pub fn parts_at<'a>(slots: &'a [usize], places: &[Place], level: usize) -> Vec<&'a [usize]> {
    let part = |&slot: &usize| places[slot].parts()[level];
    slots.chunk_by(|a, b| part(a) == part(b)).collect()
}

/// Number of levels that [`parts_at`] knows.
pub const LEVELS: usize = DEPTH;

/// The traffic between two processes, in one direction or both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PairTraffic {
    /// One process.
    pub from: usize,
    /// The other.
    pub to: usize,
    /// Messages between them.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// The cost of a message over the network: TCP between two network namespaces of one machine
/// (`bench/results/2026-11-22-net`), the slowest network that Mica runs on. The tuning file has no
/// network.
const NETWORK: PathCost = PathCost::new(5900.0, &[(0, 0.17), (64 << 10, 0.43)]);

/// Longest message that goes in a slot or in the arena of a ring, for the estimate.
const INLINE_MAX: u64 = 64;
const RING_MAX: u64 = 8 << 10;

/// What this traffic costs in nanoseconds, by nearness: each message has the mean length and takes
/// the cheapest path that every node has.
pub fn time_cost(traffic: &PairTraffic, costs: &PathCosts) -> LinkCost {
    let messages = traffic.messages.max(u64::from(traffic.bytes > 0));
    let length = traffic.bytes / messages.max(1);
    let paths = [
        (MessagePath::Inline, INLINE_MAX),
        (MessagePath::Ring, RING_MAX),
        (MessagePath::Cells, u64::MAX),
        (MessagePath::Pull, u64::MAX),
    ];
    Nearness::ALL.map(|nearness| {
        let each = match nearness.level() {
            Level::Network => NETWORK.ns(length as usize, 1),
            level => {
                let open = paths.iter().filter(|(_, most)| length <= *most);
                let times = open.map(|&(path, _)| costs.of(level, path).ns(length as usize, 1));
                times.fold(f64::INFINITY, f64::min)
            }
        };
        (each * messages as f64) as u64
    })
}

/// The links of a recorded traffic, in nanoseconds.
pub fn links_of(processes: usize, traffic: &[PairTraffic], costs: &PathCosts) -> Links {
    let edges = traffic.iter();
    Links::new(processes, edges.map(|pair| (pair.from, pair.to, time_cost(pair, costs))))
}
