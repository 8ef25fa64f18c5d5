//! Why the kernel does not copy.

/// Why direct copy from a peer does not work.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CopyRefusal {
    /// Direct copy was switched off by `MICA_DIRECT=off`.
    #[error("switched off by MICA_DIRECT=off")]
    SwitchedOff,
    /// The kernel refused the call.
    #[error(
        "process_vm_readv or process_vm_writev: {}",
        std::io::Error::from_raw_os_error(*.errno)
    )]
    Kernel {
        /// The error number.
        errno: i32,
    },
    /// The call read something, but not the peer's memory (process numbers of another namespace).
    #[error("process_vm_readv reached another process")]
    WrongProcess,
}

impl CopyRefusal {
    /// Whether the kernel will give the same answer the next time.
    pub(super) fn is_final(&self) -> bool {
        matches!(self, CopyRefusal::Kernel { errno: libc::EPERM | libc::ENOSYS })
    }

    /// Whether the peer's process has no memory any more.
    pub(super) fn is_death(&self) -> bool {
        matches!(self, CopyRefusal::Kernel { errno } if *errno == libc::ESRCH)
    }
}
