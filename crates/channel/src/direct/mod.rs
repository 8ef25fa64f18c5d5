//! The direct channel: one copy between the memory of two ranks (chai-2009, chapters 4 and 6.1).
//! Three back ends:
//!
//! - **CMA**: what LiMIC did with a kernel module, `process_vm_readv` and `process_vm_writev`
//!   (cross memory attach) do on any Linux. The kernel may refuse it (Yama, seccomp, user
//!   namespaces, different users), so each peer is probed once, by reading a word whose value the
//!   peer has published; a refusal is remembered, and the protocol takes another path.
//! - **mapped**: the pages of a buffer that is used repeatedly are migrated once to the job
//!   segment's file; peers map that file and load and store there, without system calls
//!   (docs/design/mapped.md).
//! - **XPMEM**: where its kernel module is loaded, peers attach this rank's memory as it is, and
//!   load and store.
//!
//! How a protocol uses it: the owner of a buffer calls [`Direct::expose`] and sends the two words
//! of the [`Exposure`]. The peer calls [`Direct::window`] and copies the bytes in
//! [`MappedWindow::reachable`] by [`MappedWindow::load`] and [`MappedWindow::store`]. The rest
//! (less than a page at each end), and everything if there is no window, it copies by
//! [`Direct::copy_range`], or through another channel. Both sides may do
//! so with each other's buffer at the same time, in disjoint parts.
//!
//! Collectives, whose steps run on any thread, use a [`PeerAccess`] instead, which does the same
//! without the [`Direct`].

mod cma;
mod exposure;
mod mapped;
mod options;
mod reach;
mod refusal;
mod window;
mod xpmem;

#[cfg(test)]
mod tests;

use std::ops::Range;
use std::sync::Arc;

use mica_memory::View;
use mica_node::peer_table::PeerTable;
use mica_node::segment::{JobSegment, Limit, Means};

pub use cma::{PeerCopy, RemoteRun};
pub(crate) use exposure::ExpectedUse;
pub use exposure::{Backend, Exposed, Exposure};
pub use mapped::{HelperThread, SkipReason, Usage};
pub use options::DirectOptions;
pub use reach::{PeerAccess, PeerAccessError, PeerBuffer, PublishedBuffer};
pub use refusal::CopyRefusal;
pub use window::MappedWindow;
pub use xpmem::Device as XpmemDevice;

use mapped::Registry;
use xpmem::{Module, Xpmem};

/// Where a sender's message lies in its own address space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SenderBuffer {
    /// In one piece at this address.
    Contiguous {
        /// The address.
        address: u64,
    },
    /// In `count` pieces, listed in an array of [`RemoteRun`]s at `table`.
    Runs {
        /// Address of the array in the sender's memory.
        table: u64,
        /// Its length.
        count: u64,
    },
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
enum CmaPeer {
    #[default]
    Unknown,
    Usable,
    Refused(CopyRefusal),
}

/// One rank's direct channel.
#[derive(Debug)]
pub struct Direct {
    segment: Arc<JobSegment>,
    peers: PeerTable<CmaPeer>,
    /// The part that is shared with the callers of [`Direct::reach`].
    reach: PeerAccess,
}

/// The word that peers read to find out whether they can read this process's memory.
static PROBE: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);

impl Direct {
    /// The direct channel of rank `me` with the back ends that `options` allow. Publishes this
    /// rank's probe word. Where Yama requires it, allows the launcher and its descendants, among
    /// them the other ranks, to read this process.
    pub fn new(segment: &Arc<JobSegment>, me: u32, options: &DirectOptions) -> Direct {
        let xpmem = if options.xpmem {
            Module::open()
                .and_then(|module| Xpmem::new(Arc::new(module)))
                .map_err(|why| format!("/dev/xpmem: {why}"))
        } else {
            Err(OFF.to_owned())
        };
        Direct::build(segment, me, options, xpmem)
    }

    /// As [`new`](Self::new), with `device` in place of the XPMEM module.
    ///
    /// # Errors
    /// When `device` cannot make a segment.
    pub fn with_xpmem(
        segment: &Arc<JobSegment>,
        me: u32,
        options: &DirectOptions,
        device: Arc<dyn XpmemDevice>,
    ) -> std::io::Result<Direct> {
        let xpmem = Xpmem::new(device)?;
        Ok(Direct::build(segment, me, options, Ok(xpmem)))
    }

    fn build(
        segment: &Arc<JobSegment>,
        me: u32,
        options: &DirectOptions,
        xpmem: Result<Xpmem, String>,
    ) -> Direct {
        if options.cma {
            let value = mica_node::segment::monotonic_ns() ^ u64::from(std::process::id()) << 32;
            PROBE.store(value, std::sync::atomic::Ordering::Relaxed);
            segment.block(me).publish_probe((&raw const PROBE).addr() as u64, value);
            cma::allow_readers(segment.launcher_pid());
        }
        if let Ok(xpmem) = &xpmem {
            segment.block(me).publish_xpmem(xpmem.segment());
        }
        let block = segment.block(me);
        let mapped = if !options.mapped {
            block.note_limit(Means::Mapped, Limit::SwitchedOff);
            Err(OFF.to_owned())
        } else if xpmem.is_ok() {
            Err("not needed where XPMEM works".to_owned())
        } else {
            Registry::new(segment, me, options).map_err(|why| {
                block.note_limit(Means::Mapped, why);
                why.to_string()
            })
        };
        if !options.cma {
            block.note_limit(Means::Cma, Limit::SwitchedOff);
        }
        Direct {
            segment: Arc::clone(segment),
            peers: PeerTable::default(),
            reach: PeerAccess::new(segment, me, options, mapped, xpmem),
        }
    }

    /// Access to peers' buffers without this channel, for collectives. All values returned by one
    /// channel share its state, among it which buffers are migrated and mapped.
    pub fn reach(&self) -> PeerAccess {
        self.reach.clone()
    }

    /// Forgets how `peer` is reached, whose number another process has now.
    pub fn forget(&mut self, peer: u32) {
        self.peers.remove(peer);
        self.reach.forget(peer);
    }

    /// Whether `peer`'s memory can be read; probes it the first time.
    #[inline]
    pub fn is_usable(&mut self, peer: u32) -> bool {
        match self.peers.get(peer) {
            None | Some(CmaPeer::Unknown) => self.probe(peer),
            Some(known) => *known == CmaPeer::Usable,
        }
    }

    #[cold]
    fn probe(&mut self, peer: u32) -> bool {
        let result = match self.reach.allows_cma() {
            true => cma::probe(self.segment.block(peer)),
            false => Err(CopyRefusal::SwitchedOff),
        };
        let usable = result.is_ok();
        *self.peers.entry(peer) = match result {
            Ok(()) => CmaPeer::Usable,
            Err(why) => {
                self.reach.note_refusal(peer, &why);
                CmaPeer::Refused(why)
            }
        };
        usable
    }

    /// Process number of `peer`.
    pub fn process(&self, peer: u32) -> u32 {
        self.segment.block(peer).pid()
    }

    /// Why `peer`'s memory cannot be read, if that is known.
    pub fn refusal(&self, peer: u32) -> Option<&CopyRefusal> {
        match self.peers.get(peer)? {
            CmaPeer::Refused(why) => Some(why),
            _ => None,
        }
    }

    /// Copies the first `len` bytes of `peer`'s message at `remote` to `view`. Blocks while the
    /// kernel copies.
    ///
    /// # Errors
    /// When the kernel refuses; part of the bytes may have been copied by then. The peer counts as
    /// refused from then on if the refusal was one of permission.
    ///
    /// # Panics
    /// If `view` is shorter than `len`.
    pub fn pull(
        &mut self,
        peer: u32,
        remote: SenderBuffer,
        view: &View,
        len: usize,
    ) -> Result<(), CopyRefusal> {
        assert!(len <= view.len(), "{len} bytes do not fit a view of {}", view.len());
        let pid = self.segment.block(peer).pid();
        let result = match remote {
            SenderBuffer::Contiguous { address } => {
                cma::contiguous(PeerCopy::Load, pid, address, view, 0..len)
            }
            SenderBuffer::Runs { table, count } => cma::pull_runs(pid, table, count, view, len),
        };
        self.remember(peer, result)
    }

    /// Copies bytes `range` of `peer`'s contiguous message, whose first byte is at `address`, from
    /// or to the same places of `view`, by CMA. Blocks while the kernel copies. The peer must keep
    /// a buffer that is stored to [exposed](Self::expose) meanwhile.
    ///
    /// # Errors
    /// As for [`pull`](Self::pull).
    ///
    /// # Panics
    /// If `view` does not have these bytes.
    pub fn copy_range(
        &mut self,
        direction: PeerCopy,
        peer: u32,
        address: u64,
        view: &View,
        range: Range<usize>,
    ) -> Result<(), CopyRefusal> {
        check_range(view, range.start, range.len());
        let pid = self.segment.block(peer).pid();
        let result = cma::contiguous(direction, pid, address, view, range);
        self.remember(peer, result)
    }

    /// Notes a refusal that will not change.
    fn remember(&mut self, peer: u32, result: Result<(), CopyRefusal>) -> Result<(), CopyRefusal> {
        if let Err(why) = &result
            && why.is_final()
        {
            self.reach.note_refusal(peer, why);
            *self.peers.entry(peer) = CmaPeer::Refused(why.clone());
        }
        result
    }

    /// Lets peers reach this rank's `len` bytes at `address`: to be called once for each message,
    /// since uses are counted. Keep the result until the peer is done. `None` when no back end is
    /// enabled.
    ///
    /// The back end is [`Backend::Cma`] for a buffer that no window reaches (yet). Expose such a
    /// buffer too if a peer may push into it: its pages are not migrated while it is exposed.
    /// Blocks while pages are migrated, which happens once; otherwise costs at most one short
    /// system call.
    pub fn expose(&mut self, address: usize, len: usize) -> Option<Exposed> {
        self.reach.exposed(address, len, ExpectedUse::Once)
    }

    /// Keeps the pages of `view`, gaps included, where they are as long as the result lives: for
    /// memory that a copy engine accesses in the background. Counts as no use.
    pub fn hold(&mut self, view: &View) -> Option<Exposed> {
        let (address, len) = view.span();
        self.reach.exposed(address, len, ExpectedUse::Never)
    }

    /// As [`expose`](Self::expose) for a buffer that was exposed before, without asking the kernel
    /// whether it still lies there. A peer may open a window on it, but must not copy before
    /// [`confirm`](Self::confirm) has returned true. `None` for a buffer that is not known, or that
    /// a window cannot reach as a whole.
    pub fn recall(&mut self, address: usize, len: usize) -> Option<Exposed> {
        self.reach.recalled(address, len)
    }

    /// Whether a buffer that was [recalled](Self::recall) still lies where it was. One short system
    /// call.
    pub fn confirm(&mut self, address: usize, len: usize, exposed: &Exposed) -> bool {
        self.reach.confirms(address, len, exposed)
    }

    /// `peer`'s buffer of `len` bytes that it has exposed, mapped here. `None` when it cannot be
    /// mapped: copy by CMA then, or by another path. The first window on a buffer blocks while
    /// pages are mapped; later ones are found in a cache.
    pub fn window(&mut self, peer: u32, exposure: &Exposure, len: usize) -> Option<MappedWindow> {
        self.reach.window(peer, exposure, len)
    }

    /// Which of this rank's buffers have been migrated; `None` where none can be.
    pub fn usage(&self) -> Option<Usage> {
        self.reach.mapped().as_ref().ok().map(Registry::usage)
    }

    /// What each back end can do in this process, as text.
    pub fn status(&self) -> Vec<BackendStatus> {
        let off = (!self.reach.allows_cma()).then_some(CopyRefusal::SwitchedOff);
        let refused = (self.peers.iter()).find_map(|(_, peer)| match peer {
            CmaPeer::Refused(why) => Some(why.clone()),
            _ => None,
        });
        let cma = match off.or(refused).map(|why| why.to_string()) {
            Some(why) => Err(why),
            None => Ok(format!(
                "{} of {} peers probed",
                self.peers.iter().filter(|(_, peer)| **peer == CmaPeer::Usable).count(),
                self.segment.ranks()
            )),
        };
        let mapped = self.reach.mapped().as_ref().map(|registry| {
            let usage = registry.usage();
            let mut text =
                format!("{} bytes in {} buffers, {} moves", usage.bytes, usage.slots, usage.moves);
            for (why, times) in &usage.kept {
                text += &format!("; left {times} times: {why}");
            }
            text
        });
        let xpmem = self.reach.attached();
        let xpmem = xpmem.map(|attached| format!("{attached} attachments made"));
        vec![
            BackendStatus { backend: Backend::Cma, state: cma },
            BackendStatus { backend: Backend::Mapped, state: mapped.map_err(Clone::clone) },
            BackendStatus { backend: Backend::Xpmem, state: xpmem },
        ]
    }
}

/// Why a back end that the user has not enabled is not used.
const OFF: &str = "switched off by MICA_DIRECT or MICA_MAPPED";

/// What a back end can do in this process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackendStatus {
    /// The back end.
    pub backend: Backend,
    /// What it has done so far, or why it cannot be used.
    pub state: Result<String, String>,
}

fn check_range(view: &View, position: usize, len: usize) {
    assert!(
        position.checked_add(len).is_some_and(|end| end <= view.len()),
        "{len} bytes at {position} are not within a view of {}",
        view.len()
    );
}
