//! Transfers of windows that both sides copy: the origin asks the target to copy as well,
//! and goes on
//! (docs/design/house.md, section 4, cooperative rendezvous; here for MPI 5.0, chapter 12).
//!
//! A put or get within a node needs no target: the origin copies. But a target that happens to wait
//! in MPI has a core that does nothing, and a cache of its own. So the origin of a long transfer
//! sends one packet (`TARGET_COPY`) and starts to copy from the front. The target takes pieces from
//! the back, in whatever call makes progress; if it does not come, the origin has copied all
//! itself, and nothing has waited. When the origin finds no piece left, it waits only for pieces
//! that the target has taken.
//!
//! | who | does |
//! |---|---|
//! | origin | exposes its buffer, sends `TARGET_COPY`, copies from the front |
//! | target | copies from the back, writes `finish` in the cooperative copy |
//!
//! The packet of a target that computes lies in its ring for long. So there is at most one for each
//! pair of ranks; its cooperative copy is used again only after the target has finished with it.
//! A target that comes too late finds nothing to take, and opens no buffer. An origin that has
//! asked without result asks more rarely.
//!
//! An origin that reaches the target's memory by address, and has done so often, asks for its
//! migration in the same way, by one packet (`MIGRATE`) that is not answered: the target announces
//! in shared memory where the memory lies then.
//!
//! Called by `mica_rma`, which knows what the bytes are and implements [`TargetCopier`].

use crate::channels::packet::{self, TargetCopyPacket, TargetCopyRequest};
use crate::engine::{Engine, EngineState, Fault};
use crate::rma::target_copies::TargetCopier;
use mica_channel::shm::Packet;
use mica_node::cooperative::{CooperativeCopy, CopyEnd};
use mica_node::counters::Counter;
use mica_node::segment::SegmentRef;
use std::ops::Range;
use std::sync::Arc;

/// Requests that targets have not looked at, at most: each keeps a cooperative copy, which
/// messages need as well.
const UNANSWERED_MAX: usize = 8;

/// Transfers without a request after one that the target has not copied, at most: a target that
/// sleeps is woken by each request, which costs a system call, a tenth of the shortest transfer.
const PAUSE_MAX: u32 = 7;

/// Polls for the target's end before the core is yielded to others: about as long as it takes to
/// copy a piece. Also the number of yields between two checks whether the target lives.
const SPIN_POLLS: u32 = 2000;

/// A transfer of this rank that its target was asked to copy as well: yields the pieces for this
/// rank to copy. All must be taken before it is [finished](Self::finish).
pub struct SharedTransfer<'a> {
    engine: &'a Engine,
    target: u32,
    divided: Range<usize>,
    copy: SegmentRef<CooperativeCopy>,
}

impl Iterator for SharedTransfer<'_> {
    type Item = Range<usize>;

    fn next(&mut self) -> Option<Range<usize>> {
        take(&self.copy, CopyEnd::Front, &self.divided)
    }
}

/// The next piece of the `divided` bytes from an end.
fn take(copy: &CooperativeCopy, end: CopyEnd, divided: &Range<usize>) -> Option<Range<usize>> {
    let piece = copy.take(end, divided.len())?;
    Some(divided.start + piece.start..divided.start + piece.end)
}

impl SharedTransfer<'_> {
    /// Waits until the target has copied what it has taken.
    /// Blocks as long as the target copies its last piece, and makes no progress: the caller may
    /// hold a lock that serving requests needs.
    ///
    /// # Errors
    /// When the target is lost.
    pub fn finish(self) -> Result<(), Fault> {
        let was_shared = self.copy.is_shared_with(CopyEnd::Back);
        if was_shared {
            self.await_target()?;
        }
        self.engine.enter(|state| {
            let asked = state.target_copies.targets.entry(self.target);
            asked.pause = match was_shared {
                true => 0,
                false => (2 * asked.pause + 1).min(PAUSE_MAX),
            };
            asked.pause_left = asked.pause;
            state.counters.add(Counter::WindowHelps, u64::from(was_shared));
            state.target_copies.free_answered(self.target, &mut state.rendezvous.cooperative);
        });
        Ok(())
    }

    fn await_target(&self) -> Result<(), Fault> {
        for poll in 0_u32.. {
            if self.copy.is_finished() {
                break;
            }
            if poll < SPIN_POLLS {
                std::hint::spin_loop();
                continue;
            }
            std::thread::yield_now();
            if self.engine.is_watchful() && poll.is_multiple_of(SPIN_POLLS) {
                let engine = self.engine;
                let target = self.target as i32;
                engine.enter(|state| state.check_alive(&engine.segment, target));
                engine.check_loss()?;
            }
        }
        Ok(())
    }
}

impl Engine {
    /// Lets `copier` copy for origins in this rank's part of the window of `context`.
    pub fn add_target_copier(&self, context: u64, copier: Arc<dyn TargetCopier>) {
        self.enter(|state| state.target_copies.copiers.insert(context, copier));
    }

    /// Ends [`add_target_copier`](Self::add_target_copier): requests that arrive later are not
    /// followed.
    pub fn remove_target_copier(&self, context: u64) {
        self.enter(|state| state.target_copies.copiers.remove(&context));
    }

    /// Whether to [ask](Self::request_target_copy) `target` to copy part of the next transfer: not
    /// if ranks share cores, or `target` has not looked at an earlier request, or was asked too
    /// often without result. Does not block.
    pub fn may_request_target_copy(&self, target: u32) -> bool {
        self.enter(|state| state.may_request_target_copy(target))
    }

    /// Asks `target` to [migrate](TargetCopier::migrate) its part of the window of `context`. It
    /// does so when it makes progress, or never. False if there is no room for the request. Does
    /// not block.
    ///
    /// # Errors
    /// When memory for the first packet to `target` cannot be allocated.
    pub fn request_migration(
        &self,
        target: u32,
        context: u64,
        address: u64,
    ) -> Result<bool, Fault> {
        self.enter(|state| {
            if state.sends.is_queued(target)
                || state.channels.is_remote(target)
                || !state.channels.has_room(target, 0)
            {
                return Ok(false);
            }
            Ok(state.channels.send(target, &packet::migrate(context, address), None)?)
        })
    }

    /// Asks `target` to copy as well in a transfer in its part of the window of `context`. `None`
    /// if there is no room for the request. Does not block.
    ///
    /// The buffer must stay exposed until the transfer is [finished](SharedTransfer::finish).
    ///
    /// # Errors
    /// When memory for the first packet to `target` cannot be allocated.
    pub fn request_target_copy(
        &self,
        target: u32,
        context: u64,
        request: TargetCopyRequest,
    ) -> Result<Option<SharedTransfer<'_>>, Fault> {
        let divided = request.divided.clone();
        let copy = self.enter(|state| state.request_target_copy(target, context, request))?;
        Ok(copy.map(|copy| SharedTransfer { engine: self, target, divided, copy }))
    }
}

impl EngineState {
    fn may_request_target_copy(&mut self, target: u32) -> bool {
        if !self.selection.may_cooperate() || self.channels.is_remote(target) {
            return false;
        }
        self.target_copies.free_answered(target, &mut self.rendezvous.cooperative);
        let asked = self.target_copies.targets.entry(target);
        if asked.pause_left > 0 {
            asked.pause_left -= 1;
            return false;
        }
        asked.unanswered.is_none() && self.target_copies.unanswered < UNANSWERED_MAX
    }

    fn request_target_copy(
        &mut self,
        target: u32,
        context: u64,
        request: TargetCopyRequest,
    ) -> Result<Option<SegmentRef<CooperativeCopy>>, Fault> {
        // Another thread may have asked in the meantime.
        let is_busy = self.target_copies.targets.entry(target).unanswered.is_some();
        if is_busy || self.sends.is_queued(target) || !self.channels.has_room(target, 0) {
            return Ok(None);
        }
        let Some(index) = self.rendezvous.cooperative.take()? else {
            return Ok(None);
        };
        let request = TargetCopyPacket { copy_index: index, request };
        let packet = packet::target_copy(context, &request);
        if !self.channels.send(target, &packet, None)? {
            self.rendezvous.cooperative.give_back(index);
            return Ok(None);
        }
        self.target_copies.targets.entry(target).unanswered = Some(index);
        self.target_copies.unanswered += 1;
        Ok(Some(self.rendezvous.cooperative.own(index)))
    }

    /// An origin asks to migrate this rank's part of a window.
    #[cold]
    pub(crate) fn on_migrate(&mut self, packet: &Packet) {
        if let Some(copier) = self.target_copies.copiers.get(&packet.context) {
            copier.migrate(packet::read_migrate(packet));
        }
    }

    /// An origin asks this rank to copy as well.
    #[cold]
    pub(crate) fn on_target_copy(&mut self, origin: u32, packet: &Packet) {
        let TargetCopyPacket { copy_index, request } = packet::read_target_copy(packet);
        let copy = self.rendezvous.cooperative.of(origin, copy_index);
        if let Some(copier) = self.target_copies.copiers.get(&packet.context)
            && copy.has_left(request.divided.len())
        {
            let mut pieces = std::iter::from_fn(|| take(&copy, CopyEnd::Back, &request.divided));
            copier.copy_pieces(origin, &request, &mut pieces);
        }
        copy.finish();
    }
}
