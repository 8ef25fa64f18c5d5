//! The machine's cores as a budget that all test processes share.
//!
//! A job takes as many cores as it keeps busy, up to all of them, and gives them back
//! when it ends; one that only waits takes none. So jobs that wait run beside jobs that compute,
//! and two that compute do not take each other's cores, which would let both spin without progress.
//!
//! A core is a file in `target/cores` that its holder has locked (`flock`), so that a test that is
//! killed gives its cores back. Who wants several takes them under the lock `entry`, one after the
//! other: holders of cores never wait for `entry`, so all who wait there are served in turn, and
//! those who want many are not passed over by those who want few.
//!
//! A test that looks at the machine as a whole (what has a job left in /tmp?) is
//! [alone](Cores::alone) on it: all others hold the lock `machine` together, and such a test holds
//! it exclusively.

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
    /// Waits for `wanted` cores, or for all of them if the machine has fewer, and until nobody is
    /// alone on the machine. Takes nothing if this thread holds some already.
    ///
    /// # Panics
    /// If `target/cores` cannot be written.
    pub fn take(wanted: usize) -> Self {
        let wanted = wanted.min(core_count());
        let mut locks = Vec::new();
        if !HELD.replace(true) {
            let entry = open("entry");
            entry.lock().expect("flock of target/cores/entry");
            let machine = open("machine");
            machine.lock_shared().expect("flock of target/cores/machine");
            while locks.len() < wanted {
                locks.extend(free().take(wanted - locks.len()));
                if locks.len() < wanted {
                    thread::sleep(RETRY);
                }
            }
            locks.push(machine);
        }
        Self { locks, not_send: PhantomData }
    }

    /// Waits until no other test has a job or cores; none begins until this is dropped.
    ///
    /// # Panics
    /// If `target/cores` cannot be written, or this thread holds cores.
    pub fn alone() -> Self {
        assert!(!HELD.replace(true), "a thread that holds cores cannot wait for others");
        let entry = open("entry");
        entry.lock().expect("flock of target/cores/entry");
        let machine = open("machine");
        machine.lock().expect("flock of target/cores/machine");
        Self { locks: vec![machine], not_send: PhantomData }
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
                        let held = cores.locks.len() - 1;
                        assert_eq!(held, wanted.min(all));
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
    fn who_is_alone_sees_no_other() {
        let others = std::sync::atomic::AtomicUsize::new(0);
        thread::scope(|scope| {
            for is_alone in [false, true, false, true] {
                let others = &others;
                scope.spawn(move || {
                    for _ in 0..10 {
                        let cores = if is_alone { Cores::alone() } else { Cores::take(0) };
                        let now = others.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                        assert!(!is_alone || now == 0);
                        thread::yield_now();
                        assert!(!is_alone || others.load(std::sync::atomic::Ordering::SeqCst) == 1);
                        others.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
                        drop(cores);
                    }
                });
            }
        });
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
