//! The protocol in one process: engines of several ranks, stepped by one thread in an order that a
//! test or a seed gives.
//!
//! [`scripted`] is the network of most tests, [`rig`] creates the engines, [`program`] is what
//! their programs do, and [`model`] is what MPI requires, in the simplest form. The tests are in
//! further files, one for each property that they show.

mod buffers;
mod model;
mod program;
mod rig;
mod scripted;

mod adapters;
mod copies;
mod floods;
mod long_waits;
mod losses;
mod matching;
mod reads;
mod rma;
mod shared_memory;
mod target_copy;
mod tasks;
