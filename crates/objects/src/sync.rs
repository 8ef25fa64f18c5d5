//! Locks without poison.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex. A panic while it is held (a bug, which aborts a release build) does not make the
/// data unusable.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
