//! The sender of a partitioned message.

use std::sync::{Arc, Mutex};

use mica_channel::memory::{Block, Region, Shape};
use mica_protocol::{EngineState, SendCompletion, SendId};

use super::partitions::{ChannelAnnouncement, Partitions, announcement_tag};
use crate::comm::{self, Comm};
use crate::constants as c;
use crate::error::{Error, Result};
use crate::process;
use crate::pt2pt;
use crate::request::{self, Request, RequestOperation};
use crate::status::Status;
use crate::sync::lock;

/// The sender's end of a channel.
#[derive(Debug)]
struct Sender {
    /// Job-wide rank of the receiver; `None`: `MPI_PROC_NULL`.
    peer: Option<u32>,
    context: u64,
    buffer: Partitions,
}

/// A partitioned send, from its start to its completion.
#[derive(Debug)]
struct SendRound {
    channel: Arc<Sender>,
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
        let Sender { peer, context, buffer } = &*self.channel;
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
    let mut context = 0;
    if let Some(peer) = peer {
        context = comm::fresh_context()?;
        let announcement = ChannelAnnouncement {
            context,
            partitions: buffer.number as u64,
            each: buffer.each as u64,
        };
        announce(comm, peer, tag, announcement)?;
    }
    let channel = Arc::new(Sender { peer, context, buffer });
    let of = comm.clone();
    Ok(Request::persistent(comm, move || {
        let number = channel.buffer.number;
        let round = SendRound {
            channel: channel.clone(),
            progress: Mutex::new(Readiness {
                ready: vec![false; number],
                missing: number,
                sends: Vec::new(),
            }),
        };
        Ok(Request::custom(Some(&of), Arc::new(round)))
    }))
}

fn announce(comm: &Comm, peer: u32, tag: i32, announcement: ChannelAnnouncement) -> Result<()> {
    let region = Block::allocate(ChannelAnnouncement::BYTES)?;
    region.write_bytes(&announcement.to_bytes());
    let view = region.view(Shape::Contiguous { bytes: ChannelAnnouncement::BYTES });
    let (context, tag) = (comm.context() | 1, announcement_tag(tag));
    process::engine()?.enter(|state| {
        if let Some(id) = state.send(peer, context, tag, &view, SendCompletion::Local)? {
            state.abandon_send(id);
        }
        Ok(())
    })
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
            let partition = round.channel.buffer.check(partition, argument)?;
            round.ready(state, partition, argument)
        })
    })
}
