//! Messages that arrived before their receive.

use super::by_context::UnexpectedCounts;
use super::chains::{ChainLink, Chains, NIL};
use super::{CLASSES, Class, MatchEnvelope, MatchPattern, hash};
use slab::Slab;
use std::sync::Arc;

#[derive(Debug)]
struct UnexpectedNode<T> {
    envelope: MatchEnvelope,
    /// Order of arrival.
    order: u64,
    links: [ChainLink; CLASSES],
    /// Bytes that it is counted with.
    bytes: usize,
    value: T,
}

/// Number and bytes of the unexpected messages of one source.
#[derive(Debug, Clone, Copy, Default)]
struct SourceBytes {
    messages: u32,
    bytes: u64,
}

/// Maximum number of entries with which an empty list keeps its memory.
const SHORT: usize = 1024;

/// The unexpected messages, each with a `T`.
#[derive(Debug)]
pub struct UnexpectedQueue<T> {
    nodes: Slab<UnexpectedNode<T>>,
    chains: [Chains; CLASSES],
    /// Classes that a receive has asked for; the chains of the others are not maintained.
    has_chains: [bool; CLASSES],
    next_order: u64,
    /// By source; its length is the largest source so far, plus one.
    by_source: Vec<SourceBytes>,
    /// Bytes of all messages.
    bytes: u64,
    by_context: Arc<UnexpectedCounts>,
}

type LinkOf<T> = fn(&mut Slab<UnexpectedNode<T>>, u32) -> &mut ChainLink;

fn links<T>() -> [LinkOf<T>; CLASSES] {
    [
        |nodes, i| &mut nodes[i as usize].links[0],
        |nodes, i| &mut nodes[i as usize].links[1],
        |nodes, i| &mut nodes[i as usize].links[2],
        |nodes, i| &mut nodes[i as usize].links[3],
    ]
}

impl<T> Default for UnexpectedQueue<T> {
    fn default() -> UnexpectedQueue<T> {
        UnexpectedQueue {
            nodes: Slab::new(),
            chains: std::array::from_fn(|_| Chains::new()),
            has_chains: [true, false, false, false],
            next_order: 0,
            by_source: Vec::new(),
            bytes: 0,
            by_context: Arc::default(),
        }
    }
}

impl<T> UnexpectedQueue<T> {
    /// Number of messages.
    #[inline]
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Numbers of messages by context, which any thread may read.
    pub fn by_context(&self) -> Arc<UnexpectedCounts> {
        Arc::clone(&self.by_context)
    }

    /// True when there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Number of messages from `source`.
    #[inline]
    pub fn len_from(&self, source: u32) -> u32 {
        self.by_source.get(source as usize).map_or(0, |of_source| of_source.messages)
    }

    /// Bytes that the messages from `source` are counted with, and those of all messages.
    #[inline]
    pub fn bytes_from(&self, source: u32) -> (u64, u64) {
        let of_source = self.by_source.get(source as usize);
        (of_source.map_or(0, |of_source| of_source.bytes), self.bytes)
    }

    /// Bytes of a message's entry. A list that has grown to twice what it holds has not touched the
    /// second half.
    pub const ENTRY: usize = size_of::<(usize, UnexpectedNode<T>)>();

    /// Keeps a message that has just arrived, whose value has `heap` bytes of memory elsewhere; the
    /// ticket names it for [`UnexpectedQueue::get_mut`].
    pub fn insert(&mut self, envelope: MatchEnvelope, heap: usize, value: T) -> u32 {
        let bytes = Self::ENTRY + heap;
        let order = self.next_order;
        self.next_order += 1;
        let source = envelope.source as usize;
        if source >= self.by_source.len() {
            self.by_source.resize(source + 1, SourceBytes::default());
        }
        self.by_source[source].messages += 1;
        self.by_source[source].bytes += bytes as u64;
        self.bytes += bytes as u64;
        self.by_context.add(envelope.context);
        let links = std::array::from_fn(|class| ChainLink::new(hash(&envelope.pattern(class))));
        let index =
            self.nodes.insert(UnexpectedNode { envelope, order, links, bytes, value }) as u32;
        for class in 0..CLASSES {
            if self.has_chains[class] {
                self.chains[class].append(&mut self.nodes, index, self::links()[class]);
            }
        }
        index
    }

    /// The first message that matches `pattern`.
    pub fn find(&mut self, pattern: &MatchPattern) -> Option<u32> {
        if self.nodes.is_empty() {
            return None;
        }
        let class = pattern.class();
        if !self.has_chains[class] {
            self.build_chains(class);
        }
        let mut at = self.chains[class].head(hash(pattern));
        while at != NIL {
            let node = &self.nodes[at as usize];
            if pattern.matches(&node.envelope) {
                return Some(at);
            }
            at = node.links[class].next;
        }
        None
    }

    /// A message from `source` whose value is the one that is looked for: a walk over all.
    #[cold]
    pub fn find_from(&self, source: u32, is_it: impl Fn(&T) -> bool) -> Option<u32> {
        let is_meant =
            |node: &UnexpectedNode<T>| node.envelope.source == source && is_it(&node.value);
        let found = self.nodes.iter().find(|(_, node)| is_meant(node));
        found.map(|(ticket, _)| ticket as u32)
    }

    /// The first `count` messages in order of arrival, of one context or of all: a walk over all.
    #[cold]
    pub fn first(&self, context: Option<u64>, count: usize) -> Vec<(&MatchEnvelope, &T)> {
        let nodes = self.nodes.iter().map(|(_, node)| node);
        let is_meant = |node: &&UnexpectedNode<T>| {
            context.is_none_or(|context| node.envelope.context == context)
        };
        let mut all: Vec<&UnexpectedNode<T>> = nodes.filter(is_meant).collect();
        all.sort_unstable_by_key(|node| node.order);
        all.into_iter().take(count).map(|node| (&node.envelope, &node.value)).collect()
    }

    /// Builds the chains of a class when a receive of it is first posted.
    #[cold]
    fn build_chains(&mut self, class: Class) {
        self.has_chains[class] = true;
        let mut all: Vec<(u64, u32)> =
            self.nodes.iter().map(|(i, node)| (node.order, i as u32)).collect();
        all.sort_unstable();
        for (_, index) in all {
            self.chains[class].append(&mut self.nodes, index, links()[class]);
        }
    }

    /// The message with this ticket.
    pub fn get(&self, ticket: u32) -> (&MatchEnvelope, &T) {
        let node = &self.nodes[ticket as usize];
        (&node.envelope, &node.value)
    }

    /// The value of the message with this ticket.
    pub fn get_mut(&mut self, ticket: u32) -> &mut T {
        &mut self.nodes[ticket as usize].value
    }

    /// Removes and returns the message with this ticket.
    pub fn remove(&mut self, ticket: u32) -> (MatchEnvelope, T) {
        for class in 0..CLASSES {
            if self.has_chains[class] {
                self.chains[class].unlink(&mut self.nodes, ticket, links()[class]);
            }
        }
        let node = self.nodes.remove(ticket as usize);
        let of_source = &mut self.by_source[node.envelope.source as usize];
        of_source.messages -= 1;
        of_source.bytes -= node.bytes as u64;
        self.bytes -= node.bytes as u64;
        self.by_context.remove(node.envelope.context);
        if self.nodes.is_empty() && self.nodes.capacity() > SHORT {
            // Not before: the messages that are removed last have the last entries.
            self.nodes = Slab::new();
            self.chains = std::array::from_fn(|_| Chains::new());
        }
        (node.envelope, node.value)
    }
}
