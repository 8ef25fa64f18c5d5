//! One test or probe of the program: it polls the engine once, and does not wait.
//!
//! If ranks share cores, or threads of one rank do, a thread whose poll has failed may have to
//! yield, or the rank that it waits for never gets the core. [`PollYield`] decides when. Its state
//! is kept per thread, since one thread may compute between its tests while another only polls. The
//! clock is read where the program's call begins and where a poll fails: the time between two such
//! pairs is the program's own.

use crate::engine::{Engine, EngineState, Fault};
use crate::wait::pending::WaitList;
use std::cell::RefCell;

use mica_node::ticks;
use mica_policy::PollYield;

thread_local! {
    static HISTORY: RefCell<PollYield> = const { RefCell::new(PollYield::new()) };
}

/// A test or probe that has begun.
#[derive(Debug)]
pub struct Poll<'a> {
    engine: &'a Engine,
    may_yield: bool,
}

impl Engine {
    /// To be called when a test or probe of the program begins. May yield the core.
    #[inline(always)]
    pub fn begin_poll(&self) -> Poll<'_> {
        // Other ranks, or other threads of this one, may need the core of a thread that polls.
        let may_yield =
            (self.wait.shares_core || self.state.is_shared()) && !self.waits_for_adapter;
        if may_yield {
            yield_if_due();
        }
        Poll { engine: self, may_yield }
    }
}

impl Poll<'_> {
    /// Polls the engine once. `attempt` returns the result, and sets its flag if anything has
    /// arrived; `waiting` lists what is asked for, for a hang report.
    ///
    /// # Errors
    /// Those of `attempt`.
    #[inline]
    pub fn try_once<R>(
        self,
        attempt: impl FnOnce(&mut EngineState, &mut bool) -> Result<Option<R>, Fault>,
        waiting: impl Fn(&EngineState, &mut WaitList),
    ) -> Result<Option<R>, Fault> {
        let mut arrived = false;
        let result = self.engine.enter(|state| attempt(state, &mut arrived))?;
        if self.may_yield {
            match result.is_some() || arrived {
                true => change(PollYield::useful),
                false => change(|history| history.failed(ticks::now_ns())),
            }
        }
        match result.is_some() {
            true => self.engine.note_successful_poll(),
            false => self.engine.note_failed_poll(waiting),
        }
        Ok(result)
    }
}

/// Yields the core at the begin of a poll, if the thread's history asks for it.
#[inline(never)]
fn yield_if_due() {
    if change(|history| history.begin(ticks::now_ns())) {
        std::thread::yield_now();
        change(|history| history.yielded(ticks::now_ns()));
    }
}

#[inline]
fn change<R>(f: impl FnOnce(&mut PollYield) -> R) -> R {
    HISTORY.with_borrow_mut(f)
}
