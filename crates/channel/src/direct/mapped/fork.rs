//! `fork` while buffers are migrated: the child gets private copies, as it would of memory that was
//! never migrated.
//!
//! The child makes the copies itself, in its fork handler, and the parent's handler waits for it.
//! So the parent's buffers stay as they are, transfers in progress continue, and other threads of
//! the parent never access a page that is being replaced. The registry is locked before the fork,
//! so that the child finds it consistent; the child only uses it to make the copies.
//!
//! Migrated memory is marked MADV_DONTFORK, except during a fork with handlers. So a child made
//! without them (`_Fork`, `clone` without CLONE_VM, `fork` in a signal handler that has interrupted
//! the registry) does not share it with its parent, but faults where it uses it. The child's
//! handler must not write to memory of malloc before all migrated memory is private, since it may
//! be on a migrated page: the handler allocates nothing until then. Handlers that other code has
//! registered earlier run before it, so these are registered when the library is loaded. `vfork`
//! and `posix_spawn` share all memory anyway, until they exec.

use std::cell::Cell;
use std::ops::Range;
use std::sync::Once;

use super::buffers::{InChild, MigratedBuffers};
use super::owners::{Forking, OWNERS};
use super::{eligibility, raw};
use mica_node::procmap::ProcMap;

thread_local! {
    static SKIPPED: Cell<bool> = const { Cell::new(false) };
}

/// Registers the handlers, once.
pub(super) fn watch() -> Result<(), i32> {
    static ONCE: Once = Once::new();
    static RESULT: std::sync::atomic::AtomicI32 = std::sync::atomic::AtomicI32::new(0);
    ONCE.call_once(|| {
        // SAFETY: the handlers live as long as the object that they are in, whose unloading removes
        // them.
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
        // A signal handler forks while this thread is in the registry: nothing can be done for its
        // child.
        SKIPPED.set(true);
        return;
    }
    OWNERS.acquire();
    // SAFETY: 1. just acquired; 2. the only reference.
    let owners = unsafe { OWNERS.value() };
    owners.forking = Forking::NONE;
    if owners.list.iter().all(|owner| !owner.has_migrated_any()) {
        return;
    }
    let mut ends = [0; 2];
    // SAFETY: writes two descriptors to `ends`.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } == 0 {
        owners.forking.pipe = Some(ends);
        owners.forking.advised = owners.list.iter().flat_map(MigratedBuffers::for_child).collect();
        advise(&owners.list, libc::MADV_DOFORK);
    }
    // Without a pipe, the child does not get the migrated memory.
}

fn advise(owners: &[MigratedBuffers], advice: i32) {
    for owner in owners {
        owner.each_area(&owner.maps, |area| {
            let Range { start, end } = area.addresses;
            // SAFETY: advice on an area that exists, which changes no byte.
            let _ = unsafe { raw::advise(start, end - start, advice) };
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
        // SAFETY: this process owns both descriptors; `read` writes one byte at most.
        unsafe {
            libc::close(write);
            let mut byte = 0u8;
            // Returns when the child is done, has died, or was never created.
            while libc::read(read, (&raw mut byte).cast(), 1) < 0
                && *libc::__errno_location() == libc::EINTR
            {}
            libc::close(read);
        }
        advise(&owners.list, libc::MADV_DONTFORK);
    }
    // SAFETY: 1. acquired in `prepare`; 2. `owners` is not used any more.
    unsafe { OWNERS.release() };
}

extern "C" fn child() {
    if !began() {
        return;
    }
    // SAFETY: 1. acquired in `prepare` by the thread that this one is a copy of; 2. the only
    // reference.
    let owners = unsafe { OWNERS.value() };
    if let Some([read, write]) = owners.forking.pipe {
        make_own(&owners.list);
        // From here on this process writes to its own memory only.
        for (part, kind) in &owners.forking.advised {
            carry_out(part, *kind);
        }
        let byte = 1u8;
        // SAFETY: both descriptors are the child's own copies.
        unsafe {
            libc::write(write, (&raw const byte).cast(), 1);
            libc::close(write);
            libc::close(read);
        }
    }
    owners.forking = Forking::NONE;
    for owner in &mut owners.list {
        owner.is_off = true;
    }
    eligibility::HelperThread::none_in_child();
    // SAFETY: 1. acquired in `prepare` by the thread that this one is a copy of; 2. `owners` is not
    // used any more.
    unsafe { OWNERS.release() };
}

/// Makes all migrated memory private to the child, without writing to any memory except the stack.
fn make_own(owners: &[MigratedBuffers]) {
    // The parent's map describes the parent, so the child opens its own.
    match ProcMap::open() {
        Ok(maps) => {
            for owner in owners {
                // SAFETY: 1. a child of fork has one thread; 2. the kernel has just reported the
                // area.
                owner.each_area(&maps, |area| unsafe { super::migration::make_private(area) });
            }
        }
        // Go by the parent's hints: at worst, another thread has moved something since.
        Err(_) => {
            for hint in owners.iter().flat_map(|owner| &owner.hints) {
                let at = std::ptr::with_exposed_provenance_mut(hint.addresses.start);
                // SAFETY: the child has no other use for memory that it must not share.
                unsafe { libc::munmap(at, hint.addresses.len()) };
            }
        }
    }
}

/// Carries out what the parent has advised for its child.
fn carry_out(part: &Range<usize>, kind: InChild) {
    let (at, len) = (part.start, part.len());
    // SAFETY: the parent has requested this for its child.
    unsafe {
        match kind {
            InChild::Absent => {
                libc::munmap(std::ptr::without_provenance_mut(at), len);
            }
            InChild::Wiped => {
                let _ = raw::advise(at, len, libc::MADV_DONTNEED);
                let _ = raw::advise(at, len, libc::MADV_WIPEONFORK);
            }
        }
    }
}

/// Registers the handlers when the library is loaded, before the code that uses it does: the
/// child's handlers run in the order in which they were registered.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = {
    extern "C" fn at_load() {
        // The first registry calls it again, and reports an error.
        let _ = watch();
    }
    at_load
};

/// Whether `prepare` took the lock for this fork.
fn began() -> bool {
    !SKIPPED.replace(false)
}
