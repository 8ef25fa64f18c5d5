//! Channels that move bytes to a peer (docs/design/house.md, sections 1 and 4): one folder per
//! channel; no channel depends on another.
//!
//! - [`shm`]: messages through the job segment, two copies and no system call: by rings and cells
//!   (chai-2009, 3.2), or, for comparison, by FIFOs (3.1);
//! - [`direct`]: one copy from the sender's memory to the receiver's, by the kernel or by load and
//!   store (chai-2009, 4, 6.1);
//! - [`offload`]: copy engines, which do the copying while the program computes (chai-2009, 5);
//! - [`net`]: messages and one-sided operations over libfabric, between nodes (chai-2009, 7;
//!   jiang-2004, 2);
//! - [`adapter`]: messages over the adapter of a simulated node, which matches by itself
//!   (leon-2009, 3.1).
//!
//! [`transport`] is the interface that the protocol requires of a network; [`net`] and [`adapter`]
//! implement it. [`mica_memory`] says where a message's bytes lie in this process. The `protocol`
//! crate chooses each message's path.

pub mod adapter;
pub mod direct;
pub mod net;
pub mod offload;
mod own_devices;
pub mod shm;
pub mod transport;

use mica_memory::View;
use mica_node::ring::Packet;

bitflags::bitflags! {
    /// What a channel can do.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct Capabilities: u32 {
        /// Carries packets in order to a peer, so it can carry a whole message.
        const MESSAGES = 1;
        /// Reads a peer's registered memory without the peer's program: [`RemoteMemory::get`].
        const READ = 1 << 1;
        /// Writes a peer's registered memory without the peer's program: [`RemoteMemory::put`].
        const WRITE = 1 << 2;
        /// Atomic operations on a peer's registered memory. Nothing uses them: they do not exclude
        /// the processor's. They tell providers apart.
        const ATOMICS = 1 << 3;
    }
}

/// A channel that delivers messages, as polling sees it: several such channels can be polled in
/// turn (chai-2009, 7.1).
pub trait PacketSource {
    /// Polls once: returns the next packet and its sender. Does not block. The packet stays until
    /// it is consumed.
    fn peek(&mut self) -> Option<(u32, Packet)>;
    /// True when [`PacketSource::peek`] would find something. For the last check before parking.
    fn has_arrivals(&mut self) -> bool;
}

/// Memory of a peer that it has [registered](RemoteMemory::register), as its peers must name it.
/// The owner sends it to them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RemoteRegion {
    /// The registration.
    pub key: u64,
    /// Address of the first byte. To name a later byte, add its offset.
    pub address: u64,
}

/// A channel that accesses a peer's memory without the peer's program: the base of MPI windows
/// (jiang-2004, 2; MPI 5.0, 12).
///
/// Every operation takes a token, does not block, and returns true.
/// [`next_completion`](transport::Transport::next_completion) later returns its completion, once
/// for each token,
/// after the channel has been polled ([`PacketSource::peek`]). An operation returns false, and has
/// done nothing, when there is no room for it now: poll and try again. Operations on one peer may
/// be carried out in any order.
///
/// Where the peer's processor has to take part (tcp), it does so whenever the peer polls its
/// channel.
pub trait RemoteMemory {
    /// Registers this process's `len` bytes at `address` for peers to read and write.
    ///
    /// The memory must stay mapped until [`unregister`](Self::unregister).
    ///
    /// # Errors
    /// When the provider refuses.
    fn register(&mut self, address: usize, len: usize) -> Result<RemoteRegion, ChannelError>;
    /// Releases a registration. Peers must have completed all operations on it.
    fn unregister(&mut self, region: RemoteRegion);
    /// Copies the first `len` bytes of `view`, which lies in one piece, to `peer`'s memory from
    /// `to` on. At its completion the bytes are visible to the peer.
    ///
    /// # Errors
    /// When the peer is lost, or this cannot be done at all.
    fn put(
        &mut self,
        peer: u32,
        to: RemoteRegion,
        view: &View,
        len: usize,
        token: u64,
    ) -> Result<bool, ChannelError>;
    /// Copies `len` bytes of `peer`'s memory from `from` on to the start of `view`, which lies in
    /// one piece.
    ///
    /// # Errors
    /// As for [`put`](Self::put).
    fn get(
        &mut self,
        peer: u32,
        from: RemoteRegion,
        view: &View,
        len: usize,
        token: u64,
    ) -> Result<bool, ChannelError>;
}

/// A channel could not carry out an operation.
#[derive(Debug, thiserror::Error)]
pub enum ChannelError {
    /// The job segment cannot grow by the memory that a new pair or pool needs.
    #[error(transparent)]
    Segment(#[from] mica_node::segment::SegmentError),
    /// The network failed, or a peer is lost.
    #[error(transparent)]
    Net(#[from] transport::NetError),
    /// A peer's memory could not be reached.
    #[error(transparent)]
    Direct(#[from] direct::PeerAccessError),
}
