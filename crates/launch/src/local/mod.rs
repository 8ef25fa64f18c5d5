//! The ranks of this node.
//!
//! [`supervisor`] runs them, for the user or in an [`agent`] for the controller. `ranks` has their
//! processes, `pmi` their process manager, `input` what they read, `world` their place in the job
//! segment. [`spawned`] runs those that a rank spawns; `spawner` is that rank.

pub mod agent;
mod callers;
pub mod departed;
mod foreign;
mod input;
mod pmi;
mod ranks;
mod requests;
pub mod spawned;
mod spawner;
pub mod supervisor;
mod world;
