//! The back end `mapped`: the pages of buffers in reuse are migrated to the job segment's file
//! (docs/design/mapped.md).
//!
//! Each rank owns slots of the file. A buffer's pages lie in one slot; `anchor` is what is added to
//! an address to get its offset in the file, the same for all pages of an area. What a slot holds,
//! and where, is queried from the kernel (PROCMAP_QUERY) at every use and never cached as a fact:
//! the program may unmap, move, enlarge or replace its memory at any time, unseen by the library.
//! Only hints (where to query) and pins (what is in use) are stored.
//!
//! - `eligibility`, `origin`: which memory may be migrated;
//! - `migration`: moving pages (`raw`: its system calls);
//! - `owner`, `census`, `extents`: counting uses and finding buffers, what lies where, giving
//!   memory back;
//! - `reclaim`: the thread that finds memory to give back;
//! - `loader`, `hooks`, `advice`: what the program does to its memory;
//! - `fork`: migrated memory in a child (`node::fork_lock`: the lock held meanwhile);
//! - `peers`: other ranks' slots, mapped here.

mod advice;
mod buffers;
mod census;
mod eligibility;
mod extents;
mod fork;
mod hooks;
mod loader;
mod migration;
mod origin;
mod owner;
mod peers;
mod planning;
mod raw;
mod reclaim;

pub use eligibility::{HelperThread, SkipReason};
pub(super) use peers::PeerSlots;

use super::{DirectOptions, Exposed};
use buffers::MigratedBuffers;
use fork::Forking;
use mica_node::fork_lock::ForkLock;
use mica_node::segment::{JobSegment, Limit};
use owner::{Answer, Attempt};
use std::sync::Arc;

/// All owners of this process (one, except in tests), and the state of the fork handlers.
#[derive(Debug)]
struct Owners {
    list: Vec<MigratedBuffers>,
    forking: Forking,
}

static OWNERS: ForkLock<Owners> = ForkLock::new(Owners {
    list: Vec::new(),
    forking: Forking::NONE,
});

/// Why no buffer of this process can be migrated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unavailable {
    /// The job segment has no room for buffers.
    #[error(
        "the job segment has no slots: a limit on file size (RLIMIT_FSIZE, ulimit -f) was in force when the job started, or it has too many ranks"
    )]
    NoSlots,
    /// PROCMAP_QUERY is missing.
    #[error("PROCMAP_QUERY on /proc/self/maps (Linux 6.11): {}", std::io::Error::from_raw_os_error(*.errno))]
    NoQuery {
        /// The error number.
        errno: i32,
    },
    /// The allocator may not be glibc's.
    #[error("{}", SkipReason::Allocator)]
    Allocator,
    /// Fork handlers cannot be set up.
    #[error("pthread_atfork: {}", std::io::Error::from_raw_os_error(*.errno))]
    NoForkHandler {
        /// The error number.
        errno: i32,
    },
}

impl Unavailable {
    /// The reason in the form that is announced to the other ranks.
    pub(super) fn limit(&self) -> Limit {
        match *self {
            Unavailable::NoSlots => Limit::NoSlots,
            Unavailable::NoQuery { errno } => Limit::NoQuery {
                errno: errno.unsigned_abs(),
            },
            Unavailable::Allocator => Limit::Allocator,
            Unavailable::NoForkHandler { errno } => Limit::NoForkHandler {
                errno: errno.unsigned_abs(),
            },
        }
    }
}

/// What has been migrated, and what has not.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Usage {
    /// Bytes of memory that lie in slots.
    pub bytes: usize,
    /// Slots in use.
    pub slots: usize,
    /// Migrations so far.
    pub moves: u64,
    /// How often buffers in reuse were left where they are, by reason.
    pub kept: Vec<(SkipReason, u64)>,
}

/// This rank's own buffers.
#[derive(Debug)]
pub(super) struct Registry {
    index: usize,
}

impl Registry {
    pub fn new(
        segment: &Arc<JobSegment>,
        me: u32,
        options: &DirectOptions,
    ) -> Result<Registry, Unavailable> {
        let owner = MigratedBuffers::new(segment, me, options)?;
        fork::watch().map_err(|errno| Unavailable::NoForkHandler { errno })?;
        let mut owners = OWNERS.lock();
        owners.list.push(owner);
        Ok(Registry {
            index: owners.list.len() - 1,
        })
    }

    /// Exposes a buffer for loads and stores if it is migrated, otherwise for CMA.
    pub fn expose(&self, address: usize, len: usize) -> Exposed {
        {
            let mut owners = OWNERS.lock();
            let owner = &mut owners.list[self.index];
            match owner.expose(address, len) {
                Answer::Migrated(exposed) => return exposed,
                Answer::Plain => return owner.lend(address, len),
                Answer::Due => {}
            }
        }
        self.migrate(address, len)
    }

    /// Migrates a buffer if it is eligible, and exposes it in any case.
    #[cold]
    fn migrate(&self, address: usize, len: usize) -> Exposed {
        let mut is_watched = reclaim::is_running();
        loop {
            // The loader's lock comes before the owners'.
            let objects = if is_watched {
                hooks::watch()
            } else {
                hooks::survey()
            };
            let ready = objects.as_ref().map(|o| &o.data[..]).map_err(|why| *why);
            let mut owners = OWNERS.lock();
            let owner = &mut owners.list[self.index];
            let exposed = match owner.migrate(address, len, ready, is_watched) {
                Attempt::Done(exposed) => exposed,
                Attempt::Possible => {
                    // Start the thread and install the hooks only now that a buffer can be
                    // migrated.
                    drop(owners);
                    let started = reclaim::start();
                    is_watched = true;
                    if started.is_ok() {
                        continue;
                    }
                    owners = OWNERS.lock();
                    owners.list[self.index].keep(address, len, SkipReason::NoHelper);
                    None
                }
            };
            let owner = &mut owners.list[self.index];
            return match exposed {
                Some(exposed) => {
                    drop(owners);
                    reclaim::nudge();
                    exposed
                }
                None => owner.lend(address, len),
            };
        }
    }

    /// See [`MigratedBuffers::recall`].
    pub fn recall(&self, address: usize, len: usize) -> Option<Exposed> {
        OWNERS.lock().list[self.index].recall(address, len)
    }

    /// See [`MigratedBuffers::confirm`].
    pub fn confirm(&self, address: usize, len: usize, exposed: &Exposed) -> bool {
        OWNERS.lock().list[self.index].confirm(address, len, &exposed.exposure)
    }

    pub fn usage(&self) -> Usage {
        OWNERS.lock().list[self.index].usage()
    }
}
