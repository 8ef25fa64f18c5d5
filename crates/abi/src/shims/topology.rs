//! Virtual topologies (MPI 5.0, 8.5).
#![allow(clippy::too_many_arguments, reason = "the argument lists are MPI's own")]

use std::ffi::c_int;

use mica_mpi::Result;
use mica_mpi::comm::Comm;
use mica_mpi::constants as c;
use mica_mpi::error::Error;
use mica_mpi::info::Info;
use mica_mpi::topology::{self, Edges, Graph, Weights};

use crate::convert::{Out, length, slice, slice_mut};
use crate::method::{Array, Place, reordering};
use crate::types::{MPI_Comm, MPI_Info};

/// MPI_Dims_create.
///
/// # Safety
/// `dims` is null or writable for `ndims` elements.
pub unsafe fn mpi_dims_create(nnodes: c_int, ndims: c_int, dims: *mut c_int) -> Result<()> {
    // SAFETY: as the caller promises.
    let dims = unsafe { slice_mut(dims, ndims, "dims", "ndims")? };
    topology::dims::create(nnodes, dims)
}

/// The caller's array of the edges that `index` describes.
///
/// # Safety
/// `edges` is null or readable for these.
pub unsafe fn edges_of<'a>(index: &[c_int], edges: *const c_int) -> Result<&'a [c_int]> {
    let number = Graph::edge_count(index)? as c_int; // the last of `index`, a C int
    // SAFETY: by the contract above.
    unsafe { slice(edges, number, "edges", "index") }
}

/// The weights of `n` edges; `None` for `MPI_UNWEIGHTED`.
///
/// # Safety
/// `weights` is null, `MPI_UNWEIGHTED`, `MPI_WEIGHTS_EMPTY`, or readable for `n` elements.
unsafe fn weights_of<'a>(
    weights: *const c_int,
    n: usize,
    argument: &'static str,
) -> Result<Weights<'a>> {
    match weights.addr() {
        c::UNWEIGHTED => Ok(None),
        c::WEIGHTS_EMPTY if n > 0 => {
            let reason = format!("there are {n} edges, each of which needs a weight");
            Err(Error::argument(c::ERR_ARG, argument, "MPI_WEIGHTS_EMPTY", reason))
        }
        // SAFETY: by the contract above.
        _ => unsafe { slice(weights, n as c_int, argument, "degree") }.map(Some),
    }
}

/// MPI_Dist_graph_create_adjacent.
///
/// # Safety
/// `sources` and `sourceweights` are readable for `indegree` elements, `destinations` and
/// `destweights` for `outdegree`, where MPI has no constants for the weights; `comm_dist_graph` is
/// null or writable.
pub unsafe fn mpi_dist_graph_create_adjacent(
    comm_old: MPI_Comm,
    indegree: c_int,
    sources: *const c_int,
    sourceweights: *const c_int,
    outdegree: c_int,
    destinations: *const c_int,
    destweights: *const c_int,
    info: MPI_Info,
    reorder: c_int,
    comm_dist_graph: *mut MPI_Comm,
) -> Result<()> {
    // SAFETY: as the caller promises.
    let (new, sources, destinations) = unsafe {
        (
            Out::new(comm_dist_graph, "comm_dist_graph")?,
            slice(sources, indegree, "sources", "indegree")?,
            slice(destinations, outdegree, "destinations", "outdegree")?,
        )
    };
    // SAFETY: as the caller promises.
    let (from, to) = unsafe {
        (
            weights_of(sourceweights, sources.len(), "sourceweights")?,
            weights_of(destweights, destinations.len(), "destweights")?,
        )
    };
    if from.is_some() != to.is_some() {
        let reason = "MPI_UNWEIGHTED stands for both sourceweights and destweights or for neither";
        let argument = if from.is_none() { "sourceweights" } else { "destweights" };
        return Err(Error::argument(c::ERR_ARG, argument, "MPI_UNWEIGHTED", reason));
    }
    Info::resolve_hints(info.raw())?;
    let comm = Comm::resolve(comm_old.raw())?;
    let made =
        comm.create_dist_graph_adjacent((sources, from), (destinations, to), reordering(reorder))?;
    new.give(made)
}

/// MPI_Dist_graph_create.
///
/// # Safety
/// `sources` and `degrees` are readable for `n` elements, `destinations` and `weights` for the sum
/// of the degrees, where MPI has no constant for the weights; `comm_dist_graph` is null or
/// writable.
pub unsafe fn mpi_dist_graph_create(
    comm_old: MPI_Comm,
    n: c_int,
    sources: *const c_int,
    degrees: *const c_int,
    destinations: *const c_int,
    weights: *const c_int,
    info: MPI_Info,
    reorder: c_int,
    comm_dist_graph: *mut MPI_Comm,
) -> Result<()> {
    // SAFETY: as the caller promises.
    let (new, sources, degrees) = unsafe {
        (
            Out::new(comm_dist_graph, "comm_dist_graph")?,
            slice(sources, n, "sources", "n")?,
            slice(degrees, n, "degrees", "n")?,
        )
    };
    let mut edges: c_int = 0;
    for &degree in degrees {
        length(degree, "degrees")?;
        edges = edges.checked_add(degree).ok_or_else(|| {
            let reason = "the sum of the degrees overflows";
            Error::argument(c::ERR_ARG, "degrees", degree, reason)
        })?;
    }
    // SAFETY: as the caller promises.
    let (destinations, weights) = unsafe {
        (
            slice(destinations, edges, "destinations", "degrees")?,
            weights_of(weights, edges as usize, "weights")?,
        )
    };
    Info::resolve_hints(info.raw())?;
    let comm = Comm::resolve(comm_old.raw())?;
    let made =
        comm.create_dist_graph(sources, degrees, destinations, weights, reordering(reorder))?;
    new.give(made)
}

/// MPI_Dist_graph_neighbors: the first edges, where the caller has no room for all.
///
/// # Safety
/// `sources` is writable for `maxindegree` elements and `destinations` for `maxoutdegree`; the
/// weights, if the graph has them, too, or `MPI_UNWEIGHTED`.
pub unsafe fn mpi_dist_graph_neighbors(
    comm: MPI_Comm,
    maxindegree: c_int,
    sources: *mut c_int,
    sourceweights: *mut c_int,
    maxoutdegree: c_int,
    destinations: *mut c_int,
    destweights: *mut c_int,
) -> Result<()> {
    let comm = Comm::resolve(comm.raw())?;
    let graph = comm.dist_graph()?;
    let (from, to) = (&graph.sources, &graph.destinations);
    // SAFETY: as the caller promises.
    unsafe {
        put_edges(from, maxindegree, "maxindegree", [sources, sourceweights])?;
        put_edges(to, maxoutdegree, "maxoutdegree", [destinations, destweights])
    }
}

/// Stores ranks and weights of the first `room` edges.
///
/// # Safety
/// The arrays for them are as [`mpi_dist_graph_neighbors`] says.
unsafe fn put_edges(
    edges: &Edges,
    room: c_int,
    argument: &'static str,
    [ranks, weights]: [*mut c_int; 2],
) -> Result<()> {
    let n = length(room, argument)?.min(edges.ranks.len());
    // SAFETY: by the contract above.
    unsafe {
        Array(ranks, room, argument).store("ranks", edges.ranks[..n].to_vec())?;
        let unwanted = matches!(weights.addr(), c::UNWEIGHTED | c::WEIGHTS_EMPTY);
        if !unwanted && !edges.weights.is_empty() {
            Array(weights, room, argument).store("weights", edges.weights[..n].to_vec())?;
        }
    }
    Ok(())
}
