//! Memory of this process as messages see it: where bytes lie and in which order they travel.
//!
//! A [`Region`] is a place in memory: the caller's, or in a [`Block`] of the library's or a mapped
//! peer's memory, which lives as long as it is in use. A [`View`] is a region with a [`Shape`]: the
//! bytes of a message in their order. All other layers name memory by these two types; only this
//! module turns them into loads and stores.
//!
//! A region has bounds and a view has its shape, and no access leaves them: safe code cannot reach
//! other memory.
//!
//! The caller's memory comes in by [`Region::user`] and [`View::user`] only, which are unsafe: the
//! `abi` layer, on behalf of the MPI caller, states the bounds or the shape, from the call's counts
//! and datatypes, and promises that the bytes which the operation covers are readable, and writable
//! where it receives, until that operation completes (MPI 5.0, 3.4, 3.7.2).

mod atomic;
mod bytes;
mod heap;
mod layout;
mod lists;
mod nesting;
mod region;
mod vectors;
mod view;
mod wide_atomic;

pub use atomic::AtomicWidth;
pub use bytes::FEW_BYTES;
pub use heap::give_back;
pub use layout::{LayoutGroup, TypeLayout, TypeLayoutError};
pub use lists::{try_collect, try_collect_valid, try_concat, try_push, try_with_capacity};
pub use nesting::{NestedNode, RECURSION_MAX, drop_parts};
pub use region::{Block, OutOfMemory, Region, RegionRef, combine, copy_bytes, fill};
pub use vectors::combine_elements;
pub use view::{ByteRun, ByteRuns, Shape, View};
