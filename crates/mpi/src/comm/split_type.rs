//! Splitting by hardware (MPI 5.0, 7.4.2, `MPI_Comm_split_type`), and what hardware there is (9.1.2,
//! `MPI_Get_hw_resource_info`).
//!
//! Where each rank runs stands in the job segment, so nobody has to be asked. A rank is restricted to an instance of a
//! resource (a package, a core) if `mpiexec` bound it to processors inside.

use mica_node::topology::{Place, UNKNOWN};

use super::Comm;
use crate::constants as c;
use crate::error::{Error, Result};
use crate::info::Info;
use crate::process;

/// A type of hardware resource.
struct Resource {
    /// Its name in MPI: scheme and type of hwloc, where hwloc has the type.
    name: &'static str,
    /// The instance in a place; [`UNKNOWN`] if the rank there is not restricted to one.
    instance: fn(&Place) -> u32,
}

/// From the whole to the parts.
const RESOURCES: [Resource; 6] = [
    Resource {
        name: "hwloc://Machine",
        instance: |_| 0, // a job has one node
    },
    Resource {
        name: "hwloc://Package",
        instance: |place| place.package,
    },
    Resource {
        name: "hwloc://NUMANode",
        instance: |place| place.numa,
    },
    Resource {
        name: "mica://SharedCache",
        instance: |place| place.shared_cache,
    },
    Resource {
        name: "hwloc://Core",
        instance: |place| place.core,
    },
    Resource {
        name: "hwloc://PU",
        instance: |place| place.processing_unit,
    },
];

/// The keys of `MPI_Comm_split_type`.
const RESOURCE_TYPE: &str = "mpi_hw_resource_type";
const PROCESS_SET: &str = "mpi_pset_name";

/// The resource instance of a place as a color: places with the same one go together, [`UNKNOWN`] goes nowhere.
fn color(instance: u32) -> i32 {
    match i32::try_from(instance) {
        Ok(instance) => instance,
        Err(_) => c::UNDEFINED, // among them UNKNOWN
    }
}

/// The first resource type by which some of `places` can be set apart from the others.
fn dividing_resource(places: &[Place]) -> Option<&'static Resource> {
    RESOURCES.iter().find(|resource| {
        let mut instances = places.iter().map(resource.instance);
        let first = instances.next().unwrap_or(UNKNOWN);
        instances.any(|instance| instance != first)
    })
}

/// `MPI_Get_hw_resource_info`: the resource types, each with whether this process is restricted to an instance.
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
    /// `MPI_Comm_split_type`. All processes of a job share memory. `info` learns by which resource
    /// `MPI_COMM_TYPE_HW_UNGUIDED` has split.
    pub fn split_type(&self, split_type: i32, key: i32, info: &Info) -> Result<Option<Comm>> {
        const EVERYONE: i32 = 0;
        let mut divided_by = None;
        let color = match split_type {
            c::COMM_TYPE_SHARED => EVERYONE,
            c::COMM_TYPE_HW_GUIDED => self.color_in(info.lookup(RESOURCE_TYPE))?,
            c::COMM_TYPE_RESOURCE_GUIDED => match info.lookup(PROCESS_SET).as_deref() {
                Some("mpi://WORLD") => EVERYONE,
                Some("mpi://SELF") => self.me() as i32,
                Some(_) => c::UNDEFINED,
                None => self.color_in(info.lookup(RESOURCE_TYPE))?,
            },
            c::COMM_TYPE_HW_UNGUIDED => {
                let engine = process::engine()?;
                let places: Vec<Place> = self.group().peers().map(|p| engine.place(p)).collect();
                divided_by = dividing_resource(&places);
                divided_by.map_or(c::UNDEFINED, |resource| {
                    color((resource.instance)(&places[self.rank()]))
                })
            }
            c::UNDEFINED => c::UNDEFINED,
            _ => {
                let reason = "this is not one of the MPI_COMM_TYPE_* constants";
                return Err(Error::argument(
                    c::ERR_ARG,
                    "split_type",
                    split_type,
                    reason,
                ));
            }
        };
        let comm = self.split(color, key)?;
        if let (Some(_), Some(resource)) = (&comm, divided_by) {
            info.put(RESOURCE_TYPE, resource.name);
        }
        Ok(comm)
    }

    /// The color of this process where the communicator is split by the resource type of this name. What is unknown has no
    /// communicator, as MPI asks.
    fn color_in(&self, resource: Option<String>) -> Result<i32> {
        let engine = process::engine()?;
        let here = engine.place(engine.rank());
        Ok(match resource.as_deref() {
            Some("mpi_shared_memory") => 0,
            Some(name) => RESOURCES
                .iter()
                .find(|resource| resource.name == name)
                .map_or(c::UNDEFINED, |resource| color((resource.instance)(&here))),
            None => c::UNDEFINED,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(package: u32, core: u32) -> Place {
        Place {
            core,
            shared_cache: package,
            package,
            numa: package,
            processing_unit: core,
        }
    }

    fn divider(places: &[Place]) -> Option<&'static str> {
        dividing_resource(places).map(|resource| resource.name)
    }

    #[test]
    fn unguided_splitting_goes_from_the_whole_to_the_parts() {
        let [a, b, c, d] = [place(0, 0), place(0, 1), place(1, 2), place(1, 3)];
        assert_eq!(divider(&[a, b, c, d]), Some("hwloc://Package"));
        assert_eq!(divider(&[c, d]), Some("hwloc://Core"));
        assert_eq!(divider(&[a, a]), None);
        assert_eq!(divider(&[a]), None);
        assert_eq!(divider(&[Place::UNKNOWN, Place::UNKNOWN]), None);
        assert_eq!(divider(&[a, Place::UNKNOWN]), Some("hwloc://Package"));
    }

    #[test]
    fn what_is_not_known_has_no_color() {
        assert_eq!(color(7), 7);
        assert_eq!(color(UNKNOWN), c::UNDEFINED);
    }
}
