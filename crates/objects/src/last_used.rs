//! The object that a thread has used last: an operation takes neither a lock nor a reference to
//! find it by its handle.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::LocalKey;

use crate::error::Result;

/// Changes whenever a handle of a kind stops being valid; what is known of handles holds for one
/// generation.
#[derive(Debug)]
pub struct Generation(AtomicU64);

/// A handle as it was at some time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownHandle {
    handle: u32,
    generation: u64,
}

impl Generation {
    /// The first.
    pub const fn first() -> Generation {
        Generation(AtomicU64::new(0))
    }

    /// `handle` as it is now. To be called before it is looked up: if it is freed between the two,
    /// what is known of it is out of date at once.
    #[inline(always)]
    pub fn now(&self, handle: u32) -> KnownHandle {
        // Acquire: keeps the look-up behind it, and pairs with the increment in `end`; a thread
        // that knows of the free sees the increment.
        KnownHandle { handle, generation: self.0.load(Ordering::Acquire) }
    }

    /// A handle has been removed from its table.
    pub fn end(&self) {
        // Release: pairs with the load in `now`; publishes the removal that came before.
        self.0.fetch_add(1, Ordering::Release);
    }
}

/// The object of a kind that a thread has used last, with its handle.
#[derive(Debug)]
pub struct LastUsed<T>(RefCell<Option<(KnownHandle, T)>>);

impl<T: Clone> LastUsed<T> {
    /// None yet.
    pub const fn none() -> LastUsed<T> {
        LastUsed(RefCell::new(None))
    }

    /// Calls `f` with the object that `handle` names: the last one, or what `resolve` returns.
    ///
    /// # Errors
    /// Those of `resolve`.
    #[inline]
    pub fn with<R>(
        last: &'static LocalKey<LastUsed<T>>,
        generation: &Generation,
        handle: u32,
        resolve: impl FnOnce() -> Result<T>,
        f: impl FnOnce(&T) -> R,
    ) -> Result<R> {
        let mut f = Some(f);
        let cached = last.try_with(|last| {
            let last = last.0.try_borrow().ok()?;
            let (known, object) = last.as_ref()?;
            // The handle first: where it is another one, the generation is not read.
            if known.handle != handle || *known != generation.now(handle) {
                return None;
            }
            f.take().map(|f| f(object))
        });
        match cached {
            Ok(Some(result)) => Ok(result),
            _ => {
                let object = LastUsed::keep(last, generation.now(handle), resolve)?;
                let f = f.take().expect("there was no such object, so `f` was not called");
                Ok(f(&object))
            }
        }
    }

    #[cold]
    fn keep(
        last: &'static LocalKey<LastUsed<T>>,
        known: KnownHandle,
        resolve: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let object = resolve()?;
        // It is in use when a callback inside `f` calls MPI, and gone while the thread ends:
        // neither needs it.
        let _ = last.try_with(|last| {
            if let Ok(mut last) = last.0.try_borrow_mut() {
                *last = Some((known, object.clone()));
            }
        });
        Ok(object)
    }

    /// Drops what this thread has used last.
    pub fn forget(last: &'static LocalKey<LastUsed<T>>) {
        let _ = last.try_with(|last| last.0.try_borrow_mut().map(|mut last| *last = None));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    static GENERATION: Generation = Generation::first();

    thread_local! {
        static LAST: LastUsed<u32> = const { LastUsed::none() };
        static RESOLVED: Cell<u32> = const { Cell::new(0) };
    }

    fn with<R>(handle: u32, f: impl FnOnce(u32) -> R) -> R {
        let resolve = || {
            RESOLVED.set(RESOLVED.get() + 1);
            Ok(10 * handle)
        };
        LastUsed::with(&LAST, &GENERATION, handle, resolve, |&object| f(object)).expect("resolved")
    }

    #[test]
    fn an_object_is_looked_up_once_until_a_handle_ends() {
        for (handle, resolved) in [(1, 1), (1, 1), (2, 2), (1, 3), (1, 3)] {
            assert_eq!(with(handle, |object| object), 10 * handle);
            assert_eq!(RESOLVED.get(), resolved, "handle {handle}");
        }
        GENERATION.end();
        with(1, |_| ());
        assert_eq!(RESOLVED.get(), 4);
        LastUsed::forget(&LAST);
        with(1, |_| ());
        assert_eq!(RESOLVED.get(), 5);
    }

    #[test]
    fn a_callback_may_use_another_object() {
        assert_eq!(with(1, |one| one + with(2, |two| two)), 30);
        assert_eq!(with(1, |one| one + with(2, |two| two)), 30);
    }
}
