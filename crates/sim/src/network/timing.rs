//! What the machine says of its network, in picoseconds.

use crate::machine::{NetworkParameters, NetworkTopology};
use crate::time::SimTime;

/// Times of the network. `o`, the processor's overhead, is spent by the node and not here.
#[derive(Debug, Clone)]
pub(super) struct Timing {
    /// `L`.
    pub latency: SimTime,
    /// `g`.
    pub gap: SimTime,
    /// Latency of each link on the way.
    pub hop_latency: SimTime,
    /// The time of one byte on a link.
    pub link_byte: SimTime,
    /// `G`, in picoseconds.
    byte_gap: f64,
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
            latency: SimTime::from_ns(network.latency_ns),
            gap: SimTime::from_ns(network.gap_ns),
            hop_latency: SimTime::from_ns(network.hop_latency_ns),
            byte_gap: network.gap_per_byte_ns * 1e3 / factor,
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
        (self.latency + SimTime(hops)).max(SimTime(1))
    }

    /// The time from the first byte to the last at a port.
    pub fn transfer(&self, bytes: u64) -> SimTime {
        bytes_time(bytes.saturating_sub(1), self.byte_gap)
    }

    /// The time for which a link works for a packet.
    pub fn link_transfer(&self, bytes: u64) -> SimTime {
        bytes_time(bytes.max(1), self.link_byte_gap)
    }
}

/// `bytes` at `gap` picoseconds each, to the nearest picosecond.
fn bytes_time(bytes: u64, gap: f64) -> SimTime {
    SimTime((bytes as f64 * gap).round() as u64)
}
