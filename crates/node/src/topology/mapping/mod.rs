//! Mapping of ranks to processors: `--map-by`, `--bind-to` and the number of cores per rank as pure
//! functions of the machine.
//!
//! Ranks take *elements* in order: cores, or hardware threads if they are bound to these. A rank
//! that has several threads takes several adjacent elements ([`MapRequest::widths`]). Elements are
//! grouped into the parts of a level (shared cache, NUMA node, package): `--map-by` takes the parts
//! round-robin; without it, the elements of one rank stay within the smallest part that lets all
//! ranks fit. A rank is bound to its elements, or to the parts that contain them ([`BindTo`]).

#[cfg(test)]
mod tests;

use super::hwloc::{Machine, Unit};
use super::{CorePlace, CpuSet};

/// The order in which ranks take cores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MapBy {
    /// Core after core, in the machine's order. Also called `slot`.
    #[default]
    Core,
    /// Hardware thread after hardware thread.
    HwThread,
    /// Round-robin over packages (sockets).
    Package,
    /// Round-robin over NUMA nodes.
    Numa,
    /// Round-robin over shared caches.
    SharedCache,
}

impl MapBy {
    /// The names that `--map-by` accepts.
    pub const NAMES: &'static str = "core, slot, hwthread, package, numa, l3";

    /// The policy with this name.
    pub fn parse(name: &str) -> Option<MapBy> {
        Some(match name.to_ascii_lowercase().as_str() {
            "core" | "slot" => MapBy::Core,
            "hwthread" => MapBy::HwThread,
            "package" | "socket" => MapBy::Package,
            "numa" => MapBy::Numa,
            "l3" | "l3cache" | "cache" => MapBy::SharedCache,
            _ => return None,
        })
    }

    /// The name that [`MapBy::parse`] accepts.
    pub fn name(self) -> &'static str {
        match self {
            MapBy::Core => "core",
            MapBy::HwThread => "hwthread",
            MapBy::Package => "package",
            MapBy::Numa => "numa",
            MapBy::SharedCache => "l3",
        }
    }

    /// The part of the machine that contains `place`, at the level of this policy.
    fn part(self, place: &CorePlace) -> u32 {
        match self {
            MapBy::Core | MapBy::HwThread => 0,
            MapBy::Package => place.package,
            MapBy::Numa => place.numa,
            MapBy::SharedCache => place.shared_cache,
        }
    }
}

/// What a rank is bound to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BindTo {
    /// Hardware threads, as many as the rank's width.
    HwThread,
    /// Cores, as many as the rank's width, with all their processing units that this job may use.
    Core,
    /// The shared cache around its cores.
    SharedCache,
    /// The NUMA node around its cores.
    Numa,
    /// The package (socket) around its cores.
    Package,
    /// Nothing: any processor this job may use.
    None,
}

impl BindTo {
    /// The names that `--bind-to` accepts.
    pub const NAMES: &'static str = "core, hwthread, l3, numa, package, none";

    /// The policy with this name.
    pub fn parse(name: &str) -> Option<BindTo> {
        Some(match name.to_ascii_lowercase().as_str() {
            "core" | "l1cache" | "l1dcache" => BindTo::Core,
            "hwthread" => BindTo::HwThread,
            "package" | "socket" => BindTo::Package,
            "numa" => BindTo::Numa,
            "l3" | "l3cache" | "cache" => BindTo::SharedCache,
            "none" | "machine" | "board" => BindTo::None,
            _ => return None,
        })
    }

    /// The name that [`BindTo::parse`] accepts.
    pub fn name(self) -> &'static str {
        match self {
            BindTo::HwThread => "hwthread",
            BindTo::Core => "core",
            BindTo::SharedCache => "l3",
            BindTo::Numa => "numa",
            BindTo::Package => "package",
            BindTo::None => "none",
        }
    }

    /// The level of the parts that a rank is bound to, for the policies wider than a core.
    fn level(self) -> Option<MapBy> {
        match self {
            BindTo::SharedCache => Some(MapBy::SharedCache),
            BindTo::Numa => Some(MapBy::Numa),
            BindTo::Package => Some(MapBy::Package),
            BindTo::HwThread | BindTo::Core | BindTo::None => None,
        }
    }

    /// The default order for this policy: ranks that are bound to packages take these round-robin.
    pub fn usual_order(self) -> MapBy {
        self.level().unwrap_or_default()
    }
}

/// The mapping of one rank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RankSlot {
    /// The place of the rank, as far as it is fixed.
    pub place: CorePlace,
    /// The processors the rank is bound to; `None` if it is not bound.
    pub cpus: Option<CpuSet>,
}

/// The parameters of a mapping.
#[derive(Debug, Clone, Copy)]
pub struct MapRequest<'a> {
    /// The order.
    pub by: MapBy,
    /// What ranks are bound to.
    pub bind: BindTo,
    /// For each rank, how many cores (with [`BindTo::HwThread`], hardware threads) it takes; at
    /// least 1.
    pub widths: &'a [usize],
    /// To how many parts a rank is bound, for the policies wider than a core: for example 2
    /// packages.
    pub objects: usize,
    /// The processors to use; `None` for all that the job may use.
    pub within: Option<&'a CpuSet>,
}

/// Maps each of `ranks` ranks to its slot, one core wide. If there are more ranks than cores, the
/// cores are reused from the start.
pub fn map(machine: &Machine, ranks: usize, by: MapBy, bind: BindTo) -> Vec<RankSlot> {
    map_wide(machine, &MapRequest { by, bind, widths: &vec![1; ranks], objects: 1, within: None })
}

/// Maps each rank to its slot. If there are too few elements, they are reused from the start; a
/// rank wider than all elements gets all of them.
pub fn map_wide(machine: &Machine, request: &MapRequest<'_>) -> Vec<RankSlot> {
    let allowed = |unit: &&Unit| {
        let within = request.within;
        within.is_none_or(|within| within.contains(unit.os_index))
    };
    let units: Vec<Unit> = machine.units().iter().filter(allowed).copied().collect();
    let ranks = request.widths.len();
    if request.bind == BindTo::None || units.is_empty() {
        let units = machine.units().iter();
        let place = CorePlace::common(units.map(|unit| &unit.place));
        return vec![RankSlot { place, cpus: None }; ranks];
    }
    let elements = elements(&units, request);
    let taken = take(&elements, request);
    let slot = |own: Vec<&Element>| {
        let own: Vec<Unit> = own.into_iter().flatten().copied().collect();
        slot_of(&match request.bind.level() {
            Some(level) => around(&units, &own, level, request.objects),
            None => own,
        })
    };
    taken.into_iter().map(slot).collect()
}

/// Maps rank `r` to the processors `sets[r % sets.len()]`.
///
/// # Errors
/// The first processor that this job may not use.
pub fn map_user(machine: &Machine, ranks: usize, sets: &[CpuSet]) -> Result<Vec<RankSlot>, u32> {
    let known = |cpu: u32| machine.units().iter().find(|unit| unit.os_index == cpu);
    let slots: Result<Vec<RankSlot>, u32> = sets
        .iter()
        .map(|set| {
            let units = set.iter().map(|cpu| known(cpu).copied().ok_or(cpu));
            Ok(slot_of(&units.collect::<Result<Vec<Unit>, u32>>()?))
        })
        .collect();
    Ok(slots?.into_iter().cycle().take(ranks).collect())
}

fn slot_of(units: &[Unit]) -> RankSlot {
    RankSlot {
        place: CorePlace::common(units.iter().map(|unit| &unit.place)),
        cpus: Some(CpuSet::from_cpus(units.iter().map(|unit| unit.os_index))),
    }
}

/// The unit of mapping: a core, or one hardware thread.
type Element = Vec<Unit>;

/// The elements in the machine's order.
fn elements(units: &[Unit], request: &MapRequest<'_>) -> Vec<Element> {
    let cores = units.chunk_by(|a, b| a.place.core == b.place.core);
    let by_thread = request.by == MapBy::HwThread;
    if request.bind != BindTo::HwThread && !by_thread {
        return cores.map(<[Unit]>::to_vec).collect();
    }
    if by_thread || request.widths.iter().any(|&width| width > 1) {
        return units.iter().map(|&unit| vec![unit]).collect();
    }
    // The first threads of all cores before the second of any, so that ranks do not share a core as
    // long as there are cores.
    let cores: Vec<&[Unit]> = cores.collect();
    let most = cores.iter().map(|core| core.len()).max().unwrap_or(0);
    let turns = (0..most).flat_map(|turn| cores.iter().filter_map(move |core| core.get(turn)));
    turns.map(|&unit| vec![unit]).collect()
}

/// The parts of a level, in the machine's order, each with the indices of its elements.
fn parts(elements: &[Element], level: MapBy) -> Vec<Vec<usize>> {
    let mut parts: Vec<(u32, Vec<usize>)> = Vec::new();
    for (index, element) in elements.iter().enumerate() {
        let part = level.part(&element[0].place);
        match parts.iter_mut().find(|(known, _)| *known == part) {
            Some((_, members)) => members.push(index),
            None => parts.push((part, vec![index])),
        }
    }
    parts.into_iter().map(|(_, members)| members).collect()
}

/// The elements of each rank.
fn take<'a>(elements: &'a [Element], request: &MapRequest<'_>) -> Vec<Vec<&'a Element>> {
    let named = |taken: Vec<Vec<usize>>| {
        let of_rank = |numbers: Vec<usize>| numbers.iter().map(|&n| &elements[n]).collect();
        taken.into_iter().map(of_rank).collect()
    };
    let in_turn = !matches!(request.by, MapBy::Core | MapBy::HwThread);
    if in_turn {
        if let Some(taken) =
            take_from(&parts(elements, request.by), request.widths, Filling::InTurn, Supply::Reused)
        {
            return named(taken);
        }
    } else if request.widths.iter().any(|&width| width > 1) {
        for level in [MapBy::SharedCache, MapBy::Numa, MapBy::Package] {
            if let Some(taken) =
                take_from(&parts(elements, level), request.widths, Filling::OneByOne, Supply::Once)
            {
                return named(taken);
            }
        }
    }
    // Across parts, and reusing elements from the start where there are too few.
    let all = parts(elements, MapBy::Core);
    let most = elements.len();
    let widths: Vec<usize> = request.widths.iter().map(|&w| w.min(most)).collect();
    named(
        take_from(&all, &widths, Filling::OneByOne, Supply::Reused)
            .expect("no rank is wider than all elements"),
    )
}

/// Which part the next rank tries first.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Filling {
    /// The first one, until it is full.
    OneByOne,
    /// The part after the previous rank's.
    InTurn,
}

/// What is available when no part has enough elements left.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Supply {
    /// Nothing.
    Once,
    /// All elements again.
    Reused,
}

/// Takes for each rank adjacent elements of one part. `None` if a rank does not fit.
fn take_from(
    parts: &[Vec<usize>],
    widths: &[usize],
    filling: Filling,
    supply: Supply,
) -> Option<Vec<Vec<usize>>> {
    let mut used = vec![0; parts.len()];
    let mut next = 0;
    let mut taken = Vec::with_capacity(widths.len());
    for &width in widths {
        let find = |used: &[usize]| {
            let order = (next..parts.len()).chain(0..next);
            let mut fits = order.filter(|&part| parts[part].len() - used[part] >= width);
            fits.next()
        };
        let part = match find(&used) {
            Some(part) => part,
            None if supply == Supply::Reused => {
                used.fill(0);
                next = 0;
                (0..parts.len()).find(|&part| parts[part].len() >= width)?
            }
            None => return None,
        };
        taken.push(parts[part][used[part]..used[part] + width].to_vec());
        used[part] += width;
        if filling == Filling::InTurn {
            next = (part + 1) % parts.len();
        }
    }
    Some(taken)
}

/// All units in the parts of `level` that contain `own`, and in the parts that follow, until there
/// are `objects` parts.
fn around(units: &[Unit], own: &[Unit], level: MapBy, objects: usize) -> Vec<Unit> {
    let mut known: Vec<u32> = Vec::new();
    for unit in units {
        let part = level.part(&unit.place);
        if !known.contains(&part) {
            known.push(part);
        }
    }
    let is_own = |part: &u32| own.iter().any(|unit| level.part(&unit.place) == *part);
    let first = known.iter().position(is_own).unwrap_or(0);
    let mut wanted: Vec<u32> = known.iter().copied().filter(is_own).collect();
    let following = known[first..].iter().chain(&known[..first]);
    for part in following {
        if wanted.len() < objects && !wanted.contains(part) {
            wanted.push(*part);
        }
    }
    let inside = units.iter().filter(|unit| wanted.contains(&level.part(&unit.place)));
    inside.copied().collect()
}
