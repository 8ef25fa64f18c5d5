//! The adapter's matching against a naive queue.

use std::collections::BTreeMap;

use mica_node::adapter::OperationStatus;
use proptest::prelude::*;

use super::*;

/// What happens to the adapter of rank 0.
#[derive(Debug, Clone)]
enum Step {
    /// A message comes: source, context, tag, whether it is announced.
    Message(u32, u64, i32, bool),
    /// A receive, probe or extraction of what is wanted.
    Match(CommandKind, Wanted),
    /// The n-th operation before.
    Cancel(usize),
    ReceiveExtracted(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let source = prop::option::weighted(0.7, 1_u32..4);
    let tag = prop::option::weighted(0.7, 0_i32..3);
    let kind = prop_oneof![
        6 => Just(CommandKind::Receive),
        1 => Just(CommandKind::Probe),
        1 => Just(CommandKind::Extract),
    ];
    let step = prop_oneof![
        6 => (1_u32..4, 0_u64..2, 0_i32..3, any::<bool>())
            .prop_map(|(s, c, t, a)| Step::Message(s, c, t, a)),
        8 => (kind, (source, 0_u64..2, tag)).prop_map(|(kind, w)| Step::Match(kind, w)),
        1 => (0_usize..8).prop_map(Step::Cancel),
        1 => (0_usize..4).prop_map(Step::ReceiveExtracted),
    ];
    prop::collection::vec(step, 1..60)
}

/// Source, context and tag, each perhaps any.
type Wanted = (Option<u32>, u64, Option<i32>);

/// A message: source, context, tag, and its number, which is also its length.
type Sent = (u32, u64, i32, u64);

fn matches(wanted: &Wanted, message: &Sent) -> bool {
    wanted.1 == message.1
        && wanted.0.is_none_or(|source| source == message.0)
        && wanted.2.is_none_or(|tag| tag == message.2)
}

/// MPI's rules over two flat lists; what each token completes with.
#[derive(Default)]
struct Naive {
    posted: Vec<(u64, Wanted)>,
    unexpected: Vec<Sent>,
    extracted: BTreeMap<u64, Sent>,
    done: BTreeMap<u64, (OperationStatus, Option<Sent>)>,
}

impl Naive {
    fn message(&mut self, message: Sent) {
        match self.posted.iter().position(|(_, w)| matches(w, &message)) {
            Some(first) => {
                let (token, _) = self.posted.remove(first);
                self.done.insert(token, (OperationStatus::Done, Some(message)));
            }
            None => self.unexpected.push(message),
        }
    }

    fn find(&self, wanted: &Wanted) -> Option<usize> {
        self.unexpected.iter().position(|m| matches(wanted, m))
    }

    fn found(&mut self, token: u64, message: Option<Sent>) {
        let status = message.map_or(OperationStatus::NotFound, |_| OperationStatus::Done);
        self.done.insert(token, (status, message));
    }

    fn step(&mut self, step: &Step, number: u64) {
        match *step {
            Step::Message(source, context, tag, _) => {
                self.message((source, context, tag, number));
            }
            Step::Match(kind, wanted) => {
                let first = self.find(&wanted);
                match (kind, first) {
                    (CommandKind::Receive, None) => self.posted.push((number, wanted)),
                    (CommandKind::Probe, _) => {
                        self.found(number, first.map(|first| self.unexpected[first]));
                    }
                    _ => {
                        let message = first.map(|first| self.unexpected.remove(first));
                        if kind == CommandKind::Extract {
                            self.extracted.extend(message.map(|m| (number, m)));
                        }
                        self.found(number, message);
                    }
                }
            }
            Step::Cancel(back) => {
                let target = number.saturating_sub(back as u64);
                let status = match self.posted.iter().position(|(token, _)| *token == target) {
                    Some(first) => {
                        self.posted.remove(first);
                        self.done.insert(target, (OperationStatus::Cancelled, None));
                        OperationStatus::Done
                    }
                    None => OperationStatus::NotFound,
                };
                self.done.insert(number, (status, None));
            }
            Step::ReceiveExtracted(nth) => {
                let token = self.extracted.keys().nth(nth).copied();
                let message = token.and_then(|token| self.extracted.remove(&token));
                let status = message.map_or(OperationStatus::Invalid, |_| OperationStatus::Done);
                self.done.insert(number, (status, message));
            }
        }
    }
}

/// The command of a step.
fn command(step: &Step, number: u64, naive: &Naive) -> Option<AdapterRequest> {
    let pattern = |operation, (source, context, tag): Wanted| AdapterRequest {
        peer: source.unwrap_or(ANY_SOURCE),
        context,
        tag: tag.unwrap_or(0),
        flags: if tag.is_none() { ANY_TAG } else { 0 },
        address: BUFFERS + 64 * number,
        length: 64,
        ..request(operation, number)
    };
    match *step {
        Step::Message(..) => None,
        Step::Match(kind, wanted) => Some(pattern(kind, wanted)),
        Step::Cancel(back) => Some(AdapterRequest {
            target: number.saturating_sub(back as u64),
            ..request(CommandKind::Cancel, number)
        }),
        Step::ReceiveExtracted(nth) => Some(AdapterRequest {
            target: naive.extracted.keys().nth(nth).copied().unwrap_or(1 << 40),
            ..pattern(CommandKind::ReceiveExtracted, (None, 0, None))
        }),
    }
}

fn packet(step: &Step, number: u64) -> Option<(u32, AdapterPacket)> {
    let Step::Message(source, context, tag, is_announced) = *step else { return None };
    let length = number;
    let packet = match is_announced {
        true => AdapterPacket::bare(PacketHeader::Announce { context, tag, length, send: number }),
        false => AdapterPacket {
            header: PacketHeader::Eager { context, tag, acknowledge: None },
            payload: vec![number as u8; length as usize],
        },
    };
    Some((source, packet))
}

/// Answers the pulls of a node with the payload of the messages that they are for.
fn answer_pulls(node: &mut Node, at: SimTime) {
    for departure in std::mem::take(&mut node.out) {
        if let PacketHeader::Pull { send, length, receive } = departure.packet.header {
            node.arrive(at, departure.to, data(receive, vec![send as u8; length as usize]));
        }
    }
}

proptest! {
    #[test]
    fn adapter_matches_as_a_naive_queue(steps in steps(), pause in 1_u64..400_000) {
        let mut node = Node::new(0, 4, policy("base"));
        let mut naive = Naive::default();
        let mut events = Vec::new();
        let mut now = SimTime::default();
        for (number, step) in steps.iter().enumerate() {
            let number = number as u64;
            now += SimTime(pause);
            if let Some(command) = command(step, number, &naive) {
                node.command(now, &command);
            }
            if let Some((source, packet)) = packet(step, number) {
                node.arrive(now, source, packet);
            }
            naive.step(step, number);
            events.extend(node.events(now));
            answer_pulls(&mut node, now);
        }
        while node.adapter.next_due() < SimTime::NEVER {
            now = now.max(node.adapter.next_due());
            events.extend(node.events(now));
            answer_pulls(&mut node, now);
        }
        prop_assert_eq!(events.len(), naive.done.len());
        for event in events {
            let (status, message) = naive.done[&event.token];
            prop_assert_eq!(event.status, status, "{:?}", event);
            if let Some((source, _, tag, number)) = message {
                prop_assert_eq!((event.source, event.tag, event.length), (source, tag, number));
            }
            let step = &steps[event.token as usize];
            let moved =
                matches!(step, Step::Match(CommandKind::Receive, _) | Step::ReceiveExtracted(..));
            if let (true, Some((.., number))) = (moved, message) {
                let buffer = node.host.part(BUFFERS + 64 * event.token, 64);
                let (bytes, rest) = buffer.split_at(number as usize);
                prop_assert!(bytes.iter().all(|b| *b == number as u8));
                prop_assert!(rest.iter().all(|b| *b == 0));
            }
        }
        prop_assert_eq!(node.adapter.counts().strays, 0);
    }
}
