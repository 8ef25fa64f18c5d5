//! The tests of whole programs: jobs of the installed library, its launcher and its tools. What
//! they share is the crate's library. One program, so that its parts are linked once.

mod abi;
mod ability;
mod adapter;
mod bindings;
mod builds;
mod collectives;
mod commands;
mod documents;
mod faults;
mod foreign;
mod hang;
mod hosts;
mod install;
mod instructions;
mod late;
mod launch;
mod lenient;
mod links;
mod manual;
mod mpi4py;
mod mpich;
mod placement;
mod profile;
mod programs;
mod python;
mod record;
mod sanitizers;
mod sim;
mod standard_abi;
mod surroundings;
mod tools;
mod top;
mod tuning;
mod variables;
mod wheel;
