//! The sender of a partitioned message.

use std::sync::{Arc, Mutex};

use mica_collective::members::context::fresh_context;
use mica_memory::{Region, View, try_with_capacity};
use mica_node::lock::SoleThread;
use mica_node::tunables::PARTITIONS_TOGETHER;
use mica_protocol::{EngineState, Reaction, SendCompletion, SendId};

use super::marks::{Marked, PartitionMarks};
use super::meeting::{ChannelKey, ChannelSender};
use super::partitions::{ChannelAnnouncement, Messages, Partitions};
use super::pieces::{ScanClock, SentPieces, bits};
use crate::comm::Comm;
use crate::constants as c;
use crate::error::{Error, Result};
use crate::process;
use crate::pt2pt;
use crate::request::{self, PersistentOperation, Request, RequestOperation};
use crate::status::Status;
use crate::sync::lock;

/// The sender's end of a channel: a persistent request, and what is active of it.
#[derive(Debug)]
struct Sender {
    /// Job-wide rank of the receiver; `None`: `MPI_PROC_NULL`.
    peer: Option<u32>,
    context: u64,
    buffer: Partitions,
    messages: Messages,
    /// Which partitions are ready: a word for each message.
    ready: PartitionMarks,
    round: Mutex<SendRound>,
    /// `None`: `MPI_PROC_NULL`.
    channel: Option<Arc<ChannelSender>>,
    comm: Comm,
}

/// A partitioned send, from its start to its completion.
#[derive(Debug, Default)]
struct SendRound {
    active: bool,
    /// Messages with partitions that are not ready.
    missing: usize,
    /// Messages and pieces under way.
    sends: Vec<SendId>,
    /// By message, where these have more than one partition.
    pieces: Vec<SentPieces>,
    clock: ScanClock,
    /// Why a piece was not sent.
    error: Option<Error>,
    /// Among the reactions of the engine.
    reacts: bool,
}

impl Sender {
    /// Marks partitions as ready until a message is complete, and returns that.
    fn mark(
        &self,
        handle: u32,
        partitions: &mut impl Iterator<Item = i32>,
        argument: &'static str,
    ) -> Result<Option<usize>> {
        for number in partitions {
            let partition = self.buffer.check(number, argument)?;
            match self.ready.set(partition) {
                Marked::Part => {}
                Marked::Word(message) => return Ok(Some(message)),
                Marked::Already if lock(&self.round).active => {
                    let reason = "this partition is marked as ready already";
                    return Err(Error::argument(c::ERR_ARG, argument, partition, reason));
                }
                Marked::Already => return Err(not_active(handle)),
            }
        }
        Ok(None)
    }

    /// Sends a message whose partitions are all ready. Inside the engine.
    fn send(&self, state: &mut EngineState, message: usize) -> Result<()> {
        let round = &mut *lock(&self.round);
        round.missing -= 1;
        state.note_completion(); // another thread may wait for the last one
        let mut view = self.messages.view(&self.buffer, message);
        if round.pieces.get(message).is_some_and(|pieces| pieces.sent != 0) {
            let (first, end) = self.messages.partitions_of(&self.buffer, message);
            self.send_pieces(state, round, message, u64::MAX >> (64 - (end - first)))?;
            view = View::empty();
        }
        self.send_view(state, round, message as i32, &view)
    }

    /// Sends partitions of a message by themselves, those that have not been sent so.
    fn send_pieces(
        &self,
        state: &mut EngineState,
        round: &mut SendRound,
        message: usize,
        partitions: u64,
    ) -> Result<()> {
        let (first, _) = self.messages.partitions_of(&self.buffer, message);
        for bit in bits(partitions & !round.pieces[message].sent) {
            round.pieces[message].sent |= 1 << bit;
            let partition = first + bit;
            let tag = ChannelAnnouncement::piece_tag(partition);
            self.send_view(state, round, tag, &self.buffer.view(partition))?;
        }
        Ok(())
    }

    fn send_view(
        &self,
        state: &mut EngineState,
        round: &mut SendRound,
        tag: i32,
        view: &View,
    ) -> Result<()> {
        if let Some(peer) = self.peer {
            let sent = state.send(peer, self.context, tag, view, SendCompletion::Local)?;
            round.sends.extend(sent);
        }
        Ok(())
    }
}

/// What is ready goes though its neighbours are not, when the process waits in MPI.
impl Reaction for Sender {
    fn react(&self, state: &mut EngineState) -> bool {
        let round = &mut *lock(&self.round);
        if round.missing == 0 {
            round.reacts = false;
            state.end_silent_polling();
            return true;
        }
        for message in 0..if round.clock.is_due() { round.pieces.len() } else { 0 } {
            let Some(ready) = self.ready.part_of(message) else { continue };
            let due = round.pieces[message].due(ready);
            if let Err(error) = self.send_pieces(state, round, message, due) {
                round.error.get_or_insert(error);
            }
        }
        false
    }
}

impl RequestOperation for Sender {
    fn name(&self) -> &'static str {
        "a partitioned send"
    }

    fn poll(&self, state: &mut EngineState) -> Option<(Status, Option<Error>)> {
        let round = &mut *lock(&self.round);
        // All have to end, so the others need no look while this one is under way.
        while round.sends.pop_if(|id| state.take_send(*id).is_some()).is_some() {}
        let ended = round.missing == 0 && round.sends.is_empty();
        round.active = !ended;
        ended.then(|| (Status::EMPTY, round.error.take()))
    }

    fn abandon(&self) -> Result<bool> {
        process::engine()?.enter(|state| {
            for id in lock(&self.round).sends.drain(..) {
                state.abandon_send(id);
            }
        });
        Ok(true)
    }
}

/// `MPI_Psend_init`: an inactive request for a send of `partitions` times `count` elements of
/// `datatype`.
///
/// # Errors
/// `MPI_ERR_RANK`, `MPI_ERR_TAG`, `MPI_ERR_ARG`, `MPI_ERR_COUNT`, `MPI_ERR_TYPE`; `MPI_ERR_NO_MEM`.
#[expect(clippy::too_many_arguments, reason = "MPI's own argument list")]
pub fn psend_init(
    comm: &Comm,
    region: Region,
    partitions: i32,
    count: i64,
    datatype: u32,
    dest: i32,
    tag: i32,
) -> Result<Request> {
    let peer = pt2pt::destination(comm, dest, tag)?;
    let buffer = Partitions::new(region, partitions, count, datatype)?;
    let together_max = PARTITIONS_TOGETHER.number()?;
    let messages = Messages::new(&buffer, count, datatype, together_max as usize)?;
    let ready = PartitionMarks::new(buffer.number, messages.together)?;
    let (mut context, mut channel) = (0, None);
    if let Some(peer) = peer {
        context = fresh_context()?;
        let announcement = ChannelAnnouncement {
            context,
            partitions: buffer.number as u64,
            each: buffer.each as u64,
            together: messages.together as u64,
        };
        channel = Some(ChannelSender::new(ChannelKey::new(comm, peer, tag), announcement));
    }
    let sender = Sender {
        peer,
        context,
        buffer,
        messages,
        ready,
        round: Mutex::default(),
        channel,
        comm: comm.clone(),
    };
    Ok(Request::persistent_of(comm, Arc::new(sender)))
}

impl PersistentOperation for Sender {
    fn begin(self: Arc<Sender>) -> Result<Request> {
        let (missing, mut pieces) = (self.messages.number, Vec::new());
        if self.messages.together > 1 {
            pieces = try_with_capacity(missing)?;
            pieces.resize(missing, SentPieces::default());
        }
        let mut next = SendRound { active: true, missing, pieces, ..SendRound::default() };
        match &self.channel {
            None => *lock(&self.round) = next,
            Some(channel) => process::engine()?.enter(|state| {
                channel.start(state)?;
                let round = &mut *lock(&self.round);
                next.reacts = round.reacts || self.messages.together > 1;
                if next.reacts && !round.reacts {
                    state.begin_silent_polling();
                    state.add_reaction(Arc::clone(&self) as _);
                }
                *round = next;
                Ok::<_, Error>(())
            })?,
        }
        self.ready.clear();
        let comm = self.comm.clone();
        Ok(Request::custom(Some(&comm), self))
    }

    fn end(&self) -> Result<()> {
        match &self.channel {
            Some(channel) => Ok(process::engine()?.enter(|state| channel.free(state))?),
            None => Ok(()),
        }
    }

    fn ready_early(&self, partition: usize, sole: &SoleThread<'_>) -> bool {
        partition < self.buffer.number && self.ready.set_alone(partition, sole)
    }
}

/// The usual case of `MPI_Pready`: other partitions of the same message are not ready. `None`:
/// nothing was done, and [`pready`] does it all.
#[inline(always)]
pub fn pready_early(handle: usize, partition: i32) -> Option<()> {
    let early = |sender: &dyn PersistentOperation, sole: &SoleThread<'_>| {
        sender.ready_early(partition as usize, sole)
    };
    request::sole_persistent(handle, early)?.then_some(())
}

/// `MPI_Pready` and its variants: marks partitions of an active send as ready. `argument` names
/// them in errors.
///
/// # Errors
/// `MPI_ERR_REQUEST` when the request is no active partitioned send; `MPI_ERR_ARG` for a partition
/// that it does not have or that is ready; `MPI_ERR_NO_MEM`.
pub fn pready(
    handle: u32,
    partitions: impl IntoIterator<Item = i32>,
    argument: &'static str,
) -> Result<()> {
    let mut partitions = partitions.into_iter();
    let marked = request::look_persistent(handle, |sender: &Sender| {
        sender.mark(handle, &mut partitions, argument)
    })?;
    let Some(marked) = marked else {
        return pready_followed(handle, partitions, argument);
    };
    match marked? {
        None => Ok(()),
        Some(message) => {
            let sender: Arc<Sender> =
                request::persistent_operation(handle)?.ok_or_else(|| not_active(handle))?;
            go_on(&sender, handle, Some(message), partitions, argument)
        }
    }
}

/// As [`pready`], for a request that is followed.
#[cold]
fn pready_followed(
    handle: u32,
    partitions: impl Iterator<Item = i32>,
    argument: &'static str,
) -> Result<()> {
    let (sender, follower) =
        request::followed_operation::<Sender>(handle)?.ok_or_else(|| not_active(handle))?;
    let mut partitions = partitions.inspect(|&partition| follower.ready(partition));
    let complete = sender.mark(handle, &mut partitions, argument)?;
    go_on(&sender, handle, complete, partitions, argument)
}

/// Sends the message that is complete, if one is, and goes on to mark partitions.
#[inline(never)]
fn go_on(
    sender: &Sender,
    handle: u32,
    mut complete: Option<usize>,
    mut partitions: impl Iterator<Item = i32>,
    argument: &'static str,
) -> Result<()> {
    process::engine()?.enter(|state| {
        while let Some(message) = complete {
            sender.send(state, message)?;
            complete = sender.mark(handle, &mut partitions, argument)?;
        }
        Ok(())
    })
}

#[cold]
fn not_active(handle: u32) -> Error {
    let reason = "this is not an active partitioned send";
    Error::argument(c::ERR_REQUEST, "request", format!("{handle:#x}"), reason)
}
