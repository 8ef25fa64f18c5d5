//! A list of one thread in the records' memory, in chunks that double: entries keep their places.

use std::sync::atomic::Ordering;

use mica_profile::rank_tables::{CHUNKS, FIRST_CHUNK, ListHead, chunk_of};

use crate::memory::{self, Record};

/// The list.
pub struct RecordList<T: Record> {
    chunks: [Option<&'static mut [T]>; CHUNKS],
    length: usize,
    /// The chunk of the last entry, and the entry's place in it.
    last: (usize, usize),
    head: &'static ListHead,
}

impl<T: Record> RecordList<T> {
    /// An empty one, without memory.
    pub fn new(head: &'static ListHead) -> RecordList<T> {
        RecordList { chunks: [const { None }; CHUNKS], length: 0, last: (0, 0), head }
    }

    /// Number of entries.
    #[inline]
    pub fn len(&self) -> usize {
        self.length
    }

    /// Adds an entry. `None` if there is no memory.
    #[inline]
    pub fn push(&mut self, entry: T) -> Option<()> {
        let (chunk, place) = chunk_of(self.length);
        match &mut self.chunks[chunk] {
            Some(entries) => entries[place] = entry,
            None => self.add_chunk(chunk)?[place] = entry,
        }
        self.set_len(self.length + 1);
        Some(())
    }

    /// An entry, below [`len`](Self::len).
    #[inline]
    pub fn at(&mut self, index: usize) -> &mut T {
        let (chunk, place) = chunk_of(index);
        &mut self.chunks[chunk].as_mut().expect("an entry has a chunk")[place]
    }

    /// The last entry.
    #[inline]
    pub fn last(&mut self) -> Option<&mut T> {
        let (chunk, place) = self.last;
        self.chunks[chunk].as_mut()?.get_mut(place)
    }

    /// Forgets the entries from this one on, or adds one that was written.
    #[inline]
    pub fn set_len(&mut self, length: usize) {
        self.length = length;
        self.last = chunk_of(length.saturating_sub(1));
        // Release: entries before the length.
        self.head.length.store(length as u64, Ordering::Release);
    }

    #[cold]
    fn add_chunk(&mut self, chunk: usize) -> Option<&mut [T]> {
        let (offset, entries) = memory::allocate_records(FIRST_CHUNK << chunk)?;
        self.head.chunks[chunk].store(offset, Ordering::Relaxed);
        Some(self.chunks[chunk].insert(entries))
    }
}
