//! [`ExposureBoard`]: post, start, complete and wait of the ranks of a node (jiang-2004, 3.3.3;
//! MPI 5.0, 12.5.2).
//!
//! The thesis keeps a bit vector at each origin, in which a target sets its bit when it posts.
//! Bits must be cleared between epochs, and a target may post again before the origin has cleared
//! its bit. A board has counts instead, which only grow: how often this target has posted to this
//! origin, and how often this origin has completed at this target. Nothing is ever cleared.
//!
//! | count | in the row of | one for each | written in | read in |
//! |---|---|---|---|---|
//! | `posts` | the target | origin | post, by the target | complete or before, by the origin |
//! | [`CompletionLine`] | the target | origin | complete, by the origin | wait, by the target |
//!
//! Each side counts its own epochs with each peer, in memory of its own ([`EpochCounts`]). Epochs
//! of a pair match in order (MPI 5.0, 12.5.2): the nth that the origin starts is the nth that the
//! target posts.
//!
//! **An origin may run ahead** ([`EpochCounts::may_run_ahead`]): it may complete its nth epoch
//! before the target has posted it, if the target has posted all before (MPI 5.0, 12.5.2: puts may
//! be buffered, so that complete does not block). A short put of such an epoch lies in the line of
//! the completion, and the target carries it out when it waits. So ranks that expose their memory
//! to one another and then access it wait once in an epoch, not twice.
//!
//! A pair has two completion lines, which epochs use in turn. The origin writes that of
//! epoch n only once the target has posted n - 1, when it has done with n - 2, which used the same
//! line. The target finds epoch n - 1 in the other. So each side knows by equality which epoch a
//! count is of, although the counts wrap.
//!
//! **Lines that move.** The posts of a target lie together, and its core keeps them until an origin
//! looks. A completion says how often its origin, as a target, has posted to the one that reads
//! it. So ranks that both post and complete never look at posts, and one line moves from each to
//! each in an epoch: with the count, and with the put. The origin keeps the put until it completes:
//! were it in the line before, a target that polls would pull the line away between the two writes,
//! and both would wait for it twice. A rank that has waited prefetches the line of its own next
//! completion: the peer has a copy, from the epoch before the last, which a store would have to
//! invalidate first. Writing a count publishes (Release) what its
//! writer did to either memory before, and reading it acquires that (SYNC exposure).

#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, not(loom)))]
mod tests;

use crate::hint::fetch_for_writing;
use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// The most bytes of a put that an origin leaves in its completion.
pub const BUFFERED_PUT: usize = 16;

/// A put that the target carries out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BufferedPut {
    /// Offset in the target's part of the window.
    pub offset: u64,
    /// Number of bytes, from 1 to [`BUFFERED_PUT`].
    pub bytes: usize,
    /// The bytes, and others behind them.
    pub data: [u8; BUFFERED_PUT],
}

/// Posts in a line.
const POSTS: usize = 16;

/// A cache line of posts. Zeroed memory is a target that has done nothing yet.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct PostLine([AtomicU32; POSTS]);

/// What an origin has completed at a target: the last epoch with an even number, or the last with
/// an odd one. Zeroed memory is an origin that has done nothing yet.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct CompletionLine {
    /// A [`Stamp`].
    stamp: AtomicU64,
    /// Where the put goes.
    offset: AtomicU64,
    data: [AtomicU64; BUFFERED_PUT / 8],
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<PostLine>() == 64 && size_of::<CompletionLine>() == 64);

/// Which epoch was completed. Bits 0 to 31: its number. Bits 32 to 39: bytes of its put, 0 if it
/// has none. Bits 40 to 63: how often the origin, as a target, has posted to the rank that reads
/// this.
#[derive(Clone, Copy)]
struct Stamp(u64);

/// Values of the count of posts in a stamp, which is known modulo this.
const STAMPED_POSTS: u32 = 1 << 24;

impl Stamp {
    fn new(epoch: u32, put_bytes: u8, posts: u32) -> Stamp {
        Stamp(u64::from(epoch) | u64::from(put_bytes) << 32 | u64::from(posts) << 40)
    }

    fn epoch(self) -> u32 {
        self.0 as u32
    }

    fn put_bytes(self) -> usize {
        (self.0 >> 32) as u8 as usize
    }

    /// The count of posts, of which `known` were known. Few have come since.
    fn posts(self, known: u32) -> u32 {
        let stamped = (self.0 >> 40) as u32;
        known.wrapping_add(stamped.wrapping_sub(known) % STAMPED_POSTS)
    }
}

impl PostLine {
    /// A target that has done nothing yet.
    #[allow(clippy::new_without_default)] // no const new under loom; no caller needs Default
    pub fn new() -> PostLine {
        PostLine(std::array::from_fn(|_| AtomicU32::new(0)))
    }
}

impl CompletionLine {
    /// An origin that has done nothing yet.
    #[allow(clippy::new_without_default)] // as above
    pub fn new() -> CompletionLine {
        CompletionLine {
            stamp: AtomicU64::new(0),
            offset: AtomicU64::new(0),
            data: std::array::from_fn(|_| AtomicU64::new(0)),
        }
    }

    /// By the origin: the put of the epoch that it will publish.
    fn write(&self, put: &BufferedPut) {
        // Relaxed: published by the stamp.
        self.offset.store(put.offset, Ordering::Relaxed);
        for (word, bytes) in self.data.iter().zip(put.data.chunks_exact(8)) {
            let bytes = bytes.try_into().expect("8 bytes");
            word.store(u64::from_ne_bytes(bytes), Ordering::Relaxed);
        }
    }

    /// By the target, which has acquired the stamp: the put of this many bytes.
    fn read(&self, bytes: usize) -> BufferedPut {
        let mut data = [0; BUFFERED_PUT];
        for (word, bytes) in self.data.iter().zip(data.chunks_exact_mut(8)) {
            bytes.copy_from_slice(&word.load(Ordering::Relaxed).to_ne_bytes());
        }
        BufferedPut {
            offset: self.offset.load(Ordering::Relaxed),
            bytes: bytes.min(BUFFERED_PUT),
            data,
        }
    }
}

/// The counts of a window among the ranks of a node: a view of lines in shared memory.
#[derive(Debug, Clone, Copy)]
pub struct ExposureBoard<'a> {
    posts: &'a [PostLine],
    completions: &'a [CompletionLine],
    ranks: u32,
}

/// One rank's epochs with each of its peers: what it counts of its own, and where the counts of
/// the board are.
#[derive(Debug)]
pub struct EpochCounts<'a> {
    peers: Vec<Peer<'a>>,
}

/// The epochs with one peer.
#[derive(Debug)]
struct Peer<'a> {
    exposures: Exposures<'a>,
    accesses: Accesses<'a>,
}

/// The exposure epochs for one origin.
#[derive(Debug)]
struct Exposures<'a> {
    /// How many have been posted.
    posted: u32,
    /// Where this rank says so.
    posts: &'a AtomicU32,
    completions: [&'a CompletionLine; 2],
}

/// The access epochs with one target.
#[derive(Debug)]
struct Accesses<'a> {
    /// How many have been started.
    started: u32,
    /// How many the target has posted, as far as is known.
    posted: u32,
    /// One is under way.
    is_open: bool,
    /// The put that its completion will publish; one of no bytes is none.
    put: BufferedPut,
    /// Where the target says how often it has posted.
    posts: &'a AtomicU32,
    completions: [&'a CompletionLine; 2],
}

impl<'a> ExposureBoard<'a> {
    /// Number of lines of posts that a board for `ranks` ranks has.
    pub fn post_lines(ranks: u32) -> usize {
        ranks as usize * Self::lines_of_row(ranks)
    }

    /// Number of lines of completions that a board for `ranks` ranks has.
    pub fn completion_lines(ranks: u32) -> usize {
        2 * ranks as usize * ranks as usize
    }

    /// Bytes of all lines of a board for `ranks` ranks; `None` if they are more than an address can
    /// count.
    pub fn bytes(ranks: u32) -> Option<usize> {
        let posts = Self::post_lines(ranks).checked_mul(size_of::<PostLine>())?;
        let completions = Self::completion_lines(ranks).checked_mul(size_of::<CompletionLine>())?;
        posts.checked_add(completions)
    }

    /// The board in these lines.
    ///
    /// # Panics
    /// If there are not as many as [`post_lines`](Self::post_lines) and
    /// [`completion_lines`](Self::completion_lines) say.
    pub fn new(
        posts: &'a [PostLine],
        completions: &'a [CompletionLine],
        ranks: u32,
    ) -> ExposureBoard<'a> {
        let lines = (posts.len(), completions.len());
        let needed = (Self::post_lines(ranks), Self::completion_lines(ranks));
        assert_eq!(lines, needed, "board of {ranks} ranks");
        ExposureBoard { posts, completions, ranks }
    }

    fn lines_of_row(ranks: u32) -> usize {
        (ranks as usize).div_ceil(POSTS)
    }

    /// How often `target` has posted to `origin`. Only the target writes it.
    fn posts(&self, target: u32, origin: u32) -> &'a AtomicU32 {
        assert!(origin < self.ranks, "rank {origin} of {}", self.ranks);
        let (line, at) = (origin as usize / POSTS, origin as usize % POSTS);
        &self.posts[target as usize * Self::lines_of_row(self.ranks) + line].0[at]
    }

    /// That `origin` has completed an even and an odd epoch at `target`. Only the origin writes it.
    fn completions(&self, target: u32, origin: u32) -> [&'a CompletionLine; 2] {
        assert!(origin < self.ranks, "rank {origin} of {}", self.ranks);
        // The lines that a target polls in an epoch lie side by side.
        let line = |row| &self.completions[row * self.ranks as usize + origin as usize];
        [line(2 * target as usize), line(2 * target as usize + 1)]
    }

    /// The epochs of rank `me`, before its first one.
    ///
    /// # Panics
    /// If there is no such rank.
    pub fn counts(&self, me: u32) -> EpochCounts<'a> {
        let peer = |peer| Peer {
            exposures: Exposures {
                posted: 0,
                posts: self.posts(me, peer),
                completions: self.completions(me, peer),
            },
            accesses: Accesses {
                started: 0,
                posted: 0,
                is_open: false,
                put: BufferedPut::default(),
                posts: self.posts(peer, me),
                completions: self.completions(peer, me),
            },
        };
        EpochCounts { peers: (0..self.ranks).map(peer).collect() }
    }
}

/// The line of this epoch.
#[inline(always)]
fn of_epoch<'a>(completions: &[&'a CompletionLine; 2], epoch: u32) -> &'a CompletionLine {
    completions[epoch as usize % 2]
}

/// For the target: exposure epochs.
impl EpochCounts<'_> {
    /// `MPI_Win_post`: exposes this rank's memory to `origins`, each named once. Calls `wake` with
    /// each of them. The last epoch has ended ([`is_complete`](Self::is_complete) for each of its
    /// origins). With `MPI_MODE_NOCHECK` too: the counts of both sides must agree later.
    #[inline(always)]
    pub fn post(&mut self, origins: &[u32], mut wake: impl FnMut(u32)) {
        for &origin in origins {
            let exposures = &mut self.peers[origin as usize].exposures;
            exposures.posted = exposures.posted.wrapping_add(1);
            // SYNC exposure: pairs with the Acquire in `has_all_posts`.
            exposures.posts.store(exposures.posted, Ordering::Release);
            wake(origin);
        }
    }

    /// For `MPI_Win_wait` and `MPI_Win_test`: true when `origin` has completed the epoch that was
    /// last posted to it, so that what it did is visible. Does not block.
    #[inline(always)]
    pub fn is_complete(&self, origin: u32) -> bool {
        let exposures = &self.peers[origin as usize].exposures;
        let completion = of_epoch(&exposures.completions, exposures.posted);
        // SYNC exposure: pairs with the Release in `complete`.
        Stamp(completion.stamp.load(Ordering::Acquire)).epoch() == exposures.posted
    }

    /// Notes what else the completion of `origin` says, in an epoch that
    /// [is complete](Self::is_complete). Returns the put that the origin has left: to be carried
    /// out once, before the next post.
    #[inline(always)]
    pub fn take_completion(&mut self, origin: u32) -> Option<BufferedPut> {
        let Peer { exposures, accesses } = &mut self.peers[origin as usize];
        let completion = of_epoch(&exposures.completions, exposures.posted);
        // Relaxed: acquired by `is_complete`.
        let stamp = Stamp(completion.stamp.load(Ordering::Relaxed));
        accesses.posted = stamp.posts(accesses.posted);
        let next = of_epoch(&accesses.completions, accesses.started.wrapping_add(1));
        fetch_for_writing(std::ptr::from_ref(next).cast(), size_of::<CompletionLine>());
        let bytes = stamp.put_bytes();
        (bytes > 0).then(|| completion.read(bytes))
    }
}

/// For the origin: access epochs.
impl EpochCounts<'_> {
    /// `MPI_Win_start`: begins an access epoch with `targets`, each named once. Does not block:
    /// before its first access to a target, the caller awaits [`is_posted`](Self::is_posted).
    #[inline(always)]
    pub fn start(&mut self, targets: &[u32]) {
        for &target in targets {
            let accesses = &mut self.peers[target as usize].accesses;
            accesses.started = accesses.started.wrapping_add(1);
            accesses.is_open = true;
            accesses.put.bytes = 0;
        }
    }

    /// True when `target` has posted the epoch that was last started with it: its memory may be
    /// accessed, and what it wrote before is visible. Does not block.
    #[inline(always)]
    pub fn is_posted(&mut self, target: u32) -> bool {
        self.peers[target as usize].accesses.has_all_posts(0)
    }

    /// True when `target` has posted the epoch that was last started with it, or the one before:
    /// the epoch may be completed, with a [put](Self::buffer_put) at most. The target has read what
    /// was in the place that is used next. Does not block.
    #[inline(always)]
    pub fn may_run_ahead(&mut self, target: u32) -> bool {
        self.peers[target as usize].accesses.has_all_posts(1)
    }

    /// Leaves a put to `target` in the completion of the epoch that is under way. False, and
    /// nothing is done, if there is none, or it has a put already, or it must not
    /// [run ahead](Self::may_run_ahead).
    ///
    /// # Panics
    /// If the put has no bytes, or more than [`BUFFERED_PUT`].
    #[inline(always)]
    pub fn buffer_put(&mut self, target: u32, put: &BufferedPut) -> bool {
        assert!((1..=BUFFERED_PUT).contains(&put.bytes), "{put:?}");
        let accesses = &mut self.peers[target as usize].accesses;
        let has_room = accesses.is_open && accesses.put.bytes == 0;
        let is_left = has_room && accesses.has_all_posts(1);
        if is_left {
            accesses.put = *put;
        }
        is_left
    }

    /// `MPI_Win_complete`: ends the access epoch at `targets`. Each of them
    /// [is posted](Self::is_posted), and all accesses to it are done; or the epoch
    /// [may run ahead](Self::may_run_ahead), and has no access but the buffered put. Calls `wake`
    /// with each.
    #[inline(always)]
    pub fn complete(&mut self, targets: &[u32], mut wake: impl FnMut(u32)) {
        for &target in targets {
            let Peer { exposures, accesses } = &mut self.peers[target as usize];
            debug_assert!(accesses.has_all_posts(1), "target {target}");
            accesses.is_open = false;
            let put = &accesses.put;
            let stamp = Stamp::new(accesses.started, put.bytes as u8, exposures.posted);
            let completion = of_epoch(&accesses.completions, accesses.started);
            if put.bytes > 0 {
                completion.write(put);
            }
            // SYNC exposure: pairs with the Acquire in `is_complete`.
            completion.stamp.store(stamp.0, Ordering::Release);
            wake(target);
        }
    }
}

impl Accesses<'_> {
    /// Whether the target has posted all epochs that were started with it but `but`. Looks at its
    /// posts if that is not known.
    #[inline(always)]
    fn has_all_posts(&mut self, but: u32) -> bool {
        if self.started.wrapping_sub(self.posted) > but {
            // SYNC exposure: pairs with the Release in `post`.
            self.posted = self.posts.load(Ordering::Acquire);
        }
        self.started.wrapping_sub(self.posted) <= but
    }
}

#[cfg(all(test, not(loom)))]
impl EpochCounts<'_> {
    /// Goes on after this many epochs with `peer`, of which no one has looked at the posts.
    pub(super) fn begin_at(&mut self, peer: u32, epochs: u32) {
        let Peer { exposures, accesses } = &mut self.peers[peer as usize];
        exposures.posted = epochs;
        accesses.started = epochs;
        exposures.posts.store(epochs, Ordering::Relaxed);
    }
}
