//! Ranks that all run the same code, each in a process of its own, and meet at barriers: what
//! collectives do.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::kit::{self, MIB, Memory, PAGE, finish, job, mapped, need_mapped, skip, start};
use crate::mock::{Mock, Shared};
use mica_channel::direct::{Direct, DirectOptions, PeerAccess, PublishedBuffer};
use mica_node::segment::JobSegment;

/// Bytes of memory that a rank has for buffers.
pub const ROOM: usize = 6 * MIB;

/// What reaches the peers in a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Means {
    Cma,
    /// Moved by a process of one thread: with the pages at the ends.
    Mapped,
    /// Moved by a process of two: without them.
    MappedByThreads,
    Xpmem,
}

/// Most ranks of a test.
pub const RANKS: usize = 6;

/// Shared by all ranks. Zero bytes are an empty one.
#[repr(C)]
struct Board {
    arrived: AtomicU64,
    failed: AtomicU64,
    /// What each rank announces to the others.
    words: [[AtomicU64; 4]; RANKS],
}

/// One rank.
pub struct Rank {
    pub rank: u32,
    pub ranks: u32,
    pub means: Means,
    pub reach: PeerAccess,
    pub direct: Direct,
    /// Memory for buffers, [`ROOM`] bytes.
    pub memory: Memory,
    pub segment: Arc<JobSegment>,
    board: &'static Board,
    passed: Cell<u64>,
}

impl Drop for Rank {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.board.failed.store(1, Ordering::Relaxed);
        }
    }
}

impl Rank {
    fn new(
        segment: &Arc<JobSegment>,
        rank: u32,
        ranks: u32,
        means: Means,
        board: &'static Board,
        shared: Option<Shared>,
    ) -> Rank {
        segment.claim(rank).expect("free");
        let direct = match (means, shared) {
            (Means::Cma, _) => Direct::new(segment, rank, &DirectOptions::CMA),
            (Means::Xpmem, Some(shared)) => {
                let device = Arc::new(Mock::new(shared));
                Direct::with_xpmem(segment, rank, &DirectOptions::CMA, device).expect("the mock")
            }
            _ => Direct::new(segment, rank, &mapped()),
        };
        let reach = direct.reach();
        if !reach.cma_works(rank) {
            skip("process_vm_readv");
        }
        Rank {
            rank,
            ranks,
            means,
            reach,
            direct,
            memory: match shared {
                Some(shared) => shared.memory.part(rank as usize * ROOM, ROOM),
                None => Memory::map(ROOM),
            },
            segment: Arc::clone(segment),
            board,
            passed: Cell::new(0),
        }
    }

    pub fn peers(&self) -> impl Iterator<Item = u32> {
        let me = self.rank;
        (0..self.ranks).filter(move |&peer| peer != me)
    }

    /// Returns once all ranks have reached this barrier.
    pub fn barrier(&self) {
        // SYNC board: synchronizes with the other ranks' arrivals, so that what they stored before
        // is seen after.
        self.board.arrived.fetch_add(1, Ordering::AcqRel);
        self.passed.set(self.passed.get() + 1);
        let all = self.passed.get() * u64::from(self.ranks);
        // SYNC board
        while self.board.arrived.load(Ordering::Acquire) < all {
            assert_eq!(self.board.failed.load(Ordering::Relaxed), 0, "another rank has failed");
            std::thread::yield_now();
        }
    }

    /// Announces a word to the others.
    pub fn announce_word(&self, which: usize, word: u64) {
        self.board.words[self.rank as usize][which].store(word, Ordering::Relaxed);
    }

    /// The word that another rank announced before the last barrier.
    pub fn announced_word(&self, rank: u32, which: usize) -> u64 {
        self.board.words[rank as usize][which].load(Ordering::Relaxed)
    }

    /// Exposes a buffer as often as it takes to have it moved, and announces it.
    pub fn publish(&self, buffer: Memory) -> PublishedBuffer {
        let mut published = self.reach.expose(buffer.at, buffer.len);
        for _ in 0..kit::AFTER {
            // Again only once the last one is gone: what is exposed is not moved.
            drop(published);
            published = self.reach.expose(buffer.at, buffer.len);
        }
        self.announce(&published, buffer.len);
        published
    }

    /// Announces an exposure to the others.
    pub fn announce(&self, published: &PublishedBuffer, len: usize) {
        let words = published.words();
        self.announce_word(0, words[0]);
        self.announce_word(1, words[1]);
        self.announce_word(2, len as u64);
        self.announce_word(3, u64::from(published.is_whole(len)));
    }

    /// What another rank announced: its words, the length, and whether windows reach all of it.
    pub fn announced(&self, rank: u32) -> ([u64; 2], usize, bool) {
        let word = |which| self.announced_word(rank, which);
        ([word(0), word(1)], word(2) as usize, word(3) == 1)
    }
}

/// Runs `body` on `ranks` ranks.
pub fn run(ranks: usize, means: Means, body: fn(&mut Rank)) {
    assert!(ranks <= RANKS);
    if matches!(means, Means::Mapped | Means::MappedByThreads) {
        need_mapped();
    }
    let segment = job(ranks);
    let both = libc::PROT_READ | libc::PROT_WRITE;
    let page = Memory::map_as(0, PAGE, both, libc::MAP_SHARED, -1);
    assert!(size_of::<Board>() <= PAGE);
    // SAFETY: a page of zeros that is never unmapped; a board is atomics only.
    let board: &'static Board = unsafe { &*std::ptr::with_exposed_provenance(page.at) };
    let shared = (means == Means::Xpmem).then(|| Shared::new(ranks * ROOM));
    let pids: Vec<i32> = (0..ranks as u32)
        .map(|rank| {
            let segment = Arc::clone(&segment);
            let run = move || {
                let mut rank = Rank::new(&segment, rank, ranks as u32, means, board, shared);
                if means == Means::MappedByThreads {
                    std::thread::spawn(|| std::thread::sleep(std::time::Duration::from_secs(60)));
                }
                body(&mut rank);
            };
            start(run, 50)
        })
        .collect();
    let ends: Vec<i32> = pids.into_iter().map(finish).collect();
    if ends.contains(&kit::SKIP) {
        skip("as a rank says");
    }
    assert!(ends.iter().all(|&end| end == 0), "{ends:?}");
}
