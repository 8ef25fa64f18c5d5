//! The parameters of a replay: LogGP within a node and between nodes, and distances.

use crate::loggp::Parameters;
use crate::machine::{NetworkParameters, NetworkTopology, SimulatedMachine};
use crate::time::SimTime;

/// The cluster that a replay runs on.
#[derive(Debug, Clone, PartialEq)]
pub struct ReplayCluster {
    /// Between ranks of different nodes.
    pub network: Parameters,
    /// Between ranks of one node.
    pub node: Parameters,
    /// Consecutive ranks that share a node.
    pub ranks_per_node: u32,
    /// Nanoseconds to combine a byte in a reduction.
    pub combine_byte_ns: f64,
    /// Time of links between switches, if the topology counts.
    pub hops: Option<HopLatency>,
}

/// What each link between two nodes adds to `L`.
#[derive(Debug, Clone, PartialEq)]
pub struct HopLatency {
    /// Nanoseconds of a link.
    pub link_ns: f64,
    /// How nodes are linked.
    pub topology: NetworkTopology,
}

impl ReplayCluster {
    /// One rank on each node of a network with these parameters.
    pub fn of(network: Parameters) -> ReplayCluster {
        ReplayCluster {
            network,
            node: network,
            ranks_per_node: 1,
            combine_byte_ns: mica_policy::collective::CollectiveCosts::default().reduce_byte_ns,
            hops: None,
        }
    }

    /// The network of a machine's file, whose nodes have one rank each. The adapters' times are
    /// part of `L`, and the slower of network and adapter counts for `G`. To the machine's
    /// `overhead_ns` the overheads of `library` are added: what the library's instructions take,
    /// which a machine's file does not say.
    pub fn of_machine(machine: &SimulatedMachine, library: &Parameters) -> ReplayCluster {
        let (network, adapter) = (&machine.network, &machine.adapter);
        let adapters = adapter.command_ns + adapter.arrival_ns + adapter.event_ns;
        let per_byte = network.gap_per_byte_ns / network.bandwidth_factor;
        let mut cluster = ReplayCluster::of(Parameters {
            latency: network.latency_ns + adapters,
            send_overhead: network.overhead_ns + library.send_overhead,
            receive_overhead: network.overhead_ns + library.receive_overhead,
            gap: network.gap_ns,
            gap_per_byte: per_byte.max(1.0 / adapter.dma_gb_s),
        });
        cluster.hops = Some(HopLatency::of(network));
        cluster
    }

    /// The node of a rank.
    pub fn node_of(&self, rank: u32) -> u32 {
        rank / self.ranks_per_node.max(1)
    }
}

impl HopLatency {
    /// That of a machine's network.
    pub fn of(network: &NetworkParameters) -> HopLatency {
        HopLatency { link_ns: network.hop_latency_ns, topology: network.topology.clone() }
    }

    /// What the links between two nodes add.
    pub(super) fn latency(&self, from: u32, to: u32) -> SimTime {
        SimTime::from_ns(self.link_ns * f64::from(self.links(from, to)))
    }

    /// Links between the switches of two nodes. Those of the nodes themselves, which the routes of
    /// a tree have, are part of `L` here.
    fn links(&self, from: u32, to: u32) -> u32 {
        let hops = self.topology.hops(from, to);
        match self.topology {
            NetworkTopology::FatTree { .. } => hops.saturating_sub(2),
            _ => hops,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_links() {
        let hops = |topology| HopLatency { link_ns: 50.0, topology };
        let torus =
            hops(NetworkTopology::Torus { dimensions: vec![4, 6], rings: vec![false, true] });
        assert_eq!(torus.links(0, 5), 1, "around the ring");
        assert_eq!(torus.links(0, 18), 3, "no ring in the first dimension");
        assert_eq!(torus.links(7, 7), 0);
        let tree = hops(NetworkTopology::FatTree { arity: 4, levels: 3 });
        assert_eq!(tree.links(0, 3), 0, "one switch");
        assert_eq!(tree.links(0, 4), 2);
        assert_eq!(tree.links(0, 63), 4);
        assert_eq!(hops(NetworkTopology::Crossbar).links(0, 9), 0);
    }

    #[test]
    fn takes_a_machine_with_its_throttled_bandwidth() {
        let machine =
            SimulatedMachine::with("power5-redstorm", &["network.bandwidth_factor=0.5".into()]);
        let machine = machine.unwrap();
        let library = Parameters { send_overhead: 100.0, ..Parameters::default() };
        let cluster = ReplayCluster::of_machine(&machine, &library);
        assert_eq!(cluster.network.gap_per_byte, 2.0 * machine.network.gap_per_byte_ns);
        assert_eq!(cluster.network.send_overhead, machine.network.overhead_ns + 100.0);
    }
}
