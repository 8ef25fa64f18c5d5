//! Runs schedules: to the end (blocking), by the engine (non-blocking), or repeatedly (persistent).

use std::sync::Arc;

use mica_memory::View;
use mica_node::counters::algorithm_index;
use mica_protocol::{Prepare, ScheduleStage, ScheduleStep, StageWork as Work};

use super::intranode::CollectiveOperation;
use super::intranode::call::NodeCall;
use super::intranode::choice::plan::{CollectivePlan, plan_on_area};
use super::intranode::protocol::account::{self, SentMessages};
use super::intranode::protocol::group::ReservedOperation;
use super::label::CallLabel;
use super::schedule::{Round, RoundTransfer, RoundWork, Schedule};
use crate::comm::{Comm, exchange};
use crate::error::{Error, Result};
use crate::late;
use crate::process;
use crate::pt2pt::{self, Mode, Plane};
use crate::request::Request;
use crate::status;

/// Runs this rank's part of a collective. Blocks until its buffers are free and its results are
/// available.
///
/// # Errors
/// `MPI_ERR_TRUNCATE` when ranks disagree on the amount of data; errors of the operator;
/// `MPI_ERR_NO_MEM`.
pub fn run(comm: &Comm, plan: &CollectivePlan) -> Result<()> {
    let _visit = arrive(comm);
    let missing = plan.missing_memory();
    let schedule = match plan {
        CollectivePlan::Call(call) => {
            return step(comm, call, call.reserve(), missing).map_or(Ok(()), Err);
        }
        CollectivePlan::Rounds(schedule) => schedule,
        CollectivePlan::Refused(refused) => {
            if !comm.errhandler().is_fatal() {
                run(comm, &refused.plan)?;
            }
            return Err(refused.error.clone());
        }
    };
    if comm.is_inter() {
        // Ranks of point-to-point calls name only the other group; the engine can address both.
        let outcome = start(comm, plan.clone(), CallLabel::UNKNOWN)?.wait()?;
        return outcome.error.map_or(Ok(()), Err);
    }
    let tag = comm.next_collective_tag(schedule.root);
    let calls = schedule.rounds.iter().filter_map(|round| round.call.as_ref());
    let reserved: Vec<ReservedOperation> = calls.map(NodeCall::reserve).collect();
    if !reserved.is_empty() {
        count_two_level()?;
    }
    let mut reserved = reserved.into_iter();
    // After an error the others count on this rank's messages nevertheless (`absent`).
    let mut error = missing;
    for round in &schedule.rounds {
        error = error.or_else(|| comm.check_roots().err());
        let transferred = match error {
            None => transfer(comm, round, tag),
            Some(_) => transfer(comm, &round.without_bytes(), tag),
        };
        error = error.or(transferred.err());
        if let Some(call) = &round.call {
            let operation = reserved.next().expect("each call has reserved one");
            error = step(comm, call, operation, error);
        }
        if error.is_none() {
            error = round.local.iter().try_for_each(RoundWork::perform).err();
        }
    }
    // What the others have sent before they came here has arrived by now.
    error = error.or_else(|| comm.check_roots().err());
    if account::is_counting() {
        account::append_messages(comm.me(), &sent_by(comm, schedule));
    }
    error.map_or(Ok(()), Err)
}

/// A call on the shared area; a rank that has an `error` leaves it at once, which the others
/// notice. Blocks. Returns the error.
fn step(
    comm: &Comm,
    call: &NodeCall,
    operation: ReservedOperation,
    error: Option<Error>,
) -> Option<Error> {
    match error {
        None => call.run_here(operation, comm.context()).err(),
        Some(error) => Some(call.leave_here(operation, comm.context()).err().unwrap_or(error)),
    }
}

/// What this rank sends in a collective by messages, for the account of transfers.
fn sent_by(comm: &Comm, schedule: &Schedule) -> SentMessages {
    let mut sent =
        SentMessages { size: comm.size(), label: schedule.label, ..SentMessages::default() };
    for round in &schedule.rounds {
        sent.steps += usize::from(round.call.is_some());
        for transfer in &round.transfers {
            if let RoundTransfer::Send { to, view } = transfer
                && !view.is_empty()
            {
                *sent.bytes.entry(comm.schedule_peer(*to)).or_default() += view.len() as u64;
            }
        }
    }
    sent
}

/// As [`sent_by`], of a plan that is started; `None` if nothing is counted, or the plan has no
/// messages.
fn sent_by_plan(comm: &Comm, plan: &CollectivePlan) -> Option<SentMessages> {
    match plan {
        CollectivePlan::Rounds(schedule) if account::is_counting() => Some(sent_by(comm, schedule)),
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
fn arrive(comm: &Comm) -> Option<late::Visit> {
    late::arrive(|| late::MemberOf { ranks: comm.size() as u32, rank: comm.me() })
}

/// What `MPI_Finalize` waits for: all processes have called it. On one node, it takes its place
/// among the collectives of `world`, so that ranks that wait there in another call learn that it
/// will never complete. Blocks.
///
/// # Errors
/// When another process has called a collective instead.
pub fn finalize(world: &Comm) -> Result<()> {
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
pub fn start(comm: &Comm, plan: CollectivePlan, label: CallLabel) -> Result<Request> {
    if let CollectivePlan::Refused(refused) = plan {
        if !comm.errhandler().is_fatal() {
            // The call returns no request, but the others count on this rank.
            start(comm, refused.plan, label)?.abandon()?;
        }
        return Err(refused.error);
    }
    if let CollectivePlan::Rounds(schedule) = &plan
        && schedule.rounds.iter().any(|round| round.call.is_some())
    {
        count_two_level()?;
    }
    let missing = plan.missing_memory().or_else(|| comm.check_roots().err());
    let plan = plan.labelled(label);
    let (sent, root) = (sent_by_plan(comm, &plan), plan.root());
    let stages = stages(comm, plan);
    let tag = comm.next_collective_tag(root);
    match missing {
        None => begin(comm, tag, stages, label, sent.as_ref()),
        Some(error) => {
            let context = comm.context() | 1;
            process::engine()?.enter(|state| state.start_failed_schedule(context, tag, stages));
            Err(error)
        }
    }
}

/// The persistent form: a request that runs the schedule each time it is started.
///
/// # Errors
/// When there is no memory for it.
pub fn persistent(comm: &Comm, plan: CollectivePlan, label: CallLabel) -> Result<Request> {
    if let Some(error) = plan.missing_memory() {
        return Err(error);
    }
    // On the communicator's own area, all ranks would have to start operations in the same order.
    let plan = match plan {
        CollectivePlan::Refused(refused) => return Err(refused.error),
        CollectivePlan::Rounds(schedule) => CollectivePlan::Rounds(schedule.by_messages(comm)?),
        CollectivePlan::Call(call) => match call.apart(comm)? {
            Some(call) => CollectivePlan::Call(call),
            None => CollectivePlan::Rounds(call.by_messages(comm)?),
        },
    };
    let plan = plan.labelled(label);
    let (sent, root) = (sent_by_plan(comm, &plan), plan.root());
    let stages = stages(comm, plan);
    // One tag for all starts, chosen at initialization, which all ranks do in the same order: so
    // they may start several persistent operations in any order. Messages of two starts of one
    // operation cannot be confused, as they match in order.
    let (of, tag) = (comm.clone(), comm.next_collective_tag(root));
    Ok(Request::persistent(comm, move || begin(&of, tag, stages.clone(), label, sent.as_ref())))
}

fn begin(
    comm: &Comm,
    tag: i32,
    stages: Arc<[ScheduleStage]>,
    label: CallLabel,
    sent: Option<&SentMessages>,
) -> Result<Request> {
    let _visit = arrive(comm);
    if let Some(sent) = sent {
        account::append_messages(comm.me(), sent);
    }
    let context = comm.context() | 1;
    let engine = process::engine()?;
    let id = engine.enter(|state| state.start_schedule(context, tag, stages));
    Ok(Request::schedule(comm, id, label))
}

/// The plan as stages for the engine.
fn stages(comm: &Comm, plan: CollectivePlan) -> Arc<[ScheduleStage]> {
    let task = |call: NodeCall| Some(Arc::new(call) as Arc<dyn Prepare>);
    let schedule = match plan {
        CollectivePlan::Rounds(schedule) => schedule,
        CollectivePlan::Refused(refused) => return stages(comm, refused.plan),
        CollectivePlan::Call(call) => {
            let stage = ScheduleStage { task: task(call), ..ScheduleStage::default() };
            return [stage].into();
        }
    };
    let step = |transfer| match transfer {
        RoundTransfer::Send { to, view } => {
            ScheduleStep::Send { peer: comm.schedule_peer(to), view }
        }
        RoundTransfer::Receive { from, view } => {
            ScheduleStep::Receive { peer: comm.schedule_peer(from), view }
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
fn transfer(comm: &Comm, round: &Round, tag: i32) -> Result<()> {
    let plane = Plane::Collective;
    let send = |to: usize, view: &View| {
        pt2pt::start_send(comm, plane, Mode::Standard, view, to as i32, tag)
    };
    match round.transfers.as_slice() {
        [] => Ok(()),
        [RoundTransfer::Send { to, view }] => pt2pt::send_on(comm, plane, view, *to as i32, tag),
        [RoundTransfer::Receive { from, view }] => receive(comm, *from, view, tag),
        [RoundTransfer::Send { to, view: out }, RoundTransfer::Receive { from, view: into }]
        | [RoundTransfer::Receive { from, view: into }, RoundTransfer::Send { to, view: out }] => {
            let sent = send(*to, out);
            let received = receive(comm, *from, into, tag);
            received.and(pt2pt::finish_send(comm, sent))
        }
        many => {
            let mut receives = Vec::with_capacity(many.len());
            let mut sends = Vec::with_capacity(many.len());
            for transfer in many {
                if let RoundTransfer::Receive { from, view } = transfer {
                    let started = pt2pt::start_receive(comm, plane, view, *from as i32, tag);
                    receives.push((started, *from, view.len()));
                }
            }
            for transfer in many {
                if let RoundTransfer::Send { to, view } = transfer {
                    sends.push(send(*to, view));
                }
            }
            let mut error = None;
            for (started, from, due) in receives {
                let status = pt2pt::finish_receive(comm, plane, started, from as i32, tag);
                let received = status.and_then(|status| status::check_sent(&status, from, due));
                error = error.or(received.err());
            }
            for sent in sends {
                error = error.or(pt2pt::finish_send(comm, sent).err());
            }
            error.map_or(Ok(()), Err)
        }
    }
}

fn receive(comm: &Comm, from: usize, view: &View, tag: i32) -> Result<()> {
    let status = pt2pt::recv_on(comm, Plane::Collective, view, from as i32, tag)?;
    status::check_sent(&status, from, view.len())
}
