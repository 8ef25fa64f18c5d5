//! Random messages among adapters over a network: none is lost, altered or overtaken, whatever the
//! policy.

use std::collections::BTreeMap;

use mica_node::adapter::OperationStatus;
use proptest::prelude::*;

use super::*;
use crate::machine::NetworkParameters;

/// A message: context, tag, bytes, whether it is synchronous, moments of the send and the receive.
#[derive(Debug, Clone)]
struct Planned {
    ends: (u32, u32),
    context: u64,
    tag: i32,
    bytes: u64,
    is_synchronous: bool,
    sent: u64,
    posted: u64,
}

/// Nodes of the cluster.
const NODES: u32 = 3;
/// Room for a message; longer than the longest.
const SLOT: u64 = 2048;

fn plans(nodes: u32) -> impl Strategy<Value = Vec<Planned>> {
    let ends = (0..nodes, 0..nodes);
    let bytes = prop_oneof![Just(0_u64), 1_u64..64, 1000_u64..1050, 1025_u64..2000];
    let times = (0_u64..4_000_000, 0_u64..4_000_000);
    let plan = (ends, 0_u64..4, 0_i32..2, bytes, any::<bool>(), times);
    let plan = plan.prop_map(|(ends, context, tag, bytes, is_synchronous, times)| Planned {
        ends,
        context,
        tag,
        bytes,
        is_synchronous,
        sent: times.0,
        posted: times.1,
    });
    prop::collection::vec(plan, 1..40)
}

/// Receives of a context have all the same form, so that each finds a message.
fn receive_of(plan: &Planned, token: u64) -> AdapterRequest {
    let any_source = plan.context % 2 == 1;
    let any_tag = plan.context >= 2;
    AdapterRequest {
        peer: if any_source { ANY_SOURCE } else { plan.ends.0 },
        context: plan.context,
        flags: if any_tag { ANY_TAG } else { 0 },
        ..receive(0, plan.tag, (receive_buffer(token), SLOT), token)
    }
}

fn send_buffer(token: u64) -> u64 {
    BUFFERS + SLOT * token
}

fn receive_buffer(token: u64) -> u64 {
    BUFFERS + SLOT * (64 + token - 1000)
}

/// Byte `at` of a message.
fn byte(message: u64, at: u64) -> u8 {
    (message * 37 + at * 11 + at / 256) as u8
}

/// Messages are numbered in the order of their sends, receives in the order of their posting.
fn run(
    mut plans: Vec<Planned>,
    network: &NetworkParameters,
    policy: &Policy,
) -> (Cluster, Vec<Planned>) {
    plans.sort_by_key(|plan| plan.sent);
    let mut machine = machine();
    machine.network = network.clone();
    let mut cluster = Cluster::new(&machine, NODES, policy);
    for node in &mut cluster.nodes {
        // Every third line in each cache.
        node.host.holds = |line, cache| match cache {
            InjectTarget::L3 => line % 3 == 1,
            _ => line % 3 == 0,
        };
    }
    let mut script = Vec::new();
    for (number, plan) in plans.iter().enumerate() {
        let number = number as u64;
        let from = plan.ends.0 as usize;
        let payload: Vec<u8> = (0..plan.bytes).map(|at| byte(number, at)).collect();
        let address = send_buffer(number);
        cluster.nodes[from].host.part(address, payload.len()).copy_from_slice(&payload);
        let operation = match plan.is_synchronous {
            true => CommandKind::SendSynchronous,
            false => CommandKind::Send,
        };
        let sent = AdapterRequest {
            operation: Some(operation),
            context: plan.context,
            ..send(plan.ends.1, plan.tag, (address, plan.bytes), number)
        };
        script.push((SimTime(plan.sent), from, sent));
    }
    let mut posts: Vec<&Planned> = plans.iter().collect();
    posts.sort_by_key(|plan| plan.posted);
    for (order, plan) in posts.into_iter().enumerate() {
        let received = receive_of(plan, 1000 + order as u64);
        script.push((SimTime(plan.posted), plan.ends.1 as usize, received));
    }
    cluster.run(script);
    (cluster, plans)
}

/// The message that a receive has got: the only one with this source, tag and bytes.
fn message_in(
    cluster: &mut Cluster,
    node: usize,
    event: &RequestCompletion,
    plans: &[Planned],
) -> Option<u64> {
    let buffer = cluster.nodes[node].host.part(receive_buffer(event.token), SLOT as usize);
    let (bytes, rest) = buffer.split_at(event.length as usize);
    assert!(rest.iter().all(|b| *b == 0), "nothing behind the message");
    let is_message = |(number, plan): &(usize, &Planned)| {
        (plan.ends, plan.tag, plan.bytes) == ((event.source, node as u32), event.tag, event.length)
            && (0..).zip(bytes).all(|(at, b)| byte(*number as u64, at) == *b)
    };
    let mut of_event = plans.iter().enumerate().filter(is_message);
    of_event.next().map(|(number, _)| number as u64)
}

fn networks() -> impl Strategy<Value = NetworkParameters> {
    let torus = NetworkTopology::Torus { dimensions: vec![3], rings: vec![false] };
    let tree = NetworkTopology::FatTree { arity: 2, levels: 2 };
    let topology = prop_oneof![Just(NetworkTopology::Crossbar), Just(torus), Just(tree)];
    (topology, 1.0_f64..2000.0, 0.0_f64..4.0).prop_map(|(topology, latency_ns, gap_per_byte_ns)| {
        NetworkParameters { topology, latency_ns, gap_per_byte_ns, ..machine().network }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn no_message_is_lost_altered_or_overtaken(plans in plans(NODES), network in networks()) {
        let (mut cluster, plans) = run(plans, &network, &policy("base"));
        let mut received = BTreeMap::new();
        for node in 0..NODES as usize {
            let events = cluster.events[node].clone();
            let ended = plans.iter().filter(|p| p.ends.0 as usize == node).count()
                + plans.iter().filter(|p| p.ends.1 as usize == node).count();
            prop_assert_eq!(events.len(), ended, "each operation completes once");
            for (_, event) in &events {
                prop_assert_eq!(event.status, OperationStatus::Done);
                if event.token >= 1000 && event.length > 0 {
                    let message = message_in(&mut cluster, node, event, &plans);
                    received.insert(message.expect("a message that was sent"), event.token);
                }
            }
        }
        let with_bytes = plans.iter().filter(|p| p.bytes > 0).count();
        prop_assert_eq!(received.len(), with_bytes, "each message is received once");
        for (first, first_receive) in &received {
            for (second, second_receive) in received.range(first + 1..) {
                let (a, b) = (&plans[*first as usize], &plans[*second as usize]);
                if (a.ends, a.context, a.tag) == (b.ends, b.context, b.tag) && a.sent < b.sent {
                    prop_assert!(first_receive < second_receive, "{:?} overtook {:?}", b, a);
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn policies_change_no_byte_and_no_match(plans in plans(NODES)) {
        let network = machine().network;
        let (base, _) = run(plans.clone(), &network, &policy("base"));
        for name in Policy::names().chain(["processor-direction:1", "header+on-wait"]) {
            let (other, _) = run(plans.clone(), &network, &policy(name));
            for (this, that) in base.nodes.iter().zip(&other.nodes) {
                prop_assert!(this.host.memory == that.host.memory, "{}", name);
            }
        }
    }

    #[test]
    fn two_runs_are_alike(plans in plans(NODES), network in networks()) {
        let (one, _) = run(plans.clone(), &network, &policy("message"));
        let (two, _) = run(plans, &network, &policy("message"));
        prop_assert_eq!(one.events, two.events);
    }
}
