//! The epochs of one window in this process (MPI 5.0, 12.5): what the program has opened, and what
//! it may call.
//!
//! | access epoch | opened by | closed by |
//! |---|---|---|
//! | `Fence` | fence | the next fence |
//! | `Start` | start | complete |
//! | `Lock` | lock, once for each target | unlock |
//! | `FastPathLock` | lock, on the fast path | unlock |
//! | `LockAll` | lock_all | unlock_all |
//!
//! A fence opens an epoch only if operations follow. So a fence epoch without operations may be
//! followed by any other.
//!
//! Locks are had late: `MPI_Win_lock` joins the lock's queue, and the first operation waits. A lock
//! of this rank's own memory is awaited at once, since the program may load and store there without
//! a call. `MPI_Win_lock_all` joins no queue until there is an operation on the target.

use mica_node::window::LockTicket;
use mica_node::window::OwnCounts;

use crate::remote::GrantedLock;
use mica_collective::intranode::begun_barrier::BegunBarrier;
use mica_objects::constants as c;
use mica_objects::error::{Error, Result};
use mica_objects::group::Group;
use mica_objects::last_used::KnownHandle;

/// What the program has opened.
#[derive(Debug)]
pub(crate) struct Epochs {
    pub access: AccessEpoch,
    /// Whether there is an exposure epoch, from post to wait.
    pub is_exposed: bool,
    /// The barrier of a fence that other ranks have not reached yet: the call is to end it.
    pub begun_fence: Option<BegunBarrier>,
    /// The locks of the access epoch that are held or awaited, by target.
    pub locks: HeldLocks,
    /// Post and complete, among the ranks of the node.
    pub counts: OwnCounts,
    /// Whom the last start has named, and so the epoch of `AccessEpoch::Start`.
    pub targets: EpochGroup,
    /// Whom the last post has named, and so the exposure epoch.
    pub origins: EpochGroup,
}

/// The group of the last epoch of a kind: programs use the same one again.
#[derive(Debug, Default)]
pub(crate) struct EpochGroup {
    group: Option<Group>,
    /// A handle of the group.
    handle: Option<KnownHandle>,
    pub members: EpochMembers,
}

/// The ranks of an epoch of post, start, complete and wait.
#[derive(Debug, Clone, Default)]
pub(crate) struct EpochMembers {
    /// Ranks in the window.
    pub ranks: Vec<usize>,
    /// The [numbers](crate::memory::node_peers::NodePeers) of those that share counts with this
    /// one.
    pub numbers: Vec<u32>,
    /// The other ranks.
    pub others: Vec<usize>,
}

impl EpochGroup {
    /// Whether it is `group`.
    pub fn is(&self, group: &Group) -> bool {
        self.group.as_ref().is_some_and(|last| last.shares_members(group))
    }

    /// Whether it is the group that `handle` names.
    #[inline(always)]
    pub fn is_named(&mut self, handle: u32) -> bool {
        let known = Group::known(handle);
        self.handle == Some(known) || self.is_resolved(handle, known)
    }

    #[cold]
    #[inline(never)]
    fn is_resolved(&mut self, handle: u32, known: KnownHandle) -> bool {
        let is_it = Group::resolve(handle).is_ok_and(|group| self.is(&group));
        if is_it {
            self.handle = Some(known);
        }
        is_it
    }

    /// Remembers `group` and its members.
    pub fn set(&mut self, group: &Group, members: EpochMembers) {
        *self = EpochGroup { group: Some(group.clone()), handle: None, members };
    }
}

/// An access epoch of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AccessEpoch {
    None,
    Fence {
        /// Whether operations have followed the fence: as the flags said when the epochs were
        /// locked.
        has_operations: bool,
    },
    Start,
    /// At least one lock is held or awaited.
    Lock,
    /// One lock is held, exclusive, as the fast path has taken it: `locks` does not have it yet
    /// ([`Window::epochs`](crate::window::object::Window::epochs) puts it there).
    FastPathLock {
        target: u32,
    },
    LockAll {
        /// `MPI_MODE_NOCHECK`: no other rank holds a lock that conflicts.
        unchecked: bool,
    },
}

/// A lock of one target.
#[derive(Debug)]
pub(crate) enum HeldLock {
    /// `MPI_MODE_NOCHECK`: the program promises that no other rank has a conflicting one.
    Unchecked,
    /// Held or awaited, by the locks that this node shares.
    Ticket(LockTicket),
    /// A thread of this rank is about to ask for it by a message.
    Asking,
    /// Held or awaited, by a message.
    Remote(GrantedLock),
}

/// The locks of an access epoch, by target: few, mostly one. Its memory stays for the next epoch.
#[derive(Debug, Default)]
pub(crate) struct HeldLocks(Vec<(usize, HeldLock)>);

impl HeldLocks {
    #[inline]
    pub fn contains(&self, target: usize) -> bool {
        self.targets().any(|locked| locked == target)
    }

    #[inline]
    pub fn get_mut(&mut self, target: usize) -> Option<&mut HeldLock> {
        self.0.iter_mut().find_map(|(locked, held)| (*locked == target).then_some(held))
    }

    /// Adds a lock, or replaces it.
    #[inline]
    pub fn insert(&mut self, target: usize, held: HeldLock) {
        match self.get_mut(target) {
            Some(old) => *old = held,
            None => self.0.push((target, held)),
        }
    }

    #[inline]
    pub fn remove(&mut self, target: usize) -> Option<HeldLock> {
        let at = self.0.iter().position(|&(locked, _)| locked == target)?;
        Some(self.0.swap_remove(at).1)
    }

    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The locked targets.
    pub fn targets(&self) -> impl Iterator<Item = usize> + '_ {
        self.0.iter().map(|&(target, _)| target)
    }

    /// Takes all of them.
    pub fn take_all(&mut self) -> Vec<(usize, HeldLock)> {
        std::mem::take(&mut self.0)
    }
}

impl Epochs {
    /// No epochs.
    pub fn new(counts: OwnCounts) -> Epochs {
        Epochs {
            access: AccessEpoch::None,
            is_exposed: false,
            begun_fence: None,
            locks: HeldLocks::default(),
            counts,
            targets: EpochGroup::default(),
            origins: EpochGroup::default(),
        }
    }

    /// Ends the epoch of `MPI_Win_lock` if no target is locked: the one that opened it could not be
    /// asked.
    pub fn close_unlocked(&mut self) {
        if self.access == AccessEpoch::Lock && self.locks.is_empty() {
            self.access = AccessEpoch::None;
        }
    }

    /// Whether the access epoch is one of passive target communication.
    pub fn is_passive(&self) -> bool {
        matches!(self.access, AccessEpoch::Lock | AccessEpoch::LockAll { .. })
    }

    /// Refuses what may not be called in an access epoch; a fence without operations is none.
    pub fn must_not_access(&self, reason: &str) -> Result<()> {
        match self.access {
            AccessEpoch::None | AccessEpoch::Fence { has_operations: false } => Ok(()),
            _ => Err(wrong_epoch(format!("{}; {reason}", self.describe()))),
        }
    }

    /// Refuses what may only be called in a passive target epoch that covers `target` (`None`:
    /// every rank, or any).
    pub fn must_be_passive(&self, target: Option<usize>) -> Result<()> {
        let covers = match (self.access, target) {
            (AccessEpoch::Lock, Some(target)) => self.locks.contains(target),
            _ => self.is_passive(),
        };
        match (covers, target) {
            (true, _) => Ok(()),
            (false, Some(target)) => {
                Err(wrong_epoch(format!("target {target} is not locked: {}", self.describe())))
            }
            (false, None) => Err(wrong_epoch(format!("no lock is held: {}", self.describe()))),
        }
    }

    /// The access epoch in words.
    pub fn describe(&self) -> String {
        match self.access {
            AccessEpoch::None => "no access epoch is open".to_owned(),
            AccessEpoch::Fence { .. } => "the epoch of a fence is open".to_owned(),
            AccessEpoch::Start => format!(
                "the epoch of an MPI_Win_start with {} targets is open",
                self.targets.members.ranks.len()
            ),
            AccessEpoch::Lock => {
                let locked: Vec<_> = self.locks.targets().map(|t| t.to_string()).collect();
                format!("locked targets: {}", locked.join(", "))
            }
            AccessEpoch::FastPathLock { target } => format!("locked targets: {target}"),
            AccessEpoch::LockAll { .. } => "all targets are locked (MPI_Win_lock_all)".to_owned(),
        }
    }
}

/// A call that the window's epochs do not allow.
#[cold]
pub(crate) fn wrong_epoch(detail: String) -> Error {
    Error::other(c::ERR_RMA_SYNC, detail)
}

#[cfg(test)]
mod tests {
    use super::*;
    use mica_node::window::WindowLocks;
    use std::sync::Arc;

    #[test]
    fn a_lock_that_could_not_be_asked_for_leaves_no_epoch() {
        let locks = Arc::new(WindowLocks::private(3).expect("memory"));
        let mut epochs = Epochs::new(OwnCounts::new(&locks, 0));
        epochs.access = AccessEpoch::Lock;
        epochs.locks.insert(2, HeldLock::Asking);
        epochs.close_unlocked();
        assert!(epochs.is_passive(), "another thread asks for a lock");
        epochs.locks.remove(2);
        epochs.close_unlocked();
        assert_eq!(epochs.access, AccessEpoch::None);
        epochs.must_not_access("it is over").expect("no epoch");

        epochs.access = AccessEpoch::LockAll { unchecked: false };
        epochs.close_unlocked();
        assert!(epochs.is_passive(), "it needs no lock");
    }
}
