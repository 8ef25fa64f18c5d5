//! Why a copy fails.

/// Why a job failed. Some of its bytes may have been copied; the source is unchanged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CopyError {
    /// The kernel refused to read or write memory.
    #[error(
        "copying {bytes} bytes{} failed: {}",
        .pid.map(|pid| format!(" from or to process {pid}")).unwrap_or_default(),
        std::io::Error::from_raw_os_error(*.errno)
    )]
    Kernel {
        /// The error number.
        errno: i32,
        /// Length of the job.
        bytes: usize,
        /// The peer's process, if its memory took part.
        pid: Option<u32>,
    },
    /// The job belongs to the process from which this one was forked, and continues there.
    #[error("a copy of {bytes} bytes was started before this process was forked")]
    Forked {
        /// Length of the job.
        bytes: usize,
    },
}
