//! Copies between a buffer of this rank and one of a peer on the same node, by one side or by both
//! (docs/design/house.md, section 4).
//!
//! Both sides of a message that has a [`CooperativeCopy`] in the job segment take disjoint pieces
//! of it, the receiver from the front, the sender from the back. The copy is also where a side
//! answers whether a cached exposure of its buffer still shows that buffer.
//!
//! | state of a rank's copy | who moves it there |
//! |---|---|
//! | free | `give_back`, when the send or the window's request has ended that took it |
//! | taken, reset | the rank, before the packet that names it (`RTS`, `TARGET_COPY`) leaves |
//! | divided | both, by one compare-and-swap for each piece |
//! | answered | a side about its own buffer, once; or the other, that has waited too long: no |
//!
//! Orderings are those of `node::cooperative`: the packet that names a copy publishes its reset,
//! the packet that reports pieces publishes their bytes, an answer is a release store that
//! [`await_answer`] acquires.
//!
//! Cost: half of the bytes on each side, a cache line that moves for each piece of 16 to 256 KiB. A
//! side that does not come costs nothing; a side that was asked for an answer and has no core costs
//! at most [`ANSWER_TIME_NS`].
//!
//! Source: ours; the paths that it divides are those of chai-2009, chapters 4 and 6.

use mica_channel::ChannelError;
use mica_channel::direct::{Backend, CopyRefusal, Direct, Exposure, MappedWindow, PeerCopy};
use mica_memory::View;
use mica_node::cooperative::{CooperativeCopy, CopyEnd};
use mica_node::counters::TrafficClass;
use mica_node::segment::{JobSegment, SPLITS, SegmentRef};
use mica_node::ticks;
use std::ops::Range;
use std::sync::Arc;

/// The cooperative copies of this rank's messages, which packets name by index (`copy_index`).
#[derive(Debug)]
pub(crate) struct CooperativeCopies {
    segment: Arc<JobSegment>,
    me: u32,
    /// Those not in use; `None` until the first is requested.
    free: Option<Vec<u8>>,
}

impl CooperativeCopies {
    pub fn new(segment: &Arc<JobSegment>, me: u32) -> CooperativeCopies {
        CooperativeCopies { segment: Arc::clone(segment), me, free: None }
    }

    /// A cooperative copy of which nothing is taken; `None` when all are in use.
    pub fn take(&mut self) -> Result<Option<u8>, ChannelError> {
        if self.free.is_none() {
            let bytes = SPLITS * size_of::<CooperativeCopy>();
            self.segment.allocate(self.segment.splits_offset(self.me), bytes)?;
            self.free = Some((0..SPLITS as u8).collect());
        }
        let index = self.free.as_mut().and_then(Vec::pop);
        if let Some(index) = index {
            self.own(index).reset();
        }
        Ok(index)
    }

    pub fn give_back(&mut self, index: u8) {
        if let Some(free) = &mut self.free {
            free.push(index);
        }
    }

    /// The copy of this rank at `index`.
    pub fn own(&self, index: u8) -> SegmentRef<CooperativeCopy> {
        self.of(self.me, index)
    }

    pub fn of(&self, rank: u32, index: u8) -> SegmentRef<CooperativeCopy> {
        self.segment.project(|segment| &segment.splits(rank)[usize::from(index)])
    }
}

/// A contiguous buffer of a peer that this rank copies from or to: through a window if there is
/// one, the rest through the kernel.
pub(crate) struct PeerRange {
    pub peer: u32,
    address: u64,
    pub window: Option<MappedWindow>,
    /// Where the peer answers whether the window shows its buffer. What is copied before the answer
    /// is valid only if the answer is yes.
    pub answer: Option<SegmentRef<CooperativeCopy>>,
}

impl PeerRange {
    pub fn open(
        direct: &mut Direct,
        peer: u32,
        address: u64,
        exposure: Option<Exposure>,
        len: usize,
    ) -> PeerRange {
        let window = exposure
            .filter(|e| e.backend() != Backend::Cma)
            .and_then(|e| direct.window(peer, &e, len));
        PeerRange { peer, address, window, answer: None }
    }

    /// False if the window shows something other than the peer's buffer.
    pub fn is_confirmed(&self, peers_side: CopyEnd) -> bool {
        self.answer.as_ref().is_none_or(|copy| await_answer(copy, peers_side))
    }

    /// Whether all `len` bytes can be reached without the kernel.
    pub fn is_mapped(&self, len: usize) -> bool {
        self.window.as_ref().is_some_and(|w| w.reachable() == (0..len))
    }

    /// The traffic class of bytes that are copied here.
    pub fn traffic_class(&self) -> TrafficClass {
        if self.window.is_some() { TrafficClass::Mapped } else { TrafficClass::Direct }
    }

    /// Copies from the peer to `view`, or the other way: first what the window shows.
    pub fn copy(
        &self,
        direction: PeerCopy,
        direct: &mut Direct,
        view: &View,
        range: Range<usize>,
    ) -> Result<(), CopyRefusal> {
        let [mapped, before, behind] = MappedWindow::parts(self.window.as_ref(), &range);
        if let Some(window) = &self.window
            && !mapped.is_empty()
        {
            let (start, len) = (mapped.start, mapped.len());
            match direction {
                PeerCopy::Load => window.load(start, view, start, len),
                PeerCopy::Store => window.store(start, view, start, len),
            }
        }
        for rest in [before, behind] {
            if !rest.is_empty() {
                direct.copy_range(direction, self.peer, self.address, view, rest)?;
            }
        }
        Ok(())
    }
}

/// Polls for an answer before its side is assumed not to be running.
const ANSWER_POLLS: u32 = 2000;

/// How long to wait for an answer: several time slices, for ranks that share a core. A peer that is
/// stopped or gone is not detected here: the caller's wait parks, and reports it.
const ANSWER_TIME_NS: u64 = 20_000_000;

/// Waits for the answer of `side`, which needs only one system call. A side that does not answer in
/// time has answered no: the message then goes through cells.
pub(crate) fn await_answer(copy: &CooperativeCopy, side: CopyEnd) -> bool {
    for _ in 0..ANSWER_POLLS {
        if let Some(answer) = copy.confirmed(side) {
            return answer;
        }
        std::hint::spin_loop();
    }
    let began = ticks::now_ns();
    loop {
        std::thread::yield_now();
        match copy.confirmed(side) {
            Some(answer) => return answer,
            None if ticks::now_ns().saturating_sub(began) < ANSWER_TIME_NS => {}
            None => return copy.give_up(side),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As if the peer were stopped before it answers.
    #[test]
    fn missing_answer_counts_as_refusal() {
        let copy = CooperativeCopy::new();
        assert!(!await_answer(&copy, CopyEnd::Front));
        copy.confirm(CopyEnd::Front, true);
        assert!(!await_answer(&copy, CopyEnd::Front));
        copy.confirm(CopyEnd::Back, true);
        assert!(await_answer(&copy, CopyEnd::Back));
    }
}
