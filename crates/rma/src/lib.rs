//! Windows and one-sided communication (MPI 5.0, chapter 12; jiang-2004;
//! docs/design/windows.md).
//!
//! | room | what |
//! |---|---|
//! | [`operations`] | put, get, accumulate and their kin; the fast path to mapped memory |
//! | [`synchronization`] | fence, post and start; lock, flush and unlock; who may be accessed now |
//! | [`window`] | the window and its handle; the calls that make and free it; what it carries |
//! | [`epoch`] | what the program has opened |
//! | [`remote`] | operations by messages, where ranks share no memory |
//! | [`memory`] | where each rank's memory lies, how it is accessed, what may move or be attached |
//!
//! Each room uses those below it.
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

mod epoch;
mod memory;
mod operations;
mod remote;
mod synchronization;
mod window;

pub use memory::target::TargetRange;
pub use operations::accumulate::{
    AccumulateOperands, SingleElement, accumulate, compare_and_swap, fetch_and_op,
};
pub use operations::fast_path;
pub use operations::transfer::{get, put, rget, rput};
pub use remote::RemoteOperation;
pub use synchronization::admission::NeededEpoch;
pub use synchronization::passive::FlushedSide;
pub use window::attach::{attach, detach};
pub use window::counts::WindowCountsBlock;
pub use window::create::WindowSpec;
pub use window::object::{PredefinedAttributes, Window, elide_table_lock, share_table, with};
