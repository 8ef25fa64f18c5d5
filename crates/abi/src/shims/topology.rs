//! Virtual topologies (MPI 5.0, 8.5).
#![allow(clippy::too_many_arguments, reason = "the argument lists are MPI's own")]

use std::ffi::c_int;

use mica_mpi::Result;
use mica_mpi::comm::Comm;
use mica_mpi::constants as c;
use mica_mpi::error::Error;
use mica_mpi::info::Info;
use mica_mpi::topology::{self, EdgeWeights, Edges, Graph, Reordering, Topology, Weights};

use crate::convert::{Out, flag, length, slice, slice_mut};
use crate::types::{MPI_Comm, MPI_Info};

/// MPI_Topo_test.
///
/// # Safety
/// `status` is null or writable.
pub unsafe fn mpi_topo_test(comm: MPI_Comm, status: *mut c_int) -> Result<()> {
    // SAFETY: as the caller promises.
    let status = unsafe { Out::new(status, "status")? };
    let comm = Comm::resolve(comm.raw())?;
    status.set(comm.topology().map_or(c::UNDEFINED, Topology::kind));
    Ok(())
}

/// MPI_Dims_create.
///
/// # Safety
/// `dims` is null or writable for `ndims` elements.
pub unsafe fn mpi_dims_create(nnodes: c_int, ndims: c_int, dims: *mut c_int) -> Result<()> {
    // SAFETY: as the caller promises.
    let dims = unsafe { slice_mut(dims, ndims, "dims", "ndims")? };
    topology::dims::create(nnodes, dims)
}

/// The logicals of an array.
fn truths(flags: &[c_int]) -> Vec<bool> {
    flags.iter().map(|&flag| flag != 0).collect()
}

fn put_rank(place: Out<c_int>, rank: Option<usize>) {
    place.set(rank.map_or(c::UNDEFINED, |rank| rank as c_int));
}

/// Writes `values` to the caller's array, whose length is the argument `argument`.
///
/// # Safety
/// `array` is null or writable for `room` elements.
unsafe fn put_all(
    array: *mut c_int,
    name: &'static str,
    room: c_int,
    argument: &'static str,
    values: &[c_int],
) -> Result<()> {
    if length(room, argument)? < values.len() {
        let reason = format!("{} numbers are to be stored", values.len());
        return Err(Error::argument(c::ERR_ARG, argument, room, reason));
    }
    // SAFETY: by the contract above, and the numbers fit.
    let array = unsafe { slice_mut(array, values.len() as c_int, name, argument)? };
    array.copy_from_slice(values);
    Ok(())
}

fn reordering(reorder: c_int) -> Reordering {
    match reorder {
        0 => Reordering::Refused,
        _ => Reordering::Allowed,
    }
}

/// MPI_Cart_create.
///
/// # Safety
/// `dims` and `periods` are null or readable for `ndims` elements, `comm_cart` is null or writable.
pub unsafe fn mpi_cart_create(
    comm_old: MPI_Comm,
    ndims: c_int,
    dims: *const c_int,
    periods: *const c_int,
    reorder: c_int,
    comm_cart: *mut MPI_Comm,
) -> Result<()> {
    // SAFETY: as the caller promises.
    let (comm_cart, dims, periods) = unsafe {
        (
            Out::new(comm_cart, "comm_cart")?,
            slice(dims, ndims, "dims", "ndims")?,
            slice(periods, ndims, "periods", "ndims")?,
        )
    };
    let comm = Comm::resolve(comm_old.raw())?;
    comm_cart.give(comm.create_cart(dims, &truths(periods), reordering(reorder))?)
}

/// MPI_Cart_map.
///
/// # Safety
/// `dims` and `periods` are null or readable for `ndims` elements, `newrank` is null or writable.
pub unsafe fn mpi_cart_map(
    comm: MPI_Comm,
    ndims: c_int,
    dims: *const c_int,
    periods: *const c_int,
    newrank: *mut c_int,
) -> Result<()> {
    // SAFETY: as the caller promises.
    let (newrank, dims, periods) = unsafe {
        (
            Out::new(newrank, "newrank")?,
            slice(dims, ndims, "dims", "ndims")?,
            slice(periods, ndims, "periods", "ndims")?,
        )
    };
    put_rank(newrank, Comm::resolve(comm.raw())?.cart_map(dims, &truths(periods))?);
    Ok(())
}

/// MPI_Cart_get.
///
/// # Safety
/// `dims`, `periods` and `coords` are null or writable for `maxdims` elements.
pub unsafe fn mpi_cart_get(
    comm: MPI_Comm,
    maxdims: c_int,
    dims: *mut c_int,
    periods: *mut c_int,
    coords: *mut c_int,
) -> Result<()> {
    let comm = Comm::resolve(comm.raw())?;
    let cart = comm.cart()?;
    let rings: Vec<c_int> = cart.periods().iter().copied().map(flag).collect();
    // SAFETY: as the caller promises.
    unsafe {
        put_all(dims, "dims", maxdims, "maxdims", cart.dims())?;
        put_all(periods, "periods", maxdims, "maxdims", &rings)?;
        put_all(coords, "coords", maxdims, "maxdims", &cart.coords(comm.rank()))
    }
}

/// MPI_Cart_rank.
///
/// # Safety
/// `coords` is null or readable for the number of dimensions, `rank` is null or writable.
pub unsafe fn mpi_cart_rank(comm: MPI_Comm, coords: *const c_int, rank: *mut c_int) -> Result<()> {
    let comm = Comm::resolve(comm.raw())?;
    let cart = comm.cart()?;
    // SAFETY: as the caller promises.
    let (rank, coords) = unsafe {
        (Out::new(rank, "rank")?, slice(coords, cart.dims().len() as c_int, "coords", "ndims")?)
    };
    rank.set(cart.rank(coords)?);
    Ok(())
}

/// MPI_Cart_coords.
///
/// # Safety
/// `coords` is null or writable for `maxdims` elements.
pub unsafe fn mpi_cart_coords(
    comm: MPI_Comm,
    rank: c_int,
    maxdims: c_int,
    coords: *mut c_int,
) -> Result<()> {
    let comm = Comm::resolve(comm.raw())?;
    let found = comm.cart()?.coords(comm.checked_rank(rank)?);
    // SAFETY: as the caller promises.
    unsafe { put_all(coords, "coords", maxdims, "maxdims", &found) }
}

/// MPI_Cart_shift.
///
/// # Safety
/// `rank_source` and `rank_dest` are null or writable.
pub unsafe fn mpi_cart_shift(
    comm: MPI_Comm,
    direction: c_int,
    disp: c_int,
    rank_source: *mut c_int,
    rank_dest: *mut c_int,
) -> Result<()> {
    // SAFETY: as the caller promises.
    let (rank_source, rank_dest) =
        unsafe { (Out::new(rank_source, "rank_source")?, Out::new(rank_dest, "rank_dest")?) };
    let comm = Comm::resolve(comm.raw())?;
    let (source, dest) = comm.cart()?.shift(comm.rank(), direction, disp)?;
    rank_source.set(source);
    rank_dest.set(dest);
    Ok(())
}

/// MPI_Cart_sub.
///
/// # Safety
/// `remain_dims` is null or readable for the number of dimensions, `newcomm` is null or writable.
pub unsafe fn mpi_cart_sub(
    comm: MPI_Comm,
    remain_dims: *const c_int,
    newcomm: *mut MPI_Comm,
) -> Result<()> {
    let comm = Comm::resolve(comm.raw())?;
    let ndims = comm.cart()?.dims().len() as c_int;
    // SAFETY: as the caller promises.
    let (newcomm, remain) = unsafe {
        (Out::new(newcomm, "newcomm")?, slice(remain_dims, ndims, "remain_dims", "ndims")?)
    };
    newcomm.give(comm.cart_sub(&truths(remain))?)
}

/// The caller's arrays that describe a graph: `index` of `nnodes` elements, `edges` of as many as
/// its last says.
///
/// # Safety
/// They are null or readable for these.
unsafe fn graph_of<'a>(
    nnodes: c_int,
    index: *const c_int,
    edges: *const c_int,
) -> Result<(&'a [c_int], &'a [c_int])> {
    // SAFETY: by the contract above.
    unsafe {
        let index = slice(index, nnodes, "index", "nnodes")?;
        let number = Graph::edge_count(index)? as c_int; // the last of `index`, a C int
        Ok((index, slice(edges, number, "edges", "index")?))
    }
}

/// MPI_Graph_create.
///
/// # Safety
/// `index` is null or readable for `nnodes` elements, `edges` for as many as its last says,
/// `comm_graph` is null or writable.
pub unsafe fn mpi_graph_create(
    comm_old: MPI_Comm,
    nnodes: c_int,
    index: *const c_int,
    edges: *const c_int,
    reorder: c_int,
    comm_graph: *mut MPI_Comm,
) -> Result<()> {
    // SAFETY: as the caller promises.
    let (comm_graph, (index, edges)) =
        unsafe { (Out::new(comm_graph, "comm_graph")?, graph_of(nnodes, index, edges)?) };
    let comm = Comm::resolve(comm_old.raw())?;
    comm_graph.give(comm.create_graph(index, edges, reordering(reorder))?)
}

/// MPI_Graph_map.
///
/// # Safety
/// As [`mpi_graph_create`]; `newrank` is null or writable.
pub unsafe fn mpi_graph_map(
    comm: MPI_Comm,
    nnodes: c_int,
    index: *const c_int,
    edges: *const c_int,
    newrank: *mut c_int,
) -> Result<()> {
    // SAFETY: as the caller promises.
    let (newrank, (index, edges)) =
        unsafe { (Out::new(newrank, "newrank")?, graph_of(nnodes, index, edges)?) };
    put_rank(newrank, Comm::resolve(comm.raw())?.graph_map(index, edges)?);
    Ok(())
}

/// MPI_Graphdims_get.
///
/// # Safety
/// `nnodes` and `nedges` are null or writable.
pub unsafe fn mpi_graphdims_get(
    comm: MPI_Comm,
    nnodes: *mut c_int,
    nedges: *mut c_int,
) -> Result<()> {
    // SAFETY: as the caller promises.
    let (nnodes, nedges) = unsafe { (Out::new(nnodes, "nnodes")?, Out::new(nedges, "nedges")?) };
    let comm = Comm::resolve(comm.raw())?;
    let graph = comm.graph()?;
    nnodes.set(graph.size() as c_int);
    nedges.set(graph.edges().len() as c_int);
    Ok(())
}

/// MPI_Graph_get.
///
/// # Safety
/// `index` is null or writable for `maxindex` elements, `edges` for `maxedges`.
pub unsafe fn mpi_graph_get(
    comm: MPI_Comm,
    maxindex: c_int,
    maxedges: c_int,
    index: *mut c_int,
    edges: *mut c_int,
) -> Result<()> {
    let comm = Comm::resolve(comm.raw())?;
    let graph = comm.graph()?;
    // SAFETY: as the caller promises.
    unsafe {
        put_all(index, "index", maxindex, "maxindex", graph.index())?;
        put_all(edges, "edges", maxedges, "maxedges", graph.edges())
    }
}

/// MPI_Graph_neighbors_count.
///
/// # Safety
/// `nneighbors` is null or writable.
pub unsafe fn mpi_graph_neighbors_count(
    comm: MPI_Comm,
    rank: c_int,
    nneighbors: *mut c_int,
) -> Result<()> {
    // SAFETY: as the caller promises.
    let nneighbors = unsafe { Out::new(nneighbors, "nneighbors")? };
    let comm = Comm::resolve(comm.raw())?;
    let found = comm.graph()?.neighbors(comm.checked_rank(rank)?);
    nneighbors.set(found.len() as c_int);
    Ok(())
}

/// MPI_Graph_neighbors.
///
/// # Safety
/// `neighbors` is null or writable for `maxneighbors` elements.
pub unsafe fn mpi_graph_neighbors(
    comm: MPI_Comm,
    rank: c_int,
    maxneighbors: c_int,
    neighbors: *mut c_int,
) -> Result<()> {
    let comm = Comm::resolve(comm.raw())?;
    let found = comm.graph()?.neighbors(comm.checked_rank(rank)?);
    // SAFETY: as the caller promises.
    unsafe { put_all(neighbors, "neighbors", maxneighbors, "maxneighbors", found) }
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

/// MPI_Dist_graph_neighbors_count.
///
/// # Safety
/// `indegree`, `outdegree` and `weighted` are null or writable.
pub unsafe fn mpi_dist_graph_neighbors_count(
    comm: MPI_Comm,
    indegree: *mut c_int,
    outdegree: *mut c_int,
    weighted: *mut c_int,
) -> Result<()> {
    // SAFETY: as the caller promises.
    let (indegree, outdegree, weighted) = unsafe {
        (
            Out::new(indegree, "indegree")?,
            Out::new(outdegree, "outdegree")?,
            Out::new(weighted, "weighted")?,
        )
    };
    let comm = Comm::resolve(comm.raw())?;
    let graph = comm.dist_graph()?;
    indegree.set(graph.sources.ranks.len() as c_int);
    outdegree.set(graph.destinations.ranks.len() as c_int);
    weighted.set(flag(graph.weighted == EdgeWeights::Given));
    Ok(())
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
        put_all(ranks, "ranks", room, argument, &edges.ranks[..n])?;
        let unwanted = matches!(weights.addr(), c::UNWEIGHTED | c::WEIGHTS_EMPTY);
        if !unwanted && !edges.weights.is_empty() {
            put_all(weights, "weights", room, argument, &edges.weights[..n])?;
        }
    }
    Ok(())
}
