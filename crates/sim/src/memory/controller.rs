//! Memory controller and DRAM: latency, bandwidth, and a queue that can be full.
//!
//! A request occupies the memory for the time of one line at its bandwidth, after the requests
//! before it: `free_at` is when the last of them is through. What a read waits for that moment
//! adds to its latency. The queue holds a number of requests; while the backlog is longer than
//! that, the core cannot issue another and stands still, whatever overlap hides of latencies
//! ([`Controller::excess`]).
//!
//! Transfers of the adapter do not queue with the core's requests: an arbiter gives each of its
//! two engines (reads, writes) up to [`ENGINE_SHARE`] of the bandwidth while they run, and what
//! is left to the core; so a long transfer slows the core down and does not stop it. An engine
//! does one transfer at a time. The adapter does not ask in order of time: the payload of a packet
//! is asked for when its last byte has come, from its first byte on, and events have been written
//! meanwhile. So a transfer takes the free time of its engine from its moment on, in parts where
//! others lie between.
//!
//! Times are cycles of the processor with [`FRACTION_BITS`] binary places.

use crate::calendar::Calendar;
use crate::machine::{AdapterParameters, MemoryParameters, Processor, SimulatedMachine};

/// Binary places of times here: a line takes less than a cycle on fast memories.
const FRACTION_BITS: u32 = 12;
/// Largest part of the bandwidth for one engine of the adapter; the core keeps a fifth.
const ENGINE_SHARE: f64 = 0.4;
/// Parts of transfers that an engine remembers, also of those that have ended: a transfer that is
/// asked for late may lie before them. Nothing is put between older ones.
const PARTS: usize = 256;

/// Latency and time of a line of a memory, in cycles of the processor.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MemoryTiming {
    /// Of a read that waits for no other.
    pub latency_cycles: f64,
    /// Time of one line at the memory's bandwidth.
    pub line_cycles: f64,
}

impl MemoryTiming {
    /// The memory of this machine with its slow-down (leon-2009, Table 5.1).
    pub fn of(machine: &SimulatedMachine) -> MemoryTiming {
        let MemoryParameters { slow_down, clocks, timing, .. } = &machine.memory;
        let mhz = machine.processor.mhz;
        let line = f64::from(machine.caches.line);
        match (clocks, timing) {
            (Some(clocks), _) => {
                let controller = clocks.controller.mhz(mhz) / slow_down;
                let dram = clocks.dram.mhz(mhz) / dram_slow_down(*slow_down);
                let per_dram_cycle = mhz / dram;
                MemoryTiming {
                    latency_cycles: clocks.path_cycles
                        + clocks.controller_cycles * mhz / controller
                        + clocks.dram_cycles * per_dram_cycle,
                    line_cycles: line / clocks.bytes_per_dram_cycle * per_dram_cycle,
                }
            }
            (None, Some(timing)) => MemoryTiming {
                latency_cycles: timing.latency_ns * slow_down * mhz / 1e3,
                line_cycles: line / timing.bandwidth_gb_s * slow_down * mhz / 1e3,
            },
            (None, None) => unreachable!("a machine that was read has one of them"),
        }
    }
}

/// Table 5.1 slows the DRAM down from 1/6 of the processor's clock to 1/50, not 1/45, where it
/// slows the controller down by 7.5.
fn dram_slow_down(slow_down: f64) -> f64 {
    if slow_down == 7.5 { 50.0 / 6.0 } else { slow_down }
}

/// One of the adapter's two ways to the memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AdapterPath {
    Read,
    Write,
}

/// A transfer of the adapter in the calendar of its engine.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct BookedTransfer {
    /// Of the engine's transfers: those that touch stay apart, so that [`PARTS`] counts each.
    number: u64,
    /// Of the memory's bandwidth.
    share: f64,
}

/// One of the adapter's two engines.
#[derive(Debug, Clone, Default)]
struct DmaEngine {
    calendar: Calendar<BookedTransfer>,
    transfers: u64,
    /// End of the last part that was forgotten.
    forgotten: u64,
}

impl DmaEngine {
    /// Books the first `length` of free time from `at` on. Returns its end.
    fn book(&mut self, at: u64, length: u64, share: f64) -> u64 {
        self.transfers += 1;
        let transfer = BookedTransfer { number: self.transfers, share };
        let booked = self.calendar.reserve(at.max(self.forgotten), length, transfer);
        self.forgotten = self.calendar.keep_newest(PARTS).unwrap_or(self.forgotten);
        booked.done
    }

    /// Share of the memory's bandwidth at a moment.
    fn share(&self, at: u64) -> f64 {
        self.calendar.label(at).map_or(0.0, |transfer| transfer.share)
    }
}

#[derive(Debug, Clone)]
pub(super) struct Controller {
    latency: u64,
    line: u64,
    /// Backlog from which on the core stands still.
    limit: u64,
    free_at: u64,
    engines: [DmaEngine; 2],
    /// Least time of a byte of a transfer.
    byte: f64,
    line_bytes: f64,
}

impl Controller {
    pub(super) fn new(machine: &SimulatedMachine) -> Controller {
        let timing = MemoryTiming::of(machine);
        let Processor { mhz, .. } = machine.processor;
        let AdapterParameters { dma_gb_s, .. } = machine.adapter;
        let line_bytes = f64::from(machine.caches.line);
        let of_adapter = mhz / 1e3 / dma_gb_s;
        let of_memory = timing.line_cycles / line_bytes / ENGINE_SHARE;
        let line = fixed(timing.line_cycles);
        Controller {
            latency: fixed(timing.latency_cycles),
            line,
            limit: line * u64::from(machine.memory.queue),
            free_at: 0,
            engines: [DmaEngine::default(), DmaEngine::default()],
            byte: of_adapter.max(of_memory),
            line_bytes,
        }
    }

    /// The core or the prefetcher reads a line. Returns the cycles until it is there.
    pub(super) fn read(&mut self, now: u64) -> u64 {
        let now = now << FRACTION_BITS;
        let start = self.occupy(now);
        whole(start - now + self.latency)
    }

    /// The caches write a line.
    pub(super) fn write(&mut self, now: u64) {
        self.occupy(now << FRACTION_BITS);
    }

    /// Whether the queue has no room.
    pub(super) fn is_full(&self, now: u64) -> bool {
        self.free_at + self.line > (now << FRACTION_BITS) + self.limit
    }

    /// Cycles that the core cannot go on because more requests wait than the queue holds.
    pub(super) fn excess(&self, now: u64) -> u64 {
        whole(self.free_at.saturating_sub((now << FRACTION_BITS) + self.limit))
    }

    fn occupy(&mut self, now: u64) -> u64 {
        let start = self.free_at.max(now);
        self.free_at = start + self.line_time(start);
        start
    }

    /// Time of a line beside the adapter's transfers.
    fn line_time(&mut self, at: u64) -> u64 {
        if self.engines.iter().all(|engine| engine.calendar.is_free_from(at)) {
            return self.line;
        }
        let share: f64 = self.engines.iter().map(|engine| engine.share(at)).sum();
        (self.line as f64 / (1.0 - share) + 0.5) as u64
    }

    /// A transfer of the adapter, `in_memory` of whose lines are read or written there. `at` and
    /// the returned end are in cycles.
    pub(super) fn transfer(&mut self, at: f64, bytes: u64, in_memory: u64, by: AdapterPath) -> f64 {
        let length = fixed(bytes as f64 * self.byte);
        let bytes_in_memory = (in_memory as f64 * self.line_bytes).min(bytes as f64);
        let busy = bytes_in_memory / self.line_bytes * self.line as f64;
        let share = (busy / length.max(1) as f64).min(ENGINE_SHARE);
        let end = self.engines[by as usize].book(fixed(at), length, share);
        let latency = match by {
            AdapterPath::Read => self.latency,
            AdapterPath::Write => 0,
        };
        (end + latency) as f64 / f64::from(1 << FRACTION_BITS)
    }
}

fn fixed(cycles: f64) -> u64 {
    (cycles * f64::from(1 << FRACTION_BITS) + 0.5) as u64
}

/// Rounded up: what comes in the middle of a cycle is used in the next.
fn whole(time: u64) -> u64 {
    time.div_ceil(1 << FRACTION_BITS)
}

#[cfg(test)]
mod tests {
    use super::DmaEngine;

    #[test]
    fn event_that_is_written_meanwhile_delays_a_payload_by_its_own_time() {
        let mut engine = DmaEngine::default();
        engine.book(5000, 10, 0.1);
        assert_eq!(engine.book(1000, 100_000, 0.4), 101_010);
        assert_eq!([1000, 5000, 5010].map(|at| engine.share(at)), [0.4, 0.1, 0.4]);
        assert_eq!(engine.share(101_010), 0.0);
    }

    #[test]
    fn transfers_before_what_is_forgotten_come_after_it() {
        let mut engine = DmaEngine::default();
        for n in 0..=super::PARTS as u64 {
            engine.book(1000 + 20 * n, 10, 0.1);
        }
        assert_eq!(engine.book(90, 10, 0.1), 1020);
    }

    #[test]
    fn transfers_that_touch_are_forgotten_one_by_one() {
        let mut engine = DmaEngine::default();
        for n in 0..=super::PARTS as u64 {
            engine.book(1000 + 10 * n, 10, 0.1);
        }
        assert_eq!(engine.forgotten, 1010);
    }
}
