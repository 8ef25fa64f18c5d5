//! Where memory comes from: which blocks of glibc's malloc have pages of their own, and which lie
//! in heaps of arenas.
//!
//! glibc maps a block of 128 KiB or more (M_MMAP_THRESHOLD, which grows to 32 MiB as such blocks
//! are freed) by itself. The mapping begins with the block's header (malloc/malloc.c, `struct
//! malloc_chunk`): two words, the offset of the header in the mapping, which is 0, and the size
//! with the flag IS_MMAPPED. An aligned block has its header just before a page boundary, with the
//! offset as its first word. The search for a header goes from page boundary to page boundary,
//! backwards from a buffer. Memory that looks like a block but is none, because the program has
//! stored such numbers there, does no harm: nothing is written to a header, and the program's calls
//! on memory of its own are watched as well (`hooks`).
//!
//! The kernel does the reading (`process_vm_readv` on this process), since another thread may unmap
//! the memory meanwhile.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use mica_memory::try_with_capacity;
use mica_node::procmap::{MappedArea, ProcMap};

const PAGE: usize = 4096;

/// A block's header and the words before it: an aligned block's header ends at a page boundary,
/// others' begin there.
const HEADER: usize = 16;

/// Heaps of arenas other than the main one start at multiples of this (HEAP_MAX_SIZE).
const ARENA_HEAP: usize = 64 << 20;

const IS_MMAPPED: usize = 2;
const FLAGS: usize = 7;

/// Bytes searched backwards from a buffer (0.15 us a page: 40 ms). A block that begins further away
/// is found if the mappings below it are blocks, too.
const WALK: usize = 1 << 30;

/// Boundaries read by one system call at most.
const BATCH: usize = 512;

/// Number of blocks remembered, and of stretches without a block.
const REMEMBERED: usize = 64;

/// How often a stretch without a block is assumed to have none before it is searched again.
const TRUSTED: u32 = 64;

/// Blocks of malloc found so far.
#[derive(Debug, Default)]
pub(super) struct MallocBlocks {
    /// The mappings of blocks, each to be confirmed by its header.
    known: Vec<Range<usize>>,
    /// Stretches where no header was found, and how often that is still assumed.
    fruitless: Vec<(Range<usize>, u32)>,
    /// `/proc/self/mem`, where `process_vm_readv` is refused.
    memory: Option<File>,
}

/// A header found at a boundary: what its block's mapping would be.
fn mapping_of(boundary: usize, words: &[usize; 4]) -> [Option<Range<usize>>; 2] {
    let whole = |start: usize, header: usize, size: usize| {
        let is_mapped = size & FLAGS == IS_MMAPPED && start.is_multiple_of(PAGE);
        let end = header.checked_add(size & !FLAGS)?;
        // Newer versions exclude one or two words from the size.
        let last = end.checked_next_multiple_of(PAGE)?;
        (is_mapped && last - end <= HEADER && last >= start + 2 * PAGE).then_some(start..last)
    };
    let aligned = boundary.checked_sub(HEADER).and_then(|header| {
        let start = header.checked_sub(words[0])?;
        (words[0] > 0).then(|| whole(start, header, words[1]))?
    });
    let plain = (words[2] == 0).then(|| whole(boundary, boundary, words[3]));
    [aligned, plain.flatten()]
}

impl MallocBlocks {
    /// The mapping of the block that `pages` lie in. `is_ours` says which areas of files are
    /// migrated memory.
    pub fn find(
        &mut self,
        maps: &ProcMap,
        pages: &Range<usize>,
        is_ours: impl Fn(&MappedArea) -> bool,
    ) -> Option<Range<usize>> {
        let holds = |block: &Range<usize>| block.start <= pages.start && pages.end <= block.end;
        let is_data = |area: &MappedArea| area.is_private_data() || is_ours(area);
        if let Some(at) = self.known.iter().position(holds) {
            let block = self.known[at].clone();
            if self.is_headed(&block) && is_whole(maps, &block, is_data) {
                return Some(block);
            }
            self.known.swap_remove(at);
        }
        if let Some((_, trust)) = self
            .fruitless
            .iter_mut()
            .find(|(part, trust)| *trust > 0 && part.start <= pages.start && pages.end <= part.end)
        {
            *trust -= 1;
            return None;
        }
        let first = pages.start & !(PAGE - 1);
        let low = start_of_run(maps, first, is_data);
        let mut fits = |block: &Range<usize>| holds(block) && is_whole(maps, block, is_data);
        let found =
            self.walk_back(first, low, &mut fits).or_else(|| self.walk_on(low, first, &mut fits));
        let remember = |list: usize| list < REMEMBERED;
        match &found {
            Some(block) => {
                if !remember(self.known.len()) {
                    self.known.remove(0);
                }
                self.known.push(block.clone());
            }
            None => {
                self.fruitless.retain(|(_, trust)| *trust > 0);
                if !remember(self.fruitless.len()) {
                    self.fruitless.remove(0);
                }
                let low = low.max(first.saturating_sub(WALK));
                self.fruitless.push((low..pages.end, TRUSTED));
            }
        }
        found
    }

    /// Whether some of these pages lie in a heap of an arena other than the main one.
    pub fn in_arena(&mut self, maps: &ProcMap, pages: &Range<usize>) -> bool {
        let first = pages.start & !(ARENA_HEAP - 1);
        (first..pages.end).step_by(ARENA_HEAP).any(|base| self.is_arena_heap(maps, base))
    }

    /// Whether a `heap_info` seems to be at `base`: arena, previous heap, size, size that can be
    /// used. In doubt, true: the buffer is not migrated then.
    fn is_arena_heap(&mut self, maps: &ProcMap, base: usize) -> bool {
        let is_data = matches!(maps.at(base), Ok(Some(area)) if area.is_private_data());
        if !is_data {
            return false;
        }
        // Two words before this boundary, and two behind it.
        let words = self.peek(&[base + HEADER], base);
        let Some(&[arena, previous, size, usable]) = words.first() else {
            return true;
        };
        // The arena itself lies in its first heap.
        let first = previous == 0 && arena > base && arena < base + PAGE;
        let is_other = arena & !(ARENA_HEAP - 1) != base;
        let later = previous != 0 && previous.is_multiple_of(ARENA_HEAP) && is_other;
        (first || later)
            && (1..=ARENA_HEAP).contains(&size)
            && size <= usable
            && usable <= ARENA_HEAP
    }

    /// Searches the page boundaries from `first` down to `low`.
    fn walk_back(
        &mut self,
        first: usize,
        low: usize,
        fits: &mut impl FnMut(&Range<usize>) -> bool,
    ) -> Option<Range<usize>> {
        let low = low.max(first.saturating_sub(WALK));
        let mut at = first;
        let mut batch = 1;
        loop {
            let count = ((at - low) / PAGE + 1).min(batch);
            let boundaries: Vec<usize> = (0..count).map(|i| at - i * PAGE).collect();
            let words = self.peek(&boundaries, low);
            for (boundary, words) in boundaries.iter().zip(&words) {
                let found = mapping_of(*boundary, words);
                if let Some(block) = found.into_iter().flatten().find(&mut *fits) {
                    return Some(block);
                }
            }
            if words.len() < count || count * PAGE > at - low {
                return None;
            }
            at -= count * PAGE;
            batch = (batch * 8).min(BATCH);
        }
    }

    /// Goes from block to block upwards, from the start of a stretch that may consist of blocks.
    fn walk_on(
        &mut self,
        low: usize,
        first: usize,
        fits: &mut impl FnMut(&Range<usize>) -> bool,
    ) -> Option<Range<usize>> {
        let mut at = low;
        for _ in 0..BATCH {
            let words = *self.peek(&[at], at).first()?;
            let block = mapping_of(at, &words)[1].clone()?;
            if fits(&block) {
                return Some(block);
            }
            at = block.end;
            if at > first {
                return None;
            }
        }
        None
    }

    /// Whether a header still says that a block's mapping is this one.
    fn is_headed(&mut self, block: &Range<usize>) -> bool {
        let plain = self.peek(&[block.start], block.start);
        plain.first().is_some_and(|words| mapping_of(block.start, words)[1].as_ref() == Some(block))
    }

    /// The two words before each boundary (zeros where that is below `low`) and the two words
    /// behind it, up to the first boundary that cannot be read.
    fn peek(&mut self, boundaries: &[usize], low: usize) -> Vec<[usize; 4]> {
        let length = boundaries.len() * 2 * HEADER;
        let Ok(mut bytes) = try_with_capacity(length) else {
            return Vec::new();
        };
        bytes.resize(length, 0u8);
        let mut local = Vec::with_capacity(boundaries.len());
        let mut remote = Vec::with_capacity(boundaries.len());
        for (to, &boundary) in bytes.chunks_exact_mut(2 * HEADER).zip(boundaries) {
            let skip = if boundary > low { 0 } else { HEADER };
            local.push(libc::iovec {
                iov_base: to[skip..].as_mut_ptr().cast(),
                iov_len: to.len() - skip,
            });
            remote.push(libc::iovec {
                iov_base: std::ptr::without_provenance_mut(boundary - HEADER + skip),
                iov_len: 2 * HEADER - skip,
            });
        }
        // SAFETY: the kernel writes to `bytes`, which the local pieces are disjoint parts of; it
        // checks the other side.
        let got = unsafe {
            libc::process_vm_readv(
                std::process::id() as i32,
                local.as_ptr(),
                local.len() as u64,
                remote.as_ptr(),
                remote.len() as u64,
                0,
            )
        };
        let mut left = match usize::try_from(got) {
            Ok(got) => got,
            Err(_) => self.read_file(&mut bytes, &remote),
        };
        let mut words = Vec::with_capacity(boundaries.len());
        for (piece, from) in bytes.chunks_exact(2 * HEADER).zip(&remote) {
            if left < from.iov_len {
                break;
            }
            left -= from.iov_len;
            words.push(std::array::from_fn(|i| {
                usize::from_ne_bytes(piece[i * 8..i * 8 + 8].try_into().expect("8 bytes"))
            }));
        }
        words
    }

    /// As `process_vm_readv` where that is refused; bytes read.
    fn read_file(&mut self, bytes: &mut [u8], pieces: &[libc::iovec]) -> usize {
        if self.memory.is_none() {
            self.memory = File::open("/proc/self/mem").ok();
        }
        let Some(memory) = &self.memory else {
            return 0;
        };
        let mut sum = 0;
        for (to, from) in bytes.chunks_exact_mut(2 * HEADER).zip(pieces) {
            let skip = to.len() - from.iov_len;
            let at = from.iov_base.addr() as u64;
            if memory.read_exact_at(&mut to[skip..], at).is_err() {
                break;
            }
            sum += from.iov_len;
        }
        sum
    }
}

/// The lowest address from which on everything up to `at` is mapped as data, at most [`WALK`] away.
fn start_of_run(maps: &ProcMap, at: usize, is_data: impl Fn(&MappedArea) -> bool) -> usize {
    let start_of = |address: usize| match maps.at(address) {
        Ok(Some(area)) if is_data(&area) => Some(area.addresses.start),
        _ => None,
    };
    let mut low = start_of(at).unwrap_or(at);
    while low > at.saturating_sub(WALK) {
        match start_of(low - 1) {
            Some(lower) => low = lower,
            None => break,
        }
    }
    low
}

/// Whether all of a block is mapped as data.
fn is_whole(maps: &ProcMap, block: &Range<usize>, is_data: impl Fn(&MappedArea) -> bool) -> bool {
    let mut at = block.start;
    while at < block.end {
        match maps.at(at) {
            Ok(Some(area)) if is_data(&area) => at = area.addresses.end,
            _ => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block_of(address: usize, len: usize) -> Option<Range<usize>> {
        let maps = ProcMap::open().ok()?;
        let pages = address & !(PAGE - 1)..(address + len).next_multiple_of(PAGE);
        MallocBlocks::default().find(&maps, &pages, |_| false)
    }

    #[test]
    fn finds_blocks_of_malloc_from_any_part_of_them() {
        if let Err(why) = ProcMap::open() {
            return eprintln!("skipped: PROCMAP_QUERY: {why}");
        }
        let block = vec![1u8; 64 << 20];
        let at = block.as_ptr().addr();
        let whole = block_of(at, block.len()).expect("a block");
        assert_eq!(whole.start, at & !(PAGE - 1));
        for part in [100, 4096, 70_000, 20 << 20, (64 << 20) - 5000] {
            assert_eq!(block_of(at + part, 4000), Some(whole.clone()), "at {part}");
        }
        // A range beyond its end has no block.
        assert_eq!(block_of(whole.end - PAGE, 2 * PAGE), None);
    }

    #[test]
    fn a_thread_allocates_in_an_arena_that_is_recognised() {
        let Ok(maps) = ProcMap::open() else {
            return eprintln!("skipped: no PROCMAP_QUERY");
        };
        // Tests run in threads of their own, so small blocks come from such an arena, not from the
        // heap of the main one.
        let block = Box::new([1u8; 100]);
        let at = block.as_ptr().addr() & !4095;
        let mut name = [0u8; 64];
        let area = maps.named(at, &mut name).expect("answer").expect("mapped");
        let main = name.starts_with(b"[heap]");
        assert_eq!(MallocBlocks::default().in_arena(&maps, &(at..at + 4096)), !main, "{area:?}");
        let big = vec![1u8; 64 << 20];
        let at = big.as_ptr().addr() & !4095;
        assert!(!MallocBlocks::default().in_arena(&maps, &(at..at + 4096)));
    }

    #[test]
    fn finds_aligned_blocks() {
        if let Err(why) = ProcMap::open() {
            return eprintln!("skipped: PROCMAP_QUERY: {why}");
        }
        for alignment in [64, 4096, 2 << 20] {
            let mut at = std::ptr::null_mut();
            let len = 40 << 20;
            // SAFETY: writes one pointer.
            assert_eq!(unsafe { libc::posix_memalign(&mut at, alignment, len) }, 0);
            let address = at.expose_provenance();
            for part in [0, 5 << 20] {
                let whole = block_of(address + part, len - part).expect("a block");
                assert!(whole.start < address && address + len <= whole.end);
            }
            // SAFETY: from posix_memalign.
            unsafe { libc::free(at) };
        }
    }

    #[test]
    fn finds_none_in_the_programs_own_mappings() {
        if let Err(why) = ProcMap::open() {
            return eprintln!("skipped: PROCMAP_QUERY: {why}");
        }
        let len = 16 << 20;
        // SAFETY: a fresh mapping.
        let at = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        assert_ne!(at, libc::MAP_FAILED);
        let address = at.expose_provenance();
        assert_eq!(block_of(address, len), None);
        assert_eq!(block_of(address + (8 << 20), PAGE), None);
    }

    #[test]
    fn a_header_says_where_its_block_lies() {
        let at = 64 * PAGE;
        let plain = |size| mapping_of(at, &[0, 0, 0, size])[1].clone();
        assert_eq!(plain((4 * PAGE) | 2), Some(at..at + 4 * PAGE));
        assert_eq!(plain((4 * PAGE) | 3), None, "not mapped by itself");
        assert_eq!(plain(PAGE | 2), None, "too short");
        assert_eq!(plain((4 * PAGE + 512) | 2), None, "ends within a page");
        let aligned = |offset, size| mapping_of(at, &[offset, size, 0, 0])[0].clone();
        let offset = 3 * PAGE - HEADER;
        let whole = at - 3 * PAGE..at + PAGE;
        assert_eq!(aligned(offset, (PAGE + HEADER) | 2), Some(whole));
        assert_eq!(aligned(offset + 8, (PAGE + HEADER) | 2), None);
        assert_eq!(mapping_of(0, &[1, 2, 3, 4]), [None, None]);
    }
}
