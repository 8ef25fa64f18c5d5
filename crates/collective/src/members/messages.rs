//! Blocking messages among members, on the collective context: what rounds of a collective
//! ([`crate::execute`]) and small exchanges ([`crate::exchange`]) are made of. Members are named as
//! schedules name them ([`Members::schedule_peer`]).

use mica_memory::View;
use mica_objects::process;
use mica_objects::status::{self, Cancelled, Status};
use mica_objects::{Error, Result, constants as c};
use mica_protocol::{
    MatchEnvelope, MatchPattern, ReceiveCompletion, SendCompletion, SendId, StartedReceive,
};

use super::Members;

impl Members {
    /// Sends `view` to member `to`. Blocks until the buffer is free.
    ///
    /// # Errors
    /// `MPI_ERR_NO_MEM`.
    pub(crate) fn send(&self, to: usize, view: &View, tag: i32) -> Result<()> {
        let (peer, context) = (self.schedule_peer(to), self.collective_context());
        Ok(process::engine()?.send(peer, context, tag, view, SendCompletion::Local)?)
    }

    /// Starts a send, for [`finish_send`](Self::finish_send); `None` when it is complete at once.
    pub(crate) fn start_send(&self, to: usize, view: &View, tag: i32) -> Result<Option<SendId>> {
        let (peer, context) = (self.schedule_peer(to), self.collective_context());
        let completion = SendCompletion::Local;
        Ok(process::engine()?.enter(|state| state.send(peer, context, tag, view, completion))?)
    }

    /// Waits for a send that was started. If that fails, it goes on by itself. Blocks.
    ///
    /// # Errors
    /// `MPI_ERR_NO_MEM`; the error of `sent`.
    pub(crate) fn finish_send(&self, sent: Result<Option<SendId>>) -> Result<()> {
        match sent? {
            Some(id) => Ok(process::engine()?.finish_send(id)?),
            None => Ok(()),
        }
    }

    /// Receives into `view` from member `from`. Blocks.
    ///
    /// # Errors
    /// `MPI_ERR_TRUNCATE` when the message is longer than the view, which holds its beginning then;
    /// when it is empty and the view is not: the sender has failed in the call. `MPI_ERR_NO_MEM`,
    /// and then the message that comes is received into no memory, since its sender may wait for
    /// that.
    pub(crate) fn receive(&self, from: usize, view: &View, tag: i32) -> Result<()> {
        let received = process::engine()?.receive(self.pattern(from, tag), view);
        self.check_received(received.map_err(Error::from), from, view.len(), tag)
    }

    /// As [`receive`](Self::receive), for [`finish_receive`](Self::finish_receive) to wait for.
    pub(crate) fn start_receive(
        &self,
        from: usize,
        view: &View,
        tag: i32,
    ) -> Result<StartedReceive> {
        Ok(process::engine()?.start_receive(self.pattern(from, tag), view)?)
    }

    /// The rest of [`receive`](Self::receive) of `due` bytes. Blocks.
    ///
    /// # Errors
    /// As [`receive`](Self::receive); the error of `started`.
    pub(crate) fn finish_receive(
        &self,
        started: Result<StartedReceive>,
        from: usize,
        due: usize,
        tag: i32,
    ) -> Result<()> {
        let received = started.and_then(|started| match started {
            StartedReceive::Received(done) => Ok(done),
            StartedReceive::Posted(id) => Ok(process::engine()?.finish_receive(id)?),
        });
        self.check_received(received, from, due, tag)
    }

    fn pattern(&self, from: usize, tag: i32) -> MatchPattern {
        let source = Some(self.schedule_peer(from));
        MatchPattern { context: self.collective_context(), source, tag: Some(tag) }
    }

    fn check_received(
        &self,
        received: Result<ReceiveCompletion>,
        from: usize,
        due: usize,
        tag: i32,
    ) -> Result<()> {
        match received {
            Ok(done) => {
                let (status, error) = outcome(self, &done);
                // An intercommunicator's remote ranks follow those of the local group.
                let rank = from.checked_sub(self.size).unwrap_or(from);
                error.map_or_else(|| status::check_sent(&status, rank, due), Err)
            }
            Err(error) => {
                receive_nothing(self.pattern(from, tag));
                Err(error)
            }
        }
    }
}

/// Receives the message that a member waits to get rid of into no memory, some time.
#[cold]
pub fn receive_nothing(pattern: MatchPattern) {
    if let Ok(engine) = process::engine()
        && let Ok(StartedReceive::Posted(id)) = engine.start_receive(pattern, &View::empty())
    {
        engine.enter(|state| state.abandon_receive(id));
    }
}

/// The status of a message in terms of its communicator.
#[inline]
pub fn status_of(members: &Members, envelope: &MatchEnvelope, bytes: usize) -> Status {
    let source = members.rank_of(envelope.source).map_or(c::ANY_SOURCE, |rank| rank as i32);
    Status { source, tag: envelope.tag, bytes: bytes as u64, cancelled: Cancelled::No }
}

/// Status of a receive, and the error if the message did not fit.
#[inline]
pub fn outcome(members: &Members, done: &ReceiveCompletion) -> (Status, Option<Error>) {
    if done.cancelled {
        return (Status { cancelled: Cancelled::Yes, ..Status::EMPTY }, None);
    }
    let status = status_of(members, &done.envelope, done.sent.min(done.capacity));
    if done.sent <= done.capacity {
        return (status, None);
    }
    let error = Error::Truncated {
        sent: done.sent as u64,
        capacity: done.capacity as u64,
        source_rank: status.source,
        tag: status.tag,
    };
    (status, Some(error))
}
