//! How a message goes to another node: one function of its length and of what the network's
//! provider can do.
//!
//! No costs speak here, unlike [`select`](mod@crate::select): what fits a packet goes at once, and
//! what does not is read by its receiver where the provider can, since that saves both sides a
//! copy; chunks are for all else.

use crate::select::OutgoingMessage;

/// A way over the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NetworkPath {
    /// In one packet, at once, without asking.
    Eager,
    /// After a request, the receiver reads it from the sender's registered memory (RMA).
    Read,
    /// After a request and its answer, in packets.
    Chunks,
}

impl NetworkPath {
    /// Every way, in the order of preference.
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

/// What the network offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NetworkLimits {
    /// The longest message that goes at once, in bytes: what one packet takes, or less if the user
    /// says so.
    pub eager_max: usize,
    /// Whether the provider reads a peer's memory.
    pub can_read: bool,
}

/// Why `way` is not possible for `message`; `None` if it is.
pub fn ruled_out(
    way: NetworkPath,
    message: &OutgoingMessage,
    limits: &NetworkLimits,
) -> Option<&'static str> {
    match way {
        NetworkPath::Eager if message.len > limits.eager_max => Some("does not fit one packet"),
        NetworkPath::Read if !limits.can_read => Some("the provider reads no memory of peers"),
        NetworkPath::Read if message.pieces > 1 => Some("its bytes lie in several pieces"),
        NetworkPath::Eager | NetworkPath::Read | NetworkPath::Chunks => None,
    }
}

/// The way that a message takes: the first that is possible.
pub fn network_way(message: &OutgoingMessage, limits: &NetworkLimits) -> NetworkPath {
    let mut possible = NetworkPath::ALL
        .into_iter()
        .filter(|&way| ruled_out(way, message, limits).is_none());
    possible.next().unwrap_or(NetworkPath::Chunks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_follows_from_length_and_provider() {
        let limits = NetworkLimits {
            eager_max: 1000,
            can_read: true,
        };
        let way = |message: OutgoingMessage, limits: NetworkLimits| network_way(&message, &limits);
        assert_eq!(
            way(OutgoingMessage::contiguous(1000), limits),
            NetworkPath::Eager
        );
        assert_eq!(
            way(OutgoingMessage::contiguous(1001), limits),
            NetworkPath::Read
        );
        // The receiver confirms that it has matched; the bytes need not wait for that.
        let synchronous = OutgoingMessage {
            synchronous: true,
            ..OutgoingMessage::contiguous(8)
        };
        assert_eq!(way(synchronous, limits), NetworkPath::Eager);
        let scattered = OutgoingMessage {
            pieces: 2,
            ..OutgoingMessage::contiguous(1001)
        };
        assert_eq!(way(scattered, limits), NetworkPath::Chunks);
        let blind = NetworkLimits {
            can_read: false,
            ..limits
        };
        assert_eq!(
            way(OutgoingMessage::contiguous(1001), blind),
            NetworkPath::Chunks
        );
    }

    #[test]
    fn chunks_are_always_possible() {
        let limits = NetworkLimits {
            eager_max: 0,
            can_read: false,
        };
        assert!(
            ruled_out(
                NetworkPath::Chunks,
                &OutgoingMessage::contiguous(1),
                &limits
            )
            .is_none()
        );
    }
}
