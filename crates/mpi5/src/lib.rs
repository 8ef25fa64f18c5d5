//! The front end of the MPI 5.0 standard ABI, `libmpi_abi.so.1` (MPI 5.0, chapter 20): the exported
//! functions, all of them generated. What they call is in `mica_abi`, which a front end of another
//! ABI would call as well, after converting its handles, constants and statuses
//! (`docs/design/bindings.md`).

mod generated;
