//! An operation by messages: the answers that it waits for.

use std::sync::{Arc, Mutex};

use mica_channel::memory::{Region, View, copy_bytes};
use mica_protocol::{EngineState, Pending, RecvId, WaitKind};

use super::message::{ANSWER_HEAD, answered};
use crate::comm::Comm;
use crate::error::Error;
use crate::request;
use crate::status::Status;
use crate::sync::lock;

/// A lock of a target that shares no locks: held when the operation is complete.
pub(in crate::window) type GrantedLock = Arc<RemoteOperation>;

/// Requests at one target that have answers.
#[derive(Debug)]
pub(in crate::window) struct RemoteOperation {
    /// Rank in the window.
    pub target: usize,
    what: &'static str,
    answers: Mutex<Answers>,
}

#[derive(Debug, Default)]
struct Answers {
    expected: Vec<ExpectedAnswer>,
    error: Option<Error>,
}

/// An answer whose receive is posted.
#[derive(Debug)]
pub(super) struct ExpectedAnswer {
    pub receive: RecvId,
    pub message: Region,
    pub data: AnswerData,
}

/// What the data of an answer is for.
#[derive(Debug)]
pub(super) enum AnswerData {
    Nothing,
    /// The bytes of the view from a position on.
    View {
        view: View,
        position: usize,
        bytes: usize,
    },
    /// Elements at these offsets of the region: bytes.
    Elements {
        region: Region,
        pieces: Vec<(isize, usize)>,
    },
}

impl RemoteOperation {
    /// Requests at `target` whose answers are expected.
    pub(super) fn new(
        target: usize,
        what: &'static str,
        expected: Vec<ExpectedAnswer>,
    ) -> RemoteOperation {
        RemoteOperation {
            target,
            what,
            answers: Mutex::new(Answers {
                expected,
                error: None,
            }),
        }
    }

    /// Takes in the answers that have come; true when all have. Inside the engine.
    pub fn advance(&self, state: &mut EngineState) -> bool {
        let mut answers = lock(&self.answers);
        let Answers { expected, error } = &mut *answers;
        expected.retain(|answer| match state.take_received(answer.receive) {
            None => true,
            Some(_) => {
                match answered(&answer.message) {
                    None => answer.take_in(),
                    refused => *error = error.take().or(refused),
                }
                false
            }
        });
        expected.is_empty()
    }

    /// Whether all answers have been taken in.
    pub fn is_done(&self) -> bool {
        lock(&self.answers).expected.is_empty()
    }

    /// Its error, if the target has answered with one.
    pub fn error(&self) -> Option<Error> {
        lock(&self.answers).error.clone()
    }

    /// What this rank waits for, in hang reports.
    pub fn pending(&self, comm: &Comm) -> Pending {
        let (what, target) = (self.what, self.target);
        Pending {
            peer: Some(comm.peer(target)),
            name: Some(format!("{what} of rank {target} of a window to answer").into()),
            ..Pending::of(WaitKind::Window)
        }
    }
}

impl ExpectedAnswer {
    fn take_in(&self) {
        let data = self.message.offset(ANSWER_HEAD as isize);
        match &self.data {
            AnswerData::Nothing => {}
            AnswerData::View {
                view,
                position,
                bytes,
            } => {
                view.unpack_at(*position, &data, *bytes);
            }
            AnswerData::Elements { region, pieces } => {
                let mut from = 0;
                for &(at, bytes) in pieces {
                    copy_bytes(&data.offset(from), &region.offset(at), bytes);
                    from += bytes as isize;
                }
            }
        }
    }
}

/// The request forms (MPI 5.0, 12.3.5).
impl request::Operation for RemoteOperation {
    fn name(&self) -> &'static str {
        "a one-sided operation"
    }

    fn poll(&self, state: &mut EngineState) -> Option<(Status, Option<Error>)> {
        self.advance(state).then(|| (Status::EMPTY, self.error()))
    }
}
