//! The back end `mapped`: the pages of buffers in reuse are migrated to the job segment's file
//! (docs/design/mapped.md).
//!
//! Each rank owns slots of the file. A buffer's pages lie in one slot; `anchor` is what is added to
//! an address to get its offset in the file, the same for all pages of an area. What a slot holds,
//! and where, is queried from the kernel (PROCMAP_QUERY) at every use and never cached as a fact:
//! the program may unmap, move, enlarge or replace its memory at any time, unseen by the library.
//! Only hints (where to query) and pins (what is in use) are stored.
//!
//! - `eligibility`, `origin`, `holders`: which memory may be migrated;
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
mod holders;
mod hooks;
mod loader;
mod migration;
mod origin;
mod owner;
mod owners;
mod peers;
mod planning;
mod raw;
mod reclaim;
mod usage;

pub use eligibility::{HelperThread, SkipReason};
pub(super) use peers::PeerSlots;
pub use usage::Usage;

use super::{DirectOptions, ExpectedUse, Exposed, Exposure};
use buffers::MigratedBuffers;
use mica_node::segment::{JobSegment, Limit};
use owner::{Answer, Attempt, BufferWatch};
use owners::OWNERS;
use std::sync::Arc;

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
    ) -> Result<Registry, Limit> {
        let owner = MigratedBuffers::new(segment, me, options)?;
        fork::watch().map_err(|errno| Limit::NoForkHandler { errno: errno.unsigned_abs() })?;
        let mut owners = OWNERS.lock();
        owners.list.push(owner);
        Ok(Registry { index: owners.list.len() - 1 })
    }

    /// Exposes a buffer for loads and stores if it is migrated, otherwise for CMA.
    pub fn expose(&self, address: usize, len: usize, expected: ExpectedUse) -> Exposed {
        {
            let mut owners = OWNERS.lock();
            let owner = &mut owners.list[self.index];
            match owner.expose(address, len, expected) {
                Answer::Migrated(exposed) => return exposed,
                Answer::Plain if expected == ExpectedUse::Later => {
                    let exposure = Exposure::in_place(address);
                    return Exposed { exposure, _pins: [None, None], skipped: None };
                }
                Answer::Plain => return owner.lend(address, len),
                Answer::Due => {}
            }
        }
        self.migrate(address, len, expected)
    }

    /// Migrates a buffer if it is eligible, and exposes it in any case.
    #[cold]
    fn migrate(&self, address: usize, len: usize, expected: ExpectedUse) -> Exposed {
        let mut watch = match reclaim::is_running() {
            true => BufferWatch::On,
            false => BufferWatch::Off,
        };
        loop {
            // The loader's lock comes before the owners'.
            let objects = match watch {
                BufferWatch::On => hooks::watch(),
                BufferWatch::Off => hooks::survey(),
            };
            let ready = objects.as_ref().map(|o| &o.data[..]).map_err(|why| *why);
            let mut owners = OWNERS.lock();
            let owner = &mut owners.list[self.index];
            let exposed = match owner.migrate((address, len, expected), ready, watch) {
                Attempt::Done(exposed) => exposed,
                Attempt::Possible => {
                    // Start the thread and install the hooks only now that a buffer can be
                    // migrated.
                    drop(owners);
                    let started = reclaim::start();
                    watch = BufferWatch::On;
                    if started.is_ok() {
                        continue;
                    }
                    owners = OWNERS.lock();
                    owners.list[self.index].keep(address, len, SkipReason::NoHelper);
                    Err(SkipReason::NoHelper)
                }
            };
            let owner = &mut owners.list[self.index];
            return match exposed {
                Ok(exposed) => {
                    drop(owners);
                    reclaim::nudge();
                    exposed
                }
                Err(why) => Exposed { skipped: Some(why), ..owner.lend(address, len) },
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
