//! System calls by the instruction, not through the C library: the library's own calls of `madvise`
//! and `mremap` must not go through the [hooks](super::hooks), which take a lock that the caller
//! may hold.

use std::ptr;
use std::sync::OnceLock;

/// One system call with up to six arguments; negative numbers are error numbers.
///
/// # Safety
/// The obligations of the system call.
pub(super) unsafe fn call(number: libc::c_long, arguments: [usize; 6]) -> isize {
    let [a, b, c, d, e, f] = arguments;
    let result: isize;
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the kernel keeps all registers but those named; what it does to memory is the
    // caller's obligation.
    unsafe {
        std::arch::asm!("syscall", inlateout("rax") number as isize => result,
            in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d, in("r8") e, in("r9") f,
            lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: as above.
    unsafe {
        std::arch::asm!("svc 0", in("x8") number, inlateout("x0") a as isize => result, in("x1") b,
            in("x2") c, in("x3") d, in("x4") e, in("x5") f, options(nostack));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    compile_error!("the system call instruction of this architecture is missing here");
    result
}

/// `madvise` on `len` bytes at `at`.
///
/// # Errors
/// The kernel's error number.
///
/// # Safety
/// Pages that the advice changes are the caller's to change.
pub(super) unsafe fn advise(at: usize, len: usize, advice: i32) -> Result<(), i32> {
    // SAFETY: the obligation.
    let result = unsafe { call(libc::SYS_madvise, [at, len, advice as usize, 0, 0, 0]) };
    check(result).map(|_| ())
}

/// Whether shared memory has huge pages only where a mapping asks for them (MADV_HUGEPAGE), so that
/// a file that is written gets none.
pub(super) fn shares_huge_pages_on_advice() -> bool {
    static IS_ON_ADVICE: OnceLock<bool> = OnceLock::new();
    *IS_ON_ADVICE.get_or_init(|| {
        let setting = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/shmem_enabled");
        setting.is_ok_and(|setting| setting.contains("[advise]"))
    })
}

/// Whether the process may not write files of any length (RLIMIT_FSIZE).
pub(super) fn limits_files() -> bool {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: writes to `limit`.
    let result = unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &mut limit) };
    result != 0 || limit.rlim_cur != libc::RLIM_INFINITY
}

/// `mremap` of `len` bytes at `from`, to `to` (MREMAP_FIXED).
///
/// # Errors
/// The kernel's error number. What was mapped at `to` may be unmapped even then.
///
/// # Safety
/// Both stretches are the caller's to replace.
pub(super) unsafe fn move_to(from: usize, len: usize, to: usize) -> Result<(), i32> {
    let flags = (libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED) as usize;
    // SAFETY: the obligation.
    let result = unsafe { call(libc::SYS_mremap, [from, len, len, flags, to, 0]) };
    check(result).map(|_| ())
}

/// Private anonymous memory in place of what is mapped at `at`.
///
/// # Errors
/// The kernel's error number.
///
/// # Safety
/// The stretch is the caller's to replace.
pub(super) unsafe fn renew(at: usize, len: usize, protection: i32) -> Result<(), i32> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
    let hint = ptr::without_provenance_mut(at);
    // SAFETY: the obligation.
    let result = unsafe { libc::mmap(hint, len, protection, flags, -1, 0) };
    if result == libc::MAP_FAILED {
        let error = std::io::Error::last_os_error();
        return Err(error.raw_os_error().unwrap_or(libc::ENOMEM));
    }
    Ok(())
}

/// Splits a result into value and error number.
pub(super) fn check(result: isize) -> Result<usize, i32> {
    if (-4095..0).contains(&result) { Err(-result as i32) } else { Ok(result as usize) }
}

/// The protection of an area, as `mmap` takes it.
pub(super) fn protection(area: &mica_node::procmap::MappedArea) -> i32 {
    let flag = |on: bool, flag: i32| if on { flag } else { 0 };
    flag(area.readable, libc::PROT_READ)
        | flag(area.writable, libc::PROT_WRITE)
        | flag(area.executable, libc::PROT_EXEC)
}
