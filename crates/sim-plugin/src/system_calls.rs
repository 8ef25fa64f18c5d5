//! System calls of the program whose results the simulator gives: what time it is, and random
//! bytes.
//!
//! The emulator carries all calls out. After it has, the results of those that tell the time are
//! replaced by simulated time, and random bytes by those of a seeded generator, so that equal input
//! means equal cycles. A sleep lasts its simulated time besides its real one.

use std::io;

use mica_sim::time::SimTime;

use crate::memory_file::GuestMemory;

/// What `CLOCK_REALTIME` says at the start of the simulation: 1 January 2026, 00:00 UTC.
const EPOCH: u64 = 1_767_225_600;

/// A system call between its start and its end.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemCall {
    number: i64,
    arguments: [u64; 6],
}

/// What the node has to do when a call has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Nothing.
    None,
    /// The clock goes on by this much, or to this moment.
    Sleep(SimTime),
    /// As `Sleep`, to a moment.
    SleepUntil(SimTime),
    /// The program has mapped `length` bytes of descriptor `fd` at `address`.
    Mapped {
        /// The descriptor.
        fd: i32,
        /// Where.
        address: u64,
    },
    /// This process is the child of a fork.
    Forked,
}

impl SystemCall {
    /// The call that starts.
    pub fn new(number: i64, arguments: [u64; 6]) -> SystemCall {
        SystemCall { number, arguments }
    }

    /// Replaces the results of the call, which returned `result` at the moment `now`.
    pub fn finish(
        &self,
        result: i64,
        now: SimTime,
        memory: &GuestMemory,
        random: &mut fastrand::Rng,
    ) -> io::Result<Effect> {
        let [a, b, c, ..] = self.arguments;
        match self.number {
            libc::SYS_clock_gettime if result == 0 => {
                let start = match a as i32 {
                    libc::CLOCK_REALTIME | libc::CLOCK_REALTIME_COARSE | libc::CLOCK_TAI => EPOCH,
                    _ => 0,
                };
                memory.write(b, &pair(start, now, 1000))?;
            }
            libc::SYS_gettimeofday if result == 0 && a != 0 => {
                memory.write(a, &pair(EPOCH, now, 1_000_000))?;
            }
            libc::SYS_time if a != 0 => {
                memory.write(a, &(EPOCH + now.0 / PICOSECONDS).to_le_bytes())?;
            }
            libc::SYS_getrandom if result > 0 => {
                let mut bytes = vec![0; result as usize];
                random.fill(&mut bytes);
                memory.write(a, &bytes)?;
            }
            libc::SYS_nanosleep if result == 0 => {
                return Ok(Effect::Sleep(duration(memory, a)?));
            }
            libc::SYS_clock_nanosleep if result == 0 => {
                let asked = duration(memory, c)?;
                return Ok(match b as i32 & libc::TIMER_ABSTIME {
                    0 => Effect::Sleep(asked),
                    _ => Effect::SleepUntil(asked),
                });
            }
            libc::SYS_mmap if result > 0 && c != 0 => {
                return Ok(Effect::Mapped { fd: self.arguments[4] as i32, address: result as u64 });
            }
            libc::SYS_fork | libc::SYS_vfork | libc::SYS_clone | libc::SYS_clone3
                if result == 0 =>
            {
                return Ok(Effect::Forked);
            }
            _ => {}
        }
        Ok(Effect::None)
    }
}

const PICOSECONDS: u64 = 1_000_000_000_000;

/// `struct timespec` or `timeval` of a clock that began at second `start`: seconds, and the rest in
/// units of `unit` picoseconds.
fn pair(start: u64, now: SimTime, unit: u64) -> [u8; 16] {
    let seconds = start + now.0 / PICOSECONDS;
    let rest = now.0 % PICOSECONDS / unit;
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&seconds.to_le_bytes());
    bytes[8..].copy_from_slice(&rest.to_le_bytes());
    bytes
}

/// The `struct timespec` at `address`.
fn duration(memory: &GuestMemory, address: u64) -> io::Result<SimTime> {
    let mut bytes = [0; 16];
    memory.read(address, &mut bytes)?;
    let word = |i: usize| u64::from_le_bytes(bytes[i..i + 8].try_into().expect("eight bytes"));
    Ok(SimTime(word(0).saturating_mul(PICOSECONDS)) + SimTime(word(8).saturating_mul(1000)))
}
