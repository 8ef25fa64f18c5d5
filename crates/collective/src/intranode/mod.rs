//! Collectives among ranks of one node, in memory that they share.
//!
//! A collective is described once ([`CollectiveOperation`]). The description yields either the
//! schedule of a message-based algorithm ([`CollectiveOperation::messages`]), or a
//! [`NodeCall`](call::NodeCall) on the shared area of the communicator's ranks on this node. Such a
//! call copies through cells ([`cells`], [`reduce::cells`]) or directly from buffer to buffer
//! ([`direct`], [`reduce::direct`]; ma-2011). `mica_policy` chooses from what all ranks know alike.
//!
//! Each algorithm on an area is one `async` function that waits for stamps of other ranks and does
//! not know who polls it. A blocking call polls it until it ends; for a non-blocking or persistent
//! call, the engine polls it in every progress iteration; for a short one without gaps, its waits
//! spin ([`fast_path`]). Tests poll all ranks of a node group in one thread, in any order.

pub mod begun_barrier;
mod by_messages;
pub mod call;
pub mod cells;
pub mod choice;
pub mod direct;
pub mod dispatch;
pub mod fast_path;
mod operation;
pub mod protocol;
pub mod reduce;
mod run;

pub use cells::parts::Parts;
pub use choice::plan::CollectivePlan;
pub use operation::CollectiveOperation;
