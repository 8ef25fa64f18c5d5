//! Hooks that make `madvise`, `mremap` and similar calls of the program have the same effect on
//! migrated memory as on plain memory.
//!
//! From the first migration on, [`loader`] redirects the calls of these functions in all loaded
//! objects to this module. Calls on memory that is not migrated go straight to the kernel. Calls on
//! migrated memory:
//!
//! | call | here |
//! |---|---|
//! | `madvise`: MADV_DONTNEED, MADV_FREE | zeros: fresh private pages, or a hole in the file |
//! | MADV_DONTFORK, MADV_WIPEONFORK and their reverse | noted, for the child's fork handler |
//! | MADV_REMOVE | EINVAL, as for private memory |
//! | MADV_NORMAL, MADV_RANDOM, MADV_SEQUENTIAL | nothing: there is nothing to be read ahead |
//! | other advice that is known | the call |
//! | MADV_GUARD_INSTALL, unknown advice; `process_madvise` beyond a hint | EINVAL, as without it |
//! | `mremap` that enlarges or moves | a private copy elsewhere; ENOMEM without MREMAP_MAYMOVE |
//! | `mremap` that shrinks | the call |
//!
//! `syscall` with the number of one of these calls counts as the call. This module makes system
//! calls by the instruction, so it does not depend on which words of the library itself are hooked.

use std::ffi::{c_int, c_long, c_void};
use std::ops::Range;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use mica_node::page::kernel_page_size;

use super::buffers::InChild;
use super::eligibility::SkipReason;
use super::loader::{self, LoadCounts, Watched};
use super::owners::OWNERS;
use super::raw;

/// Constants of Linux that libc lacks.
const MADV_COLLAPSE: i32 = 25;
const MADV_DONTNEED_LOCKED: i32 = 24;
const MADV_SOFT_OFFLINE: i32 = 101;
const MADV_GUARD_REMOVE: i32 = 103;
const MREMAP_DONTUNMAP: i32 = 4;
const SYS_PROCESS_MADVISE: c_long = 440;

/// What an advice requires for migrated memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AdviceKind {
    /// The kernel's answer is the same as for plain memory.
    Plain,
    /// The contents may or must be discarded.
    Fresh,
    /// Nothing to do.
    Nothing,
    /// How a child gets the memory.
    Child(InChild, ChildAdvice),
    /// An error number.
    Refused(i32),
}

/// Advice about memory in children.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ChildAdvice {
    /// It gets the memory so.
    Given,
    /// It gets a copy again.
    Withdrawn,
}

fn wish(advice: i32) -> AdviceKind {
    match advice {
        libc::MADV_DONTNEED | libc::MADV_FREE | MADV_DONTNEED_LOCKED => AdviceKind::Fresh,
        libc::MADV_NORMAL | libc::MADV_RANDOM | libc::MADV_SEQUENTIAL => AdviceKind::Nothing,
        libc::MADV_DONTFORK => AdviceKind::Child(InChild::Absent, ChildAdvice::Given),
        libc::MADV_DOFORK => AdviceKind::Child(InChild::Absent, ChildAdvice::Withdrawn),
        libc::MADV_WIPEONFORK => AdviceKind::Child(InChild::Wiped, ChildAdvice::Given),
        libc::MADV_KEEPONFORK => AdviceKind::Child(InChild::Wiped, ChildAdvice::Withdrawn),
        libc::MADV_WILLNEED
        | libc::MADV_MERGEABLE
        | libc::MADV_UNMERGEABLE
        | libc::MADV_HUGEPAGE
        | libc::MADV_NOHUGEPAGE
        | libc::MADV_DONTDUMP
        | libc::MADV_DODUMP
        | libc::MADV_COLD
        | libc::MADV_PAGEOUT
        | libc::MADV_POPULATE_READ
        | libc::MADV_POPULATE_WRITE
        | libc::MADV_HWPOISON
        | MADV_COLLAPSE
        | MADV_SOFT_OFFLINE
        | MADV_GUARD_REMOVE => AdviceKind::Plain,
        _ => AdviceKind::Refused(libc::EINVAL),
    }
}

/// Installs the hooks; call it without the owners' lock.
///
/// # Errors
/// When some calls cannot be watched: then nothing may be migrated.
pub(super) fn watch() -> Result<Arc<LoadCounts>, SkipReason> {
    // SAFETY: the name is NUL-terminated.
    let real = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"syscall".as_ptr()) };
    let hook = syscall_hook as *const () as usize;
    if !real.is_null() && real.addr() != hook {
        REAL_SYSCALL.store(real.expose_provenance(), Ordering::Relaxed);
    }
    let watched = |name, hook| Watched { name, hook };
    loader::visit_all(&[
        watched(c"madvise", madvise as *const () as usize),
        watched(c"posix_madvise", posix_madvise as *const () as usize),
        watched(c"process_madvise", process_madvise as *const () as usize),
        watched(c"mremap", mremap as *const () as usize),
        watched(c"syscall", hook),
    ])
}

/// What is loaded; call it without the owners' lock.
///
/// # Errors
/// When it cannot be determined.
pub(super) fn survey() -> Result<Arc<LoadCounts>, SkipReason> {
    loader::visit_all(&[])
}

/// The C library's `syscall`.
static REAL_SYSCALL: AtomicUsize = AtomicUsize::new(0);

/// Replaces `syscall`. Only the watched calls go to Rust; all others (some of which return on
/// another stack) jump to the C library with every register as it was.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
extern "C" fn syscall_hook() {
    std::arch::naked_asm!(
        "endbr64",
        "cmp rdi, {madvise}",
        "je 2f",
        "cmp rdi, {mremap}",
        "je 2f",
        "cmp rdi, {process_madvise}",
        "je 2f",
        "jmp qword ptr [rip + {real}]",
        "2:",
        "jmp {watched}",
        madvise = const libc::SYS_madvise,
        mremap = const libc::SYS_mremap,
        process_madvise = const SYS_PROCESS_MADVISE,
        real = sym REAL_SYSCALL,
        watched = sym watched_syscall,
    )
}

/// As for x86-64.
#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
extern "C" fn syscall_hook() {
    std::arch::naked_asm!(
        "hint #34",
        "cmp x0, {madvise}",
        "b.eq 2f",
        "cmp x0, {mremap}",
        "b.eq 2f",
        "cmp x0, {process_madvise}",
        "b.eq 2f",
        "adrp x16, {real}",
        "ldr x16, [x16, :lo12:{real}]",
        "br x16",
        "2:",
        "b {watched}",
        madvise = const libc::SYS_madvise,
        mremap = const libc::SYS_mremap,
        process_madvise = const SYS_PROCESS_MADVISE,
        real = sym REAL_SYSCALL,
        watched = sym watched_syscall,
    )
}

extern "C" fn watched_syscall(
    number: c_long,
    a: usize,
    b: usize,
    c: usize,
    d: usize,
    e: usize,
) -> c_long {
    let result = match number {
        libc::SYS_madvise => on_madvise(a, b, c as i32),
        libc::SYS_mremap => on_mremap(a, b, c, d as i32, e),
        _ => on_process_madvise([a, b, c, d, e]),
    };
    answer(result) as c_long
}

extern "C" fn madvise(address: *mut c_void, len: usize, advice: c_int) -> c_int {
    answer(on_madvise(address.addr(), len, advice)) as c_int
}

/// As in glibc: returns an error number, and POSIX_MADV_DONTNEED has no effect.
extern "C" fn posix_madvise(address: *mut c_void, len: usize, advice: c_int) -> c_int {
    if advice == libc::POSIX_MADV_DONTNEED {
        return 0;
    }
    on_madvise(address.addr(), len, advice).err().unwrap_or(0)
}

extern "C" fn process_madvise(
    process: c_int,
    pieces: usize,
    count: usize,
    advice: c_int,
    flags: u32,
) -> isize {
    let arguments = [process as usize, pieces, count, advice as usize, flags as usize];
    answer(on_process_madvise(arguments))
}

/// The fifth argument is passed with MREMAP_FIXED or MREMAP_DONTUNMAP only; its register can be
/// read in any case.
extern "C" fn mremap(
    address: *mut c_void,
    old: usize,
    new: usize,
    flags: c_int,
    to: usize,
) -> *mut c_void {
    let result = answer(on_mremap(address.addr(), old, new, flags, to));
    ptr::with_exposed_provenance_mut(result as usize)
}

/// Returns errors as the C library does: -1 and `errno`.
fn answer(result: Result<usize, i32>) -> isize {
    match result {
        Ok(value) => value as isize,
        Err(errno) => {
            // SAFETY: this thread's own.
            unsafe { *libc::__errno_location() = errno };
            -1
        }
    }
}

/// Runs `body` and restores `errno`, which a call that succeeds must not change.
fn keeping_errno<T>(body: impl FnOnce() -> T) -> T {
    // SAFETY: this thread's own.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    let before = unsafe { *errno };
    let result = body();
    // SAFETY: as above.
    unsafe { *errno = before };
    result
}

fn kernel(number: c_long, [a, b, c, d, e]: [usize; 5]) -> Result<usize, i32> {
    // SAFETY: the program has requested this call.
    raw::check(unsafe { raw::call(number, [a, b, c, d, e, 0]) })
}

fn on_madvise(address: usize, len: usize, advice: i32) -> Result<usize, i32> {
    let plain = || kernel(libc::SYS_madvise, [address, len, advice as usize, 0, 0]);
    let wish = wish(advice);
    if wish == AdviceKind::Plain {
        return plain();
    }
    keeping_errno(|| {
        if OWNERS.is_mine() {
            // A signal handler has interrupted the library in the registry: what is migrated cannot
            // be determined.
            return Err(libc::EAGAIN);
        }
        let mut owners = OWNERS.lock();
        let Some(pages) = whole_pages(address, len)
            .filter(|pages| owners.list.iter().any(|owner| owner.has_migrated(pages)))
        else {
            drop(owners);
            return plain();
        };
        let mut rest = vec![pages.clone()];
        for owner in &mut owners.list {
            let met = owner.advised(&pages, wish, advice)?;
            rest = rest.iter().flat_map(|part| super::extents::without(part, &met)).collect();
        }
        let mut result = Ok(0);
        for part in rest {
            match kernel(libc::SYS_madvise, [part.start, part.len(), advice as usize, 0, 0]) {
                Ok(_) => {}
                // As in the kernel: what is not mapped does not keep the rest from being advised.
                Err(libc::ENOMEM) => result = Err(libc::ENOMEM),
                Err(errno) => return Err(errno),
            }
        }
        result
    })
}

/// The pages that a system call means by these arguments; `None` if it will refuse them.
fn whole_pages(address: usize, len: usize) -> Option<Range<usize>> {
    let page = kernel_page_size();
    let end = address.checked_add(len)?.checked_next_multiple_of(page)?;
    (address.is_multiple_of(page) && address < end).then_some(address..end)
}

fn on_process_madvise(arguments: [usize; 5]) -> Result<usize, i32> {
    let [_, pieces, count, advice, _] = arguments;
    let is_hint = matches!(wish(advice as i32), AdviceKind::Plain);
    if !is_hint && !OWNERS.is_mine() && pieces != 0 && count <= 1024 {
        let owners = OWNERS.lock();
        for i in 0..count {
            // SAFETY: the caller's array of `count` pieces, which the kernel would read as well.
            let piece = unsafe { *ptr::with_exposed_provenance::<libc::iovec>(pieces).add(i) };
            let pages = whole_pages(piece.iov_base.addr(), piece.iov_len);
            if pages.is_some_and(|pages| owners.list.iter().any(|o| o.has_migrated(&pages))) {
                return Err(libc::EINVAL);
            }
        }
    }
    kernel(SYS_PROCESS_MADVISE, arguments)
}

fn on_mremap(address: usize, old: usize, new: usize, flags: i32, to: usize) -> Result<usize, i32> {
    let plain = || kernel(libc::SYS_mremap, [address, old, new, flags as usize, to]);
    keeping_errno(|| {
        if OWNERS.is_mine() {
            return Err(libc::EAGAIN);
        }
        let mut owners = OWNERS.lock();
        // Length 0 asks for a second mapping of the same pages, which private memory does not have.
        let pages = whole_pages(address, old.max(1));
        let is_moved = flags & (libc::MREMAP_FIXED | MREMAP_DONTUNMAP) != 0;
        let Some(pages) = pages.filter(|pages| {
            (is_moved || new > old || old == 0)
                && owners.list.iter().any(|owner| owner.has_migrated(pages))
        }) else {
            drop(owners);
            return plain();
        };
        let is_odd = flags & MREMAP_DONTUNMAP != 0 && old != new;
        if old == 0 || new == 0 || is_odd {
            return Err(libc::EINVAL);
        }
        if flags & libc::MREMAP_MAYMOVE == 0 {
            // There is never room to grow in place.
            return Err(if is_moved { libc::EINVAL } else { libc::ENOMEM });
        }
        let copy = owners.list[0].relocate(&pages, new, flags, to)?;
        for owner in &mut owners.list {
            owner.have_lost(&pages);
        }
        Ok(copy)
    })
}

/// A private copy of `pages` with room for `new` bytes: what `mremap` gives, made by other means.
///
/// # Safety
/// `pages` are mapped with this protection, and the caller's to take away.
pub(super) unsafe fn copy_elsewhere(
    pages: &Range<usize>,
    new: usize,
    flags: i32,
    to: usize,
    protection: i32,
) -> Result<usize, i32> {
    let is_fixed = flags & libc::MREMAP_FIXED != 0;
    if is_fixed {
        // The same check as in the kernel.
        let target = whole_pages(to, new).ok_or(libc::EINVAL)?;
        if target.start < pages.end && pages.start < target.end {
            return Err(libc::EINVAL);
        }
    }
    let fixed = if is_fixed { libc::MAP_FIXED } else { 0 };
    let hint = ptr::without_provenance_mut(if is_fixed { to } else { 0 });
    // SAFETY: fresh memory, or at the address that the program requests.
    let made = unsafe {
        libc::mmap(
            hint,
            new,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | fixed,
            -1,
            0,
        )
    };
    if made == libc::MAP_FAILED {
        return Err(libc::ENOMEM);
    }
    let made = made.expose_provenance();
    // SAFETY: the new pages are this function's; the old ones are the caller's, who changes none of
    // them during the call.
    unsafe {
        if protection & libc::PROT_READ == 0 {
            let old = ptr::without_provenance_mut(pages.start);
            libc::mprotect(old, pages.len(), libc::PROT_READ);
        }
        let len = pages.len().min(new);
        let from = ptr::with_exposed_provenance::<u8>(pages.start);
        ptr::copy_nonoverlapping(from, ptr::with_exposed_provenance_mut(made), len);
        if protection != libc::PROT_READ | libc::PROT_WRITE {
            libc::mprotect(ptr::without_provenance_mut(made), new, protection);
        }
        if flags & MREMAP_DONTUNMAP != 0 {
            raw::renew(pages.start, pages.len(), protection)?;
        } else {
            libc::munmap(ptr::without_provenance_mut(pages.start), pages.len());
        }
    }
    Ok(made)
}
