//! Partitioned communication (MPI 5.0, chapter 4).
//!
//! `MPI_Psend_init` opens a channel: a context of its own, in which partition `i` travels as an
//! ordinary message with tag `i` as soon as it is ready. It announces the channel, and how the
//! message is divided, to the receiver in a small message on the communicator's collective plane.
//! Collectives use tags from 0 on there, so the complement of the user's tag is free. The usual
//! message order then matches the n-th send of a communicator, peer and tag with the n-th receive.
//!
//! The receiver posts one receive for each of the sender's partitions, straight into its buffer
//! where the division allows, through a copy otherwise. One of its own partitions has arrived when
//! all of the sender's partitions that share bytes with it have.

use std::sync::{Arc, Mutex};

use mica_channel::memory::{Block, Region, Shape, View};
use mica_protocol::{
    EngineState, Fault, MatchPattern, Pending, Reaction, RecvId, SendId, WaitKind,
};

use crate::comm::{self, Comm};
use crate::constants as c;
use crate::datatype::{self, Datatype};
use crate::error::{Error, Result};
use crate::process;
use crate::pt2pt::{self, Plane};
use crate::request::{self, Operation, Request};
use crate::status::{Cancelled, Status};
use crate::sync::lock;

/// A buffer of partitions, one after another.
#[derive(Debug)]
struct Partitions {
    number: usize,
    /// All partitions.
    whole: View,
    /// One partition: its shape, its length in bytes, and the distance between two in memory.
    shape: Shape,
    each: usize,
    stride: isize,
}

impl Partitions {
    fn new(region: Region, number: i32, count: i64, datatype: u32) -> Result<Partitions> {
        let Ok(partitions) = usize::try_from(number) else {
            let reason = "a number of partitions is not negative";
            return Err(Error::argument(c::ERR_ARG, "partitions", number, reason));
        };
        let one = datatype::shape_of(datatype, region.address(), count)?;
        let too_much = || {
            let reason = format!("{number} partitions of {count} elements are too much");
            Error::argument(c::ERR_COUNT, "count", count, reason)
        };
        let total = count.checked_mul(number.into()).ok_or_else(too_much)?;
        let extent = Datatype::resolve(datatype)?.extent();
        let stride = extent.checked_mul(count).ok_or_else(too_much)?;
        Ok(Partitions {
            number: partitions,
            whole: {
                let shape = datatype::shape_of(datatype, region.address(), total)?;
                region.view(shape)
            },
            each: one.len(),
            shape: one,
            stride: stride as isize,
        })
    }

    fn view(&self, partition: usize) -> View {
        let offset = self.stride * partition as isize;
        self.whole.region().offset(offset).view(self.shape.clone())
    }

    /// The memory of the `bytes` bytes from `position` on, if it has a shape.
    fn stretch(&self, position: usize, bytes: usize) -> Option<View> {
        if position.checked_add(bytes)? > self.whole.len() {
            return None;
        }
        if let Some((address, _)) = self.whole.as_contiguous() {
            let region = self.whole.region();
            let first = address.wrapping_sub(region.address()) as isize;
            let place = region.offset(first + position as isize);
            return Some(place.view(Shape::Contiguous { bytes }));
        }
        let aligned = bytes > 0 && bytes == self.each && position.is_multiple_of(bytes);
        aligned.then(|| self.view(position / bytes))
    }

    /// Checks an argument that names a partition.
    fn check(&self, partition: i32, argument: &'static str) -> Result<usize> {
        let valid = usize::try_from(partition).ok().filter(|&p| p < self.number);
        valid.ok_or_else(|| {
            let reason = format!("the request has {} partitions", self.number);
            Error::argument(c::ERR_ARG, argument, partition, reason)
        })
    }
}

/// What the sender announces to the receiver of a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Announcement {
    context: u64,
    partitions: u64,
    /// Bytes of a partition.
    each: u64,
}

impl Announcement {
    const BYTES: usize = 24;

    fn to_bytes(self) -> [u8; Announcement::BYTES] {
        let mut bytes = [0; Announcement::BYTES];
        let (words, _) = bytes.as_chunks_mut::<8>();
        words[0] = self.context.to_ne_bytes();
        words[1] = self.partitions.to_ne_bytes();
        words[2] = self.each.to_ne_bytes();
        bytes
    }

    fn from_bytes(bytes: &[u8; Announcement::BYTES]) -> Announcement {
        let (words, _) = bytes.as_chunks::<8>();
        let [context, partitions, each] = [0, 1, 2].map(|i| u64::from_ne_bytes(words[i]));
        Announcement {
            context,
            partitions,
            each,
        }
    }
}

/// The tag, on the collective plane, of the announcements of channels with this tag.
fn announcement_tag(tag: i32) -> i32 {
    !tag
}

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
        let Sender {
            peer,
            context,
            buffer,
        } = &*self.channel;
        if let Some(peer) = *peer {
            let view = buffer.view(partition);
            let sent = state.send(peer, *context, partition as i32, &view, false)?;
            progress.sends.extend(sent);
        }
        Ok(())
    }
}

impl Operation for SendRound {
    fn name(&self) -> &'static str {
        "a partitioned send"
    }

    fn poll(&self, state: &mut EngineState, _take: bool) -> Option<(Status, Option<Error>)> {
        let mut progress = lock(&self.progress);
        progress.sends.retain(|&id| !state.take_send(id));
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
// MPI's own argument list.
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
        let announcement = Announcement {
            context,
            partitions: buffer.number as u64,
            each: buffer.each as u64,
        };
        announce(comm, peer, tag, announcement)?;
    }
    let channel = Arc::new(Sender {
        peer,
        context,
        buffer,
    });
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

fn announce(comm: &Comm, peer: u32, tag: i32, announcement: Announcement) -> Result<()> {
    let region = Block::allocate(Announcement::BYTES)?;
    region.write_bytes(&announcement.to_bytes());
    let view = region.view(Shape::Contiguous {
        bytes: Announcement::BYTES,
    });
    let (context, tag) = (comm.context() | 1, announcement_tag(tag));
    process::engine()?.enter(|state| {
        if let Some(id) = state.send(peer, context, tag, &view, false)? {
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

/// The receiver's end of a channel.
#[derive(Debug)]
struct Receiver {
    /// Job-wide rank of the sender; `None`: `MPI_PROC_NULL`.
    peer: Option<u32>,
    /// Rank of the sender in the communicator, and the user's tag, for the status.
    source: i32,
    tag: i32,
    buffer: Partitions,
    link: Mutex<ChannelLink>,
}

#[derive(Debug)]
enum ChannelLink {
    /// The announcement is still to come.
    Awaited(RecvId, Region),
    Open(Announcement),
}

impl Receiver {
    /// The announcement, if it has come.
    fn announcement(&self, state: &mut EngineState) -> Option<Announcement> {
        let mut link = lock(&self.link);
        if let ChannelLink::Awaited(id, region) = &*link {
            state.take_received(*id)?;
            let mut bytes = [0; Announcement::BYTES];
            region.read_bytes(&mut bytes);
            *link = ChannelLink::Open(Announcement::from_bytes(&bytes));
        }
        match &*link {
            ChannelLink::Open(announcement) => Some(*announcement),
            ChannelLink::Awaited(..) => None,
        }
    }

    /// Posts the receive of one of the sender's partitions.
    fn post(
        &self,
        state: &mut EngineState,
        sender: &Announcement,
        partition: usize,
    ) -> std::result::Result<PostedPartition, Fault> {
        let bytes = sender.each as usize;
        let (view, copied) = match self.buffer.stretch(partition * bytes, bytes) {
            Some(view) => (view, false),
            None => (
                Block::allocate(bytes)?.view(Shape::Contiguous { bytes }),
                true,
            ),
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
    channel: Arc<Receiver>,
    progress: Mutex<Arrivals>,
}

#[derive(Debug, Default)]
struct Arrivals {
    /// Known once the receives are posted.
    sender: Option<Announcement>,
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
        let channel = &self.channel;
        let progress = &mut *lock(&self.progress);
        if progress.sender.is_none() {
            let Some(sender) = channel.announcement(state) else {
                return;
            };
            progress.sender = Some(sender);
            progress.arrived = vec![false; sender.partitions as usize];
            let (sent, capacity) = (sender.partitions * sender.each, channel.buffer.whole.len());
            if sent > capacity as u64 {
                progress.error = Some(Error::Truncated {
                    sent,
                    capacity: capacity as u64,
                    source_rank: channel.source,
                    tag: channel.tag,
                });
            }
            for partition in 0..sender.partitions as usize {
                match channel.post(state, &sender, partition) {
                    Ok(posted) => progress.pending.push(posted),
                    Err(fault) => {
                        progress.error = Some(fault.into());
                        break;
                    }
                }
            }
        }
        let Arrivals {
            pending, arrived, ..
        } = progress;
        pending.retain(|posted| {
            if state.take_received(posted.id).is_none() {
                return true;
            }
            if let Some(copy) = &posted.copy {
                let mut bytes = vec![0; copy.len()];
                copy.pack(0, &mut bytes);
                let position = posted.partition * copy.len();
                channel.buffer.whole.unpack(position, &bytes);
            }
            arrived[posted.partition] = true;
            false
        });
    }

    fn status(&self, arrivals: &Arrivals) -> Status {
        let capacity = self.channel.buffer.whole.len() as u64;
        let sent = arrivals.sender.map_or(0, |s| s.partitions * s.each);
        match self.channel.peer {
            None => Status::PROC_NULL,
            Some(_) => Status {
                source: self.channel.source,
                tag: self.channel.tag,
                bytes: sent.min(capacity),
                cancelled: Cancelled::No,
            },
        }
    }
}

impl Operation for ReceiveRound {
    fn name(&self) -> &'static str {
        "a partitioned receive"
    }

    fn poll(&self, state: &mut EngineState, _take: bool) -> Option<(Status, Option<Error>)> {
        self.advance(state);
        let arrivals = lock(&self.progress);
        arrivals
            .ended()
            .then(|| (self.status(&arrivals), arrivals.error.clone()))
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
// MPI's own argument list.
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
    let link = match peer {
        Some(peer) => await_announcement(comm, peer, tag)?,
        None => ChannelLink::Open(Announcement {
            context: 0,
            partitions: 0,
            each: 0,
        }),
    };
    let channel = Arc::new(Receiver {
        peer,
        source,
        tag,
        buffer,
        link: Mutex::new(link),
    });
    let of = comm.clone();
    Ok(Request::persistent(comm, move || {
        let round = Arc::new(ReceiveRound {
            channel: channel.clone(),
            progress: Mutex::default(),
        });
        process::engine()?.enter(|state| {
            if !round.react(state) {
                state.add_reaction(round.clone());
            }
        });
        Ok(Request::custom(Some(&of), round))
    }))
}

fn await_announcement(comm: &Comm, peer: u32, tag: i32) -> Result<ChannelLink> {
    let region = Block::allocate(Announcement::BYTES)?;
    let view = region.clone().view(Shape::Contiguous {
        bytes: Announcement::BYTES,
    });
    let pattern = MatchPattern {
        context: comm.context() | 1,
        source: Some(peer),
        tag: Some(announcement_tag(tag)),
    };
    let id = process::engine()?.enter(|state| state.receive(pattern, &view))?;
    Ok(ChannelLink::Awaited(id, region))
}

/// `MPI_Parrived`: whether a partition of a receive has arrived. All of an inactive one have.
///
/// # Errors
/// `MPI_ERR_REQUEST` when the request is no partitioned receive; `MPI_ERR_ARG` for a partition that
/// it does not have; `MPI_ERR_NO_MEM`.
pub fn parrived(handle: u32, partition: i32) -> Result<bool> {
    let poll = process::begin_poll();
    if handle != c::REQUEST_NULL && !request::is_active(handle)? {
        return Ok(true);
    }
    let round = request::operation::<ReceiveRound>(handle)?.ok_or_else(|| {
        let reason = "this is not a partitioned receive";
        Error::argument(c::ERR_REQUEST, "request", format!("{handle:#x}"), reason)
    })?;
    let buffer = &round.channel.buffer;
    let partition = buffer.check(partition, "partition")?;
    let has = |state: &mut EngineState| {
        round.advance(state);
        lock(&round.progress)
            .has(partition, buffer.number)
            .then_some(())
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
        let sender = Announcement {
            context: 0,
            partitions: arrived.len() as u64,
            each: 0,
        };
        Arrivals {
            sender: Some(sender),
            arrived: arrived.to_vec(),
            ..Arrivals::default()
        }
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

    #[test]
    fn announcements_travel_as_bytes() {
        let announcement = Announcement {
            context: u64::MAX - 1,
            partitions: 7,
            each: 1 << 40,
        };
        assert_eq!(
            Announcement::from_bytes(&announcement.to_bytes()),
            announcement
        );
    }
}
