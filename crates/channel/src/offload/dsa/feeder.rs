//! Keeps a device busy with chunks of jobs, and brings every chunk to its end whatever the device
//! does.
//!
//! A slot holds a claimed chunk. It goes through the device stretch by stretch (a stretch is
//! contiguous on both sides, and no longer than one descriptor may be), one descriptor at a time;
//! several slots keep several descriptors in flight, and they may end in any order. What the device
//! does not do, the CPU does:
//!
//! | what happens | what follows |
//! |---|---|
//! | a stretch is short | the CPU copies it |
//! | the queue is full | the slot waits for the next look; after many, the CPU copies the rest of the chunk |
//! | a page fault | the CPU goes on to the end of that page, which brings it in, and the device from there |
//! | many faults in a chunk | the CPU copies the rest of the chunk |
//! | an error | the CPU copies the stretch again; after some errors in a row the device is given up |
//! | no completion, and the queue is out of service | the CPU copies the stretch again; the device is given up |
//!
//! Copying a stretch again is right since source and destination do not overlap and nobody changes
//! the source.

use super::descriptor::{Descriptor, DsaCompletion, Record};
use super::presence::{PageAccess, Presence};
use super::{Portal, Submission};
use crate::offload::job::{CHUNK, Chunk, OffloadJob};
use std::sync::Arc;

/// Descriptors in flight: with chunks of 128 KiB, 4 MiB are under way without another look of the
/// rank.
const SLOTS: usize = 32;

/// Stretches below this are the CPU's, until the break-even length is measured. Published
/// measurements of the device put it between 4 and 16 KiB.
const SHORTEST: usize = 16 << 10;

/// Faults in one chunk after which the CPU takes over.
const FAULTS: u32 = 8;

/// Times that the queue may have no room for a stretch before the CPU takes over the chunk: others
/// keep it busy.
const REFUSALS: u32 = 1024;

/// Errors in a row after which the device is given up.
const ERRORS: u32 = 4;

/// Looks without any completion between two questions whether the queue is still in service: some
/// milliseconds.
const POLLS_PER_QUERY: u32 = 1 << 16;

/// What a device has done, and what it has not.
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
    /// Operations that ended at a page that was not present.
    pub faults: u64,
    /// Operations that failed, or were never completed.
    pub errors: u64,
    /// The last status of a failure (`linux/idxd.h`), 0 if there was none or the device gave none.
    pub last_error: u8,
    /// The device is not used any more.
    pub given_up: bool,
}

#[derive(Debug)]
pub(super) struct Feeder {
    portal: Box<dyn Portal>,
    /// One for each slot, where the device finds it.
    records: Box<[Record]>,
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
    /// With the device: the first `sent` bytes of its rest.
    Out(Flight, usize),
}

/// A claimed chunk on its way.
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
            records: (0..slots).map(|_| Record::default()).collect(),
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

    /// Gives the device no stretches below `bytes` from now on.
    pub(super) fn set_shortest(&mut self, bytes: usize) {
        self.shortest = bytes;
    }

    /// True when no chunk is on its way.
    pub(super) fn is_idle(&self) -> bool {
        self.slots
            .iter()
            .all(|slot| matches!(slot, FeederSlot::Free))
    }

    /// Takes what the device has completed, and gives it what it has room for: first what is on its
    /// way, then chunks of `job`. True if anything moved. The CPU copies at most some chunks in one
    /// call.
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
            // A job that is not for the device must not hold up its owner for long.
            if self.report.cpu_bytes - copied >= CHUNK as u64 {
                break;
            }
            let Some(rest) = job.claim() else { break };
            let flight = Flight {
                job: Arc::clone(job),
                rest,
                faults: 0,
                refusals: 0,
            };
            self.slots[at] = self.step(at, flight);
            moved = true;
            if matches!(self.slots[at], FeederSlot::Waiting(_)) {
                // No room for more.
                break;
            }
        }
        moved
    }

    /// Looks at one slot. True if it got on.
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

    /// Copies to the end of the page at which the device stopped, of `left` bytes of its stretch:
    /// on the source's or the destination's side, whichever ends last, so that both pages are
    /// present then.
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

    /// Copies the next `bytes` bytes of a chunk by the CPU.
    fn by_cpu(&mut self, flight: &mut Flight, bytes: usize) {
        let end = flight.rest.start + bytes;
        flight.job.copy_part(flight.rest.start..end);
        flight.rest.start = end;
        self.report.cpu_bytes += bytes as u64;
    }

    /// Brings a chunk to where it needs the device, and submits; or to its end.
    fn step(&mut self, at: usize, mut flight: Flight) -> FeederSlot {
        while !flight.rest.is_empty() && !flight.job.is_stopped() {
            let Some((source, target, len)) = flight.job.plan.stretch(flight.rest.clone()) else {
                // Not memory that the device reaches.
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

    /// The queue is out of service: what it had is the CPU's now.
    #[cold]
    fn rescue(&mut self) {
        self.report.given_up = true;
        for at in 0..self.slots.len() {
            // A record may have been written between the last look and the end of the queue: then
            // there is nothing to rescue.
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
