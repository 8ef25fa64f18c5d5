//! The receiver of a partitioned message.

use std::sync::{Arc, Mutex};

use mica_channel::memory::{Block, Region, Shape, View, try_with_capacity};
use mica_protocol::{EngineState, Fault, MatchPattern, Pending, Reaction, RecvId, WaitKind};

use super::meeting::{ChannelKey, ChannelReceiver};
use super::partitions::{ChannelAnnouncement, Partitions};
use crate::comm::Comm;
use crate::constants as c;
use crate::error::{Error, Result};
use crate::process;
use crate::pt2pt::{self, Plane};
use crate::request::{self, PersistentOperation, Request, RequestOperation};
use crate::status::{Cancelled, Status};
use crate::sync::lock;

/// The receiver's end of a channel.
#[derive(Debug)]
struct PartitionedReceiver {
    /// Job-wide rank of the sender; `None`: `MPI_PROC_NULL`.
    peer: Option<u32>,
    /// Rank of the sender in the communicator, and the user's tag, for the status.
    source: i32,
    tag: i32,
    buffer: Partitions,
    /// `None`: `MPI_PROC_NULL`.
    channel: Option<Arc<ChannelReceiver>>,
    comm: Comm,
}

/// What `MPI_PROC_NULL` sends.
const NOTHING: ChannelAnnouncement = ChannelAnnouncement { context: 0, partitions: 0, each: 0 };

impl PartitionedReceiver {
    /// The channel, if there is one.
    fn channel(
        &self,
        state: &mut EngineState,
    ) -> std::result::Result<Option<ChannelAnnouncement>, Fault> {
        match &self.channel {
            Some(channel) => channel.channel(state),
            None => Ok(Some(NOTHING)),
        }
    }

    /// Posts the receive of one of the sender's partitions.
    fn post(
        &self,
        state: &mut EngineState,
        sender: &ChannelAnnouncement,
        partition: usize,
    ) -> std::result::Result<PostedPartition, Fault> {
        let bytes = sender.each as usize;
        let (view, copied) = match self.buffer.stretch(partition * bytes, bytes) {
            Some(view) => (view, false),
            None => (Block::allocate(bytes)?.view(Shape::Contiguous { bytes }), true),
        };
        let pattern = MatchPattern {
            context: sender.context,
            source: self.peer,
            tag: Some(partition as i32),
        };
        Ok(PostedPartition {
            partition,
            id: state.receive(pattern, &view)?,
            copy: copied.then_some(view),
        })
    }
}

/// A partitioned receive, from its start to its completion.
#[derive(Debug)]
struct ReceiveRound {
    receiver: Arc<PartitionedReceiver>,
    progress: Mutex<Arrivals>,
}

#[derive(Debug, Default)]
struct Arrivals {
    /// Known once the receives are posted.
    sender: Option<ChannelAnnouncement>,
    /// A partition has arrived: the channel stays what it is.
    settled: bool,
    pending: Vec<PostedPartition>,
    /// By the sender's partition.
    arrived: Vec<bool>,
    error: Option<Error>,
}

/// The receive of one of the sender's partitions.
#[derive(Debug)]
struct PostedPartition {
    partition: usize,
    id: RecvId,
    /// Where it arrives, if that is not in the user's buffer.
    copy: Option<View>,
}

impl Arrivals {
    fn ended(&self) -> bool {
        self.sender.is_some() && self.pending.is_empty()
    }

    /// Whether partition `partition` of the receiver's `of` partitions has arrived.
    fn has(&self, partition: usize, of: usize) -> bool {
        let sent = self.arrived.len();
        let first = partition * sent / of;
        let end = ((partition + 1) * sent).div_ceil(of);
        self.sender.is_some() && self.arrived[first..end].iter().all(|&arrived| arrived)
    }
}

impl ReceiveRound {
    /// Makes as much progress as possible. Inside the engine.
    fn advance(&self, state: &mut EngineState) {
        let receiver = &self.receiver;
        let progress = &mut *lock(&self.progress);
        if !progress.settled
            && let Err(fault) = self.settle(state, progress)
        {
            progress.error = Some(fault.into());
        }
        let Arrivals { pending, arrived, settled, .. } = progress;
        pending.retain(|posted| {
            if state.take_received(posted.id).is_none() {
                return true;
            }
            if let Some(copy) = &posted.copy {
                let mut bytes = vec![0; copy.len()];
                copy.pack(0, &mut bytes);
                let position = posted.partition * copy.len();
                receiver.buffer.whole.unpack(position, &bytes);
            }
            arrived[posted.partition] = true;
            *settled = true;
            false
        });
    }

    /// Posts the receives, if the channel is another than it was.
    fn settle(
        &self,
        state: &mut EngineState,
        progress: &mut Arrivals,
    ) -> std::result::Result<(), Fault> {
        let channel = self.receiver.channel(state)?;
        if channel == progress.sender {
            return Ok(());
        }
        // One that was withdrawn has sent nothing.
        for posted in progress.pending.drain(..) {
            state.cancel_receive(posted.id);
            state.abandon_receive(posted.id);
        }
        progress.sender = None;
        let Some(sender) = channel else {
            return Ok(());
        };
        let (partitions, capacity) =
            (sender.partitions as usize, self.receiver.buffer.whole.len() as u64);
        progress.arrived = try_with_capacity(partitions)?;
        progress.arrived.resize(partitions, false);
        progress.pending = try_with_capacity(partitions)?;
        progress.sender = Some(sender);
        let sent = sender.partitions * sender.each;
        if sent > capacity {
            let PartitionedReceiver { source, tag, .. } = *self.receiver;
            progress.error = Some(Error::Truncated { sent, capacity, source_rank: source, tag });
        }
        for partition in 0..partitions {
            progress.pending.push(self.receiver.post(state, &sender, partition)?);
        }
        Ok(())
    }

    fn status(&self, arrivals: &Arrivals) -> Status {
        let capacity = self.receiver.buffer.whole.len() as u64;
        let sent = arrivals.sender.map_or(0, |s| s.partitions * s.each);
        match self.receiver.peer {
            None => Status::PROC_NULL,
            Some(_) => Status {
                source: self.receiver.source,
                tag: self.receiver.tag,
                bytes: sent.min(capacity),
                cancelled: Cancelled::No,
            },
        }
    }
}

impl RequestOperation for ReceiveRound {
    fn name(&self) -> &'static str {
        "a partitioned receive"
    }

    fn poll(&self, state: &mut EngineState) -> Option<(Status, Option<Error>)> {
        self.advance(state);
        let arrivals = lock(&self.progress);
        arrivals.ended().then(|| (self.status(&arrivals), arrivals.error.clone()))
    }
}

/// The sender must be served even while this rank waits for something else, and after it has freed
/// the request.
impl Reaction for ReceiveRound {
    fn react(&self, state: &mut EngineState) -> bool {
        self.advance(state);
        lock(&self.progress).ended()
    }
}

/// `MPI_Precv_init`: an inactive request for a receive of `partitions` times `count` elements of
/// `datatype`.
///
/// # Errors
/// `MPI_ERR_RANK` and `MPI_ERR_TAG`, also for wildcards; `MPI_ERR_ARG`, `MPI_ERR_COUNT`,
/// `MPI_ERR_TYPE`; `MPI_ERR_NO_MEM`.
// arguments: MPI's own argument list.
pub fn precv_init(
    comm: &Comm,
    region: Region,
    partitions: i32,
    count: i64,
    datatype: u32,
    source: i32,
    tag: i32,
) -> Result<Request> {
    let peer = match pt2pt::pattern(comm, Plane::User, source, tag)? {
        None => None,
        Some(MatchPattern { source: None, .. }) => {
            let reason = "a partitioned receive names its source";
            let value = "MPI_ANY_SOURCE";
            return Err(Error::argument(c::ERR_RANK, "source", value, reason));
        }
        Some(MatchPattern { tag: None, .. }) => {
            let reason = "a partitioned receive names its tag";
            return Err(Error::argument(c::ERR_TAG, "tag", "MPI_ANY_TAG", reason));
        }
        Some(pattern) => pattern.source,
    };
    let buffer = Partitions::new(region, partitions, count, datatype)?;
    let channel = match peer {
        Some(peer) => {
            let key = ChannelKey::new(comm, peer, tag);
            Some(process::engine()?.enter(|state| ChannelReceiver::new(state, key))?)
        }
        None => None,
    };
    let receiver = PartitionedReceiver { peer, source, tag, buffer, channel, comm: comm.clone() };
    Ok(Request::persistent_of(comm, Arc::new(receiver)))
}

impl PersistentOperation for PartitionedReceiver {
    fn begin(self: Arc<PartitionedReceiver>) -> Result<Request> {
        let comm = self.comm.clone();
        let round = Arc::new(ReceiveRound { receiver: self, progress: Mutex::default() });
        process::engine()?.enter(|state| {
            if let Some(channel) = &round.receiver.channel {
                channel.start();
            }
            if !round.react(state) {
                state.add_reaction(round.clone());
            }
        });
        Ok(Request::custom(Some(&comm), round))
    }

    fn end(&self) -> Result<()> {
        match &self.channel {
            Some(channel) => Ok(process::engine()?.enter(|state| channel.free(state))?),
            None => Ok(()),
        }
    }
}

/// `MPI_Parrived`: whether a partition of a receive has arrived. All of an inactive one, and of
/// `MPI_REQUEST_NULL`, have (MPI 5.0, 4.2.2).
///
/// # Errors
/// `MPI_ERR_REQUEST` when the request is no partitioned receive; `MPI_ERR_ARG` for a partition that
/// it does not have; `MPI_ERR_NO_MEM`.
pub fn parrived(handle: u32, partition: i32) -> Result<bool> {
    let poll = process::begin_poll();
    if handle == c::REQUEST_NULL {
        return Ok(true);
    }
    let (receiver, round) = request::persistent_operation::<PartitionedReceiver, ReceiveRound>(
        handle,
    )?
    .ok_or_else(|| {
        let reason = "this is not a partitioned receive";
        Error::argument(c::ERR_REQUEST, "request", format!("{handle:#x}"), reason)
    })?;
    let buffer = &receiver.buffer;
    let partition = buffer.check(partition, "partition")?;
    let Some(round) = round else {
        return Ok(true);
    };
    let has = |state: &mut EngineState| {
        round.advance(state);
        lock(&round.progress).has(partition, buffer.number).then_some(())
    };
    let question = |state: &mut EngineState, arrived: &mut bool| {
        if let Some(there) = has(state) {
            return Ok(Some(there));
        }
        *arrived = state.progress()?;
        Ok(has(state))
    };
    let there = poll?.try_once(question, |_, list| {
        list.add(Pending {
            name: Some("a partition of a receive".into()),
            ..Pending::of(WaitKind::Requests)
        });
    })?;
    Ok(there.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrivals(arrived: &[bool]) -> Arrivals {
        let sender = ChannelAnnouncement { context: 0, partitions: arrived.len() as u64, each: 0 };
        Arrivals { sender: Some(sender), arrived: arrived.to_vec(), ..Arrivals::default() }
    }

    #[test]
    fn a_partition_has_arrived_when_all_that_share_bytes_with_it_have() {
        let which = |arrived: &[bool], of: usize| -> Vec<bool> {
            let arrivals = arrivals(arrived);
            (0..of).map(|p| arrivals.has(p, of)).collect()
        };
        assert_eq!(which(&[true, false, true], 3), [true, false, true]);
        assert_eq!(which(&[true, true, true, false], 2), [true, false]);
        assert_eq!(which(&[true, false], 4), [true, true, false, false]);
        // Thirds against halves: the middle third lies in both halves.
        assert_eq!(which(&[true, false], 3), [true, false, false]);
        assert_eq!(which(&[true, true, false], 2), [true, false]);
        assert_eq!(which(&[false, true, true], 2), [false, true]);
        assert_eq!(which(&[], 2), [true, true]);
        assert!(!Arrivals::default().has(0, 1));
    }
}
