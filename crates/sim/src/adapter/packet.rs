//! What adapters send each other.

use serde::{Deserialize, Serialize};

/// What adapters send each other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdapterPacket {
    /// What it is for; the adapter's own.
    pub header: PacketHeader,
    /// Bytes of the message, if it carries any.
    pub payload: Vec<u8>,
}

/// Header of a [`AdapterPacket`].
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

impl AdapterPacket {
    /// A packet without payload.
    pub fn bare(header: PacketHeader) -> AdapterPacket {
        AdapterPacket { header, payload: Vec::new() }
    }
}
