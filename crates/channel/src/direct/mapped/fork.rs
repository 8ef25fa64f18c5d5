//! `fork` while buffers are moved: the child gets private copies, as it would have got of memory that never moved.
//!
//! The child makes the copies itself, in its fork handler, and the parent's handler waits for it. So the parent's buffers
//! stay as they are, transfers in progress go on, and other threads of the parent never meet a page that is being replaced.
//! Before the fork the registry is locked, so that the child finds it consistent; it is of no use there but to know
//! that. Children made without handlers (`vfork`, `posix_spawn`, `_Fork`, `clone`) share the buffers until they exec.

use std::cell::Cell;
use std::sync::Once;

use super::OWNERS;
use super::owner::Owner;
use mica_node::maps::Maps;

/// What the handlers of one fork tell each other; behind the lock that they hold.
#[derive(Debug)]
pub(super) struct Forking {
    /// Read and write end of the pipe whose end tells the parent that the child has its copies.
    pipe: Option<[i32; 2]>,
    /// No pipe could be had: the areas were hidden from the child.
    hidden: bool,
}

impl Forking {
    pub const NONE: Forking = Forking {
        pipe: None,
        hidden: false,
    };
}

thread_local! {
    static SKIPPED: Cell<bool> = const { Cell::new(false) };
}

/// Sets the handlers up, once.
pub(super) fn watch() -> Result<(), i32> {
    static ONCE: Once = Once::new();
    static RESULT: std::sync::atomic::AtomicI32 = std::sync::atomic::AtomicI32::new(0);
    ONCE.call_once(|| {
        // SAFETY: the handlers live as long as the object that they are in, whose unloading removes them.
        let result = unsafe { libc::pthread_atfork(Some(prepare), Some(parent), Some(child)) };
        RESULT.store(result, std::sync::atomic::Ordering::Relaxed);
    });
    match RESULT.load(std::sync::atomic::Ordering::Relaxed) {
        0 => Ok(()),
        errno => Err(errno),
    }
}

extern "C" fn prepare() {
    if OWNERS.is_mine() {
        // A signal handler forks in the middle of our own work: nothing can be done for its child.
        SKIPPED.set(true);
        return;
    }
    OWNERS.acquire();
    // SAFETY: 1. just acquired; 2. the only reference.
    let owners = unsafe { OWNERS.value() };
    owners.forking = Forking::NONE;
    if owners.list.iter().all(|owner| !owner.has_moved()) {
        return;
    }
    let mut ends = [0; 2];
    // SAFETY: writes two descriptors to `ends`.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } == 0 {
        owners.forking.pipe = Some(ends);
    } else {
        owners.forking.hidden = true;
        hide(&owners.list, libc::MADV_DONTFORK);
    }
}

fn hide(owners: &[Owner], advice: i32) {
    for owner in owners {
        owner.each_area(&owner.maps, |area| {
            let at = std::ptr::with_exposed_provenance_mut(area.addresses.start);
            // SAFETY: advice on an area that exists, which changes no byte.
            unsafe { libc::madvise(at, area.addresses.len(), advice) };
        });
    }
}

extern "C" fn parent() {
    if !began() {
        return;
    }
    // SAFETY: 1. acquired in `prepare`; 2. the only reference.
    let owners = unsafe { OWNERS.value() };
    let forking = std::mem::replace(&mut owners.forking, Forking::NONE);
    if let Some([read, write]) = forking.pipe {
        // SAFETY: both descriptors are ours; `read` writes one byte at most.
        unsafe {
            libc::close(write);
            let mut byte = 0u8;
            // Ends when the child is done, or dead, or was never made.
            while libc::read(read, (&raw mut byte).cast(), 1) < 0
                && *libc::__errno_location() == libc::EINTR
            {}
            libc::close(read);
        }
    }
    if forking.hidden {
        hide(&owners.list, libc::MADV_DOFORK);
    }
    OWNERS.release();
}

extern "C" fn child() {
    if !began() {
        return;
    }
    // SAFETY: 1. acquired in `prepare` by the thread that this one is a copy of; 2. the only reference.
    let owners = unsafe { OWNERS.value() };
    let forking = std::mem::replace(&mut owners.forking, Forking::NONE);
    for owner in &mut owners.list {
        owner.is_off = true;
    }
    if let Some([read, write]) = forking.pipe {
        // The parent's map would tell of the parent.
        match Maps::open() {
            Ok(maps) => {
                for owner in &owners.list {
                    // SAFETY: 1. a child of fork has one thread; 2. the kernel has just said so.
                    owner.each_area(&maps, |area| unsafe { super::motion::make_private(area) });
                }
            }
            // By what the parent knew: another thread may have moved something since, at worst.
            Err(_) => {
                for owner in &owners.list {
                    for hint in &owner.hints {
                        let at = std::ptr::with_exposed_provenance_mut(hint.addresses.start);
                        // SAFETY: the child has no other use for memory that it must not share.
                        unsafe { libc::munmap(at, hint.addresses.len()) };
                    }
                }
            }
        }
        let byte = 1u8;
        // SAFETY: both descriptors are the child's own copies.
        unsafe {
            libc::write(write, (&raw const byte).cast(), 1);
            libc::close(write);
            libc::close(read);
        }
    }
    OWNERS.release();
}

/// Whether `prepare` took the lock for this fork.
fn began() -> bool {
    !SKIPPED.replace(false)
}
