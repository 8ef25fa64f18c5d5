//! Remote shells, which start agents on hosts: [`order`] says which host starts which by which
//! command, [`shell`] runs a command, and a [`starter`] does both on another host.

pub mod order;
pub mod shell;
pub mod starter;
