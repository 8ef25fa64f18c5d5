//! The connections between controller and agents.

#[doc(hidden)]
pub mod auth;
pub mod connection;
pub mod listener;
#[doc(hidden)]
pub mod messages;

pub use connection::{Connection, HEARTBEAT_INTERVAL, LinkLost, encode};
