//! Running schedules: to the end (blocking), by the engine (non-blocking), again and again (persistent).

use std::sync::Arc;

use mica_protocol::{Local as Work, SendId, Stage, Step};

use super::schedule::{Local, Round, Schedule, Transfer};
use crate::comm::Comm;
use crate::error::Result;
use crate::late;
use crate::process;
use crate::pt2pt::{self, Mode, Plane};
use crate::request::Request;

/// Runs this rank's part of a collective. Blocks until its buffers are free and its results are
/// there.
///
/// # Errors
/// `MPI_ERR_TRUNCATE` when ranks disagree on the amount of data; those of the operator;
/// `MPI_ERR_NO_MEM`.
pub fn run(comm: &Comm, schedule: &Schedule) -> Result<()> {
    let _visit = late::arrive(comm);
    if comm.is_inter() {
        // Point-to-point ranks name the other group only; the engine knows both.
        let outcome = start(comm, schedule.clone())?.wait()?;
        return outcome.error.map_or(Ok(()), Err);
    }
    let tag = comm.next_collective_tag();
    for round in &schedule.rounds {
        transfer(comm, round, tag)?;
        for local in &round.local {
            local.perform()?;
        }
    }
    Ok(())
}

/// Starts this rank's part of a collective; it goes on with every call that makes progress.
///
/// # Errors
/// When the process has no engine.
pub fn start(comm: &Comm, schedule: Schedule) -> Result<Request> {
    begin(comm, comm.next_collective_tag(), stages(comm, schedule))
}

/// The persistent form: a request that runs the schedule each time it is started.
pub fn persistent(comm: &Comm, schedule: Schedule) -> Request {
    let stages = stages(comm, schedule);
    // One tag for all starts, given at initialization, which ranks do in the same order: so they may start several
    // persistent operations in any order. Messages of two starts of one operation cannot be confused: they come in order.
    let (of, tag) = (comm.clone(), comm.next_collective_tag());
    Request::persistent(comm, move || begin(&of, tag, stages.clone()))
}

fn begin(comm: &Comm, tag: i32, stages: Arc<[Stage]>) -> Result<Request> {
    let _visit = late::arrive(comm);
    let context = comm.context() | 1;
    let engine = process::engine()?;
    let id = engine.enter(|state| state.start_schedule(context, tag, stages));
    Ok(Request::schedule(comm, id))
}

/// The schedule in the engine's terms.
fn stages(comm: &Comm, schedule: Schedule) -> Arc<[Stage]> {
    let step = |transfer| match transfer {
        Transfer::Send { to, view } => Step::Send {
            peer: comm.schedule_peer(to),
            view,
        },
        Transfer::Receive { from, view } => Step::Receive {
            peer: comm.schedule_peer(from),
            view,
        },
    };
    let stage = |round: Round| Stage {
        steps: round.transfers.into_iter().map(step).collect(),
        local: round
            .local
            .into_iter()
            .map(|l| Arc::new(l) as Arc<dyn Work>)
            .collect(),
    };
    schedule.rounds.into_iter().map(stage).collect()
}

impl Work for Local {
    fn run(&self) -> std::result::Result<(), i32> {
        self.perform().map_err(|error| error.code())
    }
}

impl Local {
    fn perform(&self) -> Result<()> {
        match self {
            Local::Copy { from, to } => {
                to.copy_from(from);
                Ok(())
            }
            Local::Reduce {
                op,
                input,
                inout,
                count,
                datatype,
            } => op.apply(input, inout, *count, datatype),
        }
    }
}

/// All transfers of a round: everything is started, receives first, then waited for.
fn transfer(comm: &Comm, round: &Round, tag: i32) -> Result<()> {
    let plane = Plane::Collective;
    match round.transfers.as_slice() {
        [] => Ok(()),
        [Transfer::Send { to, view }] => {
            pt2pt::send(comm, plane, Mode::Standard, view, *to as i32, tag)
        }
        [Transfer::Receive { from, view }] => {
            pt2pt::recv(comm, plane, view, *from as i32, tag).map(drop)
        }
        [
            Transfer::Send { to, view: out },
            Transfer::Receive { from, view: into },
        ]
        | [
            Transfer::Receive { from, view: into },
            Transfer::Send { to, view: out },
        ] => {
            let sent = pt2pt::start_send(comm, plane, Mode::Standard, out, *to as i32, tag)?;
            let received = pt2pt::recv(comm, plane, into, *from as i32, tag);
            // Wait for the send even if the receive failed: its buffer is in use until then.
            finish_send(comm, sent)?;
            received.map(drop)
        }
        many => {
            let mut requests = Vec::with_capacity(many.len());
            for t in many {
                if let Transfer::Receive { from, view } = t {
                    requests.push(pt2pt::irecv(comm, plane, view, *from as i32, tag)?);
                }
            }
            for t in many {
                if let Transfer::Send { to, view } = t {
                    let to = *to as i32;
                    requests.push(pt2pt::isend(comm, plane, Mode::Standard, view, to, tag)?);
                }
            }
            let mut first_error = None;
            for request in &requests {
                let outcome = request.wait()?;
                first_error = first_error.or(outcome.error);
            }
            first_error.map_or(Ok(()), Err)
        }
    }
}

fn finish_send(comm: &Comm, sent: Option<SendId>) -> Result<()> {
    match sent {
        None => Ok(()),
        Some(id) => Request::send(comm, id).wait().map(drop),
    }
}
