//! Memory of this process as messages see it: where bytes lie and in which order they travel.
//!
//! A [`Region`] is a place in memory (the caller's, or a [`Block`] of our own, or of a peer's that is mapped here, which lives as
//! long as somebody uses it).
//! A [`View`] is a region with a [`Shape`]: the bytes of a message in their order. All other layers name memory by
//! these two types; only this module turns them into loads and stores.
//!
//! The one unsafe door is [`Region::user`]: whoever opens it (the `abi` layer, on behalf of the MPI caller) promises
//! for the region, and for every region and view derived from it by `offset` and `view`, that all bytes which an
//! operation covers are readable, and writable where it receives, until that operation completes (MPI 5.0, 3.4, 3.7.2).

mod heap;
mod layout;
mod region;
mod view;

pub use heap::give_back;
pub use layout::{Layout, LayoutError};
pub use region::{At, Block, OutOfMemory, Region, combine, copy_bytes, fill};
pub use view::{Run, Runs, Shape, View};
