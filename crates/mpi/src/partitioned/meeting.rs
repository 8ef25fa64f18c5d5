//! How the two ends of a partitioned message find each other: the n-th send and the n-th receive of
//! a communicator, peer and tag, in the order of their initialization (MPI 5.0, 4.2.1). Requests
//! that are freed before they were ever started do not count: a program may make and free one whose
//! peer does the same, and neither must meet the peer's next one.
//!
//! The sender announces a channel when it is started for the first time, and before it those that
//! were made earlier and are still there. So a request that is freed before needs no message,
//! unless a later one was started first; then the sender withdraws its announcement.
//!
//! The receiver keeps a [`ReceiverQueue`] for each communicator, peer and tag: one posted receive
//! for the next [`ChannelMessage`], the channels that have no receiver, and the receivers that have
//! no channel. A channel and a receiver part again if the receiver is freed, or the channel is
//! withdrawn, before it was started; what is left of the two is matched in the old order.
//!
//! All functions here run inside the engine.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

use mica_memory::{Block, Region, Shape};
use mica_protocol::{EngineState, Fault, MatchPattern, RecvId, SendCompletion};

use super::partitions::{ChannelAnnouncement, ChannelMessage};
use crate::comm::Comm;
use crate::sync::lock;

/// What the ends of a channel have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ChannelKey {
    /// The communicator's collective plane.
    context: u64,
    /// Job-wide rank of the other end.
    peer: u32,
    /// The user's.
    tag: i32,
}

impl ChannelKey {
    pub fn new(comm: &Comm, peer: u32, tag: i32) -> ChannelKey {
        ChannelKey { context: comm.collective_context(), peer, tag }
    }

    /// The tag of messages about its channels on the collective plane, where collectives use tags
    /// from 0 on.
    fn message_tag(&self) -> i32 {
        !self.tag
    }
}

/// Where a sender is with its announcement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SenderStage {
    Unannounced,
    /// For a later sender's sake: it may be withdrawn.
    Announced,
    Started,
}

/// The sender's part.
#[derive(Debug)]
pub(super) struct ChannelSender {
    key: ChannelKey,
    announcement: ChannelAnnouncement,
    stage: Mutex<SenderStage>,
}

/// The senders that are not announced, in order of initialization.
static UNANNOUNCED: Mutex<BTreeMap<ChannelKey, VecDeque<Arc<ChannelSender>>>> =
    Mutex::new(BTreeMap::new());

impl ChannelSender {
    /// A sender that is to be announced when it is started.
    pub fn new(key: ChannelKey, announcement: ChannelAnnouncement) -> Arc<ChannelSender> {
        let stage = Mutex::new(SenderStage::Unannounced);
        let sender = Arc::new(ChannelSender { key, announcement, stage });
        lock(&UNANNOUNCED).entry(key).or_default().push_back(Arc::clone(&sender));
        sender
    }

    /// Announces the sender, which is started, and those before it.
    pub fn start(&self, state: &mut EngineState) -> Result<(), Fault> {
        let all = &mut *lock(&UNANNOUNCED);
        while *lock(&self.stage) == SenderStage::Unannounced
            && let Some(queue) = all.get_mut(&self.key)
            && let Some(first) = queue.front()
        {
            send(state, &self.key, ChannelMessage::Announced(first.announcement))?;
            *lock(&first.stage) = SenderStage::Announced;
            queue.pop_front();
        }
        *lock(&self.stage) = SenderStage::Started;
        self.drop_empty(all);
        Ok(())
    }

    /// The request was freed.
    pub fn free(&self, state: &mut EngineState) -> Result<(), Fault> {
        let stage = *lock(&self.stage);
        match stage {
            SenderStage::Started => Ok(()),
            SenderStage::Announced => {
                let context = self.announcement.context;
                send(state, &self.key, ChannelMessage::Withdrawn { context })
            }
            SenderStage::Unannounced => {
                let all = &mut *lock(&UNANNOUNCED);
                if let Some(queue) = all.get_mut(&self.key) {
                    queue.retain(|sender| !std::ptr::eq(&**sender, self));
                }
                self.drop_empty(all);
                Ok(())
            }
        }
    }

    fn drop_empty(&self, all: &mut BTreeMap<ChannelKey, VecDeque<Arc<ChannelSender>>>) {
        if all.get(&self.key).is_some_and(VecDeque::is_empty) {
            all.remove(&self.key);
        }
    }
}

/// Memory for a message about channels.
fn message_region() -> Result<Region, Fault> {
    Ok(Block::allocate(ChannelMessage::BYTES)?)
}

const MESSAGE: Shape = Shape::Contiguous { bytes: ChannelMessage::BYTES };

fn send(state: &mut EngineState, key: &ChannelKey, message: ChannelMessage) -> Result<(), Fault> {
    let region = message_region()?;
    region.write_bytes(&message.to_bytes());
    let (tag, view) = (key.message_tag(), region.view(MESSAGE));
    if let Some(id) = state.send(key.peer, key.context, tag, &view, SendCompletion::Local)? {
        state.abandon_send(id);
    }
    Ok(())
}

/// A channel, and its place among those that were announced.
type NumberedChannel = (u64, ChannelAnnouncement);

/// The receiver's part.
#[derive(Debug)]
pub(super) struct ChannelReceiver {
    key: ChannelKey,
    /// Its place in the order of initialization.
    number: u64,
    link: Mutex<ChannelLink>,
}

#[derive(Debug, Default)]
struct ChannelLink {
    channel: Option<NumberedChannel>,
    started: bool,
}

/// What is known of the channels of one communicator, peer and tag.
#[derive(Debug, Default)]
struct ReceiverQueue {
    /// The receive of the next message about them.
    listener: Option<(RecvId, Region)>,
    /// Requests that were not freed.
    requests: usize,
    /// Channels announced so far.
    announced: u64,
    /// Receivers without a channel, by their numbers.
    waiting: BTreeMap<u64, Arc<ChannelReceiver>>,
    /// Channels without a receiver, by their numbers.
    open: BTreeMap<u64, ChannelAnnouncement>,
    /// Receivers with a channel that may be withdrawn, by its context.
    linked: BTreeMap<u64, Arc<ChannelReceiver>>,
}

#[derive(Debug)]
struct Queues {
    by_key: BTreeMap<ChannelKey, ReceiverQueue>,
    /// Receivers initialized so far.
    receivers: u64,
}

static QUEUES: Mutex<Queues> = Mutex::new(Queues { by_key: BTreeMap::new(), receivers: 0 });

impl ChannelReceiver {
    /// A receiver of the next channel.
    pub fn new(state: &mut EngineState, key: ChannelKey) -> Result<Arc<ChannelReceiver>, Fault> {
        let queues = &mut *lock(&QUEUES);
        queues.receivers += 1;
        let number = queues.receivers;
        let receiver = Arc::new(ChannelReceiver { key, number, link: Mutex::default() });
        let queue = queues.by_key.entry(key).or_default();
        queue.requests += 1;
        queue.waiting.insert(number, Arc::clone(&receiver));
        let listening = queue.advance(state, &key);
        if let Err(fault) = listening {
            queue.remove(&receiver);
            queue.requests -= 1;
            return Err(fault);
        }
        Ok(receiver)
    }

    /// The request was started: from now on its channel stays, once it has one.
    pub fn start(&self) {
        lock(&self.link).started = true;
    }

    /// The channel, if there is one. It can change until a message has come through it.
    pub fn channel(&self, state: &mut EngineState) -> Result<Option<ChannelAnnouncement>, Fault> {
        if let Some(queue) = lock(&QUEUES).by_key.get_mut(&self.key) {
            queue.advance(state, &self.key)?;
        }
        Ok(lock(&self.link).channel.map(|(_, announcement)| announcement))
    }

    /// The request was freed.
    pub fn free(&self, state: &mut EngineState) -> Result<(), Fault> {
        let queues = &mut *lock(&QUEUES);
        let Some(queue) = queues.by_key.get_mut(&self.key) else {
            return Ok(());
        };
        let advanced = queue.advance(state, &self.key);
        queue.requests -= 1;
        queue.remove(self);
        if queue.is_unused() {
            queue.stop_listening(state);
            if queue.open.is_empty() {
                queues.by_key.remove(&self.key);
            }
        }
        advanced
    }
}

impl ReceiverQueue {
    /// Takes in what has come, and matches.
    fn advance(&mut self, state: &mut EngineState, key: &ChannelKey) -> Result<(), Fault> {
        loop {
            let Some((id, region)) = &self.listener else {
                if self.is_unused() {
                    break;
                }
                let region = message_region()?;
                let source = Some(key.peer);
                let tag = Some(key.message_tag());
                let pattern = MatchPattern { context: key.context, source, tag };
                let id = state.receive(pattern, &region.clone().view(MESSAGE))?;
                self.listener = Some((id, region));
                continue;
            };
            if state.take_received(*id).is_none() {
                break;
            }
            let region = region.clone();
            self.listener = None;
            self.take_in(&region);
        }
        self.link();
        Ok(())
    }

    /// Whether no request needs messages about channels.
    fn is_unused(&self) -> bool {
        self.requests == 0 && self.waiting.is_empty()
    }

    /// Takes in a message that has come.
    fn take_in(&mut self, region: &Region) {
        let mut bytes = [0; ChannelMessage::BYTES];
        region.read_bytes(&mut bytes);
        match ChannelMessage::from_bytes(&bytes) {
            ChannelMessage::Announced(announcement) => {
                self.open.insert(self.announced, announcement);
                self.announced += 1;
            }
            ChannelMessage::Withdrawn { context } => {
                self.open.retain(|_, announcement| announcement.context != context);
                if let Some(receiver) = self.linked.remove(&context) {
                    lock(&receiver.link).channel = None;
                    self.waiting.insert(receiver.number, receiver);
                }
            }
        }
    }

    /// Gives the channels that are open to the receivers that wait.
    fn link(&mut self) {
        while !self.open.is_empty()
            && let Some((_, receiver)) = self.waiting.pop_first()
            && let Some(channel) = self.open.pop_first()
        {
            lock(&receiver.link).channel = Some(channel);
            self.linked.insert(channel.1.context, receiver);
        }
    }

    /// Forgets a receiver. Its channel goes to the next one unless it was started.
    fn remove(&mut self, receiver: &ChannelReceiver) {
        let mut link = lock(&receiver.link);
        match (link.channel, link.started) {
            (Some((number, announcement)), started) => {
                self.linked.remove(&announcement.context);
                if !started {
                    link.channel = None;
                    self.open.insert(number, announcement);
                }
            }
            (None, false) => drop(self.waiting.remove(&receiver.number)),
            // Freed while it is active: it goes on.
            (None, true) => {}
        }
        drop(link);
        self.link();
    }

    fn stop_listening(&mut self, state: &mut EngineState) {
        let Some((id, region)) = self.listener.take() else {
            return;
        };
        state.cancel_receive(id);
        match state.take_received(id) {
            Some(done) if !done.cancelled => self.take_in(&region),
            Some(_) => {}
            None => state.abandon_receive(id),
        }
    }
}
