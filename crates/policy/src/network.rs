//! How a message goes to another node: one function of its length and of what the network's provider can do.
//!
//! No costs speak here, unlike [`select`](mod@crate::select): what fits a packet goes at once, and what does not is read by its
//! receiver where the provider can, since that saves both sides a copy; chunks are for all else.

use crate::select::Message;

/// A way over the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NetworkWay {
    /// In one packet, at once, without asking.
    Eager,
    /// After a request, the receiver reads it from the sender's registered memory (RMA).
    Read,
    /// After a request and its answer, in packets.
    Chunks,
}

impl NetworkWay {
    /// Every way, in the order of preference.
    pub const ALL: [NetworkWay; 3] = [NetworkWay::Eager, NetworkWay::Read, NetworkWay::Chunks];

    /// Its name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            NetworkWay::Eager => "eager",
            NetworkWay::Read => "read",
            NetworkWay::Chunks => "chunks",
        }
    }
}

/// What the network offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NetworkLimits {
    /// The longest message that goes at once, in bytes: what one packet takes, or less if the user says so.
    pub eager_max: usize,
    /// Whether the provider reads a peer's memory.
    pub can_read: bool,
}

/// Why `way` is not possible for `message`; `None` if it is.
pub fn ruled_out(
    way: NetworkWay,
    message: &Message,
    limits: &NetworkLimits,
) -> Option<&'static str> {
    match way {
        NetworkWay::Eager if message.len > limits.eager_max => Some("does not fit one packet"),
        NetworkWay::Read if !limits.can_read => Some("the provider reads no memory of peers"),
        NetworkWay::Read if message.pieces > 1 => Some("its bytes lie in several pieces"),
        NetworkWay::Eager | NetworkWay::Read | NetworkWay::Chunks => None,
    }
}

/// The way that a message takes: the first that is possible.
pub fn network_way(message: &Message, limits: &NetworkLimits) -> NetworkWay {
    let mut possible = NetworkWay::ALL
        .into_iter()
        .filter(|&way| ruled_out(way, message, limits).is_none());
    possible.next().unwrap_or(NetworkWay::Chunks)
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
        let way = |message: Message, limits: NetworkLimits| network_way(&message, &limits);
        assert_eq!(way(Message::contiguous(1000), limits), NetworkWay::Eager);
        assert_eq!(way(Message::contiguous(1001), limits), NetworkWay::Read);
        // The receiver confirms that it has matched; the bytes need not wait for that.
        let synchronous = Message {
            synchronous: true,
            ..Message::contiguous(8)
        };
        assert_eq!(way(synchronous, limits), NetworkWay::Eager);
        let scattered = Message {
            pieces: 2,
            ..Message::contiguous(1001)
        };
        assert_eq!(way(scattered, limits), NetworkWay::Chunks);
        let blind = NetworkLimits {
            can_read: false,
            ..limits
        };
        assert_eq!(way(Message::contiguous(1001), blind), NetworkWay::Chunks);
    }

    #[test]
    fn chunks_are_always_possible() {
        let limits = NetworkLimits {
            eager_max: 0,
            can_read: false,
        };
        assert!(ruled_out(NetworkWay::Chunks, &Message::contiguous(1), &limits).is_none());
    }
}
