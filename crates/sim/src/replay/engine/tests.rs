use super::*;
use crate::machine::SimulatedMachine;
use crate::network::{Network, PacketHead};
use crate::replay::HopLatency;

/// The operations of each rank, all in one step.
struct Script(Vec<Vec<ReplayOperation>>);

impl Workload for Script {
    fn ranks(&self) -> u32 {
        self.0.len() as u32
    }

    fn steps(&self) -> u32 {
        1
    }

    fn operations(&self, rank: u32, _step: u32, out: &mut Vec<ReplayOperation>) {
        out.extend(&self.0[rank as usize]);
    }
}

const L: u64 = 1000;
const O_S: u64 = 200;
const O_R: u64 = 300;
const GAP: u64 = 500;

fn cluster() -> ReplayCluster {
    let mut cluster = ReplayCluster::of(Parameters {
        latency: L as f64,
        send_overhead: O_S as f64,
        receive_overhead: O_R as f64,
        gap: GAP as f64,
        gap_per_byte: 2.0,
    });
    cluster.combine_byte_ns = 1.0;
    cluster
}

/// Nanoseconds of the last rank.
fn time_of(script: Vec<Vec<ReplayOperation>>) -> u64 {
    time_on(&cluster(), script)
}

fn time_on(cluster: &ReplayCluster, script: Vec<Vec<ReplayOperation>>) -> u64 {
    let prediction = replay(&Script(script), cluster, &mut |_| {}).unwrap();
    assert_eq!(prediction.time.0 % 1000, 0);
    prediction.time.0 / 1000
}

fn send(to: u32, bytes: u64) -> ReplayOperation {
    ReplayOperation::Send { to, bytes, stream: MessageStream(0) }
}

fn post(from: u32) -> ReplayOperation {
    ReplayOperation::Receive { from, stream: MessageStream(0) }
}

fn receive(from: u32) -> [ReplayOperation; 2] {
    [post(from), ReplayOperation::Wait]
}

fn compute(ns: u64) -> ReplayOperation {
    ReplayOperation::Compute(SimTime(ns * 1000))
}

fn world(ranks: u32) -> RankGroup {
    RankGroup::Strided { first: 0, stride: 1, count: ranks }
}

fn all_call(ranks: u32, collective: Collective, bytes: u64) -> Vec<Vec<ReplayOperation>> {
    let call = ReplayOperation::Collective(GroupCollective {
        collective,
        root: 0,
        bytes,
        group: world(ranks),
    });
    vec![vec![call]; ranks as usize]
}

#[test]
fn ping_pong_takes_its_closed_form() {
    let trips = 10;
    let (mut one, mut other) = (Vec::new(), Vec::new());
    for _ in 0..trips {
        one.push(send(1, 101));
        one.extend(receive(1));
        other.extend(receive(0));
        other.push(send(0, 101));
    }
    let one_way = O_S + L + 2 * 100 + O_R;
    assert_eq!(time_of(vec![one, other]), 2 * trips * one_way);
}

#[test]
fn a_train_leaves_at_the_pace_of_the_gap_or_of_the_processor() {
    let train = |cluster: &ReplayCluster, bytes| {
        let sends = vec![send(1, bytes); 8];
        let mut receives: Vec<ReplayOperation> = vec![post(0); 8];
        receives.push(ReplayOperation::Wait);
        time_on(cluster, vec![sends, receives])
    };
    let last = |gap| O_S + 7 * gap + L + O_R;
    assert_eq!(train(&cluster(), 1), last(GAP));
    assert_eq!(train(&cluster(), 101), last(GAP + 200) + 200);
    let mut slow = cluster();
    slow.network.gap = 0.0;
    slow.network.receive_overhead = 50.0;
    assert_eq!(train(&slow, 1), 8 * O_S + L + 50);
    // The receiver is the slowest: it begins with the first message.
    slow.network.receive_overhead = 900.0;
    assert_eq!(train(&slow, 1), O_S + L + 8 * 900);
}

#[test]
fn a_pipeline_takes_its_closed_form() {
    // Each rank receives, computes and sends on, 12 items over 5 ranks.
    let (ranks, items, work) = (5u32, 12u64, 4000);
    let script = (0..ranks).map(|rank| {
        let mut operations = Vec::new();
        for _ in 0..items {
            if rank > 0 {
                operations.extend(receive(rank - 1));
            }
            operations.push(compute(work));
            if rank + 1 < ranks {
                operations.push(send(rank + 1, 1));
            }
        }
        operations
    });
    let inner = O_R + work + O_S;
    // The first item passes all ranks; then an inner rank's time for each further one.
    let first = (work + O_S) + 3 * (L + inner) + L + O_R + work;
    assert_eq!(time_of(script.collect()), first + (items - 1) * inner);
}

#[test]
fn a_ring_takes_its_closed_form() {
    let ranks = 7u32;
    let rounds = 20u64;
    let script = (0..ranks).map(|rank| {
        let round =
            [post((rank + ranks - 1) % ranks), send((rank + 1) % ranks, 51), ReplayOperation::Wait];
        round.repeat(rounds as usize)
    });
    assert_eq!(time_of(script.collect()), rounds * (O_S + L + 100 + O_R));
}

#[test]
fn messages_of_many_senders_pass_the_port_one_after_the_other() {
    let senders = 9u32;
    let mut script = vec![Vec::new()];
    script[0].extend((1..=senders).map(post));
    script[0].push(ReplayOperation::Wait);
    script.extend((0..senders).map(|_| vec![send(0, 101)]));
    let port = GAP + 200;
    assert_eq!(time_of(script), O_S + u64::from(senders - 1) * port + 200 + L + O_R);
}

#[test]
fn binomial_trees_take_their_closed_form() {
    // The root sends to the largest subtree first; every gap is longer than an overhead.
    fn tree(ranks: u32, start: u64) -> u64 {
        // `start`: when this rank begins to send to the children of a tree of `ranks`.
        let mut end = start;
        let (mut bit, mut number) = (ranks / 2, 0);
        while bit > 0 {
            end = end.max(tree(bit, start + O_S + number * GAP + L + O_R));
            bit /= 2;
            number += 1;
        }
        end
    }
    for ranks in [2, 4, 8, 64, 256] {
        assert_eq!(time_of(all_call(ranks, Collective::Bcast, 1)), tree(ranks, 0), "{ranks}");
    }
    assert_eq!(tree(2, 0), O_S + L + O_R);
}

#[test]
fn dissemination_and_doubling_take_their_closed_forms() {
    let one_way = O_S + L + O_R;
    for (ranks, rounds) in [(2, 1), (8, 3), (9, 4), (1000, 10)] {
        assert_eq!(time_of(all_call(ranks, Collective::Barrier, 0)), rounds * one_way, "{ranks}");
    }
    for (ranks, rounds) in [(2, 1), (8, 3), (1024, 10)] {
        let time = time_of(all_call(ranks, Collective::Allreduce, 11));
        assert_eq!(time, rounds * (one_way + 20 + 11), "{ranks}");
    }
}

#[test]
fn what_is_carried_out_as_a_whole_takes_as_long_as_its_messages() {
    // One rank more than is carried out message by message, against the same with messages.
    for (collective, bytes) in [
        (Collective::Alltoall, 1000),
        (Collective::Allgather, 4000),
        (Collective::ReduceScatter, 8000),
    ] {
        let time = |ranks| time_of(all_call(ranks, collective, bytes)) as f64;
        let (below, above) = (time(EXPANDED_MAX), time(EXPANDED_MAX + 1));
        let round = (above - below) / below;
        assert!((0.0..0.05).contains(&round), "{collective:?}: {below} {above}");
    }
    let prediction =
        replay(&Script(all_call(65, Collective::Alltoall, 1000)), &cluster(), &mut |_| {});
    assert_eq!(prediction.unwrap().whole_collectives, 1);
}

#[test]
fn a_late_rank_delays_all_and_links_add_their_time() {
    let mut script = all_call(8, Collective::Barrier, 0);
    script[5].insert(0, compute(100_000));
    assert_eq!(time_of(script), 100_000 + 3 * (O_S + L + O_R));
    let mut far = cluster();
    far.hops = Some(super::super::HopLatency {
        link_ns: 50.0,
        topology: crate::machine::NetworkTopology::Torus { dimensions: vec![8], rings: Vec::new() },
    });
    let ping = |to: u32| {
        let mut script = vec![Vec::new(); 8];
        script[0].push(send(to, 1));
        script[to as usize].extend(receive(0));
        script
    };
    assert_eq!(time_on(&far, ping(4)), O_S + 4 * 50 + L + O_R);
    assert_eq!(time_on(&far, ping(7)), O_S + 50 + L + O_R);
}

#[test]
fn ranks_of_one_node_have_parameters_of_their_own() {
    let mut two = cluster();
    two.ranks_per_node = 2;
    two.node = Parameters { latency: 10.0, ..Parameters::default() };
    let ping = |to: u32| {
        let mut script = vec![Vec::new(); 4];
        script[0].push(send(to, 1));
        script[to as usize].extend(receive(0));
        script
    };
    assert_eq!(time_on(&two, ping(1)), 10);
    assert_eq!(time_on(&two, ping(2)), O_S + L + O_R);
}

#[test]
fn messages_of_a_pair_match_in_order_and_collectives_apart() {
    let mut script = all_call(2, Collective::Barrier, 0);
    script[0].insert(0, send(1, 1001));
    script[0].push(send(1, 1));
    script[1].insert(0, post(0));
    script[1].push(ReplayOperation::Wait);
    script[1].extend(receive(0));
    let prediction = replay(&Script(script), &cluster(), &mut |_| {}).unwrap();
    assert_eq!((prediction.messages, prediction.bytes), (4, 1002));
}

#[test]
fn streams_of_a_pair_do_not_match_one_another() {
    let on = |stream, bytes| ReplayOperation::Send { to: 1, bytes, stream: MessageStream(stream) };
    let take = |stream| {
        let stream = MessageStream(stream);
        [ReplayOperation::Receive { from: 0, stream }, ReplayOperation::Wait]
    };
    // The first message waits for the receive of the second one, and then for the port.
    let sends = vec![on(7, 1), compute(10_000), on(9, 1)];
    let receives = [take(9), take(7)].concat();
    assert_eq!(time_of(vec![sends.clone(), receives]), O_S + 10_000 + O_S + GAP + L + O_R);
    let stuck = replay(&Script(vec![sends, take(8).to_vec()]), &cluster(), &mut |_| {});
    assert!(matches!(stuck, Err(ReplayError::Stuck { rank: 1, .. })));
}

#[test]
fn says_who_waits_for_ever() {
    let outcome = |script| replay(&Script(script), &cluster(), &mut |_| {}).unwrap_err();
    let stuck = outcome(vec![Vec::new(), receive(0).to_vec()]).to_string();
    assert_eq!(stuck, "1 of 2 ranks wait for ever; rank 1 waits in step 0 for a message of rank 0");
    let mut script = all_call(65, Collective::Alltoall, 1000);
    script[7].clear();
    let missing = outcome(script).to_string();
    assert!(missing.contains("not all of its ranks call"), "{missing}");
    let absent = outcome(vec![vec![send(1, 1)]]).to_string();
    assert!(absent.contains("names rank 1 in step 0, and there are 1 ranks"), "{absent}");
}

/// A train of messages between two nodes of a torus without other traffic.
#[test]
fn without_contention_the_simulated_network_has_the_same_times() {
    let machine = SimulatedMachine::named("power5-redstorm").unwrap();
    let parameters = &machine.network;
    let mut cluster = ReplayCluster::of(Parameters {
        latency: parameters.latency_ns,
        gap: parameters.gap_ns,
        gap_per_byte: parameters.gap_per_byte_ns,
        ..Parameters::default()
    });
    cluster.hops = Some(HopLatency::of(parameters));
    for (to, bytes, messages) in [(1, 0, 1), (23, 1, 1), (30, 4097, 1), (25, 100_000, 7)] {
        let mut script = vec![Vec::new(); to as usize + 1];
        script[0] = vec![send(to, bytes); messages];
        script[to as usize] = vec![post(0); messages];
        script[to as usize].push(ReplayOperation::Wait);
        let replayed = replay(&Script(script), &cluster, &mut |_| {}).unwrap().time;
        let start = SimTime::default();
        let head = |number| PacketHead { at: start, last: start, from: 0, number, to, bytes };
        let mut heads: Vec<PacketHead> = (0..messages as u64).map(head).collect();
        let came = Network::new(parameters, 100).unwrap().carry(&mut heads);
        assert_eq!(Some(replayed), came.last().map(|times| times.last), "{to}: {bytes} bytes");
    }
}
