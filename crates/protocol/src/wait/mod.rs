//! How a thread waits in the engine: it polls, then yields, then parks (docs/design/house.md,
//! section 5).
//!
//! | state of a waiting thread | leaves it |
//! |---|---|
//! | spins | after [`WaitLimits::polls`] failed polls, yielding once in [`YIELD_EVERY`] |
//! | yields its core between polls | after [`WaitLimits::yields`], or one that took a time slice |
//! | spins on | at [`MIN_POLLS_BEFORE_PARKING`] polls in all |
//! | parks | woken by a peer, a transport or another thread; at a limit; then polls once |
//!
//! Anything that arrives takes it back to the first state. Where several threads wait, or ranks
//! share cores, the limits are shorter ([`policy`]). A simulated process never sleeps: it sends its
//! clock to the adapter's next event.
//!
//! **Ordering.** A thread announces at its parking spot that it sleeps, then makes its last check
//! under the lock (`has_work` and its own condition), then sleeps; who sends publishes its packet
//! and then looks for the announcement. So one of them sees the other: `node::park` has the fences,
//! and the model. With a network it sleeps on the wake-up socket and on its descriptor instead.
//!
//! **Long waits.** A wait that lasts ([`LONG_WAIT_POLLS`], or the first park) leaves the fast loops
//! of [`Engine::drive`] and [`Engine::watch`] for one that is not generic ([`Engine::wait_long`]).
//! It keeps a record in the job segment of what the thread waits for, until the wait is over, and
//! adds the function's name once the wait has lasted [`NAME_AFTER`]: the stack is walked for that,
//! which a short wait must not pay for. Readers are the launcher's hang report and `mica top`. With
//! several waiting threads, the record is that of the one which wrote last.

pub(crate) mod account;
pub(crate) mod hang;
pub(crate) mod pending;
pub(crate) mod policy;
pub(crate) mod poll;

use crate::engine::{Engine, EngineState, Fault};
use crate::wait::account::WaitAccount;
use crate::wait::pending::{WaitClock, WaitList};
use crate::wait::policy::{LIVENESS_INTERVAL, WaitLimits};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use mica_node::counters::Counter;

/// Polls between two yields of the core, even if every rank appears to have a core of its own.
const YIELD_EVERY: u32 = 512;

/// Minimum number of failed polls before a thread parks, whatever the settings, and even if a yield
/// took long. Collectives on a node rely on it: a rank announces what it waits in, and checks the
/// others, only after a number of failed polls, because that is too expensive for every wait; a
/// rank that slept earlier would never do it.
pub const MIN_POLLS_BEFORE_PARKING: u32 = 128;

/// Polls between two checks for an open question of the launcher (hang reports).
const QUESTION_EVERY: u32 = 64;

/// Failed polls after which a wait is recorded though the thread polls on; also the number between
/// two updates of the record. About 100 us of spinning: a wait for an answer within the node is
/// over long before. A multiple of [`QUESTION_EVERY`].
const LONG_WAIT_POLLS: u32 = 2048;

/// Failed polls before a simulated process sends its clock to the next event: what is already on
/// its way through the adapter comes meanwhile.
const POLLS_BEFORE_CLOCK: u32 = 4;

/// A wait that lasts longer gets the name of its function: long beside the 10 us that walking the
/// stack takes, short beside the interval at which people look.
const NAME_AFTER: Duration = Duration::from_millis(10);

/// Between two looks of a sleeping thread at what other threads of this rank do without waking it.
const SILENT_POLL_INTERVAL: Duration = Duration::from_millis(1);

/// Counts a waiting thread while it exists.
struct Waiter<'a>(&'a AtomicU32);

impl<'a> Waiter<'a> {
    fn enter(count: &'a AtomicU32) -> Waiter<'a> {
        // Relaxed, here and below: the count only tunes how a thread waits.
        count.fetch_add(1, Ordering::Relaxed);
        Waiter(count)
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What a waiting thread has done since the last progress.
#[derive(Debug, Default)]
struct Idle {
    /// Polls without success.
    polls: u32,
    /// A yield, of this wait or of one before, took so long that the thread should sleep.
    lost_core: bool,
}

/// Records in the state, while it exists, that a thread of the program waits in MPI.
struct WaitScope<'a>(&'a Engine);

impl<'a> WaitScope<'a> {
    fn begin(engine: &'a Engine) -> WaitScope<'a> {
        engine.enter(|state| state.completions.waiting_threads += 1);
        WaitScope(engine)
    }
}

impl Drop for WaitScope<'_> {
    fn drop(&mut self) {
        self.0.enter(|state| state.completions.waiting_threads -= 1);
    }
}

/// What ends a wait.
enum LongPoll<'a, R> {
    /// Called in the engine, after progress ([`Engine::drive`]).
    Inside(&'a mut dyn FnMut(&mut EngineState) -> Option<R>),
    /// Called outside of the engine ([`Engine::watch`]).
    Outside(&'a mut dyn FnMut() -> Option<R>),
}

impl<R> LongPoll<'_, R> {
    /// Polls once, and makes progress. Returns the result, if there is one, and whether anything
    /// has happened.
    fn once(&mut self, engine: &Engine) -> Result<(Option<R>, bool), Fault> {
        match self {
            LongPoll::Inside(f) => engine.enter(|state| {
                if let Some(r) = f(state) {
                    return Ok((Some(r), true));
                }
                let progressed = state.progress()?;
                Ok((progressed.then(|| f(state)).flatten(), progressed))
            }),
            LongPoll::Outside(poll) => match poll() {
                Some(r) => Ok((Some(r), true)),
                None => Ok((None, engine.enter(EngineState::progress)?)),
            },
        }
    }

    /// Polls once; called in the engine.
    fn ready(&mut self, state: &mut EngineState) -> Option<R> {
        match self {
            LongPoll::Inside(f) => f(state),
            LongPoll::Outside(poll) => poll(),
        }
    }
}

/// One wait of one thread: what it has done, since when, and where its time went.
struct OngoingWait<'a> {
    idle: Idle,
    clock: WaitClock,
    account: WaitAccount<'a>,
    /// It is time to park.
    parks: bool,
}

impl<'a> OngoingWait<'a> {
    #[inline(always)]
    fn begin(engine: &'a Engine) -> OngoingWait<'a> {
        OngoingWait {
            idle: Idle::default(),
            clock: WaitClock::default(),
            account: WaitAccount::new(engine),
            parks: false,
        }
    }
}

/// The record in the segment of a wait that lasts; it ends with this.
struct LongWait<'a> {
    engine: &'a Engine,
    is_named: bool,
}

impl LongWait<'_> {
    /// Writes the record, and the function's name if it is time for that. Returns the peer that is
    /// waited for, if it is one.
    fn update(
        &mut self,
        waiting: &dyn Fn(&EngineState, &mut WaitList),
        clock: &mut WaitClock,
    ) -> i32 {
        let engine = self.engine;
        let block = engine.segment.block(engine.rank);
        let pending = engine.first_pending(waiting);
        block.set_waiting(Some((&pending, clock.since())));
        if !self.is_named && clock.has_lasted(NAME_AFTER) {
            self.is_named = true;
            let find_call = engine.reporter.find_call.get();
            if let Some(call) = find_call.and_then(|find_call| find_call()) {
                block.name_wait(&call);
            }
        }
        pending.peer
    }
}

impl Drop for LongWait<'_> {
    fn drop(&mut self) {
        let engine = self.engine;
        engine.segment.block(engine.rank).set_waiting(None);
    }
}

impl Engine {
    /// Makes progress until `f` returns something. Blocks: polls, then yields, then parks.
    /// `waiting` lists the pending operations for a hang report.
    ///
    /// # Errors
    /// When progress fails for lack of memory.
    pub fn drive<R>(
        &self,
        waiting: impl Fn(&EngineState, &mut WaitList),
        mut f: impl FnMut(&mut EngineState) -> Option<R>,
    ) -> Result<R, Fault> {
        let mut wait = OngoingWait::begin(self);
        let _waiter = self.state.is_shared().then(|| Waiter::enter(&self.waiters));
        let _wait = self.offloads.then(|| WaitScope::begin(self));
        loop {
            let mut arrived = false;
            let result = self.enter(|state| {
                if let Some(r) = f(state) {
                    return Ok::<_, Fault>(Some(r));
                }
                if state.progress()? {
                    wait.idle = Idle::default();
                    arrived = true;
                    return Ok(f(state));
                }
                Ok(None)
            })?;
            if let Some(r) = result {
                return Ok(r);
            }
            if arrived {
                wait.account.note_progress();
            }
            if self.pause_briefly(&mut wait, &waiting) {
                return self.wait_long(&waiting, LongPoll::Inside(&mut f), None, wait);
            }
        }
    }

    /// Calls `poll` until it returns something, and makes progress meanwhile. `poll` is called
    /// outside the engine, so it may take long and call the program. Blocks as
    /// [`drive`](Self::drive) does; a rank that changes what `poll` checks must wake this rank.
    ///
    /// # Errors
    /// When progress fails for lack of memory.
    pub fn watch<R>(
        &self,
        waiting: impl Fn(&EngineState, &mut WaitList),
        poll: impl FnMut() -> Option<R>,
    ) -> Result<R, Fault> {
        self.watch_for(waiting, poll, None)
    }

    /// As [`watch`](Self::watch); sleeps for `limit` at most between two polls, if there is one.
    pub(crate) fn watch_for<R>(
        &self,
        waiting: impl Fn(&EngineState, &mut WaitList),
        mut poll: impl FnMut() -> Option<R>,
        limit: Option<Duration>,
    ) -> Result<R, Fault> {
        for _ in 0..self.wait.direct_polls {
            if let Some(r) = poll() {
                return Ok(r);
            }
            if !self.wait.shares_core {
                std::hint::spin_loop();
            } else if self.yields.lose_the_core() || self.yield_in_wait().took_long() {
                break;
            }
        }
        let mut wait = OngoingWait::begin(self);
        let _waiter = self.state.is_shared().then(|| Waiter::enter(&self.waiters));
        let _wait = self.offloads.then(|| WaitScope::begin(self));
        loop {
            if let Some(r) = poll() {
                return Ok(r);
            }
            if self.enter(EngineState::progress)? {
                wait.idle = Idle::default();
                wait.account.note_progress();
                continue;
            }
            if self.pause_briefly(&mut wait, &waiting) {
                return self.wait_long(&waiting, LongPoll::Outside(&mut poll), limit, wait);
            }
        }
    }

    /// After a failed poll of a wait that does not last yet: pauses. True if it lasts from now on.
    #[inline(always)]
    fn pause_briefly(
        &self,
        wait: &mut OngoingWait<'_>,
        waiting: &dyn Fn(&EngineState, &mut WaitList),
    ) -> bool {
        wait.parks = self.pause(&mut wait.idle, &wait.account);
        let is_slow = wait.idle.polls.is_multiple_of(QUESTION_EVERY);
        if wait.parks || is_slow && wait.idle.polls >= LONG_WAIT_POLLS {
            return true;
        }
        if is_slow {
            wait.clock.since();
            wait.account.tick();
            self.answer_open_question(&mut wait.clock, waiting);
        }
        false
    }

    /// Continues a wait that lasts, as `drive` or `watch_for` has begun it.
    #[cold]
    fn wait_long<R>(
        &self,
        waiting: &dyn Fn(&EngineState, &mut WaitList),
        mut poll: LongPoll<'_, R>,
        limit: Option<Duration>,
        wait: OngoingWait<'_>,
    ) -> Result<R, Fault> {
        let OngoingWait { mut idle, mut clock, mut account, mut parks } = wait;
        let mut record = LongWait { engine: self, is_named: false };
        record.update(waiting, &mut clock);
        loop {
            if parks {
                account.tick();
                let unnamed = (!record.is_named).then_some(NAME_AFTER);
                let limit =
                    limit.into_iter().chain(unnamed).chain(self.silent_poll_interval()).min();
                let peer = record.update(waiting, &mut clock);
                if let Some(r) = self.park(peer, &mut clock, limit, &mut poll) {
                    return Ok(r);
                }
                account.tick();
                self.check_loss()?;
                self.answer_open_question(&mut clock, waiting);
            } else if idle.polls.is_multiple_of(QUESTION_EVERY) {
                account.tick();
                if idle.polls.is_multiple_of(LONG_WAIT_POLLS) {
                    record.update(waiting, &mut clock);
                }
                self.answer_open_question(&mut clock, waiting);
            }
            let (result, progressed) = poll.once(self)?;
            if let Some(r) = result {
                return Ok(r);
            }
            if progressed {
                idle = Idle::default();
                account.note_progress();
            }
            parks = match progressed && matches!(poll, LongPoll::Outside(_)) {
                true => false,
                false => self.pause(&mut idle, &account),
            };
        }
    }

    /// How long a thread may sleep while something waits for what wakes nobody.
    fn silent_poll_interval(&self) -> Option<Duration> {
        let is_silent = self.enter(|state| state.schedules.silent_waits > 0);
        is_silent.then_some(SILENT_POLL_INTERVAL)
    }

    /// After a failed poll: spins, or yields to others. True when it is time to park.
    #[inline]
    fn pause(&self, idle: &mut Idle, account: &WaitAccount<'_>) -> bool {
        if self.waits_for_adapter {
            return self.pause_for_adapter(idle);
        }
        idle.polls = idle.polls.saturating_add(1);
        let WaitLimits { polls, yields } = if self.waiters.load(Ordering::Relaxed) > 1 {
            self.wait.crowded
        } else {
            self.wait.alone
        };
        if idle.polls < polls && !idle.polls.is_multiple_of(YIELD_EVERY) {
            std::hint::spin_loop();
        } else if idle.polls < polls {
            // Not everything that runs on this core is known: the peer that this rank waits for may
            // be among it.
            std::thread::yield_now();
        } else if idle.polls - polls < yields && !idle.lost_core {
            if self.wake_socket.is_some() {
                // Iterations are rarer now than the polling schedule of the network assumes.
                self.enter(EngineState::poll_all_next);
            }
            // If ranks share a core, the peer that this rank waits for may be next in the core's
            // run queue: a switch costs less than to sleep and to be woken.
            let is_first = idle.polls == polls;
            idle.lost_core = is_first && self.yields.skip_wait() || {
                let yielded = match account.has_begun() {
                    true => self.yields.yield_core(),
                    false => self.yield_in_wait(),
                };
                yielded.took_long()
            };
        } else if idle.polls < MIN_POLLS_BEFORE_PARKING {
            std::hint::spin_loop();
        } else {
            return true;
        }
        false
    }

    /// After a failed poll in a simulated process: sends the clock to what comes next. Nothing
    /// sleeps or yields here, since the kernel's time is not simulated, and no wait lasts for many
    /// polls.
    #[cold]
    #[inline(never)]
    fn pause_for_adapter(&self, idle: &mut Idle) -> bool {
        if idle.polls < POLLS_BEFORE_CLOCK {
            std::hint::spin_loop();
        } else {
            idle.polls = 0;
            self.enter(EngineState::wait_for_adapter);
        }
        idle.polls += 1;
        false
    }

    /// The loss of a peer, if a peer may be lost without the job ending.
    pub(crate) fn check_loss(&self) -> Result<(), Fault> {
        match self.is_watchful() {
            true => self.enter(|state| state.lost.clone()).map_or(Ok(()), Err),
            false => Ok(()),
        }
    }

    #[cold]
    fn park<R>(
        &self,
        peer: i32,
        clock: &mut WaitClock,
        limit: Option<Duration>,
        poll: &mut LongPoll<'_, R>,
    ) -> Option<R> {
        let mut result = None;
        self.sleep_unless(limit, |state| {
            result = poll.ready(state);
            let stays_awake = result.is_some() || state.has_work();
            state.channels.publish_counters(&state.counters);
            state.counters.add(Counter::Parks, u64::from(!stays_awake));
            stays_awake
        });
        if self.is_watchful() && result.is_none() && clock.is_due(LIVENESS_INTERVAL) {
            self.enter(|state| state.check_alive(&self.segment, peer));
        }
        result
    }

    /// Sleeps until a peer wakes this rank, or a transport has something, or `limit` has passed,
    /// unless `ready` finds that there is already something to do. May return early.
    pub(crate) fn sleep_unless(
        &self,
        limit: Option<Duration>,
        ready: impl FnOnce(&mut EngineState) -> bool,
    ) {
        let own = &self.segment.block(self.rank).parking.0;
        let Some(wake_socket) = &self.wake_socket else {
            let alive = self.is_watchful().then_some(LIVENESS_INTERVAL);
            let limit = limit.into_iter().chain(alive).min();
            return own.park(self.park_fencing, limit, || self.enter(ready));
        };
        own.listen(self.park_fencing, wake_socket, || {
            let events = self.enter(|state| if ready(state) { None } else { state.watch() });
            events.map(|events| events.shorter(limit))
        });
    }
}
