//! The parameters of the network, in the units in which it computes.

use thiserror::Error;

use crate::time::SimTime;

/// LogGP and topology. `o`, the processor's overhead, is what the library executes and is no
/// parameter of the network.
#[derive(Debug, Clone, PartialEq)]
pub struct NetworkParameters {
    /// `L`: from the sender's port to the receiver's, without hops.
    pub latency: SimTime,
    /// `g`: between two messages at a port, in addition to their bytes.
    pub gap: SimTime,
    /// `G`: picoseconds a byte at a port.
    pub byte_gap: f64,
    /// How the nodes are connected.
    pub topology: Topology,
    /// Latency of each link on the way.
    pub hop_latency: SimTime,
    /// Picoseconds a byte on a link; 0 for links without contention.
    pub link_byte_gap: f64,
}

/// How nodes are connected. A link has two directions, each of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Topology {
    /// One switch that never blocks: contention at the nodes' ports alone.
    Crossbar,
    /// A router at each node, and a ring of routers in each dimension.
    Torus {
        /// Nodes in each dimension; the first varies fastest.
        dimensions: Vec<u32>,
    },
    /// Switches in levels; nodes hang on those of the lowest (an extended generalized fat tree, Ohring
    /// et al. 1995).
    FatTree {
        /// Of each level, from the lowest: nodes or switches below each switch.
        children: Vec<u32>,
        /// Of each level but the highest: switches above each switch. As many as children: full
        /// bisection.
        parents: Vec<u32>,
    },
}

/// Why there can be no such network.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum NetworkError {
    /// No nodes.
    #[error("a network needs at least one node")]
    NoNodes,
    /// The nodes do not fit.
    #[error("the {topology} {shape:?} has room for {room} nodes, not for {nodes}")]
    TooSmall {
        /// Word for the topology.
        topology: &'static str,
        /// Its dimensions or children.
        shape: Vec<u32>,
        /// Nodes that fit.
        room: u64,
        /// Nodes asked for.
        nodes: u32,
    },
    /// A dimension of 0, or none.
    #[error("the {topology} {shape:?} has a dimension of 0, or none")]
    Empty {
        /// Word for the topology.
        topology: &'static str,
        /// Its dimensions, children or parents.
        shape: Vec<u32>,
    },
    /// Lists that do not go together.
    #[error("a fat tree of {children} levels has parents at {wanted} of them, not at {parents}")]
    Levels {
        /// Levels with children.
        children: usize,
        /// Levels that need parents.
        wanted: usize,
        /// Levels that have them.
        parents: usize,
    },
    /// Nothing takes time between two nodes.
    #[error("the network's latency is 0: simulated clocks cannot be kept together")]
    NoLatency,
    /// Negative or not a number.
    #[error("a time per byte of {0} ps is not possible")]
    ByteGap(f64),
    /// Of a throttled network.
    #[error("a bandwidth of {0} times the original is not possible")]
    Bandwidth(f64),
}

impl NetworkParameters {
    /// The same network with `factor` times the bandwidth at ports and links (leon-2009 3.2).
    pub fn throttled(&self, factor: f64) -> Result<NetworkParameters, NetworkError> {
        if !(factor.is_finite() && factor > 0.0) {
            return Err(NetworkError::Bandwidth(factor));
        }
        Ok(NetworkParameters {
            byte_gap: self.byte_gap / factor,
            link_byte_gap: self.link_byte_gap / factor,
            ..self.clone()
        })
    }

    /// The shortest time from a departure to its arrival at another node.
    pub fn min_latency(&self) -> SimTime {
        let hops = match &self.topology {
            Topology::Crossbar => 0,
            Topology::Torus { .. } => 1,
            Topology::FatTree { .. } => 2,
        };
        self.latency + SimTime(self.hop_latency.0.saturating_mul(hops))
    }

    /// The time from the first byte to the last at a port.
    pub(super) fn transfer(&self, bytes: u64) -> SimTime {
        bytes_time(bytes.saturating_sub(1), self.byte_gap)
    }

    /// The time for which a link works for a packet.
    pub(super) fn link_transfer(&self, bytes: u64) -> SimTime {
        bytes_time(bytes.max(1), self.link_byte_gap)
    }

    /// Whether this is a network that `nodes` nodes can have.
    pub(super) fn check(&self, nodes: u32) -> Result<(), NetworkError> {
        if nodes == 0 {
            return Err(NetworkError::NoNodes);
        }
        for gap in [self.byte_gap, self.link_byte_gap] {
            if !(gap.is_finite() && gap >= 0.0) {
                return Err(NetworkError::ByteGap(gap));
            }
        }
        if self.min_latency() == SimTime::default() {
            return Err(NetworkError::NoLatency);
        }
        self.topology.check(nodes)
    }
}

impl Topology {
    /// Whether `nodes` nodes fit.
    fn check(&self, nodes: u32) -> Result<(), NetworkError> {
        let (topology, shape) = match self {
            Topology::Crossbar => return Ok(()),
            Topology::Torus { dimensions } => ("torus", dimensions),
            Topology::FatTree { children, parents } => {
                let levels = |shape: &Vec<u32>| shape.len();
                if levels(children) > 0 && levels(parents) + 1 != levels(children) {
                    return Err(NetworkError::Levels {
                        children: levels(children),
                        wanted: levels(children) - 1,
                        parents: levels(parents),
                    });
                }
                if parents.contains(&0) {
                    let shape = parents.clone();
                    let topology = "fat tree with parents";
                    return Err(NetworkError::Empty { topology, shape });
                }
                ("fat tree", children)
            }
        };
        if shape.is_empty() || shape.contains(&0) {
            let shape = shape.clone();
            return Err(NetworkError::Empty { topology, shape });
        }
        let room = shape
            .iter()
            .fold(1_u64, |a, d| a.saturating_mul(u64::from(*d)));
        if room < u64::from(nodes) {
            let shape = shape.clone();
            return Err(NetworkError::TooSmall {
                topology,
                shape,
                room,
                nodes,
            });
        }
        Ok(())
    }
}

/// `bytes` at `gap` picoseconds each, to the nearest picosecond.
fn bytes_time(bytes: u64, gap: f64) -> SimTime {
    SimTime((bytes as f64 * gap).round() as u64)
}
