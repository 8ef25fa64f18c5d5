//! Programs of several ranks, run by their engines in an order that a seed determines, and compared
//! with the model at each step.
//!
//! Checked for each probe: that it finds what the model finds. For each receive: that it completes
//! with the message that the model gives it, whole or truncated to its buffer, and with nothing
//! else in the buffer. For each send: that it does not complete before it is matched, if it is
//! synchronous; its buffer is overwritten as soon as it has completed. For all: that everything
//! completes, within a number of steps, and that the engines keep nothing.

use fastrand::Rng;
use mica_memory::Region;
use proptest::prelude::*;

use super::buffers::Buffer;
use super::model::{Message, Model, Receive};
use super::rig::assert_idle;
use super::scripted::Head;
use crate::engine::Engine;
use crate::matching::{MatchEnvelope, MatchPattern};
use crate::pt2pt::{MessageId, ReceiveCompletion, RecvId, SendCompletion, SendId};

/// One call of a rank's program.
#[derive(Debug, Clone)]
pub enum Call {
    Send {
        to: u32,
        context: u64,
        tag: i32,
        len: usize,
        sync: bool,
        scattered: bool,
    },
    Receive {
        pattern: MatchPattern,
        capacity: usize,
        scattered: bool,
    },
    Probe(MatchPattern),
    /// Takes a message, if there is one, and starts its receive some calls later.
    MatchedProbe(MatchPattern),
    /// Cancels one of the receives in progress, by index modulo their number.
    Cancel(usize),
}

/// Calls of programs on `ranks` ranks, whose messages have these lengths.
pub fn call(ranks: u32, lengths: &'static [usize]) -> impl Strategy<Value = (u32, Call)> {
    let rank = 0..ranks;
    let pattern = || {
        let source = prop::option::weighted(0.7, 0..ranks);
        let tag = prop::option::weighted(0.7, 0i32..3);
        (0u64..2, source, tag).prop_map(|(context, source, tag)| MatchPattern {
            context: context * 2,
            source,
            tag,
        })
    };
    let length = || prop::sample::select(lengths);
    let scattered = || prop::bool::weighted(0.2);
    let send = (0..ranks, 0u64..2, 0i32..3, length(), prop::bool::weighted(0.2), scattered());
    let send = send.prop_map(|(to, context, tag, len, sync, scattered)| Call::Send {
        to,
        context: context * 2,
        tag,
        len,
        sync,
        scattered,
    });
    let receive = (pattern(), length(), scattered())
        .prop_map(|(pattern, capacity, scattered)| Call::Receive { pattern, capacity, scattered });
    let call = prop_oneof![
        10 => send,
        9 => receive,
        2 => pattern().prop_map(Call::Probe),
        2 => pattern().prop_map(Call::MatchedProbe),
        1 => (0usize..8).prop_map(Call::Cancel),
    ];
    (rank, call)
}

/// The operations that a rank has in progress.
#[derive(Debug, Default)]
struct UnderWay {
    sends: Vec<(Message, SendId, bool, Buffer)>,
    receives: Vec<(Receive, RecvId, Buffer)>,
    probed: Vec<(Message, MessageId)>,
}

/// Number of steps after which a program that has issued all its calls counts as hanging.
const STEPS_MAX: usize = 100_000;

/// A network that reports what arrives, in order.
pub trait ObservedNetwork {
    /// Brings some of what is on the way to `rank`, if polls do not.
    fn bring(&self, _rank: u32, _random: &mut Rng) {}
    /// `rank` may send from this memory.
    fn add_buffer(&self, _rank: u32, _region: Region, _bytes: usize) {}
    /// A send of `rank` from this address has completed.
    fn remove_buffer(&self, _rank: u32, _address: usize) {}
    /// The messages that have arrived since the last call, in order.
    fn take_heads(&self) -> Vec<Head>;
    /// Panics if anything is left.
    fn assert_empty(&self);
}

pub struct Run<'a> {
    engines: &'a [Engine],
    fabric: Option<&'a dyn ObservedNetwork>,
    pub model: Model,
    random: Rng,
    active: Vec<UnderWay>,
    receives: usize,
}

impl<'a> Run<'a> {
    pub fn new(
        engines: &'a [Engine],
        fabric: Option<&'a dyn ObservedNetwork>,
        seed: u64,
    ) -> Run<'a> {
        Run {
            engines,
            fabric,
            model: Model::new(engines.len()),
            random: Rng::with_seed(seed),
            active: engines.iter().map(|_| UnderWay::default()).collect(),
            receives: 0,
        }
    }

    /// Runs all calls, each rank's in order, then receives what has not been received, and checks
    /// everything.
    pub fn run(&mut self, calls: &[(u32, Call)]) {
        let mut waiting: Vec<Vec<&Call>> = vec![Vec::new(); self.engines.len()];
        for (rank, call) in calls.iter().rev() {
            waiting[*rank as usize].push(call);
        }
        while waiting.iter().any(|calls| !calls.is_empty()) {
            let rank = self.random.usize(..self.engines.len()) as u32;
            match self.random.usize(..3) {
                0 => self.progress(rank),
                _ => {
                    if let Some(call) = waiting[rank as usize].pop() {
                        self.call(rank, call);
                    }
                }
            }
        }
        self.settle();
    }

    /// Receives everything that was sent, cancels the rest, and waits until all has completed.
    fn settle(&mut self) {
        for step in 0.. {
            assert!(step < STEPS_MAX, "hangs with {:#?}", self.active);
            let rank = self.random.usize(..self.engines.len()) as u32;
            self.progress(rank);
            if self.random.usize(..4) == 0 {
                self.receive_leftovers(rank);
            }
            if self.model.is_over() && self.random.usize(..20) == 0 && self.try_finish() {
                break;
            }
        }
        for engine in self.engines {
            assert_idle(engine);
        }
        if let Some(fabric) = self.fabric {
            fabric.assert_empty();
        }
    }

    fn receive_leftovers(&mut self, rank: u32) {
        if let Some((message, id)) = self.active[rank as usize].probed.pop() {
            self.receive_probed(rank, message, id);
        }
        if let Some(&message) = self.model.unexpected(rank).first() {
            let sent = self.model.messages[message];
            let pattern = MatchPattern {
                context: sent.envelope.context,
                source: Some(sent.envelope.source),
                tag: None,
            };
            self.receive(rank, pattern, sent.len, false);
        }
    }

    /// Cancels all receives that will never be matched. True when nothing is in progress any more.
    fn try_finish(&mut self) -> bool {
        for rank in 0..self.engines.len() as u32 {
            while self.cancel(rank, |model, receive| !model.matched.contains_key(&receive)) {}
        }
        let is_idle =
            |u: &UnderWay| u.sends.is_empty() && u.receives.is_empty() && u.probed.is_empty();
        self.active.iter().all(is_idle)
            && self.engines.iter().all(|e| e.enter(|state| state.is_flushed() && !state.has_work()))
    }

    fn call(&mut self, rank: u32, call: &Call) {
        match *call {
            Call::Send { to, .. } if to as usize >= self.engines.len() => {}
            Call::Send { to, context, tag, len, sync, scattered } => {
                let envelope = MatchEnvelope { context, source: rank, tag };
                self.send(envelope, to, len, sync, scattered);
            }
            Call::Receive { pattern, capacity, scattered } => {
                self.receive(rank, pattern, capacity, scattered)
            }
            Call::Probe(pattern) => {
                let found = self.enter(rank, |state| state.probe(&pattern));
                let expected = self.model.probe(rank, &pattern);
                self.assert_found(expected, found.map(|a| (a.envelope, a.bytes)));
            }
            Call::MatchedProbe(pattern) => {
                if self.random.usize(..2) == 0
                    && let Some((message, id)) = self.active[rank as usize].probed.pop()
                {
                    self.receive_probed(rank, message, id);
                }
                let found = self.enter(rank, |state| state.probe_matched(&pattern));
                let expected = self.model.take(rank, &pattern);
                self.assert_found(expected, found.map(|(_, a)| (a.envelope, a.bytes)));
                if let (Some(message), Some((id, _))) = (expected, found) {
                    self.active[rank as usize].probed.push((message, id));
                }
            }
            Call::Cancel(which) => {
                let receives = &self.active[rank as usize].receives;
                if let Some(&(receive, ..)) = receives.get(which % receives.len().max(1)) {
                    self.cancel(rank, |_, r| r == receive);
                }
            }
        }
    }

    fn enter<R>(&self, rank: u32, f: impl FnOnce(&mut crate::EngineState) -> R) -> R {
        self.engines[rank as usize].enter(f)
    }

    fn assert_found(&self, expected: Option<Message>, found: Option<(MatchEnvelope, usize)>) {
        let expected =
            expected.map(|m| (self.model.messages[m].envelope, self.model.messages[m].len));
        assert_eq!(found, expected, "a probe");
    }

    fn send(&mut self, envelope: MatchEnvelope, to: u32, len: usize, sync: bool, scattered: bool) {
        let (id, rank) = (self.model.messages.len(), envelope.source);
        let buffer = Buffer::of_message(id, len, scattered);
        if let Some(fabric) = self.fabric {
            let (region, bytes) = buffer.memory();
            fabric.add_buffer(rank, region, bytes);
        }
        let MatchEnvelope { context, tag, .. } = envelope;
        let sent = self.enter(rank, |state| {
            let completion = match sync {
                true => SendCompletion::Matched,
                false => SendCompletion::Local,
            };
            state.send(to, context, tag, &buffer.view, completion)
        });
        self.model.send(to, envelope, buffer.view.len());
        if self.fabric.is_none() && to != rank {
            // Arrivals are not reported here; if all receives name their source, the time of
            // arrival does not matter.
            self.model.arrive(&Head { receiver: to, envelope, len: buffer.view.len() });
        }
        match sent.expect("memory") {
            None => self.end_send(rank, id, sync, &buffer),
            Some(send) => self.active[rank as usize].sends.push((id, send, sync, buffer)),
        }
    }

    fn end_send(&self, rank: u32, message: Message, sync: bool, buffer: &Buffer) {
        assert!(!sync || self.model.is_taken[message], "message {message} is not matched");
        if let Some(fabric) = self.fabric {
            fabric.remove_buffer(rank, buffer.address());
        }
        buffer.reuse();
    }

    fn receive(&mut self, rank: u32, pattern: MatchPattern, capacity: usize, scattered: bool) {
        let buffer = Buffer::new(capacity, scattered);
        let id = self.enter(rank, |state| state.receive(pattern, &buffer.view));
        let receive = self.receives;
        self.receives += 1;
        self.model.receive(rank, receive, pattern);
        let id = id.expect("memory");
        self.active[rank as usize].receives.push((receive, id, buffer));
    }

    fn receive_probed(&mut self, rank: u32, message: Message, id: MessageId) {
        let buffer = Buffer::new(self.model.messages[message].len, false);
        let id = self.enter(rank, |state| state.receive_probed(id, &buffer.view));
        let receive = self.receives;
        self.receives += 1;
        self.model.matched.insert(receive, message);
        let id = id.expect("memory");
        self.active[rank as usize].receives.push((receive, id, buffer));
    }

    /// Cancels the first receive that `fits` selects. False if there is none.
    fn cancel(&mut self, rank: u32, fits: impl Fn(&Model, Receive) -> bool) -> bool {
        let receives = &mut self.active[rank as usize].receives;
        let Some(at) = receives.iter().position(|(r, ..)| fits(&self.model, *r)) else {
            return false;
        };
        let (receive, id, buffer) = receives.remove(at);
        let is_cancelled = self.model.cancel(rank, receive);
        let end = self.enter(rank, |state| {
            state.cancel_receive(id);
            state.received(id)
        });
        assert_eq!(end.is_some_and(|end| end.cancelled), is_cancelled, "receive {receive}");
        if is_cancelled {
            self.enter(rank, |state| state.take_received(id));
            buffer.assert_holds(0, 0);
        } else {
            self.active[rank as usize].receives.push((receive, id, buffer));
        }
        is_cancelled
    }

    fn progress(&mut self, rank: u32) {
        if let Some(fabric) = self.fabric {
            fabric.bring(rank, &mut self.random);
        }
        self.enter(rank, |state| state.progress()).expect("no fault");
        if let Some(fabric) = self.fabric {
            for head in fabric.take_heads() {
                self.model.arrive(&head);
            }
        }
        self.harvest(rank);
    }

    /// Handles what has completed.
    fn harvest(&mut self, rank: u32) {
        let mut at = 0;
        while let Some((message, id, sync, _)) = self.active[rank as usize].sends.get(at) {
            let (message, id, sync) = (*message, *id, *sync);
            if self.enter(rank, |state| state.take_send(id).is_some()) {
                let (.., buffer) = self.active[rank as usize].sends.swap_remove(at);
                self.end_send(rank, message, sync, &buffer);
            } else {
                at += 1;
            }
        }
        at = 0;
        while let Some(&(receive, id, _)) = self.active[rank as usize].receives.get(at) {
            match self.enter(rank, |state| state.take_received(id)) {
                None => at += 1,
                Some(end) => {
                    let (.., buffer) = self.active[rank as usize].receives.swap_remove(at);
                    self.assert_received(receive, &end, &buffer);
                }
            }
        }
    }

    fn assert_received(&self, receive: Receive, end: &ReceiveCompletion, buffer: &Buffer) {
        let message = self.model.matched.get(&receive);
        let &message =
            message.unwrap_or_else(|| panic!("receive {receive} has no message: {end:?}"));
        let sent = self.model.messages[message];
        let expected = ReceiveCompletion {
            envelope: sent.envelope,
            sent: sent.len,
            capacity: buffer.view.len(),
            cancelled: false,
        };
        assert_eq!(*end, expected, "receive {receive} of message {message}");
        buffer.assert_holds(message, sent.len);
    }
}
