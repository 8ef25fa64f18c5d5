//! `--map-by profile:FILE`: the places that the other options give to the job's ranks, exchanged so
//! that ranks which exchange much are close (`mica_policy::mapping`).
//!
//! The number of ranks on each host and the processors on each node stay as they are; only which
//! rank has which changes. The controller chooses the ranks of each host, since it knows the hosts
//! and not their cores; then each node chooses among its own places.

use mica_node::topology::{CorePlace, RankSlot};
use mica_policy::mapping::{MappingEffort, PairTraffic, Place, links_of, map};
use mica_policy::{PathCosts, tuning};
use mica_profile::recorded::RecordedTraffic;
use serde::{Deserialize, Serialize};

/// The traffic between two ranks of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeTraffic {
    /// The sender's index on the node.
    pub from: u32,
    /// The receiver's index on the node.
    pub to: u32,
    /// Messages.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Which ranks are on which host: `hosts` has the ranks of each.
pub fn assign(traffic: &RecordedTraffic, hosts: &mut [&mut Vec<u32>]) {
    let mut node_of = vec![0; traffic.ranks];
    for (members, number) in hosts.iter().zip(0..) {
        for &rank in members.iter() {
            node_of[rank as usize] = number;
        }
    }
    let place = |&node: &u32| Place { node, core: CorePlace::UNKNOWN };
    let places: Vec<Place> = node_of.iter().map(place).collect();
    let pairs = traffic.pairs.iter().map(|pair| PairTraffic {
        from: pair.from as usize,
        to: pair.to as usize,
        messages: pair.messages,
        bytes: pair.bytes,
    });
    let order = order(pairs.collect(), &places);
    for members in hosts.iter_mut() {
        members.clear();
    }
    for (rank, place) in (0..).zip(order) {
        hosts[node_of[place] as usize].push(rank);
    }
}

fn order(traffic: Vec<PairTraffic>, places: &[Place]) -> Vec<usize> {
    // A tuning file that cannot be used is reported by the ranks.
    let costs = tuning::in_force(None).map_or_else(|_| PathCosts::default(), |(costs, _)| costs);
    let links = links_of(places.len(), &traffic, &costs);
    map(&links, places, Vec::new(), MappingEffort::TOOL)
}

/// The traffic among these ranks, by their indices; `members` is in ascending order or is that of
/// several nodes.
pub fn within(traffic: &RecordedTraffic, members: &[u32]) -> Vec<NodeTraffic> {
    let mut index_of = vec![None; traffic.ranks];
    for (&rank, index) in members.iter().zip(0..) {
        if let Some(entry) = index_of.get_mut(rank as usize) {
            *entry = Some(index);
        }
    }
    let pairs = traffic.pairs.iter().filter_map(|pair| {
        Some(NodeTraffic {
            from: index_of[pair.from as usize]?,
            to: index_of[pair.to as usize]?,
            messages: pair.messages,
            bytes: pair.bytes,
        })
    });
    pairs.collect()
}

/// The slots in the order of the node's ranks. Slots of different widths stay as they are: a rank
/// has the cores that its threads need.
pub fn arrange(traffic: &[NodeTraffic], slots: Vec<RankSlot>) -> Vec<RankSlot> {
    let width = |slot: &RankSlot| slot.cpus.as_ref().map(|cpus| cpus.len());
    if traffic.is_empty() || slots.windows(2).any(|two| width(&two[0]) != width(&two[1])) {
        return slots;
    }
    let places: Vec<Place> = slots.iter().map(|slot| Place { node: 0, core: slot.place }).collect();
    // An agent's controller may be of another host: what it sends is checked here.
    let known = traffic.iter().filter(|pair| (pair.from.max(pair.to) as usize) < slots.len());
    let pairs = known.map(|pair| PairTraffic {
        from: pair.from as usize,
        to: pair.to as usize,
        messages: pair.messages,
        bytes: pair.bytes,
    });
    order(pairs.collect(), &places).into_iter().map(|slot| slots[slot].clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use mica_node::topology::{BindTo, Level, Machine, MapBy, level_between, map as map_to_cores};
    use mica_profile::recorded::RecordedPair;

    /// Pairs (i, i + 4) of 8 ranks exchange 1 MiB, and all ranks a little with the next.
    fn pairs() -> RecordedTraffic {
        let pair = |from, to, bytes| RecordedPair { from, to, messages: 16, bytes };
        let heavy = (0..4).map(|i| pair(i, i + 4, 1 << 20));
        let light = (0..8).map(|i| pair(i, (i + 1) % 8, 64));
        RecordedTraffic { ranks: 8, pairs: heavy.chain(light).collect() }
    }

    #[test]
    fn heavy_pairs_get_one_host() {
        for hosts in [
            vec![vec![0, 1, 2, 3], vec![4, 5, 6, 7]],
            vec![vec![0, 1], vec![2, 3, 4, 5, 6, 7]],
            vec![vec![0, 1], vec![2, 3], vec![4, 5], vec![6, 7]],
        ] {
            let mut placed: Vec<Vec<u32>> = hosts.clone();
            assign(&pairs(), &mut placed.iter_mut().collect::<Vec<_>>());
            for (members, before) in placed.iter().zip(&hosts) {
                assert!(members.len() == before.len() && members.is_sorted());
                let paired = |rank: &u32| members.contains(&((rank + 4) % 8));
                assert!(members.iter().all(paired), "{placed:?}");
            }
        }
    }

    #[test]
    fn heavy_pairs_share_a_cache_on_their_node() {
        let machine = Machine::synthetic("pack:2 l3:2 core:2 pu:1").unwrap();
        let slots = map_to_cores(&machine, 8, MapBy::Core, BindTo::Core);
        let traffic = within(&pairs(), &[0, 1, 2, 3, 4, 5, 6, 7]);
        let arranged = arrange(&traffic, slots.clone());
        for i in 0..4 {
            let level = level_between(&arranged[i].place, &arranged[i + 4].place);
            assert_eq!(level, Level::SharedCache);
        }
        let mut wide = slots.clone();
        wide[0].cpus = None;
        assert_eq!(arrange(&traffic, wide.clone()), wide);
        assert_eq!(arrange(&[], slots.clone()), slots);
    }
}
