//! The state of a rank's migrated buffers: what was found where, and how often each buffer was
//! used. [`owner`](super::owner) exposes and migrates buffers, [`planning`](super::planning)
//! decides what to move where, [`census`](super::census) finds out what lies where, and
//! [`advice`](super::advice) handles the program's advice.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use super::eligibility::SkipReason;
use super::extents::union;
use super::holders::PageHolders;
use super::origin::MallocBlocks;
use crate::direct::{DirectOptions, Exposure};
use mica_node::procmap::ProcMap;
use mica_node::segment::JobSegment;

#[derive(Debug)]
pub(super) struct MigratedBuffers {
    pub segment: Arc<JobSegment>,
    pub me: u32,
    pub options: DirectOptions,
    pub page: usize,
    pub inode: u64,
    pub device: u64,
    pub maps: ProcMap,
    /// The slots that were ever used: the first ones of the file.
    pub slots: Vec<FileSlot>,
    /// Ordered by address.
    pub hints: Vec<SlotHint>,
    /// Empty before the first use.
    pub counts: Vec<Count>,
    pub recalled: Vec<Option<Recalled>>,
    pub lent: Vec<Lent>,
    /// Length of `lent` at which released entries are removed.
    pub lent_limit: usize,
    pub moves: u64,
    pub kept: BTreeMap<SkipReason, u64>,
    pub blocks: MallocBlocks,
    pub holders: PageHolders,
    /// First pages of migrated malloc blocks, which are areas of their own.
    pub heads: BTreeSet<usize>,
    /// What the program has advised for children.
    pub in_child: Vec<ForkAdvice>,
    /// Where the program has taken memory back.
    pub taken_back: Vec<Advised>,
    /// Set in a child of fork.
    pub is_off: bool,
}

/// One slot of this rank.
#[derive(Debug, Default)]
pub(super) struct FileSlot {
    /// Cloned by every exposure.
    pub pin: Arc<()>,
    /// Parts of the file that the last census found mapped, in order; they may have memory.
    pub extents: Vec<Range<u64>>,
}

impl FileSlot {
    /// Whether no transfer is in progress.
    pub fn is_idle(&mut self) -> bool {
        // SYNC pin: synchronizes with the drops of all clones, so that what was done under them is
        // seen.
        Arc::get_mut(&mut self.pin).is_some()
    }
}

/// Contiguous addresses that belonged to a slot at the last census.
#[derive(Debug)]
pub(super) struct SlotHint {
    pub addresses: Range<usize>,
    pub slot: u32,
    pub anchor: u64,
}

/// A part of this process's memory that lies in one of the rank's slots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MigratedRange {
    pub addresses: Range<usize>,
    pub slot: u32,
    pub offset: u64,
}

impl MigratedRange {
    /// What is added to an address to get its offset in the file.
    pub fn anchor(&self) -> u64 {
        self.offset.wrapping_sub(self.addresses.start as u64)
    }

    pub fn file(&self) -> Range<u64> {
        self.offset..self.offset + self.addresses.len() as u64
    }
}

/// Where a buffer lay at the last query of the kernel.
#[derive(Debug, Clone)]
pub(super) struct Recalled {
    pub address: usize,
    pub len: usize,
    pub exposure: Exposure,
}

/// Uses of one buffer that is not migrated yet.
#[derive(Debug, Default, Clone)]
pub(super) struct Count {
    pub pages: Range<usize>,
    pub uses: u32,
    /// Uses after which it is migrated; grows with each refusal.
    pub limit: u32,
}

/// Pages that peers may read or write by address.
#[derive(Debug)]
pub(super) struct Lent {
    pub pages: Range<usize>,
    pub pin: Arc<()>,
}

/// What the child of a fork gets of migrated memory, if not a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum InChild {
    /// Nothing is mapped (MADV_DONTFORK).
    Absent,
    /// Zeros (MADV_WIPEONFORK).
    Wiped,
}

/// How a child gets a part of the file. Keyed by offset in the file: when that part is unmapped,
/// the advice is void.
#[derive(Debug, Clone)]
pub(super) struct ForkAdvice {
    pub file: Range<u64>,
    pub kind: InChild,
}

/// Pages that the program has taken back by advice. It is likely to do so again, so they are not
/// migrated.
#[derive(Debug, Clone)]
pub(super) struct Advised {
    pub pages: Range<usize>,
    /// Attempts to migrate them that are still to be refused. Each refusal doubles the uses before
    /// the next attempt.
    pub refusals: u32,
}

pub(super) fn meet(a: &Range<usize>, b: &Range<usize>) -> bool {
    a.start < b.end && b.start < a.end
}

/// The parts of a slot's file space that are mapped, in order.
pub(super) fn extents(census: &[MigratedRange], slot: u32) -> Vec<Range<u64>> {
    let of_slot = census.iter().filter(|place| place.slot == slot);
    let all: Vec<Range<u64>> = of_slot.map(MigratedRange::file).collect();
    union(&all, &[])
}
