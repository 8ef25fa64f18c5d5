//! Where each policy puts events and payload, on a machine with caches of 1920 and 36864 KiB.

use super::*;
use crate::adapter::policy::{Adaptive, CacheSizes, FixedPolicy, Incoming, MatchKind, PlacedBytes};

const L2: InjectTarget = InjectTarget::L2 { core: 0 };
const L3: InjectTarget = InjectTarget::L3;
const MEMORY: InjectTarget = InjectTarget::Memory;
const KIB: u64 = 1024;

fn fixed(name: &str) -> FixedPolicy {
    policy(name).current()
}

fn incoming(bytes: u64) -> Incoming {
    Incoming {
        address: BUFFERS,
        bytes,
        kind: MatchKind::Preposted,
        is_awaited: false,
        is_hinted: false,
    }
}

/// The only target of a payload.
fn target(name: &str, incoming: Incoming) -> InjectTarget {
    let caches = CacheSizes::of(&machine());
    let runs = fixed(name).payload(&incoming, &caches, |_, _| false);
    assert_eq!(runs.len(), 1);
    assert_eq!(runs[0].bytes, incoming.bytes);
    runs[0].target
}

#[test]
fn events_go_to_the_l2_by_header_and_message_alone() {
    for name in Policy::names().filter(|name| *name != "adaptive") {
        let is_header = ["header", "hl2", "message", "hl2p"].contains(&name);
        assert_eq!(fixed(name).event(), if is_header { L2 } else { MEMORY }, "{name}");
    }
}

#[test]
fn payload_goes_where_the_thesis_has_it() {
    let preposted = incoming(4 * KIB);
    let unexpected = Incoming { kind: MatchKind::Unexpected, ..preposted };
    let targets = |name| (target(name, preposted), target(name, unexpected));
    assert_eq!(targets("base"), (MEMORY, MEMORY));
    assert_eq!(targets("header"), (MEMORY, MEMORY));
    assert_eq!(targets("preposted"), (L3, MEMORY));
    assert_eq!(targets("unexpected"), (MEMORY, L3));
    assert_eq!(targets("payload"), (L3, L3));
    assert_eq!(targets("message"), (L3, L3));
    assert_eq!(targets("processor-direction"), (L2, L2));
    let other = InjectTarget::L2 { core: 1 };
    assert_eq!(targets("processor-direction:1"), (other, other));
}

#[test]
fn waits_and_hints_bring_payload_to_the_l2() {
    let awaited = Incoming { is_awaited: true, ..incoming(4 * KIB) };
    let hinted = Incoming { is_hinted: true, ..incoming(4 * KIB) };
    assert_eq!(target("on-wait", awaited), L2);
    assert_eq!(target("on-wait", hinted), MEMORY);
    assert_eq!(target("application-driven", hinted), L2);
    assert_eq!(target("hint", awaited), MEMORY);
}

#[test]
fn no_message_takes_more_than_half_of_a_cache() {
    let (half_l2, half_l3) = (960 * KIB, 18432 * KIB);
    assert_eq!(target("payload", incoming(half_l3)), L3);
    assert_eq!(target("payload", incoming(half_l3 + 1)), MEMORY);
    assert_eq!(target("processor-direction", incoming(half_l2)), L2);
    assert_eq!(target("processor-direction", incoming(half_l2 + 1)), L3);
    assert_eq!(target("processor-direction", incoming(half_l3 + 1)), MEMORY);
    let by_size = |bytes| target("size-dependent", incoming(bytes));
    assert_eq!(by_size(240 * KIB), L2);
    assert_eq!(by_size(240 * KIB + 1), L3);
    assert_eq!(by_size(half_l3 + 1), MEMORY);
}

#[test]
fn without_an_l3_its_payload_goes_to_the_l2() {
    let mut caches = CacheSizes::of(&machine());
    caches.l3 = None;
    let target =
        |bytes| fixed("payload").payload(&incoming(bytes), &caches, |_, _| false)[0].target;
    assert_eq!(target(960 * KIB), L2);
    assert_eq!(target(960 * KIB + 1), MEMORY);
}

#[test]
fn first_part_is_the_first_lines() {
    let caches = CacheSizes::of(&machine());
    let runs = |address, bytes| {
        let message = Incoming { address, ..incoming(bytes) };
        fixed("first-part").payload(&message, &caches, |_, _| false)
    };
    let run = |bytes, target| PlacedBytes { bytes, target };
    let part = 1920 * KIB / 256;
    assert_eq!(runs(BUFFERS, 100), [run(100, L2)]);
    let long = runs(BUFFERS + 100, 100_000);
    let first = (BUFFERS + 100 + part) / 128 * 128 - BUFFERS - 100;
    assert_eq!(long, [run(first, L2), run(100_000 - first, MEMORY)]);
}

#[test]
fn lines_go_to_the_caches_that_have_them() {
    let caches = CacheSizes::of(&machine());
    let line = |n: u64| BUFFERS / 128 + n;
    let holds = |address: u64, cache| {
        let in_l2 = [line(1), line(2)].contains(&(address / 128));
        match cache {
            InjectTarget::L3 => in_l2 || address / 128 == line(4),
            _ => in_l2,
        }
    };
    let message = Incoming { address: BUFFERS + 64, ..incoming(600) };
    let runs = fixed("in-cache").payload(&message, &caches, holds);
    let wanted = [(64, MEMORY), (256, L2), (128, MEMORY), (128, L3), (24, MEMORY)];
    let runs: Vec<_> = runs.iter().map(|run| (run.bytes, run.target)).collect();
    assert_eq!(runs, wanted);
    // All lines are there, but half of the caches is the most.
    let large = Incoming { address: BUFFERS, ..incoming(40_000 * KIB) };
    let runs = fixed("in-cache").payload(&large, &caches, |_, _| true);
    let runs: Vec<_> = runs.iter().map(|run| (run.bytes / KIB, run.target)).collect();
    assert_eq!(runs, [(960, L2), (18432, L3), (40_000 - 960 - 18432, MEMORY)]);
}

#[test]
fn adapter_asks_its_policy() {
    let written = |name: &str, prepare: fn(&mut Node)| {
        let mut node = Node::new(0, 2, policy(name));
        node.command(SimTime(0), &receive(1, 7, (BUFFERS, 512), 1));
        prepare(&mut node);
        node.arrive(SimTime(1000), 1, eager(7, &[1; 512]));
        node.finish();
        (node.host.writes[0].2, node.host.event_targets[0])
    };
    let nothing = |_: &mut Node| {};
    assert_eq!(written("message", nothing), (L3, L2));
    assert_eq!(written("base", nothing), (MEMORY, MEMORY));
    assert_eq!(written("hint", nothing), (MEMORY, MEMORY));
    assert_eq!(written("hint", |node| node.adapter.hint(1)), (L2, MEMORY));
    assert_eq!(written("on-wait", nothing), (MEMORY, MEMORY));
    let wait = |node: &mut Node| assert!(!node.adapter.should_wake(0));
    assert_eq!(written("on-wait", wait), (L2, MEMORY));
    let hold = |node: &mut Node| node.host.holds = |_, cache| cache == L3;
    assert_eq!(written("in-cache", hold), (L3, MEMORY));
    assert_eq!(written("adaptive", nothing), (L3, Adaptive::new(&machine()).current().event()));
}

#[test]
fn hint_reaches_a_message_that_is_being_pulled() {
    let mut node = Node::new(0, 2, policy("hint"));
    node.command(SimTime(0), &receive(1, 7, (BUFFERS, 5000), 1));
    node.arrive(SimTime(1000), 1, announce(7, 5000, 3));
    node.adapter.hint(1);
    node.adapter.hint(99);
    node.arrive(SimTime(10_000_000), 1, data(0, vec![1; 5000]));
    assert_eq!(node.host.writes[0].2, L2);
}
