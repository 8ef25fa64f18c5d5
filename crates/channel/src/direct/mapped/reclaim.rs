//! The thread that gives memory back soon after the program has freed it, whatever the program does then.
//!
//! `free` unmaps a block without telling anybody. So, from the first migration on, a thread of the library asks the kernel now and
//! then whether what was migrated is still mapped (0.35 us an area), and has a census made if not. It has no arrivals to wait
//! for, takes no time from messages but for the registry's lock, touches no memory of the program, and sleeps for good while
//! nothing is migrated.
//!
//! How often it looks bounds what may linger: while at most [`BOUND`] is migrated, less and less often, down to twice a second;
//! above that, every 20 ms, in which a program can hardly fill more than that much new memory.
//!
//! A child of `fork` has no such thread, and no migrated memory. The thread is never ended: it holds nothing that the end of the
//! process would have to wait for, and the library is never unloaded (`-z nodelete`).

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, Thread};
use std::time::Duration;

use super::OWNERS;
use super::checks::{HelperThread, Kept};
use super::motion::SignalsBlocked;

/// Bytes that are looked after at leisure.
const BOUND: usize = 64 << 20;

/// Between two looks: after a change, and while more than [`BOUND`] is migrated.
const SHORT: Duration = Duration::from_millis(20);

/// Between two looks at most.
const LONG: Duration = Duration::from_millis(500);

/// The stack: it only calls the kernel. Thread-local data of all loaded objects comes out of it, too.
const STACK: usize = 256 << 10;

/// The process that the thread is in, and the thread.
static RUNNING: Mutex<Option<(u32, Thread)>> = Mutex::new(None);

/// The process that the thread is in, to be read without the lock.
static PROCESS: AtomicU32 = AtomicU32::new(0);

/// Whether this process has the thread.
pub(super) fn is_running() -> bool {
    PROCESS.load(Ordering::Relaxed) == std::process::id()
}

/// Starts the thread, once a process; to be called without the owners' lock.
///
/// # Errors
/// When there can be no thread (limits).
pub(super) fn start() -> Result<(), Kept> {
    let mut running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
    let process = std::process::id();
    if running.as_ref().is_some_and(|(known, _)| *known == process) {
        return Ok(());
    }
    let ready = Arc::new(AtomicBool::new(false));
    let starter = thread::current();
    let tell = Arc::clone(&ready);
    let body = move || {
        let _helper = HelperThread::new();
        tell.store(true, Ordering::Release);
        starter.unpark();
        look_after();
    };
    let builder = thread::Builder::new().name("mica-reclaim".to_owned());
    let blocked = SignalsBlocked::new();
    let spawned = builder.stack_size(STACK).spawn(body);
    drop(blocked);
    let spawned = spawned.map_err(|_| Kept::NoHelper)?;
    // Until it counts as a helper: a process with one thread of its own is treated as such from the first migration on.
    // SYNC pairs with the Release above: the count of helpers is seen.
    while !ready.load(Ordering::Acquire) {
        thread::park();
    }
    *running = Some((process, spawned.thread().clone()));
    PROCESS.store(process, Ordering::Relaxed);
    Ok(())
}

/// Has the thread look more often again: something has been migrated. To be called without the owners' lock.
pub(super) fn nudge() {
    let running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((process, thread)) = &*running
        && *process == std::process::id()
    {
        thread.unpark();
    }
}

fn look_after() -> ! {
    let mut known = None;
    let mut pause = SHORT;
    loop {
        let now = look();
        if now.bytes == 0 {
            thread::park();
            continue;
        }
        let most = if now.bytes > BOUND { SHORT } else { LONG };
        pause = if known == Some(now) {
            (pause * 2).min(most)
        } else {
            SHORT
        };
        known = Some(now);
        thread::park_timeout(pause);
    }
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
        if owner.has_moved() && owner.has_lost_some() {
            // The program's threads may change what is mapped meanwhile. Where that keeps the census from ending, the next time.
            let _ = owner.sweep(false);
        }
        seen.bytes += if owner.is_off { 0 } else { owner.bytes() };
        seen.moves += owner.moves;
    }
    seen
}
