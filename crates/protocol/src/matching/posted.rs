//! Receives that wait for a message.

use super::chains::{ChainLink, Chains, NIL};
use super::{CLASSES, MatchEnvelope, MatchPattern, hash};
use slab::Slab;

#[derive(Debug)]
struct PostedNode<T> {
    pattern: MatchPattern,
    /// Order of posting.
    order: u64,
    link: ChainLink,
    value: T,
}

/// The posted receives, each with a `T`.
#[derive(Debug)]
pub struct PostedQueue<T> {
    nodes: Slab<PostedNode<T>>,
    chains: Chains,
    in_class: [usize; CLASSES],
    next_order: u64,
}

fn link<T>(nodes: &mut Slab<PostedNode<T>>, index: u32) -> &mut ChainLink {
    &mut nodes[index as usize].link
}

impl<T> Default for PostedQueue<T> {
    fn default() -> PostedQueue<T> {
        PostedQueue {
            nodes: Slab::new(),
            chains: Chains::new(),
            in_class: [0; CLASSES],
            next_order: 0,
        }
    }
}

impl<T> PostedQueue<T> {
    /// True when nothing is posted.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Posts a receive; the ticket names it for [`PostedQueue::remove`].
    pub fn post(&mut self, pattern: MatchPattern, value: T) -> u32 {
        let order = self.next_order;
        self.next_order += 1;
        let node = PostedNode { pattern, order, link: ChainLink::new(hash(&pattern)), value };
        let index = self.nodes.insert(node) as u32;
        self.chains.append(&mut self.nodes, index, link);
        self.in_class[pattern.class()] += 1;
        index
    }

    /// Removes and returns the receive that was posted first among those that `envelope` matches.
    #[inline]
    pub fn take(&mut self, envelope: &MatchEnvelope) -> Option<T> {
        if self.nodes.is_empty() {
            return None;
        }
        let mut best: Option<(u64, u32)> = None;
        for class in 0..CLASSES {
            if self.in_class[class] == 0 {
                continue;
            }
            let pattern = envelope.pattern(class);
            let mut at = self.chains.head(hash(&pattern));
            while at != NIL {
                let node = &self.nodes[at as usize];
                if node.pattern == pattern {
                    if best.is_none_or(|(order, _)| node.order < order) {
                        best = Some((node.order, at));
                    }
                    break;
                }
                at = node.link.next;
            }
        }
        best.map(|(_, index)| self.remove(index))
    }

    /// Removes the receive with this ticket.
    pub fn remove(&mut self, ticket: u32) -> T {
        self.chains.unlink(&mut self.nodes, ticket, link);
        let node = self.nodes.remove(ticket as usize);
        self.in_class[node.pattern.class()] -= 1;
        node.value
    }
}
