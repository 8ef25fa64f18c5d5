//! `libmica_profile.so`: what `mica profile` loads into the ranks of a job (`LD_PRELOAD`).
//!
//! It defines the `MPI_X` of calls that move or wait for something, and calls the library's
//! `PMPI_X` (MPI 5.0, 15.2), whatever library that is, as long as its ABI is the standard's. It
//! records by call and call site: how often, how long, how many bytes; by peer and size: messages
//! and bytes; and a bounded number of intervals and of arrivals at collectives. All of it lies in a
//! mapped file (`memory`), beside which another (`facts`) says what else is known: so `mica
//! profile` reads what was recorded of a rank however it ended.
//!
//! A call goes through `trampoline` (which keeps the caller's address), a generated wrapper, and
//! `record`: two readings of the processor's counter, one or two probes of tables that belong to
//! the thread. Nothing is shared with other threads.
//!
//! Invariants: no result, error code or argument is changed. What is asked of MPI (sizes of
//! datatypes, groups of communicators) is asked after the call succeeded, so with handles that are
//! valid; it is local. Without `MICA_PROFILE_DIR` nothing is recorded, nor under a
//! library of another ABI (`abi`). A child after `fork` records nothing.

mod abi;
mod clock;
mod comm;
mod facts;
mod files;
mod generated;
mod list;
mod memory;
mod persistent;
mod place;
mod python;
mod record;
mod recording;
mod resolve;
mod run;
mod session;
mod sites;
mod spans;
mod stacks;
mod table;
mod thread;
mod topology;
mod traffic;
mod trampoline;
mod types;
mod waits;
