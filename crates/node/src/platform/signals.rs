//! The dispositions of the process's signals. They belong to the program: what the library loads
//! may not replace them.

/// The disposition of a signal; `None` of those that glibc keeps for itself.
pub(crate) fn disposition(signal: i32) -> Option<libc::sigaction> {
    // SAFETY: sigaction is plain data for which all zeros is a value.
    let mut now: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: without a new action the call only writes to `now`.
    let failed = unsafe { libc::sigaction(signal, std::ptr::null(), &mut now) };
    (failed == 0).then_some(now)
}

/// Blocks all signals for the calling thread, and for threads that it starts, as long as it lives.
pub struct SignalsBlocked(libc::sigset_t);

impl SignalsBlocked {
    /// Blocks them.
    #[expect(clippy::new_without_default, reason = "it does something")]
    pub fn new() -> SignalsBlocked {
        // SAFETY: the calls write to these sets only, which are initialised before they are read.
        unsafe {
            let mut all = std::mem::zeroed();
            let mut before = std::mem::zeroed();
            libc::sigfillset(&mut all);
            libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
            SignalsBlocked(before)
        }
    }
}

impl Drop for SignalsBlocked {
    fn drop(&mut self) {
        // SAFETY: the set is the one that `new` has saved.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.0, std::ptr::null_mut()) };
    }
}

/// Calls `f`, and puts back the dispositions that have changed meanwhile.
pub fn keeping_dispositions<R>(f: impl FnOnce() -> R) -> R {
    let all = 1..=libc::SIGRTMAX();
    let saved: Vec<_> = all.filter_map(|signal| Some((signal, disposition(signal)?))).collect();
    let result = f();
    for (signal, saved) in saved {
        let is_same = |now: libc::sigaction| {
            (now.sa_sigaction, now.sa_flags) == (saved.sa_sigaction, saved.sa_flags)
        };
        if !disposition(signal).is_some_and(is_same) {
            // SAFETY: a disposition that was in force; what it names is still loaded.
            unsafe { libc::sigaction(signal, &saved, std::ptr::null_mut()) };
        }
    }
    result
}
