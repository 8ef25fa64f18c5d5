//! The thread that gives memory back soon after the program has freed it, whatever the program does
//! then.
//!
//! `free` unmaps a block without telling anybody. So, from the first migration on, a thread of the
//! library asks the kernel now and then whether what was migrated is still mapped (0.35 us an
//! area), and has a census made if not. It has no arrivals to wait for, takes no time from messages
//! but for the registry's lock, and touches no memory of the program.
//!
//! How often it looks bounds what may linger: while at most [`BOUND`] is migrated, less and less
//! often, down to twice a second; above that, every 20 ms, in which a program can hardly fill more
//! than that much new memory.
//!
//! It counts as a thread that does not touch the program's memory: so it uses memory of malloc,
//! which may share a page with a buffer that is being migrated, under the registry's lock only, and
//! waits on a word of the library's static data.
//!
//! A child of `fork` has no such thread, and no migrated memory. The thread holds nothing that
//! `exit` would have to wait for, ends when no thread of the program is left (`pthread_exit` by
//! all), and the library is never unloaded (`-z nodelete`).

use std::fs::File;
use std::io::Read;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use super::OWNERS;
use super::eligibility::{HelperThread, SkipReason};
use super::migration::SignalsBlocked;
use mica_node::futex::{self, FutexScope};

/// Bytes that are looked after at leisure.
const BOUND: usize = 64 << 20;

/// Between two looks: after a change, and while more than [`BOUND`] is migrated.
const SHORT: Duration = Duration::from_millis(20);

/// Between two looks at most.
const LONG: Duration = Duration::from_millis(500);

/// While nothing is migrated: only for the end of the process.
const IDLE: Duration = Duration::from_secs(1);

/// The stack: it only calls the kernel. Thread-local data of all loaded objects comes out of it,
/// too.
const STACK: usize = 256 << 10;

/// Held while the thread is being started.
static STARTING: Mutex<()> = Mutex::new(());

/// The process that the thread is in.
static PROCESS: AtomicU32 = AtomicU32::new(0);

/// Counts what the thread is to be woken for.
static NUDGES: AtomicU32 = AtomicU32::new(0);

/// Whether this process has the thread.
pub(super) fn is_running() -> bool {
    // SYNC running
    PROCESS.load(Ordering::Acquire) == std::process::id()
}

/// Starts the thread, once a process; to be called without the owners' lock.
///
/// # Errors
/// When there can be no thread (limits).
pub(super) fn start() -> Result<(), SkipReason> {
    let _starting = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
    if is_running() {
        return Ok(());
    }
    let builder = thread::Builder::new().name("mica-reclaim".to_owned());
    let blocked = SignalsBlocked::new();
    let spawned = builder.stack_size(STACK).spawn(|| {
        let _helper = HelperThread::new();
        // SYNC running: whoever sees this sees the count of helpers.
        PROCESS.store(std::process::id(), Ordering::Release);
        look_after()
    });
    drop(blocked);
    spawned.map_err(|_| SkipReason::NoHelper)?;
    // Until it counts as a helper, and has done what a thread does at its start: a process with one
    // thread of its own is treated as such from the first migration on.
    while !is_running() {
        thread::yield_now();
    }
    Ok(())
}

/// Has the thread look more often again: something has been migrated.
pub(super) fn nudge() {
    // Nothing else is published by it.
    NUDGES.fetch_add(1, Ordering::Relaxed);
    futex::wake_one(&NUDGES, FutexScope::Process);
}

/// Looks for what can be given back, until no other thread is left.
fn look_after() {
    let mut known = None;
    let mut pause = SHORT;
    loop {
        let nudges = NUDGES.load(Ordering::Relaxed);
        let now = look();
        if is_left_alone() {
            return;
        }
        if now.bytes == 0 {
            futex::wait(&NUDGES, nudges, FutexScope::Process, Some(IDLE));
            continue;
        }
        let most = if now.bytes > BOUND { SHORT } else { LONG };
        pause = if known == Some(now) {
            (pause * 2).min(most)
        } else {
            SHORT
        };
        known = Some(now);
        futex::wait(&NUDGES, nudges, FutexScope::Process, Some(pause));
    }
}

/// Whether all threads of the program have ended. The process ends with its last thread, which must
/// not be this one.
fn is_left_alone() -> bool {
    let mut text = [0u8; 1024];
    let read = File::open("/proc/self/stat").and_then(|mut stat| stat.read(&mut text));
    let Ok(stat) = read.map(|len| str::from_utf8(&text[..len]).unwrap_or_default()) else {
        return false;
    };
    // After the name, which may have anything in it: the first thread's state, and 17 fields on the
    // number of threads.
    let mut fields = stat.rsplit(") ").next().unwrap_or_default().split(' ');
    let has_ended = fields.next() == Some("Z");
    let threads = fields.nth(16).and_then(|count| count.parse().ok());
    has_ended && threads.is_some_and(|count: u32| count <= 1 + HelperThread::count())
}

/// What there was at a look.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Seen {
    bytes: usize,
    moves: u64,
}

/// Gives back what is mapped no more.
fn look() -> Seen {
    let mut owners = OWNERS.lock();
    let mut seen = Seen { bytes: 0, moves: 0 };
    for owner in &mut owners.list {
        if owner.has_migrated_any() && owner.has_lost_some() {
            // The program's threads may change what is mapped meanwhile. Where that keeps the
            // census from ending, the next time.
            let _ = owner.sweep(false);
        }
        seen.bytes += if owner.is_off { 0 } else { owner.bytes() };
        seen.moves += owner.moves;
    }
    seen
}
