//! What a rank waits for, as it stands in its control data, and the words for it.
//!
//! Written by the rank alone; launcher, `mica top` and other ranks read it without notice (relaxed:
//! they show it, and may see half of a change).

use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};

/// What a rank waits for. Written when a wait lasts
/// ([`RankBlock::set_waiting`](super::RankBlock::set_waiting)), and read by the launcher's hang
/// report and by `mica top`.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct WaitRecord {
    /// 0 when it does not wait, otherwise a [`WaitKind`].
    kind: AtomicU32,
    peer: AtomicI32,
    tag: AtomicI32,
    unexpected: AtomicU32,
    context: AtomicU64,
    since_ns: AtomicU64,
    /// The function that the program called.
    call: CallName,
}

/// A function's name in text, padded with zeros; all zeros as long as it is not known.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct CallName([AtomicU64; CALL_BYTES / 8]);

impl CallName {
    /// Removes the name. Relaxed, as all of the records: their readers only show them.
    pub fn clear(&self) {
        for word in &self.0 {
            word.store(0, Ordering::Relaxed);
        }
    }

    /// Sets the name.
    pub fn set(&self, call: &str) {
        let mut bytes = [0; CALL_BYTES];
        let length = call.len().min(CALL_BYTES);
        bytes[..length].copy_from_slice(&call.as_bytes()[..length]);
        let (words, _) = bytes.as_chunks::<8>();
        for (to, &word) in self.0.iter().zip(words) {
            to.store(u64::from_ne_bytes(word), Ordering::Relaxed);
        }
    }

    /// Whether there is a name.
    pub fn is_known(&self) -> bool {
        self.0[0].load(Ordering::Relaxed) != 0
    }

    /// The name.
    pub fn bytes(&self) -> [u8; CALL_BYTES] {
        let mut bytes = [0; CALL_BYTES];
        let (words, _) = bytes.as_chunks_mut::<8>();
        for (to, word) in words.iter_mut().zip(&self.0) {
            *to = word.load(Ordering::Relaxed).to_ne_bytes();
        }
        bytes
    }
}

/// Maximum bytes of a function's name in a wait record: `MPI_Intercomm_create_from_groups` has all
/// of them.
pub const CALL_BYTES: usize = 32;

/// The kinds of waiting that a hang report distinguishes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum WaitKind {
    /// A send that the receiver has not received.
    Send = 1,
    /// A receive without a message.
    Receive = 2,
    /// A probe without a message.
    Probe = 3,
    /// One of several requests.
    Requests = 4,
    /// Other ranks of a collective.
    Collective = 5,
    /// The lock, the post or the completion of a window's peer.
    Window = 6,
}

impl WaitKind {
    /// The kind with this number.
    pub(super) fn of(number: u32) -> Option<WaitKind> {
        use WaitKind::*;
        let kinds = [Send, Receive, Probe, Requests, Collective, Window];
        kinds.into_iter().find(|&kind| kind as u32 == number)
    }
}

/// What a rank waits for. Peers and tags are job-wide; negative ones are wildcards or unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waiting {
    /// Kind of operation.
    pub kind: WaitKind,
    /// The other rank, -1 for any.
    pub peer: i32,
    /// The tag, negative for any.
    pub tag: i32,
    /// Context of the communicator.
    pub context: u64,
    /// Messages that have arrived and match nothing so far.
    pub unexpected: u32,
}

impl WaitRecord {
    /// Records what the rank waits for, and since when; `None`: its wait is over.
    pub fn set(&self, waiting: Option<(&Waiting, u64)>) {
        let Some((w, since_ns)) = waiting else {
            self.kind.store(0, Ordering::Relaxed);
            self.call.clear();
            return;
        };
        self.peer.store(w.peer, Ordering::Relaxed);
        self.tag.store(w.tag, Ordering::Relaxed);
        self.context.store(w.context, Ordering::Relaxed);
        self.unexpected.store(w.unexpected, Ordering::Relaxed);
        self.since_ns.store(since_ns, Ordering::Relaxed);
        self.kind.store(w.kind as u32, Ordering::Relaxed);
    }

    /// The function that it waits in.
    pub fn call(&self) -> &CallName {
        &self.call
    }

    /// What it waits for, and since when.
    pub fn get(&self) -> Option<(Waiting, u64)> {
        let kind = WaitKind::of(self.kind.load(Ordering::Relaxed))?;
        let waiting = Waiting {
            kind,
            peer: self.peer.load(Ordering::Relaxed),
            tag: self.tag.load(Ordering::Relaxed),
            context: self.context.load(Ordering::Relaxed),
            unexpected: self.unexpected.load(Ordering::Relaxed),
        };
        Some((waiting, self.since_ns.load(Ordering::Relaxed)))
    }
}
