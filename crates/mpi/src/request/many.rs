//! Any or some of several requests (MPI 5.0, 3.7.5 and 3.7.6): `MPI_Waitany`, `MPI_Testany`,
//! `MPI_Request_get_status_any`, and those with `some`.
//!
//! Of few requests, all are looked at in each poll, the first in the array first. Of [`MANY`] and
//! more, a look at all of them asks the engine to report the places in the array of those that are
//! incomplete ([`EngineState::watch_receive`]), and the polls that follow, also those of later
//! calls, look where a completion was reported. So the completion of one of N requests costs the
//! same for any N:
//!
//! - all are looked at only when no report is left. Each look reports all that was complete, so
//!   there is one for as many completions as there were meanwhile;
//! - a call that waits looks at all once it has polled for about as long as that takes
//!   ([`LOOKS_PER_POLL`]), so it costs no more than the wait, and surely before it parks: a program
//!   may have put other requests into the array.
//!
//! A report says no more than that a place is worth a look, so a report of another array, or of a
//! request that was completed by other means, costs one look.
//!
//! Where several threads may be inside MPI, the calls hold the requests that they wait for instead,
//! since another thread may read a report, or complete a request and have its handle used again.

use std::cell::Cell;

use mica_memory::{OutOfMemory, try_collect_valid, try_push};
use mica_protocol::{EngineState, MIN_POLLS_BEFORE_PARKING, WaitList};

use super::complete::{finish, status};
use super::{
    OnCompletion, REQUESTS, Request, RequestOutcome, RequestWork, is_active, list_all,
    list_handles, plain, plain::RequestElement,
};
use crate::constants as c;
use crate::error::{Error, Result};
use crate::handle::HandleKind;
use crate::process;
use crate::sync::lock;

/// Number of requests from which on their completions are reported: below, a look at all of them
/// (2 to 5 ns each) costs no more than to keep the reports.
const MANY: usize = 32;

/// Looks at requests that take as long as one poll without success (some 30 ns).
const LOOKS_PER_POLL: usize = 10;

/// A completion that was taken: the place, the handle that was there, and the outcome.
type Completion = (usize, u32, RequestOutcome);

/// What a call on several requests found: nothing to wait for, nothing complete yet, or what
/// completed.
#[derive(Debug, Clone)]
pub enum FoundRequests<T> {
    /// All handles are `MPI_REQUEST_NULL`, or of inactive requests.
    NoneActive,
    /// Nothing is complete.
    NotYet,
    /// These are complete.
    Complete(T),
}

impl<T> FoundRequests<T> {
    fn map<U>(self, f: impl FnOnce(T) -> U) -> FoundRequests<U> {
        match self {
            FoundRequests::NoneActive => FoundRequests::NoneActive,
            FoundRequests::NotYet => FoundRequests::NotYet,
            FoundRequests::Complete(found) => FoundRequests::Complete(f(found)),
        }
    }
}

/// The completions that a call takes: one, or all that there are.
trait Taken: Default {
    /// Makes room for one more.
    fn reserve(&mut self) -> Result<()>;
    fn add(&mut self, completion: Completion);
    fn is_empty(&self) -> bool;
    /// Whether it takes no more.
    fn is_full(&self) -> bool;
}

impl Taken for Option<Completion> {
    fn reserve(&mut self) -> Result<()> {
        Ok(())
    }

    fn add(&mut self, completion: Completion) {
        *self = Some(completion);
    }

    fn is_empty(&self) -> bool {
        self.is_none()
    }

    fn is_full(&self) -> bool {
        self.is_some()
    }
}

impl Taken for Vec<Completion> {
    fn reserve(&mut self) -> Result<()> {
        let bytes = (self.len() + 1) * size_of::<Completion>();
        Ok(self.try_reserve(1).map_err(|_| OutOfMemory { bytes })?)
    }

    fn add(&mut self, completion: Completion) {
        self.push(completion);
    }

    fn is_empty(&self) -> bool {
        Vec::is_empty(self)
    }

    fn is_full(&self) -> bool {
        false
    }
}

/// What a look at one request shows.
#[derive(PartialEq, Eq)]
enum Look {
    /// It is `MPI_REQUEST_NULL`, or persistent and inactive.
    Inactive,
    /// It is incomplete, or complete and reported for a later look.
    Active,
    /// It was complete, and was taken.
    Taken,
}

/// One call's search for complete requests. It looks at what the handles name at that time, so it
/// lasts for one poll where several threads may be inside.
struct Search<'a, H, T> {
    array: &'a [Cell<H>],
    /// Whether completions are reported, so that few requests need be looked at.
    has_reports: bool,
    taken: T,
    /// Polls without success, until all were looked at.
    polls: usize,
    has_seen_all: bool,
    /// Places of the active requests whose completion the engine does not report.
    unreported: Vec<usize>,
}

impl<'a, H: RequestElement, T: Taken> Search<'a, H, T> {
    fn new(array: &'a [Cell<H>]) -> Search<'a, H, T> {
        Search {
            array,
            has_reports: is_sole() && array.len() >= MANY,
            taken: T::default(),
            polls: 0,
            has_seen_all: false,
            unreported: Vec::new(),
        }
    }

    /// Takes the completion at a place if there is one, and more are wanted.
    fn look_at(&mut self, place: usize, state: &mut EngineState) -> Result<Look> {
        let handle = self.array[place].get().into();
        if handle == c::REQUEST_NULL {
            return Ok(Look::Inactive);
        }
        if plain::is_known_incomplete(handle, state) {
            return Ok(Look::Active);
        }
        self.take_at(place, state)
    }

    /// As [`look_at`](Self::look_at); a completion that is to come, or not wanted yet, is reported.
    fn watch_at(&mut self, place: usize, state: &mut EngineState) -> Result<Look> {
        let handle = self.array[place].get().into();
        if handle == c::REQUEST_NULL {
            return Ok(Look::Inactive);
        }
        let watched = REQUESTS.look(handle, |request| watch(request, place as u32, state));
        if watched == Some(true) {
            return Ok(Look::Active);
        }
        if self.taken.is_full() {
            state.report_place(place as u32);
            return Ok(Look::Active);
        }
        let look = self.take_at(place, state)?;
        if look == Look::Active {
            try_push(&mut self.unreported, place)?;
        }
        Ok(look)
    }

    fn take_at(&mut self, place: usize, state: &mut EngineState) -> Result<Look> {
        let handle = self.array[place].get().into();
        let Some(request) = Request::resolve_active(handle)? else {
            return Ok(Look::Inactive);
        };
        self.taken.reserve()?;
        Ok(match request.poll(state, OnCompletion::Take) {
            None => Look::Active,
            Some(outcome) => {
                // Not to be looked at again: the engine has forgotten it.
                clear(&self.array[place], &outcome);
                self.taken.add((place, handle, outcome));
                Look::Taken
            }
        })
    }

    /// Looks at all requests. `None`: some are active, and none is complete.
    fn look_at_all(&mut self, state: &mut EngineState) -> Result<Option<FoundRequests<T>>> {
        if self.has_reports {
            state.reserve_places(self.array.len())?;
        }
        self.unreported.clear();
        let mut are_active = false;
        for place in 0..self.array.len() {
            if !self.has_reports && self.taken.is_full() {
                break;
            }
            let look = match self.has_reports {
                true => self.watch_at(place, state),
                false => self.look_at(place, state),
            };
            match look {
                Ok(look) => are_active |= look != Look::Inactive,
                // What is complete is not lost: the next call meets the error.
                Err(_) if !self.taken.is_empty() => break,
                Err(error) => return Err(error),
            }
        }
        self.has_seen_all = true;
        Ok(match (self.taken.is_empty(), are_active) {
            (true, true) => None,
            (true, false) => Some(FoundRequests::NoneActive),
            (false, _) => Some(self.found()),
        })
    }

    /// Looks at what is reported, and what never is. `None`: nothing of it is complete.
    fn look_at_reported(&mut self, state: &mut EngineState) -> Result<Option<FoundRequests<T>>> {
        while !self.taken.is_full()
            && let Some(place) = state.next_reported_place()
        {
            let place = place as usize;
            if place < self.array.len() {
                self.look_at_again(place, state)?;
            }
        }
        for i in 0..self.unreported.len() {
            if self.taken.is_full() {
                break;
            }
            self.look_at_again(self.unreported[i], state)?;
        }
        Ok((!self.taken.is_empty()).then(|| self.found()))
    }

    fn look_at_again(&mut self, place: usize, state: &mut EngineState) -> Result<()> {
        match self.look_at(place, state) {
            Err(error) if self.taken.is_empty() => Err(error),
            _ => Ok(()),
        }
    }

    fn found(&mut self) -> FoundRequests<T> {
        FoundRequests::Complete(std::mem::take(&mut self.taken))
    }

    /// One poll of a call that waits.
    fn poll(&mut self, state: &mut EngineState) -> Result<Option<FoundRequests<T>>> {
        if !self.has_reports {
            return self.look_at_all(state);
        }
        if let Some(found) = self.look_at_reported(state)? {
            return Ok(Some(found));
        }
        let enough = (self.array.len() / LOOKS_PER_POLL).min(MOST_POLLS);
        if self.has_seen_all || self.polls < enough {
            self.polls += 1;
            return Ok(None);
        }
        self.look_at_all(state)
    }

    /// A call that tests: two polls with progress between them, the last of them a look at all.
    fn poll_once(
        &mut self,
        state: &mut EngineState,
        arrived: &mut bool,
    ) -> Result<Option<FoundRequests<T>>> {
        let found = match self.has_reports {
            true => self.look_at_reported(state)?,
            false => self.look_at_all(state)?,
        };
        if found.is_some() {
            return Ok(found);
        }
        *arrived = state.progress()?;
        if self.has_reports
            && let Some(found) = self.look_at_reported(state)?
        {
            return Ok(Some(found));
        }
        self.look_at_all(state)
    }
}

/// Polls of a call that waits before it looks at all, at most. A rank parks after more.
const MOST_POLLS: usize = MIN_POLLS_BEFORE_PARKING as usize / 2;

/// Asks for a report of the completion of a request. False: it is complete, or its kind has no
/// reports.
fn watch(request: &Request, place: u32, state: &mut EngineState) -> bool {
    match &request.work {
        RequestWork::Send(id) => state.watch_send(*id, place),
        RequestWork::Receive(id) => state.watch_receive(*id, place),
        RequestWork::Persistent(persistent) => {
            let active = lock(&persistent.active);
            active.as_ref().is_some_and(|request| watch(request, place, state))
        }
        _ => false,
    }
}

/// Whether the process keeps its threads apart.
fn is_sole() -> bool {
    REQUESTS.sole(HandleKind::Request).is_some()
}

fn wait<T: Taken>(array: &[Cell<impl RequestElement>]) -> Result<FoundRequests<T>> {
    let engine = process::engine()?;
    let mut search = Search::new(array);
    if is_sole() {
        let waiting = |state: &EngineState, list: &mut WaitList| {
            list_handles(array.iter().map(|element| element.get().into()), state, list);
        };
        return engine.drive(waiting, |state| search.poll(state).transpose())?;
    }
    if let Some(found) = engine.enter(|state| search.look_at_all(state))? {
        return Ok(found);
    }
    let held = HeldRequests::new(array)?;
    if held.are_inactive() {
        return Ok(FoundRequests::NoneActive);
    }
    let waiting = |state: &EngineState, list: &mut WaitList| held.list(state, list);
    Ok(FoundRequests::Complete(engine.drive(waiting, |state| held.take(state))?))
}

fn test<T: Taken>(array: &[Cell<impl RequestElement>]) -> Result<FoundRequests<T>> {
    let poll = process::begin_poll()?;
    let mut search = Search::new(array);
    if is_sole() {
        let waiting = |state: &EngineState, list: &mut WaitList| {
            list_handles(array.iter().map(|element| element.get().into()), state, list);
        };
        let mut failed = None;
        let question = |state: &mut EngineState, arrived: &mut bool| {
            Ok(search.poll_once(state, arrived).unwrap_or_else(|error| {
                failed = Some(error);
                None
            }))
        };
        let found = poll.try_once(question, waiting)?;
        return match failed {
            None => Ok(found.unwrap_or(FoundRequests::NotYet)),
            Some(error) => Err(error),
        };
    }
    if let Some(found) = process::engine()?.enter(|state| search.look_at_all(state))? {
        return Ok(found);
    }
    let held = HeldRequests::new(array)?;
    if held.are_inactive() {
        return Ok(FoundRequests::NoneActive);
    }
    let question = |state: &mut EngineState, arrived: &mut bool| {
        *arrived = state.progress()?;
        Ok(held.take(state))
    };
    let found = poll.try_once(question, |state, list| held.list(state, list))?;
    Ok(found.map_or(FoundRequests::NotYet, FoundRequests::Complete))
}

/// The active requests of a call and their handles, in a process whose threads may all be inside.
struct HeldRequests(Vec<(u32, Option<Request>)>);

impl HeldRequests {
    fn new(array: &[Cell<impl RequestElement>]) -> Result<HeldRequests> {
        let requests = array.iter().map(|element| {
            let handle = element.get().into();
            Ok::<_, Error>((handle, Request::resolve_active(handle)?))
        });
        Ok(HeldRequests(try_collect_valid(requests)?))
    }

    fn are_inactive(&self) -> bool {
        self.0.iter().all(|(_, request)| request.is_none())
    }

    fn list(&self, state: &EngineState, list: &mut WaitList) {
        list_all(self.0.iter().filter_map(|(_, request)| request.as_ref()), state, list);
    }

    fn take<T: Taken>(&self, state: &mut EngineState) -> Option<T> {
        let mut taken = T::default();
        for (place, (handle, request)) in self.0.iter().enumerate() {
            let Some(request) = request else { continue };
            if let Some(outcome) = request.poll(state, OnCompletion::Take) {
                taken.add((place, *handle, outcome));
                if taken.is_full() {
                    break;
                }
            }
        }
        (!taken.is_empty()).then_some(taken)
    }
}

/// Sets the handle of a request that ended with `outcome` to `MPI_REQUEST_NULL`, unless it stays.
fn clear<H: RequestElement>(element: &Cell<H>, outcome: &RequestOutcome) {
    if !outcome.keep {
        element.set(c::REQUEST_NULL.into());
    }
}

fn finish_at(
    array: &[Cell<impl RequestElement>],
    (place, handle, outcome): Completion,
) -> (usize, RequestOutcome) {
    let outcome = finish(handle, outcome);
    clear(&array[place], &outcome);
    (place, outcome)
}

fn finish_one(
    array: &[Cell<impl RequestElement>],
    found: FoundRequests<Option<Completion>>,
) -> FoundRequests<(usize, RequestOutcome)> {
    found.map(|taken| finish_at(array, taken.expect("what is complete was taken")))
}

fn finish_some(
    array: &[Cell<impl RequestElement>],
    found: FoundRequests<Vec<Completion>>,
) -> FoundRequests<Vec<(usize, RequestOutcome)>> {
    found.map(|taken| taken.into_iter().map(|taken| finish_at(array, taken)).collect())
}

/// `MPI_Waitany`: blocks until one request is complete; its handle is used up.
///
/// # Errors
/// `MPI_ERR_REQUEST`; `MPI_ERR_NO_MEM`. The operation's own error is in the outcome.
pub fn wait_any(
    array: &[Cell<impl RequestElement>],
) -> Result<FoundRequests<(usize, RequestOutcome)>> {
    Ok(finish_one(array, wait(array)?))
}

/// `MPI_Testany`: one request that is complete, if one is; its handle is used up.
///
/// # Errors
/// As [`wait_any`].
pub fn test_any(
    array: &[Cell<impl RequestElement>],
) -> Result<FoundRequests<(usize, RequestOutcome)>> {
    Ok(finish_one(array, test(array)?))
}

/// `MPI_Waitsome`: blocks until at least one request is complete; the handles of those that are
/// complete are used up.
///
/// # Errors
/// As [`wait_any`].
pub fn wait_some(
    array: &[Cell<impl RequestElement>],
) -> Result<FoundRequests<Vec<(usize, RequestOutcome)>>> {
    Ok(finish_some(array, wait(array)?))
}

/// `MPI_Testsome`: the requests that are complete, if any are; their handles are used up.
///
/// # Errors
/// As [`wait_any`].
pub fn test_some(
    array: &[Cell<impl RequestElement>],
) -> Result<FoundRequests<Vec<(usize, RequestOutcome)>>> {
    Ok(finish_some(array, test(array)?))
}

/// `MPI_Request_get_status_any`: the first request that is complete, if one is; it stays.
///
/// # Errors
/// As [`wait`].
pub fn status_any(
    handles: impl Iterator<Item = u32>,
) -> Result<FoundRequests<(usize, RequestOutcome)>> {
    let mut active = false;
    for (i, handle) in handles.enumerate() {
        if is_active(handle)? {
            active = true;
            if let Some(outcome) = status(handle)? {
                // What failed is raised where the request is completed.
                return Ok(FoundRequests::Complete((i, RequestOutcome { error: None, ..outcome })));
            }
        }
    }
    Ok(if active { FoundRequests::NotYet } else { FoundRequests::NoneActive })
}

/// `MPI_Request_get_status_some`: the requests that are complete, if any are; they stay.
///
/// # Errors
/// As [`wait`].
pub fn status_some(
    handles: impl Iterator<Item = u32>,
) -> Result<FoundRequests<Vec<(usize, RequestOutcome)>>> {
    let (mut found, mut active) = (Vec::new(), false);
    for (i, handle) in handles.enumerate() {
        if is_active(handle)? {
            active = true;
            let complete = status(handle)?;
            found.extend(complete.map(|outcome| (i, RequestOutcome { error: None, ..outcome })));
        }
    }
    Ok(match (found.is_empty(), active) {
        (false, _) => FoundRequests::Complete(found),
        (true, true) => FoundRequests::NotYet,
        (true, false) => FoundRequests::NoneActive,
    })
}
