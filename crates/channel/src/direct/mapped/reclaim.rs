//! The thread that gives memory back soon after the program has freed it, even if the program makes
//! no further MPI calls.
//!
//! `free` unmaps a block without notice to the library. So, from the first migration on, a thread
//! of the library periodically asks the kernel whether the migrated memory is still mapped (0.35 us
//! an area), and takes a census if it is not. The thread waits for no messages, delays them only by
//! holding the registry's lock, and accesses no memory of the program.
//!
//! The interval bounds the freed memory that has not been given back: while at most [`BOUND`] is
//! migrated, the interval doubles up to 500 ms; above that, it is 20 ms, in which a program can
//! hardly fill more than [`BOUND`] of new memory.
//!
//! It counts as a thread that does not access the program's memory. So it uses memory of malloc,
//! which may share a page with a buffer that is being migrated, only under the registry's lock, and
//! it waits on a word of the library's static data.
//!
//! A child of `fork` has no such thread, and no migrated memory. The thread holds nothing that
//! `exit` would have to wait for, ends when no thread of the program is left (`pthread_exit` by
//! all), and the library is never unloaded (`-z nodelete`).

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use super::eligibility::{HelperThread, SkipReason};
use super::owners::OWNERS;
use mica_node::futex::{self, FutexScope};
use mica_node::process_stat::ProcessStat;
use mica_node::signals::SignalsBlocked;

/// Bytes of migrated memory up to which the long interval applies.
const BOUND: usize = 64 << 20;

/// Interval between two checks after a change, and while more than [`BOUND`] is migrated.
const SHORT: Duration = Duration::from_millis(20);

/// Longest interval between two checks.
const LONG: Duration = Duration::from_millis(500);

/// Interval while nothing is migrated: only to detect the end of the process.
const IDLE: Duration = Duration::from_secs(1);

/// Bytes of the thread's stack. The thread only makes system calls, but the stack also holds the
/// thread-local data of all loaded objects.
const STACK: usize = 256 << 10;

/// Held while the thread is being started.
static STARTING: Mutex<()> = Mutex::new(());

/// Process number of the process that has the thread.
static PROCESS: AtomicU32 = AtomicU32::new(0);

/// Counts the events that wake the thread.
static NUDGES: AtomicU32 = AtomicU32::new(0);

/// Whether this process has the thread.
pub(super) fn is_running() -> bool {
    // SYNC running
    PROCESS.load(Ordering::Acquire) == std::process::id()
}

/// Starts the thread, once per process; call it without the owners' lock.
///
/// # Errors
/// When the thread cannot be started (limits).
pub(super) fn start() -> Result<(), SkipReason> {
    let _starting = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
    if is_running() {
        return Ok(());
    }
    let builder = thread::Builder::new().name("mica-reclaim".to_owned());
    let blocked = SignalsBlocked::new();
    let spawned = builder.stack_size(STACK).spawn(|| {
        let _helper = HelperThread::new();
        // SYNC running: a thread that sees this store sees the count of helpers.
        PROCESS.store(std::process::id(), Ordering::Release);
        reclaim_until_alone()
    });
    drop(blocked);
    spawned.map_err(|_| SkipReason::NoHelper)?;
    // Wait until it counts as a helper and its start-up is over, so that a process with one thread
    // of its own is treated as single-threaded from the first migration on.
    while !is_running() {
        thread::yield_now();
    }
    Ok(())
}

/// Wakes the thread and resets its interval, since something has been migrated.
pub(super) fn nudge() {
    // Relaxed: it publishes no other data.
    NUDGES.fetch_add(1, Ordering::Relaxed);
    futex::wake_one(&NUDGES, FutexScope::Process);
}

/// Checks for memory to give back, until no other thread is left.
fn reclaim_until_alone() {
    let mut known = None;
    let mut pause = SHORT;
    loop {
        let nudges = NUDGES.load(Ordering::Relaxed);
        let now = sweep_owners();
        if is_left_alone() {
            return;
        }
        if now.bytes == 0 {
            futex::wait(&NUDGES, nudges, FutexScope::Process, Some(IDLE));
            continue;
        }
        let most = if now.bytes > BOUND { SHORT } else { LONG };
        pause = if known == Some(now) { (pause * 2).min(most) } else { SHORT };
        known = Some(now);
        futex::wait(&NUDGES, nudges, FutexScope::Process, Some(pause));
    }
}

/// Whether all threads of the program have ended. The process ends with its last thread, which must
/// not be this one.
fn is_left_alone() -> bool {
    let helpers = u64::from(HelperThread::count());
    ProcessStat::own().is_some_and(|stat| stat.state == 'Z' && stat.threads <= 1 + helpers)
}

/// What one check found.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Seen {
    bytes: usize,
    moves: u64,
}

/// Gives back memory that is no longer mapped.
fn sweep_owners() -> Seen {
    let mut owners = OWNERS.lock();
    let mut seen = Seen { bytes: 0, moves: 0 };
    for owner in &mut owners.list {
        if owner.has_migrated_any() && owner.has_lost_some() {
            // The program's threads may change what is mapped meanwhile. If that keeps the census
            // from completing, the next check repeats it.
            let _ = owner.sweep(false);
        }
        seen.bytes += if owner.is_off { 0 } else { owner.bytes() };
        seen.moves += owner.moves;
    }
    seen
}
