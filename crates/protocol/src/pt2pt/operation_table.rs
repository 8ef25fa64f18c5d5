//! The operations of one kind that are in progress, and the keys that name them.
//!
//! Packets name an operation by its index alone: a peer names it only between its start and its
//! completion. A program may name one that is gone, since it can have a request twice: in one
//! array, or in two threads. So what leaves this crate is a key, an index and the generation of the
//! entry there: it names one operation for ever (until 2^32 others of its kind have begun), never
//! the next one at its index.

use slab::Slab;
use std::ops::{Index, IndexMut};

/// Names an operation, also after it is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct OperationKey {
    index: u32,
    generation: u32,
}

impl OperationKey {
    /// The index, as packets carry it.
    #[inline(always)]
    pub fn index(self) -> u32 {
        self.index
    }
}

#[derive(Debug)]
struct KeyedOperation<T> {
    generation: u32,
    operation: T,
}

/// The operations of one kind.
#[derive(Debug)]
pub(crate) struct OperationTable<T> {
    entries: Slab<KeyedOperation<T>>,
    /// Operations that have begun.
    begun: u32,
}

impl<T> Default for OperationTable<T> {
    fn default() -> OperationTable<T> {
        OperationTable { entries: Slab::new(), begun: 0 }
    }
}

impl<T> OperationTable<T> {
    pub fn insert(&mut self, operation: T) -> OperationKey {
        self.begun = self.begun.wrapping_add(1);
        let generation = self.begun;
        let index = self.entries.insert(KeyedOperation { generation, operation }) as u32;
        OperationKey { index, generation }
    }

    /// The operation that `key` names, unless it is gone.
    #[inline(always)]
    pub fn get(&self, key: OperationKey) -> Option<&T> {
        let entry = self.entries.get(key.index as usize)?;
        (entry.generation == key.generation).then_some(&entry.operation)
    }

    /// As [`get`](Self::get).
    #[inline(always)]
    pub fn get_mut(&mut self, key: OperationKey) -> Option<&mut T> {
        let entry = self.entries.get_mut(key.index as usize)?;
        (entry.generation == key.generation).then_some(&mut entry.operation)
    }

    /// The key of the operation at `index`.
    ///
    /// # Panics
    /// If there is none.
    pub fn key_at(&self, index: u32) -> OperationKey {
        OperationKey { index, generation: self.entries[index as usize].generation }
    }

    /// Removes the operation at `index`.
    ///
    /// # Panics
    /// If there is none.
    pub fn remove(&mut self, index: u32) -> T {
        self.entries.remove(index as usize).operation
    }

    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

/// By an index that names an operation in progress.
impl<T> Index<u32> for OperationTable<T> {
    type Output = T;

    #[inline(always)]
    fn index(&self, index: u32) -> &T {
        &self.entries[index as usize].operation
    }
}

impl<T> IndexMut<u32> for OperationTable<T> {
    #[inline(always)]
    fn index_mut(&mut self, index: u32) -> &mut T {
        &mut self.entries[index as usize].operation
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_does_not_name_the_next_operation_at_its_index() {
        let mut table = OperationTable::default();
        let first = table.insert('a');
        assert_eq!(table.get(first), Some(&'a'));
        assert_eq!(table.remove(first.index()), 'a');
        assert_eq!(table.get(first), None);
        let second = table.insert('b');
        assert_eq!(second.index(), first.index());
        assert_eq!(table.get(first), None);
        assert_eq!(table.get_mut(first), None);
        assert_eq!((table.get(second), table[second.index()]), (Some(&'b'), 'b'));
        assert_eq!(table.key_at(second.index()), second);
    }

    #[test]
    fn generations_wrap() {
        let mut table = OperationTable { begun: u32::MAX, ..OperationTable::default() };
        let (first, second) = (table.insert('a'), table.insert('b'));
        assert_eq!((table.get(first), table.get(second)), (Some(&'a'), Some(&'b')));
    }
}
