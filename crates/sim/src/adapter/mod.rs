//! The network adapter: operating-system bypass, no copies, matching by itself (leon-2009 3.1,
//! Table 3.2). The contract with the library's driver is `mica_node::adapter`.
//!
//! [`Adapter`] is a state machine without threads. The node calls it for doorbells and commands,
//! arrived packets and waits, each with its moment, in order of time; it reads and writes the
//! process's memory through [`AdapterHost`], and hands over packets that leave. What completes
//! later is in its agenda: the node calls [`Adapter::advance`] at [`Adapter::next_due`], and at the
//! end of each quantum, so that every packet is handed over in the quantum in which it leaves.
//! Whatever a call changes for the process to see (events, unexpected messages) becomes visible
//! only in `advance`, at its time.
//!
//! Times, from the machine's `[adapter]` and `[network]`: commands and packets go through a
//! pipeline, in order (`command_ns`, `arrival_ns`; how many a second, the `g` of the network's
//! ports says); payload moves by `transfer`; an event follows the end of its operation by
//! `event_ns`. A message up to `eager_max` bytes goes with its payload ([`PacketHeader::Eager`]);
//! a longer one is announced, and pulled once it is matched, so that no payload is ever copied. A
//! message to the own rank takes the same way and `loopback_ns` instead of the network.
//!
//! Order: packets leave in the order in which they were made, and the network keeps the order of
//! each pair of nodes; messages of both kinds are matched in the order of their arrival
//! (`matching`). So no message overtakes another.
//!
//! A command that is not valid completes with `Status::Invalid`, a packet that belongs to nothing
//! is dropped and counted; neither can stop the simulator.

mod agenda;
mod arrivals;
mod engine;
mod host;
mod matching;
mod operations;
mod packet;
pub mod policy;
mod request;
#[cfg(test)]
mod tests;
mod transfer;

pub use engine::{Adapter, AdapterCounts, AdapterSetup};
pub use host::{AdapterHost, InjectionCounts};
pub use packet::{AdapterPacket, PacketHeader};
pub use request::{AdapterRequest, REQUEST_BYTES, RequestCompletion};
