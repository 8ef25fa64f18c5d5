//! The profile of a job as data: what `mica profile` writes as `profile.json`, and what its text,
//! its HTML page, its trace and the rank mapper are made from.
//!
//! [`model`] has the types, [`mod@file`] reads and writes them, [`summary`] has the sums that
//! several readers need (by call, by site, by rank, by level), [`recorded`] reads the part that
//! rank placement needs, [`rank_tables`] what the profiler's library counted in a rank. `mica
//! profile` fills the model from the records of the ranks.
//!
//! Words are mpiP's where it has them: application time is the time between the return of
//! `MPI_Init` and the call of `MPI_Finalize`, MPI time the part of it spent in MPI calls, a call
//! site the place in the program that makes the call.

#![forbid(unsafe_code)]

mod columns;
#[cfg(any(test, feature = "example"))]
mod example;
pub mod file;
pub mod model;
pub mod rank_tables;
pub mod recorded;
pub mod summary;

pub use model::{
    CallRecord, FileRecord, JoinedCalls, Language, LateArrival, MessageEnvelope, PairLevel,
    Profile, ProfiledJob, ProfiledPlace, ProgramSite, RankPair, RankProfile, SizeCount, Timeline,
    TimelineInterval, Wait,
};
