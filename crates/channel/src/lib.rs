//! Ways to move bytes to a peer (DESIGN.md, sections 1 and 4): one folder a channel, none knows another.
//!
//! - [`shm`]: messages through the job segment, two copies and no system call: by rings and cells (chai-2009, 3.2), or
//!   by FIFOs to compare with (3.1);
//! - [`direct`]: one copy from the sender's memory to the receiver's, by the kernel or by load and store (chai-2009, 4, 6.1);
//! - [`offload`]: copy engines, which do the copying while the program computes (chai-2009, 5).
//!
//! [`memory`] says where a message's bytes lie in this process. What goes which way is the `protocol` crate's choice.

pub mod direct;
pub mod memory;
pub mod offload;
pub mod shm;

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
    }
}

/// What a copy engine costs, as far as it is known without calibration. (What the ways of a message cost is `mica_policy`'s.)
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cost {
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

/// A channel that brings messages: what polling asks of it, so that several can be looked at in turn (chai-2009, 7.1).
pub trait Messages {
    /// One look: the next packet and who sent it. Does not block. The packet stays until it is consumed.
    fn peek(&mut self) -> Option<(u32, Packet)>;
    /// True when [`Messages::peek`] would find something. For the last look before parking.
    fn has_arrivals(&self) -> bool;
}

/// A channel could not do what it was asked to.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChannelError {
    /// The job segment cannot grow by what a new pair or pool needs.
    #[error(transparent)]
    Segment(#[from] mica_node::segment::SegmentError),
}
