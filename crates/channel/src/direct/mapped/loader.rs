//! The loaded objects: where their static data lies, and through which words they call the watched
//! functions.
//!
//! A call from one object to a function of another goes through a word of the caller's global
//! offset table (GOT) that the loader fills in. If the word is for a [watched](Watched) function,
//! it is set to the address of the library's own version, as UCX and Open MPI do for their
//! registration caches. Objects that are loaded later, lazy binding and `dlsym` take the address
//! from the symbol table of the C library: the address is replaced there, too (a word of data in
//! this process's private copy of a page; no code is changed). The C library's own calls are not
//! affected.
//!
//! Not covered: calls by the system call instruction, and pointers that a program has obtained by
//! `dlsym` and stored before.
//!
//! All of this is done under the loader's lock (`dl_iterate_phdr`), so that no object is unloaded
//! meanwhile.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ops::Range;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::eligibility::SkipReason;
use super::raw;
use mica_node::procmap::ProcMap;

/// A function of the C library, and what is called in its place.
#[derive(Debug, Clone, Copy)]
pub(super) struct Watched {
    pub name: &'static CStr,
    pub hook: usize,
}

/// The objects loaded at one point in time.
#[derive(Debug, Default)]
pub(super) struct LoadCounts {
    /// Number of objects loaded and unloaded until then.
    stamp: (u64, u64),
    /// Their writable segments: static data.
    pub data: Vec<Range<usize>>,
}

/// The result of the last walk.
#[derive(Debug)]
struct LoaderSnapshot {
    objects: Option<Arc<LoadCounts>>,
    /// The watched functions, resolved.
    functions: Vec<Resolved>,
}

static KNOWN: Mutex<LoaderSnapshot> =
    Mutex::new(LoaderSnapshot { objects: None, functions: Vec::new() });

/// Returns what is loaded, and hooks the calls of `functions` in all loaded objects (without
/// functions: only returns it). Fast if nothing has changed since the last call.
///
/// # Errors
/// [`SkipReason::Unwatched`] where an object other than the C library defines one of the functions,
/// or the kernel refuses.
pub(super) fn visit_all(functions: &[Watched]) -> Result<Arc<LoadCounts>, SkipReason> {
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let is_new = known.functions.is_empty() && !functions.is_empty();
    if let Some(objects) = &known.objects
        && objects.stamp == stamp()
        && !is_new
    {
        return Ok(Arc::clone(objects));
    }
    let mut resolved = known.functions.clone();
    if is_new {
        for function in functions {
            // A function that the C library lacks has no callers.
            resolved.extend(Resolved::of(*function)?);
        }
    }
    let mut survey = ObjectWalk {
        objects: LoadCounts::default(),
        libc: Vec::new(),
        maps: ProcMap::open().map_err(|_| SkipReason::Unwatched)?,
        functions: resolved,
        is_new,
        result: Ok(()),
    };
    // The callbacks must not call the loader (dladdr, dlsym), which takes its locks in another
    // order elsewhere.
    for each in [find_libc, visit] {
        // SAFETY: the callbacks have the type that is wanted, and the survey outlives the calls.
        unsafe { libc::dl_iterate_phdr(Some(each), (&raw mut survey).cast()) };
    }
    if survey.result.is_err() && is_new {
        // The words that have been replaced stay so: the hooks do no harm where nothing is
        // migrated. But the functions must not be resolved again.
        known.functions = survey.functions;
        known.objects = None;
        return Err(SkipReason::Unwatched);
    }
    survey.result?;
    known.functions = survey.functions;
    let objects = Arc::new(survey.objects);
    known.objects = Some(Arc::clone(&objects));
    Ok(objects)
}

/// Number of objects loaded and unloaded since the program started.
fn stamp() -> (u64, u64) {
    extern "C" fn first(info: *mut libc::dl_phdr_info, _: usize, to: *mut c_void) -> c_int {
        // SAFETY: the loader's description of an object, and the pair that `stamp` passes.
        unsafe { *to.cast::<(u64, u64)>() = ((*info).dlpi_adds, (*info).dlpi_subs) };
        1
    }
    let mut stamp = (0, 0);
    // SAFETY: as in `visit_all`.
    unsafe { libc::dl_iterate_phdr(Some(first), (&raw mut stamp).cast()) };
    stamp
}

/// A watched function, and where it is in the C library.
#[derive(Debug, Clone, Copy)]
struct Resolved {
    function: Watched,
    address: usize,
}

impl Resolved {
    fn of(function: Watched) -> Result<Option<Resolved>, SkipReason> {
        // SAFETY: the name is NUL-terminated.
        let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, function.name.as_ptr()) };
        if found.is_null() {
            return Ok(None);
        }
        let object = super::eligibility::object_of(found).unwrap_or_default();
        if !super::eligibility::is_libc(&object) {
            return Err(SkipReason::Unwatched);
        }
        let address = found.addr();
        Ok(Some(Resolved { function, address }))
    }
}

/// The state that is passed from object to object.
struct ObjectWalk {
    objects: LoadCounts,
    /// The C library's segments.
    libc: Vec<Range<usize>>,
    functions: Vec<Resolved>,
    /// Nothing is watched yet.
    is_new: bool,
    maps: ProcMap,
    result: Result<(), SkipReason>,
}

extern "C" fn find_libc(info: *mut libc::dl_phdr_info, _: usize, survey: *mut c_void) -> c_int {
    // SAFETY: `visit_all` passes its survey, which nothing else uses meanwhile; the loader passes
    // the description of an object, which is loaded as long as the loader's lock is held.
    let (survey, object) =
        unsafe { (&mut *survey.cast::<ObjectWalk>(), LoadedObject::new(&*info)) };
    if survey.functions.first().is_some_and(|f| object.contains(f.address)) {
        survey.libc = object.segments.into_iter().map(|(part, _)| part).collect();
        return 1;
    }
    0
}

extern "C" fn visit(info: *mut libc::dl_phdr_info, _: usize, survey: *mut c_void) -> c_int {
    // SAFETY: as in `find_libc`.
    let (survey, info) = unsafe { (&mut *survey.cast::<ObjectWalk>(), &*info) };
    survey.objects.stamp = (info.dlpi_adds, info.dlpi_subs);
    // SAFETY: as above.
    let object = unsafe { LoadedObject::new(info) };
    let data = object.segments.iter().filter(|(_, writable)| *writable);
    survey.objects.data.extend(data.map(|(part, _)| part.clone()));
    // SAFETY: as above.
    let result = unsafe { object.watch(survey) };
    survey.result = survey.result.and(result);
    0
}

/// An entry of the dynamic section.
#[repr(C)]
struct Dynamic {
    tag: i64,
    value: usize,
}

/// A relocation with addend.
#[repr(C)]
struct Rela {
    offset: usize,
    info: u64,
    addend: i64,
}

/// A symbol.
#[repr(C)]
struct Symbol {
    name: u32,
    info: u8,
    other: u8,
    section: u16,
    value: usize,
    size: usize,
}

const _: () = assert!(size_of::<Rela>() == 24 && size_of::<Symbol>() == 24);

const DT_PLTRELSZ: i64 = 2;
const DT_STRTAB: i64 = 5;
const DT_SYMTAB: i64 = 6;
const DT_RELA: i64 = 7;
const DT_RELASZ: i64 = 8;
const DT_JMPREL: i64 = 23;
const DT_GNU_HASH: i64 = 0x6fff_fef5;
const DT_RELACOUNT: i64 = 0x6fff_fff9;

/// Relocations that put a symbol's address somewhere: in a GOT for data (GLOB_DAT) and for calls
/// (JUMP_SLOT), or anywhere.
#[cfg(target_arch = "x86_64")]
const ADDRESS_OF_SYMBOL: [u64; 3] = [6, 7, 1];
#[cfg(target_arch = "aarch64")]
const ADDRESS_OF_SYMBOL: [u64; 3] = [1025, 1026, 257];

/// A loaded object's tables.
struct LoadedObject {
    base: usize,
    segments: Vec<(Range<usize>, bool)>,
    symbols: usize,
    names: usize,
    hash: usize,
    /// Address and number of relocations, in two tables.
    relocations: [(usize, usize); 2],
}

impl LoadedObject {
    /// # Safety
    /// `info` describes an object that is loaded as long as this lives.
    unsafe fn new(info: &libc::dl_phdr_info) -> LoadedObject {
        let base = info.dlpi_addr as usize;
        let mut object = LoadedObject {
            base,
            segments: Vec::new(),
            symbols: 0,
            names: 0,
            hash: 0,
            relocations: [(0, 0); 2],
        };
        let mut dynamic = ptr::null();
        for i in 0..usize::from(info.dlpi_phnum) {
            // SAFETY: the obligation: the loader's array has `dlpi_phnum` headers.
            let header = unsafe { &*info.dlpi_phdr.add(i) };
            let start = base.wrapping_add(header.p_vaddr as usize);
            match header.p_type {
                libc::PT_LOAD => {
                    let writable = header.p_flags & libc::PF_W != 0;
                    let part = start..start + header.p_memsz as usize;
                    object.segments.push((part, writable));
                }
                libc::PT_DYNAMIC => dynamic = ptr::with_exposed_provenance::<Dynamic>(start),
                _ => {}
            }
        }
        // SAFETY: the obligation: the dynamic section ends with an entry of tag 0.
        unsafe { object.read_dynamic(dynamic) };
        object
    }

    /// # Safety
    /// `entry` is null or the first of a dynamic section.
    unsafe fn read_dynamic(&mut self, mut entry: *const Dynamic) {
        let mut leading = 0;
        // SAFETY: the obligation.
        while let Some(&Dynamic { tag, value }) = unsafe { entry.as_ref() } {
            // The loader has added the base, except in sections that it cannot write to.
            let at = if value < self.base { value + self.base } else { value };
            let count = value / size_of::<Rela>();
            match tag {
                0 => break,
                DT_SYMTAB => self.symbols = at,
                DT_STRTAB => self.names = at,
                DT_GNU_HASH => self.hash = at,
                DT_JMPREL => self.relocations[0].0 = at,
                DT_PLTRELSZ => self.relocations[0].1 = count,
                DT_RELA => self.relocations[1].0 = at,
                DT_RELASZ => self.relocations[1].1 = count,
                DT_RELACOUNT => leading = value,
                _ => {}
            }
            // SAFETY: this entry is not the last.
            entry = unsafe { entry.add(1) };
        }
        // The first entries name no symbol.
        let (at, count) = &mut self.relocations[1];
        let leading = leading.min(*count);
        *at += leading * size_of::<Rela>();
        *count -= leading;
    }

    fn contains(&self, address: usize) -> bool {
        let mut parts = self.segments.iter();
        parts.any(|(part, _)| part.contains(&address))
    }

    /// # Safety
    /// The object is loaded, and `index` is one of its symbols.
    unsafe fn symbol(&self, index: usize) -> *mut Symbol {
        ptr::with_exposed_provenance_mut(self.symbols + index * size_of::<Symbol>())
    }

    /// # Safety
    /// As [`symbol`](Self::symbol).
    unsafe fn name(&self, symbol: *const Symbol) -> &CStr {
        // SAFETY: names are NUL-terminated strings in the table.
        unsafe {
            let at = self.names + (*symbol).name as usize;
            CStr::from_ptr(ptr::with_exposed_provenance::<c_char>(at))
        }
    }

    /// Installs the hooks in the object's tables.
    ///
    /// # Safety
    /// The object is loaded.
    unsafe fn watch(&self, survey: &ObjectWalk) -> Result<(), SkipReason> {
        if self.symbols == 0 || self.names == 0 || !self.contains(self.symbols) {
            return Ok(());
        }
        let functions = &survey.functions;
        for &(table, count) in &self.relocations {
            if table == 0 {
                continue;
            }
            for i in 0..count {
                // SAFETY: the table has `count` entries, which name symbols of the object.
                unsafe {
                    let entry = &*ptr::with_exposed_provenance::<Rela>(table).add(i);
                    let index = (entry.info >> 32) as usize;
                    let kind = entry.info & 0xffff_ffff;
                    if index == 0 || entry.addend != 0 || !ADDRESS_OF_SYMBOL.contains(&kind) {
                        continue;
                    }
                    let symbol = self.symbol(index);
                    if (*symbol).section != 0 {
                        continue;
                    }
                    let name = self.name(symbol);
                    if let Some(found) = functions.iter().find(|f| f.function.name == name) {
                        let slot = self.base.wrapping_add(entry.offset);
                        self.watch_slot(slot, found, survey)?;
                    }
                }
            }
        }
        for resolved in functions {
            if survey.is_new && self.contains(resolved.address) {
                // SAFETY: the object is loaded.
                unsafe { self.watch_export(resolved, &survey.maps)? };
            }
        }
        Ok(())
    }

    /// # Safety
    /// `slot` is a word of this object that holds a function's address.
    unsafe fn watch_slot(
        &self,
        slot: usize,
        found: &Resolved,
        survey: &ObjectWalk,
    ) -> Result<(), SkipReason> {
        // SAFETY: the obligation; the loader writes to it as a whole word.
        let now = unsafe { word(slot) }.load(Ordering::Relaxed);
        if now == found.function.hook {
            return Ok(());
        }
        // Not bound yet, or bound to the C library's. A word that another tool has set is left
        // alone.
        let is_libcs = survey.libc.iter().any(|part| part.contains(&now));
        if !self.contains(now) && !is_libcs {
            return Err(SkipReason::Unwatched);
        }
        // SAFETY: as above.
        unsafe { write(slot, found.function.hook, &survey.maps) }
    }

    /// Sets the function's entry in the symbol table of the object that defines it to the hook.
    ///
    /// # Safety
    /// The object is loaded and defines it.
    unsafe fn watch_export(&self, resolved: &Resolved, maps: &ProcMap) -> Result<(), SkipReason> {
        // SAFETY: the obligation.
        let symbol = unsafe { self.lookup(resolved.function.name) }.ok_or(SkipReason::Unwatched)?;
        // SAFETY: a symbol of this object.
        let value = unsafe { &raw mut (*symbol).value };
        let hook = resolved.function.hook.wrapping_sub(self.base);
        // SAFETY: the symbol's value is a word, which the loader reads when it resolves the symbol.
        unsafe { write(value.expose_provenance(), hook, maps) }
    }

    /// A symbol that the object defines, found in its hash table (DT_GNU_HASH).
    ///
    /// # Safety
    /// The object is loaded.
    unsafe fn lookup(&self, name: &CStr) -> Option<*mut Symbol> {
        if self.hash == 0 {
            return None;
        }
        let step = |h: u32, &c: &u8| h.wrapping_mul(33).wrapping_add(u32::from(c));
        let hash = name.to_bytes().iter().fold(5381u32, step);
        // SAFETY: the table's header is the number of buckets, the first symbol, the filter's
        // number of words, and the shift; then follow filter, buckets, and chains, each of which
        // ends with an odd entry.
        unsafe {
            let head = ptr::with_exposed_provenance::<u32>(self.hash);
            let (buckets, first, filter) = (*head, *head.add(1), *head.add(2));
            let bucket = head.add(4 + 2 * filter as usize);
            let chain = bucket.add(buckets as usize);
            let mut index = *bucket.add((hash % buckets) as usize);
            if index < first {
                return None;
            }
            loop {
                let entry = *chain.add((index - first) as usize);
                let symbol = self.symbol(index as usize);
                if entry | 1 == hash | 1 && (*symbol).section != 0 && self.name(symbol) == name {
                    return Some(symbol);
                }
                if entry & 1 == 1 {
                    return None;
                }
                index += 1;
            }
        }
    }
}

/// # Safety
/// `at` is an aligned word of a loaded object, of data that is written as whole words only.
unsafe fn word<'a>(at: usize) -> &'a AtomicUsize {
    // SAFETY: the obligation.
    unsafe { AtomicUsize::from_ptr(ptr::with_exposed_provenance_mut(at)) }
}

/// Writes a word of an object's tables, which may be read-only after relocation.
///
/// # Safety
/// As [`word`].
unsafe fn write(at: usize, value: usize, maps: &ProcMap) -> Result<(), SkipReason> {
    let area = match maps.at(at) {
        Ok(Some(area)) if !area.shared && at.is_multiple_of(size_of::<usize>()) => area,
        _ => return Err(SkipReason::Unwatched),
    };
    let page = at & !(area.page_bytes - 1);
    let protect = |protection: i32| {
        let at = ptr::without_provenance_mut(page);
        // SAFETY: the page of a table that only the loader and this module write.
        unsafe { libc::mprotect(at, area.page_bytes, protection) == 0 }
    };
    let before = raw::protection(&area);
    if !area.writable && !protect(before | libc::PROT_WRITE) {
        return Err(SkipReason::Unwatched);
    }
    // SAFETY: the obligation, and writable now. A concurrent reader sees the old address or the new
    // one.
    unsafe { word(at) }.store(value, Ordering::Release);
    if !area.writable {
        protect(before);
    }
    Ok(())
}
