//! Shared-memory primitives: what ranks of a node share words by without a lock of the kernel's.
//!
//! Each folder is one primitive, on storage that the caller provides, so that `model.rs` can run it
//! under loom on the heap; `sync` and `futex` are what they stand on, and change with `cfg(loom)`.
//! Types are `repr(C)`, hold no pointer, keep apart on cache lines what different ranks write, and
//! are empty when zeroed, as a new file is. The head of each says who writes what, and which
//! Release pairs with which Acquire.
//!
//! - from one rank to another: [`ring`] and [`fifo`](baselines::fifo) (bytes in order), [`cells`]
//!   (a sender's pool), [`doorbell`] (which peers have sent);
//! - a copy by several: [`chunk_queue`], [`cooperative`], [`helper_slots`], [`migration_gate`];
//! - waiting and excluding: [`park`], [`lock`] (threads of a rank), [`fork_lock`].

pub mod baselines;
pub mod cells;
pub mod chunk_queue;
pub mod cooperative;
pub mod doorbell;
pub mod fork_lock;
pub mod futex;
pub mod helper_slots;
pub(crate) mod hint;
pub mod lock;
pub mod migration_gate;
pub mod park;
pub mod ring;
pub mod sync;
