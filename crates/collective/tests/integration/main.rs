//! Collectives from outside: as schedules, and in shared areas.

mod common;
mod inter;
mod movement;
mod network;
mod node;
mod reductions;
mod two_level;
