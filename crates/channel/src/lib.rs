//! Ways to move bytes to a peer (DESIGN.md, sections 1 and 4): one folder a channel, none knows
//! another.
//!
//! - [`shm`]: messages through the job segment, two copies and no system call: by rings and cells
//!   (chai-2009, 3.2), or by FIFOs to compare with (3.1);
//! - [`direct`]: one copy from the sender's memory to the receiver's, by the kernel or by load and
//!   store (chai-2009, 4, 6.1);
//! - [`offload`]: copy engines, which do the copying while the program computes (chai-2009, 5);
//! - [`net`]: messages and one-sided operations over libfabric, between nodes (chai-2009, 7;
//!   jiang-2004, 2).
//!
//! [`transport`] is what the protocol asks of a network; [`net`] implements it. [`area`] is the
//! memory that the members of a communicator share on a node, for collectives that move bytes
//! through it. [`memory`] says where a message's bytes lie in this process. What goes which way is
//! the `protocol` crate's choice.

pub mod area;
pub mod direct;
pub mod memory;
pub mod net;
pub mod offload;
pub mod shm;
pub mod transport;

use memory::View;
use shm::Packet;

bitflags::bitflags! {
    /// What a channel can do.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct Capabilities: u32 {
        /// Carries packets in order to a peer: can bring a message of its own.
        const MESSAGES = 1;
        /// Reads a peer's memory once its address is known.
        const PULL = 1 << 1;
        /// Needs no system call to move bytes.
        const USER_SPACE = 1 << 2;
        /// Takes the sender's non-contiguous layout as it is.
        const SCATTERED = 1 << 3;
        /// Maps a peer's memory, once it is exposed, so that both load and store there.
        const LOAD_STORE = 1 << 4;
        /// Reads a peer's registered memory without the peer's program: [`RemoteMemory::get`].
        const READ = 1 << 5;
        /// Writes a peer's registered memory without the peer's program: [`RemoteMemory::put`].
        const WRITE = 1 << 6;
        /// [`RemoteMemory::fetch_add`] on 8 bytes.
        const ATOMIC_ADD = 1 << 7;
        /// [`RemoteMemory::compare_swap`] on 8 bytes.
        const ATOMIC_CAS = 1 << 8;
        /// [`RemoteMemory::swap`] on 8 bytes.
        const ATOMIC_SWAP = 1 << 9;
        /// The atomic operations that it has work on 4 bytes as well.
        const ATOMIC_4 = 1 << 10;
    }
}

/// What a copy engine costs, as far as it is known without calibration. (What the ways of a message
/// cost is `mica_policy`'s.)
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EngineCost {
    /// Nanoseconds to start a transfer.
    pub start_ns: f64,
    /// Nanoseconds for each byte.
    pub byte_ns: f64,
    /// Copies that the bytes make on their way.
    pub copies: u32,
}

/// What every channel says of itself.
pub trait Channel {
    /// Short name, as in tables and environment variables.
    fn name(&self) -> &'static str;
    /// What it can do.
    fn capabilities(&self) -> Capabilities;
}

/// A channel that brings messages: what polling asks of it, so that several can be looked at in
/// turn (chai-2009, 7.1).
pub trait PacketSource {
    /// One look: the next packet and who sent it. Does not block. The packet stays until it is
    /// consumed.
    fn peek(&mut self) -> Option<(u32, Packet)>;
    /// True when [`PacketSource::peek`] would find something. For the last look before parking.
    fn has_arrivals(&mut self) -> bool;
}

/// Bytes of a word that an atomic operation works on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Width {
    /// 4 bytes; the upper half of the operands and of the result is 0.
    Four,
    /// 8 bytes.
    Eight,
}

/// Memory of a peer that it has [registered](RemoteMemory::register), as its peers must name it. To
/// be sent to them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RemoteRegion {
    /// The registration.
    pub key: u64,
    /// Its first byte. Bytes further on are named by what is added to it.
    pub address: u64,
}

/// A channel that works on a peer's memory without the peer's program: what windows are made of
/// (jiang-2004, 2; MPI 5.0, 12).
///
/// Every operation takes a token, does not block, and answers true; its end comes later by
/// [`next_completion`](Self::next_completion), once for each token, after looks at the channel
/// ([`PacketSource::peek`]). It answers false, and has done nothing, when there is no room for it
/// now: try again after a look. Operations on one peer may be carried out in any order;
/// [`flush`](Self::flush) separates them. [`Channel::capabilities`] says which of them there are:
/// the others are errors that say so.
///
/// The atomic operations are atomic towards each other, through this channel; not towards loads and
/// stores of the memory's owner.
///
/// Where the peer's processor has to take part (tcp), it does so whenever the peer looks at its
/// channel.
pub trait RemoteMemory {
    /// Registers this process's `len` bytes at `address` for peers to read, write and work on
    /// atomically.
    ///
    /// The memory must stay mapped until [`unregister`](Self::unregister).
    ///
    /// # Errors
    /// When the provider refuses.
    fn register(&mut self, address: usize, len: usize) -> Result<RemoteRegion, ChannelError>;
    /// Gives a registration back. Peers must have done with it.
    fn unregister(&mut self, region: RemoteRegion);
    /// Copies the first `len` bytes of `view`, which lies in one piece, to `peer`'s memory from
    /// `to` on. At its end the bytes are there, for the peer to see.
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
    /// As of [`put`](Self::put).
    fn get(
        &mut self,
        peer: u32,
        from: RemoteRegion,
        view: &View,
        len: usize,
        token: u64,
    ) -> Result<bool, ChannelError>;
    /// Adds `value` to the word at `at`, wrapping; the end has the word's value from before.
    ///
    /// # Errors
    /// As of [`put`](Self::put).
    fn fetch_add(
        &mut self,
        peer: u32,
        at: RemoteRegion,
        width: Width,
        value: u64,
        token: u64,
    ) -> Result<bool, ChannelError>;
    /// Sets the word at `at` to `value` if it is `expected`; the end has the word's value from
    /// before.
    ///
    /// # Errors
    /// As of [`put`](Self::put).
    fn compare_swap(
        &mut self,
        peer: u32,
        at: RemoteRegion,
        width: Width,
        expected: u64,
        value: u64,
        token: u64,
    ) -> Result<bool, ChannelError>;
    /// Sets the word at `at` to `value`; the end has the word's value from before.
    ///
    /// # Errors
    /// As of [`put`](Self::put).
    fn swap(
        &mut self,
        peer: u32,
        at: RemoteRegion,
        width: Width,
        value: u64,
        token: u64,
    ) -> Result<bool, ChannelError>;
    /// Ends when all operations on `peer` that were started before have ended, in the peer's memory
    /// too.
    fn flush(&mut self, peer: u32, token: u64);
    /// The next operation that has ended. Does not look at the channel.
    fn next_completion(&mut self) -> Option<transport::TransportCompletion>;
}

/// A channel could not do what it was asked to.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChannelError {
    /// The job segment cannot grow by what a new pair or pool needs.
    #[error(transparent)]
    Segment(#[from] mica_node::segment::SegmentError),
    /// The network failed, or a peer is lost.
    #[error(transparent)]
    Net(#[from] net::NetError),
    /// A peer's memory could not be reached.
    #[error(transparent)]
    Direct(#[from] direct::PeerAccessError),
}
