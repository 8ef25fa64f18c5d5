//! What one-sided communication shares on a node: the lock of a window's target, the counts of
//! post and complete, and what keeps accumulates atomic
//! (jiang-2004, 3.3.3 and chapter 4; MPI 5.0, chapter 12).
//!
//! | part | synchronizes | MPI calls |
//! |---|---|---|
//! | [`WindowLock`] | origins among each other, at one target | lock, unlock, lock_all |
//! | [`ExposureBoard`] | origins and targets, pair by pair | post, start, complete, wait, test |
//! | [`AccumulateGate`] | accumulates on one target, for microseconds | accumulate and its kin |
//!
//! All of it lies in memory that the caller provides and that the ranks of the node share
//! ([`SharedWindow`]); [`WindowControl`] says where in it. Zeroed memory is a lock that is free and
//! a board on which nothing has been posted. Ranks are named by their number in the node, from 0;
//! shared words hold the number plus 1, so that 0 is "none".
//!
//! The two that a rank may wait for at length never sleep by themselves: the caller's wait loop
//! polls them between its other work, and parks where it parks for messages. Who makes a rank's
//! wait end passes its number to the caller's `wake`, after publishing and once each, and `wake`
//! fences and reads the rank's [`ParkingSpot`](crate::park::ParkingSpot): its protocol loses no
//! wake-up.

mod accumulate_gate;
mod accumulate_lock;
mod control;
mod exposure;
#[cfg(all(test, not(loom)))]
mod forked;
mod lock;
mod memory;
mod placement;
mod shared;

pub use accumulate_gate::{AccumulateGate, BriefUpdate, BulkUpdate, OwnGate, SoleUpdate};
pub use accumulate_lock::{AccumulateGuard, AccumulateLock};
pub use control::WindowControl;
pub use exposure::{
    BUFFERED_PUT, BufferedPut, CompletionLine, EpochCounts, ExposureBoard, PostLine,
};
pub use lock::ticket::LockTicket;
pub use lock::words::{LockMode, OriginLine, TargetLine};
pub use lock::{LockDesign, OwnLock, TurnOrder, WaitersLeft, WindowLock};
pub use memory::PartUser;
pub use placement::PlacementLine;
pub use shared::{OwnCounts, OwnLocks, SharedWindow, WindowLocks};
