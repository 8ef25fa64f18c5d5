use super::*;
use crate::topology::{Level, UNKNOWN, level_between};

fn cores_of(machine: &str, ranks: usize, by: MapBy) -> Vec<u32> {
    let machine = Machine::synthetic(machine).unwrap();
    let slots = map(&machine, ranks, by, BindTo::Core);
    slots.iter().map(|slot| slot.place.core).collect()
}

const ONE_BY_EIGHT: &str = "pack:1 l3:1 core:8 pu:1";
const EIGHT_BY_SIX: &str = "pack:8 l3:1 core:6 pu:1";
const TWO_PACKAGES_FOUR_CACHES: &str = "pack:2 l3:2 core:2 pu:2";

#[test]
fn by_core_fills_in_order() {
    assert_eq!(cores_of(ONE_BY_EIGHT, 8, MapBy::Core), (0..8).collect::<Vec<_>>());
    assert_eq!(cores_of(EIGHT_BY_SIX, 48, MapBy::Core), (0..48).collect::<Vec<_>>());
}

#[test]
fn by_package_scatters_over_packages() {
    let cores = cores_of(EIGHT_BY_SIX, 10, MapBy::Package);
    assert_eq!(cores, [0, 6, 12, 18, 24, 30, 36, 42, 1, 7]);
    assert_eq!(cores_of(ONE_BY_EIGHT, 3, MapBy::Package), [0, 1, 2]);
}

#[test]
fn by_cache_scatters_over_caches() {
    assert_eq!(cores_of(TWO_PACKAGES_FOUR_CACHES, 5, MapBy::SharedCache), [0, 2, 4, 6, 1]);
    assert_eq!(cores_of(TWO_PACKAGES_FOUR_CACHES, 4, MapBy::Package), [0, 4, 1, 5]);
}

#[test]
fn by_numa_scatters_over_memory() {
    let machine = "pack:2 numa:2 core:2 pu:1";
    assert_eq!(cores_of(machine, 5, MapBy::Numa), [0, 2, 4, 6, 1]);
}

#[test]
fn more_ranks_than_cores_start_again() {
    assert_eq!(cores_of("pack:1 core:2 pu:1", 5, MapBy::Core), [0, 1, 0, 1, 0]);
}

#[test]
fn a_bound_rank_has_every_thread_of_its_core() {
    let machine = Machine::synthetic(TWO_PACKAGES_FOUR_CACHES).unwrap();
    let slots = map(&machine, 8, MapBy::Core, BindTo::Core);
    assert_eq!(slots[1].cpus, Some(CpuSet::from_cpus([2, 3])));
    assert_eq!(slots[1].place.core, 1);
    assert_eq!(slots[1].place.processing_unit, UNKNOWN, "two threads: not fixed");
    let level = |a: usize, b: usize| level_between(&slots[a].place, &slots[b].place);
    assert_eq!(level(0, 1), Level::SharedCache);
    assert_eq!(level(0, 2), Level::Package);
    assert_eq!(level(0, 4), Level::Node);
}

#[test]
fn an_unbound_rank_knows_what_is_sure() {
    let machine = Machine::synthetic(ONE_BY_EIGHT).unwrap();
    let slots = map(&machine, 9, MapBy::Core, BindTo::None);
    assert_eq!(slots.len(), 9);
    assert!(slots.iter().all(|slot| slot.cpus.is_none()));
    assert_eq!((slots[0].place.core, slots[0].place.package), (UNKNOWN, 0));
    assert_eq!(level_between(&slots[0].place, &slots[8].place), Level::SharedCache);

    let machine = Machine::synthetic(EIGHT_BY_SIX).unwrap();
    let slots = map(&machine, 2, MapBy::Core, BindTo::None);
    assert_eq!(level_between(&slots[0].place, &slots[1].place), Level::Node);
}

#[test]
fn policies_by_name() {
    assert_eq!(MapBy::parse("Socket"), Some(MapBy::Package));
    assert_eq!(MapBy::parse("l3"), Some(MapBy::SharedCache));
    assert_eq!(MapBy::parse("node"), None);
    assert_eq!(BindTo::parse("core"), Some(BindTo::Core));
    for bind in [
        BindTo::HwThread,
        BindTo::Core,
        BindTo::SharedCache,
        BindTo::Numa,
        BindTo::Package,
        BindTo::None,
    ] {
        assert_eq!(BindTo::parse(bind.name()), Some(bind));
        let map = bind.usual_order();
        assert_eq!(MapBy::parse(map.name()), Some(map));
    }
}

/// Processors of each rank.
fn bound(machine: &str, request: MapRequest<'_>) -> Vec<String> {
    let machine = Machine::synthetic(machine).unwrap();
    let slots = map_wide(&machine, &request);
    let cpus = slots.iter().map(|slot| slot.cpus.as_ref());
    cpus.map(|cpus| cpus.map_or("none".to_owned(), ToString::to_string)).collect()
}

fn request(by: MapBy, bind: BindTo, widths: &[usize]) -> MapRequest<'_> {
    MapRequest { by, bind, widths, objects: 1, within: None }
}

#[test]
fn wide_ranks_take_neighbouring_cores_and_stay_within_a_part() {
    let by_core = |widths| bound(EIGHT_BY_SIX, request(MapBy::Core, BindTo::Core, widths));
    assert_eq!(by_core(&[2, 2, 2, 2]), ["0-1", "2-3", "4-5", "6-7"]);
    assert_eq!(by_core(&[4, 4, 2]), ["0-3", "6-9", "4-5"]);
    // 11 ranks of 4 cores do not fit without crossing parts; 11 x 4 cores do.
    let crossing = by_core(&[4; 11]);
    assert_eq!(crossing[1], "4-7");
    assert_eq!(by_core(&[100, 1]), ["0-47", "0"]);
    let by_package = request(MapBy::Package, BindTo::Core, &[3, 3, 3]);
    assert_eq!(bound("pack:2 core:6 pu:1", by_package), ["0-2", "6-8", "3-5"]);
}

#[test]
fn wide_ranks_beyond_the_machine_start_again() {
    let twice = request(MapBy::Core, BindTo::Core, &[2, 2, 2]);
    assert_eq!(bound("pack:1 core:4 pu:1", twice), ["0-1", "2-3", "0-1"]);
    let by_package = request(MapBy::Package, BindTo::Core, &[2, 2, 2]);
    assert_eq!(bound("pack:2 core:2 pu:1", by_package), ["0-1", "2-3", "0-1"]);
    let wider = request(MapBy::Package, BindTo::Core, &[3]);
    assert_eq!(bound("pack:2 core:2 pu:1", wider), ["0-2"]);
}

#[test]
fn hardware_threads_one_of_each_core_first() {
    let machine = "pack:1 core:2 pu:2";
    let spread = request(MapBy::Core, BindTo::HwThread, &[1, 1, 1]);
    assert_eq!(bound(machine, spread), ["0", "2", "1"]);
    let packed = request(MapBy::HwThread, BindTo::HwThread, &[1, 1, 1]);
    assert_eq!(bound(machine, packed), ["0", "1", "2"]);
    let pairs = request(MapBy::Core, BindTo::HwThread, &[2, 2]);
    assert_eq!(bound(machine, pairs), ["0-1", "2-3"]);
}

#[test]
fn ranks_are_bound_to_the_parts_around_their_cores() {
    let machine = TWO_PACKAGES_FOUR_CACHES;
    let package = request(MapBy::Package, BindTo::Package, &[1, 1, 1]);
    assert_eq!(bound(machine, package), ["0-7", "8-15", "0-7"]);
    let filled = request(MapBy::Core, BindTo::Package, &[1, 1, 1, 1, 1]);
    assert_eq!(bound(machine, filled)[3..], ["0-7", "8-15"]);
    let cache = request(MapBy::SharedCache, BindTo::SharedCache, &[1, 1]);
    assert_eq!(bound(machine, cache), ["0-3", "4-7"]);
    let two = MapRequest {
        objects: 2,
        ..request(MapBy::SharedCache, BindTo::SharedCache, &[1, 1, 1, 1])
    };
    assert_eq!(bound(machine, two), ["0-7", "4-11", "8-15", "0-3,12-15"]);
    let numa = request(MapBy::Numa, BindTo::Numa, &[1, 1]);
    assert_eq!(bound("pack:2 numa:1 core:2 pu:1", numa), ["0-1", "2-3"]);
}

#[test]
fn only_the_processors_given_are_taken() {
    let free = CpuSet::from_cpus([1, 3]);
    let within = MapRequest { within: Some(&free), ..request(MapBy::Core, BindTo::Core, &[1, 1]) };
    assert_eq!(bound("pack:1 core:4 pu:1", within), ["1", "3"]);
}

#[test]
fn processors_named_by_the_user() {
    let machine = Machine::synthetic("pack:1 core:2 pu:2").unwrap();
    let sets = [CpuSet::from_cpus([0, 2]), CpuSet::from_cpus([3])];
    let slots = map_user(&machine, 3, &sets).unwrap();
    assert_eq!(slots[0].cpus.as_ref(), Some(&sets[0]));
    assert_eq!(slots[2], slots[0]);
    assert_eq!((slots[0].place.core, slots[1].place.core), (UNKNOWN, 1));
    assert_eq!(map_user(&machine, 1, &[CpuSet::from_cpus([9])]), Err(9));
}
