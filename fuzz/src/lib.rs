//! Fuzz targets: each takes any bytes, passes them to code that parses external input, and panics
//! when an invariant is violated.
//!
//! The targets, with the code under test, and what holds besides "no panic":
//!
//! - `pmi1`, `pmi2`: the messages of process managers (`mica_bootstrap`). How the bytes come in
//!   pieces does not matter; what is read and written again is read as the same.
//! - `endpoint_record`: the endpoint record of a process (`mica_bootstrap::endpoint_record`).
//!   Encode is the inverse of decode.
//! - `contact`, `network`: a rank's network address, a message's header
//!   (`mica_channel::net::wire`). Write is the inverse of read.
//! - `packet`: the packets between engines (`mica_protocol::packet`). A decoded packet, encoded and
//!   decoded again, is the same.
//! - `agent`: the messages between `mpiexec` and its agents, the handshake, the secret
//!   (`mica_launch`). As for `packet`; a forged proof is refused.
//! - `hosts`: host lists and Slurm's host expressions (`mica_launch::hosts`). Each rank has one
//!   host.
//! - `tuning`: the tuning file (`mica_policy::tuning`). What is printed is read as the same;
//!   choices with its costs do not fail.
//! - `info`: info objects (`mica_mpi::info`). The same answers as a plain list of pairs.
//! - `datatype`: datatype constructors, contents, pack, external32 (`mica_mpi::datatype`). Contents
//!   rebuild the same datatype; unpack is the inverse of pack.
//!
//! `corpus/TARGET` has inputs that reach each branch of the target, and every input that ever
//! failed.
//! `tests/short.rs` runs the whole corpus, and mutations of it that are the same in each run.
//! [`fuzz_targets`](../fuzz_targets) gives the same functions to cargo-fuzz.
#![forbid(unsafe_code)]

mod agent;
mod datatype;
mod hosts;
mod info;
pub mod mutate;
mod network;
mod packet;
mod pmi;
mod reader;
mod tuning;

/// A target: takes the bytes to try.
pub type Target = fn(&[u8]);

/// All targets by name.
pub const TARGETS: &[(&str, Target)] = &[
    ("agent", agent::run),
    ("endpoint_record", pmi::run_endpoint_record),
    ("contact", network::run_contact),
    ("datatype", datatype::run),
    ("hosts", hosts::run),
    ("info", info::run),
    ("network", network::run),
    ("packet", packet::run),
    ("pmi1", pmi::run_pmi1),
    ("pmi2", pmi::run_pmi2),
    ("tuning", tuning::run),
];

/// Runs the target of this name.
///
/// # Panics
/// If there is no such target, or the target finds an error.
pub fn run(name: &str, bytes: &[u8]) {
    let target = TARGETS.iter().find(|(known, _)| *known == name);
    let (_, target) = target.unwrap_or_else(|| panic!("there is no fuzz target {name}"));
    target(bytes);
}
