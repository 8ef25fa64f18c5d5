//! The state that a rank keeps for each rank that it reaches.

use std::collections::VecDeque;

use crate::transport::{LostPeer, NetError};

/// One peer.
#[derive(Debug)]
pub(super) struct NetPeer {
    /// The provider's number for its address.
    pub number: u64,
    /// The provider's address.
    pub address: Vec<u8>,
    /// The token of messages to it.
    pub token: u64,
    /// The token that its messages must carry.
    expected_token: u64,
    /// Number of messages sent to it.
    pub sent: u32,
    /// Messages without a completion have been sent since the last one with a completion.
    pub uncovered: bool,
    /// Sends from the channel's buffers to it that are under way.
    pub in_flight: u32,
    /// Progress counter: changes whenever a transfer with this peer makes progress.
    pub motion: u32,
    /// Number of the poll at which the provider had no room for it, if the last attempt failed so.
    stuck: Option<u64>,
    lost: Option<LostPeer>,
}

impl NetPeer {
    /// Whether the provider had no room for it at the last attempt.
    pub fn is_stuck(&self) -> bool {
        self.stuck.is_some()
    }
}

/// What is known of a peer before the first message.
#[derive(Debug)]
pub(super) struct PeerContact {
    /// The provider's number for its address.
    pub number: u64,
    /// The provider's address.
    pub address: Vec<u8>,
    /// The token of messages to it.
    pub token: u64,
    /// The token of messages from it.
    pub expected_token: u64,
}

/// All peers, by job rank.
#[derive(Debug)]
pub(super) struct NetPeers {
    list: Vec<Option<NetPeer>>,
    stuck: usize,
    /// Sum of `in_flight` of the peers that are not lost.
    in_flight: u32,
    /// Losses that are not reported yet.
    losses: VecDeque<LostPeer>,
}

impl NetPeers {
    pub fn none() -> NetPeers {
        NetPeers::new(Vec::new())
    }

    /// Creates the table of the ranks that are reached.
    pub fn new(contacts: Vec<Option<PeerContact>>) -> NetPeers {
        let peer = |contact: PeerContact| NetPeer {
            number: contact.number,
            address: contact.address,
            token: contact.token,
            expected_token: contact.expected_token,
            sent: 0,
            uncovered: false,
            in_flight: 0,
            motion: 0,
            stuck: None,
            lost: None,
        };
        NetPeers {
            list: contacts.into_iter().map(|c| c.map(peer)).collect(),
            stuck: 0,
            in_flight: 0,
            losses: VecDeque::new(),
        }
    }

    pub fn reaches(&self, peer: u32) -> bool {
        matches!(self.list.get(peer as usize), Some(Some(_)))
    }

    /// The token of messages from `peer`; `None` if it is not reached.
    #[inline]
    pub fn expected_token(&self, peer: u32) -> Option<u64> {
        Some(self.get(peer)?.expected_token)
    }

    /// Number of ranks of the job.
    pub fn len(&self) -> u32 {
        self.list.len() as u32
    }

    /// A peer that is reached and not lost.
    ///
    /// # Errors
    /// The reason why it is not usable.
    #[inline]
    pub fn usable(&mut self, peer: u32) -> Result<&mut NetPeer, NetError> {
        match self.list.get_mut(peer as usize) {
            Some(Some(found)) => match &found.lost {
                None => Ok(found),
                Some(lost) => Err(NetError::Lost(lost.clone())),
            },
            _ => Err(not_reached(peer)),
        }
    }

    pub fn get(&self, peer: u32) -> Option<&NetPeer> {
        self.list.get(peer as usize)?.as_ref()
    }

    /// The loss of `peer`, if it is lost.
    pub fn loss(&self, peer: u32) -> Option<&LostPeer> {
        self.get(peer)?.lost.as_ref()
    }

    /// Records that the provider had no room for `peer` at poll number `poll`.
    pub fn set_stuck(&mut self, peer: u32, poll: u64) {
        if let Some(Some(peer)) = self.list.get_mut(peer as usize)
            && peer.stuck.replace(poll).is_none()
        {
            self.stuck += 1;
        }
    }

    /// Records that the provider accepted an operation for `peer`.
    #[inline]
    pub fn clear_stuck(&mut self, peer: u32) {
        if self.stuck > 0
            && let Some(Some(peer)) = self.list.get_mut(peer as usize)
            && peer.stuck.take().is_some()
        {
            self.stuck -= 1;
            peer.motion = peer.motion.wrapping_add(1);
        }
    }

    /// A send from a buffer of the channel to `peer` has started.
    #[inline]
    pub fn takes_off(&mut self, peer: u32) {
        if let Some(Some(peer)) = self.list.get_mut(peer as usize) {
            peer.in_flight += 1;
            self.in_flight += 1;
        }
    }

    /// A send from a buffer of the channel to `peer` has completed.
    #[inline]
    pub fn lands(&mut self, peer: u32) {
        if let Some(Some(peer)) = self.list.get_mut(peer as usize) {
            peer.in_flight -= 1;
            peer.motion = peer.motion.wrapping_add(1);
            if peer.lost.is_none() {
                self.in_flight -= 1;
            }
        }
    }

    /// Another transfer with `peer` has made progress.
    pub fn moves(&mut self, peer: u32) {
        if let Some(Some(peer)) = self.list.get_mut(peer as usize) {
            peer.motion = peer.motion.wrapping_add(1);
        }
    }

    /// Sends from the channel's buffers under way to peers that are not lost.
    pub fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// Whether the provider had no room for `peer`, and the queue has not been polled since.
    #[inline]
    pub fn is_stuck(&self, peer: u32, poll: u64) -> bool {
        self.stuck > 0 && self.get(peer).is_some_and(|peer| peer.stuck == Some(poll))
    }

    pub fn is_any_stuck(&self) -> bool {
        self.stuck > 0
    }

    /// Marks `peer` as lost.
    #[cold]
    pub fn lose(&mut self, peer: u32, detail: String) -> NetError {
        self.clear_stuck(peer);
        let lost = LostPeer { peer, detail };
        if let Some(Some(found)) = self.list.get_mut(peer as usize)
            && found.lost.is_none()
        {
            found.uncovered = false;
            self.in_flight -= found.in_flight;
            found.lost = Some(lost.clone());
            self.losses.push_back(lost.clone());
        }
        NetError::Lost(lost)
    }

    pub fn has_losses(&self) -> bool {
        !self.losses.is_empty()
    }

    pub fn take_loss(&mut self) -> Option<LostPeer> {
        self.losses.pop_front()
    }
}

#[cold]
fn not_reached(peer: u32) -> NetError {
    NetError::Unreachable {
        peer,
        why: "its address is unknown".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn three() -> NetPeers {
        let contact = |number, address| PeerContact {
            number,
            address: vec![address],
            token: 0,
            expected_token: number + 10,
        };
        NetPeers::new(vec![Some(contact(7, 1)), None, Some(contact(8, 2))])
    }

    #[test]
    fn lost_peer_is_reported_once_and_remembered() {
        let mut peers = three();
        assert!(peers.usable(0).is_ok() && peers.usable(1).is_err() && peers.usable(3).is_err());
        peers.set_stuck(2, 5);
        peers.lose(2, "reset".to_owned());
        peers.lose(2, "again".to_owned());
        assert!(!peers.is_any_stuck());
        assert_eq!(
            peers.usable(2).unwrap_err().to_string(),
            "rank 2 is lost: reset"
        );
        assert_eq!(peers.take_loss().map(|l| l.peer), Some(2));
        assert_eq!(peers.take_loss(), None);
    }

    #[test]
    fn only_peers_that_are_reached_have_a_token() {
        let tokens = [0, 1, 2, 3].map(|peer| three().expected_token(peer));
        assert_eq!(tokens, [Some(17), None, Some(18), None]);
    }

    #[test]
    fn what_is_in_flight_to_a_lost_peer_does_not_count() {
        let mut peers = three();
        peers.takes_off(0);
        peers.takes_off(2);
        peers.lose(2, "reset".to_owned());
        assert_eq!(peers.in_flight(), 1);
        peers.lands(2);
        assert_eq!(peers.in_flight(), 1);
        peers.lands(0);
        assert_eq!(peers.in_flight(), 0);
    }

    #[test]
    fn each_poll_retries_a_stuck_peer() {
        let mut peers = three();
        peers.set_stuck(0, 5);
        assert!(peers.is_stuck(0, 5) && !peers.is_stuck(0, 6) && !peers.is_stuck(2, 5));
        assert!(peers.is_any_stuck(), "until something goes through");
        peers.clear_stuck(0);
        peers.clear_stuck(0);
        assert!(!peers.is_any_stuck());
    }
}
