//! [`WindowMemory`]: memory of a window that the ranks of the node share from the start, for
//! `MPI_Win_allocate` and `MPI_Win_allocate_shared` (MPI 5.0, 12.2.2 and 12.2.3), and for a
//! window's [control](super::WindowControl).
//!
//! It lies in the job's file, in the zone of the rank that allocates it
//! ([`Geometry::window_zone`](crate::segment::Geometry::window_zone)). Only that rank, the owner,
//! decides where: it keeps the list of what is taken in its own memory, announces the offset to its
//! peers by a message, and they map the same part. Pages come when they are touched, on the NUMA
//! domain of who touches them, and are zero. Whether there is memory for all that the node's
//! windows may come to touch is asked before: the kernel would end processes, any of the user's,
//! until it has enough. Where it promises no more than it has, pages are allocated with the memory,
//! so that no access fails later (SIGBUS).
//!
//! The owner's [`WindowMemory`] returns the pages when it is dropped, or keeps them for its next
//! window (`segment::kept_parts`). Peers that still have the
//! part mapped would read zeros then, and what they write would not be given back: drop theirs
//! first (`MPI_Win_free` is collective).

use crate::page::page_size;
use crate::segment::{JobSegment, KeptPart, MappedPart, SegmentError, WINDOW_ZONE, largest_kept};
use crate::topology::{available_memory, overcommits};
use std::ptr::NonNull;
use std::sync::Arc;

/// A request of at most this many bytes is not compared with the memory available.
const UNCHECKED: usize = 4 << 20;

/// Who accesses a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PartUser {
    /// The program: it is a window's memory.
    Program,
    /// The library alone. Small parts stay mapped for the next window when they are dropped.
    Library,
}

/// Memory of a window, mapped in this process.
#[derive(Debug)]
pub struct WindowMemory {
    segment: Arc<JobSegment>,
    user: PartUser,
    /// Whole pages; there until this is dropped.
    part: Option<MappedPart>,
    /// Offset in the owner's zone.
    offset: u64,
    owner: u32,
    is_owner: bool,
}

impl WindowMemory {
    /// Allocates at least `bytes` bytes, whole pages and one at least, in the zone of this
    /// process's rank `me`. They are zero.
    ///
    /// # Errors
    /// When there is no memory, address space or file space, with the number of bytes.
    pub fn allocate(
        segment: &Arc<JobSegment>,
        me: u32,
        bytes: usize,
        user: PartUser,
    ) -> Result<WindowMemory, SegmentError> {
        let no_space = SegmentError::NoFileSpace { bytes };
        let pages = bytes.max(1).checked_next_multiple_of(page_size());
        let (Some(pages), true) = (pages, segment.has_slots()) else {
            return Err(no_space);
        };
        let made = |offset, part| WindowMemory {
            segment: Arc::clone(segment),
            user,
            part: Some(part),
            offset,
            owner: me,
            is_owner: true,
        };
        if user == PartUser::Library
            && let Some(kept) = segment.kept_parts().take_own(me, pages)
        {
            segment.window_budget().promise(pages);
            return Ok(made(kept.offset, kept.mapped));
        }
        let offset = segment.taken_parts().take(pages as u64).ok_or(no_space)?;
        let place = segment.window_offset(me) + offset;
        if let Err(error) = promise(segment, pages) {
            segment.taken_parts().give_back(offset);
            return Err(error);
        }
        let allocated = match overcommits() {
            true => Ok(()),
            false => segment.allocate(place as usize, pages),
        };
        match allocated.and_then(|()| segment.map_part(place, pages)) {
            Ok(part) => Ok(made(offset, part)),
            Err(error) => {
                segment.window_budget().give_back(pages);
                give_back(segment, me, offset, pages);
                Err(error)
            }
        }
    }

    /// Maps the memory that rank `owner` has allocated with `bytes` bytes at
    /// [`offset`](Self::offset) `offset`.
    ///
    /// # Errors
    /// When there is no address space, with the number of bytes, or the owner's zone has no such
    /// part.
    ///
    /// # Panics
    /// If `owner` is not on this node.
    pub fn open(
        segment: &Arc<JobSegment>,
        owner: u32,
        offset: u64,
        bytes: usize,
        user: PartUser,
    ) -> Result<WindowMemory, SegmentError> {
        let pages = bytes.max(1).checked_next_multiple_of(page_size());
        let is_inside = |&pages: &usize| {
            let end = offset.checked_add(pages as u64);
            offset.is_multiple_of(page_size() as u64) && end.is_some_and(|end| end <= WINDOW_ZONE)
        };
        let (Some(pages), true) = (pages.filter(is_inside), segment.has_slots()) else {
            return Err(SegmentError::NoFileSpace { bytes });
        };
        let part = match segment.kept_parts().take_of_peer(owner, offset, pages) {
            Some(kept) => kept.mapped,
            None => segment.map_part(segment.window_offset(owner) + offset, pages)?,
        };
        Ok(WindowMemory {
            segment: Arc::clone(segment),
            user,
            part: Some(part),
            offset,
            owner,
            is_owner: false,
        })
    }

    /// The first byte, on a page. Valid as long as this lives.
    pub fn base(&self) -> NonNull<u8> {
        self.part().base()
    }

    /// Bytes that are mapped: whole pages.
    pub fn bytes(&self) -> usize {
        self.part().bytes()
    }

    fn part(&self) -> &MappedPart {
        self.part.as_ref().expect("it is there until this is dropped")
    }

    /// Where it lies in the owner's zone, for [`open`](Self::open).
    pub fn offset(&self) -> u64 {
        self.offset
    }
}

impl Drop for WindowMemory {
    fn drop(&mut self) {
        let Some(mapped) = self.part.take() else { return };
        let (segment, bytes) = (&self.segment, mapped.bytes());
        let (owner, offset) = (self.owner, self.offset);
        let may_stay = self.user == PartUser::Library && bytes <= largest_kept();
        if !self.is_owner {
            // Unmapped when it, or the one that it takes the place of, is dropped.
            let part = KeptPart { owner, offset, bytes, mapped };
            let _gone = match may_stay {
                true => segment.kept_parts().keep_of_peer(part),
                false => Some(part),
            };
            return;
        }
        segment.window_budget().give_back(bytes);
        let part = KeptPart { owner, offset, bytes, mapped };
        let gone = match may_stay && segment.kept_parts().wants(bytes) {
            true => {
                // SAFETY: mapped for writing with these bytes; the owner drops it when no process
                // accesses it any more (module).
                unsafe { part.mapped.base().as_ptr().write_bytes(0, bytes) };
                segment.kept_parts().keep_own(part)
            }
            false => Some(part),
        };
        if let Some(KeptPart { owner, offset, bytes, mapped }) = gone {
            drop(mapped);
            give_back(segment, owner, offset, bytes);
        }
    }
}

/// Counts `bytes` bytes of a window, if there is memory for them and for what else is promised.
fn promise(segment: &JobSegment, bytes: usize) -> Result<(), SegmentError> {
    let promised = segment.window_budget().promise(bytes);
    if bytes <= UNCHECKED {
        return Ok(());
    }
    let (Some(available), Ok(allocated)) = (available_memory(), segment.allocated_bytes()) else {
        return Ok(());
    };
    // As much has not been touched yet, or some more: not all of the file are windows.
    let untouched = promised.saturating_sub(allocated);
    if untouched <= available {
        return Ok(());
    }
    segment.window_budget().give_back(bytes);
    let others = untouched.saturating_sub(bytes as u64);
    Err(SegmentError::NoMemory { bytes, available: available.saturating_sub(others) })
}

/// Returns the pages to the system and the place to the zone. A place whose pages the kernel keeps
/// is not used again: its bytes may not be zero.
fn give_back(segment: &JobSegment, owner: u32, offset: u64, bytes: usize) {
    if segment.punch(segment.window_offset(owner) + offset, bytes as u64).is_ok() {
        segment.taken_parts().give_back(offset);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::segment::JobSpec;
    use crate::topology::CorePlace;

    fn segment(ranks: usize) -> Arc<JobSegment> {
        let places = vec![CorePlace::UNKNOWN; ranks];
        Arc::new(JobSegment::create(&JobSpec::on_one_node(&places, 2, &[])).expect("segment"))
    }

    fn file_bytes(segment: &JobSegment) -> u64 {
        segment.allocated_bytes().expect("our file")
    }

    fn read(memory: &WindowMemory) -> Vec<u8> {
        // SAFETY: mapped for reading; nothing writes it meanwhile.
        unsafe { std::slice::from_raw_parts(memory.base().as_ptr(), memory.bytes()) }.to_vec()
    }

    fn write(memory: &WindowMemory, range: std::ops::Range<usize>, byte: u8) {
        assert!(range.end <= memory.bytes());
        // SAFETY: mapped for writing, and checked; nothing else uses it meanwhile.
        unsafe { memory.base().add(range.start).write_bytes(byte, range.len()) };
    }

    #[test]
    fn owner_and_peer_see_the_same_bytes() {
        let mine = segment(3);
        let fd = mine.as_fd().try_clone_to_owned().expect("dup");
        let theirs = Arc::new(JobSegment::attach(fd).expect("attach"));
        let page = page_size();
        for (owner, wanted) in [(0, 1), (2, page), (2, 3 * page + 5), (1, 0)] {
            let memory =
                WindowMemory::allocate(&mine, owner, wanted, PartUser::Program).expect("memory");
            assert_eq!(memory.bytes(), wanted.max(1).next_multiple_of(page));
            assert!(read(&memory).iter().all(|&byte| byte == 0));
            let peer =
                WindowMemory::open(&theirs, owner, memory.offset(), wanted, PartUser::Program)
                    .expect("maps");
            write(&memory, 0..1, 7);
            write(&peer, peer.bytes() - 1..peer.bytes(), 9);
            assert_eq!(read(&peer)[0], 7);
            assert_eq!(read(&memory).last(), Some(&9));
        }
    }

    #[test]
    fn dropped_memory_is_returned_and_comes_back_as_zeros() {
        let bytes = 64 * page_size();
        let segment = segment(1);
        let before = file_bytes(&segment);
        for _ in 0..3 {
            let memory =
                WindowMemory::allocate(&segment, 0, bytes, PartUser::Program).expect("memory");
            assert_eq!(memory.offset(), 0, "the place is used again");
            assert_eq!(file_bytes(&segment), before, "no page before it is touched");
            write(&memory, 5 * page_size()..6 * page_size(), 1);
            assert_eq!(file_bytes(&segment), before + page_size() as u64);
            write(&memory, 5 * page_size()..6 * page_size(), 0);
            assert!(read(&memory).iter().all(|&byte| byte == 0));
            write(&memory, 0..memory.bytes(), 0xFF);
            assert!(file_bytes(&segment) >= before + bytes as u64);
        }
        assert_eq!(file_bytes(&segment), before);
    }

    #[test]
    fn small_parts_of_the_library_stay_mapped_and_are_zero_again() {
        let mine = segment(2);
        let fd = mine.as_fd().try_clone_to_owned().expect("dup");
        let theirs = Arc::new(JobSegment::attach(fd).expect("attach"));
        let (page, user) = (page_size(), PartUser::Library);
        let first = WindowMemory::allocate(&mine, 1, page, user).expect("memory");
        let peer = WindowMemory::open(&theirs, 1, first.offset(), page, user).expect("maps");
        write(&peer, 0..page, 0xFF);
        let addresses = [first.base(), peer.base()];
        let offset = first.offset();
        drop((first, peer));
        // Neither another size, nor another user, nor another rank gets it.
        let others = [(1, page + 1, user), (1, page, PartUser::Program), (0, page, user)];
        for (rank, bytes, user) in others {
            let other = WindowMemory::allocate(&mine, rank, bytes, user).expect("memory");
            assert_ne!(other.offset(), offset, "{bytes} bytes of rank {rank} for {user:?}");
        }
        let again = WindowMemory::allocate(&mine, 1, page, user).expect("memory");
        let peer = WindowMemory::open(&theirs, 1, again.offset(), page, user).expect("maps");
        assert_eq!([again.base(), peer.base()], addresses);
        assert!(read(&peer).iter().all(|&byte| byte == 0));
        assert_eq!(mine.window_budget().promise(0), page as u64);
    }

    #[test]
    fn few_parts_are_kept() {
        let segment = segment(1);
        let before = file_bytes(&segment);
        let user = PartUser::Library;
        let many = (0..100).map(|_| WindowMemory::allocate(&segment, 0, 1, user).expect("memory"));
        let many: Vec<_> = many.collect();
        many.iter().for_each(|memory| write(memory, 0..1, 1));
        drop(many);
        let kept = file_bytes(&segment) - before;
        assert!(kept <= 4 * page_size() as u64, "{kept} bytes are kept");
    }

    #[test]
    fn what_all_windows_together_cannot_have_is_refused() {
        let Some(available) = available_memory() else { return };
        let segment = segment(2);
        let two_thirds = (available / 3 * 2) as usize;
        let first =
            WindowMemory::allocate(&segment, 0, two_thirds, PartUser::Program).expect("fits");
        let error = WindowMemory::allocate(&segment, 1, two_thirds, PartUser::Program)
            .expect_err("too much");
        assert!(matches!(error, SegmentError::NoMemory { .. }), "{error}");
        drop(first);
        WindowMemory::allocate(&segment, 1, two_thirds, PartUser::Program).expect("fits again");
        assert_eq!(segment.window_budget().promise(0), 0);
    }

    #[test]
    fn what_cannot_be_had_is_refused_with_its_bytes() {
        let segment = segment(1);
        let before = file_bytes(&segment);
        // More than file space, and more than memory.
        for wanted in [usize::MAX, 1 << 47, 1 << 45] {
            let error = WindowMemory::allocate(&segment, 0, wanted, PartUser::Program)
                .expect_err("too much");
            assert!(error.to_string().contains(&wanted.to_string()), "{error}");
            assert_eq!(file_bytes(&segment), before);
        }
        let fits =
            WindowMemory::allocate(&segment, 0, 1, PartUser::Program).expect("nothing is taken");
        assert_eq!(fits.offset(), 0);
        for (offset, bytes) in
            [(1, 1), (WINDOW_ZONE, 1), (u64::MAX - (page_size() as u64 - 1), 1), (0, usize::MAX)]
        {
            assert!(WindowMemory::open(&segment, 0, offset, bytes, PartUser::Program).is_err());
        }
    }
}
