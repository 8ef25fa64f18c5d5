//! The connections between controller and agents: the handshake ([`auth`]), frames over a
//! connection ([`connection`]), the [`messages`], and the port where agents come in
//! ([`listener`]).

#[doc(hidden)]
pub mod auth;
pub mod connection;
pub mod listener;
#[doc(hidden)]
pub mod messages;

pub use connection::{Connection, HEARTBEAT_INTERVAL, LinkLost, encode, flush_all};
