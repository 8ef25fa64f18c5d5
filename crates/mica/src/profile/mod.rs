//! `mica profile`: where the time of an MPI program goes.

pub mod report;
