//! The state that a rank keeps for each rank that it reaches, from the first contact on.
//!
//! A rank of a large job talks with few of the others. The [`AddressBook`] reads what a peer has
//! published at the first contact. The peer gets a [`NetPeer`] when the first message for it or of
//! it comes, and a number of the provider (`fi_av_insert`) when something is first sent to it or
//! read from it: what only arrives needs none.

use std::collections::VecDeque;
use std::fmt::Debug;

use super::bindings as fi;
use super::token::JobSecret;
use super::wire::{NetworkKind, WireAddress};
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

/// Where a rank finds the addresses that the ranks of its job have published.
pub trait AddressSource: Debug + Send {
    /// Number of ranks of the job.
    fn ranks(&self) -> u32;

    /// Whether `peer` is reached over the network.
    fn reaches(&self, peer: u32) -> bool;

    /// What [`Net::address`](super::Net::address) is at `peer`, which is reached. May be asked
    /// again.
    ///
    /// # Errors
    /// Why it is not known, as text.
    fn address(&self, peer: u32) -> Result<Vec<u8>, String>;

    /// Whether it is known that [`Net::kind`](super::Net::kind) is the same at all ranks. Otherwise
    /// every address is read at once, to compare them.
    fn is_uniform(&self) -> bool;
}

/// Addresses by rank; `None`: not reached.
impl AddressSource for Vec<Option<Vec<u8>>> {
    fn ranks(&self) -> u32 {
        self.len() as u32
    }

    fn reaches(&self, peer: u32) -> bool {
        matches!(self.get(peer as usize), Some(Some(_)))
    }

    fn address(&self, peer: u32) -> Result<Vec<u8>, String> {
        let known = self.get(peer as usize).and_then(Option::clone);
        known.ok_or_else(|| NOT_REACHED.to_owned())
    }

    fn is_uniform(&self) -> bool {
        false
    }
}

/// What is known of the ranks before the first contact.
#[derive(Debug)]
pub(super) struct AddressBook {
    me: u32,
    secret: JobSecret,
    /// This rank's challenge.
    challenge: u64,
    /// The kind of network of this rank, which the others must have.
    kind: NetworkKind,
    addresses: Box<dyn AddressSource>,
}

impl AddressBook {
    /// The book of rank `me`, whose messages must prove that they know its challenge.
    pub fn new(
        me: u32,
        secret: JobSecret,
        own: WireAddress,
        addresses: Box<dyn AddressSource>,
    ) -> AddressBook {
        AddressBook { me, secret, challenge: own.challenge, kind: own.kind, addresses }
    }

    /// The largest payload in bytes that all ranks accept.
    ///
    /// # Errors
    /// If an address cannot be reached by this rank's provider; the error names the rank.
    pub fn payload_max(&self) -> Result<u32, NetError> {
        if self.addresses.is_uniform() {
            return Ok(self.kind.payload_max);
        }
        let peers = (0..self.addresses.ranks()).filter(|&peer| self.addresses.reaches(peer));
        let mut payload_max = self.kind.payload_max;
        for peer in peers {
            payload_max = payload_max.min(self.contact(peer)?.kind.payload_max);
        }
        Ok(payload_max)
    }

    fn reaches(&self, peer: u32) -> bool {
        self.addresses.reaches(peer)
    }

    /// The address that `peer` has published.
    ///
    /// # Errors
    /// If this rank cannot reach it.
    #[cold]
    fn contact(&self, peer: u32) -> Result<WireAddress, NetError> {
        if !self.reaches(peer) {
            return Err(not_reached(peer));
        }
        let unreachable = |why| NetError::Unreachable { peer, why };
        let bytes = self.addresses.address(peer).map_err(unreachable)?;
        let contact = WireAddress::from_bytes(&bytes).map_err(unreachable)?;
        match self.kind.difference(&contact.kind) {
            None => Ok(contact),
            Some(why) => Err(unreachable(why)),
        }
    }

    /// The token of messages from `peer`.
    fn expected_token(&self, peer: u32) -> Option<u64> {
        let token = || self.secret.token(peer, self.me, self.challenge);
        self.reaches(peer).then(token)
    }

    /// A peer as it is before anything was sent to it.
    ///
    /// # Errors
    /// As [`contact`](Self::contact).
    fn meet(&self, peer: u32) -> Result<Box<NetPeer>, NetError> {
        let challenge = self.contact(peer)?.challenge;
        Ok(Box::new(NetPeer {
            number: fi::FI_ADDR_NOTAVAIL,
            token: self.secret.token(self.me, peer, challenge),
            expected_token: self.secret.token(peer, self.me, self.challenge),
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
    /// `None` until the addresses are known.
    book: Option<AddressBook>,
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
        NetPeers { list: Vec::new(), book: None, stuck: 0, in_flight: 0, losses: VecDeque::new() }
    }

    /// Creates the table of the ranks in the book.
    pub fn new(book: AddressBook) -> NetPeers {
        NetPeers {
            list: (0..book.addresses.ranks()).map(|_| None).collect(),
            book: Some(book),
            ..NetPeers::none()
        }
    }

    pub fn reaches(&self, peer: u32) -> bool {
        self.book.as_ref().is_some_and(|book| book.reaches(peer))
    }

    /// The provider's address of a peer.
    ///
    /// # Errors
    /// If the peer cannot be reached.
    pub fn address(&self, peer: u32) -> Result<Vec<u8>, NetError> {
        let book = self.book.as_ref().ok_or_else(|| not_reached(peer))?;
        Ok(book.contact(peer)?.address)
    }

    /// Whether the peer has the provider's number, so that something can be sent to it.
    #[inline]
    pub fn is_resolved(&self, peer: u32) -> bool {
        self.get(peer).is_some_and(|peer| peer.number != fi::FI_ADDR_NOTAVAIL)
    }

    /// The provider's number of a peer is known now.
    pub fn resolve(&mut self, peer: u32, number: u64) {
        if let Ok(found) = self.meet(peer) {
            found.number = number;
        }
    }

    /// Peers whose addresses were resolved.
    pub fn resolved(&self) -> usize {
        let all = 0..self.len();
        all.filter(|&peer| self.is_resolved(peer)).count()
    }

    /// The peer, whose state begins now if there was no contact with it before.
    ///
    /// # Errors
    /// If the peer cannot be reached.
    #[inline]
    pub fn meet(&mut self, peer: u32) -> Result<&mut NetPeer, NetError> {
        let (Some(slot), Some(book)) = (self.list.get_mut(peer as usize), &self.book) else {
            return Err(not_reached(peer));
        };
        if slot.is_none() {
            *slot = Some(book.meet(peer)?);
        }
        slot.as_deref_mut().ok_or_else(|| not_reached(peer))
    }

    /// The token of messages from `peer`; `None` if it is not reached.
    #[inline]
    pub fn expected_token(&self, peer: u32) -> Option<u64> {
        match self.get(peer) {
            Some(known) => Some(known.expected_token),
            None => self.book.as_ref()?.expected_token(peer),
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
        let found = self.meet(peer)?;
        match &found.lost {
            None => Ok(found),
            Some(lost) => Err(NetError::Lost(lost.clone())),
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
        let _ = self.meet(peer);
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

const NOT_REACHED: &str = "its address is unknown";

#[cold]
pub(super) fn not_reached(peer: u32) -> NetError {
    NetError::Unreachable { peer, why: NOT_REACHED.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: JobSecret = JobSecret::new([3; 16]);

    fn three() -> NetPeers {
        let addresses =
            vec![Some(address(70, [7, 7]).to_bytes()), None, Some(address(80, [8, 8]).to_bytes())];
        let own = address(9, [6, 6]);
        NetPeers::new(AddressBook::new(1, SECRET, own, Box::new(addresses)))
    }

    fn address(challenge: u64, address: [u8; 2]) -> WireAddress {
        WireAddress {
            kind: NetworkKind { provider: "tcp".to_owned(), payload_max: 1000, address_len: 2 },
            challenge,
            address: address.to_vec(),
        }
    }

    /// Addresses of which it is known that they are alike; counts how many are read.
    #[derive(Debug)]
    struct Uniform(std::sync::Arc<std::sync::atomic::AtomicU32>);

    impl AddressSource for Uniform {
        fn ranks(&self) -> u32 {
            10_000
        }

        fn reaches(&self, peer: u32) -> bool {
            peer < 10_000
        }

        fn address(&self, peer: u32) -> Result<Vec<u8>, String> {
            self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            Ok(address(u64::from(peer), [7, 7]).to_bytes())
        }

        fn is_uniform(&self) -> bool {
            true
        }
    }

    #[test]
    fn addresses_that_are_alike_are_read_at_first_contact() {
        let reads = std::sync::Arc::default();
        let source = Box::new(Uniform(std::sync::Arc::clone(&reads)));
        let book = AddressBook::new(1, SECRET, address(9, [6, 6]), source);
        assert_eq!(book.payload_max().unwrap(), 1000);
        let mut peers = NetPeers::new(book);
        assert_eq!(peers.expected_token(9_999), Some(SECRET.token(9_999, 1, 9)));
        let read = || reads.load(std::sync::atomic::Ordering::Relaxed);
        assert_eq!(read(), 0);
        for _ in 0..2 {
            assert_eq!(peers.usable(77).unwrap().token, SECRET.token(1, 77, 77));
        }
        assert_eq!(read(), 1);
    }

    #[test]
    fn a_peer_is_resolved_when_something_goes_to_it() {
        let mut peers = three();
        assert_eq!(peers.address(0).unwrap(), [7, 7]);
        assert_eq!(peers.address(2).unwrap(), [8, 8]);
        assert!(peers.address(1).is_err() && peers.address(3).is_err());
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
        assert_eq!(peers.usable(2).unwrap_err().to_string(), "rank 2 is lost: reset");
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
            let met = [0, 1, 2, 3].map(|peer| peers.meet(peer).is_ok());
            assert_eq!(met, [true, false, true, false]);
        }
    }

    #[test]
    fn what_is_in_flight_to_a_lost_peer_does_not_count() {
        let mut peers = three();
        peers.meet(0).unwrap();
        peers.meet(2).unwrap();
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
        peers.meet(0).unwrap();
        peers.set_stuck(0, 5);
        assert!(peers.is_stuck(0, 5) && !peers.is_stuck(0, 6) && !peers.is_stuck(2, 5));
        assert!(peers.is_any_stuck(), "until something goes through");
        peers.clear_stuck(0);
        peers.clear_stuck(0);
        assert!(!peers.is_any_stuck());
    }
}
