//! Copies of sections that belong to operations in progress: nonblocking ones until they are
//! completed, persistent ones until their request is freed.
//!
//! The request carries them ([`follow_request`]), so the sections get what MPI has written
//! whichever part of the program completes it, in Fortran or in C.
//!
//! [`follow_request`]: mica_front_end::table::FrontEndTable::follow_request

use std::ffi::{c_int, c_void};
use std::mem::{forget, take};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use mica_front_end::table::{CallbackState, event};
use mica_front_end::types::MPI_Request;

use super::copied::CopiedSection;
use crate::abi::table;
use crate::argument::{HandleWord, to_c};

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

/// The copies of one request's operations.
#[derive(Debug)]
struct OperationCopies {
    sections: Vec<CopiedSection>,
    usage: RequestUse,
    /// Whether MPI may have written what is not in the section yet.
    is_active: bool,
}

/// Keeps the copies with a request (a handle in Fortran), and returns what MPI says of that.
pub fn keep(request: c_int, sections: Vec<CopiedSection>, usage: RequestUse) -> c_int {
    let is_active = matches!(usage, RequestUse::Once);
    let copies = Mutex::new(OperationCopies { sections, usage, is_active });
    let state = CallbackState { state: Box::into_raw(Box::new(copies)).cast(), drop: drop_copies };
    let request = MPI_Request(to_c(request).to_table());
    // SAFETY: the table's function; the callback gets this state.
    unsafe { (table().follow_request)(request, learn, state) }
}

/// Learns of an event of the request. Threads may do so at the same time, for different partitions.
unsafe extern "C" fn learn(what: c_int, partition: c_int, state: *mut c_void) {
    // SAFETY: `keep` has made the state, which lives until `drop_copies`.
    let copies = unsafe { &*state.cast::<Mutex<OperationCopies>>() };
    let mut copies = copies.lock().unwrap_or_else(PoisonError::into_inner);
    match what {
        event::STARTING => copies.start(),
        event::COMPLETED => copies.finish(),
        event::READY => copies.ready(partition),
        event::ARRIVED => copies.arrived(partition),
        _ => {}
    }
}

/// The request is gone. If it was freed while its operation was active, MPI may still use the
/// copies, which therefore stay for good.
unsafe extern "C" fn drop_copies(state: *mut c_void) {
    // SAFETY: `keep` has made the state, and no callback uses it any longer.
    let copies = *unsafe { Box::from_raw(state.cast::<Mutex<OperationCopies>>()) };
    let copies = copies.into_inner().unwrap_or_else(PoisonError::into_inner);
    if copies.is_active {
        forget(copies.sections);
    }
}

impl OperationCopies {
    /// The copies get what the sections have now.
    fn start(&mut self) {
        self.sections.iter_mut().for_each(CopiedSection::refresh);
        self.is_active = true;
    }

    /// The sections get what MPI has written, once.
    fn finish(&mut self) {
        if take(&mut self.is_active) {
            self.sections.iter_mut().for_each(CopiedSection::finish);
        }
    }

    /// The copies get what the sections have in a partition that is ready to be sent.
    fn ready(&mut self, partition: c_int) {
        if let RequestUse::Partitioned(of) = self.usage {
            self.sections.iter_mut().for_each(|copy| copy.refresh_part(of.part(partition)));
        }
    }

    /// The sections get a partition that has arrived.
    fn arrived(&mut self, partition: c_int) {
        if let RequestUse::Partitioned(of) = self.usage
            && self.is_active
        {
            self.sections.iter_mut().for_each(|copy| copy.finish_part(of.part(partition)));
        }
    }
}
