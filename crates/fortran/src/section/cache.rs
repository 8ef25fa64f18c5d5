//! The datatypes of sections that were passed last: a loop that passes the same section again pays
//! a comparison for it.
//!
//! Only those over predefined datatypes are kept: the handle of another one may be freed, and name
//! a different datatype later. A datatype that falls out of the cache stays as long as a call uses
//! it ([`Arc`]).

use std::ffi::c_int;
use std::sync::{Arc, Mutex, PoisonError};

use super::create::WholeData;
use super::library::FIRST_DERIVED;
use crate::descriptor::{ArraySection, SectionDimension};
use crate::generated::constants as c;

/// Datatypes that are kept: some more than the sections of the exchange with all neighbours in
/// three dimensions (a face each to send and to receive).
const KEPT: usize = 16;

/// What a datatype is made for.
#[derive(Clone, Copy, Debug)]
pub struct TypeKey<'a> {
    /// Elements.
    pub count: i64,
    /// Of this datatype: its handle in C.
    pub datatype: usize,
    /// Over this section; its address does not count.
    pub section: &'a ArraySection<'a>,
}

#[derive(Debug)]
struct Entry {
    count: i64,
    datatype: usize,
    /// Bytes of the section's element.
    element: usize,
    dimensions: Vec<SectionDimension>,
    data: Arc<WholeData>,
    /// The number of the look-up that found it last.
    used: u64,
}

/// At most [`KEPT`] datatypes. The one that was not used for longest makes room for a new one.
#[derive(Debug)]
struct TypeCache {
    entries: Vec<Entry>,
    lookups: u64,
}

static CACHE: Mutex<TypeCache> = Mutex::new(TypeCache { entries: Vec::new(), lookups: 0 });

fn with_cache<R>(access: impl FnOnce(&mut TypeCache) -> R) -> R {
    access(&mut CACHE.lock().unwrap_or_else(PoisonError::into_inner))
}

/// The datatype for `key`, made by `create` unless it is kept.
///
/// # Errors
/// Those of `create`, and `MPI_ERR_NO_MEM`.
#[inline]
pub fn find_or(
    key: TypeKey,
    create: impl FnOnce() -> Result<WholeData, c_int>,
) -> Result<Arc<WholeData>, c_int> {
    if key.datatype >= FIRST_DERIVED {
        return create().map(Arc::new);
    }
    if let Some(found) = with_cache(|cache| cache.find(key)) {
        return Ok(found);
    }
    let data = Arc::new(create()?);
    let new = Entry::new(key, Arc::clone(&data))?;
    // What falls out is freed after the cache is unlocked.
    drop(with_cache(|cache| cache.insert(new))?);
    Ok(data)
}

/// Frees all that is kept.
pub fn clear() {
    drop(with_cache(|cache| std::mem::take(&mut cache.entries)));
}

impl Entry {
    fn new(key: TypeKey, data: Arc<WholeData>) -> Result<Entry, c_int> {
        let TypeKey { count, datatype, section } = key;
        let mut dimensions = Vec::new();
        let given = section.dimensions;
        dimensions.try_reserve_exact(given.len()).map_err(|_| c::ERR_NO_MEM)?;
        dimensions.extend_from_slice(given);
        Ok(Entry { count, datatype, element: section.element, dimensions, data, used: 0 })
    }

    #[inline]
    fn is_for(&self, key: TypeKey) -> bool {
        let TypeKey { count, datatype, section } = key;
        (self.count, self.datatype, self.element) == (count, datatype, section.element)
            && self.dimensions.len() == section.dimensions.len()
            && self
                .dimensions
                .iter()
                .zip(section.dimensions)
                .all(|(kept, given)| (kept.extent, kept.stride) == (given.extent, given.stride))
    }
}

impl TypeCache {
    #[inline]
    fn find(&mut self, key: TypeKey) -> Option<Arc<WholeData>> {
        self.lookups += 1;
        let entry = self.entries.iter_mut().find(|entry| entry.is_for(key))?;
        entry.used = self.lookups;
        Some(Arc::clone(&entry.data))
    }

    /// Keeps a datatype, and returns the entry that makes room for it.
    fn insert(&mut self, mut new: Entry) -> Result<Option<Entry>, c_int> {
        new.used = self.lookups;
        if self.entries.len() < KEPT {
            self.entries.try_reserve(1).map_err(|_| c::ERR_NO_MEM)?;
            self.entries.push(new);
            return Ok(None);
        }
        let oldest = self.entries.iter_mut().min_by_key(|entry| entry.used);
        Ok(oldest.map(|entry| std::mem::replace(entry, new)))
    }
}
