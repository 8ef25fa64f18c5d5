//! Schedules: operations of several stages, which the engine advances whenever it makes progress.
//!
//! A collective is described once, as stages of messages and local work. The blocking form runs it
//! to completion at once; the nonblocking and persistent forms pass it to the engine. Any number
//! may be in progress on one communicator; their tags distinguish them.

use crate::fault::Fault;
use crate::operation::{ReceiveCompletion, RecvId, SendId};
use crate::operation_table::{OperationKey, OperationTable};
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
