//! An operation on a target of another node: the answers, and the transfer by RMA, that it waits
//! for.

use std::fmt::Debug;
use std::sync::{Arc, Mutex, PoisonError};

use mica_memory::{Region, View, copy_bytes};
use mica_protocol::{EngineState, Fault, Pending, RecvId, RmaId, WaitKind};

use super::message::{ANSWER_HEAD, answered};
use mica_collective::members::Members;
use mica_objects::constants as c;
use mica_objects::error::{Error, Result};
use mica_objects::sync::lock;

/// A lock of a target that shares no locks: held when the operation is complete.
pub(crate) type GrantedLock = Arc<RemoteOperation>;

/// What is under way at one target.
#[derive(Debug)]
pub struct RemoteOperation {
    /// Rank in the window.
    pub target: usize,
    what: &'static str,
    answers: Mutex<Answers>,
}

#[derive(Debug, Default)]
struct Answers {
    expected: Vec<ExpectedAnswer>,
    transfer: Option<RmaId>,
    /// A transfer is about to begin, since what it waited for has come.
    is_beginning: bool,
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
    /// What this transfer waits for.
    Transfer(Box<dyn DeferredTransfer>),
}

/// A transfer by RMA that begins when the target has answered: it has named its registration, or
/// carried out the requests before it.
pub(super) trait DeferredTransfer: Debug + Send + Sync {
    /// Goes on with what the target has answered: `name` are the words of its answer, if there are
    /// some. Inside the engine, without a lock of this module.
    ///
    /// # Errors
    /// `MPI_ERR_NO_MEM`.
    fn begin(self: Box<Self>, state: &mut EngineState, name: &Region) -> Result<BegunTransfer>;
}

/// How a deferred transfer goes on.
#[derive(Debug)]
pub(super) enum BegunTransfer {
    Rma(RmaId),
    /// The memory is not registered: by requests, with these answers.
    Requests(Vec<ExpectedAnswer>),
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
            answers: Mutex::new(Answers { expected, ..Answers::default() }),
        }
    }

    /// A transfer by RMA.
    pub(super) fn of_transfer(target: usize, what: &'static str, id: RmaId) -> RemoteOperation {
        let mut operation = RemoteOperation::new(target, what, Vec::new());
        let answers = operation.answers.get_mut();
        answers.unwrap_or_else(PoisonError::into_inner).transfer = Some(id);
        operation
    }

    /// Takes in what has come; true when all has. Inside the engine.
    pub fn advance(&self, state: &mut EngineState) -> bool {
        let (begins, is_done) = {
            let mut answers = lock(&self.answers);
            let begins = answers.take_in(self.target, state);
            (begins, answers.is_done())
        };
        let Some((transfer, name)) = begins else {
            return is_done;
        };
        // Without the lock: it may send requests.
        let begun = transfer.begin(state, &name);
        let mut answers = lock(&self.answers);
        answers.is_beginning = false;
        match begun {
            Ok(BegunTransfer::Rma(id)) => answers.transfer = Some(id),
            Ok(BegunTransfer::Requests(expected)) => answers.expected = expected,
            Err(error) => answers.error = Some(error),
        }
        answers.is_done()
    }

    /// Whether all has been taken in.
    pub fn is_done(&self) -> bool {
        lock(&self.answers).is_done()
    }

    /// Its error, if the target has answered with one.
    pub fn error(&self) -> Option<Error> {
        lock(&self.answers).error.clone()
    }

    /// What this rank waits for, in hang reports.
    pub fn pending(&self, members: &Members) -> Pending {
        let (what, target) = (self.what, self.target);
        Pending {
            peer: Some(members.peer(target)),
            name: Some(format!("{what} of rank {target} of a window to answer").into()),
            ..Pending::of(WaitKind::Window)
        }
    }
}

impl Answers {
    fn is_done(&self) -> bool {
        self.expected.is_empty() && self.transfer.is_none() && !self.is_beginning
    }

    /// Takes in what has come. Returns a transfer that can begin, and the words of the answer that
    /// it waited for.
    fn take_in(
        &mut self,
        target: usize,
        state: &mut EngineState,
    ) -> Option<(Box<dyn DeferredTransfer>, Region)> {
        if let Some(ended) = self.transfer.and_then(|id| state.take_rma(id)) {
            self.transfer = None;
            let refused = ended.err().map(|fault| failure(target, fault));
            self.error = self.error.take().or(refused);
        }
        let mut begins = None;
        let error = &mut self.error;
        self.expected.retain_mut(|answer| {
            if state.take_received(answer.receive).is_none() {
                return true;
            }
            match answered(&answer.message) {
                None => begins = answer.take_in(),
                refused => *error = error.take().or(refused),
            }
            false
        });
        self.is_beginning |= begins.is_some();
        begins
    }
}

impl ExpectedAnswer {
    /// Takes in its data. Returns the transfer that it is for, if it is for one, and the data.
    fn take_in(&mut self) -> Option<(Box<dyn DeferredTransfer>, Region)> {
        let data = self.message.offset(ANSWER_HEAD as isize);
        match std::mem::replace(&mut self.data, AnswerData::Nothing) {
            AnswerData::Nothing => {}
            AnswerData::Transfer(transfer) => return Some((transfer, data)),
            AnswerData::View { view, position, bytes } => {
                view.unpack_at(position, &data, bytes);
            }
            AnswerData::Elements { region, pieces } => {
                let mut from = 0;
                for (at, bytes) in pieces {
                    copy_bytes(&data.offset(from), &region.offset(at), bytes);
                    from += bytes as isize;
                }
            }
        }
        None
    }
}

/// The request forms (MPI 5.0, 12.3.5).
/// The error of a transfer that failed.
#[cold]
fn failure(target: usize, fault: Fault) -> Error {
    match fault {
        Fault::Channel { detail } => {
            let detail = format!("RMA on the memory of rank {target} has failed: {detail}");
            Error::other(c::ERR_OTHER, detail)
        }
        fault => fault.into(),
    }
}
