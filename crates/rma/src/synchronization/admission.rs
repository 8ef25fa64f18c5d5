//! Whether an operation on a target may begin, and what it waits for first.

use mica_node::window::LockMode;

use super::active::{self, AwaitedPost};
use super::passive;
use crate::epoch::{AccessEpoch, wrong_epoch};
use crate::memory::access::TargetAccess;
use crate::window::object::Window;
use mica_objects::error::Result;

/// What kind of epoch an operation needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NeededEpoch {
    /// Any that covers the target.
    Any,
    /// One of passive target communication: request forms (MPI 5.0, 12.3.5).
    Passive,
}

impl Window {
    /// Returns when `target` may be accessed. Blocks until a lock is held, or until the target has
    /// posted.
    ///
    /// # Errors
    /// `MPI_ERR_RMA_SYNC` when no epoch covers the target.
    #[inline(always)]
    pub(crate) fn admit(&self, target: usize, needed: NeededEpoch) -> Result<()> {
        if needed == NeededEpoch::Any && self.is_open(target) {
            return Ok(());
        }
        self.admit_slowly(target, needed)
    }

    #[cold]
    #[inline(never)]
    fn admit_slowly(&self, target: usize, needed: NeededEpoch) -> Result<()> {
        let epochs = self.epochs();
        if needed == NeededEpoch::Passive && !epochs.is_passive() {
            let described = epochs.describe();
            return Err(wrong_epoch(format!(
                "request forms need a passive target epoch (MPI_Win_lock, MPI_Win_lock_all): \
                 {described}"
            )));
        }
        if self.is_open(target) {
            return Ok(());
        }
        let is_joined = epochs.locks.contains(target);
        match epochs.access {
            AccessEpoch::None => Err(wrong_epoch(
                "no epoch is open: the operation needs a fence, start, lock or lock_all first"
                    .to_owned(),
            )),
            // Its flags are open: another thread has called it meanwhile.
            AccessEpoch::Fence { .. } => Ok(()),
            AccessEpoch::Start => {
                if !epochs.targets.members.ranks.contains(&target) {
                    let described = epochs.describe();
                    return Err(wrong_epoch(format!(
                        "target {target} is not in the group of MPI_Win_start: {described}"
                    )));
                }
                drop(epochs);
                active::await_posts(self, &[target], AwaitedPost::OfEpoch)?;
                self.0.targets[target].flag.set(TargetAccess::Active);
                Ok(())
            }
            AccessEpoch::Lock if !is_joined => epochs.must_be_passive(Some(target)),
            AccessEpoch::LockAll { unchecked } => {
                if !is_joined {
                    let mode = (!unchecked).then_some(LockMode::Shared);
                    passive::join(self, epochs, target, mode)?;
                } else {
                    drop(epochs);
                }
                passive::await_lock(self, target)
            }
            AccessEpoch::Lock | AccessEpoch::FastPathLock { .. } => {
                drop(epochs);
                passive::await_lock(self, target)
            }
        }
    }
}
