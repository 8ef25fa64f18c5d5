//! The network's parameters come out of the whole path (adapter, memory, network) as they are in
//! the file of each shipped machine.

use super::*;

/// Two nodes with the memory of a machine.
fn cluster(machine: &SimulatedMachine) -> Cluster {
    let mut machine = machine.clone();
    machine.network.topology = NetworkTopology::Crossbar;
    let mut cluster = Cluster::new(&machine, 2, &policy("base"));
    for node in &mut cluster.nodes {
        node.host.model = Some((NodeMemory::new(&machine), machine.adapter.injected));
    }
    cluster
}

/// When each of `count` messages of `bytes` bytes is received that are sent at once, in ns.
fn received(machine: &SimulatedMachine, count: u64, bytes: u64) -> Vec<f64> {
    let mut cluster = cluster(machine);
    let span = (BUFFERS, bytes);
    let receives = (0..count).map(|k| (SimTime(0), 1, receive(0, 7, span, k)));
    let start = SimTime::from_ns(1e6);
    let sends = (0..count).map(|k| (start, 0, send(1, 7, span, k)));
    cluster.run(receives.chain(sends).collect());
    (0..count).map(|k| cluster.completion(1, k).expect("an event").0.since(start).ns()).collect()
}

/// Fails unless `measured` is `configured` within 2 %.
fn check(machine: &str, parameter: &str, measured: f64, configured: f64) {
    let error = measured / configured - 1.0;
    assert!(error.abs() < 0.02, "{machine}: {parameter} {measured}, not {configured}");
}

#[test]
fn parameters_of_shipped_machines_come_out() {
    for name in SimulatedMachine::names() {
        let machine = SimulatedMachine::named(name).expect("a shipped machine");
        let network = &machine.network;
        let single = |bytes| received(&machine, 1, bytes)[0];
        let (short, long) = (128 << 10, 256 << 10);
        let per_byte = (single(long) - single(short)) / (long - short) as f64;
        check(name, "G", per_byte, network.gap_per_byte_ns);
        let stream = received(&machine, 101, 1);
        check(name, "g", (stream[100] - stream[0]) / 100.0, network.gap_ns);
        let mut farther = machine.clone();
        farther.network.latency_ns += 5000.0;
        check(name, "L", received(&farther, 1, 1)[0] - single(1), 5000.0);
    }
}
