//! A cheap clock for decisions that are made at every poll: the processor's time counter, scaled to
//! nanoseconds.
//!
//! `clock_gettime` takes 25 to 30 ns, a failing test 60; the counter (TSC on x86-64, CNTVCT on
//! aarch64) takes 8 to 12. Its scale is determined on the fly: the first call records both clocks,
//! and calls use `clock_gettime` until one comes at least [`CALIBRATION_NS`] later; that call
//! divides the two differences. So nothing is measured at start-up, and the time is continuous when
//! the counter takes over.
//!
//! The counter is used if the processor guarantees that it runs at a constant rate whatever the
//! core does (invariant TSC), and the process may read it (`PR_SET_TSC`); otherwise every call is a
//! `clock_gettime`: so it is in a simulated process, whose counter is the host's. On machines whose
//! sockets' counters differ, the time jumps when a thread moves between sockets: use this clock for
//! decisions that may be wrong once, not for figures that are shown to anybody.

use std::sync::OnceLock;

use crate::adapter::is_simulated;
use crate::segment::monotonic_ns;

/// Minimum time over which the two clocks are compared: the error, some 50 ns between the two
/// readings, is then 1 part in 40,000.
const CALIBRATION_NS: u64 = 2_000_000;

/// Plausible scales of a time counter, in nanoseconds per tick: 20 GHz to 1 MHz. Anything else is
/// another kind of counter.
const SCALES: std::ops::RangeInclusive<f64> = 0.05..=1000.0;

/// Simultaneous readings of both clocks.
#[derive(Debug, Clone, Copy)]
struct Moment {
    ticks: u64,
    ns: u64,
}

/// The conversion from ticks to nanoseconds.
#[derive(Debug, Clone, Copy)]
struct TickScale {
    origin: Moment,
    /// Nanoseconds in a tick times 2^32; 0: the counter is not used.
    factor: u64,
}

impl TickScale {
    const NONE: TickScale = TickScale { origin: Moment { ticks: 0, ns: 0 }, factor: 0 };

    /// The scale from two readings; [`NONE`](Self::NONE) if the result is implausible.
    fn between(origin: Moment, later: Moment) -> TickScale {
        let ticks = later.ticks.saturating_sub(origin.ticks);
        let ns = later.ns.saturating_sub(origin.ns);
        let ns_per_tick = ns as f64 / ticks as f64;
        match SCALES.contains(&ns_per_tick) {
            true => TickScale { origin, factor: (ns_per_tick * (1u64 << 32) as f64) as u64 },
            false => TickScale::NONE,
        }
    }

    #[inline]
    fn ns(&self, ticks: u64) -> u64 {
        let since = ticks.wrapping_sub(self.origin.ticks);
        // A counter behind the origin's (on another socket) gives the origin.
        let since = if since > u64::MAX / 2 { 0 } else { since };
        self.origin.ns + ((u128::from(since) * u128::from(self.factor)) >> 32) as u64
    }
}

static ORIGIN: OnceLock<Option<Moment>> = OnceLock::new();
static SCALE: OnceLock<TickScale> = OnceLock::new();

/// Nanoseconds of a clock with an arbitrary origin, close to that of [`monotonic_ns`].
#[inline]
pub fn now_ns() -> u64 {
    match SCALE.get() {
        Some(scale) if scale.factor != 0 => scale.ns(counter()),
        _ => by_system(),
    }
}

/// The time from the system's clock. Determines the scale when it can.
#[cold]
fn by_system() -> u64 {
    let now = Moment { ticks: if has_counter() { counter() } else { 0 }, ns: monotonic_ns() };
    match ORIGIN.get_or_init(|| has_counter().then_some(now)) {
        None => _ = SCALE.set(TickScale::NONE),
        Some(origin) => {
            if let Some(scale) = scale_by(*origin, now) {
                let _ = SCALE.set(scale);
            }
        }
    }
    now.ns
}

/// The scale, once enough time has passed since the origin. A thread may have read the clocks
/// before the origin, and come here after another thread had set it.
fn scale_by(origin: Moment, now: Moment) -> Option<TickScale> {
    let passed = now.ns.saturating_sub(origin.ns);
    (passed >= CALIBRATION_NS).then(|| TickScale::between(origin, now))
}

/// Whether this processor has a time counter of constant rate that this process may read.
pub fn has_counter() -> bool {
    static USABLE: OnceLock<bool> = OnceLock::new();
    *USABLE.get_or_init(|| !is_simulated() && probe())
}

#[cfg(target_arch = "x86_64")]
fn probe() -> bool {
    use std::arch::x86_64::__cpuid;
    const POWER: u32 = 0x8000_0007;
    const INVARIANT_TSC: u32 = 1 << 8;
    let mut allowed: libc::c_int = 0;
    // SAFETY: PR_GET_TSC writes an int to where its argument points.
    let asked = unsafe { libc::prctl(libc::PR_GET_TSC, &mut allowed as *mut libc::c_int) };
    if asked == 0 && allowed != libc::PR_TSC_ENABLE {
        return false;
    }
    __cpuid(0x8000_0000).eax >= POWER && __cpuid(POWER).edx & INVARIANT_TSC != 0
}

/// The time counter. Without one ([`has_counter`]) the value means nothing.
#[cfg(target_arch = "x86_64")]
#[inline]
pub fn counter() -> u64 {
    // SAFETY: every x86-64 processor has the instruction; `probe` found that the process may use
    // it.
    unsafe { std::arch::x86_64::_rdtsc() }
}

#[cfg(target_arch = "aarch64")]
fn probe() -> bool {
    // The architecture guarantees a constant rate, and Linux lets programs read it, as its own vDSO
    // does.
    true
}

/// The time counter.
#[cfg(target_arch = "aarch64")]
#[inline]
pub fn counter() -> u64 {
    let ticks: u64;
    // SAFETY: reads a register that Linux makes readable to all programs.
    unsafe {
        std::arch::asm!(
            "mrs {}, cntvct_el0",
            out(reg) ticks,
            options(nomem, nostack, preserves_flags)
        );
    }
    ticks
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn probe() -> bool {
    false
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
/// The time counter; there is none.
pub fn counter() -> u64 {
    0
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn moment(ticks: u64, ns: u64) -> Moment {
        Moment { ticks, ns }
    }

    #[test]
    fn scales_ticks_by_what_passed_on_both_clocks() {
        let scale = TickScale::between(moment(1000, 5_000), moment(1000 + 6_000_000, 2_005_000));
        for (ticks, ns) in [(1000, 5_000), (4000, 6_000), (3_000_001_000, 1_000_005_000)] {
            assert!(scale.ns(ticks).abs_diff(ns) <= 1, "{ticks}: {}", scale.ns(ticks));
        }
        // Before the origin, as on another socket; and after more years than a machine runs.
        assert_eq!(scale.ns(10), 5_000);
        assert!(scale.ns(u64::MAX / 4) > u64::MAX / 16);
    }

    #[test]
    fn waits_for_the_scale_until_enough_time_has_passed() {
        let origin = moment(9_000_000, 5_000_000);
        for ns in [0, 4_999_999, 5_000_000, 6_999_999] {
            assert!(scale_by(origin, moment(ns, ns)).is_none(), "{ns}");
        }
        let scale = scale_by(origin, moment(15_000_000, 7_000_000)).expect("2 ms");
        assert_eq!(scale.ns(15_000_000), 7_000_000 - 1);
    }

    #[test]
    fn refuses_a_counter_that_counts_something_else() {
        let origin = moment(1000, 1000);
        for later in [
            moment(1000, 2_001_000),
            moment(500, 2_001_000),
            moment(1001, 2_001_000),
            moment(1 << 40, 2_001_000),
        ] {
            assert_eq!(TickScale::between(origin, later).factor, 0, "{later:?}");
        }
    }

    #[test]
    fn follows_the_system_clock() {
        let (mut before, system) = (now_ns(), monotonic_ns());
        assert!(before.abs_diff(system) < 1_000_000_000);
        for _ in 0..5 {
            std::thread::sleep(Duration::from_millis(3));
            let (now, system) = (now_ns(), monotonic_ns());
            assert!(now > before, "{now} after {before}");
            // This thread may have lost its core for long between the two readings.
            assert!(now.abs_diff(system) < 10_000_000_000, "{now} and {system}");
            before = now;
        }
    }
}
