//! Which rank goes where: `--map-by` and `--bind-to` as pure functions of the machine.

use super::hwloc::{Machine, Unit};
use super::{CpuSet, Place};

/// The order in which ranks take cores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MapBy {
    /// Core after core, in the machine's order. Also called `slot`.
    #[default]
    Core,
    /// Round-robin over packages (sockets).
    Package,
    /// Round-robin over NUMA nodes.
    Numa,
    /// Round-robin over shared caches.
    SharedCache,
}

impl MapBy {
    /// The names that `--map-by` takes.
    pub const NAMES: &'static str = "core, slot, package, numa, l3";

    /// The policy of this name.
    pub fn parse(name: &str) -> Option<MapBy> {
        Some(match name.to_ascii_lowercase().as_str() {
            "core" | "slot" => MapBy::Core,
            "package" | "socket" => MapBy::Package,
            "numa" => MapBy::Numa,
            "l3" | "l3cache" | "cache" => MapBy::SharedCache,
            _ => return None,
        })
    }

    /// The part of the machine that a place is in, at the level of this policy.
    fn part(self, place: &Place) -> u32 {
        match self {
            MapBy::Core => 0,
            MapBy::Package => place.package,
            MapBy::Numa => place.numa,
            MapBy::SharedCache => place.shared_cache,
        }
    }
}

/// What a rank is held to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BindTo {
    /// One core (all its processing units that this job may use).
    Core,
    /// Nothing: any processor this job may use.
    None,
}

impl BindTo {
    /// The names that `--bind-to` takes.
    pub const NAMES: &'static str = "core, none";

    /// The policy of this name.
    pub fn parse(name: &str) -> Option<BindTo> {
        match name.to_ascii_lowercase().as_str() {
            "core" => Some(BindTo::Core),
            "none" => Some(BindTo::None),
            _ => None,
        }
    }

    /// Binding helps as long as each rank has a core of its own; beyond that the operating system
    /// balances better than a fixed assignment.
    pub fn recommended(ranks: usize, cores: usize) -> BindTo {
        if ranks <= cores {
            BindTo::Core
        } else {
            BindTo::None
        }
    }
}

/// What one rank gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slot {
    /// Where the rank is, as far as it is fixed.
    pub place: Place,
    /// The processors the rank is bound to; `None` if it is not bound.
    pub cpus: Option<CpuSet>,
}

/// Gives each of `ranks` ranks its slot. With more ranks than cores the cores are taken again from
/// the start.
pub fn map(machine: &Machine, ranks: usize, by: MapBy, bind: BindTo) -> Vec<Slot> {
    let cores = order(machine.units(), by);
    if bind == BindTo::None || cores.is_empty() {
        let place = Place::common(machine.units().iter().map(|unit| &unit.place));
        return vec![Slot { place, cpus: None }; ranks];
    }
    let slot = |core: &Vec<Unit>| Slot {
        place: Place::common(core.iter().map(|unit| &unit.place)),
        cpus: Some(CpuSet::from_cpus(core.iter().map(|unit| unit.os_index))),
    };
    cores.iter().cycle().take(ranks).map(slot).collect()
}

/// The cores (each with its processing units) in the order in which ranks take them.
fn order(units: &[Unit], by: MapBy) -> Vec<Vec<Unit>> {
    let cores: Vec<Vec<Unit>> = units
        .chunk_by(|a, b| a.place.core == b.place.core)
        .map(<[Unit]>::to_vec)
        .collect();
    // One queue per part, parts in the machine's order; then take from the queues in turn.
    let mut parts: Vec<(u32, Vec<Vec<Unit>>)> = Vec::new();
    for core in cores {
        let part = by.part(&core[0].place);
        match parts.iter_mut().find(|(known, _)| *known == part) {
            Some((_, queue)) => queue.push(core),
            None => parts.push((part, vec![core])),
        }
    }
    let longest = parts
        .iter()
        .map(|(_, queue)| queue.len())
        .max()
        .unwrap_or(0);
    (0..longest)
        .flat_map(|turn| parts.iter().filter_map(move |(_, queue)| queue.get(turn)))
        .cloned()
        .collect()
}

#[cfg(test)]
mod tests {
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
        assert_eq!(
            cores_of(ONE_BY_EIGHT, 8, MapBy::Core),
            (0..8).collect::<Vec<_>>()
        );
        assert_eq!(
            cores_of(EIGHT_BY_SIX, 48, MapBy::Core),
            (0..48).collect::<Vec<_>>()
        );
    }

    #[test]
    fn by_package_scatters_over_packages() {
        let cores = cores_of(EIGHT_BY_SIX, 10, MapBy::Package);
        assert_eq!(cores, [0, 6, 12, 18, 24, 30, 36, 42, 1, 7]);
        assert_eq!(cores_of(ONE_BY_EIGHT, 3, MapBy::Package), [0, 1, 2]);
    }

    #[test]
    fn by_cache_scatters_over_caches() {
        assert_eq!(
            cores_of(TWO_PACKAGES_FOUR_CACHES, 5, MapBy::SharedCache),
            [0, 2, 4, 6, 1]
        );
        assert_eq!(
            cores_of(TWO_PACKAGES_FOUR_CACHES, 4, MapBy::Package),
            [0, 4, 1, 5]
        );
    }

    #[test]
    fn by_numa_scatters_over_memory() {
        let machine = "pack:2 numa:2 core:2 pu:1";
        assert_eq!(cores_of(machine, 5, MapBy::Numa), [0, 2, 4, 6, 1]);
    }

    #[test]
    fn more_ranks_than_cores_start_again() {
        assert_eq!(
            cores_of("pack:1 core:2 pu:1", 5, MapBy::Core),
            [0, 1, 0, 1, 0]
        );
    }

    #[test]
    fn a_bound_rank_has_every_thread_of_its_core() {
        let machine = Machine::synthetic(TWO_PACKAGES_FOUR_CACHES).unwrap();
        let slots = map(&machine, 8, MapBy::Core, BindTo::Core);
        assert_eq!(slots[1].cpus, Some(CpuSet::from_cpus([2, 3])));
        assert_eq!(slots[1].place.core, 1);
        assert_eq!(
            slots[1].place.processing_unit, UNKNOWN,
            "two threads: not fixed"
        );
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
        assert_eq!(
            level_between(&slots[0].place, &slots[8].place),
            Level::SharedCache
        );

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
        assert_eq!(BindTo::recommended(2, 2), BindTo::Core);
        assert_eq!(BindTo::recommended(3, 2), BindTo::None);
    }
}
