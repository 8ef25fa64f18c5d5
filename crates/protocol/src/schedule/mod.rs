//! Schedules: operations of several stages, which the engine advances whenever it makes progress.
//!
//! A collective is described once, as stages of messages and local work. The blocking form runs it
//! to completion at once; the nonblocking and persistent forms pass it to the engine. Any number
//! may be in progress on one communicator; their tags distinguish them.
//!
//! | step of a stage | begins when |
//! |---|---|
//! | messages, receives before sends | the stage before is over |
//! | the task, if there is one | all messages of the stage have completed |
//! | local work, in order | the task has completed |
//!
//! A schedule is over after its last stage. One that fails goes on through its stages with empty
//! messages, since its peers count on them; only without a peer it is over at once. It is advanced
//! under the engine's lock, after completions, and in every iteration while a task polls memory
//! that ranks share ([`run`]).
//!
//! Source: MPI 5.0, 6.12 (nonblocking collectives) and 6.13 (persistent).

pub(crate) mod run;

use crate::engine::Fault;
use crate::pt2pt::{OperationKey, OperationTable, ReceiveCompletion, RecvId, SendId};
use std::collections::VecDeque;
use std::fmt::Debug;
use std::sync::Arc;

use mica_memory::View;

/// A schedule that has begun. Once its completion was taken it names nothing any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ScheduleId(pub(crate) OperationKey);

/// One message of a stage. Peers are job-wide ranks.
#[derive(Debug, Clone)]
pub enum ScheduleStep {
    /// Send `view` to `peer`.
    Send {
        /// Destination.
        peer: u32,
        /// What to send.
        view: View,
    },
    /// Receive from `peer` into `view`.
    Receive {
        /// Source.
        peer: u32,
        /// Where to put it.
        view: View,
    },
}

/// Local work of a stage. It runs inside the engine, so it must not send or receive.
pub trait StageWork: Send + Sync + Debug {
    /// Does the work.
    ///
    /// # Errors
    /// An error code; the schedule ends with it.
    fn run(&self) -> Result<(), i32>;
}

/// A part of an operation that advances by polling memory that ranks share. A rank that changes
/// what it polls wakes this rank.
pub trait StageTask: Send + Debug {
    /// Before the first advance: the operation has failed at this rank. The task is to let the
    /// others know, and to do no more.
    fn leave(&mut self);

    /// Advances as far as possible without waiting. Returns the result when complete. Runs inside
    /// the engine.
    fn advance(&mut self) -> Option<Result<(), TaskError>>;
}

/// Creates the tasks of a stage, one for each run of its schedule. Called when the schedule starts,
/// for all stages in order.
pub trait Prepare: Send + Sync + Debug {
    /// Creates the task.
    fn prepare(&self) -> Box<dyn StageTask>;
}

/// Why a task failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskError {
    /// An MPI error code.
    pub code: i32,
    /// What happened.
    pub detail: String,
}

/// Messages that are in progress together, a task that begins when all of them are complete, and
/// the work that follows.
#[derive(Debug, Clone, Default)]
pub struct ScheduleStage {
    /// Messages.
    pub steps: Vec<ScheduleStep>,
    /// The task after them.
    pub task: Option<Arc<dyn Prepare>>,
    /// Work after it, in order.
    pub local: Vec<Arc<dyn StageWork>>,
}

impl ScheduleStage {
    /// Whether it does nothing but exchange messages, so that any thread may advance it. Operators
    /// of the program are in its other parts.
    pub(crate) fn is_messages_alone(&self) -> bool {
        self.task.is_none() && self.local.is_empty()
    }
}

/// Why a schedule ended early.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ScheduleFailure {
    /// A message was longer than its buffer: ranks disagree on the amount of data.
    Truncated(ReceiveCompletion),
    /// A message had no bytes where some were due: the operation has failed at its sender.
    Missing(ReceiveCompletion),
    /// It was started so (`EngineState::start_failed_schedule`).
    AtStart,
    /// Local work failed with this error code.
    Local(i32),
    /// A task failed.
    Task(TaskError),
    /// Progress failed.
    Fault(Fault),
}

/// The schedules of this rank.
#[derive(Debug, Default)]
pub(crate) struct Schedules {
    pub running: OperationTable<RunningSchedule>,
    /// Those that have not ended.
    pub active: Vec<u32>,
    /// A task is complete, and no progress iteration has said so yet. What comes after it is a new
    /// wait, with as many polls before this rank parks: a rank that sleeps does not find out that
    /// others have left the operation.
    pub task_completed: bool,
    /// How many reactions and schedules wait for what a peer writes to shared memory: while there
    /// are any, all are advanced in every progress iteration.
    pub polled_waits: usize,
    /// How many reactions wait for what other threads of this rank do outside the engine, which
    /// wakes no thread that sleeps here.
    pub silent_waits: usize,
}

impl Schedules {
    /// True when no abandoned schedule is in progress.
    pub fn none_is_abandoned(&self) -> bool {
        self.active.iter().all(|&index| !self.running[index].abandoned)
    }
}

#[derive(Debug)]
pub(crate) struct RunningSchedule {
    pub context: u64,
    pub tag: i32,
    pub stages: Arc<[ScheduleStage]>,
    /// The stage that is in progress.
    pub at: usize,
    pub sends: Vec<SendId>,
    pub receives: Vec<RecvId>,
    /// The tasks of this stage, unless it is complete, and of later ones.
    pub tasks: VecDeque<Box<dyn StageTask>>,
    /// Why it has failed. The other ranks count on its messages: it goes through its stages to the
    /// last, receives into no memory, sends no bytes, and leaves out its own work.
    pub failure: Option<ScheduleFailure>,
    pub end: Option<Result<(), ScheduleFailure>>,
    /// Its completion is never asked for.
    pub abandoned: bool,
}
