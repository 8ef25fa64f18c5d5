//! Access to peers' buffers that many calls of a rank share: for collectives, whose steps run on
//! any thread that waits.
//!
//! [`Direct`](super::Direct) belongs to one rank and is used with `&mut`. A [`PeerAccess`] is its
//! shared half: its registries lie behind locks that are held only briefly, so every call on every
//! thread may have a clone of it.
//!
//! How a collective uses it: each rank [exposes](PeerAccess::expose) its buffer and puts the two
//! [words](PublishedBuffer::words) where its peers find them. A peer [opens](PeerAccess::open) them
//! with the buffer's length, and [loads](PeerBuffer::load) and [stores](PeerBuffer::store) any
//! part, or accesses it [in place](PeerBuffer::region). When all are done, the rank drops its
//! [`PublishedBuffer`].
//!
//! Memory ordering: a thread sees the stored bytes once its Acquire load has seen a Release store
//! that the storing thread made afterwards. The stores are plain stores (where the C library uses
//! non-temporal stores, it ends with a fence). The kernel's stores for `process_vm_writev` happen
//! in the calling thread before the call returns. Both sides access the same memory through
//! coherent caches.
//!
//! ## Words
//!
//! | word | bits | content |
//! |---|---|---|
//! | 0 | 0-1 | back end: 0 none, 1 CMA, 2 mapped, 3 XPMEM |
//! | 0 | 2 | CMA: the pages may be migrated meanwhile |
//! | 0 | 2 | mapped: bytes before the first whole page are out of reach of a window |
//! | 0 | 3 | mapped: bytes behind the last whole page are out of reach of a window |
//! | 0 | 4-11 | mapped: slot of the owner's file space |
//! | 0 | 12-63 | mapped: offset in the slot of the first byte that a window reaches |
//! | 1 | | the buffer's address |
//!
//! Unlike the words of an [`Exposure`], they hold the address for every back end, so that CMA can
//! copy what a window cannot reach.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::mapped::{PeerSlots, Registry};
use super::xpmem::Xpmem;
use super::{
    Backend, CopyRefusal, DirectOptions, ExpectedUse, Exposed, Exposure, MappedWindow, PeerCopy,
    check_range, cma,
};
use mica_memory::{Region, View};
use mica_node::page::kernel_page_size;
use mica_node::segment::{Abilities, JobSegment, Limit, Means, SLOT_SPAN, SLOTS};

const _: () = assert!(SLOTS <= 1 << 8 && SLOT_SPAN < 1 << 52);

/// A peer's memory could not be read or written. Part of the bytes may have been copied.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot reach the memory of rank {peer}: {refusal}")]
pub struct PeerAccessError {
    /// Rank of the peer in the job.
    pub peer: u32,
    /// Why.
    pub refusal: CopyRefusal,
}

impl PeerAccessError {
    /// The kernel's error number: ESRCH if the peer has died, EFAULT if its memory is not there.
    pub fn errno(&self) -> Option<i32> {
        match self.refusal {
            CopyRefusal::Kernel { errno } => Some(errno),
            _ => None,
        }
    }
}

/// A rank's access to its peers' buffers, and theirs to its own. Cheap to clone; all clones share
/// one state.
#[derive(Debug, Clone)]
pub struct PeerAccess {
    shared: Arc<PeerAccessInner>,
}

#[derive(Debug)]
struct PeerAccessInner {
    segment: Arc<JobSegment>,
    me: u32,
    options: DirectOptions,
    page: u64,
    /// This rank's migrated buffers, or why there are none.
    mapped: Result<Registry, String>,
    /// Peers' migrated buffers.
    slots: Mutex<PeerSlots>,
    xpmem: Result<Mutex<Xpmem>, String>,
    /// Whether the kernel copies from and to a peer: `UNKNOWN`, `WORKS` or `REFUSED`.
    cma: Vec<AtomicU8>,
    /// The kernel has refused to copy from or to a peer.
    cma_was_refused: AtomicBool,
}

/// How long an error waits at most for the launcher to notice the death that it follows from.
const REAP_LIMIT: Duration = Duration::from_secs(1);

const UNKNOWN: u8 = 0;
const WORKS: u8 = 1;
const REFUSED: u8 = 2;

/// A poisoned lock is usable: the tables are consistent between any two statements that can panic.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl PeerAccess {
    pub(super) fn new(
        segment: &Arc<JobSegment>,
        me: u32,
        options: &DirectOptions,
        mapped: Result<Registry, String>,
        xpmem: Result<Xpmem, String>,
    ) -> PeerAccess {
        let start = if options.cma { UNKNOWN } else { REFUSED };
        PeerAccess {
            shared: Arc::new(PeerAccessInner {
                segment: Arc::clone(segment),
                me,
                options: *options,
                page: kernel_page_size() as u64,
                mapped,
                slots: Mutex::default(),
                xpmem: xpmem.map(Mutex::new),
                cma: (0..segment.capacity()).map(|_| AtomicU8::new(start)).collect(),
                cma_was_refused: AtomicBool::new(false),
            }),
        }
    }

    /// Whether peers can load and store any memory of this rank, wherever it lies.
    pub fn maps_all_memory(&self) -> bool {
        self.shared.xpmem.is_ok()
    }

    /// What this rank can do, for the other ranks of its node; `costs` is the fingerprint of the
    /// cost model by which it chooses.
    pub fn abilities(&self, costs: u64) -> Abilities {
        Abilities {
            mapped: self.shared.mapped.is_ok(),
            xpmem: self.shared.xpmem.is_ok(),
            cma: self.allows_cma(),
            costs,
        }
    }

    /// Whether this rank's settings allow the kernel to copy.
    pub(super) fn allows_cma(&self) -> bool {
        self.shared.options.cma
    }

    /// Whether the kernel has refused a copy between this rank and a peer for good, in a probe or
    /// later.
    pub fn cma_was_refused(&self) -> bool {
        // Relaxed: local to this rank, which announces to the others what it decides from it.
        self.shared.cma_was_refused.load(Ordering::Relaxed)
    }

    /// Notes, for this rank and in hang reports, that the kernel does not copy between `peer` and
    /// this rank.
    pub(super) fn note_refusal(&self, peer: u32, refusal: &CopyRefusal) {
        let limit = match *refusal {
            // The peer's own setting, which the peer reports itself.
            CopyRefusal::SwitchedOff => return,
            CopyRefusal::Kernel { errno } => Limit::Kernel { errno: errno.unsigned_abs(), peer },
            CopyRefusal::WrongProcess => Limit::WrongProcess { peer },
        };
        self.shared.cma_was_refused.store(true, Ordering::Relaxed);
        let block = self.shared.segment.block(self.shared.me);
        block.note_limit(Means::Cma, limit);
    }

    /// Whether the kernel copies between `peer`'s memory and this process's; probes it the first
    /// time.
    pub fn cma_works(&self, peer: u32) -> bool {
        let Some(state) = self.shared.cma.get(peer as usize) else {
            return false;
        };
        // Relaxed: two threads may both find it unknown; they get the same answer, and no other
        // data depends on it.
        match state.load(Ordering::Relaxed) {
            UNKNOWN => {
                let is_here = self.shared.segment.is_member(peer);
                let probed = is_here.then(|| cma::probe(self.shared.segment.block(peer)));
                if let Some(Err(refusal)) = &probed {
                    self.note_refusal(peer, refusal);
                }
                let works = probed.is_some_and(|probed| probed.is_ok());
                let now = if works { WORKS } else { REFUSED };
                state.store(now, Ordering::Relaxed);
                works
            }
            known => known == WORKS,
        }
    }

    /// Forgets how `peer` is reached, whose number another process has now.
    pub(super) fn forget(&self, peer: u32) {
        let shared = &self.shared;
        if let Some(state) = shared.cma.get(peer as usize) {
            let start = if shared.options.cma { UNKNOWN } else { REFUSED };
            state.store(start, Ordering::Relaxed);
        }
        lock(&shared.slots).forget(peer);
        if let Ok(xpmem) = &shared.xpmem {
            lock(xpmem).forget(peer);
        }
    }

    /// Lets peers reach this rank's `len` bytes at `address`: to be called once for each
    /// collective, since uses are counted. Keep the result until the peers are done; the pages are
    /// not migrated meanwhile. If no back end is enabled, it carries words that no peer can open.
    ///
    /// Costs nothing with XPMEM or CMA alone. With `mapped`, asks the kernel where the buffer lies
    /// (0.35 us), and blocks while its pages are migrated, which happens once.
    pub fn expose(&self, address: usize, len: usize) -> PublishedBuffer {
        self.expose_as(address, len, ExpectedUse::Once)
    }

    /// As [`expose`](Self::expose), for memory that peers will reach again and again: its pages are
    /// migrated at once where they may be, however short it is.
    pub fn expose_for_long(&self, address: usize, len: usize) -> PublishedBuffer {
        self.expose_as(address, len, ExpectedUse::Often)
    }

    /// As [`expose_for_long`](Self::expose_for_long), for memory of a window that some peers reach
    /// in no other way. Notes for reports why it is not migrated.
    pub fn expose_only_path(&self, address: usize, len: usize) -> PublishedBuffer {
        let published = self.expose_for_long(address, len);
        if let Some(why) = published.exposed.as_ref().and_then(|exposed| exposed.skipped) {
            let block = self.shared.segment.block(self.shared.me);
            block.note_limit(Means::Window, Limit::WindowInPlace { why });
        }
        published
    }

    /// As [`expose`](Self::expose), for memory that peers may reach again and again: what is not
    /// migrated yet is reached by address, and [`expose_for_long`](Self::expose_for_long) may
    /// migrate its pages while it is exposed so. Moves nothing.
    pub fn expose_in_place(&self, address: usize, len: usize) -> PublishedBuffer {
        self.expose_as(address, len, ExpectedUse::Later)
    }

    /// The words by which peers open memory at `address` that is exposed
    /// [in place](Self::expose_in_place), without a look at whether it is migrated already: then
    /// they reach it by address all the same.
    #[inline]
    pub fn words_in_place(&self, address: usize) -> [u64; 2] {
        let exposure = match (&self.shared.xpmem, &self.shared.mapped) {
            (Ok(_), _) => Exposure::by_address(Backend::Xpmem, address),
            (_, Ok(_)) => Exposure::in_place(address),
            _ if self.allows_cma() => Exposure::by_address(Backend::Cma, address),
            _ => return [0, 0],
        };
        to_words(&exposure, address)
    }

    /// As [`expose`](Self::expose), for memory of the library that is freed right after: its pages
    /// are not migrated, and the use is not counted.
    pub fn expose_for_now(&self, address: usize, len: usize) -> PublishedBuffer {
        self.expose_as(address, len, ExpectedUse::Never)
    }

    fn expose_as(&self, address: usize, len: usize, expected: ExpectedUse) -> PublishedBuffer {
        let exposed = (len > 0).then(|| self.exposed(address, len, expected)).flatten();
        self.publish(address, len, exposed)
    }

    /// As [`expose`](Self::expose) for a buffer that was exposed before and could be reached whole
    /// by windows, without asking the kernel whether it still lies there. A peer may open it, but
    /// must not load or store before [`confirm`](Self::confirm) has returned true; if it returns
    /// false, expose the buffer again and announce the new words to the peers. `None` for a buffer
    /// that is not known.
    pub fn recall(&self, address: usize, len: usize) -> Option<PublishedBuffer> {
        let exposed = if self.shared.xpmem.is_ok() {
            self.exposed(address, len, ExpectedUse::Once)?
        } else {
            self.recalled(address, len)?
        };
        Some(self.publish(address, len, Some(exposed)))
    }

    /// Whether a buffer that was [recalled](Self::recall) still lies where it was. One short system
    /// call; none with XPMEM, which works by address. A buffer that was just
    /// [exposed](Self::expose) needs no confirmation.
    pub fn confirm(&self, address: usize, len: usize, published: &PublishedBuffer) -> bool {
        match &published.exposed {
            Some(exposed) if exposed.exposure.backend == Backend::Mapped => {
                self.confirms(address, len, exposed)
            }
            _ => true,
        }
    }

    /// The buffer of `len` bytes that `peer` (its rank in the job) has exposed by these words.
    /// `None` when neither a window nor the kernel reaches it. The first use of a buffer blocks
    /// while pages are mapped; later ones find them in a cache.
    ///
    /// The same words of the same peer with the same length always mean the same: a buffer that was
    /// opened once may be kept instead of opened again, but use it only while the peer exposes it
    /// by these words.
    pub fn open(&self, peer: u32, words: [u64; 2], len: usize) -> Option<PeerBuffer> {
        let mut reached = PeerBuffer {
            peer,
            process: 0,
            address: words[1],
            len,
            window: None,
            kernel: None,
            may_move: false,
        };
        if len == 0 {
            return Some(reached);
        }
        let exposure = read_words(words, len, self.shared.page)?;
        reached.may_move = exposure.may_move;
        if !self.shared.segment.is_member(peer) {
            return None;
        }
        reached.window = self.window(peer, &exposure, len);
        if !reached.is_window() {
            if !self.cma_works(peer) {
                return None;
            }
            reached.process = self.shared.segment.block(peer).pid();
            reached.kernel = Some(self.clone());
        }
        Some(reached)
    }

    /// Whether any memory of `peer` can be opened, wherever it lies, as long as `peer` exposes it.
    pub fn reaches_all_of(&self, peer: u32) -> bool {
        let is_here = self.shared.segment.is_member(peer);
        is_here && (self.shared.xpmem.is_ok() || self.cma_works(peer))
    }

    /// After how many bytes that the kernel copies it pays to migrate the `len` bytes of a peer's
    /// buffer; `None` if this rank could not load and store them then.
    pub fn migration_pays_after(&self, len: usize) -> Option<u64> {
        let options = &self.shared.options;
        let each = len.max(options.mapped_min) as u64;
        self.shared.mapped.is_ok().then(|| u64::from(options.mapped_after).saturating_mul(each))
    }

    fn publish(&self, address: usize, len: usize, exposed: Option<Exposed>) -> PublishedBuffer {
        let words = exposed.as_ref().map_or([0, 0], |exposed| {
            let words = to_words(&exposed.exposure, address);
            let read = read_words(words, len, self.shared.page);
            debug_assert_eq!(read, Some(exposed.exposure), "{words:x?} of {len} bytes");
            words
        });
        PublishedBuffer { exposed, words }
    }

    /// See [`Direct::expose`](super::Direct::expose).
    pub(super) fn exposed(
        &self,
        address: usize,
        len: usize,
        expected: ExpectedUse,
    ) -> Option<Exposed> {
        let by_address = |backend| Exposed {
            exposure: Exposure::by_address(backend, address),
            _pins: [None, None],
            skipped: None,
        };
        if self.shared.xpmem.is_ok() {
            return Some(by_address(Backend::Xpmem));
        }
        if let Ok(mapped) = &self.shared.mapped {
            return Some(mapped.expose(address, len, expected));
        }
        self.allows_cma().then(|| by_address(Backend::Cma))
    }

    /// See [`Direct::recall`](super::Direct::recall).
    pub(super) fn recalled(&self, address: usize, len: usize) -> Option<Exposed> {
        self.shared.mapped.as_ref().ok()?.recall(address, len)
    }

    /// See [`Direct::confirm`](super::Direct::confirm).
    pub(super) fn confirms(&self, address: usize, len: usize, exposed: &Exposed) -> bool {
        let mapped = self.shared.mapped.as_ref();
        mapped.is_ok_and(|mapped| mapped.confirm(address, len, exposed))
    }

    /// See [`Direct::window`](super::Direct::window).
    pub(super) fn window(
        &self,
        peer: u32,
        exposure: &Exposure,
        len: usize,
    ) -> Option<MappedWindow> {
        let segment = &self.shared.segment;
        match exposure.backend {
            Backend::Cma => None,
            Backend::Mapped => lock(&self.shared.slots).window(segment, peer, exposure, len),
            Backend::Xpmem => {
                let number = segment.block(peer).xpmem();
                lock(self.shared.xpmem.as_ref().ok()?).window(peer, number, exposure, len)
            }
        }
    }

    /// This rank's migrated buffers, or why there are none.
    pub(super) fn mapped(&self) -> &Result<Registry, String> {
        &self.shared.mapped
    }

    /// Attachments that XPMEM has made, or why it cannot.
    pub(super) fn attached(&self) -> Result<u64, String> {
        match &self.shared.xpmem {
            Ok(xpmem) => Ok(lock(xpmem).attached()),
            Err(why) => Err(why.clone()),
        }
    }

    /// Notes a refusal that will not change. If the peer has died, waits until it is reaped.
    pub(super) fn remember(
        &self,
        peer: u32,
        result: Result<(), CopyRefusal>,
    ) -> Result<(), PeerAccessError> {
        result.map_err(|refusal| {
            if refusal.is_final() {
                self.shared.cma[peer as usize].store(REFUSED, Ordering::Relaxed);
                self.note_refusal(peer, &refusal);
            }
            if refusal.is_death() {
                let segment = &self.shared.segment;
                segment.wait_until_gone(peer, REAP_LIMIT);
            }
            PeerAccessError { peer, refusal }
        })
    }
}

pub(super) fn to_words(exposure: &Exposure, address: usize) -> [u64; 2] {
    let tag = match exposure.backend {
        Backend::Cma => 1 | u64::from(exposure.may_move) << 2,
        Backend::Mapped => {
            2 | u64::from(exposure.head > 0) << 2
                | u64::from(exposure.tail > 0) << 3
                | u64::from(exposure.slot) << 4
                | exposure.place << 12
        }
        Backend::Xpmem => 3,
    };
    [tag, address as u64]
}

/// The exposure of a buffer of `len` bytes that `words` carry. The bytes that a window leaves out
/// at the ends are always those on pages that the buffer covers only in part, so they follow from
/// the address.
pub(super) fn read_words(words: [u64; 2], len: usize, page: u64) -> Option<Exposure> {
    let [first, address] = words;
    let by_address = |backend| Exposure::by_address(backend, address as usize);
    match first & 3 {
        1 => Some(Exposure { may_move: first & 4 != 0, ..by_address(Backend::Cma) }),
        3 => Some(by_address(Backend::Xpmem)),
        2 => {
            let head = address.wrapping_neg() % page;
            let tail = address.wrapping_add(len as u64) % page;
            Some(Exposure {
                backend: Backend::Mapped,
                head: if first & 4 != 0 { head as u16 } else { 0 },
                tail: if first & 8 != 0 { tail as u16 } else { 0 },
                slot: (first >> 4 & 0xff) as u32,
                place: first >> 12,
                may_move: false,
            })
        }
        _ => None,
    }
}

/// A buffer of this rank that peers may reach as long as this lives.
#[derive(Debug)]
#[must_use = "peers may reach the buffer only as long as this lives"]
pub struct PublishedBuffer {
    exposed: Option<Exposed>,
    words: [u64; 2],
}

impl PublishedBuffer {
    /// What to send to the peers.
    pub fn words(&self) -> [u64; 2] {
        self.words
    }

    /// The bytes that a window can reach, of the buffer's `len` bytes.
    pub fn reachable(&self, len: usize) -> Range<usize> {
        let exposed = self.exposed.as_ref();
        exposed.map_or(0..0, |exposed| exposed.exposure.reachable(len))
    }

    /// Whether a window can reach all of the buffer's `len` bytes.
    pub fn is_whole(&self, len: usize) -> bool {
        self.reachable(len) == (0..len)
    }
}

/// A peer's buffer that this process can read and write. Cheap to clone; may outlive the
/// [`PeerAccess`] that made it.
///
/// # Contract
/// That of a [`MappedWindow`]: MPI's rules and the messages or stamps between the ranks order all
/// accesses; the peer exposes the buffer meanwhile; no view that is passed overlaps the bytes of
/// the peer's buffer that are copied.
#[derive(Debug, Clone)]
pub struct PeerBuffer {
    peer: u32,
    process: u32,
    address: u64,
    len: usize,
    window: Option<MappedWindow>,
    /// For the bytes that the window does not reach.
    kernel: Option<PeerAccess>,
    /// The peer may migrate these while it exposes them.
    may_move: bool,
}

impl PeerBuffer {
    /// Copies `len` bytes at `position` of the peer's buffer to `view` from `view_position` on.
    ///
    /// # Errors
    /// When the kernel has to copy and refuses: the peer has died, or its buffer is not mapped.
    ///
    /// # Panics
    /// If the peer's buffer or the view does not have these bytes.
    #[inline]
    pub fn load(
        &self,
        position: usize,
        view: &View,
        view_position: usize,
        len: usize,
    ) -> Result<(), PeerAccessError> {
        self.copy(PeerCopy::Load, position, view, view_position, len)
    }

    /// Copies `len` bytes of `view` from `view_position` on to `position` of the peer's buffer. The
    /// peer sees them once it sees a Release store that this thread makes afterwards.
    ///
    /// # Errors
    /// As for [`load`](Self::load).
    ///
    /// # Panics
    /// As [`load`](Self::load).
    #[inline]
    pub fn store(
        &self,
        position: usize,
        view: &View,
        view_position: usize,
        len: usize,
    ) -> Result<(), PeerAccessError> {
        self.copy(PeerCopy::Store, position, view, view_position, len)
    }

    /// `len` bytes at `position` of the peer's buffer, to be read (or written) in place; `None`
    /// unless a window reaches all of them. The region keeps the peer's memory mapped, but its
    /// content is valid only while the peer exposes the buffer.
    ///
    /// Typed shapes may be laid over it, but only these `len` bytes of the peer's buffer may be
    /// accessed.
    pub fn region(&self, position: usize, len: usize) -> Option<Region> {
        self.check(position, len);
        if len == 0 {
            return Some(Region::null());
        }
        let window = self.window.as_ref()?;
        let reachable = window.reachable();
        (reachable.start <= position && position + len <= reachable.end)
            .then(|| window.region(position))
    }

    /// Whether all of the buffer is reached by load and store, without the kernel.
    pub fn is_window(&self) -> bool {
        self.reachable() == (0..self.len)
    }

    /// Whether the peer may migrate it while it exposes it so.
    pub fn may_move(&self) -> bool {
        self.may_move
    }

    /// The bytes reached by load and store; the kernel copies the others.
    pub fn reachable(&self) -> Range<usize> {
        self.window.as_ref().map_or(0..0, MappedWindow::reachable)
    }

    #[inline]
    fn check(&self, position: usize, len: usize) {
        assert!(
            position.checked_add(len).is_some_and(|end| end <= self.len),
            "{len} bytes at {position} are not within a peer's buffer of {}",
            self.len
        );
    }

    // Inline always: the direction is a constant in both callers.
    #[inline(always)]
    fn copy(
        &self,
        direction: PeerCopy,
        position: usize,
        view: &View,
        view_position: usize,
        len: usize,
    ) -> Result<(), PeerAccessError> {
        self.check(position, len);
        check_range(view, view_position, len);
        let range = position..position + len;
        let [mapped, before, behind] = MappedWindow::parts(self.window.as_ref(), &range);
        if let Some(window) = &self.window
            && !mapped.is_empty()
        {
            let at = view_position + (mapped.start - position);
            match direction {
                PeerCopy::Load => window.load(mapped.start, view, at, mapped.len()),
                PeerCopy::Store => window.store(mapped.start, view, at, mapped.len()),
            }
        }
        for rest in [before, behind] {
            if !rest.is_empty() {
                self.by_kernel(direction, &rest, view, view_position + (rest.start - position))?;
            }
        }
        Ok(())
    }

    #[cold]
    fn by_kernel(
        &self,
        direction: PeerCopy,
        rest: &Range<usize>,
        view: &View,
        view_position: usize,
    ) -> Result<(), PeerAccessError> {
        let reach = self.kernel.as_ref().expect("there is no window on this");
        // Where the first byte of the view would lie in the peer.
        let origin =
            self.address.wrapping_add(rest.start as u64).wrapping_sub(view_position as u64);
        let range = view_position..view_position + rest.len();
        let gate = &reach.shared.segment.block(self.peer).migration;
        let is_announced = direction == PeerCopy::Store && self.may_move;
        let announced = is_announced.then(|| gate.announce_store());
        let result = cma::contiguous(direction, self.process, origin, view, range);
        drop(announced);
        reach.remember(self.peer, result)
    }
}
