//! What a rank sends to a peer so that the peer can reach one of the rank's buffers.

use std::sync::Arc;

use super::SkipReason;

/// A mechanism by which a peer's memory is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Backend {
    /// The kernel copies: `process_vm_readv` and `process_vm_writev`, by address.
    Cma,
    /// The buffer's pages lie in the job segment's file; the peer maps that file.
    Mapped,
    /// The kernel module XPMEM maps the pages of one process in another.
    Xpmem,
}

impl Backend {
    /// Name, as in `MICA_DIRECT`.
    pub fn name(self) -> &'static str {
        match self {
            Backend::Cma => "cma",
            Backend::Mapped => "mapped",
            Backend::Xpmem => "xpmem",
        }
    }
}

/// Where a contiguous buffer lies, for a peer: two words of a control message.
///
/// It is valid until the [`Exposed`] that it came from is dropped, and only for the length that it
/// was made for.
///
/// | word | bits | content |
/// |---|---|---|
/// | 0 | 0-1 | back end: 1 CMA, 2 mapped, 3 XPMEM |
/// | 0 | 2-17 | head: bytes at the buffer's start that no window reaches |
/// | 0 | 18-33 | tail: bytes at the buffer's end that no window reaches |
/// | 0 | 34-63 | mapped: slot of the owner's file space |
/// | 1 | | mapped: offset in the slot of the first byte after the head; else the buffer's address |
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exposure {
    pub(super) backend: Backend,
    pub(super) head: u16,
    pub(super) tail: u16,
    pub(super) slot: u32,
    pub(super) place: u64,
    /// By address: the pages may be migrated meanwhile, so a peer announces what it stores
    /// ([`MigrationGate`](mica_node::migration_gate)). Exposures of messages do not say so.
    pub(super) may_move: bool,
}

impl Exposure {
    /// A whole buffer, by its address.
    pub(super) fn by_address(backend: Backend, address: usize) -> Exposure {
        Exposure { backend, head: 0, tail: 0, slot: 0, place: address as u64, may_move: false }
    }

    /// A whole buffer, by its address, whose pages may be migrated meanwhile.
    pub(super) fn in_place(address: usize) -> Exposure {
        Exposure { may_move: true, ..Exposure::by_address(Backend::Cma, address) }
    }

    /// The words that carry the exposure.
    pub fn to_words(&self) -> [u64; 2] {
        debug_assert!(!self.may_move, "no word says so");
        let tag = match self.backend {
            Backend::Cma => 1,
            Backend::Mapped => 2,
            Backend::Xpmem => 3,
        };
        let first = tag
            | u64::from(self.head) << 2
            | u64::from(self.tail) << 18
            | u64::from(self.slot) << 34;
        [first, self.place]
    }

    /// The exposure that `words` carry; `None` if they carry none (two zero words never do).
    pub fn from_words(words: [u64; 2]) -> Option<Exposure> {
        let backend = match words[0] & 3 {
            1 => Backend::Cma,
            2 => Backend::Mapped,
            3 => Backend::Xpmem,
            _ => return None,
        };
        Some(Exposure {
            backend,
            head: (words[0] >> 2) as u16,
            tail: (words[0] >> 18) as u16,
            slot: (words[0] >> 34) as u32,
            place: words[1],
            may_move: false,
        })
    }

    /// How a peer reaches the buffer. For [`Backend::Cma`] there is no window: the peer pulls and
    /// pushes by address.
    pub fn backend(&self) -> Backend {
        self.backend
    }

    /// The bytes that a window reaches, of a buffer of `len` bytes: all but less than a page at
    /// each end, where the buffer shares a page with other memory. Empty for [`Backend::Cma`].
    pub fn reachable(&self, len: usize) -> std::ops::Range<usize> {
        if self.backend == Backend::Cma {
            return 0..0;
        }
        let start = usize::from(self.head).min(len);
        start..len.saturating_sub(usize::from(self.tail)).max(start)
    }
}

/// How often peers will reach a buffer that is exposed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExpectedUse {
    /// In one operation; it may or may not be exposed again.
    Once,
    /// In many operations: moving its pages pays.
    Often,
    /// In operations to come, which may be many or few. Its pages stay where they are until peers
    /// have used it so often that moving them pays, and may be moved while it is exposed.
    Later,
    /// In one operation, after which the memory is freed: its pages are not moved.
    Never,
}

/// A buffer of this rank that peers may reach. As long as it lives, a transfer counts as in
/// progress, and the buffer's pages stay where they are: keep it until the peer has announced that
/// it is done, then drop it.
#[derive(Debug)]
#[must_use = "peers may reach the buffer only as long as this lives"]
pub struct Exposed {
    pub(super) exposure: Exposure,
    /// While these live, the pages are not migrated: the pin of the slot, and the pin of pages that
    /// are reached by address.
    pub(super) _pins: [Option<Arc<()>>; 2],
    /// Why the attempt to migrate the buffer for this exposure failed, if there was one.
    pub(super) skipped: Option<SkipReason>,
}

impl Exposed {
    /// What to send to the peer.
    pub fn exposure(&self) -> Exposure {
        self.exposure
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_carry_an_exposure() {
        for (backend, head, tail, slot) in [
            (Backend::Mapped, 65_535, 1, 255),
            (Backend::Mapped, 0, 65_535, (1 << 30) - 1),
            (Backend::Xpmem, 0, 0, 0),
            (Backend::Cma, 0, 0, 0),
        ] {
            let place = u64::MAX - 7;
            let exposure = Exposure { backend, head, tail, slot, place, may_move: false };
            assert_eq!(Exposure::from_words(exposure.to_words()), Some(exposure));
        }
        assert_eq!(Exposure::from_words([0, 0]), None);
    }

    #[test]
    fn the_ends_may_be_out_of_reach() {
        let mut exposure = Exposure::by_address(Backend::Mapped, 4096);
        (exposure.head, exposure.tail) = (96, 4);
        assert_eq!(exposure.reachable(10_000), 96..9_996);
        assert!(exposure.reachable(50).is_empty());
        assert!(Exposure::by_address(Backend::Cma, 1).reachable(100).is_empty());
    }
}
