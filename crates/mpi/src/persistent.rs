//! Point-to-point requests other than plain sends and receives: persistent ones (MPI 5.0, 3.9) and
//! the non-blocking send-receive (3.11).

use std::sync::{Arc, Mutex};

use mica_memory::View;
use mica_protocol::EngineState;

use crate::buffered;
use crate::comm::Comm;
use crate::error::{Error, Result};
use crate::pt2pt::{self, Mode};
use crate::request::{OnCompletion, Request, RequestOperation};
use crate::status::Status;
use crate::sync::lock;

/// `MPI_Send_init`, `MPI_Ssend_init`, `MPI_Rsend_init`: an inactive request; each start sends
/// `view` again.
///
/// # Errors
/// `MPI_ERR_RANK`, `MPI_ERR_TAG`.
pub fn send_init(comm: &Comm, mode: Mode, view: View, dest: i32, tag: i32) -> Result<Request> {
    pt2pt::destination(comm, dest, tag)?;
    let of = comm.clone();
    Ok(Request::persistent(comm, move || pt2pt::isend_on(&of, mode, &view, dest, tag)))
}

/// `MPI_Bsend_init`: as [`send_init`]; each start sends a copy through the buffer attached then.
///
/// # Errors
/// `MPI_ERR_RANK`, `MPI_ERR_TAG`.
pub fn bsend_init(comm: &Comm, view: View, dest: i32, tag: i32) -> Result<Request> {
    pt2pt::destination(comm, dest, tag)?;
    let of = comm.clone();
    Ok(Request::persistent(comm, move || {
        buffered::bsend(&of, &view, dest, tag).map(|()| Request::SENT)
    }))
}

/// `MPI_Recv_init`: an inactive request; each start receives into `view` again.
///
/// # Errors
/// `MPI_ERR_RANK`, `MPI_ERR_TAG`.
pub fn recv_init(comm: &Comm, view: View, source: i32, tag: i32) -> Result<Request> {
    pt2pt::pattern(comm, source, tag)?;
    let of = comm.clone();
    Ok(Request::persistent(comm, move || pt2pt::irecv_on(&of, &view, source, tag)))
}

/// `MPI_Isendrecv`: starts to send `out` and to receive into `into`. The status is the receive's.
///
/// # Errors
/// As [`pt2pt::isend_on`] and [`pt2pt::irecv_on`].
#[expect(clippy::too_many_arguments, reason = "MPI's own argument list")]
pub fn isendrecv(
    comm: &Comm,
    out: &View,
    dest: i32,
    sendtag: i32,
    into: &View,
    source: i32,
    recvtag: i32,
) -> Result<Request> {
    // The receive's arguments are checked before anything is sent.
    pt2pt::pattern(comm, source, recvtag)?;
    let send = pt2pt::isend_on(comm, Mode::Standard, out, dest, sendtag)?;
    let receive = match pt2pt::irecv_on(comm, into, source, recvtag) {
        Ok(receive) => receive,
        Err(error) => {
            send.wait()?; // its buffer is in use until then
            return Err(error);
        }
    };
    let both =
        Both(Mutex::new(PairHalves { send: Some(send), receive: PairHalf::UnderWay(receive) }));
    Ok(Request::custom(Some(comm), Arc::new(both)))
}

/// `MPI_Isendrecv_replace`: as [`isendrecv`], where the message that comes replaces `both`.
///
/// # Errors
/// As [`isendrecv`]; when there is no memory for a copy.
pub fn isendrecv_replace(
    comm: &Comm,
    both: &View,
    dest: i32,
    sendtag: i32,
    source: i32,
    recvtag: i32,
) -> Result<Request> {
    isendrecv(comm, &pt2pt::packed_copy(both)?, dest, sendtag, both, source, recvtag)
}

/// A send and a receive that complete as one.
#[derive(Debug)]
struct Both(Mutex<PairHalves>);

#[derive(Debug)]
struct PairHalves {
    /// Until it is complete.
    send: Option<Request>,
    receive: PairHalf,
}

#[derive(Debug)]
enum PairHalf {
    UnderWay(Request),
    Ended(Status, Option<Error>),
}

impl RequestOperation for Both {
    fn name(&self) -> &'static str {
        "MPI_Isendrecv"
    }

    fn poll(&self, state: &mut EngineState) -> Option<(Status, Option<Error>)> {
        let halves = &mut *lock(&self.0);
        if let Some(send) = &halves.send
            && send.poll(state, OnCompletion::Take).is_some()
        {
            halves.send = None;
        }
        if let PairHalf::UnderWay(receive) = &halves.receive
            && let Some(outcome) = receive.poll(state, OnCompletion::Take)
        {
            halves.receive = PairHalf::Ended(outcome.status, outcome.error);
        }
        match &halves.receive {
            PairHalf::Ended(status, error) if halves.send.is_none() => {
                Some((*status, error.clone()))
            }
            _ => None,
        }
    }
}
