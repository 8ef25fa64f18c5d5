//! Probes whether this system supports the channels.

use std::fs;
use std::io;

use super::{check, wait_id};

/// Why one rank cannot read another's memory, and the remedy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CmaRefusal {
    /// The kernel's error, and the likely cause.
    pub reason: String,
    /// What to change.
    pub remedy: String,
}

/// Tries `process_vm_readv` from a child on its parent. Yama treats this like two ranks of a job:
/// the reader is not an ancestor of the process that is read. As the ranks do for their launcher,
/// the parent first allows itself and its descendants to read it (`PR_SET_PTRACER`).
pub fn cma_between_ranks() -> Result<(), CmaRefusal> {
    match read_parent() {
        Ok(()) => Ok(()),
        Err(error) => Err(explain(&error)),
    }
}

const PATTERN: u64 = 0x6d69_6361_6d69_6361;

/// Forks a child that reads eight bytes of this process.
fn read_parent() -> io::Result<()> {
    let ours = PATTERN;
    // SAFETY: getpid has no preconditions.
    let parent = unsafe { libc::getpid() };
    // SAFETY: PR_SET_PTRACER takes a pid. Without Yama it fails, and is not needed.
    unsafe { libc::prctl(libc::PR_SET_PTRACER, parent as libc::c_ulong) };
    // SAFETY: the child makes system calls only.
    let pid = unsafe { libc::fork() };
    check(pid)?;
    if pid == 0 {
        let mut copy = 0u64;
        let local = libc::iovec { iov_base: (&raw mut copy).cast(), iov_len: 8 };
        let remote = libc::iovec { iov_base: (&raw const ours).cast_mut().cast(), iov_len: 8 };
        // SAFETY: `local` is eight writable bytes of this process, `remote` eight readable bytes
        // of the parent, whose frame stays alive until it has waited for us. _exit and errno are
        // safe after a fork.
        unsafe {
            let read = libc::process_vm_readv(parent, &local, 1, &remote, 1, 0);
            let status = match read {
                8 if copy == PATTERN => 0,
                8 => libc::EIO,
                _ => *libc::__errno_location(),
            };
            libc::_exit(status);
        }
    }
    let info = wait_id(libc::P_PID, pid as libc::id_t, libc::WEXITED)?
        .ok_or_else(|| io::Error::other("the probing child was lost"))?;
    // SAFETY: as above; zero revokes the permission.
    unsafe { libc::prctl(libc::PR_SET_PTRACER, 0) };
    match super::exit_of(&info) {
        super::Exit::Code(0) => Ok(()),
        super::Exit::Code(errno) => Err(io::Error::from_raw_os_error(errno)),
        super::Exit::Signal { number, .. } => {
            Err(io::Error::other(format!("the probing child got signal {number}")))
        }
    }
}

fn explain(error: &io::Error) -> CmaRefusal {
    let yama = fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").ok();
    let yama = yama.and_then(|text| text.trim().parse::<u32>().ok());
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mut modes = status.lines().filter_map(|line| line.strip_prefix("Seccomp:"));
    let seccomp = match modes.next().map(str::trim) {
        Some("2") => Seccomp::Filters,
        _ => Seccomp::Off,
    };
    explain_with(error, yama, seccomp)
}

/// Whether a filter may refuse system calls of this process (`Seccomp` in /proc/self/status).
#[derive(Clone, Copy, PartialEq, Eq)]
enum Seccomp {
    Off,
    Filters,
}

fn explain_with(error: &io::Error, yama: Option<u32>, seccomp: Seccomp) -> CmaRefusal {
    let refused = format!("process_vm_readv: {error}");
    let (cause, remedy) = match (error.raw_os_error(), yama) {
        (Some(libc::ENOSYS), _) if seccomp == Seccomp::Off => (
            "the kernel has no cross-memory attach",
            "use a kernel built with CONFIG_CROSS_MEMORY_ATTACH",
        ),
        (Some(libc::EPERM), Some(2..)) => (
            "Yama forbids ptrace (kernel.yama.ptrace_scope is 2 or 3)",
            "sysctl kernel.yama.ptrace_scope=1 (3 lasts until reboot), or give the program \
            CAP_SYS_PTRACE",
        ),
        (Some(libc::EPERM | libc::ENOSYS), _) if seccomp == Seccomp::Filters => (
            "a seccomp filter (a container's, most likely) refuses it",
            "run the container with --cap-add=SYS_PTRACE, or a seccomp profile that allows \
             process_vm_readv and process_vm_writev",
        ),
        (Some(libc::EPERM), _) => (
            "the ranks' credentials, user namespaces or a security module forbid it",
            "run all ranks as one user in one user namespace, or give them CAP_SYS_PTRACE",
        ),
        _ => ("the cause is not known", "report this message"),
    };
    CmaRefusal { reason: format!("{refused}: {cause}"), remedy: remedy.to_owned() }
}

/// Whether anonymous shared memory is available.
pub fn memfd() -> io::Result<()> {
    // SAFETY: the name is a string that outlives the call.
    let fd = unsafe { libc::memfd_create(c"mica-probe".as_ptr(), libc::MFD_CLOEXEC) };
    check(fd)?;
    // SAFETY: the descriptor is new and has no other owner.
    check(unsafe { libc::close(fd) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_probe_answers() {
        // Either result is right, depending on the system; a refusal must include its cause and
        // remedy.
        if let Err(refusal) = cma_between_ranks() {
            assert!(refusal.reason.contains("process_vm_readv"), "{refusal:?}");
            assert!(!refusal.remedy.is_empty());
        }
    }

    #[test]
    fn refusals_name_their_cause() {
        let of = |errno, yama, seccomp| {
            explain_with(&io::Error::from_raw_os_error(errno), yama, seccomp)
        };
        assert!(of(libc::EPERM, Some(2), Seccomp::Off).remedy.contains("ptrace_scope"));
        assert!(of(libc::EPERM, Some(0), Seccomp::Filters).reason.contains("seccomp"));
        assert!(of(libc::EPERM, None, Seccomp::Off).reason.contains("credentials"));
        assert!(of(libc::ENOSYS, None, Seccomp::Off).remedy.contains("CROSS_MEMORY_ATTACH"));
        assert!(of(libc::ENOSYS, None, Seccomp::Filters).reason.contains("seccomp"));
    }

    #[test]
    fn anonymous_memory_is_there() {
        memfd().unwrap();
    }
}
