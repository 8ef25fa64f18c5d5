//! The `[network]` section: LogGP parameters (Alexandrov et al. 1995) and the topology.

use serde::{Deserialize, Serialize};

/// Parameters of the network between the adapters of the nodes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NetworkParameters {
    /// L: from the moment that a byte leaves an adapter until it reaches the next but for the
    /// links between, each of which adds `hop_latency_ns`.
    pub latency_ns: f64,
    /// o: time of the processor for a message at each side besides the instructions of the
    /// library, which are simulated: what the access to the doorbell costs beyond `[device]`.
    #[serde(default)]
    pub overhead_ns: f64,
    /// g: time of an adapter for a message, sent or received, in addition to that of its bytes:
    /// the first bytes of two messages of `b` bytes are `g + (b - 1) G` apart.
    pub gap_ns: f64,
    /// G: time of one more byte of a message at the adapter that sends it and the one that
    /// receives it.
    pub gap_per_byte_ns: f64,
    /// Bandwidth of one link between switches, in one direction.
    pub link_bandwidth_gb_s: f64,
    /// Latency of each link between switches, with the switch before it.
    pub hop_latency_ns: f64,
    /// Part of the bandwidth of adapters and links that is there: below 1 for a network that is
    /// throttled (leon-2009 3.2).
    #[serde(default = "whole")]
    pub bandwidth_factor: f64,
    /// How switches and nodes are linked.
    pub topology: NetworkTopology,
}

fn whole() -> f64 {
    1.0
}

/// How switches and nodes are linked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind", deny_unknown_fields)]
pub enum NetworkTopology {
    /// One switch without contention inside: no links between switches.
    Crossbar,
    /// A node at each point of a grid, with links to the next points in each dimension.
    Torus {
        /// Points in each dimension. The last dimension varies fastest with the node's number.
        dimensions: Vec<u32>,
        /// Whether a dimension is a ring; all are unless this says otherwise. One that is not has
        /// no links between its ends, as in a mesh.
        #[serde(default)]
        rings: Vec<bool>,
    },
    /// A tree of switches with as much bandwidth up as down (a k-ary n-tree): switches have
    /// `arity` links down and as many up, and `arity` to the power of `levels` nodes find room.
    FatTree {
        /// Links down of a switch.
        arity: u32,
        /// Levels of switches.
        levels: u32,
    },
}

impl NetworkTopology {
    /// Links of the route between two nodes: the shortest way in a torus, up and down in a tree.
    /// Nodes for which there is no room wrap around, as for a file that describes a smaller
    /// machine.
    pub fn hops(&self, from: u32, to: u32) -> u32 {
        match self {
            NetworkTopology::Crossbar => 0,
            NetworkTopology::Torus { dimensions, rings } => torus_hops(dimensions, rings, from, to),
            NetworkTopology::FatTree { arity, levels } => {
                let (mut from, mut to, mut up) = (from, to, 0);
                while from != to && up < *levels {
                    (from, to) = (from / arity.max(&2), to / arity.max(&2));
                    up += 1;
                }
                2 * up
            }
        }
    }

    /// How many nodes there is room for; `None` for any number.
    pub fn room(&self) -> Option<u64> {
        match self {
            NetworkTopology::Crossbar => None,
            NetworkTopology::Torus { dimensions, .. } => {
                Some(product(dimensions.iter().map(|&d| d.into())))
            }
            NetworkTopology::FatTree { arity, levels } => {
                Some(product((0..*levels).map(|_| u64::from(*arity))))
            }
        }
    }
}

/// Dimension by dimension; the last varies fastest.
fn torus_hops(dimensions: &[u32], rings: &[bool], from: u32, to: u32) -> u32 {
    let (mut from, mut to, mut hops) = (from, to, 0);
    for (at, &size) in dimensions.iter().enumerate().rev() {
        let size = size.max(1);
        let apart = (from % size).abs_diff(to % size);
        let is_ring = rings.get(at).copied().unwrap_or(true);
        hops += if is_ring { apart.min(size - apart) } else { apart };
        (from, to) = (from / size, to / size);
    }
    hops
}

fn product(factors: impl Iterator<Item = u64>) -> u64 {
    factors.fold(1, u64::saturating_mul)
}
