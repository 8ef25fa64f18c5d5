//! The clock of the records: the processor's time counter where its rate is constant, else
//! `CLOCK_MONOTONIC` (25 to 30 ns a reading against 8 to 12).
//!
//! Durations are scaled by a factor that [`calibrate`] determines once, before the first record.
//! Points in time stay in ticks. The file of the records has a reading of both clocks at the start
//! and a [later one](note_reading), which is renewed about every second as long as calls are
//! recorded; the line through both (`rank_tables::TickLine`) gives `CLOCK_MONOTONIC`: that clock is
//! the same for all processes of a node, so that times of ranks can be compared, to some 100 ns.

use std::sync::atomic::Ordering;
use std::sync::{Mutex, OnceLock};

pub use mica_node::segment::monotonic_ns;
use mica_node::ticks::{counter, has_counter};
use mica_profile::rank_tables::TablesHead;

use crate::memory;

/// Minimum time between the two readings of [`calibrate`]: an error of 50 ns is 1 in 40,000 then.
const CALIBRATION_NS: u64 = 2_000_000;

/// Readings of which the best counts.
const READINGS: u32 = 10;

/// Time between the later readings, in nanoseconds.
const RENEWAL_NS: u64 = 1_000_000_000;

/// Both clocks at one moment.
#[derive(Debug, Clone, Copy)]
pub struct Reading {
    ticks: u64,
    ns: u64,
}

struct Clock {
    counter: bool,
    origin: Reading,
    /// Nanoseconds in a tick times 2^32.
    factor: u64,
}

static CLOCK: OnceLock<Clock> = OnceLock::new();
static RENEWAL: Mutex<()> = Mutex::new(());

/// Determines the scale; waits for what is left of two milliseconds after `since`.
pub fn calibrate(since: Reading) {
    CLOCK.get_or_init(|| {
        let counter = has_counter();
        let mut now = Reading::now();
        while counter && now.ns - since.ns < CALIBRATION_NS {
            now = Reading::now();
        }
        let factor = match counter {
            true => {
                let (ticks, ns) = (now.ticks.wrapping_sub(since.ticks), now.ns - since.ns);
                ((u128::from(ns) << 32) / u128::from(ticks.max(1))) as u64
            }
            false => 1 << 32,
        };
        Clock { counter, origin: now, factor }
    });
}

/// Writes the scale into the file of the records.
pub fn write_scale(head: &TablesHead) {
    if let Some(clock) = CLOCK.get() {
        // Relaxed: the file is read when this process has ended.
        head.has_counter.store(u64::from(clock.counter), Ordering::Relaxed);
        head.factor.store(clock.factor, Ordering::Relaxed);
        head.origin[0].store(clock.origin.ticks, Ordering::Relaxed);
        head.origin[1].store(clock.origin.ns, Ordering::Relaxed);
    }
}

/// Renews the later reading in the file of the records. Returns the ticks at which to do so again.
#[cold]
pub fn note_reading() -> u64 {
    let now = Reading::now();
    // Where another thread does it, this one need not.
    if let (Some(head), Ok(_guard)) = (memory::head(), RENEWAL.try_lock()) {
        // The slot that is not valid now, so that a process killed meanwhile leaves the other.
        let slot = 1 - head.latest.load(Ordering::Relaxed).saturating_sub(1).min(1) as usize;
        head.later[slot][0].store(now.ticks, Ordering::Relaxed);
        head.later[slot][1].store(now.ns, Ordering::Relaxed);
        // Release: the reading before the word that makes it valid.
        head.latest.store(slot as u64 + 1, Ordering::Release);
    }
    let factor = CLOCK.get().map_or(1 << 32, |clock| clock.factor);
    let ticks = (u128::from(RENEWAL_NS) << 32) / u128::from(factor.max(1));
    self::ticks().saturating_add(ticks as u64)
}

impl Reading {
    /// Reads both, at one moment: a thread may lose its core between two readings, so the pair of
    /// the counter's readings that encloses the clock's most closely counts.
    pub fn now() -> Reading {
        let once = || {
            let before = counter();
            let ns = monotonic_ns();
            let gap = counter().wrapping_sub(before);
            let ticks = before.wrapping_add(gap / 2);
            (gap, Reading { ticks, ns })
        };
        (0..READINGS).map(|_| once()).min_by_key(|(gap, _)| *gap).expect("there are readings").1
    }
}

/// Now, in ticks.
#[inline]
pub fn ticks() -> u64 {
    if let Some(clock) = CLOCK.get()
        && clock.counter
    {
        counter()
    } else {
        monotonic_ns()
    }
}

/// A duration in nanoseconds.
#[inline]
pub fn duration_ns(ticks: u64) -> u64 {
    let factor = CLOCK.get().map_or(1 << 32, |clock| clock.factor);
    ((u128::from(ticks) * u128::from(factor)) >> 32) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::tests::{read_file, thread_head};

    #[test]
    fn follows_the_system_clock() {
        calibrate(Reading::now());
        thread_head();
        write_scale(memory::head().expect("a file"));
        let (start, system) = (ticks(), monotonic_ns());
        std::thread::sleep(std::time::Duration::from_millis(5));
        let (end, later) = (ticks(), monotonic_ns());
        assert!(duration_ns(end - start) >= 4_900_000);
        note_reading();
        let line = read_file().clock;
        // This thread may have lost its core between the readings.
        assert!(line.ns(start) <= system + 100_000);
        assert!(line.ns(end) <= later + 100_000 && line.ns(end) > line.ns(start));
    }
}
