//! [`MigrationGate`]: keeps the stores that peers make by address out of a rank's memory while the
//! rank migrates pages of it (docs/design/mapped.md).
//!
//! A page is migrated by copying it and putting the copy in its place; a store to the old page in
//! between is lost. A peer announces each store (`process_vm_writev`) into memory whose exposure
//! does not keep the pages where they are; the owner migrates only while none is announced, and
//! stores that come then wait.
//!
//! One word in the owner's control data: the number of stores in progress, and a bit for the
//! owner's migration.
//!
//! | who | does |
//! |---|---|
//! | peer | counts itself; if the bit is set, withdraws and waits until it is clear |
//! | owner | sets the bit; if the number does not become 0 soon, clears it, and migrates nothing |
//!
//! Neither side needs the other to make progress in MPI: a store is one system call, a migration
//! some. A peer that dies inside a store is counted for ever, so the owner migrates no more.
//!
//! SYNC migration-gate: each side begins by an Acquire that reads what the other has released, and
//! ends by a Release.

#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, not(loom)))]
mod tests;

use crate::sync::{AtomicU32, Ordering, spin_loop, yield_now};

/// The owner migrates pages.
const MIGRATING: u32 = 1 << 31;

/// Polls before the core is given to others. A store of few bytes takes 0.5 us, a migration 30 us
/// and more.
const POLLS: u32 = if cfg!(loom) { 0 } else { 256 };

/// How often the owner gives its core to others before it gives up.
const YIELDS: u32 = if cfg!(loom) { 1 } else { 16 };

/// See the module. Zeroed memory is an open gate.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct MigrationGate(AtomicU32);

/// A store that is announced, until this is dropped.
#[derive(Debug)]
pub struct AnnouncedStore<'a>(&'a MigrationGate);

/// No store is made by address, until this is dropped.
#[derive(Debug)]
pub struct ClosedGate<'a>(&'a MigrationGate);

impl Default for MigrationGate {
    fn default() -> MigrationGate {
        MigrationGate(AtomicU32::new(0))
    }
}

impl MigrationGate {
    /// Announces a store. Blocks while the owner migrates pages.
    pub fn announce_store(&self) -> AnnouncedStore<'_> {
        // SYNC migration-gate: what the owner has moved is seen.
        while self.0.fetch_add(1, Ordering::Acquire) & MIGRATING != 0 {
            // Relaxed, here and below: nothing was stored, and the next round acquires.
            self.0.fetch_sub(1, Ordering::Relaxed);
            let mut polls = 0;
            while self.0.load(Ordering::Relaxed) & MIGRATING != 0 {
                polls += 1;
                if polls > POLLS { yield_now() } else { spin_loop() }
            }
        }
        AnnouncedStore(self)
    }

    /// Closes the gate for the owner, which alone may call this; `None` if a store that is in
    /// progress does not end soon. Blocks for some microseconds at most, unless others need the
    /// core.
    pub fn try_close(&self) -> Option<ClosedGate<'_>> {
        // Relaxed: what matters is read when no store is in progress.
        self.0.fetch_or(MIGRATING, Ordering::Relaxed);
        let closed = ClosedGate(self);
        for poll in 0..=POLLS + YIELDS {
            // SYNC migration-gate: all stores are seen.
            if self.0.load(Ordering::Acquire) == MIGRATING {
                return Some(closed);
            }
            if poll < POLLS { spin_loop() } else { yield_now() }
        }
        None
    }
}

impl Drop for AnnouncedStore<'_> {
    fn drop(&mut self) {
        // SYNC migration-gate
        self.0.0.fetch_sub(1, Ordering::Release);
    }
}

impl Drop for ClosedGate<'_> {
    fn drop(&mut self) {
        // SYNC migration-gate. Peers may be counted that wait.
        self.0.0.fetch_and(!MIGRATING, Ordering::Release);
    }
}
