//! Windows and one-sided communication (MPI 5.0, chapter 12; jiang-2004;
//! docs/design/windows.md).
//!
//! | file | what |
//! |---|---|
//! | `object` | the window, its handle, its cache |
//! | `create`, `registration`, `choice` | the collective calls that make and free windows |
//! | `target`, `place` | where the memory of each rank lies, and how this rank accesses it |
//! | `attach`, `attached` | memory that dynamic windows get and lose later |
//! | `attachment_list`, `attachment_table` | what is attached here, and at a peer |
//! | `movable` | memory of the program, which is migrated once origins use it often |
//! | `epoch`, `access`, `admission` | what the program has opened; who may be accessed now |
//! | `active`, `passive` | fence, post and start; lock, flush and unlock |
//! | `fast_path` | operations on mapped memory, where one thread at a time enters |
//! | `transfer` | put and get |
//! | `accumulate`, `element` | accumulate and its kin |
//! | `help` | long transfers that the target helps with |
//! | `remote` | the same by messages, where ranks share no memory |
//! | `counts` | where a window counts its operations |
//! | `properties` | name, info, attributes, error handler, group |
//!
//! An operation on a target of this node is complete when its call returns: it loads and stores the
//! target's memory, or lets the kernel copy where it must. So request forms return a request that
//! is complete, and a flush only orders memory. The synchronization calls order the operations of
//! different ranks, by the locks and counts that the window's ranks share
//! ([`mica_node::window`]); none of them needs the target to call MPI.
//!
//! Operations on other targets are requests that the target carries out when it makes progress
//! (`remote`).
//!
//! Locks: the engine's comes before that of the epochs, since a thread that waits polls the epochs
//! inside the engine. So the engine is never entered while the epochs are locked.
//!
//! A window has its own [`Members`](mica_collective::members::Members): its traffic meets no other,
//! and a fence is a barrier of them.
#![forbid(unsafe_code)]

mod access;
mod accumulate;
mod active;
mod admission;
mod attach;
mod attached;
mod attachment_list;
mod attachment_table;
mod choice;
mod counts;
mod create;
mod element;
mod epoch;
pub mod fast_path;
mod help;
mod movable;
mod node_peers;
mod object;
mod passive;
mod place;
mod properties;
mod registration;
mod remote;
mod target;
mod transfer;

pub use accumulate::{
    AccumulateOperands, SingleElement, accumulate, compare_and_swap, fetch_and_op,
};
pub use admission::NeededEpoch;
pub use attach::{attach, detach};
pub use counts::WindowCountsBlock;
pub use create::WindowSpec;
pub use object::{PredefinedAttributes, Window, elide_table_lock, share_table, with};
pub use passive::FlushedSide;
pub use remote::RemoteOperation;
pub use target::TargetRange;
pub use transfer::{get, put, rget, rput};
