//! Ranks in processes of their own, for tests: forked children that share a mapping.

use std::time::{Duration, Instant};

/// A value of `T` in zeroed memory that children share. Never unmapped.
///
/// # Safety
/// 1. Zeroed memory is a valid `T`.
pub unsafe fn shared<T>() -> &'static T {
    let (protection, flags) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping, at an address of the kernel's choice.
    let at = unsafe { libc::mmap(std::ptr::null_mut(), size_of::<T>(), protection, flags, -1, 0) };
    assert_ne!(at, libc::MAP_FAILED, "mmap");
    // SAFETY: a page is aligned for any `T` here; obligation 1 for its value; it stays mapped.
    unsafe { &*at.cast::<T>() }
}

/// Forks a child that runs `rank` and exits. Returns its process number. `rank` neither allocates
/// nor panics: other threads of the test may hold the allocator's lock.
pub fn fork(rank: impl FnOnce()) -> libc::pid_t {
    // SAFETY: the child runs `rank`, which takes no lock of this process, and exits without
    // destructors.
    match unsafe { libc::fork() } {
        0 => {
            rank();
            // SAFETY: ends the child.
            unsafe { libc::_exit(0) }
        }
        child => {
            assert!(child > 0, "fork");
            child
        }
    }
}

/// Waits for the children. Kills all and panics when they take more than a minute: a wake-up was
/// lost.
pub fn join(children: &[libc::pid_t]) {
    let start = Instant::now();
    for &child in children {
        let mut status = 0;
        // SAFETY: waits for a child of this process, by its number.
        while unsafe { libc::waitpid(child, &mut status, libc::WNOHANG) } == 0 {
            if start.elapsed() > Duration::from_secs(60) {
                // SAFETY: as above; a child that has not been waited for keeps its number.
                children.iter().for_each(|&c| unsafe {
                    libc::kill(c, libc::SIGKILL);
                });
                panic!("a rank still waits after a minute");
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        assert_eq!(status, 0, "status of a rank");
    }
}

/// Kills the child, and waits until it is gone.
pub fn kill(child: libc::pid_t) {
    let mut status = 0;
    // SAFETY: a child of this process that has not been waited for.
    unsafe {
        libc::kill(child, libc::SIGKILL);
        libc::waitpid(child, &mut status, 0);
    }
}
