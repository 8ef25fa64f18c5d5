//! The receiver of a partitioned message.

use std::ops::Range;
use std::sync::{Arc, Mutex};

use mica_memory::{Block, Region, Shape, View, try_with_capacity};
use mica_protocol::{EngineState, Fault, MatchPattern, Pending, Poll, Reaction, RecvId, WaitKind};

use super::marks::PartitionMarks;
use super::meeting::{ChannelKey, ChannelReceiver};
use super::partitions::{ChannelAnnouncement, Partitions};
use super::pieces::ReceivedPieces;
use crate::comm::Comm;
use crate::constants as c;
use crate::error::{Error, Result};
use crate::process;
use crate::pt2pt;
use crate::request::{self, PersistentOperation, Request, RequestOperation};
use crate::status::{Cancelled, Status};
use crate::sync::lock;

/// The receiver's end of a channel: a persistent request, and what is active of it.
#[derive(Debug)]
struct PartitionedReceiver {
    /// Job-wide rank of the sender; `None`: `MPI_PROC_NULL`.
    peer: Option<u32>,
    /// Rank of the sender in the communicator, and the user's tag, for the status.
    source: i32,
    tag: i32,
    buffer: Partitions,
    /// Which of its own partitions have arrived: all unless it is active.
    arrived: PartitionMarks,
    round: Mutex<ReceiveRound>,
    /// `None`: `MPI_PROC_NULL`.
    channel: Option<Arc<ChannelReceiver>>,
    comm: Comm,
}

/// A partitioned receive, from its start to its completion.
#[derive(Debug, Default)]
struct ReceiveRound {
    /// Known once the receives are posted.
    sender: Option<ChannelAnnouncement>,
    /// A message has arrived: the channel stays what it is.
    settled: bool,
    /// By message; `None`: it has come.
    pending: Vec<Option<PostedMessage>>,
    /// All messages before this one have come.
    next: usize,
    error: Option<Error>,
    /// Among the reactions of the engine.
    reacts: bool,
}

/// The receive of one message.
#[derive(Debug)]
struct PostedMessage {
    id: RecvId,
    /// Where it arrives, if that is not in the user's buffer.
    copy: Option<View>,
    pieces: ReceivedPieces,
}

impl ReceiveRound {
    /// Whether a message has come, or there is no receive of it, which is an error of the round.
    fn has_come(&self, message: usize) -> bool {
        self.pending.get(message).is_none_or(Option::is_none)
    }

    fn ended(&self) -> bool {
        self.sender.is_some() && self.next == self.pending.len()
    }
}

/// The messages that partition `partition` of the receiver's `of` partitions shares bytes with.
fn messages_of(sender: &ChannelAnnouncement, partition: usize, of: usize) -> Range<usize> {
    let (under, together) = (sender.under(partition, of), sender.together as usize);
    under.start / together..under.end.div_ceil(together)
}

/// Marks those of the receiver's `of` partitions of which this message, which has come, was the
/// last.
fn mark(
    arrived: &PartitionMarks,
    of: usize,
    sender: &ChannelAnnouncement,
    message: usize,
    has_come: impl Fn(usize) -> bool,
) {
    let sent = sender.partitions as usize;
    let (first, end) = sender.partitions_of(message);
    // Partitions that lie wholly in this message, and those that share it with its neighbours.
    let (inner, inner_end) = ((first * of).div_ceil(sent), end * of / sent);
    let (outer, outer_end) = (first * of / sent, (end * of).div_ceil(sent));
    if inner < inner_end {
        arrived.set_range(inner, inner_end);
    }
    for partition in (outer..outer_end).filter(|p| !(inner..inner_end).contains(p)) {
        if messages_of(sender, partition, of).all(&has_come) {
            arrived.set_range(partition, partition + 1);
        }
    }
}

impl PartitionedReceiver {
    /// The channel, if there is one.
    fn channel(
        &self,
        state: &mut EngineState,
    ) -> std::result::Result<Option<ChannelAnnouncement>, Fault> {
        match &self.channel {
            Some(channel) => channel.channel(state),
            None => Ok(Some(ChannelAnnouncement::NOTHING)),
        }
    }

    /// Posts the receive of a message.
    fn post(
        &self,
        state: &mut EngineState,
        sender: &ChannelAnnouncement,
        index: usize,
    ) -> std::result::Result<PostedMessage, Fault> {
        let (position, bytes) = sender.bytes_of(index);
        let (view, copied) = match self.buffer.stretch(position, bytes) {
            Some(view) => (view, false),
            None => (Block::allocate(bytes)?.view(Shape::Contiguous { bytes }), true),
        };
        let pattern =
            MatchPattern { context: sender.context, source: self.peer, tag: Some(index as i32) };
        let (id, copy) = (state.receive(pattern, &view)?, copied.then_some(view));
        Ok(PostedMessage { id, copy, pieces: ReceivedPieces::default() })
    }

    /// Makes as much progress as possible. Inside the engine.
    fn advance(&self, state: &mut EngineState, round: &mut ReceiveRound) {
        if !round.settled
            && let Err(fault) = self.settle(state, round)
        {
            round.error = Some(fault.into());
        }
        // All have to come, so those behind need no look while this one is missing.
        while round.next < round.pending.len() && self.take(state, round, round.next) {
            round.next += 1;
        }
        if round.ended() {
            // Those as well that no message had a part of.
            self.arrived.set_range(0, self.buffer.number);
        }
    }

    /// Takes a message in, if it comes now; whether it has come.
    fn take(&self, state: &mut EngineState, round: &mut ReceiveRound, message: usize) -> bool {
        let (Some(sender), Some(Some(posted))) = (&round.sender, round.pending.get_mut(message))
        else {
            return true;
        };
        let (position, bytes) = sender.bytes_of(message);
        if !posted.pieces.alone {
            let Some(done) = state.take_received(posted.id) else {
                return false;
            };
            round.settled = true;
            posted.pieces.alone = done.sent == 0 && bytes > 0;
            if !posted.pieces.alone
                && let Some(copy) = &posted.copy
            {
                self.buffer.unpack(position, copy);
            }
        }
        if posted.pieces.alone {
            let (first, end) = sender.partitions_of(message);
            let all = first..end;
            let looked = self.look_for_pieces(state, sender, &mut posted.pieces, message, all);
            if let Err(fault) = looked {
                round.error = Some(fault.into());
            } else if !(0..end - first).all(|bit| posted.pieces.has(bit)) {
                return false;
            }
        }
        round.pending[message] = None;
        mark(&self.arrived, self.buffer.number, sender, message, |other| round.has_come(other));
        true
    }

    /// Takes in the pieces of these partitions of a message that have come.
    fn look_for_pieces(
        &self,
        state: &mut EngineState,
        sender: &ChannelAnnouncement,
        pieces: &mut ReceivedPieces,
        message: usize,
        partitions: Range<usize>,
    ) -> std::result::Result<(), Fault> {
        let (first, end) = sender.partitions_of(message);
        for partition in partitions.start.max(first)..partitions.end.min(end) {
            let channel = (sender, self.peer);
            pieces.look_for(state, channel, &self.buffer, partition, partition - first)?;
        }
        pieces.take(state, &self.buffer, first);
        Ok(())
    }

    /// Whether a partition has arrived, after as much progress as possible. Inside the engine.
    fn has(&self, state: &mut EngineState, partition: usize) -> bool {
        let round = &mut *lock(&self.round);
        self.advance(state, round);
        let Some(sender) = round.sender else {
            return self.arrived.has(partition);
        };
        let under = sender.under(partition, self.buffer.number);
        let mut has_all = sender.together > 1;
        for message in messages_of(&sender, partition, self.buffer.number) {
            if self.take(state, round, message) || sender.together == 1 {
                continue;
            }
            let Some(Some(posted)) = round.pending.get_mut(message) else { continue };
            let (pieces, under) = (&mut posted.pieces, under.clone());
            let looked = self.look_for_pieces(state, &sender, pieces, message, under.clone());
            if let Err(fault) = looked {
                round.error = Some(fault.into());
                has_all = false;
                continue;
            }
            let (first, end) = sender.partitions_of(message);
            let mut wanted = under.start.max(first)..under.end.min(end);
            has_all &= wanted.all(|partition| posted.pieces.has(partition - first));
            round.settled |= has_all;
        }
        if has_all {
            self.arrived.set_range(partition, partition + 1);
        }
        self.arrived.has(partition)
    }

    /// Posts the receives, if the channel is another than it was.
    fn settle(
        &self,
        state: &mut EngineState,
        round: &mut ReceiveRound,
    ) -> std::result::Result<(), Fault> {
        let channel = self.channel(state)?;
        if channel == round.sender {
            return Ok(());
        }
        // One that was withdrawn has sent nothing.
        round.next = 0;
        for posted in round.pending.drain(..).flatten() {
            state.cancel_receive(posted.id);
            state.abandon_receive(posted.id);
        }
        round.sender = None;
        let Some(sender) = channel else {
            return Ok(());
        };
        let (messages, capacity) = (sender.messages(), self.buffer.whole.len() as u64);
        round.pending = try_with_capacity(messages)?;
        round.sender = Some(sender);
        let sent = sender.bytes();
        if sent > capacity {
            let PartitionedReceiver { source, tag, .. } = *self;
            round.error = Some(Error::Truncated { sent, capacity, source_rank: source, tag });
        }
        for index in 0..messages {
            round.pending.push(Some(self.post(state, &sender, index)?));
        }
        Ok(())
    }

    fn status(&self, round: &ReceiveRound) -> Status {
        let capacity = self.buffer.whole.len() as u64;
        let sent = round.sender.map_or(0, |sender| sender.bytes());
        match self.peer {
            None => Status::PROC_NULL,
            Some(_) => Status {
                source: self.source,
                tag: self.tag,
                bytes: sent.min(capacity),
                cancelled: Cancelled::No,
            },
        }
    }
}

impl RequestOperation for PartitionedReceiver {
    fn name(&self) -> &'static str {
        "a partitioned receive"
    }

    fn poll(&self, state: &mut EngineState) -> Option<(Status, Option<Error>)> {
        let round = &mut *lock(&self.round);
        self.advance(state, round);
        round.ended().then(|| (self.status(round), round.error.clone()))
    }
}

/// The sender must be served even while this rank waits for something else, and after it has freed
/// the request.
impl Reaction for PartitionedReceiver {
    fn react(&self, state: &mut EngineState) -> bool {
        let round = &mut *lock(&self.round);
        self.advance(state, round);
        round.reacts &= !round.ended();
        round.ended()
    }
}

/// `MPI_Precv_init`: an inactive request for a receive of `partitions` times `count` elements of
/// `datatype`.
///
/// # Errors
/// `MPI_ERR_RANK` and `MPI_ERR_TAG`, also for wildcards; `MPI_ERR_ARG`, `MPI_ERR_COUNT`,
/// `MPI_ERR_TYPE`; `MPI_ERR_NO_MEM`.
#[expect(clippy::too_many_arguments, reason = "MPI's own argument list")]
pub fn precv_init(
    comm: &Comm,
    region: Region,
    partitions: i32,
    count: i64,
    datatype: u32,
    source: i32,
    tag: i32,
) -> Result<Request> {
    let peer = match pt2pt::pattern(comm, source, tag)? {
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
    // Before the channel, which an error would leave behind.
    let arrived = PartitionMarks::new(buffer.number, PartitionMarks::MOST)?;
    let channel = match peer {
        Some(peer) => {
            let key = ChannelKey::new(comm, peer, tag);
            Some(process::engine()?.enter(|state| ChannelReceiver::new(state, key))?)
        }
        None => None,
    };
    let receiver = PartitionedReceiver {
        peer,
        source,
        tag,
        buffer,
        arrived,
        round: Mutex::default(),
        channel,
        comm: comm.clone(),
    };
    Ok(Request::persistent_of(comm, Arc::new(receiver)))
}

impl PersistentOperation for PartitionedReceiver {
    fn begin(self: Arc<PartitionedReceiver>) -> Result<Request> {
        process::engine()?.enter(|state| {
            if let Some(channel) = &self.channel {
                channel.start();
            }
            let round = &mut *lock(&self.round);
            *round = ReceiveRound { reacts: round.reacts, ..ReceiveRound::default() };
            self.arrived.clear();
            self.advance(state, round);
            if !round.reacts && !round.ended() {
                round.reacts = true;
                state.add_reaction(Arc::clone(&self) as _);
            }
        });
        let comm = self.comm.clone();
        Ok(Request::custom(Some(&comm), self))
    }

    fn end(&self) -> Result<()> {
        match &self.channel {
            Some(channel) => Ok(process::engine()?.enter(|state| channel.free(state))?),
            None => Ok(()),
        }
    }

    fn has_arrived(&self, partition: usize) -> bool {
        partition < self.buffer.number && self.arrived.has(partition)
    }
}

/// The usual case of `MPI_Parrived`: the partition has arrived. `None`: [`parrived`] finds out.
#[inline(always)]
pub fn has_arrived(handle: usize, partition: i32) -> Option<()> {
    let asked =
        request::sole_persistent(handle, |receiver, _| receiver.has_arrived(partition as usize));
    asked?.then_some(())
}

/// `MPI_Parrived`: whether a partition of a receive has arrived. All of an inactive one, and of
/// `MPI_REQUEST_NULL`, have (MPI 5.0, 4.2.2).
///
/// # Errors
/// `MPI_ERR_REQUEST` when the request is no partitioned receive; `MPI_ERR_ARG` for a partition that
/// it does not have; `MPI_ERR_NO_MEM`.
pub fn parrived(handle: u32, partition: i32) -> Result<bool> {
    if handle == c::REQUEST_NULL {
        return Ok(true);
    }
    let asked = request::look_persistent(handle, |receiver: &PartitionedReceiver| {
        receiver.buffer.check(partition, "partition").map(|number| receiver.arrived.has(number))
    })?;
    match asked {
        Some(Ok(false)) => {}
        Some(answer) => return answer,
        None => return parrived_followed(handle, partition),
    }
    let poll = process::begin_poll()?;
    let receiver: Arc<PartitionedReceiver> =
        request::persistent_operation(handle)?.ok_or_else(|| no_receive(handle))?;
    look_for(poll, &receiver, partition as usize)
}

/// As [`parrived`], for a request that is followed.
#[cold]
fn parrived_followed(handle: u32, partition: i32) -> Result<bool> {
    let (receiver, follower) = request::followed_operation::<PartitionedReceiver>(handle)?
        .ok_or_else(|| no_receive(handle))?;
    let number = receiver.buffer.check(partition, "partition")?;
    let has_arrived =
        receiver.arrived.has(number) || look_for(process::begin_poll()?, &receiver, number)?;
    if has_arrived {
        follower.arrived(partition);
    }
    Ok(has_arrived)
}

/// Makes progress for a partition that has not arrived; whether it has then.
#[inline(never)]
fn look_for(poll: Poll<'static>, receiver: &PartitionedReceiver, partition: usize) -> Result<bool> {
    let question = |state: &mut EngineState, arrived: &mut bool| {
        if receiver.has(state, partition) {
            return Ok(Some(()));
        }
        *arrived = state.progress()?;
        Ok(receiver.has(state, partition).then_some(()))
    };
    let there = poll.try_once(question, |_, list| {
        list.add(Pending {
            name: Some("a partition of a receive".into()),
            ..Pending::of(WaitKind::Requests)
        });
    })?;
    Ok(there.is_some())
}

#[cold]
fn no_receive(handle: u32) -> Error {
    let reason = "this is not a partitioned receive";
    Error::argument(c::ERR_REQUEST, "request", format!("{handle:#x}"), reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Which of a receiver's `of` partitions have arrived when these messages have come.
    fn which(partitions: u64, together: u64, messages: &[usize], of: usize) -> Vec<bool> {
        let sender = ChannelAnnouncement { context: 0, partitions, each: 0, together };
        let marks = PartitionMarks::new(of, PartitionMarks::MOST).expect("memory");
        marks.clear();
        for (i, &message) in messages.iter().enumerate() {
            mark(&marks, of, &sender, message, |other| messages[..=i].contains(&other));
        }
        (0..of).map(|partition| marks.has(partition)).collect()
    }

    #[test]
    fn a_partition_has_arrived_when_all_that_share_bytes_with_it_have() {
        assert_eq!(which(3, 1, &[0, 2], 3), [true, false, true]);
        assert_eq!(which(4, 1, &[0, 1, 2], 2), [true, false]);
        assert_eq!(which(2, 1, &[0], 4), [true, true, false, false]);
        // Thirds against halves: the middle third lies in both halves.
        assert_eq!(which(2, 1, &[0], 3), [true, false, false]);
        assert_eq!(which(2, 1, &[1, 0], 3), [true, true, true]);
        assert_eq!(which(3, 1, &[1, 0], 2), [true, false]);
        assert_eq!(which(3, 1, &[2, 1], 2), [false, true]);
        // Messages of several partitions, the last one shorter.
        assert_eq!(which(5, 2, &[1, 2], 5), [false, false, true, true, true]);
        assert_eq!(which(5, 4, &[0], 2), [true, false]);
        assert_eq!(which(5, 4, &[1, 0], 2), [true, true]);
        assert_eq!(which(5, 4, &[1], 10)[7..], [false, true, true]);
    }
}
