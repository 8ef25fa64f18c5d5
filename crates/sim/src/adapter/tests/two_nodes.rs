//! A message between two nodes with memory, alone and with one the other way: as fast as the
//! slowest of read, network and write, and faster with each of them.

use proptest::prelude::*;

use super::*;

/// Most bytes: the buffer has room for those that are sent and those that are received.
const MOST: u64 = BUFFER_BYTES as u64 / 2;

/// A shipped machine whose network is two nodes and a wire.
fn shipped(name: &str) -> SimulatedMachine {
    let mut machine = SimulatedMachine::named(name).expect("a shipped machine");
    machine.network.topology = NetworkTopology::Crossbar;
    machine
}

const MACHINES: [&str; 3] = ["power5-redstorm", "epyc7742-slingshot", "xeon8480-ndr"];

/// Picoseconds from the send's command to the last event, of a message of `bytes` bytes from node 0
/// to node 1, whose receive is posted; with `both`, and one the other way at the same time.
fn time(machine: &SimulatedMachine, bytes: u64, both: bool) -> u64 {
    let mut cluster = Cluster::new(machine, 2, &Policy::named("base", machine).expect("a policy"));
    for node in &mut cluster.nodes {
        node.host.model = Some((NodeMemory::new(machine), WriteMode::Clean));
    }
    let start = SimTime(1_000_000_000);
    let (from, into) = ((BUFFERS, bytes), (BUFFERS + MOST, bytes));
    let mut script = Script::new();
    for (node, peer) in [(0, 1), (1, 0)].into_iter().take(1 + usize::from(both)) {
        script.push((SimTime(0), peer, receive(node as u32, 7, into, 2)));
        script.push((start, node, send(peer as u32, 7, from, 1)));
    }
    cluster.run(script);
    let events = cluster.events.iter().flatten();
    events.map(|(at, _)| at.0).max().expect("events") - start.0
}

#[test]
fn message_each_way_takes_as_long_as_one() {
    for name in MACHINES {
        let machine = shipped(name);
        let line = time(&machine, 1, false);
        for bytes in [1000, 20_000, MOST] {
            let (one, both) = (time(&machine, bytes, false), time(&machine, bytes, true));
            // The event of the own send is written between the lines of the other message.
            assert!(both >= one && both - one < line / 10, "{name}, {bytes} bytes: {one}, {both}");
        }
    }
}

#[test]
fn long_message_is_as_fast_as_its_slowest_stage() {
    for (wire, adapter) in [(4.0, 1.0), (1.0, 4.0), (4.0, 4.0), (1.0, 16.0), (16.0, 1.0)] {
        let mut machine = shipped("power5-redstorm");
        machine.network.gap_per_byte_ns = wire;
        machine.network.bandwidth_factor = 1.0;
        machine.adapter.dma_gb_s = 1.0 / adapter;
        let slowest = wire.max(adapter) * 1e3;
        let (half, whole) = (time(&machine, MOST / 2, false), time(&machine, MOST, false));
        let a_byte = (whole - half) as f64 / (MOST / 2) as f64;
        assert!((a_byte / slowest - 1.0).abs() < 0.01, "{wire}, {adapter}: {a_byte} ps a byte");
        // And not the sum for what is in front of the first byte.
        let in_front = whole as f64 - MOST as f64 * slowest;
        let short = time(&machine, 1, false) as f64;
        let lines = 2.0 * f64::from(machine.caches.line) * (wire + adapter) * 1e3;
        let (announce, pull) = (short, short);
        assert!(in_front < short + announce + pull + lines, "{wire}, {adapter}: {in_front} ps");
    }
}

/// Makes one of the machine's resources faster.
fn faster(machine: &SimulatedMachine, resource: usize, by: f64) -> SimulatedMachine {
    let mut machine = machine.clone();
    let (adapter, network) = (&mut machine.adapter, &mut machine.network);
    match resource {
        0 => network.bandwidth_factor *= by,
        1 => network.gap_per_byte_ns /= by,
        2 => network.latency_ns /= by,
        3 => network.gap_ns /= by,
        4 => adapter.dma_gb_s *= by,
        5 => adapter.command_ns /= by,
        6 => adapter.arrival_ns /= by,
        7 => adapter.event_ns /= by,
        _ => machine.memory.slow_down /= by,
    }
    machine
}
const RESOURCES: usize = 9;

/// Rounding: cycles of the processor and of the memory, in each stage.
const ROUNDING: u64 = 5_000;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn no_faster_resource_makes_a_message_slower(
        name in prop::sample::select(&MACHINES[..]),
        start in prop::collection::vec((0..RESOURCES, 0.25_f64..4.0), 0..4),
        resource in 0..RESOURCES,
        by in 1.0_f64..8.0,
        bytes in 0..MOST,
        both in any::<bool>(),
    ) {
        let machine = start.iter().fold(shipped(name), |m, (r, by)| faster(&m, *r, *by));
        let (before, after) = (
            time(&machine, bytes, both),
            time(&faster(&machine, resource, by), bytes, both),
        );
        prop_assert!(after <= before + ROUNDING, "{before} ps, with the faster one {after}");
    }

    #[test]
    fn more_bytes_take_no_less(
        name in prop::sample::select(&MACHINES[..]),
        start in prop::collection::vec((0..RESOURCES, 0.25_f64..4.0), 0..4),
        bytes in 0..MOST - 1,
        more in 1..MOST,
        both in any::<bool>(),
    ) {
        let machine = start.iter().fold(shipped(name), |m, (r, by)| faster(&m, *r, *by));
        let more = (bytes + more).min(MOST);
        let (less_time, more_time) = (time(&machine, bytes, both), time(&machine, more, both));
        let grows = more_time + ROUNDING >= less_time;
        prop_assert!(grows, "{bytes}: {less_time} ps, {more}: {more_time} ps");
    }
}
