//! A network as the protocol layer sees it: packets between ranks, reads of a peer's memory, and
//! how to wait for both.
//!
//! `mica_protocol` uses only these operations of a network, so any implementation of [`Transport`]
//! can carry a job's messages: [`Net`](crate::net::Net) over libfabric, or the scripted transport
//! of the protocol's own tests, which delivers packets in any order that MPI allows.
//!
//! The contract, on which the protocol relies (what has a default is for transports that do not
//! read peers' memory, lose no peer, or have nothing to wait for):
//!
//! - **Order.** Packets from one rank to another arrive in the order in which they were sent,
//!   whatever their lengths. Packets of different pairs are independent.
//! - **Nothing blocks.** An operation for which there is no room returns `false` and has done
//!   nothing; try again after a [`poll`](Transport::poll). Progress is made only by `poll`, and by
//!   [`PacketSource::peek`], which polls when no packet is queued.
//! - **A packet stays** where it is, with its payload, from the poll that found it until it is
//!   [consumed](Transport::consume). Packets are consumed in the order in which `peek` returns
//!   them.
//! - **Reads.** Each read that was started completes once, by
//!   [`next_completion`](Transport::next_completion). A read that fails may have copied some of its
//!   bytes.
//! - **Loss.** A peer that is lost is reported once by [`take_loss`](Transport::take_loss). All
//!   that is sent to it fails with [`NetError::Lost`], and all reads from it complete with that
//!   error. What it sent before may still arrive.
//!
//! The calls are dynamic: a packet over a network costs microseconds, a call through a table a
//! nanosecond. The shared memory of the job's own segment is not a `Transport`; it is called
//! directly.
//!
//! A transport does not match: envelopes are bytes of a packet. An adapter that does the matching
//! has further operations, in a trait of their own that its `Transport` hands out
//! ([`MatchingAdapter`]).

mod error;
mod matching;

pub use error::{LostPeer, NetError};
pub use matching::{
    MatchCompletion, MatchKey, MatchOperation, MatchOutcome, MatchingAdapter, TOKENS,
};

use std::fmt::Debug;
use std::os::fd::RawFd;
use std::time::Duration;

use crate::{Capabilities, ChannelError, PacketSource, RemoteMemory, RemoteRegion};
use mica_memory::View;
use mica_node::counters::{Counters, TrafficClass};
use mica_node::ring::Packet;

/// How a rank may wait for a transport.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitMode {
    /// Do not wait: a poll will find something.
    Ready,
    /// Wait until this descriptor is readable, or [`Transport::wait_at_most`] has passed. The
    /// descriptor may be readable without reason; poll and ask again each time.
    Descriptor(RawFd),
    /// There is nothing to wait on, but work will be due soon: poll again after a short time.
    Poll,
    /// There is nothing to wait on: peers wake this rank at its parking spot.
    WakeUp,
}

/// The completion of an operation that was started with a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransportCompletion {
    /// The operation's token.
    pub token: u64,
    /// Why the operation failed, if it did. Part of the bytes may have been copied by then.
    pub result: Result<(), NetError>,
}

/// Memory of this process that a peer may read. The owner must [give it back](Transport::conceal).
#[derive(Debug, PartialEq, Eq)]
pub struct ReadableRegion {
    /// The registration, as the peer must name it.
    pub key: u64,
    /// Its first byte, as the peer must name it.
    pub address: u64,
    /// The transport's name for this use of the registration; `None` for no bytes.
    id: Option<u64>,
}

impl ReadableRegion {
    /// Memory that peers know as `region`. `id` is the transport's own name for this use of it,
    /// `None` if there are no bytes.
    pub const fn new(region: RemoteRegion, id: Option<u64>) -> ReadableRegion {
        ReadableRegion { key: region.key, address: region.address, id }
    }

    /// The transport's own name for this use of the memory.
    pub fn id(&self) -> Option<u64> {
        self.id
    }
}

/// The memory as peers name it.
impl From<&ReadableRegion> for RemoteRegion {
    fn from(exposed: &ReadableRegion) -> RemoteRegion {
        RemoteRegion { key: exposed.key, address: exposed.address }
    }
}

/// A network that carries a job's packets. The module documentation has the contract.
pub trait Transport: PacketSource + Debug + Send {
    /// Short name, as in tables and environment variables.
    fn name(&self) -> &'static str;

    /// What the channel can do.
    fn capabilities(&self) -> Capabilities;

    /// Whether `peer` is reached by this transport. Does not change after the job's start.
    fn reaches(&self, peer: u32) -> bool;

    /// Largest payload of a packet in bytes, the same for all peers.
    fn payload_max(&self) -> usize;

    /// How messages that it carries in packets are counted.
    fn traffic_class(&self) -> TrafficClass {
        TrafficClass::Net
    }

    /// Whether peers' memory can be read: then long messages need no copies.
    fn can_read(&self) -> bool {
        self.capabilities().contains(Capabilities::READ)
    }

    /// Sends `packet`; its `payload` bytes are those of `view` from `position` on. The caller may
    /// reuse the bytes when this returns. False when there is no room.
    ///
    /// # Errors
    /// When the peer is lost or was never reached, or the payload is longer than
    /// [`payload_max`](Self::payload_max) or than `view`.
    fn send(
        &mut self,
        peer: u32,
        packet: &Packet,
        view: Option<&View>,
        position: usize,
    ) -> Result<bool, ChannelError>;

    /// False when a packet with `payload` bytes beside its header would certainly not be accepted
    /// now. True also for a lost peer, so that the caller sends and gets the error.
    fn has_room(&mut self, peer: u32, payload: usize) -> bool;

    /// Makes progress: takes in arrived packets and completed operations.
    fn poll(&mut self);

    /// The next of the packets that earlier polls have found.
    fn peek_found(&self) -> Option<(u32, Packet)>;

    /// Number of packets that polls have found and that are not consumed.
    fn waiting(&self) -> usize;

    /// Calls `f` with the packets of `source` that polls have found and that are not consumed, in
    /// order.
    fn for_each_waiting(&self, source: u32, f: &mut dyn FnMut(&Packet));

    /// Copies payload bytes of `packet`, the one just peeked from `source`, to `view` from
    /// `position` on; as many as the view has room for. Returns how many.
    fn read_payload(&self, source: u32, packet: &Packet, view: &View, position: usize) -> usize;

    /// Removes `packet`, the one just peeked from `source`.
    fn consume(&mut self, source: u32, packet: &Packet);

    /// True when all packets that were sent have left this process, or their receivers are lost.
    /// Polls once.
    fn is_drained(&mut self) -> bool;

    /// Lets peers read this process's `len` bytes at `address`, which must stay mapped and
    /// unchanged until the peer is done and they are given back by [`conceal`](Self::conceal).
    ///
    /// # Errors
    /// When the memory cannot be registered, or the transport cannot read.
    fn expose(&mut self, _address: usize, _len: usize) -> Result<ReadableRegion, ChannelError> {
        Err(cannot_read(self.name()))
    }

    /// Gives exposed memory back. The peer must have completed its reads.
    fn conceal(&mut self, _exposed: ReadableRegion) {}

    /// Starts to read `len` bytes of `peer`'s exposed memory from `from` on to the start of `view`,
    /// which is contiguous. False when there is no room.
    ///
    /// # Errors
    /// When the peer is lost, the transport cannot read, or `view` is shorter than `len` or
    /// scattered.
    fn start_read(
        &mut self,
        _peer: u32,
        _from: RemoteRegion,
        _view: &View,
        _len: usize,
        _token: u64,
    ) -> Result<bool, ChannelError> {
        Err(cannot_read(self.name()))
    }

    /// Its operations on memory that peers have registered, if it has puts and gets.
    fn remote_memory(&mut self) -> Option<&mut dyn RemoteMemory> {
        None
    }

    /// The adapter's own matching, if it does that: then the messages of the job go there, and
    /// packets carry the rest.
    fn matching(&mut self) -> Option<&mut dyn MatchingAdapter> {
        None
    }

    /// The next operation that has completed, reads and those of [`RemoteMemory`]. Does not poll.
    fn next_completion(&mut self) -> Option<TransportCompletion> {
        None
    }

    /// What the transport has counted since it was opened, in those [counters](mica_node::counters)
    /// that only a transport counts.
    fn counters(&self) -> Counters {
        Counters::default()
    }

    /// The next peer that was found to be lost; each is returned once.
    fn take_loss(&mut self) -> Option<LostPeer> {
        None
    }

    /// How to wait until there is something to do. The caller must have taken all packets and
    /// completions before.
    fn prepare_to_wait(&mut self) -> WaitMode;

    /// The longest time to wait for a descriptor. `None`: for as long as it takes.
    fn wait_at_most(&self) -> Option<Duration> {
        None
    }

    /// Checks whether `peer` is still alive, by a message that its MPI layer does not see: if the
    /// peer is lost, a later poll reports it. For a rank that has waited long for a message of
    /// `peer`.
    ///
    /// # Errors
    /// When it is already known to be lost, or was never reached.
    fn probe(&mut self, peer: u32) -> Result<(), ChannelError>;
}

/// Nothing asks a transport without [`Capabilities::READ`] to read.
fn cannot_read(transport: &str) -> ChannelError {
    ChannelError::Net(NetError::Unsupported {
        operation: "read of a peer's memory",
        provider: transport.to_owned(),
    })
}
