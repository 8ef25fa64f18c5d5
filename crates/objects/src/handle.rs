//! Handles: 32-bit names of MPI objects (MPI 5.0, 2.5.1 and chapter 20).
//!
//! A predefined object's handle is its constant of the standard ABI. A user's object gets
//! `0x4000_0000 | kind << 24 | index`, so that C, Fortran and other ABIs convert by a cast, and a
//! handle of the wrong kind is recognised without a look-up.

use std::collections::VecDeque;
use std::fmt;

use mica_node::lock::{SoleGuard, SoleThread};
use mica_protocol::{OneThreadAtATime, ThreadLock, ThreadMode};

use crate::constants as c;
use crate::error::{Error, Result};

/// What kind of object a handle names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum HandleKind {
    /// Communicator.
    Comm = 1,
    /// Group.
    Group = 2,
    /// Datatype.
    Datatype = 3,
    /// Reduction operator.
    Op = 4,
    /// Request.
    Request = 5,
    /// Error handler.
    Errhandler = 6,
    /// Info.
    Info = 7,
    /// Matched message.
    Message = 8,
    /// Session.
    Session = 9,
    /// Window.
    Win = 10,
    /// File.
    File = 11,
    /// Attribute key.
    Keyval = 12,
}

const USER: u32 = 0x4000_0000;
const INDEX_BITS: u32 = 24;
const INDEX_MASK: u32 = (1 << INDEX_BITS) - 1;
/// The last indexes, which [`HandleTable`] never gives out.
const RESERVED: u32 = 2;
/// Objects of one kind that can live at a time.
const OBJECTS: u32 = INDEX_MASK + 1 - RESERVED;

/// A freed index is not reused until more than this many are free, so that a stale handle is
/// refused and does not name a new object.
const RESTING: usize = 64;

impl HandleKind {
    /// The handle of the user's object number `index` of this kind.
    const fn handle(self, index: u32) -> u32 {
        USER | (self as u32) << INDEX_BITS | index
    }

    /// The index in a handle of a user's object of this kind.
    const fn index(self, handle: u32) -> Option<usize> {
        if handle & !INDEX_MASK == self.handle(0) {
            Some((handle & INDEX_MASK) as usize)
        } else {
            None
        }
    }

    /// Handle `number`, 0 or 1, of those that [`HandleTable`] never gives out: for an object that
    /// all can share.
    pub const fn reserved_handle(self, number: u32) -> u32 {
        assert!(number < RESERVED);
        self.handle(OBJECTS + number)
    }

    /// Whether `handle` has the form of a user's object of this kind (which may be gone).
    pub const fn owns(self, handle: u32) -> bool {
        self.index(handle).is_some()
    }
}

/// All living user objects of one kind. `T` is cheap to clone (an `Arc` at heart).
pub struct HandleTable<T> {
    kind: HandleKind,
    slots: ThreadLock<Slots<T>>,
}

/// What [`HandleTable::look_then`] does with an object after its closure has run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Then {
    /// It stays where it is.
    Keep,
    /// It is dropped, and its handle is stale from now on.
    Remove,
}

/// A table whose lock is elided.
pub struct SoleTable<'a, T> {
    kind: HandleKind,
    slots: SoleGuard<'a, Slots<T>>,
}

impl<T> SoleTable<'_, T> {
    /// The object that `handle` names, if it lives. The handle is as C has it: a word that may have
    /// more bits.
    #[inline(always)]
    pub fn get(&self, handle: usize) -> Option<&T> {
        // The index, or in another value than a handle of this kind more than any table has.
        let index = handle ^ self.kind.handle(0) as usize;
        self.slots.used.get(index)?.as_ref()
    }

    /// That no other thread is inside the library.
    #[inline(always)]
    pub fn section(&self) -> &SoleThread<'_> {
        self.slots.section()
    }
}

/// A handle that no object has yet. It is free again when this is dropped.
pub struct ReservedHandle<'a, T> {
    table: &'a HandleTable<T>,
    index: Option<u32>,
}

impl<T: Clone> ReservedHandle<'_, T> {
    /// Gives the handle to the object that `make` builds from it, and returns that. `make` runs
    /// under the table's lock.
    pub fn fill(mut self, make: impl FnOnce(u32) -> T) -> T {
        let index = self.index.take().expect("a handle is filled once");
        let mut slots = self.table.slots.lock();
        let object = make(self.table.kind.handle(index));
        slots.used[index as usize] = Some(object.clone());
        object
    }
}

impl<T> Drop for ReservedHandle<'_, T> {
    fn drop(&mut self) {
        if let Some(index) = self.index {
            self.table.slots.lock().free.push_back(index);
        }
    }
}

struct Slots<T> {
    used: Vec<Option<T>>,
    free: VecDeque<u32>,
}

impl<T> HandleTable<T> {
    /// An empty table for objects of `kind`.
    pub const fn new(kind: HandleKind) -> HandleTable<T> {
        HandleTable {
            kind,
            slots: ThreadLock::new(Slots { used: Vec::new(), free: VecDeque::new() }),
        }
    }

    /// The number of living objects.
    pub fn len(&self) -> usize {
        let slots = self.slots.lock();
        slots.used.len() - slots.free.len()
    }

    /// Whether no object lives.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds an object and returns its handle.
    ///
    /// # Errors
    /// `MPI_ERR_NO_MEM` when 2^24 - 1 objects of this kind are alive: the handles are used up, as
    /// memory can be.
    pub fn insert(&self, object: T) -> Result<u32> {
        let inserted = self.try_insert(object);
        inserted.map_err(|_| self.used_up())
    }

    /// As [`insert`](Self::insert), but returns the object when the handles are used up
    /// ([`used_up`](Self::used_up)).
    #[inline(always)]
    pub fn try_insert(&self, object: T) -> std::result::Result<u32, T> {
        let mut slots = self.slots.lock();
        let Some(index) = slots.vacancy() else {
            return Err(object);
        };
        slots.used[index as usize] = Some(object);
        Ok(self.kind.handle(index))
    }

    /// The error of a table whose handles are used up.
    #[cold]
    pub fn used_up(&self) -> Error {
        let (kind, all) = (self.kind, OBJECTS);
        let detail = format!("all {all} handles of this kind ({kind:?}) are in use; free some");
        Error::other(c::ERR_NO_MEM, detail)
    }

    /// Takes an object out; its handle is stale from now on.
    pub fn remove(&self, handle: u32) -> Option<T> {
        let index = self.kind.index(handle)?;
        let mut slots = self.slots.lock();
        slots.take(index)
    }

    /// Puts `object` in the place of the one that `handle` names, and returns that. `None`: it
    /// names none, and `object` is dropped.
    pub fn replace(&self, handle: u32, object: T) -> Option<T> {
        let index = self.kind.index(handle)?;
        let mut slots = self.slots.lock();
        slots.used.get_mut(index)?.as_mut().map(|place| std::mem::replace(place, object))
    }

    /// Whether `handle` named an object that is gone.
    pub fn had(&self, handle: u32) -> bool {
        let slots = self.slots.lock();
        let slot = self.kind.index(handle).and_then(|index| slots.used.get(index));
        slot.is_some_and(Option::is_none)
    }

    /// Whether the lock is in force.
    pub fn mode(&self) -> &ThreadMode {
        self.slots.mode()
    }

    /// Elides the lock: the program has promised to keep its threads apart.
    pub fn elide_lock(&self, promise: OneThreadAtATime) {
        self.slots.elide(promise);
    }

    /// Puts the lock in force again.
    pub fn share(&self) {
        self.slots.share();
    }

    /// Calls `f` with the object that `handle` names, if it lives, under the table's lock.
    #[inline]
    pub fn look<R>(&self, handle: u32, f: impl FnOnce(&T) -> R) -> Option<R> {
        let index = self.kind.index(handle)?;
        self.slots.lock().used.get(index)?.as_ref().map(f)
    }

    /// The table of objects of `kind`, which the caller names once more for the compiler, without
    /// its lock; `None` where that is in force. Until the result is dropped, the caller neither
    /// blocks nor calls the program, nor calls this again.
    #[inline(always)]
    pub fn sole(&self, kind: HandleKind) -> Option<SoleTable<'_, T>> {
        debug_assert_eq!(kind, self.kind);
        Some(SoleTable { kind, slots: self.slots.lock_if_sole()? })
    }

    /// As [`look`](Self::look); `f` also returns whether to keep the object. A removed object is
    /// dropped in place: moving it as a whole, after its parts were written one by one, waits for
    /// the processor's store buffer.
    #[inline(always)]
    pub fn look_then<R>(&self, handle: u32, f: impl FnOnce(&T) -> (R, Then)) -> Option<R> {
        let index = self.kind.index(handle)?;
        let slots = &mut *self.slots.lock();
        let (answer, then) = f(slots.used.get(index)?.as_ref()?);
        if then == Then::Remove {
            slots.take(index);
        }
        Some(answer)
    }
}

impl<T> Slots<T> {
    /// Takes out the object at an index, which is free from then on.
    #[inline(always)]
    fn take(&mut self, index: usize) -> Option<T> {
        let object = self.used.get_mut(index)?.take();
        if object.is_some() {
            self.free.push_back(index as u32);
        }
        object
    }

    /// The index of an empty slot, which is no longer in the free list.
    fn vacancy(&mut self) -> Option<u32> {
        let fresh = self.used.len() as u32;
        let exhausted = fresh >= OBJECTS;
        if self.free.len() > RESTING || exhausted {
            self.free.pop_front()
        } else {
            self.used.push(None);
            Some(fresh)
        }
    }
}

impl<T: Clone> HandleTable<T> {
    /// Adds the object that `make` builds from its own handle, and returns it. `make` runs under
    /// the table's lock.
    ///
    /// # Errors
    /// As [`insert`](Self::insert).
    pub fn insert_with(&self, make: impl FnOnce(u32) -> T) -> Result<T> {
        let mut slots = self.slots.lock();
        let index = slots.vacancy().ok_or_else(|| self.used_up())?;
        let object = make(self.kind.handle(index));
        slots.used[index as usize] = Some(object.clone());
        Ok(object)
    }

    /// Keeps a handle free for an object that is made later.
    ///
    /// # Errors
    /// As [`insert`](Self::insert).
    pub fn reserve(&self) -> Result<ReservedHandle<'_, T>> {
        let index = self.slots.lock().vacancy().ok_or_else(|| self.used_up())?;
        Ok(ReservedHandle { table: self, index: Some(index) })
    }

    /// The first object that `is_it` takes, under the table's lock.
    pub fn find(&self, is_it: impl Fn(&T) -> bool) -> Option<T> {
        let slots = self.slots.lock();
        slots.used.iter().flatten().find(|&object| is_it(object)).cloned()
    }

    /// The object that `handle` names, if it lives.
    pub fn get(&self, handle: u32) -> Option<T> {
        let index = self.kind.index(handle)?;
        self.slots.lock().used.get(index)?.clone()
    }
}

impl<T> fmt::Debug for HandleTable<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Table of {} {:?}", self.len(), self.kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_carry_kind_and_index() {
        let table = HandleTable::new(HandleKind::Group);
        assert_eq!(table.insert('a').unwrap(), 0x4200_0000);
        assert_eq!(table.insert('b').unwrap(), 0x4200_0001);
        assert_eq!(table.get(0x4200_0001), Some('b'));
        for wrong in [0, 0x108, 0x0200_0000, 0x4100_0000, 0x4200_0002, 0xC200_0000, u32::MAX] {
            assert_eq!(table.get(wrong), None, "{wrong:#x}");
            assert_eq!(table.remove(wrong), None, "{wrong:#x}");
        }
        assert!(HandleKind::Group.owns(0x4200_0007) && !HandleKind::Group.owns(0x4300_0007));
        let reserved = [0, 1].map(|number| HandleKind::Request.reserved_handle(number));
        assert_eq!(reserved, [0x45ff_fffe, 0x45ff_ffff]);
    }

    #[test]
    fn a_stale_handle_is_refused_for_long_and_indexes_come_back_in_order() {
        let table = HandleTable::new(HandleKind::Info);
        let first = table.insert(0).unwrap();
        let second = table.insert(1).unwrap();
        assert_eq!(table.remove(first), Some(0));
        assert_eq!(table.remove(first), None);
        assert_eq!(table.remove(second), Some(1));
        assert!(table.is_empty());
        for i in 0..RESTING - 1 {
            let handle = table.insert(i).unwrap();
            assert_ne!(handle, first);
            assert_eq!(table.get(first), None);
            table.remove(handle);
        }
        assert_eq!(table.insert(7).unwrap(), first);
        let next = table.insert_with(|handle| handle as usize).unwrap();
        assert_eq!(table.get(next as u32), Some(next));
        assert_eq!(table.len(), 2);
    }

    #[test]
    fn many_threads_insert_and_remove() {
        let table = HandleTable::new(HandleKind::Request);
        std::thread::scope(|scope| {
            for thread in 0..4_u32 {
                let table = &table;
                scope.spawn(move || {
                    for round in 0..500 {
                        let value = thread * 1000 + round;
                        let handle = table.insert(value).unwrap();
                        assert_eq!(table.get(handle), Some(value));
                        assert_eq!(table.remove(handle), Some(value));
                    }
                });
            }
        });
        assert!(table.is_empty());
    }

    #[test]
    fn a_reserved_handle_is_filled_or_free_again() {
        let table = HandleTable::new(HandleKind::Win);
        let first = table.reserve().unwrap();
        let second = table.insert(2).unwrap();
        drop(table.reserve().unwrap());
        assert_eq!(first.fill(|handle| handle as usize), HandleKind::Win.handle(0) as usize);
        assert_eq!((table.len(), second), (2, HandleKind::Win.handle(1)));
    }

    #[test]
    fn a_replaced_object_leaves_its_handle_to_the_new_one() {
        let table = HandleTable::new(HandleKind::Request);
        let handle = table.insert(1).unwrap();
        assert_eq!(table.replace(handle, 2), Some(1));
        assert_eq!(table.remove(handle), Some(2));
        assert_eq!((table.replace(handle, 3), table.len()), (None, 0));
    }

    /// All handles of a kind, of objects that take no memory of their own.
    #[test]
    fn handles_that_are_used_up_are_an_error() {
        let table = HandleTable::new(HandleKind::Info);
        for _ in 0..OBJECTS {
            table.insert(()).unwrap();
        }
        for error in [table.insert(()).unwrap_err(), table.insert_with(|_| ()).unwrap_err()] {
            assert_eq!(error.code(), c::ERR_NO_MEM);
            assert!(error.to_string().contains("16777214"), "{error}");
        }
        // The next object gets the handle of a removed one.
        assert_eq!(table.remove(HandleKind::Info.handle(7)), Some(()));
        assert_eq!(table.insert(()).unwrap(), HandleKind::Info.handle(7));
    }
}
