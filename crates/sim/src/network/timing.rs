//! What the machine says of its network, in picoseconds.

use super::port::{PortTiming, bytes_time};
use crate::machine::{NetworkParameters, NetworkTopology};
use crate::time::SimTime;

/// Times of the network. `o`, the processor's overhead, is spent by the node and not here.
#[derive(Debug, Clone)]
pub(super) struct Timing {
    /// Those of the adapters' ports.
    pub port: PortTiming,
    /// Latency of each link on the way.
    pub hop_latency: SimTime,
    /// The time of one byte on a link.
    pub link_byte: SimTime,
    /// That time on a link.
    link_byte_gap: f64,
    /// The fewest links between two nodes.
    min_hops: u64,
}

impl Timing {
    pub fn new(network: &NetworkParameters) -> Timing {
        let factor = network.bandwidth_factor;
        let link_byte_gap = 1e3 / (network.link_bandwidth_gb_s * factor);
        Timing {
            port: PortTiming::new(
                network.latency_ns,
                network.gap_ns,
                network.gap_per_byte_ns / factor,
            ),
            hop_latency: SimTime::from_ns(network.hop_latency_ns),
            link_byte: bytes_time(1, link_byte_gap),
            link_byte_gap,
            min_hops: match network.topology {
                NetworkTopology::Crossbar => 0,
                NetworkTopology::Torus { .. } => 1,
                NetworkTopology::FatTree { .. } => 2,
            },
        }
    }

    /// The shortest time from a departure to its arrival at another node, at least a picosecond.
    pub fn min_latency(&self) -> SimTime {
        let hops = self.hop_latency.0.saturating_mul(self.min_hops);
        (self.port.latency + SimTime(hops)).max(SimTime(1))
    }

    /// The time for which a link works for a packet.
    pub fn link_transfer(&self, bytes: u64) -> SimTime {
        bytes_time(bytes.max(1), self.link_byte_gap)
    }
}
