//! The sender of a partitioned message.

use std::sync::{Arc, Mutex};

use mica_channel::memory::{Region, try_with_capacity};
use mica_protocol::{EngineState, SendCompletion, SendId};

use super::meeting::{ChannelKey, ChannelSender};
use super::partitions::{ChannelAnnouncement, Partitions};
use crate::comm::{self, Comm};
use crate::constants as c;
use crate::error::{Error, Result};
use crate::process;
use crate::pt2pt;
use crate::request::{self, PersistentOperation, Request, RequestOperation};
use crate::status::Status;
use crate::sync::lock;

/// The sender's end of a channel.
#[derive(Debug)]
struct Sender {
    /// Job-wide rank of the receiver; `None`: `MPI_PROC_NULL`.
    peer: Option<u32>,
    context: u64,
    buffer: Partitions,
    /// `None`: `MPI_PROC_NULL`.
    channel: Option<Arc<ChannelSender>>,
    comm: Comm,
}

/// A partitioned send, from its start to its completion.
#[derive(Debug)]
struct SendRound {
    sender: Arc<Sender>,
    progress: Mutex<Readiness>,
}

#[derive(Debug)]
struct Readiness {
    ready: Vec<bool>,
    missing: usize,
    /// Messages under way.
    sends: Vec<SendId>,
}

impl SendRound {
    /// Marks a partition as ready and sends it. Inside the engine.
    fn ready(
        &self,
        state: &mut EngineState,
        partition: usize,
        argument: &'static str,
    ) -> Result<()> {
        let mut progress = lock(&self.progress);
        if std::mem::replace(&mut progress.ready[partition], true) {
            let reason = "this partition is marked as ready already";
            return Err(Error::argument(c::ERR_ARG, argument, partition, reason));
        }
        progress.missing -= 1;
        state.note_completion(); // another thread may wait for the last one
        let Sender { peer, context, buffer, .. } = &*self.sender;
        if let Some(peer) = *peer {
            let view = buffer.view(partition);
            let sent =
                state.send(peer, *context, partition as i32, &view, SendCompletion::Local)?;
            progress.sends.extend(sent);
        }
        Ok(())
    }
}

impl RequestOperation for SendRound {
    fn name(&self) -> &'static str {
        "a partitioned send"
    }

    fn poll(&self, state: &mut EngineState) -> Option<(Status, Option<Error>)> {
        let mut progress = lock(&self.progress);
        progress.sends.retain(|&id| state.take_send(id).is_none());
        let ended = progress.missing == 0 && progress.sends.is_empty();
        ended.then_some((Status::EMPTY, None))
    }

    fn abandon(&self) -> Result<bool> {
        process::engine()?.enter(|state| {
            for id in lock(&self.progress).sends.drain(..) {
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
// arguments: MPI's own argument list.
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
    let (mut context, mut channel) = (0, None);
    if let Some(peer) = peer {
        context = comm::fresh_context()?;
        let announcement = ChannelAnnouncement {
            context,
            partitions: buffer.number as u64,
            each: buffer.each as u64,
        };
        channel = Some(ChannelSender::new(ChannelKey::new(comm, peer, tag), announcement));
    }
    let sender = Sender { peer, context, buffer, channel, comm: comm.clone() };
    Ok(Request::persistent_of(comm, Arc::new(sender)))
}

impl PersistentOperation for Sender {
    fn begin(self: Arc<Sender>) -> Result<Request> {
        let number = self.buffer.number;
        let mut ready = try_with_capacity(number)?;
        ready.resize(number, false);
        if let Some(channel) = &self.channel {
            process::engine()?.enter(|state| channel.start(state))?;
        }
        let progress = Mutex::new(Readiness { ready, missing: number, sends: Vec::new() });
        let comm = self.comm.clone();
        Ok(Request::custom(Some(&comm), Arc::new(SendRound { sender: self, progress })))
    }

    fn end(&self) -> Result<()> {
        match &self.channel {
            Some(channel) => Ok(process::engine()?.enter(|state| channel.free(state))?),
            None => Ok(()),
        }
    }
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
    let round = request::operation::<SendRound>(handle)?.ok_or_else(|| {
        let reason = "this is not an active partitioned send";
        Error::argument(c::ERR_REQUEST, "request", format!("{handle:#x}"), reason)
    })?;
    process::engine()?.enter(|state| {
        partitions.into_iter().try_for_each(|partition| {
            let partition = round.sender.buffer.check(partition, argument)?;
            round.ready(state, partition, argument)
        })
    })
}
