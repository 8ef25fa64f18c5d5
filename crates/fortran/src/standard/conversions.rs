//! The functions that stand for no conversion, `MPI_CONVERSION_FN_NULL` and its kin.

use crate::export::null_conversions;

null_conversions! {
    null = "mpi_conversion_fn_null_";
    null_two = "mpi_conversion_fn_null__";
    null_none = "mpi_conversion_fn_null";
    null_capitals = "MPI_CONVERSION_FN_NULL";
    null_large = "mpi_conversion_fn_null_c_";
    null_large_two = "mpi_conversion_fn_null_c__";
    null_large_none = "mpi_conversion_fn_null_c";
    null_large_capitals = "MPI_CONVERSION_FN_NULL_C";
}
