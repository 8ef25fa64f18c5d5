//! Partitioned communication (MPI 5.0, chapter 4).

use std::ffi::c_int;

use mica_mpi::constants as c;
use mica_mpi::{Error, partitioned};

use super::request::of_request;
use crate::convert::{Out, flag, slice};
use crate::raise::ErrorOn;
use crate::types::*;

/// Marks partitions as ready; an error is raised on the request's communicator.
fn ready(
    request: MPI_Request,
    partitions: impl IntoIterator<Item = c_int>,
    argument: &'static str,
) -> std::result::Result<(), ErrorOn> {
    partitioned::pready(request.raw(), partitions, argument)
        .map_err(|error| of_request(request.raw(), error))
}

/// MPI_Pready of a partition whose message lacks others as well.
#[inline(always)]
pub fn leaf_pready(partition: c_int, request: MPI_Request) -> Option<()> {
    partitioned::pready_early(request.0, partition)
}

/// MPI_Pready.
pub fn mpi_pready(partition: c_int, request: MPI_Request) -> std::result::Result<(), ErrorOn> {
    ready(request, [partition], "partition")
}

/// MPI_Pready_range.
pub fn mpi_pready_range(
    partition_low: c_int,
    partition_high: c_int,
    request: MPI_Request,
) -> std::result::Result<(), ErrorOn> {
    if partition_low > partition_high {
        let reason = format!("partition_low is {partition_low}");
        let error = Error::argument(c::ERR_ARG, "partition_high", partition_high, reason);
        return Err(of_request(request.raw(), error));
    }
    ready(request, partition_low..=partition_high, "partition")
}

/// MPI_Pready_list.
///
/// # Safety
/// The array holds `length` numbers.
pub unsafe fn mpi_pready_list(
    length: c_int,
    array_of_partitions: *const c_int,
    request: MPI_Request,
) -> std::result::Result<(), ErrorOn> {
    // SAFETY: as the caller promises.
    let partitions =
        unsafe { slice(array_of_partitions, length, "array_of_partitions", "length")? };
    ready(request, partitions.iter().copied(), "array_of_partitions")
}

/// MPI_Parrived of a partition that has arrived.
///
/// # Safety
/// As for [`mpi_parrived`].
#[inline(always)]
pub unsafe fn leaf_parrived(
    request: MPI_Request,
    partition: c_int,
    arrived: *mut c_int,
) -> Option<()> {
    partitioned::has_arrived(request.0, partition)?;
    // SAFETY: as the caller promises.
    unsafe { Out::new(arrived, "flag") }.ok()?.set(flag(true));
    Some(())
}

/// MPI_Parrived.
///
/// # Safety
/// `arrived` is null or writable.
pub unsafe fn mpi_parrived(
    request: MPI_Request,
    partition: c_int,
    arrived: *mut c_int,
) -> std::result::Result<(), ErrorOn> {
    // SAFETY: as the caller promises.
    let to = unsafe { Out::new(arrived, "flag")? };
    let arrived = partitioned::parrived(request.raw(), partition)
        .map_err(|error| of_request(request.raw(), error))?;
    to.set(flag(arrived));
    Ok(())
}
