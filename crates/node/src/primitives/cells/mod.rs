//! `CellPool`: the send buffer pool SBP of chai-2009, 3.2, with mark-and-sweep.
//!
//! Every rank owns a pool of cells. The owner loads a free cell with data and sends its index to a
//! receiver in a control message; the receiver copies the data out and *marks* the cell free; the
//! owner *sweeps* marked cells back into its private free list when that runs low. So each mark has
//! one writer at a time and no list is shared.
//!
//! | who | writes |
//! |---|---|
//! | owner | the bytes of a free cell; the mark `BUSY`, before it announces the cell |
//! | receiver | the mark `FREE` (Release), once, after its last read |

#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, not(loom)))]
mod tests;

use crate::peer_table::PeerTable;
use crate::sync::{AtomicU32, Ordering};
use std::ops::Deref;

const FREE: u32 = 0;
const BUSY: u32 = 1;

/// The shared marks of a pool's cells; the cells' bytes lie elsewhere and are ordered by these
/// marks and by the ring that announces them.
#[derive(Debug)]
#[repr(transparent)]
pub struct Marks<M>(M);

impl<M: Deref<Target = [AtomicU32]>> Marks<M> {
    /// The marks of a pool, one for each cell, initially zero.
    pub fn new(marks: M) -> Marks<M> {
        Marks(marks)
    }

    /// For the receiver: it has finished reading cell `index`.
    #[inline]
    pub fn free(&self, index: u16) {
        // SYNC cell-mark: pairs with the Acquire load in CellPool::sweep; the reads of the cell
        // happened before.
        self.0[usize::from(index)].store(FREE, Ordering::Release);
    }
}

/// The owner's side of a pool.
#[derive(Debug)]
pub struct CellPool<M> {
    marks: M,
    /// Free cells that were used before. Last in, first out: the cell used last is most likely
    /// still in a cache.
    free: Vec<u16>,
    /// The first of the cells that were never used. They cost memory, so they are taken last.
    fresh: usize,
    /// The number of cells that may come into use before the pool checks for returned ones.
    ready: usize,
    /// Cells that are handed out and not yet swept, with their receiver; oldest first.
    out: Vec<(u16, u32)>,
    /// How many cells each receiver holds.
    held: PeerTable<u16>,
}

impl<M: Deref<Target = [AtomicU32]>> CellPool<M> {
    /// The owner's view of a pool whose cells are all free. The first `ready` cells come into use
    /// without a check for returned ones: a check moves a cache line between cores.
    pub fn new(marks: M, ready: usize) -> CellPool<M> {
        let cells = marks.len();
        CellPool {
            marks,
            free: Vec::with_capacity(cells),
            fresh: 0,
            ready,
            out: Vec::with_capacity(cells),
            held: PeerTable::default(),
        }
    }

    /// Cells in the pool.
    pub fn capacity(&self) -> usize {
        self.marks.len()
    }

    /// True when [`CellPool::take`] would find a cell. Sweeps when no cell is at hand.
    pub fn can_take(&mut self, receiver: u32, limit: usize) -> bool {
        let allowed = |pool: &Self| usize::from(pool.held(receiver)) < limit;
        if !allowed(self)
            || (self.free.is_empty() && self.fresh >= self.ready && self.has_returned())
        {
            self.sweep();
        }
        allowed(self) && (!self.free.is_empty() || self.fresh < self.capacity())
    }

    /// Takes a free cell for `receiver`, which may hold at most `limit` at once.
    pub fn take(&mut self, receiver: u32, limit: usize) -> Option<u16> {
        if !self.can_take(receiver, limit) {
            return None;
        }
        let index = self.free.pop().or_else(|| {
            let fresh = self.fresh;
            self.fresh += 1;
            u16::try_from(fresh).ok()
        })?;
        // Relaxed: the announcement that follows (SYNC ring-stamp) publishes the mark with the
        // data.
        self.marks[usize::from(index)].store(BUSY, Ordering::Relaxed);
        self.out.push((index, receiver));
        *self.held.entry(receiver) += 1;
        Some(index)
    }

    fn held(&self, receiver: u32) -> u16 {
        self.held.get(receiver).copied().unwrap_or(0)
    }

    /// True when a sweep is worthwhile: the oldest cell in use was returned, or no unused cell is
    /// left.
    fn has_returned(&self) -> bool {
        let oldest = self.out.first();
        self.fresh >= self.capacity()
            || oldest.is_some_and(|&(index, _)| {
                // Relaxed: only a hint; the sweep orders.
                self.marks[usize::from(index)].load(Ordering::Relaxed) == FREE
            })
    }

    /// Reclaims the cells that their receivers have marked free.
    pub fn sweep(&mut self) {
        let (marks, free, held) = (&self.marks, &mut self.free, &mut self.held);
        self.out.retain(|&(index, receiver)| {
            // SYNC cell-mark: pairs with the Release store in Marks::free; the cell may be written
            // again.
            if marks[usize::from(index)].load(Ordering::Acquire) != FREE {
                return true;
            }
            free.push(index);
            *held.entry(receiver) -= 1;
            false
        });
    }

    /// Sweeps, and returns true when every cell was returned.
    pub fn is_idle(&mut self) -> bool {
        self.sweep();
        self.out.is_empty()
    }
}
