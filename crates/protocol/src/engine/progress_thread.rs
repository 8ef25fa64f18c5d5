//! The progress thread: makes progress while the program computes (chai-2009, chapter 5: copies
//! that overlap with computation).
//!
//! A copy engine copies by itself, but a thread must match the message and start the copy, and the
//! program may not call MPI for a long time. If a helper thread was requested
//! (`MICA_COPY_ENGINE=thread` or `dsa+thread`), this thread does that.
//!
//! | state | leaves it |
//! |---|---|
//! | asleep in [`ProgressWakeup`] | `WAKE_PROGRESS_THREAD`: a long message has begun |
//! | polls the engine | no long message is left: asleep; polls that find nothing: parked |
//! | parked at the rank's spot | as a thread of the program that waits ([`wait`](crate::wait)) |
//!
//! The count of long messages and the notification are written under the engine's lock; who gives
//! the lock back wakes the thread, by a mutex and a condition variable, so that a message that
//! begins while it falls asleep is not missed. Short messages pay nothing for it, except for the
//! engine's lock, which it needs.
//!
//! Two designs of window locks (`MICA_WINDOW_LOCK=thread` and `event`; jiang-2004, 4.2) are this
//! thread as well: it grants the locks of the windows that exist, and polls for requests all the
//! time, or sleeps until one comes ([`IdleThread`]). A window then counts as a long message
//! ([`begin_service`](EngineState::begin_service)).

use crate::engine::progress_wakeup::{IdleThread, ProgressWakeup};
use crate::engine::{Engine, EngineState, Fault};
use mica_channel::offload;

/// Failed polls before the thread parks while a long message is in progress: about 100 us.
const IDLE_POLLS: u32 = 2000;

impl Engine {
    /// Starts a thread that works for the rank beside the engine: it blocks all signals and avoids
    /// the cores that ranks are bound to, if there are others. It may [wake](Engine::wake) the
    /// rank, and enters the engine by [`progress_in_background`](Engine::progress_in_background)
    /// alone.
    ///
    /// # Errors
    /// If no thread can be created.
    pub fn spawn_helper(
        &self,
        name: &str,
        run: impl FnOnce() + Send + 'static,
    ) -> std::io::Result<()> {
        offload::spawn_helper(&self.segment, name, run).map(drop)
    }

    /// Whether such a thread has a core of its own. None has on a simulated node, whose one core's
    /// clock goes with the rank.
    pub fn has_core_for_helpers(&self) -> bool {
        !self.waits_for_adapter && offload::has_core_for_helpers(&self.segment)
    }

    /// Starts the progress thread, if one was requested. To be called once.
    pub fn start_progress_thread(&'static self) {
        if let Some(thread) = &self.progress_thread {
            // Without the thread, messages wait for the program's calls, as they do if none is
            // requested.
            let _ = offload::spawn_helper(&self.segment, "mica-progress", move || {
                self.serve(thread);
            });
        }
    }

    fn serve(&self, thread: &ProgressWakeup) {
        loop {
            thread.sleep();
            let mut idle = 0;
            let idle_polls = match thread.idle {
                IdleThread::PollsAndSleeps => IDLE_POLLS,
                IdleThread::Polls => u32::MAX,
                IdleThread::Sleeps => 0,
            };
            while self.enter(|state| state.completions.has_long_messages()) {
                match self.enter_as_progress_thread(EngineState::progress) {
                    Ok(true) => idle = 0,
                    // Its core has nothing else to do, and waking the thread takes longer than many
                    // copies.
                    Ok(false) if idle < idle_polls => {
                        idle = idle.saturating_add(1).min(u32::MAX - 1);
                        // The dedicated thread gives way to the ranks of its core, where it has
                        // none of its own.
                        match thread.idle == IdleThread::Polls && self.shares_core() {
                            true => std::thread::yield_now(),
                            false => std::hint::spin_loop(),
                        }
                    }
                    Ok(false) => self.park_progress_thread(),
                    // The program gets the same fault from its next call, and can report it.
                    Err(_) => break,
                }
            }
        }
    }

    /// Like [`enter`](Engine::enter), for the progress thread.
    fn enter_as_progress_thread<R>(&self, f: impl FnOnce(&mut EngineState) -> R) -> R {
        self.enter(|state| {
            state.completions.in_progress_thread = true;
            let result = f(state);
            state.completions.in_progress_thread = false;
            result
        })
    }

    /// Makes progress on a thread that the program has not asked for, until `is_over`; it sleeps
    /// where there is nothing to do, until this rank is [woken](Engine::wake). Messages and
    /// reactions go on; schedules that may call the program's operators wait for its own calls. The
    /// lock must be in force ([`set_thread_multiple`](Engine::set_thread_multiple)). Blocks.
    ///
    /// # Errors
    /// Those of progress. The program's next call has the same, and can report it.
    pub fn progress_in_background(&self, is_over: impl Fn() -> bool) -> Result<(), Fault> {
        let mut result = Ok(());
        while result.is_ok() && !is_over() {
            match self.enter(|state| in_background(state, EngineState::progress)) {
                Ok(true) => {}
                Ok(false) => self.sleep_unless(None, |state| {
                    in_background(state, EngineState::has_work) || is_over()
                }),
                Err(fault) => result = Err(fault),
            }
        }
        self.enter(|state| {
            let held_back = std::mem::take(&mut state.completions.held_back);
            state.completions.completed |= held_back;
        });
        result
    }

    fn park_progress_thread(&self) {
        self.sleep_unless(None, |state| {
            state.completions.in_progress_thread = true;
            let ready = state.has_work() || !state.completions.has_long_messages();
            state.completions.in_progress_thread = false;
            ready
        });
    }
}

fn in_background<R>(state: &mut EngineState, f: impl FnOnce(&mut EngineState) -> R) -> R {
    state.completions.in_background = true;
    let result = f(state);
    state.completions.in_background = false;
    result
}
