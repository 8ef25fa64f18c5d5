//! The network adapter: operating-system bypass, no copies, matching by itself.
//!
//! [`Adapter`] is a state machine without threads. The node tells it of commands (doorbell stores),
//! arrived packets and waits, each with its moment; it answers with packets to send, and it reads
//! and writes the process's memory through [`Host`].

use serde::{Deserialize, Serialize};

use crate::memory::InjectTarget;
use crate::time::SimTime;

/// What adapters send each other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Packet {
    /// What it is for; the adapter's own.
    pub header: PacketHeader,
    /// Bytes of the message, if it carries any.
    pub payload: Vec<u8>,
}

/// Header of a [`Packet`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum PacketHeader {
    /// A message with its payload.
    Eager {
        /// Context of the communicator.
        context: u64,
        /// Tag.
        tag: i32,
        /// Token of a synchronous send, to be acknowledged when it is matched.
        acknowledge: Option<u64>,
    },
    /// A message that waits at its sender until it is matched.
    Announce {
        /// Context of the communicator.
        context: u64,
        /// Tag.
        tag: i32,
        /// Bytes of the message.
        length: u64,
        /// The sender's token.
        send: u64,
    },
    /// The message with token `send` is matched: send its first `length` bytes to `receive`.
    Pull {
        /// The sender's token.
        send: u64,
        /// Bytes that there is room for.
        length: u64,
        /// The receiver's name for the transfer.
        receive: u64,
    },
    /// The payload of a message that was pulled.
    Data {
        /// The receiver's name for the transfer.
        receive: u64,
    },
    /// A synchronous send is matched.
    Acknowledge {
        /// The sender's token.
        send: u64,
    },
}

/// The process's memory as the adapter reaches it. Transfers take time on the memory's side, which
/// the implementation models and returns.
pub trait Host {
    /// Reads `out.len()` bytes at `address` from `at` on. Returns when the last has been read.
    fn read(&mut self, at: SimTime, address: u64, out: &mut [u8]) -> SimTime;

    /// Writes `bytes` to `address` from `at` on. Returns when the last has been written.
    fn write(&mut self, at: SimTime, address: u64, bytes: &[u8], to: InjectTarget) -> SimTime;

    /// Whether the cache line that holds `address` is in the cache of this target.
    fn holds(&self, address: u64, cache: InjectTarget) -> bool;
}
