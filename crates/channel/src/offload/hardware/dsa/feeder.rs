//! Keeps a device busy with chunks of jobs, and completes every chunk whatever the device does.
//!
//! A slot holds a claimed chunk. The device copies the chunk stretch by stretch (a stretch is
//! contiguous on both sides, and at most as long as one descriptor allows), one descriptor at a
//! time; several slots keep several descriptors in flight, which may complete in any order. The CPU
//! copies what the device does not:
//!
//! | event | action |
//! |---|---|
//! | a stretch is short | the CPU copies it |
//! | the queue is full | the slot waits for the next poll; after many, the CPU copies the rest |
//! | a page fault | the CPU copies to the end of that page; then the device continues |
//! | many faults in a chunk | the CPU copies the rest of the chunk |
//! | an error | the CPU copies the stretch again; after some in a row the device is disabled |
//! | no completion, queue not enabled | the CPU copies the stretch again; the device is disabled |
//!
//! Copying to the end of a page faults the page in. Copying a stretch again is correct because
//! source and destination do not overlap and the source does not change meanwhile. A disabled
//! device gets no more descriptors.

use super::descriptor::{CompletionRecord, Descriptor, DsaCompletion};
use super::portal::{Portal, Submission};
use super::presence::{PageAccess, Presence};
use crate::offload::job::{CHUNK, Chunk, OffloadJob};
use std::sync::Arc;

/// Descriptors in flight: with chunks of 128 KiB, 4 MiB are under way without another poll by the
/// rank.
const SLOTS: usize = 32;

/// Stretches shorter than this, in bytes, are copied by the CPU until the break-even length is
/// measured. Published measurements of the device put it between 4 and 16 KiB.
const SHORTEST: usize = 16 << 10;

/// Faults in one chunk after which the CPU takes over.
const FAULTS: u32 = 8;

/// Times that the queue may have no room for a stretch before the CPU takes over the chunk: other
/// processes keep the queue busy.
const REFUSALS: u32 = 1024;

/// Errors in a row after which the device is no longer used.
const ERRORS: u32 = 4;

/// Polls without any completion between two checks whether the queue is still in service: some
/// milliseconds.
const POLLS_PER_QUERY: u32 = 1 << 16;

/// Counters of what the device did and what the CPU did in its place.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DsaReport {
    /// Bytes that the device copied.
    pub device_bytes: u64,
    /// Bytes that the CPU copied in its place.
    pub cpu_bytes: u64,
    /// Descriptors that the device took.
    pub descriptors: u64,
    /// Times that the queue was full.
    pub full: u64,
    /// Operations that stopped at a page that was not present.
    pub faults: u64,
    /// Operations that failed, or never completed.
    pub errors: u64,
    /// The last status of a failure (`linux/idxd.h`), 0 if there was none or the device gave none.
    pub last_error: u8,
    /// The device is no longer used.
    pub given_up: bool,
}

#[derive(Debug)]
pub(super) struct Feeder {
    portal: Box<dyn Portal>,
    /// One per slot, at a fixed address for the device.
    records: Box<[CompletionRecord]>,
    slots: Vec<FeederSlot>,
    presence: Presence,
    shortest: usize,
    errors_in_row: u32,
    idle_looks: u32,
    report: DsaReport,
}

#[derive(Debug)]
enum FeederSlot {
    Free,
    /// To be submitted when the queue has room.
    Waiting(Flight),
    /// With the device: the first `sent` bytes of `rest`.
    Out(Flight, usize),
}

/// A claimed chunk in progress.
#[derive(Debug)]
struct Flight {
    job: Arc<OffloadJob>,
    rest: Chunk,
    faults: u32,
    refusals: u32,
}

impl Feeder {
    pub(super) fn new(portal: Box<dyn Portal>) -> Feeder {
        let slots = portal.entries().clamp(1, SLOTS);
        Feeder {
            portal,
            records: (0..slots).map(|_| CompletionRecord::default()).collect(),
            slots: (0..slots).map(|_| FeederSlot::Free).collect(),
            presence: Presence::default(),
            shortest: SHORTEST,
            errors_in_row: 0,
            idle_looks: 0,
            report: DsaReport::default(),
        }
    }

    pub(super) fn report(&self) -> DsaReport {
        self.report
    }

    /// From now on, the CPU copies stretches shorter than `bytes`.
    #[cfg(test)]
    pub(super) fn set_shortest(&mut self, bytes: usize) {
        self.shortest = bytes;
    }

    /// True if no chunk is in progress.
    pub(super) fn is_idle(&self) -> bool {
        self.slots.iter().all(|slot| matches!(slot, FeederSlot::Free))
    }

    /// Handles what the device has completed, and submits what the queue has room for: first chunks
    /// in progress, then chunks of `job`. True if anything made progress. The CPU copies at most
    /// some chunks in one call.
    pub(super) fn advance(&mut self, job: Option<&Arc<OffloadJob>>) -> bool {
        let mut moved = false;
        for at in 0..self.slots.len() {
            moved |= self.visit(at);
        }
        if let Some(job) = job {
            moved |= self.load(job);
        }
        self.idle_looks = if moved { 0 } else { self.idle_looks + 1 };
        if self.idle_looks == POLLS_PER_QUERY {
            self.idle_looks = 0;
            if !self.portal.is_enabled() {
                self.rescue();
                moved = true;
            }
        }
        moved
    }

    /// Fills free slots with chunks of `job`.
    fn load(&mut self, job: &Arc<OffloadJob>) -> bool {
        let copied = self.report.cpu_bytes;
        let mut moved = false;
        for at in 0..self.slots.len() {
            if !matches!(self.slots[at], FeederSlot::Free) {
                continue;
            }
            // A job that the device does not copy must not block its owner for long.
            if self.report.cpu_bytes - copied >= CHUNK as u64 {
                break;
            }
            let Some(rest) = job.claim() else { break };
            let flight = Flight { job: Arc::clone(job), rest, faults: 0, refusals: 0 };
            self.slots[at] = self.step(at, flight);
            moved = true;
            if matches!(self.slots[at], FeederSlot::Waiting(_)) {
                // No room for more.
                break;
            }
        }
        moved
    }

    /// Polls one slot. True if it made progress.
    fn visit(&mut self, at: usize) -> bool {
        match std::mem::replace(&mut self.slots[at], FeederSlot::Free) {
            FeederSlot::Free => false,
            FeederSlot::Waiting(flight) => {
                let before = flight.rest.len();
                self.slots[at] = self.step(at, flight);
                match &self.slots[at] {
                    FeederSlot::Waiting(flight) => flight.rest.len() != before,
                    FeederSlot::Free | FeederSlot::Out(..) => true,
                }
            }
            FeederSlot::Out(flight, sent) => match self.records[at].completion(sent) {
                None => {
                    self.slots[at] = FeederSlot::Out(flight, sent);
                    false
                }
                Some(completion) => {
                    self.slots[at] = self.complete(at, flight, sent, completion);
                    true
                }
            },
        }
    }

    fn complete(
        &mut self,
        at: usize,
        mut flight: Flight,
        sent: usize,
        how: DsaCompletion,
    ) -> FeederSlot {
        match how {
            DsaCompletion::Done => {
                self.errors_in_row = 0;
                self.report.device_bytes += sent as u64;
                flight.rest.start += sent;
            }
            DsaCompletion::Fault { bytes } => {
                self.report.faults += 1;
                self.report.device_bytes += bytes as u64;
                flight.rest.start += bytes;
                flight.faults += 1;
                self.go_over_page(&mut flight, sent - bytes);
            }
            DsaCompletion::Error { status } => {
                self.report.last_error = status;
                self.strike();
                self.by_cpu(&mut flight, sent);
            }
        }
        self.step(at, flight)
    }

    /// Counts a failure of the device.
    fn strike(&mut self) {
        self.report.errors += 1;
        self.errors_in_row += 1;
        self.report.given_up |= self.errors_in_row >= ERRORS;
    }

    /// The CPU copies to the end of the page at which the device stopped, at most `left` bytes of
    /// the stretch: on the source's or the destination's side, whichever ends last, so that both
    /// pages are present afterwards.
    fn go_over_page(&mut self, flight: &mut Flight, left: usize) {
        if left == 0 {
            return;
        }
        let Some((source, target, _)) = flight.job.plan.stretch(flight.rest.clone()) else {
            return;
        };
        self.presence.forget(source, left);
        self.presence.forget(target, left);
        const PAGE: usize = 4096;
        let to_end = |address: usize| PAGE - address % PAGE;
        self.by_cpu(flight, left.min(to_end(source).max(to_end(target))));
    }

    /// The CPU copies the next `bytes` bytes of a chunk.
    fn by_cpu(&mut self, flight: &mut Flight, bytes: usize) {
        let end = flight.rest.start + bytes;
        flight.job.copy_part(flight.rest.start..end);
        flight.rest.start = end;
        self.report.cpu_bytes += bytes as u64;
    }

    /// Advances a chunk until it needs the device, and submits; or completes it.
    fn step(&mut self, at: usize, mut flight: Flight) -> FeederSlot {
        while !flight.rest.is_empty() && !flight.job.is_stopped() {
            let Some((source, target, len)) = flight.job.plan.stretch(flight.rest.clone()) else {
                // The device does not reach this memory.
                let all = flight.rest.len();
                self.by_cpu(&mut flight, all);
                continue;
            };
            let too_hard = flight.faults > FAULTS || flight.refusals > REFUSALS;
            if len < self.shortest || too_hard || self.report.given_up {
                self.by_cpu(&mut flight, len);
                continue;
            }
            let len = len.min(self.portal.max_transfer()).min(CHUNK);
            self.presence.ensure(source, len, PageAccess::Read);
            self.presence.ensure(target, len, PageAccess::Write);
            let record = &self.records[at];
            record.clear();
            let descriptor = Descriptor::memmove(
                source as u64,
                target as u64,
                len as u32,
                std::ptr::from_ref(record).expose_provenance() as u64,
            );
            match self.portal.submit(&descriptor) {
                Submission::Accepted => {
                    self.report.descriptors += 1;
                    return FeederSlot::Out(flight, len);
                }
                Submission::Full => {
                    self.report.full += 1;
                    flight.refusals += 1;
                    return FeederSlot::Waiting(flight);
                }
                Submission::Refused => {
                    self.strike();
                    self.by_cpu(&mut flight, len);
                }
            }
        }
        flight.job.settle();
        FeederSlot::Free
    }

    /// The queue is out of service: the CPU takes over its chunks.
    #[cold]
    fn rescue(&mut self) {
        self.report.given_up = true;
        for at in 0..self.slots.len() {
            // A record may have been written between the last poll and the end of the queue; then
            // there is nothing to take over.
            self.visit(at);
            match std::mem::replace(&mut self.slots[at], FeederSlot::Free) {
                FeederSlot::Free => {}
                FeederSlot::Waiting(flight) => self.slots[at] = self.step(at, flight),
                FeederSlot::Out(flight, _) => {
                    self.report.errors += 1;
                    self.slots[at] = self.step(at, flight);
                }
            }
        }
    }
}
