//! The choice on whole machines: for each pair of ranks its level, and with that its thresholds
//! (chai-2009, 6.3.1).

use mica_node::topology::{BindTo, CorePlace, Level, Machine, MapBy, level_between, map};
use mica_policy::{
    MessagePath, MessagePaths, OutgoingMessage, PathCost, PathCosts, Situation, Thresholds, choose,
};

/// The two paths that chai-2009 compares.
const CHAI: MessagePaths = MessagePaths::SHARED_MEMORY.with(MessagePath::Pull);

/// Costs of a machine on which direct copy overtakes shared memory at 32 KiB, 2 KiB and 1 KiB
/// (chai-2009, 6.3.1).
fn chai() -> PathCosts {
    let mut costs = PathCosts::default();
    for (level, cells_ns) in [
        (Level::SharedCache, 0.4 + 3000.0 / 32768.0),
        (Level::Package, 0.4 + 3000.0 / 2048.0),
        (Level::Node, 0.4 + 3000.0 / 1024.0),
    ] {
        costs.set(level, MessagePath::Pull, PathCost::new(4000.0, &[(0, 0.4)]).shares(0.0, 1.0));
        costs.set(level, MessagePath::Ring, PathCost::new(1000.0, &[(0, cells_ns)]));
        costs.set(level, MessagePath::Cells, PathCost::new(1000.0, &[(0, cells_ns)]));
        costs.set(level, MessagePath::Streamed, PathCost::new(2500.0, &[(0, cells_ns)]));
    }
    costs
}

/// The places of as many ranks as the machine has cores.
fn places(machine: &str) -> Vec<CorePlace> {
    let machine = Machine::synthetic(machine).expect("a machine");
    let slots = map(&machine, machine.cores(), MapBy::Core, BindTo::Core);
    slots.into_iter().map(|slot| slot.place).collect()
}

/// For each ordered pair of ranks: its level and eager threshold.
fn pairs(places: &[CorePlace], costs: &PathCosts) -> Vec<(usize, usize, Level, usize)> {
    let threshold = Level::ALL.map(|level| {
        let situation = Situation::waiting(level, CHAI);
        Thresholds::derive(costs, &situation).eager_max
    });
    let others = |a: usize| (0..places.len()).filter(move |&b| a != b);
    let pair = |a: usize, b: usize| {
        let level = level_between(&places[a], &places[b]);
        (a, b, level, threshold[level as usize])
    };
    (0..places.len()).flat_map(|a| others(a).map(move |b| pair(a, b))).collect()
}

#[test]
fn one_package_of_eight_cores_with_one_cache() {
    for (_, _, level, eager_max) in pairs(&places("pack:1 l3:1 core:8 pu:1"), &chai()) {
        assert_eq!((level, eager_max), (Level::SharedCache, 32 << 10));
    }
}

#[test]
fn eight_packages_of_six_cores() {
    let found = pairs(&places("pack:8 l3:1 core:6 pu:1"), &chai());
    assert_eq!(found.len(), 48 * 47);
    for (a, b, level, eager_max) in found {
        let wanted = match a / 6 == b / 6 {
            true => (Level::SharedCache, 32 << 10),
            false => (Level::Node, 1 << 10),
        };
        assert_eq!((level, eager_max), wanted, "{a} and {b}");
    }
}

/// The paper's own machine: two packages with two caches each, two cores below each cache.
#[test]
fn clovertown_has_three_levels_and_three_thresholds() {
    let found = pairs(&places("pack:2 l2:2 core:2 pu:1"), &chai());
    for (a, b, level, eager_max) in found {
        let wanted = if a / 2 == b / 2 {
            (Level::SharedCache, 32 << 10)
        } else if a / 4 == b / 4 {
            (Level::Package, 2 << 10)
        } else {
            (Level::Node, 1 << 10)
        };
        assert_eq!((level, eager_max), wanted, "{a} and {b}");
    }
}

#[test]
fn same_message_takes_different_paths_by_level() {
    let places = places("pack:2 l2:2 core:2 pu:1");
    let path = |a: usize, b: usize, len: usize| {
        let situation = Situation::waiting(level_between(&places[a], &places[b]), CHAI);
        choose(&OutgoingMessage::contiguous(len), &situation, &chai())
    };
    assert_eq!(
        (path(0, 1, 1500), path(0, 2, 1500), path(0, 4, 1500)),
        (MessagePath::Ring, MessagePath::Ring, MessagePath::Pull)
    );
    assert_eq!(
        (path(0, 1, 16384), path(0, 2, 16384), path(0, 4, 16384)),
        (MessagePath::Cells, MessagePath::Pull, MessagePath::Pull)
    );
}

/// With skew, the threshold is that of shared memory on every pair, close or distant (chai-2009,
/// 6.3.2).
#[test]
fn skew_raises_the_threshold_of_every_level() {
    for level in [Level::SharedCache, Level::Package, Level::Node] {
        let situation = Situation::waiting(level, CHAI);
        let t = Thresholds::derive(&chai(), &situation);
        assert!(t.eager(true) > t.eager(false));
        assert_eq!(t.eager(true), situation.limits.eager_skewed);
    }
}

/// Ranks that are not bound may be anywhere: what is not known counts as the most distant level.
#[test]
fn unbound_ranks_assume_the_most_distant_level() {
    let machine = Machine::synthetic("pack:8 l3:1 core:6 pu:1").expect("a machine");
    let slots = map(&machine, 2, MapBy::Core, BindTo::None);
    let places: Vec<CorePlace> = slots.into_iter().map(|slot| slot.place).collect();
    for (_, _, level, eager_max) in pairs(&places, &chai()) {
        assert_eq!((level, eager_max), (Level::Node, 1 << 10));
    }
}
