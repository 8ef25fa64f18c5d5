//! The datatypes of sections that were passed last: a loop that passes the same section again pays
//! a comparison for it.
//!
//! Each thread has its own list, since a lock and counts that threads share cost as much as the
//! rest of a look-up (20 ns). The list of a thread that ends is taken over by the next one that
//! needs a list, so that no thread calls MPI while it ends.
//!
//! The datatypes themselves belong to [`ALIVE`], from where all of them are freed when MPI ends
//! ([`at_end`]). Lists of an earlier [`GENERATION`] name datatypes that are gone.
//!
//! The handle of a derived datatype may be freed, and name a different one later. So its serial
//! number is compared as well, which no later one gets ([`datatype_serial`]).
//!
//! [`at_end`]: mica_front_end::table::FrontEndTable::at_end
//! [`datatype_serial`]: mica_front_end::table::FrontEndTable::datatype_serial

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::c_int;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

use mica_front_end::types::MPI_Datatype;

use super::create::{OwnedType, WholeData};
use crate::abi::{Word, constants as c, is_predefined, table};
use crate::argument::HandleWord;
use crate::descriptor::{ArraySection, SectionDimension};

/// Datatypes that a thread keeps: some more than the sections of the exchange with all neighbours
/// in three dimensions (a face each to send and to receive).
const KEPT: usize = 16;

/// What a datatype is made for: elements over a section, whose address does not count.
#[derive(Debug)]
pub struct TypeKey {
    count: i64,
    /// The elements' handle in C.
    datatype: Word,
    /// Their datatype's serial number, 0 if it is predefined.
    serial: u64,
    /// Bytes of the section's element.
    element: usize,
    dimensions: Vec<SectionDimension>,
}

impl TypeKey {
    /// `count` elements of `datatype` (a handle of C) over a section.
    ///
    /// # Errors
    /// `MPI_ERR_NO_MEM`.
    pub fn new(count: i64, datatype: Word, section: &ArraySection) -> Result<TypeKey, c_int> {
        let mut dimensions = Vec::new();
        let given = section.dimensions;
        dimensions.try_reserve_exact(given.len()).map_err(|_| c::ERR_NO_MEM)?;
        dimensions.extend_from_slice(given);
        let (serial, element) = (serial(datatype), section.element);
        Ok(TypeKey { count, datatype, serial, element, dimensions })
    }
}

#[inline(always)]
fn serial(datatype: Word) -> u64 {
    if is_predefined(datatype) {
        return 0;
    }
    // SAFETY: the table's function.
    unsafe { (table().datatype_serial)(MPI_Datatype(datatype.to_table())) }
}

/// A datatype that a thread keeps, or that a call uses. The last one that does frees it, unless MPI
/// has ended.
#[derive(Debug)]
pub struct KeptType {
    /// Bytes from the section's address to where it lies.
    pub at: i64,
    /// Its handle in C.
    pub handle: Word,
    /// Its number in [`ALIVE`].
    number: usize,
}

/// The datatypes that are kept, by number.
static ALIVE: Mutex<BTreeMap<usize, OwnedType>> = Mutex::new(BTreeMap::new());

/// How often MPI has ended.
///
/// Relaxed: a thread that uses MPI after an end has learnt of its new beginning from another one,
/// and with it of the end.
static GENERATION: AtomicUsize = AtomicUsize::new(0);

/// The lists of threads that have ended.
static IDLE: Mutex<Vec<TypeList>> = Mutex::new(Vec::new());

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl KeptType {
    fn new(data: WholeData) -> KeptType {
        static NUMBERS: AtomicUsize = AtomicUsize::new(0);
        static AT_END: Once = Once::new();
        // SAFETY: the table's function, and one that MPI may call at its end.
        AT_END.call_once(|| unsafe { (table().at_end)(forget_all) });
        let WholeData { at, datatype } = data;
        let (handle, number) = (datatype.handle(), NUMBERS.fetch_add(1, Ordering::Relaxed));
        locked(&ALIVE).insert(number, datatype);
        KeptType { at, handle, number }
    }
}

impl Drop for KeptType {
    fn drop(&mut self) {
        let datatype = locked(&ALIVE).remove(&self.number);
        drop(datatype); // not under the lock
    }
}

/// Frees the datatypes of all threads: MPI ends, so no call uses them.
unsafe extern "C" fn forget_all() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
    let all = std::mem::take(&mut *locked(&ALIVE));
    drop(all); // not under the lock
}

/// A key that a call asks for.
#[derive(Clone, Copy)]
struct WantedKey<'a> {
    count: i64,
    datatype: Word,
    serial: u64,
    element: usize,
    dimensions: &'a [SectionDimension],
}

impl WantedKey<'_> {
    #[inline(always)]
    fn is(self, key: &TypeKey) -> bool {
        (self.count, self.datatype, self.element) == (key.count, key.datatype, key.element)
            && (self.serial, self.dimensions.len()) == (key.serial, key.dimensions.len())
            && (self.dimensions.iter().zip(&key.dimensions))
                .all(|(wanted, kept)| (wanted.extent, wanted.stride) == (kept.extent, kept.stride))
    }
}

/// The datatype for `count` elements of `datatype` over a section of these elements and dimensions,
/// if the thread keeps it.
#[inline(never)]
pub fn find(
    count: i64,
    datatype: Word,
    element: usize,
    dimensions: &[SectionDimension],
) -> Option<Rc<KeptType>> {
    let wanted = WantedKey { count, datatype, serial: serial(datatype), element, dimensions };
    let find = |list: &ThreadList| {
        let mut list = list.0.borrow_mut();
        list.last(wanted).or_else(|| list.search(wanted))
    };
    LIST.try_with(find).ok()?
}

/// Keeps a datatype for `key`, and returns it.
///
/// # Errors
/// `MPI_ERR_NO_MEM`.
pub fn keep(key: TypeKey, data: WholeData) -> Result<Rc<KeptType>, c_int> {
    let kept = Rc::new(KeptType::new(data));
    let new = Entry { key, kept: Rc::clone(&kept), used: 0 };
    // What falls out is freed when the list is no longer borrowed. A thread that ends keeps
    // nothing.
    if let Ok(fallen_out) = LIST.try_with(|list| list.0.borrow_mut().insert(new)) {
        drop(fallen_out?);
    }
    Ok(kept)
}

#[derive(Debug)]
struct Entry {
    key: TypeKey,
    kept: Rc<KeptType>,
    /// The turn in which it was found or made; those that find the same again count as one.
    used: u64,
}

/// At most [`KEPT`] datatypes. The one that was not used for longest makes room for a new one.
#[derive(Debug)]
struct TypeList {
    entries: Vec<Entry>,
    turns: u64,
    /// The index of the entry that was found or made last.
    last: usize,
    generation: usize,
}

// SAFETY: a list passes to another thread when its thread ends. The calls of that one have returned
// by then, so nothing but the list counts among the owners of what is in it.
unsafe impl Send for TypeList {}

impl TypeList {
    const EMPTY: TypeList = TypeList { entries: Vec::new(), turns: 0, last: 0, generation: 0 };

    /// The one that was found last, if that is it.
    #[inline(always)]
    fn last(&self, wanted: WantedKey) -> Option<Rc<KeptType>> {
        let last = self.entries.get(self.last)?;
        let is_alive = self.generation == GENERATION.load(Ordering::Relaxed);
        (is_alive && wanted.is(&last.key)).then(|| Rc::clone(&last.kept))
    }

    /// Searches from the next one on: loops pass sections in the order in which they did before.
    #[inline(never)]
    fn search(&mut self, wanted: WantedKey) -> Option<Rc<KeptType>> {
        let generation = GENERATION.load(Ordering::Relaxed);
        if self.generation != generation {
            *self = TypeList { generation, ..TypeList::EMPTY };
        }
        if self.entries.is_empty()
            && let Some(idle) = locked(&IDLE).pop()
            && idle.generation == generation
        {
            *self = idle;
        }
        let next = self.entries.len().min(self.last + 1);
        let (before, after) = self.entries.split_at(next);
        let at = match after.iter().position(|entry| wanted.is(&entry.key)) {
            Some(steps) => next + steps,
            None => before.iter().position(|entry| wanted.is(&entry.key))?,
        };
        self.found(at);
        Some(Rc::clone(&self.entries[at].kept))
    }

    /// Notes which entry was found last.
    fn found(&mut self, at: usize) {
        self.last = at;
        self.turns += 1;
        self.entries[at].used = self.turns;
    }

    /// Keeps a datatype, and returns the entry that makes room for it.
    fn insert(&mut self, new: Entry) -> Result<Option<Entry>, c_int> {
        if self.entries.len() < KEPT {
            self.entries.try_reserve(1).map_err(|_| c::ERR_NO_MEM)?;
            self.entries.push(new);
            self.found(self.entries.len() - 1);
            return Ok(None);
        }
        let at = (0..KEPT).min_by_key(|&i| self.entries[i].used).unwrap_or(0);
        let oldest = std::mem::replace(&mut self.entries[at], new);
        self.found(at);
        Ok(Some(oldest))
    }
}

/// A thread's list, for the next thread when this one ends.
struct ThreadList(RefCell<TypeList>);

impl Drop for ThreadList {
    fn drop(&mut self) {
        let list = self.0.replace(TypeList::EMPTY);
        if !list.entries.is_empty() {
            locked(&IDLE).push(list);
        }
    }
}

thread_local! {
    static LIST: ThreadList = const { ThreadList(RefCell::new(TypeList::EMPTY)) };
}
