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

/// Runs `f` with all signals blocked, so that a thread started there never runs the program's
/// handlers.
pub fn with_all_blocked<R>(f: impl FnOnce() -> R) -> R {
    // SAFETY: both sets live here; sigfillset and pthread_sigmask only write to them and to the
    // thread's mask.
    let old = unsafe {
        let (mut all, mut old) = std::mem::zeroed::<(libc::sigset_t, libc::sigset_t)>();
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut old);
        old
    };
    let result = f();
    // SAFETY: as above; `old` is the mask that was in force.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &old, std::ptr::null_mut()) };
    result
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
