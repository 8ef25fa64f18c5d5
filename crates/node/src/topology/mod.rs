//! Where ranks are on the machine, and the topological distance between two of them.
//!
//! The MPI library uses the plain types here and never links hwloc: the launcher queries hwloc once
//! (feature `hwloc`), writes one [`CorePlace`] per rank into the job segment, and every rank reads
//! it from there. Levels follow chai-2009 chapter 3: intra-CMP or shared cache, intra-socket,
//! inter-socket, inter-node.

mod cpus;
#[cfg(feature = "hwloc")]
mod hwloc;
#[cfg(feature = "hwloc")]
mod mapping;
mod memory;
#[cfg(feature = "launcher")]
mod reserve;
mod sysfs;

#[cfg(feature = "launcher")]
pub(crate) use cpus::unified_cgroup;
pub use cpus::{CpuSet, affinity, affinity_of, available_cores, bind_thread, can_bind, cpu_quota};
#[cfg(feature = "hwloc")]
pub use hwloc::{
    CacheLevel, Machine, NumaNode, SYNTHETIC_VARIABLE, TopologyError, Unit, hwloc_version,
    readable_bytes,
};
#[cfg(feature = "hwloc")]
pub use mapping::{BindTo, MapBy, MapRequest, RankSlot, map, map_user, map_wide};
pub use memory::{available_memory, memory_limit, overcommits, system_memory};
#[cfg(feature = "launcher")]
pub use reserve::{Occupied, Reservation, occupied};
pub use sysfs::{place_below, place_on};

/// The value in a [`CorePlace`] for a part of the machine that is unknown, or not fixed because the
/// rank is not bound.
pub const UNKNOWN: u32 = u32::MAX;

/// The distance between two ranks, nearest first.
#[repr(u32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// Their cores share a cache (the outermost one of the machine).
    SharedCache = 0,
    /// Their cores are in one package (socket), without a shared cache.
    Package = 1,
    /// They are on one node, in different packages or in unknown places.
    Node = 2,
    /// They are on different nodes.
    Network = 3,
}

impl Level {
    /// Every level, nearest first.
    pub const ALL: [Level; 4] = [Level::SharedCache, Level::Package, Level::Node, Level::Network];

    /// The name used in tables and reports.
    pub fn name(self) -> &'static str {
        match self {
            Level::SharedCache => "shared cache",
            Level::Package => "package",
            Level::Node => "node",
            Level::Network => "network",
        }
    }
}

/// The place of a rank: hwloc's logical indices, or [`UNKNOWN`].
///
/// Lives in the job segment, hence `repr(C)`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CorePlace {
    /// The core.
    pub core: u32,
    /// The outermost cache above the core.
    pub shared_cache: u32,
    /// The package (socket).
    pub package: u32,
    /// The NUMA node whose memory is nearest.
    pub numa: u32,
    /// The processing unit (hardware thread).
    pub processing_unit: u32,
}

const _: () = assert!(size_of::<CorePlace>() == 20 && align_of::<CorePlace>() == 4);

impl CorePlace {
    /// A place that is entirely unknown.
    pub const UNKNOWN: CorePlace = CorePlace {
        core: UNKNOWN,
        shared_cache: UNKNOWN,
        package: UNKNOWN,
        numa: UNKNOWN,
        processing_unit: UNKNOWN,
    };

    /// The common part of all `places`: a field keeps its value where all are equal.
    ///
    /// This is the place of a rank that may run on any of them. On a machine with one package an
    /// unbound rank is still known to be in that package.
    pub fn common<'a>(places: impl IntoIterator<Item = &'a CorePlace>) -> CorePlace {
        let mut places = places.into_iter();
        let Some(&first) = places.next() else {
            return CorePlace::UNKNOWN;
        };
        let agree = |a: u32, b: u32| if a == b { a } else { UNKNOWN };
        places.fold(first, |common, place| CorePlace {
            core: agree(common.core, place.core),
            shared_cache: agree(common.shared_cache, place.shared_cache),
            package: agree(common.package, place.package),
            numa: agree(common.numa, place.numa),
            processing_unit: agree(common.processing_unit, place.processing_unit),
        })
    }
}

impl Default for CorePlace {
    fn default() -> CorePlace {
        CorePlace::UNKNOWN
    }
}

/// The level between two places of one node. An unknown part counts as different: [`Level::Node`].
pub fn level_between(a: &CorePlace, b: &CorePlace) -> Level {
    let same = |x: u32, y: u32| x != UNKNOWN && x == y;
    if same(a.core, b.core) || same(a.shared_cache, b.shared_cache) {
        Level::SharedCache
    } else if same(a.package, b.package) {
        Level::Package
    } else {
        Level::Node
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(core: u32, shared_cache: u32, package: u32) -> CorePlace {
        CorePlace { core, shared_cache, package, numa: package, processing_unit: core }
    }

    #[test]
    fn levels_are_ordered_by_distance() {
        let here = place(0, 0, 0);
        assert_eq!(level_between(&here, &place(1, 0, 0)), Level::SharedCache);
        assert_eq!(level_between(&here, &place(2, 1, 0)), Level::Package);
        assert_eq!(level_between(&here, &place(4, 2, 1)), Level::Node);
        assert!(Level::ALL.is_sorted());
    }

    #[test]
    fn unknown_places_are_never_near() {
        let unknown = CorePlace::UNKNOWN;
        assert_eq!(level_between(&unknown, &unknown), Level::Node);
        assert_eq!(level_between(&unknown, &place(0, 0, 0)), Level::Node);
        // Even without any cache, the same core counts as sharing one.
        let bare = place(3, UNKNOWN, 0);
        assert_eq!(level_between(&bare, &bare), Level::SharedCache);
    }

    #[test]
    fn common_place_keeps_what_all_agree_on() {
        let common = CorePlace::common(&[place(0, 0, 0), place(1, 0, 0), place(2, 1, 0)]);
        assert_eq!(common.core, UNKNOWN);
        assert_eq!(common.shared_cache, UNKNOWN);
        assert_eq!(common.package, 0);
        assert_eq!(CorePlace::common(&[]), CorePlace::UNKNOWN);
    }
}
