//! A thread that makes progress while the program computes (chai-2009, chapter 5: copies that
//! overlap with computation).
//!
//! A copy engine moves bytes by itself, but somebody has to match the message and start the copy,
//! and the program may be away from MPI for long. Where a helper thread was asked for
//! (`MICA_COPY_ENGINE=thread` or `dsa+thread`), this thread does that: as long as a long message is
//! under way it waits like a thread of the program would, at the rank's parking spot; otherwise it
//! sleeps where no message wakes it, and short messages do not pay for it but for the engine's
//! lock, which it needs.

use crate::engine::Engine;
use crate::state::EngineState;
use mica_channel::offload;
use std::sync::{Condvar, Mutex, PoisonError};

/// Looks for something to do before the thread parks while a long message is under way: some 100
/// us.
const IDLE_POLLS: u32 = 2000;

/// The thread's bed.
#[derive(Debug, Default)]
pub(crate) struct ProgressThread {
    is_called: Mutex<bool>,
    call: Condvar,
}

impl ProgressThread {
    /// Wakes the thread if it sleeps, or is about to.
    pub fn call(&self) {
        *self
            .is_called
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = true;
        self.call.notify_one();
    }

    fn sleep(&self) {
        let mut is_called = self
            .is_called
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        while !*is_called {
            is_called = self
                .call
                .wait(is_called)
                .unwrap_or_else(PoisonError::into_inner);
        }
        *is_called = false;
    }
}

impl Engine {
    /// Starts the thread that makes progress for the program, if one was asked for. To be called
    /// once.
    pub fn attend(&'static self) {
        if let Some(thread) = &self.progress_thread {
            // Without the thread messages wait for the program's calls, as they do elsewhere.
            let _ = offload::spawn_helper(self.segment, "mica-progress", move || {
                self.serve(thread);
            });
        }
    }

    fn serve(&self, thread: &ProgressThread) {
        loop {
            thread.sleep();
            let mut idle = 0;
            while self.enter(|state| state.needs_attention()) {
                match self.attending(EngineState::progress) {
                    Ok(true) => idle = 0,
                    // Its core has nothing better to do, and to be woken takes longer than many a
                    // copy.
                    Ok(false) if idle < IDLE_POLLS => {
                        idle += 1;
                        std::hint::spin_loop();
                    }
                    Ok(false) => self.park_progress_thread(),
                    // The program meets the same fault at its next call, and can tell its user.
                    Err(_) => break,
                }
            }
        }
    }

    /// As [`enter`](Engine::enter), by the attendant.
    fn attending<R>(&self, f: impl FnOnce(&mut EngineState) -> R) -> R {
        self.enter(|state| {
            state.attention.attending = true;
            let result = f(state);
            state.attention.attending = false;
            result
        })
    }

    fn park_progress_thread(&self) {
        self.rest(|state| {
            state.attention.attending = true;
            let ready = state.has_work() || !state.needs_attention();
            state.attention.attending = false;
            ready
        });
    }
}
