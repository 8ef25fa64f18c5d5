//! Parts of the job's file that a window of the past used and that stay mapped in this process for
//! the next one: to map a part, to touch its first page and to return both costs ten times what a
//! small window costs otherwise.
//!
//! Only parts that the library alone uses are kept (a window's control, tables): what a program
//! does to the mapping of its own window's memory is its business, and must not meet the next
//! window. They are small and few: at most [`MOST`] × [`largest_kept`] bytes of memory, and twice
//! as many mappings. A part of this process's own zone is zero and stays taken there; when there
//! are [enough](MOST_ALIKE) of its length, as after a thousand windows, it is returned. One of a
//! peer's zone names the same bytes of the file whatever the peer makes of them. When there are
//! too many, the oldest goes.

use std::collections::VecDeque;

use crate::page::page_size;

/// Number of parts kept, of the own zone and of peers' zones: some windows are made and freed in
/// turn, and each has one or two.
const MOST: usize = 12;

/// Number of parts of one length kept, of the own zone.
const MOST_ALIKE: usize = 4;

/// Bytes of the largest part that is kept.
pub(crate) fn largest_kept() -> usize {
    (32 << 10_usize).max(page_size())
}

/// A part that no window uses, and its mapping.
#[derive(Debug)]
pub(crate) struct KeptPart<M> {
    /// The rank in whose zone it lies.
    pub owner: u32,
    /// Where it lies there.
    pub offset: u64,
    pub bytes: usize,
    pub mapped: M,
}

/// See the module; the part that was kept last comes last.
#[derive(Debug)]
pub(crate) struct KeptParts<M> {
    own: VecDeque<KeptPart<M>>,
    of_peers: VecDeque<KeptPart<M>>,
}

impl<M> Default for KeptParts<M> {
    fn default() -> KeptParts<M> {
        KeptParts { own: VecDeque::new(), of_peers: VecDeque::new() }
    }
}

impl<M> KeptParts<M> {
    /// A part of `bytes` bytes of the zone of this process's rank `me`.
    pub fn take_own(&mut self, me: u32, bytes: usize) -> Option<KeptPart<M>> {
        let last = self.own.iter().rposition(|kept| (kept.owner, kept.bytes) == (me, bytes))?;
        self.own.remove(last)
    }

    /// The `bytes` bytes at `offset` of the zone of `owner`, a peer.
    pub fn take_of_peer(&mut self, owner: u32, offset: u64, bytes: usize) -> Option<KeptPart<M>> {
        let wanted = (owner, offset, bytes);
        let fits = |kept: &KeptPart<M>| (kept.owner, kept.offset, kept.bytes) == wanted;
        let last = self.of_peers.iter().rposition(fits)?;
        self.of_peers.remove(last)
    }

    /// Whether to keep another part of `bytes` bytes of the own zone.
    pub fn wants(&self, bytes: usize) -> bool {
        self.own.iter().filter(|kept| kept.bytes == bytes).count() < MOST_ALIKE
    }

    /// Keeps a part of the own zone that is zero. Returns the one that was kept for the longest
    /// time, if they are too many.
    #[must_use]
    pub fn keep_own(&mut self, part: KeptPart<M>) -> Option<KeptPart<M>> {
        keep(&mut self.own, part)
    }

    /// As [`keep_own`](Self::keep_own), of a part of a peer's zone.
    #[must_use]
    pub fn keep_of_peer(&mut self, part: KeptPart<M>) -> Option<KeptPart<M>> {
        keep(&mut self.of_peers, part)
    }
}

fn keep<M>(parts: &mut VecDeque<KeptPart<M>>, part: KeptPart<M>) -> Option<KeptPart<M>> {
    parts.push_back(part);
    if parts.len() > MOST { parts.pop_front() } else { None }
}
