//! The functions of C that sections need. They are called by their `PMPI_` names: a
//! tool sees the program's calls, not these.

use std::ffi::c_int;

use mica_front_end::types::{MPI_Aint, MPI_Count};

use crate::abi::{Word, constants as c};

unsafe extern "C" {
    /// Frees a handle; the datatype stays while others or operations use it.
    pub fn PMPI_Type_free(datatype: *mut Word) -> c_int;
    /// Makes a datatype fit for communication.
    pub fn PMPI_Type_commit(datatype: *mut Word) -> c_int;
    /// Bytes of data.
    pub fn PMPI_Type_size_c(datatype: Word, size: *mut MPI_Count) -> c_int;
    /// From one element to the next.
    pub fn PMPI_Type_get_extent_c(
        datatype: Word,
        lb: *mut MPI_Count,
        extent: *mut MPI_Count,
    ) -> c_int;
    /// From the first byte of data to the last one.
    pub fn PMPI_Type_get_true_extent_c(
        datatype: Word,
        lb: *mut MPI_Count,
        extent: *mut MPI_Count,
    ) -> c_int;
    /// How a datatype was made, with how many arguments.
    pub fn PMPI_Type_get_envelope_c(
        datatype: Word,
        integers: *mut MPI_Count,
        addresses: *mut MPI_Count,
        counts: *mut MPI_Count,
        datatypes: *mut MPI_Count,
        combiner: *mut c_int,
    ) -> c_int;
    /// With which arguments a datatype was made.
    pub fn PMPI_Type_get_contents_c(
        datatype: Word,
        max_integers: MPI_Count,
        max_addresses: MPI_Count,
        max_counts: MPI_Count,
        max_datatypes: MPI_Count,
        integers: *mut c_int,
        addresses: *mut MPI_Aint,
        counts: *mut MPI_Count,
        datatypes: *mut Word,
    ) -> c_int;
    /// Elements one behind the other.
    pub fn PMPI_Type_contiguous_c(count: MPI_Count, old: Word, new: *mut Word) -> c_int;
    /// Blocks at equal distances.
    pub fn PMPI_Type_create_hvector_c(
        count: MPI_Count,
        block: MPI_Count,
        stride: MPI_Count,
        old: Word,
        new: *mut Word,
    ) -> c_int;
    /// Blocks at displacements.
    pub fn PMPI_Type_create_struct_c(
        count: MPI_Count,
        blocks: *const MPI_Count,
        displacements: *const MPI_Count,
        datatypes: *const Word,
        new: *mut Word,
    ) -> c_int;
}

/// The error class of what a function returned.
///
/// # Errors
/// When it is not `MPI_SUCCESS`.
pub fn check(code: c_int) -> Result<(), c_int> {
    if code == c::SUCCESS { Ok(()) } else { Err(code) }
}
