//! Splitting by hardware (MPI 5.0, 7.4.2, `MPI_Comm_split_type`), and what hardware there is
//! (9.1.2, `MPI_Get_hw_resource_info`).
//!
//! Every rank knows which node each rank runs on, and the node's segment says where on it, so no
//! communication is needed. Memory is shared by the ranks of a node. Instances of a resource are
//! numbered on each node anew. A rank is restricted to an instance (a package, a core) if `mpiexec`
//! bound it to processors inside.

use mica_node::topology::{CorePlace, UNKNOWN};

use mica_protocol::Engine;

use super::object::Comm;
use crate::constants as c;
use crate::error::{Error, Result};
use crate::info::Info;
use crate::process;
use crate::session::ProcessSet;

/// A type of hardware resource.
struct HardwareResource {
    /// Its name in MPI: scheme and type of hwloc, where hwloc has the type.
    name: &'static str,
    /// The instance in a place; [`UNKNOWN`] if the rank there is not restricted to one.
    instance: fn(&CorePlace) -> u32,
}

/// Ordered from the whole node to its parts.
const RESOURCES: [HardwareResource; 6] = [
    HardwareResource {
        name: "hwloc://Machine",
        instance: |_| 0, // the only one on its node
    },
    HardwareResource { name: "hwloc://Package", instance: |place| place.package },
    HardwareResource { name: "hwloc://NUMANode", instance: |place| place.numa },
    HardwareResource { name: "mica://SharedCache", instance: |place| place.shared_cache },
    HardwareResource { name: "hwloc://Core", instance: |place| place.core },
    HardwareResource { name: "hwloc://PU", instance: |place| place.processing_unit },
];

/// The keys of `MPI_Comm_split_type`.
const RESOURCE_TYPE: &str = "mpi_hw_resource_type";
const PROCESS_SET: &str = "mpi_pset_name";

/// The resource type that MPI itself names.
const SHARED_MEMORY: &str = "mpi_shared_memory";

/// A resource instance on one of `nodes` nodes as a color: places with the same instance get the
/// same color, [`UNKNOWN`] gets `MPI_UNDEFINED`.
fn color(instance: u32, node: u32, nodes: u32) -> i32 {
    if instance == UNKNOWN {
        return c::UNDEFINED;
    }
    let number = u64::from(instance) * u64::from(nodes) + u64::from(node);
    // A number that is too large cannot distinguish instances, so it counts as unknown.
    i32::try_from(number).unwrap_or(c::UNDEFINED)
}

/// The color of the calling rank.
fn own_color(engine: &Engine, resource: &HardwareResource) -> i32 {
    let rank = engine.rank();
    let instance = (resource.instance)(&engine.place(rank));
    color(instance, engine.node_of(rank), engine.nodes())
}

/// The first resource type by which some ranks can be set apart from the others: the node, if they
/// are on several; otherwise one by which their `places` differ.
fn dividing_resource(
    nodes: impl IntoIterator<Item = u32>,
    places: impl FnOnce() -> Vec<CorePlace>,
) -> Option<&'static HardwareResource> {
    let mut nodes = nodes.into_iter();
    let first = nodes.next();
    if nodes.any(|node| Some(node) != first) {
        return Some(&RESOURCES[0]);
    }
    let places = places();
    RESOURCES.iter().find(|resource| {
        let mut instances = places.iter().map(resource.instance);
        let first = instances.next().unwrap_or(UNKNOWN);
        instances.any(|instance| instance != first)
    })
}

/// `MPI_Get_hw_resource_info`: the resource types, each with whether this process is restricted to
/// an instance.
pub fn hardware_resources() -> Result<Info> {
    let engine = process::engine()?;
    let here = engine.place(engine.rank());
    let restricted = RESOURCES.map(|resource| {
        let restricted = (resource.instance)(&here) != UNKNOWN;
        (resource.name.to_owned(), restricted.to_string())
    });
    Ok(restricted.into_iter().collect())
}

impl Comm {
    /// `MPI_Comm_split_type`. The processes of a node share memory. `info` receives the resource by
    /// which `MPI_COMM_TYPE_HW_UNGUIDED` has split.
    pub fn split_type(&self, split_type: i32, key: i32, info: &Info) -> Result<Option<Comm>> {
        const EVERYONE: i32 = 0;
        let mut divided_by = None;
        let color = match split_type {
            c::COMM_TYPE_SHARED => self.color_in(Some(SHARED_MEMORY.to_owned()))?,
            c::COMM_TYPE_HW_GUIDED => self.color_in(info.lookup(RESOURCE_TYPE))?,
            c::COMM_TYPE_RESOURCE_GUIDED => match info.lookup(PROCESS_SET) {
                Some(name) => match ProcessSet::named(&name) {
                    Some(ProcessSet::World) => EVERYONE,
                    Some(ProcessSet::Myself) => self.me() as i32,
                    None => c::UNDEFINED,
                },
                None => self.color_in(info.lookup(RESOURCE_TYPE))?,
            },
            c::COMM_TYPE_HW_UNGUIDED => {
                let engine = process::engine()?;
                let peers = || self.group().peers();
                let nodes = peers().map(|peer| engine.node_of(peer));
                divided_by =
                    dividing_resource(nodes, || peers().map(|p| engine.place(p)).collect());
                divided_by.map_or(c::UNDEFINED, |resource| own_color(engine, resource))
            }
            c::UNDEFINED => c::UNDEFINED,
            _ => {
                let reason = "this is not one of the MPI_COMM_TYPE_* constants";
                return Err(Error::argument(c::ERR_ARG, "split_type", split_type, reason));
            }
        };
        let comm = self.split(color, key)?;
        if let (Some(_), Some(resource)) = (&comm, divided_by) {
            info.put(RESOURCE_TYPE, resource.name);
        }
        Ok(comm)
    }

    /// The color of this process where the communicator is split by the resource type of this name.
    /// What is unknown has no communicator, as MPI asks.
    fn color_in(&self, resource: Option<String>) -> Result<i32> {
        let engine = process::engine()?;
        Ok(match resource.as_deref() {
            Some(SHARED_MEMORY) => own_color(engine, &RESOURCES[0]),
            Some(name) => RESOURCES
                .iter()
                .find(|resource| resource.name == name)
                .map_or(c::UNDEFINED, |resource| own_color(engine, resource)),
            None => c::UNDEFINED,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(package: u32, core: u32) -> CorePlace {
        CorePlace { core, shared_cache: package, package, numa: package, processing_unit: core }
    }

    fn divider(places: &[CorePlace]) -> Option<&'static str> {
        let nodes = vec![3; places.len()];
        dividing_resource(nodes, || places.to_vec()).map(|resource| resource.name)
    }

    #[test]
    fn unguided_splitting_goes_from_the_whole_to_the_parts() {
        let [a, b, c, d] = [place(0, 0), place(0, 1), place(1, 2), place(1, 3)];
        assert_eq!(divider(&[a, b, c, d]), Some("hwloc://Package"));
        assert_eq!(divider(&[c, d]), Some("hwloc://Core"));
        assert_eq!(divider(&[a, a]), None);
        assert_eq!(divider(&[a]), None);
        assert_eq!(divider(&[CorePlace::UNKNOWN, CorePlace::UNKNOWN]), None);
        assert_eq!(divider(&[a, CorePlace::UNKNOWN]), Some("hwloc://Package"));
    }

    #[test]
    fn what_is_not_known_has_no_color() {
        assert_eq!(color(7, 0, 1), 7);
        assert_eq!(color(UNKNOWN, 0, 1), c::UNDEFINED);
        assert_eq!(color(u32::MAX - 1, 0, 2), c::UNDEFINED);
    }

    #[test]
    fn instances_of_different_nodes_have_different_colors() {
        let mut colors: Vec<i32> =
            (0..5).flat_map(|node| (0..9).map(move |instance| color(instance, node, 5))).collect();
        colors.sort_unstable();
        colors.dedup();
        assert_eq!(colors.len(), 45);
    }

    #[test]
    fn nodes_divide_first_and_places_elsewhere_are_not_asked_for() {
        let divider = dividing_resource([0, 1, 0], || unreachable!("places of two nodes"));
        assert_eq!(divider.map(|resource| resource.name), Some("hwloc://Machine"));
    }
}
