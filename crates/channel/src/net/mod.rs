//! The network channel: packets and one-sided operations over libfabric (chai-2009, chapter 7;
//! jiang-2004, chapter 2).
//!
//! libfabric is loaded when a job spans nodes (or with `MICA_NET=loopback`), and drives the network
//! of the cluster: InfiniBand, EFA, Slingshot, Omni-Path, or else TCP ([`choice`]). Each rank has
//! one endpoint for reliable datagrams (FI_EP_RDM), by which it reaches all others, and one
//! completion queue.
//!
//! - **Messages** are the packets of the rings, followed by a payload (`wire.rs`). A sender copies
//!   a message to a buffer of the channel (or the provider does, if it is short); a receiver has a
//!   ring of buffers posted, and a packet stays in its buffer until it is consumed. Packets of a
//!   pair stay in order.
//! - **Long messages** are read from the sender's memory (RMA): the sender
//!   [exposes](crate::transport::Transport::expose) it and sends key and address; the receiver
//!   [starts reads](crate::transport::Transport::start_read) and polls for their
//!   [completions](crate::transport::Transport::next_completion).
//! - **One-sided operations** are those of [`RemoteMemory`](crate::RemoteMemory).
//!
//! Nothing here blocks. Only polling the completion queue makes progress: [`Transport::poll`], or
//! [`PacketSource::peek`](crate::PacketSource::peek) if no packet is queued. Before a rank sleeps,
//! it calls [`Transport::prepare_to_wait`] to learn how.
//!
//! **No room** is a result (`false`), not an error: [`Transport::has_room`] then returns false too,
//! and true again after a poll.
//!
//! **A lost peer** is reported once by [`Transport::take_loss`], and by the errors of everything
//! that is sent to it or under way with it. A rank that has something under way with a lost peer
//! finds out (`watch.rs`), but a rank that only receives does not: it can check by
//! [`Transport::probe`].
//!
//! [`Transport::poll`]: crate::transport::Transport::poll
//! [`Transport::prepare_to_wait`]: crate::transport::Transport::prepare_to_wait
//! [`Transport::has_room`]: crate::transport::Transport::has_room
//! [`Transport::take_loss`]: crate::transport::Transport::take_loss
//! [`Transport::probe`]: crate::transport::Transport::probe

// docs/design/net.md has the measurements behind these choices.

mod bindings;
mod buffers;
pub mod choice;
mod endpoint;
mod inspection;
mod keys;
mod library;
mod messages;
mod offers;
mod operations;
mod options;
mod order;
mod peers;
mod queue_events;
mod registration;
mod remote;
mod token;
mod transport;
mod watch;
#[doc(hidden)]
pub mod wire;

pub use options::NetOptions;
pub use token::JobSecret;

use std::collections::VecDeque;

use crate::Capabilities;
use crate::shm::Packet;
use crate::transport::NetError;
use bindings as fi;
use buffers::{OperationPurpose, RegisteredBuffers, SendPools};
use choice::{ExposureVerdict, ProviderOffer};
use endpoint::Endpoint;
use inspection::PeerInspection;
use library::Libfabric;
use mica_node::counters::Counters;
use offers::ProviderSurvey;
use operations::RmaOperations;
use order::Order;
pub use peers::AddressSource;
use peers::{AddressBook, NetPeer, NetPeers};
use registration::RegistrationCache;

/// Receives posted at a time.
const RECEIVES: u32 = 64;

/// Sends from the channel's buffers that are under way at a time.
const SENDS: u32 = 64;

/// Idle registrations kept in the cache if registration pins nothing.
const REGISTRATIONS: usize = 64;

/// The network channel of one rank.
#[derive(Debug)]
pub struct Net {
    endpoint: Endpoint,
    offer: ProviderOffer,
    capabilities: Capabilities,
    address: Vec<u8>,
    payload_max: usize,
    me: u32,
    kind: wire::NetworkKind,
    peers: NetPeers,
    receives: RegisteredBuffers,
    /// Receive buffers to be posted again.
    unposted: Vec<u32>,
    sends: SendPools,
    /// By buffer: the peer that it was sent to.
    send_to: Vec<u32>,
    free_sends: Vec<u32>,
    /// Longest message, in bytes, that the provider injects (sends without a completion).
    inject_max: usize,
    order: Order<ArrivedPacket>,
    ready: VecDeque<ArrivedPacket>,
    remote: RmaOperations,
    watch: PeerInspection,
    registrations: RegistrationCache<*mut fi::fid_mr>,
    /// Polls of the completion queue so far.
    polls: u64,
    /// Counts dropped arrivals.
    counters: Counters,
}

// SAFETY: the raw pointers are to registrations of the endpoint, which may be moved between threads
// (see `Endpoint`).
unsafe impl Send for Net {}

/// A packet that has arrived.
#[derive(Debug, Clone, Copy)]
struct ArrivedPacket {
    source: u32,
    /// `None`: a blank message, with nothing to deliver; its buffer has been posted again.
    packet: Option<Packet>,
    buffer: u32,
}

/// What the library offers on this machine, for display.
#[derive(Debug, Clone)]
pub struct ProviderOffers {
    /// The library: its version and its file.
    pub library: (String, String),
    /// The offers, with the verdict on each.
    pub offers: Vec<(ProviderOffer, ExposureVerdict)>,
}

impl Net {
    /// The offers to choose from, without opening any of them.
    ///
    /// # Errors
    /// If the library cannot be loaded, or fails.
    pub fn offers(options: &NetOptions) -> Result<ProviderOffers, NetError> {
        let library = Libfabric::load(options.library.as_deref())?;
        let survey = ProviderSurvey::make(&library, &options.wish)?;
        Ok(ProviderOffers {
            library: (library.version(), library.file().to_owned()),
            offers: survey.offers.into_iter().zip(survey.verdicts).collect(),
        })
    }

    /// Loads the library, chooses a provider, and opens an endpoint. The endpoint reaches no peer
    /// before [`connect`](Self::connect).
    ///
    /// # Errors
    /// If there is no library, no offer fits `options`, memory runs out, or the provider fails.
    pub fn open(options: &NetOptions) -> Result<Net, NetError> {
        let library = Libfabric::load(options.library.as_deref())?;
        let survey = ProviderSurvey::make(&library, &options.wish)?;
        let (info, offer) = survey.chosen(&library, &options.wish)?;
        let completions = RECEIVES + SENDS + operations::PARTS;
        let mut endpoint = Endpoint::open(library, info, completions as usize)?;
        let inject_max = endpoint.info.tx().inject_size.min(messages::INJECT);
        // Messages longer than the provider's limit are not passed to it.
        let longest = endpoint.info.ep().max_msg_size;
        let room = longest.saturating_sub(wire::HEAD + crate::shm::INLINE);
        let payload_max = options.payload_max_by(&endpoint.provider).min(room);
        let bytes = payload_max + wire::HEAD + crate::shm::INLINE;
        let receives =
            RegisteredBuffers::new(&endpoint, RECEIVES, bytes, OperationPurpose::Receive)?;
        let sends = SendPools::new(&endpoint, SENDS, bytes)?;
        let remote = RmaOperations::new(&endpoint);
        let own_address = endpoint.name()?;
        let address = wire::WireAddress {
            kind: wire::NetworkKind {
                provider: endpoint.provider.clone(),
                payload_max: payload_max as u32,
                address_len: own_address.len() as u16,
            },
            challenge: endpoint.random()?,
            address: own_address,
        };
        let pins = endpoint.info.mr_mode() & fi::FI_MR_ALLOCATED != 0;
        let mut net = Net {
            capabilities: operations::capabilities(&endpoint),
            address: address.to_bytes(),
            kind: address.kind,
            offer,
            payload_max,
            me: u32::MAX,
            peers: NetPeers::none(),
            unposted: (0..RECEIVES).rev().collect(),
            receives,
            sends,
            send_to: vec![u32::MAX; SENDS as usize],
            free_sends: (0..SENDS).rev().collect(),
            inject_max,
            order: Order::new(0),
            ready: VecDeque::new(),
            remote,
            watch: PeerInspection::new(0),
            registrations: RegistrationCache::new(if pins { 0 } else { REGISTRATIONS }),
            polls: 0,
            counters: Counters::default(),
            endpoint,
        };
        net.post_receives();
        Ok(net)
    }

    /// This rank's address, for [`connect`](Self::connect) on the other ranks. A few dozen bytes.
    pub fn address(&self) -> &[u8] {
        &self.address
    }

    /// What this rank's address must have in common with the others', as bytes.
    pub fn kind(&self) -> Vec<u8> {
        self.kind.to_bytes()
    }

    /// Sets this rank's number `me` and where to find the addresses of the job's ranks. Messages
    /// that do not prove by the job's `secret` that they come from one of them are dropped. Must be
    /// called once; addresses are read and resolved and connections made on first use.
    ///
    /// # Errors
    /// If addresses are not known to be alike, and one cannot be reached by this rank's provider;
    /// the error names the rank.
    pub fn connect(
        &mut self,
        me: u32,
        secret: JobSecret,
        addresses: impl AddressSource + 'static,
    ) -> Result<(), NetError> {
        let ranks = addresses.ranks() as usize;
        let own = wire::WireAddress::from_bytes(&self.address).expect("we wrote it");
        let book = AddressBook::new(me, secret, own, Box::new(addresses));
        // Every receiver's buffers must be large enough.
        self.payload_max = self.payload_max.min(book.payload_max()? as usize);
        self.me = me;
        self.order = Order::new(ranks);
        self.watch = PeerInspection::new(ranks);
        self.peers = NetPeers::new(book);
        Ok(())
    }

    /// The peer that something is about to be sent to or read from. At the first contact its
    /// address is resolved.
    #[inline]
    fn contact(&mut self, peer: u32) -> Result<&mut NetPeer, NetError> {
        if !self.peers.is_resolved(peer) {
            self.resolve(peer)?;
        }
        self.peers.usable(peer)
    }

    #[cold]
    fn resolve(&mut self, peer: u32) -> Result<(), NetError> {
        let address = self.peers.address(peer)?;
        let number = self.endpoint.insert(&address)?;
        self.peers.resolve(peer, number);
        Ok(())
    }

    /// Peers whose addresses were resolved: those that something was sent to or read from.
    pub fn resolved_peers(&self) -> usize {
        self.peers.resolved()
    }

    /// The chosen offer.
    pub fn offer(&self) -> &ProviderOffer {
        &self.offer
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        // Registrations bound to the endpoint are closed first; otherwise the endpoint is closed
        // first, because it may still use them.
        let first = self.endpoint.info.mr_mode() & fi::FI_MR_ENDPOINT != 0;
        if !first && !self.endpoint.close_endpoint() {
            return self.abandon();
        }
        self.registrations.clear(&remote::Register(&self.endpoint));
        self.receives.close(&self.endpoint);
        self.sends.close(&self.endpoint);
        if !self.endpoint.close_endpoint() {
            self.abandon();
        }
    }
}

impl Net {
    /// The provider still holds the memory, so it is never freed.
    #[cold]
    fn abandon(&mut self) {
        self.receives.abandon();
        self.sends.abandon();
        self.remote.abandon();
    }
}
