//! Selects the path of a message to another node: a pure function of its length and of the
//! capabilities of the network provider.
//!
//! Unlike [`select`](mod@crate::select), this uses no costs: a message that fits a packet is sent
//! at once; a longer one is read by its receiver if the provider can, which saves both sides a
//! copy; otherwise it is sent in chunks.

use crate::select::OutgoingMessage;

/// A path over the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NetworkPath {
    /// Eager: in one packet, without a rendezvous.
    Eager,
    /// After an RTS, the receiver reads it from the sender's registered memory (RMA).
    Read,
    /// After RTS and CTS, in packets.
    Chunks,
}

impl NetworkPath {
    /// Every path, in the order of preference.
    pub const ALL: [NetworkPath; 3] = [NetworkPath::Eager, NetworkPath::Read, NetworkPath::Chunks];

    /// Its name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            NetworkPath::Eager => "eager",
            NetworkPath::Read => "read",
            NetworkPath::Chunks => "chunks",
        }
    }
}

/// The capabilities of the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NetworkLimits {
    /// The longest eager message, in bytes: what one packet takes, or less if the user sets a
    /// limit.
    pub eager_max: usize,
    /// Whether the provider can read a peer's memory.
    pub can_read: bool,
}

/// Why `path` is not possible for `message`; `None` if it is possible.
pub fn ruled_out(
    path: NetworkPath,
    message: &OutgoingMessage,
    limits: &NetworkLimits,
) -> Option<&'static str> {
    match path {
        NetworkPath::Eager if message.len > limits.eager_max => Some("does not fit one packet"),
        NetworkPath::Read if !limits.can_read => Some("the provider reads no memory of peers"),
        NetworkPath::Read if message.pieces > 1 => Some("its bytes lie in several pieces"),
        NetworkPath::Eager | NetworkPath::Read | NetworkPath::Chunks => None,
    }
}

/// The path of a message: the first that is possible.
pub fn network_path(message: &OutgoingMessage, limits: &NetworkLimits) -> NetworkPath {
    let mut possible =
        NetworkPath::ALL.into_iter().filter(|&path| ruled_out(path, message, limits).is_none());
    possible.next().unwrap_or(NetworkPath::Chunks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_follows_from_length_and_provider() {
        let limits = NetworkLimits { eager_max: 1000, can_read: true };
        let path =
            |message: OutgoingMessage, limits: NetworkLimits| network_path(&message, &limits);
        assert_eq!(path(OutgoingMessage::contiguous(1000), limits), NetworkPath::Eager);
        assert_eq!(path(OutgoingMessage::contiguous(1001), limits), NetworkPath::Read);
        // The receiver confirms the match; the bytes need not wait for that.
        let synchronous = OutgoingMessage { synchronous: true, ..OutgoingMessage::contiguous(8) };
        assert_eq!(path(synchronous, limits), NetworkPath::Eager);
        let scattered = OutgoingMessage { pieces: 2, ..OutgoingMessage::contiguous(1001) };
        assert_eq!(path(scattered, limits), NetworkPath::Chunks);
        let blind = NetworkLimits { can_read: false, ..limits };
        assert_eq!(path(OutgoingMessage::contiguous(1001), blind), NetworkPath::Chunks);
    }

    #[test]
    fn chunks_are_always_possible() {
        let limits = NetworkLimits { eager_max: 0, can_read: false };
        assert!(ruled_out(NetworkPath::Chunks, &OutgoingMessage::contiguous(1), &limits).is_none());
    }
}
