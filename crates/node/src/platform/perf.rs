//! Counters of the kernel's event sources, by perf_event_open(2): a processor's units outside its
//! cores (links between chips, memory controllers), or software events.
//!
//! `mica links` opens the counters that `mica_links::counters` has found in sysfs, to learn whether
//! the kernel permits it and what a reading costs. The ranks of `bench/src/links.c` open the same
//! list themselves. A unit outside the cores counts for all processes, so it is opened for a
//! processor of its package, with no process ([`CountedPlace::Processor`]); the kernel permits that
//! to root, to CAP_PERFMON, and to all users if `perf_event_paranoid` is 0 or less.
//!
//! If more events are open than a unit has counters, the kernel lets them take turns. It reports
//! for how long each event was open and for how long it counted; [`PerfCounter::read`] scales the
//! count by that.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::FromRawFd;

/// The first version of the kernel's `struct perf_event_attr` (include/uapi/linux/perf_event.h,
/// `PERF_ATTR_SIZE_VER0`). All kernels take it; what later versions added is zero.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
struct PerfEventAttributes {
    event_type: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    breakpoint_type: u32,
    breakpoint_address: u64,
}

const _: () = assert!(size_of::<PerfEventAttributes>() == 64);

/// `PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING`.
const TIMES: u64 = 1 | 2;

/// `PERF_FLAG_FD_CLOEXEC`.
const CLOSE_ON_EXEC: libc::c_ulong = 8;

/// What an event source shall count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PerfEvent {
    /// The event source: the number in its file `type`.
    pub event_type: u32,
    /// Which of its events, encoded as its folder `format` says.
    pub config: u64,
}

/// What is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CountedPlace {
    /// The calling thread, wherever it runs.
    ThisThread,
    /// A processor, whatever runs there; of a unit outside the cores, the unit of its package.
    Processor(u32),
}

/// An open counter. It counts from its opening on.
#[derive(Debug)]
pub struct PerfCounter(File);

impl PerfCounter {
    /// Opens a counter.
    ///
    /// # Errors
    /// What the kernel says: no such event source, no such event, or no permission.
    pub fn open(event: PerfEvent, place: CountedPlace) -> io::Result<PerfCounter> {
        let attributes = PerfEventAttributes {
            event_type: event.event_type,
            size: size_of::<PerfEventAttributes>() as u32,
            config: event.config,
            read_format: TIMES,
            ..PerfEventAttributes::default()
        };
        let (process, processor): (libc::pid_t, libc::c_int) = match place {
            CountedPlace::ThisThread => (0, -1),
            CountedPlace::Processor(number) => {
                let number = libc::c_int::try_from(number);
                (-1, number.map_err(|_| io::ErrorKind::InvalidInput)?)
            }
        };
        // SAFETY: the kernel reads `size` bytes of attributes, which live until the call returns;
        // the other arguments are numbers.
        let result = unsafe {
            libc::syscall(
                libc::SYS_perf_event_open,
                &raw const attributes,
                process,
                processor,
                -1 as libc::c_int,
                CLOSE_ON_EXEC,
            )
        };
        let Ok(descriptor @ 0..) = i32::try_from(result) else {
            return Err(io::Error::last_os_error());
        };
        // SAFETY: the kernel has just opened the descriptor for this call; nothing else owns it.
        Ok(PerfCounter(unsafe { File::from_raw_fd(descriptor) }))
    }

    /// The count so far. One system call; for a unit of another processor, an interrupt there.
    ///
    /// # Errors
    /// If the kernel no longer counts the event.
    pub fn read(&self) -> io::Result<u64> {
        let mut bytes = [0; 24];
        (&self.0).read_exact(&mut bytes)?;
        let word = |at: usize| {
            let bytes = bytes[at..at + 8].try_into().expect("eight bytes");
            u64::from_ne_bytes(bytes)
        };
        Ok(scaled(word(0), word(8), word(16)))
    }
}

/// The count that an event would have that had counted all the time that it was open.
fn scaled(count: u64, open: u64, counted: u64) -> u64 {
    match counted {
        0 => 0,
        _ if counted == open => count,
        _ => (u128::from(count) * u128::from(open) / u128::from(counted)) as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Context switches and CPU time are events of the kernel itself: each machine has them,
    /// and only the kernel's policy can refuse them.
    const SOFTWARE: u32 = 1;
    const TASK_CLOCK: u64 = 1;

    #[test]
    fn counts_a_software_event_or_is_refused() {
        let event = PerfEvent { event_type: SOFTWARE, config: TASK_CLOCK };
        match PerfCounter::open(event, CountedPlace::ThisThread) {
            Ok(counter) => {
                let first = counter.read().expect("an open counter");
                let mut later = first;
                while later == first {
                    later = counter.read().expect("an open counter");
                }
                assert!(later > first, "CPU time of this thread goes on");
            }
            Err(error) => {
                let expected = [libc::EACCES, libc::EPERM, libc::ENOSYS];
                let code = error.raw_os_error().expect("the kernel's answer");
                assert!(expected.contains(&code), "{error}");
            }
        }
    }

    #[test]
    fn refuses_event_sources_and_processors_that_do_not_exist() {
        let nothing = PerfEvent { event_type: 0x7fff_0000, config: 0 };
        assert!(PerfCounter::open(nothing, CountedPlace::ThisThread).is_err());
        let clock = PerfEvent { event_type: SOFTWARE, config: 0 };
        for processor in [1 << 20, u32::MAX] {
            assert!(PerfCounter::open(clock, CountedPlace::Processor(processor)).is_err());
        }
    }

    #[test]
    fn counts_of_events_that_took_turns_are_scaled() {
        assert_eq!(scaled(100, 8, 8), 100);
        assert_eq!(scaled(100, 8, 2), 400);
        assert_eq!(scaled(0, 8, 0), 0);
        assert_eq!(scaled(u64::MAX / 2, 4, 2), u64::MAX - 1);
    }
}
