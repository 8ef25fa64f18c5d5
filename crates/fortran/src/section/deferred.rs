//! Copies of sections that belong to operations in progress: nonblocking ones until they are
//! completed, persistent ones until their request is freed.
//!
//! A call that completes requests takes their copies out of the table before it calls MPI
//! ([`take`]), and afterwards finishes them, puts them back, or both ([`Taken`]). For when MPI has
//! completed a nonblocking operation, its handle may become that of another thread's operation
//! before this thread looks; no other thread may complete the same request meanwhile (MPI 5.0,
//! 11.6.1).
//!
//! Programs without such operations read one counter for each call.

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::copied::CopiedSection;

/// Where the partitions of a buffer lie, in bytes of the virtual buffer.
#[derive(Clone, Copy, Debug)]
pub struct SectionPartitions {
    /// From one partition to the next.
    pub distance: i64,
    /// Where the data of a partition begin.
    pub first: i64,
    /// The bytes from there to the end of its data.
    pub data: i64,
}

impl SectionPartitions {
    /// The part of the virtual buffer that is a partition's.
    fn part(self, partition: c_int) -> Range<i64> {
        let start = self.distance.saturating_mul(partition.into()).saturating_add(self.first);
        start..start.saturating_add(self.data)
    }
}

/// The copies of one operation.
#[derive(Debug)]
struct OperationCopies {
    sections: Vec<CopiedSection>,
    usage: RequestUse,
    /// Whether MPI may have written what is not in the section yet.
    is_active: bool,
}

/// The copies by the request's handle in Fortran.
static TABLE: Mutex<BTreeMap<c_int, OperationCopies>> = Mutex::new(BTreeMap::new());

/// The length of [`TABLE`], written while it is locked.
///
/// Relaxed: a thread that completes a request has got it from the thread that made it, and with it
/// the count that included it.
static ENTRIES: AtomicUsize = AtomicUsize::new(0);

/// The table, locked. The count is set when it is unlocked.
struct LockedTable(MutexGuard<'static, BTreeMap<c_int, OperationCopies>>);

impl LockedTable {
    fn lock() -> LockedTable {
        LockedTable(TABLE.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for LockedTable {
    fn drop(&mut self) {
        ENTRIES.store(self.0.len(), Ordering::Relaxed);
    }
}

/// Whether any operation has copies.
#[inline]
pub fn any() -> bool {
    ENTRIES.load(Ordering::Relaxed) != 0
}

/// What a request is for.
#[derive(Clone, Copy, Debug)]
pub enum RequestUse {
    /// The operation that has begun.
    Once,
    /// Each operation that will be started.
    Persistent,
    /// Each operation that will be started, of a buffer in partitions.
    Partitioned(SectionPartitions),
}

/// Keeps the copies of an operation's request.
pub fn keep(request: c_int, sections: Vec<CopiedSection>, usage: RequestUse) {
    let is_active = matches!(usage, RequestUse::Once);
    LockedTable::lock().0.insert(request, OperationCopies { sections, usage, is_active });
}

/// Partitions of a send are ready: the copy gets what the section has there.
pub fn ready(request: c_int, partitions: impl IntoIterator<Item = c_int>) {
    if let Some(copies) = LockedTable::lock().0.get_mut(&request)
        && let RequestUse::Partitioned(of) = copies.usage
    {
        for partition in partitions {
            copies.sections.iter_mut().for_each(|copy| copy.refresh_part(of.part(partition)));
        }
    }
}

/// A partition of a receive has arrived: the section gets it.
pub fn arrived(request: c_int, partition: c_int) {
    if let Some(copies) = LockedTable::lock().0.get_mut(&request)
        && let RequestUse::Partitioned(of) = copies.usage
        && copies.is_active
    {
        copies.sections.iter_mut().for_each(|copy| copy.finish_part(of.part(partition)));
    }
}

/// A persistent operation is about to start: its copies get what the sections have now.
pub fn starting(request: c_int) {
    if let Some(copies) = LockedTable::lock().0.get_mut(&request) {
        copies.sections.iter_mut().for_each(CopiedSection::refresh);
        copies.is_active = true;
    }
}

/// Copies that are out of the table.
#[derive(Debug)]
pub struct Taken {
    request: c_int,
    copies: OperationCopies,
}

/// Takes the copies of a request out of the table.
pub fn take(request: c_int) -> Option<Taken> {
    let copies = LockedTable::lock().0.remove(&request)?;
    Some(Taken { request, copies })
}

impl Taken {
    /// The operation is completed: the sections get what MPI has written. The copies of a
    /// persistent operation go back into the table.
    pub fn complete(mut self) {
        self.copies.finish();
        if !matches!(self.copies.usage, RequestUse::Once) {
            self.put_back();
        }
    }

    /// The operation is completed, but its request is still to be: the sections get what MPI has
    /// written, once.
    pub fn observe(mut self) {
        self.copies.finish();
        self.put_back();
    }

    /// The operation goes on.
    pub fn put_back(self) {
        LockedTable::lock().0.insert(self.request, self.copies);
    }

    /// The request was freed. If the operation was active, MPI may still use the copies, which
    /// therefore stay for good.
    pub fn free(self) {
        if self.copies.is_active {
            std::mem::forget(self.copies.sections);
        }
    }
}

impl OperationCopies {
    fn finish(&mut self) {
        if std::mem::take(&mut self.is_active) {
            self.sections.iter_mut().for_each(CopiedSection::finish);
        }
    }
}
