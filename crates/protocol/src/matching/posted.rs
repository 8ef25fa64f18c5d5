//! Receives that wait for a message.

use super::chains::{Chains, Link, NIL};
use super::{CLASSES, Envelope, Pattern, hash};
use slab::Slab;

#[derive(Debug)]
struct Node<T> {
    pattern: Pattern,
    /// Order of posting.
    order: u64,
    link: Link,
    value: T,
}

/// The posted receives, each with a `T`.
#[derive(Debug)]
pub struct Posted<T> {
    nodes: Slab<Node<T>>,
    chains: Chains,
    in_class: [usize; CLASSES],
    next_order: u64,
}

fn link<T>(nodes: &mut Slab<Node<T>>, index: u32) -> &mut Link {
    &mut nodes[index as usize].link
}

impl<T> Default for Posted<T> {
    fn default() -> Posted<T> {
        Posted {
            nodes: Slab::new(),
            chains: Chains::new(),
            in_class: [0; CLASSES],
            next_order: 0,
        }
    }
}

impl<T> Posted<T> {
    /// True when nothing is posted.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Posts a receive; the ticket names it for [`Posted::remove`].
    pub fn post(&mut self, pattern: Pattern, value: T) -> u32 {
        let order = self.next_order;
        self.next_order += 1;
        let node = Node {
            pattern,
            order,
            link: Link::new(hash(&pattern)),
            value,
        };
        let index = self.nodes.insert(node) as u32;
        self.chains.append(&mut self.nodes, index, link);
        self.in_class[pattern.class()] += 1;
        index
    }

    /// Takes the receive that was posted first among those that `envelope` fits.
    #[inline]
    pub fn take(&mut self, envelope: &Envelope) -> Option<T> {
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

    /// Takes the receive with this ticket back.
    pub fn remove(&mut self, ticket: u32) -> T {
        self.chains.unlink(&mut self.nodes, ticket, link);
        let node = self.nodes.remove(ticket as usize);
        self.in_class[node.pattern.class()] -= 1;
        node.value
    }
}
