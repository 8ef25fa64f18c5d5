//! The front end of the MPI 5.0 standard ABI, `libmpi_abi.so.1` (MPI 5.0, chapter 20): the exported
//! functions, all of them generated. What they call is in `mica_abi`. A front end of another ABI
//! loads this library and calls its functions, after converting handles, constants and statuses
//! (`docs/design/bindings.md`).

use mica_abi::front_end::TABLE;
use mica_abi::table::FrontEndTable;

mod generated;

/// What front ends of other ABIs find here beside MPI's functions.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals, reason = "a name in C")]
static mica_front_end: FrontEndTable = TABLE;
