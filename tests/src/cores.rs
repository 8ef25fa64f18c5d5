//! The machine's cores as a budget that all test processes share.
//!
//! A job takes as many cores as it has ranks that compute, up to all of them, and gives them back
//! when it ends; one that only waits takes none. So jobs that wait run beside jobs that compute,
//! and two that compute do not take each other's cores, which would let both spin in vain.
//!
//! A core is a file in `target/cores` that its holder has locked (`flock`), so that a test that is
//! killed gives its cores back. Who wants several takes them under the lock `entry`, one after the
//! other: holders of cores never wait for `entry`, so all who wait there are served in turn, and
//! those who want many are not passed over by those who want few.

use std::cell::Cell;
use std::fs::{self, File, TryLockError};
use std::marker::PhantomData;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use crate::target;

/// Milliseconds between two tries to get a core: far less than a job takes to start.
const RETRY: Duration = Duration::from_millis(2);

thread_local! {
    /// Whether this thread holds cores: what it starts besides needs no others.
    static HELD: Cell<bool> = const { Cell::new(false) };
}

/// Cores that this thread holds until it drops them.
#[derive(Debug)]
pub struct Cores {
    locks: Vec<File>,
    /// Dropped by the thread that took them.
    not_send: PhantomData<*const ()>,
}

/// The cores that this process may use.
pub fn core_count() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

impl Cores {
    /// Waits for `wanted` cores, or for all of them if the machine has fewer. None if this thread
    /// holds some already.
    ///
    /// # Panics
    /// If `target/cores` cannot be written.
    pub fn take(wanted: usize) -> Self {
        let wanted = wanted.min(core_count());
        let mut locks = Vec::new();
        if wanted > 0 && !HELD.get() {
            let entry = open("entry");
            entry.lock().expect("flock of target/cores/entry");
            while locks.len() < wanted {
                locks.extend(free().take(wanted - locks.len()));
                if locks.len() < wanted {
                    thread::sleep(RETRY);
                }
            }
            HELD.set(true);
        }
        Self { locks, not_send: PhantomData }
    }
}

impl Drop for Cores {
    fn drop(&mut self) {
        if !self.locks.is_empty() {
            HELD.set(false);
        }
    }
}

/// The cores that nobody holds; each is locked when the iterator yields it.
fn free() -> impl Iterator<Item = File> {
    (0..core_count()).filter_map(|core| {
        let file = open(&core.to_string());
        match file.try_lock() {
            Ok(()) => Some(file),
            Err(TryLockError::WouldBlock) => None,
            Err(TryLockError::Error(error)) => panic!("flock of target/cores/{core}: {error}"),
        }
    })
}

fn open(name: &str) -> File {
    let folder: PathBuf = target().join("cores");
    fs::create_dir_all(&folder).expect("target is writable");
    File::create(folder.join(name)).expect("target is writable")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Other tests of this program may hold cores meanwhile, so only what this one holds is said.
    #[test]
    fn holders_never_exceed_the_cores() {
        let all = core_count();
        let most = std::sync::atomic::AtomicUsize::new(0);
        let now = std::sync::atomic::AtomicUsize::new(0);
        thread::scope(|scope| {
            for wanted in [1, all, 1, all + 3, 0] {
                let (most, now) = (&most, &now);
                scope.spawn(move || {
                    for _ in 0..20 {
                        let cores = Cores::take(wanted);
                        assert_eq!(cores.locks.len(), wanted.min(all));
                        let held = cores.locks.len();
                        let sum = now.fetch_add(held, std::sync::atomic::Ordering::SeqCst) + held;
                        most.fetch_max(sum, std::sync::atomic::Ordering::SeqCst);
                        thread::yield_now();
                        now.fetch_sub(held, std::sync::atomic::Ordering::SeqCst);
                    }
                });
            }
        });
        assert_eq!(most.into_inner(), all);
    }

    #[test]
    fn what_a_holder_starts_needs_no_more() {
        let first = Cores::take(core_count());
        let second = Cores::take(core_count());
        assert!(second.locks.is_empty());
        drop(second);
        assert!(HELD.get());
        drop(first);
        assert!(!HELD.get());
    }
}
