//! Accesses of several steps: what a collective access does, and what goes on while the program
//! computes.
//!
//! An access is an `async` function over a [`Desk`]: it leaves there the messages to be exchanged
//! and the jobs that call the system, and goes on when they are over. [`FileOperation`] takes them
//! from the desk, in one of two ways:
//!
//! - a blocking call ([`FileOperation::run`]): the calling thread drives the engine, and runs the
//!   jobs outside it;
//! - a nonblocking or split one ([`FileOperation::start`]): the messages are exchanged by a
//!   reaction of the engine, in any call that makes progress; jobs run on a thread of the library,
//!   which exchanges messages as well where a core is free ([`worker`]).
//!
//! Collective accesses of one file take turns, in the order of their calls, which is the same at
//! all ranks: so the messages of two never mix, and a later one sees what an earlier one wrote.

mod turns;
mod worker;

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use mica_collective::execute;
use mica_collective::members::Members;
use mica_collective::schedule::RoundTransfer;
use mica_objects::error::{Error, Result};
use mica_objects::process;
use mica_objects::sync::lock;
use mica_protocol::{
    EngineState, Pending, Reaction, ScheduleFailure, ScheduleId, ScheduleStage, ScheduleStep,
    WaitKind,
};

pub use turns::Turns;

/// How long a nonblocking collective access waits for the other ranks before it leaves the rest to
/// later calls.
const TOGETHER: Duration = Duration::from_micros(50);

type Job = Box<dyn FnOnce() + Send>;
type Steps = Pin<Box<dyn Future<Output = Result<u64>> + Send>>;

/// Where an access leaves what is to be done for it. Clones are the same desk.
#[derive(Clone)]
pub struct Desk(Arc<Mutex<DeskState>>);

#[derive(Default)]
struct DeskState {
    /// Messages that have not been started, by number.
    waiting: Vec<(usize, Plane, Vec<ScheduleStep>)>,
    under_way: Vec<(usize, ScheduleId)>,
    /// How exchanges ended, by number.
    ended: Vec<Option<std::result::Result<(), ScheduleFailure>>>,
    jobs: Vec<Job>,
}

/// Which messages may match one another: each plane has a tag of its own, and messages between two
/// ranks match in order in each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plane {
    /// What ranks tell one another, and what a rank sends with it.
    Control,
    /// What an aggregator answers with.
    Answers,
}

/// Messages that have been left at a desk.
#[derive(Debug)]
#[must_use]
pub struct Exchanged(usize);

/// A job that has been left at a desk.
#[must_use]
pub struct Running<T>(Arc<Mutex<Option<T>>>);

impl Desk {
    fn new() -> Desk {
        Desk(Arc::new(Mutex::new(DeskState::default())))
    }

    /// Leaves messages to be exchanged. All are under way together: receives are posted first, and
    /// sends are started in their order.
    pub fn exchange(
        &self,
        members: &Members,
        plane: Plane,
        transfers: Vec<RoundTransfer>,
    ) -> Exchanged {
        let step = |transfer| match transfer {
            RoundTransfer::Send { to, view } => {
                ScheduleStep::Send { peer: members.schedule_peer(to), view }
            }
            RoundTransfer::Receive { from, view } => {
                ScheduleStep::Receive { peer: members.schedule_peer(from), view }
            }
        };
        let mut state = lock(&self.0);
        let number = state.ended.len();
        if transfers.is_empty() {
            state.ended.push(Some(Ok(())));
        } else {
            state.ended.push(None);
            state.waiting.push((number, plane, transfers.into_iter().map(step).collect()));
        }
        Exchanged(number)
    }

    /// Waits until the messages have been exchanged.
    ///
    /// # Errors
    /// Those of messages.
    pub async fn exchanged(&self, members: &Members, messages: Exchanged) -> Result<()> {
        let ended = poll_fn(|_| match lock(&self.0).ended[messages.0].clone() {
            Some(ended) => Poll::Ready(ended),
            None => Poll::Pending,
        });
        ended.await.map_err(|failure| execute::error_of(members, failure))
    }

    /// Leaves a job that may block.
    pub fn begin<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> Running<T> {
        let result = Arc::new(Mutex::new(None));
        let place = Arc::clone(&result);
        lock(&self.0).jobs.push(Box::new(move || {
            let done = job();
            *lock(&place) = Some(done);
        }));
        Running(result)
    }

    /// Waits until the job is done.
    pub async fn done<T>(&self, job: Running<T>) -> T {
        poll_fn(|_| match lock(&job.0).take() {
            Some(result) => Poll::Ready(result),
            None => Poll::Pending,
        })
        .await
    }

    /// Leaves a job that may block, and waits until it is done.
    pub async fn run<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> T {
        self.done(self.begin(job)).await
    }

    /// Starts the messages that wait, and notes those that have ended.
    fn advance(&self, state: &mut EngineState, context: u64, tags: [i32; 2]) {
        let desk = &mut *lock(&self.0);
        for (number, plane, steps) in desk.waiting.drain(..) {
            let tag = tags[plane as usize];
            let stage = ScheduleStage { steps, ..ScheduleStage::default() };
            let id = state.start_schedule(context, tag, [stage].into());
            desk.under_way.push((number, id));
        }
        let ended = &mut desk.ended;
        desk.under_way.retain(|&(number, id)| match state.take_schedule(id) {
            Some(end) => {
                ended[number] = Some(end);
                false
            }
            None => true,
        });
    }

    fn take_job(&self) -> Option<Job> {
        let jobs = &mut lock(&self.0).jobs;
        (!jobs.is_empty()).then(|| jobs.remove(0))
    }

    fn has_messages(&self) -> bool {
        !lock(&self.0).waiting.is_empty()
    }
}

/// What an operation needs next.
enum NextStep {
    Job(Job),
    Done,
}

/// How an operation ended.
#[derive(Clone, Debug)]
struct Outcome {
    /// Bytes that were transferred.
    bytes: u64,
    error: Option<Error>,
}

/// What becomes of the bytes that were read, outside the engine: it may call the program.
pub type Conclusion = Box<dyn FnOnce(u64) -> Result<u64> + Send>;

/// An access that is under way.
pub struct FileOperation {
    /// The function that the program called, for reports.
    label: &'static str,
    /// The file's handle: errors are raised on it.
    file: u32,
    context: u64,
    tags: Option<[i32; 2]>,
    desk: Desk,
    steps: Mutex<Option<Steps>>,
    outcome: Mutex<Option<Outcome>>,
    conclusion: Mutex<Option<Conclusion>>,
    /// A call of the system has been made, or is being made.
    has_job: AtomicBool,
    /// The thread of the library exchanges its messages.
    is_exchanged: AtomicBool,
}

impl fmt::Debug for FileOperation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileOperation").field("label", &self.label).finish_non_exhaustive()
    }
}

/// What an operation is called, where its errors go, and what its messages carry.
#[derive(Clone, Debug)]
pub struct OperationIdentity {
    /// The function that the program called.
    pub label: &'static str,
    /// The file's handle.
    pub file: u32,
    /// Context of its messages.
    pub context: u64,
    /// Their tags, by [`Plane`]; `None` of an access without messages.
    pub tags: Option<[i32; 2]>,
}

impl FileOperation {
    /// The operation whose steps `steps` returns. `conclusion` gets the bytes that were read.
    pub fn new<F: Future<Output = Result<u64>> + Send + 'static>(
        identity: OperationIdentity,
        steps: impl FnOnce(Desk) -> F,
        conclusion: Option<Conclusion>,
    ) -> Arc<FileOperation> {
        let desk = Desk::new();
        let steps: Steps = Box::pin(steps(desk.clone()));
        Arc::new(FileOperation {
            label: identity.label,
            file: identity.file,
            context: identity.context,
            tags: identity.tags,
            desk,
            steps: Mutex::new(Some(steps)),
            outcome: Mutex::new(None),
            conclusion: Mutex::new(conclusion),
            has_job: AtomicBool::new(false),
            is_exchanged: AtomicBool::new(false),
        })
    }

    /// Carries it out. Blocks. Returns the bytes that were transferred.
    ///
    /// # Errors
    /// Those of the access.
    pub fn run(&self) -> Result<u64> {
        let engine = process::engine()?;
        let waiting =
            |_: &EngineState, list: &mut mica_protocol::WaitList| list.add(self.pending());
        loop {
            match engine.drive(waiting, |state| self.advance(state))? {
                NextStep::Job(job) => job(),
                NextStep::Done => return self.conclude(),
            }
        }
    }

    /// Starts it: it goes on in every call that makes progress, and on a thread of the library.
    ///
    /// # Errors
    /// When the process has no engine.
    pub fn start(self: &Arc<Self>) -> Result<()> {
        let engine = process::engine()?;
        // Relaxed: threads see it by the engine's lock.
        self.is_exchanged
            .store(self.tags.is_some() && worker::begin_exchange(engine), Ordering::Relaxed);
        engine.enter(|state| {
            state.begin_polling();
            if !self.react(state) {
                state.add_reaction(Arc::clone(self) as _);
            }
        });
        // What ranks tell one another at first takes some microseconds, if they come together.
        // After that an access which needs no exchange goes on by itself.
        let begun = Instant::now();
        while !self.goes_on_alone() && begun.elapsed() < TOGETHER {
            let poll = |state: &mut EngineState, arrived: &mut bool| {
                *arrived = state.progress()?;
                Ok(Some(()))
            };
            engine.begin_poll().try_once(poll, |_, list| list.add(self.pending()))?;
        }
        Ok(())
    }

    /// Whether another thread goes on with it, or all is over.
    fn goes_on_alone(&self) -> bool {
        // Relaxed: this thread has set them, or another one, which changes how long is waited.
        self.is_exchanged.load(Ordering::Relaxed)
            || self.has_job.load(Ordering::Relaxed)
            || self.is_complete()
    }

    /// Waits for one that has been started. Blocks. Returns the bytes that were transferred.
    ///
    /// # Errors
    /// Those of the access.
    pub fn wait(&self) -> Result<u64> {
        let waiting =
            |_: &EngineState, list: &mut mica_protocol::WaitList| list.add(self.pending());
        process::engine()?.drive(waiting, |_| self.is_complete().then_some(()))?;
        self.conclude()
    }

    /// Whether it is over, but for [`conclude`](Self::conclude).
    pub fn is_complete(&self) -> bool {
        lock(&self.outcome).is_some()
    }

    /// Handle of the file.
    pub fn file(&self) -> u32 {
        self.file
    }

    /// Context of its messages, without the plane.
    pub fn context(&self) -> u64 {
        self.context & !1
    }

    /// The function that the program called.
    pub fn label(&self) -> &'static str {
        self.label
    }

    /// Ends an operation that is complete: converts what was read, once. May call the program; to
    /// be called outside the engine. Returns the bytes that were transferred, in memory.
    ///
    /// # Errors
    /// Those of the access.
    pub fn conclude(&self) -> Result<u64> {
        let conclusion = lock(&self.conclusion).take();
        let outcome = lock(&self.outcome).clone().expect("the operation is complete");
        if let Some(error) = outcome.error {
            return Err(error);
        }
        let Some(conclusion) = conclusion else {
            return Ok(outcome.bytes);
        };
        let concluded = conclusion(outcome.bytes);
        let kept = match &concluded {
            Ok(bytes) => Outcome { bytes: *bytes, error: None },
            Err(error) => Outcome { bytes: 0, error: Some(error.clone()) },
        };
        *lock(&self.outcome) = Some(kept);
        concluded
    }

    fn pending(&self) -> Pending {
        let context = Some(self.context());
        Pending { name: Some(self.label.into()), context, ..Pending::of(WaitKind::Requests) }
    }

    /// Goes on as far as possible without waiting.
    fn advance(&self, state: &mut EngineState) -> Option<NextStep> {
        if self.is_complete() {
            return Some(NextStep::Done);
        }
        loop {
            self.desk.advance(state, self.context, self.tags.unwrap_or_default());
            let polled = {
                let mut steps = lock(&self.steps);
                let steps = steps.as_mut().expect("an operation that is not complete has steps");
                steps.as_mut().poll(&mut Context::from_waker(Waker::noop()))
            };
            if let Poll::Ready(result) = polled {
                let outcome = match result {
                    Ok(bytes) => Outcome { bytes, error: None },
                    Err(error) => Outcome { bytes: 0, error: Some(error) },
                };
                // They hold the file and the program's memory.
                *lock(&self.steps) = None;
                *lock(&self.outcome) = Some(outcome);
                // The next collective access of the file may begin.
                state.note_completion();
                return Some(NextStep::Done);
            }
            if self.desk.has_messages() {
                continue;
            }
            return self.desk.take_job().map(NextStep::Job);
        }
    }
}

impl Reaction for FileOperation {
    fn react(&self, state: &mut EngineState) -> bool {
        loop {
            match self.advance(state) {
                None => return false,
                Some(NextStep::Job(job)) => {
                    self.has_job.store(true, Ordering::Relaxed);
                    worker::submit(job);
                }
                Some(NextStep::Done) => {
                    state.end_polling();
                    if self.is_exchanged.swap(false, Ordering::Relaxed) {
                        worker::end_exchange();
                    }
                    return true;
                }
            }
        }
    }
}
