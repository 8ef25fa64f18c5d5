//! Runs schedules: to the end (blocking), by the engine (non-blocking), or repeatedly (persistent).

use std::sync::Arc;

use mica_node::counters::algorithm_index;
use mica_objects::error::{Error, Result};
use mica_objects::{constants as c, process, status};
use mica_protocol::{
    Prepare, ScheduleFailure, ScheduleId, ScheduleStage, ScheduleStep, StageWork as Work,
};

use super::intranode::CollectiveOperation;
use super::intranode::call::NodeCall;
use super::intranode::choice::plan::{CollectivePlan, plan_on_area};
use super::intranode::protocol::account::{self, SentMessages};
use super::intranode::protocol::group::ReservedOperation;
use super::label::CallLabel;
use super::schedule::{Round, RoundTransfer, RoundWork, Schedule};
use crate::exchange;
use crate::late;
use crate::members::{self, Members};

/// Runs this rank's part of a collective. Blocks until its buffers are free and its results are
/// available.
///
/// # Errors
/// `MPI_ERR_TRUNCATE` when ranks disagree on the amount of data; errors of the operator;
/// `MPI_ERR_NO_MEM`.
pub fn run(members: &Members, plan: &CollectivePlan) -> Result<()> {
    let _visit = arrive(members);
    let missing = plan.missing_memory();
    let schedule = match plan {
        CollectivePlan::Call(call) => {
            return step(members, call, call.reserve(), missing).map_or(Ok(()), Err);
        }
        CollectivePlan::Rounds(schedule) => schedule,
        CollectivePlan::Refused(refused) => {
            run(members, &refused.plan)?;
            return Err(refused.error.clone());
        }
    };
    let tag = members.next_collective_tag(schedule.root);
    let calls = schedule.rounds.iter().filter_map(|round| round.call.as_ref());
    let reserved: Vec<ReservedOperation> = calls.map(NodeCall::reserve).collect();
    if !reserved.is_empty() {
        count_two_level()?;
    }
    let mut reserved = reserved.into_iter();
    // After an error the others count on this rank's messages nevertheless (`absent`).
    let mut error = missing;
    for round in &schedule.rounds {
        error = error.or_else(|| members.check_roots().err());
        let transferred = match error {
            None => transfer(members, round, tag),
            Some(_) => transfer(members, &round.without_bytes(), tag),
        };
        error = error.or(transferred.err());
        if let Some(call) = &round.call {
            let operation = reserved.next().expect("each call has reserved one");
            error = step(members, call, operation, error);
        }
        if error.is_none() {
            error = round.local.iter().try_for_each(RoundWork::perform).err();
        }
    }
    // What the others have sent before they came here has arrived by now.
    error = error.or_else(|| members.check_roots().err());
    if account::is_counting() {
        account::append_messages(members.me(), &sent_by(members, schedule));
    }
    error.map_or(Ok(()), Err)
}

/// A call on the shared area; a rank that has an `error` leaves it at once, which the others
/// notice. Blocks. Returns the error.
fn step(
    members: &Members,
    call: &NodeCall,
    operation: ReservedOperation,
    error: Option<Error>,
) -> Option<Error> {
    match error {
        None => call.run_here(operation, members.context()).err(),
        Some(error) => Some(call.leave_here(operation, members.context()).err().unwrap_or(error)),
    }
}

/// What this rank sends in a collective by messages, for the account of transfers.
fn sent_by(members: &Members, schedule: &Schedule) -> SentMessages {
    let mut sent =
        SentMessages { size: members.size(), label: schedule.label, ..SentMessages::default() };
    for round in &schedule.rounds {
        sent.steps += usize::from(round.call.is_some());
        for transfer in &round.transfers {
            if let RoundTransfer::Send { to, view } = transfer
                && !view.is_empty()
            {
                *sent.bytes.entry(members.schedule_peer(*to)).or_default() += view.len() as u64;
            }
        }
    }
    sent
}

/// As [`sent_by`], of a plan that is started; `None` if nothing is counted, or the plan has no
/// messages.
fn sent_by_plan(members: &Members, plan: &CollectivePlan) -> Option<SentMessages> {
    match plan {
        CollectivePlan::Rounds(schedule) if account::is_counting() => {
            Some(sent_by(members, schedule))
        }
        _ => None,
    }
}

/// Counts a collective with steps within a node and messages between nodes.
fn count_two_level() -> Result<()> {
    const TWO_LEVEL: usize = algorithm_index("two_level");
    process::engine()?.live_counters().count_algorithm(TWO_LEVEL);
    Ok(())
}

/// Records that this rank arrives at a collective on `comm`, if late arrivals are counted.
#[inline(always)]
fn arrive(members: &Members) -> Option<late::Visit> {
    late::arrive(|| late::MemberOf { ranks: members.size() as u32, rank: members.me() })
}

/// What `MPI_Finalize` waits for: all processes have called it. On one node, it takes its place
/// among the collectives of `world`, so that ranks that wait there in another call learn that it
/// will never complete. Blocks.
///
/// # Errors
/// When another process has called a collective instead.
pub fn finalize(world: &Members) -> Result<()> {
    match plan_on_area(world, CollectiveOperation::Finalize)? {
        Some(call) => call.run_here(call.reserve(), world.context()),
        None => exchange::barrier(world),
    }
}

/// Writes what the account of transfers (`MICA_TRANSFER_ACCOUNT`) still holds in memory.
pub fn flush_account() {
    account::flush();
}

/// Starts this rank's part of a collective, called by the function that `label` names. It advances
/// with every call that makes progress.
///
/// # Errors
/// When the process has no engine.
pub fn start(members: &Members, plan: CollectivePlan, label: CallLabel) -> Result<ScheduleId> {
    if let CollectivePlan::Refused(refused) = plan {
        // The call returns no request, but the others count on this rank.
        let id = start(members, refused.plan, label)?;
        process::engine()?.enter(|state| state.abandon_schedule(id));
        return Err(refused.error);
    }
    if let CollectivePlan::Rounds(schedule) = &plan
        && schedule.rounds.iter().any(|round| round.call.is_some())
    {
        count_two_level()?;
    }
    let missing = plan.missing_memory().or_else(|| members.check_roots().err());
    let plan = plan.labelled(label);
    let (sent, root) = (sent_by_plan(members, &plan), plan.root());
    let stages = stages(members, plan);
    let tag = members.next_collective_tag(root);
    match missing {
        None => begin(members, tag, stages, sent.as_ref()),
        Some(error) => {
            let context = members.collective_context();
            process::engine()?.enter(|state| state.start_failed_schedule(context, tag, stages));
            Err(error)
        }
    }
}

/// A collective that is started again and again.
#[derive(Debug)]
pub struct PersistentCollective {
    /// One tag for all starts, chosen at initialization, which all ranks do in the same order: so
    /// they may start several persistent operations in any order. Messages of two starts of one
    /// operation cannot be confused, as they match in order.
    tag: i32,
    stages: Arc<[ScheduleStage]>,
    sent: Option<SentMessages>,
}

impl PersistentCollective {
    /// Keeps the plan.
    ///
    /// # Errors
    /// When there is no memory for it.
    pub fn new(
        members: &Members,
        plan: CollectivePlan,
        label: CallLabel,
    ) -> Result<PersistentCollective> {
        if let Some(error) = plan.missing_memory() {
            return Err(error);
        }
        // On the communicator's own area, all ranks would have to start operations in the same
        // order.
        let plan = match plan {
            CollectivePlan::Refused(refused) => return Err(refused.error),
            CollectivePlan::Rounds(schedule) => {
                CollectivePlan::Rounds(schedule.by_messages(members)?)
            }
            CollectivePlan::Call(call) => match call.apart(members)? {
                Some(call) => CollectivePlan::Call(call),
                None => CollectivePlan::Rounds(call.by_messages(members)?),
            },
        };
        let plan = plan.labelled(label);
        let (sent, root) = (sent_by_plan(members, &plan), plan.root());
        let stages = stages(members, plan);
        Ok(PersistentCollective { tag: members.next_collective_tag(root), stages, sent })
    }

    /// Starts it. It advances with every call that makes progress.
    ///
    /// # Errors
    /// When the process has no engine.
    pub fn begin(&self, members: &Members) -> Result<ScheduleId> {
        begin(members, self.tag, self.stages.clone(), self.sent.as_ref())
    }
}

fn begin(
    members: &Members,
    tag: i32,
    stages: Arc<[ScheduleStage]>,
    sent: Option<&SentMessages>,
) -> Result<ScheduleId> {
    let _visit = arrive(members);
    if let Some(sent) = sent {
        account::append_messages(members.me(), sent);
    }
    let context = members.collective_context();
    Ok(process::engine()?.enter(|state| state.start_schedule(context, tag, stages)))
}

/// The error of a collective that was started and has ended early.
#[cold]
pub fn error_of(members: &Members, failure: ScheduleFailure) -> Error {
    match failure {
        ScheduleFailure::Truncated(done) => {
            members::outcome(members, &done).1.expect("a truncated message is an error")
        }
        ScheduleFailure::Missing(done) => {
            let source = members::outcome(members, &done).0.source;
            status::sent_nothing(source as usize, done.capacity)
        }
        ScheduleFailure::AtStart => Error::other(c::ERR_OTHER, "the operation has failed"),
        ScheduleFailure::Local(code) => {
            Error::other(code, "the local part of the operation failed")
        }
        ScheduleFailure::Task(error) => Error::other(error.code, error.detail),
        ScheduleFailure::Fault(fault) => fault.into(),
    }
}

/// The plan as stages for the engine.
fn stages(members: &Members, plan: CollectivePlan) -> Arc<[ScheduleStage]> {
    let task = |call: NodeCall| Some(Arc::new(call) as Arc<dyn Prepare>);
    let schedule = match plan {
        CollectivePlan::Rounds(schedule) => schedule,
        CollectivePlan::Refused(refused) => return stages(members, refused.plan),
        CollectivePlan::Call(call) => {
            let stage = ScheduleStage { task: task(call), ..ScheduleStage::default() };
            return [stage].into();
        }
    };
    let step = |transfer| match transfer {
        RoundTransfer::Send { to, view } => {
            ScheduleStep::Send { peer: members.schedule_peer(to), view }
        }
        RoundTransfer::Receive { from, view } => {
            ScheduleStep::Receive { peer: members.schedule_peer(from), view }
        }
    };
    let stage = |round: Round| ScheduleStage {
        steps: round.transfers.into_iter().map(step).collect(),
        task: round.call.and_then(task),
        local: round.local.into_iter().map(|l| Arc::new(l) as Arc<dyn Work>).collect(),
    };
    schedule.rounds.into_iter().map(stage).collect()
}

impl Work for RoundWork {
    fn run(&self) -> std::result::Result<(), i32> {
        self.perform().map_err(|error| error.code())
    }
}

impl RoundWork {
    fn perform(&self) -> Result<()> {
        match self {
            RoundWork::Copy { from, to } => {
                to.copy_from(from);
                Ok(())
            }
            RoundWork::Reduce { op, input, inout, count, datatype } => {
                op.apply(input, inout, *count, datatype)
            }
        }
    }
}

/// All transfers of a round: all are started, receives first, and then waited for, whatever becomes
/// of the others: peers count on each. Returns the first error.
fn transfer(members: &Members, round: &Round, tag: i32) -> Result<()> {
    match round.transfers.as_slice() {
        [] => Ok(()),
        [RoundTransfer::Send { to, view }] => members.send(*to, view, tag),
        [RoundTransfer::Receive { from, view }] => members.receive(*from, view, tag),
        [RoundTransfer::Send { to, view: out }, RoundTransfer::Receive { from, view: into }]
        | [RoundTransfer::Receive { from, view: into }, RoundTransfer::Send { to, view: out }] => {
            let sent = members.start_send(*to, out, tag);
            let received = members.receive(*from, into, tag);
            received.and(members.finish_send(sent))
        }
        many => {
            let mut receives = Vec::with_capacity(many.len());
            let mut sends = Vec::with_capacity(many.len());
            for transfer in many {
                if let RoundTransfer::Receive { from, view } = transfer {
                    receives.push((members.start_receive(*from, view, tag), *from, view.len()));
                }
            }
            for transfer in many {
                if let RoundTransfer::Send { to, view } = transfer {
                    sends.push(members.start_send(*to, view, tag));
                }
            }
            let mut error = None;
            for (started, from, due) in receives {
                error = error.or(members.finish_receive(started, from, due, tag).err());
            }
            for sent in sends {
                error = error.or(members.finish_send(sent).err());
            }
            error.map_or(Ok(()), Err)
        }
    }
}
