//! Running a schedule to its end: the blocking form of a collective.

use mica_protocol::SendId;

use super::schedule::{Local, Round, Schedule, Transfer};
use crate::comm::Comm;
use crate::error::Result;
use crate::pt2pt::{self, Mode, Plane};
use crate::request::Request;

/// Runs this rank's part of a collective. Blocks until its buffers are free and its results are
/// there.
///
/// # Errors
/// `MPI_ERR_TRUNCATE` when ranks disagree on the amount of data; those of the operator;
/// `MPI_ERR_NO_MEM`.
pub fn run(comm: &Comm, schedule: &Schedule) -> Result<()> {
    let tag = comm.next_collective_tag();
    for round in &schedule.rounds {
        transfer(comm, round, tag)?;
        for local in &round.local {
            match local {
                Local::Copy { from, to } => {
                    to.copy_from(from);
                }
                Local::Reduce {
                    op,
                    input,
                    inout,
                    count,
                    datatype,
                } => {
                    op.apply(input, inout, *count, datatype)?;
                }
            }
        }
    }
    Ok(())
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
