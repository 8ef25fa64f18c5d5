//! The driver of the adapter of a simulated node (leon-2009, 3.1): operating-system bypass, no
//! copies, matching in the adapter. `mica_node::adapter` has the layout of its memory and the
//! contract, docs/design/sim.md the whole.
//!
//! - [`AdapterQueue`]: commands, the doorbell, and events in order;
//! - [`AdapterTransport`]: the messages of MPI, which the adapter matches, and packets, which are
//!   messages of a context of their own;
//! - `fake` (tests): an adapter in the same process that matches by plain lists.
//!
//! Called by the protocol as any [`Transport`](crate::transport::Transport). One thread at a time
//! uses it, under the engine's lock. No call enters the kernel, and none reads a clock: what the
//! emulator does not simulate must not count.

#[cfg(any(test, feature = "fake-adapter"))]
pub mod fake;
mod packets;
mod queue;
mod registers;
#[cfg(test)]
mod tests;
mod transport;

pub use queue::{AdapterCommand, AdapterEvent, AdapterQueue};
pub use registers::{AdapterRegisters, MappedRegisters};
pub use transport::AdapterTransport;
