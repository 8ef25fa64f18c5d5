//! One-sided operations by messages: for targets that share no memory with the origin, and as the
//! design to compare with (jiang-2004, 3.2; docs/design/windows.md).
//!
//! The origin sends requests ([`message`]); the target's server ([`server`]) carries them out
//! whenever the target makes progress: in any MPI call, or in the progress thread. Requests of one
//! origin are carried out in the order of their calls, so an answer to a later one says that all
//! before it are done. That is what flush, unlock and fence wait for.
//!
//! | request | answer |
//! |---|---|
//! | put, accumulate without results | none |
//! | get, accumulate with results, compare_and_swap | the bytes |
//! | lock | when the lock is held |
//! | unlock, flush | when all before is done |
//! | post, complete | none |
//! | where attached memory is registered | its key |
//!
//! Put and get go by RMA instead where the network has it and it pays ([`registered`]).
//!
//! An error at the target (memory that is not attached) is kept for the origin, and sent with the
//! next answer.
//!
//! Locks: no state of the engine may be entered while a lock of this module is held. The server
//! takes them inside the engine.

mod keys;
mod lock_queue;
mod message;
mod operation;
mod origin;
mod registered;
mod server;
mod side;

pub(crate) use keys::{OwnRegistrations, RegisteredMemory, TargetKey};
pub(crate) use operation::GrantedLock;
pub use operation::RemoteOperation;
pub(crate) use origin::RemoteAccumulate;
pub(crate) use side::{RemoteParts, RemoteSide};
