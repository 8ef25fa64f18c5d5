//! Hash chains: doubly linked lists in order of insertion, one per bucket, over nodes that the
//! caller stores.

/// No node.
pub const NIL: u32 = u32::MAX;

/// A node's place in its chain.
#[derive(Debug, Clone, Copy)]
pub struct ChainLink {
    pub prev: u32,
    pub next: u32,
    pub hash: u64,
}

impl ChainLink {
    pub fn new(hash: u64) -> ChainLink {
        ChainLink { prev: NIL, next: NIL, hash }
    }
}

/// Heads and tails of the chains.
#[derive(Debug)]
pub struct Chains {
    ends: Vec<(u32, u32)>,
    len: usize,
}

impl Chains {
    pub fn new() -> Chains {
        Chains { ends: vec![(NIL, NIL); 64], len: 0 }
    }

    #[inline]
    fn bucket(&self, hash: u64) -> usize {
        hash as usize & (self.ends.len() - 1)
    }

    /// First node of the chain that keys with `hash` are in.
    #[inline]
    pub fn head(&self, hash: u64) -> u32 {
        self.ends[self.bucket(hash)].0
    }

    /// Appends node `index`. `link` gives the link of any node.
    #[inline]
    pub fn append<N>(
        &mut self,
        nodes: &mut N,
        index: u32,
        link: fn(&mut N, u32) -> &mut ChainLink,
    ) {
        if self.len >= self.ends.len() {
            self.grow(nodes, link);
        }
        self.len += 1;
        self.link_last(nodes, index, link);
    }

    #[inline]
    fn link_last<N>(&mut self, nodes: &mut N, index: u32, link: fn(&mut N, u32) -> &mut ChainLink) {
        let bucket = self.bucket(link(nodes, index).hash);
        let (_, tail) = self.ends[bucket];
        *link(nodes, index) = ChainLink { prev: tail, next: NIL, ..*link(nodes, index) };
        if tail == NIL {
            self.ends[bucket].0 = index;
        } else {
            link(nodes, tail).next = index;
        }
        self.ends[bucket].1 = index;
    }

    /// Removes node `index`.
    #[inline]
    pub fn unlink<N>(
        &mut self,
        nodes: &mut N,
        index: u32,
        link: fn(&mut N, u32) -> &mut ChainLink,
    ) {
        let ChainLink { prev, next, hash } = *link(nodes, index);
        let bucket = self.bucket(hash);
        if prev == NIL {
            self.ends[bucket].0 = next;
        } else {
            link(nodes, prev).next = next;
        }
        if next == NIL {
            self.ends[bucket].1 = prev;
        } else {
            link(nodes, next).prev = prev;
        }
        self.len -= 1;
    }

    /// Doubles the number of buckets. Nodes of one key stay in order, since they leave one chain in
    /// order and enter one chain.
    #[cold]
    fn grow<N>(&mut self, nodes: &mut N, link: fn(&mut N, u32) -> &mut ChainLink) {
        let old = std::mem::take(&mut self.ends);
        self.ends = vec![(NIL, NIL); old.len() * 2];
        for (head, _) in old {
            let mut at = head;
            while at != NIL {
                let next = link(nodes, at).next;
                self.link_last(nodes, at, link);
                at = next;
            }
        }
    }
}
