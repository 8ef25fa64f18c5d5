//! The dispositions of the process's signals, to be put back after a library was loaded.
//!
//! Signals belong to the program. Debian's libfabric loads libpsm_infinipath and libpsm2, whose
//! initialisers take SIGSEGV, SIGABRT, SIGTERM and others for handlers that write a file into the
//! current folder (`PROGRAM.80s-PID,HOST.btr`).

/// The dispositions of all signals that have one, as they were.
pub(super) struct SignalDispositions(Vec<(i32, libc::sigaction)>);

impl SignalDispositions {
    pub fn save() -> SignalDispositions {
        let all = 1..=libc::SIGRTMAX();
        SignalDispositions(all.filter_map(|signal| Some((signal, disposition(signal)?))).collect())
    }

    /// Puts back those that have changed.
    pub fn restore(self) {
        for (signal, saved) in self.0 {
            let is_same = |now: libc::sigaction| {
                (now.sa_sigaction, now.sa_flags) == (saved.sa_sigaction, saved.sa_flags)
            };
            if !disposition(signal).is_some_and(is_same) {
                // SAFETY: a disposition that was in force; what it names is still loaded.
                unsafe { libc::sigaction(signal, &saved, std::ptr::null_mut()) };
            }
        }
    }
}

/// The disposition of a signal; `None` of those that glibc keeps for itself.
fn disposition(signal: i32) -> Option<libc::sigaction> {
    // SAFETY: all-zero bytes are a valid sigaction.
    let mut now: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: writes `now` only.
    let failed = unsafe { libc::sigaction(signal, std::ptr::null(), &mut now) };
    (failed == 0).then_some(now)
}
