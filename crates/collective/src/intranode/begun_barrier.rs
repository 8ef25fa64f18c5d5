//! A blocking barrier on the [fast path](super::fast_path) for a caller that may poll, but not
//! block: where others come late, it is ended by another call.

use mica_policy::collective::Collective;

use super::fast_path::{count, open, wait_for_all};
use crate::intranode::protocol::fast_slot::FastSlot;
use crate::intranode::protocol::header::OperationHeader;
use crate::members::Members;
use mica_objects::error::Result;

/// How far a barrier is.
#[derive(Debug)]
pub enum BarrierProgress {
    /// All ranks have come.
    Ended,
    /// Others are to come, or one has called something else: [`BegunBarrier::end`] must follow.
    Begun(BegunBarrier),
}

/// A barrier that this rank has begun.
#[derive(Debug)]
#[must_use = "it blocks the communicator's other collectives until it is ended"]
pub struct BegunBarrier {
    number: u64,
    /// This rank's.
    header: OperationHeader,
}

/// Begins a barrier, and ends it if the others come within `polls` polls. `None` if nothing was
/// done: it must take the slow path, or wait for memory first.
#[inline(always)]
pub fn begin(members: &Members, polls: u32) -> Option<BarrierProgress> {
    let opened = open(members, |limits| limits.barrier)?;
    let slot = FastSlot::begin_if_free(opened.group(), Collective::Barrier.into(), 0)?;
    count(&opened, 0);
    slot.publish();
    let mut left = polls;
    while !slot.have_all_published() {
        let Some(fewer) = left.checked_sub(1) else {
            return Some(BarrierProgress::Begun(BegunBarrier::of(slot)));
        };
        left = fewer;
        std::hint::spin_loop();
    }
    if !slot.accept_alike() {
        return Some(BarrierProgress::Begun(BegunBarrier::of(slot)));
    }
    slot.finish(0);
    Some(BarrierProgress::Ended)
}

impl BegunBarrier {
    fn of(slot: FastSlot<'_>) -> BegunBarrier {
        BegunBarrier { number: slot.number(), header: slot.header() }
    }

    /// Returns when all ranks have come. Blocks.
    ///
    /// # Errors
    /// When one is in another collective.
    pub fn end(self, members: &Members) -> Result<()> {
        let local = members.known_local().expect("it was begun there");
        let group = local.group.as_ref().expect("it was begun there");
        let slot = FastSlot::resume(group, self.number, self.header);
        let met = wait_for_all(members, slot).and_then(|()| slot.accept_headers());
        slot.finish(0);
        met
    }
}
