//! The clock of the records: the processor's time counter where its rate is constant, else
//! `CLOCK_MONOTONIC` (25 to 30 ns a reading against 8 to 12).
//!
//! Durations are scaled by a factor that [`calibrate`] determines once, before the first record.
//! Points in time stay in ticks until the end, when [`ClockLine`] through a reading of both clocks
//! at the start and one at the end gives `CLOCK_MONOTONIC`: that clock is the same for all
//! processes of a node, so that times of ranks can be compared, to some 100 ns.

use std::sync::OnceLock;

pub use mica_node::segment::monotonic_ns;
use mica_node::ticks::{counter, has_counter};

/// Minimum time between the two readings of [`calibrate`]: an error of 50 ns is 1 in 40,000 then.
const CALIBRATION_NS: u64 = 2_000_000;

/// Readings of which the best counts.
const READINGS: u32 = 10;

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
        let best = (0..READINGS).map(|_| once()).min_by_key(|(gap, _)| *gap);
        best.expect("there are readings").1
    }
}

/// Now, in ticks.
#[inline]
pub fn ticks() -> u64 {
    match CLOCK.get() {
        Some(clock) if clock.counter => counter(),
        _ => monotonic_ns(),
    }
}

/// A duration in nanoseconds.
#[inline]
pub fn duration_ns(ticks: u64) -> u64 {
    let factor = CLOCK.get().map_or(1 << 32, |clock| clock.factor);
    ((u128::from(ticks) * u128::from(factor)) >> 32) as u64
}

/// From ticks to `CLOCK_MONOTONIC`, by a reading at the start and one now.
pub struct ClockLine {
    origin: Reading,
    ns_per_tick: f64,
    counter: bool,
}

impl ClockLine {
    /// The line as far as it is known now.
    pub fn now() -> ClockLine {
        let clock = CLOCK.get();
        let (origin, end) = (clock.map_or_else(Reading::now, |c| c.origin), Reading::now());
        let ticks = end.ticks.wrapping_sub(origin.ticks).max(1);
        // Over less than the calibration's time the calibration is the better measure.
        let ns_per_tick = match end.ns - origin.ns >= CALIBRATION_NS {
            true => (end.ns - origin.ns) as f64 / ticks as f64,
            false => clock.map_or(1.0, |c| c.factor as f64 / (1u64 << 32) as f64),
        };
        ClockLine { origin, ns_per_tick, counter: clock.is_some_and(|c| c.counter) }
    }

    /// This moment by `CLOCK_MONOTONIC`.
    pub fn ns(&self, ticks: u64) -> u64 {
        if !self.counter {
            return ticks;
        }
        let since = ticks.wrapping_sub(self.origin.ticks) as i64;
        self.origin.ns.saturating_add_signed((since as f64 * self.ns_per_tick) as i64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn follows_the_system_clock() {
        calibrate(Reading::now());
        let (start, system) = (ticks(), monotonic_ns());
        std::thread::sleep(std::time::Duration::from_millis(5));
        let (end, later) = (ticks(), monotonic_ns());
        assert!(duration_ns(end - start) >= 4_900_000);
        let line = ClockLine::now();
        // This thread may have lost its core between the readings.
        assert!(line.ns(start) <= system + 100_000);
        assert!(line.ns(end) <= later + 100_000 && line.ns(end) > line.ns(start));
    }
}
