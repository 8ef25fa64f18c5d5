//! loom's replacement: the kernel's queue of sleeping threads, without limits on sleeps.

use super::FutexScope;
use crate::sync::{AtomicU32, Mutex, MutexGuard, Ordering};
use loom::thread::{self, Thread};
use std::time::Duration;

loom::lazy_static! {
    /// Sleeping threads, in order, with the address of the word.
    static ref SLEEPERS: Mutex<Vec<(usize, Thread)>> = Mutex::new(Vec::new());
}

fn sleepers() -> MutexGuard<'static, Vec<(usize, Thread)>> {
    SLEEPERS.lock().expect("no thread panics while it holds the queue")
}

fn address(word: &AtomicU32) -> usize {
    std::ptr::from_ref(word).addr()
}

/// Sleeps while `word` holds `expected`, until a wake-up.
pub fn wait(word: &AtomicU32, expected: u32, _scope: FutexScope, _limit: Option<Duration>) {
    let mut queue = sleepers();
    if word.load(Ordering::Relaxed) != expected {
        return;
    }
    queue.push((address(word), thread::current()));
    drop(queue);
    // Only the waker that has taken this thread off the queue wakes it.
    thread::park();
}

/// Wakes the thread that has slept on `word` for the longest time.
pub fn wake_one(word: &AtomicU32, _scope: FutexScope) {
    wake(word, 1);
}

/// Wakes all threads that sleep on `word`.
pub fn wake_all(word: &AtomicU32, _scope: FutexScope) {
    wake(word, usize::MAX);
}

fn wake(word: &AtomicU32, most: usize) {
    let mut queue = sleepers();
    let woken = queue.extract_if(.., |(key, _)| *key == address(word));
    woken.take(most).for_each(|(_, thread)| thread.unpark());
}
