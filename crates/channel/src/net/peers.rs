//! The state that a rank keeps for each rank that it reaches, from the first contact on.
//!
//! A rank of a large job talks with few of the others. Until it does, a peer is its address and its
//! challenge in the [`AddressBook`]. A peer gets a [`NetPeer`] when the first message for it or of
//! it comes, and a number of the provider (`fi_av_insert`) when something is first sent to it or
//! read from it: what only arrives needs none.

use std::collections::VecDeque;

use super::bindings as fi;
use super::token::JobSecret;
use crate::transport::{LostPeer, NetError};

/// One peer.
#[derive(Debug)]
pub(super) struct NetPeer {
    /// The provider's number for its address; FI_ADDR_NOTAVAIL before the address was resolved.
    pub number: u64,
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

/// What is known of the ranks before the first contact.
#[derive(Debug)]
pub(super) struct AddressBook {
    me: u32,
    secret: JobSecret,
    /// This rank's challenge.
    challenge: u64,
    /// Bytes of each address.
    address_len: usize,
    /// The provider's addresses, one behind the other; zeros for a rank that is not reached.
    addresses: Vec<u8>,
    /// By rank: its challenge; `None` if it is not reached.
    challenges: Vec<Option<u64>>,
}

impl AddressBook {
    /// An empty book of rank `me`, whose messages must prove that they know `challenge`.
    pub fn new(me: u32, secret: JobSecret, challenge: u64, address_len: usize) -> AddressBook {
        AddressBook {
            me,
            secret,
            challenge,
            address_len,
            addresses: Vec::new(),
            challenges: Vec::new(),
        }
    }

    /// Adds the next rank: its address, of the book's length, and its challenge; `None` if it is
    /// not reached.
    pub fn push(&mut self, contact: Option<(&[u8], u64)>) {
        self.challenges
            .push(contact.map(|(_, challenge)| challenge));
        let end = self.challenges.len() * self.address_len;
        self.addresses
            .extend_from_slice(contact.map_or(&[], |(address, _)| address));
        self.addresses.resize(end, 0);
    }

    fn reaches(&self, peer: u32) -> bool {
        matches!(self.challenges.get(peer as usize), Some(Some(_)))
    }

    fn address(&self, peer: u32) -> Option<&[u8]> {
        let start = peer as usize * self.address_len;
        self.reaches(peer)
            .then(|| &self.addresses[start..start + self.address_len])
    }

    /// The token of messages from `peer`.
    fn expected_token(&self, peer: u32) -> Option<u64> {
        let token = || self.secret.token(peer, self.me, self.challenge);
        self.reaches(peer).then(token)
    }

    /// A peer as it is before anything was sent to it.
    fn meet(&self, peer: u32) -> Option<Box<NetPeer>> {
        let challenge = (*self.challenges.get(peer as usize)?)?;
        Some(Box::new(NetPeer {
            number: fi::FI_ADDR_NOTAVAIL,
            token: self.secret.token(self.me, peer, challenge),
            expected_token: self.expected_token(peer)?,
            sent: 0,
            uncovered: false,
            in_flight: 0,
            motion: 0,
            stuck: None,
            lost: None,
        }))
    }
}

/// All peers, by job rank.
#[derive(Debug)]
pub(super) struct NetPeers {
    book: AddressBook,
    /// Those that there was contact with.
    list: Vec<Option<Box<NetPeer>>>,
    stuck: usize,
    /// Sum of `in_flight` of the peers that are not lost.
    in_flight: u32,
    /// Losses that are not reported yet.
    losses: VecDeque<LostPeer>,
}

impl NetPeers {
    pub fn none() -> NetPeers {
        NetPeers::new(AddressBook::new(0, JobSecret::new([0; 16]), 0, 0))
    }

    /// Creates the table of the ranks in the book.
    pub fn new(book: AddressBook) -> NetPeers {
        NetPeers {
            list: book.challenges.iter().map(|_| None).collect(),
            book,
            stuck: 0,
            in_flight: 0,
            losses: VecDeque::new(),
        }
    }

    pub fn reaches(&self, peer: u32) -> bool {
        self.book.reaches(peer)
    }

    /// The provider's address of a peer, if it is reached.
    pub fn address(&self, peer: u32) -> Option<&[u8]> {
        self.book.address(peer)
    }

    /// Whether the peer has the provider's number, so that something can be sent to it.
    #[inline]
    pub fn is_resolved(&self, peer: u32) -> bool {
        self.get(peer)
            .is_some_and(|peer| peer.number != fi::FI_ADDR_NOTAVAIL)
    }

    /// The provider's number of a peer is known now.
    pub fn resolve(&mut self, peer: u32, number: u64) {
        if let Some(found) = self.meet(peer) {
            found.number = number;
        }
    }

    /// Peers whose addresses were resolved.
    pub fn resolved(&self) -> usize {
        let all = 0..self.len();
        all.filter(|&peer| self.is_resolved(peer)).count()
    }

    /// The peer, whose state begins now if there was no contact with it before; `None` if it is not
    /// reached.
    #[inline]
    pub fn meet(&mut self, peer: u32) -> Option<&mut NetPeer> {
        let slot = self.list.get_mut(peer as usize)?;
        if slot.is_none() {
            *slot = self.book.meet(peer);
        }
        slot.as_deref_mut()
    }

    /// The token of messages from `peer`; `None` if it is not reached.
    #[inline]
    pub fn expected_token(&self, peer: u32) -> Option<u64> {
        match self.get(peer) {
            Some(known) => Some(known.expected_token),
            None => self.book.expected_token(peer),
        }
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
        match self.meet(peer) {
            Some(found) => match &found.lost {
                None => Ok(found),
                Some(lost) => Err(NetError::Lost(lost.clone())),
            },
            None => Err(not_reached(peer)),
        }
    }

    /// A peer that there was contact with.
    #[inline]
    pub fn get(&self, peer: u32) -> Option<&NetPeer> {
        self.list.get(peer as usize)?.as_deref()
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
        // Of a peer that there was no contact with, the loss is kept all the same.
        self.meet(peer);
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
pub(super) fn not_reached(peer: u32) -> NetError {
    NetError::Unreachable {
        peer,
        why: "its address is unknown".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: JobSecret = JobSecret::new([3; 16]);

    fn three() -> NetPeers {
        let mut book = AddressBook::new(1, SECRET, 9, 2);
        book.push(Some((&[7, 7], 70)));
        book.push(None);
        book.push(Some((&[8, 8], 80)));
        NetPeers::new(book)
    }

    #[test]
    fn a_peer_is_resolved_when_something_goes_to_it() {
        let mut peers = three();
        assert_eq!(peers.address(0), Some(&[7, 7][..]));
        assert_eq!(peers.address(2), Some(&[8, 8][..]));
        assert_eq!((peers.address(1), peers.address(3)), (None, None));
        // A message of it is no reason to know its address.
        assert_eq!(peers.meet(2).unwrap().token, SECRET.token(1, 2, 80));
        assert_eq!(peers.resolved(), 0);
        peers.resolve(2, 5);
        assert_eq!(peers.usable(2).unwrap().number, 5);
        assert!(peers.is_resolved(2) && !peers.is_resolved(0));
        peers.resolve(1, 6);
        assert_eq!(peers.resolved(), 1);
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
        let token = |peer| Some(SECRET.token(peer, 1, 9));
        let mut peers = three();
        // Before the first contact, and after it.
        for _ in 0..2 {
            let tokens = [0, 1, 2, 3].map(|peer| peers.expected_token(peer));
            assert_eq!(tokens, [token(0), None, token(2), None]);
            let met = [0, 1, 2, 3].map(|peer| peers.meet(peer).is_some());
            assert_eq!(met, [true, false, true, false]);
        }
    }

    #[test]
    fn what_is_in_flight_to_a_lost_peer_does_not_count() {
        let mut peers = three();
        peers.meet(0);
        peers.meet(2);
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
        peers.meet(0);
        peers.set_stuck(0, 5);
        assert!(peers.is_stuck(0, 5) && !peers.is_stuck(0, 6) && !peers.is_stuck(2, 5));
        assert!(peers.is_any_stuck(), "until something goes through");
        peers.clear_stuck(0);
        peers.clear_stuck(0);
        assert!(!peers.is_any_stuck());
    }
}
