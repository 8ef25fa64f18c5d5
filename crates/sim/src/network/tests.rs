use proptest::prelude::*;

use super::*;

const LATENCY: SimTime = SimTime(1_000_000);
const GAP: SimTime = SimTime(300_000);
const BYTE_GAP: f64 = 250.0;
const HOP: u64 = 50_000;

fn crossbar() -> NetworkParameters {
    NetworkParameters {
        latency_ns: LATENCY.ns(),
        overhead_ns: 0.0,
        gap_ns: GAP.ns(),
        gap_per_byte_ns: BYTE_GAP / 1e3,
        link_bandwidth_gb_s: 100.0,
        hop_latency_ns: HOP as f64 / 1e3,
        bandwidth_factor: 1.0,
        topology: NetworkTopology::Crossbar,
    }
}

/// With links of this many picoseconds a byte.
fn torus(dimensions: &[u32], link_byte_gap: f64) -> NetworkParameters {
    NetworkParameters {
        topology: NetworkTopology::Torus { dimensions: dimensions.to_vec(), rings: Vec::new() },
        link_bandwidth_gb_s: 1e3 / link_byte_gap,
        ..crossbar()
    }
}

/// Four nodes at each of four switches below four others.
fn tree(link_byte_gap: f64) -> NetworkParameters {
    NetworkParameters {
        topology: NetworkTopology::FatTree { arity: 4, levels: 2 },
        link_bandwidth_gb_s: 1e3 / link_byte_gap,
        ..crossbar()
    }
}

/// A packet of `bytes` bytes from one node to another.
fn head(at: u64, ends: (u32, u32), number: u64, bytes: u64) -> PacketHead {
    let at = SimTime(at);
    PacketHead { at, last: at, from: ends.0, number, to: ends.1, bytes }
}

fn arrivals(parameters: &NetworkParameters, mut heads: Vec<PacketHead>) -> Vec<u64> {
    let nodes = heads.iter().map(|h| h.from.max(h.to) + 1).max();
    let mut network = Network::new(parameters, nodes.unwrap_or(1)).expect("a network");
    network.carry(&mut heads).iter().map(|came| came.last.0).collect()
}

/// `g + (b - 1) G` and `(b - 1) G`.
fn times(bytes: u64) -> (u64, u64) {
    let transfer = (bytes - 1) * BYTE_GAP as u64;
    (GAP.0 + transfer, transfer)
}

#[test]
fn one_packet_takes_the_latency_and_its_bytes() {
    let one = |bytes| arrivals(&crossbar(), vec![head(5, (0, 1), 0, bytes)])[0];
    assert_eq!(one(0), 5 + LATENCY.0);
    assert_eq!(one(1), 5 + LATENCY.0);
    assert_eq!(one(4097), 5 + LATENCY.0 + 4096 * 250);
}

#[test]
fn packet_is_as_slow_as_its_sender_from_its_first_byte_on() {
    let slow = PacketHead { last: SimTime(5_000_000), ..head(5, (0, 1), 0, 4097) };
    // What the sender sends next waits for its last byte, others do not.
    let mut heads = [slow, head(5, (0, 2), 1, 0), head(5, (3, 1), 0, 0)];
    let mut network = Network::new(&crossbar(), 4).expect("a network");
    let came = network.carry(&mut heads);
    let (first, last) = (SimTime(5) + LATENCY, SimTime(5_000_000) + LATENCY);
    assert_eq!(came[0], ByteTimes { first, last });
    assert_eq!(came[1], ByteTimes { first: last, last });
    assert!(came[2].last < last);
}

#[test]
fn a_pipeline_of_packets_is_one_port_time_apart() {
    let bytes = 1000;
    let packets = (0..20).map(|k| head(0, (0, 1), k, bytes)).collect();
    let (port, transfer) = times(bytes);
    let wanted = (0..20).map(|k| LATENCY.0 + k * port + transfer);
    assert_eq!(arrivals(&crossbar(), packets), wanted.collect::<Vec<_>>());
}

#[test]
fn an_incast_is_taken_in_one_after_the_other() {
    let bytes = 2048;
    let packets = (1..=16).map(|from| head(0, (from, 0), 0, bytes)).collect();
    let (port, transfer) = times(bytes);
    let wanted = (0..16).map(|k| LATENCY.0 + k * port + transfer);
    assert_eq!(arrivals(&crossbar(), packets), wanted.collect::<Vec<_>>());
}

#[test]
fn a_queue_at_a_sender_does_not_hold_up_its_last_receiver() {
    let bytes = 4_000_001;
    let mut packets: Vec<_> = (0..4).map(|k| head(0, (0, 1), k, bytes)).collect();
    packets.push(head(0, (0, 2), 4, bytes));
    packets.push(head(10, (3, 2), 0, bytes));
    let (port, transfer) = times(bytes);
    let arrivals = arrivals(&crossbar(), packets);
    assert_eq!(arrivals[4], LATENCY.0 + 4 * port + transfer);
    assert_eq!(arrivals[5], 10 + LATENCY.0 + transfer);
}

#[test]
fn hops_add_their_latency() {
    let one = |parameters: &NetworkParameters, ends| {
        let mut network = Network::new(parameters, 16).expect("a network");
        network.carry(&mut [head(0, ends, 0, 1)])[0].last.0 - LATENCY.0
    };
    let grid = torus(&[4, 4], 10.0);
    assert_eq!(one(&grid, (0, 1)), HOP);
    assert_eq!(one(&grid, (0, 10)), 4 * HOP);
    assert_eq!(one(&grid, (0, 15)), 2 * HOP, "the short way round");
    assert_eq!(one(&tree(10.0), (0, 3)), 2 * HOP);
    assert_eq!(one(&tree(10.0), (0, 4)), 4 * HOP);
}

#[test]
fn flows_over_one_link_share_its_bandwidth() {
    // Nodes 0 and 1 both send to the right of node 1: the link from 1 to 2 is in both routes.
    let parameters = torus(&[8], 1000.0);
    let bytes = 10_000;
    let alone = |ends| arrivals(&parameters, vec![head(0, ends, 0, bytes)])[0];
    let (first, second) = (alone((0, 2)), alone((1, 3)));
    assert_eq!(first, LATENCY.0 + 2 * HOP + (bytes - 1) * 1000);
    assert_eq!(second, first);
    let both = arrivals(&parameters, vec![head(0, (0, 2), 0, bytes), head(0, (1, 3), 0, bytes)]);
    assert_eq!(both[0], first);
    // The second has the link for the first hop's time, then the rest after the first packet.
    assert_eq!(both[1], second + bytes * 1000);
    let apart = vec![head(0, (0, 2), 0, bytes), head(0, (3, 5), 0, bytes)];
    assert_eq!(arrivals(&parameters, apart), [first, first]);
}

#[test]
fn a_tree_is_shared_by_flows_that_go_up_the_same_way() {
    let bytes = 100_000;
    let last = |receivers: [u32; 4]| {
        let ends = (0..4).zip(receivers);
        let heads = ends.map(|ends| head(0, ends, 0, bytes)).collect();
        let mut arrivals = arrivals(&tree(1000.0), heads);
        arrivals.sort_unstable();
        arrivals[3]
    };
    let alone = LATENCY.0 + 4 * HOP + (bytes - 1) * 1000;
    assert_eq!(last([4, 5, 6, 7]), alone, "each has a way of its own");
    assert_eq!(last([1, 2, 3, 0]), alone - 2 * HOP, "below one switch");
    // The last digit of the receiver chooses the way up; two of each share one.
    assert_eq!(last([4, 8, 5, 9]), alone + bytes * 1000);
}

#[test]
fn throttling_scales_the_time_of_bytes() {
    let packet = || vec![head(0, (0, 5), 0, 1_000_001)];
    for parameters in [crossbar(), torus(&[6], 2000.0), tree(2000.0)] {
        let fixed = arrivals(&parameters, vec![head(0, (0, 5), 0, 0)])[0];
        let whole = arrivals(&parameters, packet())[0] - fixed;
        for factor in [0.5, 0.25, 0.1] {
            let mut slow = parameters.clone();
            slow.bandwidth_factor = factor;
            let throttled = arrivals(&slow, packet())[0] - fixed;
            let ratio = throttled as f64 / whole as f64;
            assert!((ratio * factor - 1.0).abs() < 1e-5, "{ratio} at {factor}");
        }
    }
}

/// Mean and half width of the 99 % interval of the mean of `values`, by batches.
fn interval(values: &[f64], batches: usize) -> (f64, f64) {
    let mean = |v: &[f64]| v.iter().sum::<f64>() / v.len() as f64;
    let means: Vec<f64> = values.chunks(values.len() / batches).map(mean).collect();
    let all = mean(&means);
    let variance = means.iter().map(|m| (m - all).powi(2)).sum::<f64>() / (batches - 1) as f64;
    (all, 2.7 * (variance / batches as f64).sqrt())
}

#[test]
fn random_packets_to_one_node_wait_as_in_an_m_d_1_queue() {
    let bytes = 2801;
    let service = times(bytes).0 as f64;
    for (load, seed) in [(0.3, 1), (0.6, 2), (0.8, 3)] {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut now = 0.0;
        let mut network = Network::new(&crossbar(), 65).expect("a network");
        let mut waits = Vec::new();
        for number in 0..120_000 {
            now -= (1.0 - random.f64()).ln() * service / load;
            // A sender for each packet in turn, so that the receiver's port alone has a queue.
            let from = 1 + (number % 64) as u32;
            let at = now as u64;
            let arrival = network.carry(&mut [head(at, (from, 0), number, bytes)])[0];
            waits.push((arrival.last.0 - at - LATENCY.0 - times(bytes).1) as f64);
        }
        let (mean, half) = interval(&waits[20_000..], 40);
        let formula = load * service / (2.0 * (1.0 - load));
        assert!(half < 0.1 * formula, "{load}: the interval says something");
        assert!((mean - formula).abs() < half, "{load}: {mean} +- {half}, {formula}");
    }
}

#[test]
fn networks_that_are_too_small_or_too_large_are_refused() {
    let refused = |parameters: NetworkParameters, nodes| {
        Network::new(&parameters, nodes).expect_err("no such network").to_string()
    };
    assert_eq!(refused(crossbar(), 0), "a network needs at least one node");
    let small = refused(torus(&[2, 3], 10.0), 7);
    assert_eq!(small, "network.topology has room for 6 nodes, not for 7");
    assert_eq!(refused(tree(10.0), 17), "network.topology has room for 16 nodes, not for 17");
    let large = refused(torus(&[100_000, 100_000, 100_000], 10.0), 7);
    assert!(large.contains("more than 4194304"), "{large}");
}

/// Packets among 12 nodes, with numbers in the order of each sender's departures. A third of them
/// leaves as slowly as its sender brings the bytes.
fn traffic() -> impl Strategy<Value = Vec<PacketHead>> {
    let bytes = (0_u64..3000, prop_oneof![2 => Just(0), 1 => 0_u64..1_500_000]);
    let packet = (0_u64..3_000_000, 0_u32..12, 1_u32..12, bytes);
    prop::collection::vec(packet, 1..80).prop_map(|mut packets| {
        packets.sort_unstable();
        let numbered = packets.into_iter().enumerate();
        let heads = numbered.map(|(n, (at, from, step, (bytes, slow)))| {
            let ends = (from, (from + step) % 12);
            PacketHead { last: SimTime(at + slow), ..head(at, ends, n as u64, bytes) }
        });
        heads.collect()
    })
}

fn networks() -> impl Strategy<Value = NetworkParameters> {
    prop_oneof![
        Just(crossbar()),
        Just(torus(&[3, 4], 400.0)),
        Just(torus(&[12], 100.0)),
        Just(tree(300.0)),
    ]
}

proptest! {
    #[test]
    fn packets_of_a_pair_arrive_in_order_and_none_too_early(
        parameters in networks(),
        mut packets in traffic(),
    ) {
        let mut network = Network::new(&parameters, 12).expect("a network");
        let arrivals = network.carry(&mut packets);
        for (packet, arrival) in packets.iter().zip(&arrivals) {
            let transfer = network.timing.port.transfer(packet.bytes);
            prop_assert!(arrival.last >= packet.at + network.min_latency() + transfer);
            prop_assert!(arrival.last >= packet.last + network.min_latency());
            prop_assert!(arrival.first >= packet.at + network.min_latency());
            prop_assert!(arrival.last >= arrival.first + transfer);
        }
        for from in 0..12 {
            for to in 0..12 {
                let of_pair = packets.iter().zip(&arrivals);
                let of_pair = of_pair.filter(|(p, _)| (p.from, p.to) == (from, to));
                prop_assert!(of_pair.is_sorted_by(|a, b| a.1.last < b.1.last));
            }
        }
    }

    #[test]
    fn order_of_the_input_and_length_of_the_quantum_change_nothing(
        parameters in networks(),
        packets in traffic(),
        quantum in 1_000_u64..2_000_000,
        seed in any::<u64>(),
    ) {
        let mut whole = packets.clone();
        let mut network = Network::new(&parameters, 12).expect("a network");
        let wanted = network.carry(&mut whole);

        let mut shuffled = packets.clone();
        fastrand::Rng::with_seed(seed).shuffle(&mut shuffled);
        let mut again = Network::new(&parameters, 12).expect("a network");
        prop_assert_eq!(again.carry(&mut shuffled), wanted.clone());
        prop_assert_eq!(&shuffled, &whole);

        let mut by_quantum = Network::new(&parameters, 12).expect("a network");
        let chunks = whole.chunk_by(|a, b| a.at.0 / quantum == b.at.0 / quantum);
        let parts = chunks.flat_map(|chunk| by_quantum.carry(&mut chunk.to_vec()));
        prop_assert_eq!(parts.collect::<Vec<_>>(), wanted);
    }
}
