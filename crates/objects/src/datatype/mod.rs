//! Datatypes (MPI 5.0, chapter 5): what a buffer's bytes are and in which order they travel.
//!
//! A [`Datatype`] is made by a constructor (`construct`, `array`, `f90`) from others. It keeps its
//! arguments, for `MPI_Type_get_contents` (`contents`); its bytes, compiled to a [`TypeLayout`],
//! for moving them; and its entries' machine types, as a compressed signature, for counting
//! ([`Datatype::elements`]) and converting them (`external`).
//!
//! The hot path, [`shape_of`], converts (handle, count) to the [`Shape`] that all communication
//! works on; for contiguous predefined types that is one table look-up.

mod array;
mod basic;
mod construct;
mod contents;
mod external;
mod f90;
mod pack;
mod predefined;
mod representation;
mod signature;

use std::ops::{Deref, Range};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex};

use mica_memory::{OutOfMemory, Shape, TypeLayout, TypeLayoutError, try_concat};

use crate::attribute::AttributeSet;
use crate::constants as c;
use crate::error::{Error, Result};
use crate::handle::{HandleKind, HandleTable};
use crate::sync::lock;

pub use mica_memory::{Region, View};

pub use basic::BasicType;
pub use contents::{TypeContents, TypeEnvelope};
pub use external::{external_size, pack_external, unpack_external};
pub use f90::match_size;
pub use pack::{pack, pack_size, unpack};

use predefined::{BASIC, DENSE, FIRST, PREDEFINED, PredefinedType, RANGE};
use signature::Signature;

/// A datatype. Clones name the same object.
#[derive(Clone, Debug)]
pub struct Datatype(TypeHandle);

/// Predefined datatypes are never freed, so the references that every call takes are not counted.
#[derive(Clone, Debug)]
enum TypeHandle {
    Forever(&'static TypeInner),
    Counted(Arc<TypeInner>),
}

impl Deref for TypeHandle {
    type Target = TypeInner;

    #[inline]
    fn deref(&self) -> &TypeInner {
        match self {
            TypeHandle::Forever(inner) => inner,
            TypeHandle::Counted(inner) => inner,
        }
    }
}

#[derive(Debug)]
struct TypeInner {
    /// 0 while the datatype has no handle.
    handle: AtomicU32,
    /// No other datatype of the process has or had it.
    serial: u64,
    core: Arc<TypeCore>,
    committed: AtomicBool,
    name: Mutex<String>,
    attributes: AttributeSet,
}

/// The arguments of the call that made a datatype.
#[derive(Debug)]
struct TypeArguments {
    combiner: i32,
    integers: Vec<i64>,
    addresses: Vec<i64>,
    counts: Vec<i64>,
    datatypes: Vec<Datatype>,
}

/// Without recursion: programs nest datatypes as deep as they like.
impl Drop for TypeArguments {
    fn drop(&mut self) {
        let mut rest = std::mem::take(&mut self.datatypes);
        while let Some(datatype) = rest.pop() {
            if let TypeHandle::Counted(inner) = datatype.0
                && let Some(inner) = Arc::into_inner(inner)
                && let Some(mut core) = Arc::into_inner(inner.core)
            {
                rest.append(&mut core.arguments.datatypes);
            }
        }
    }
}

/// What the constructor fixed; shared by the handles that `MPI_Type_get_contents` gives out.
#[derive(Debug)]
struct TypeCore {
    arguments: TypeArguments,
    layout: Arc<TypeLayout>,
    signature: Arc<Signature>,
    basic: Option<BasicType>,
    /// The machine type of all its entries, if it is one.
    element: Option<BasicType>,
    /// Predefined, with or without a name: never freed, always committed.
    permanent: bool,
}

static TABLE: HandleTable<Datatype> = HandleTable::new(HandleKind::Datatype);

/// The predefined datatypes by handle.
static NAMED: LazyLock<Vec<Option<Datatype>>> = LazyLock::new(|| {
    let mut named = vec![None; RANGE];
    for entry in PREDEFINED {
        named[(entry.handle - FIRST) as usize] = Some(Datatype::from_predefined(entry).forever());
    }
    named
});

/// The shape of `count` elements of the datatype `handle` in the buffer at `address`, which is only
/// checked for being null. The datatype must be committed. No elements of `MPI_DATATYPE_NULL` are
/// an empty message, as in MPICH and Intel MPI.
#[inline]
pub fn shape_of(handle: u32, address: usize, count: i64) -> Result<Shape> {
    match dense_bytes(handle, address, count) {
        Some(bytes) => Ok(Shape::Contiguous { bytes }),
        None => shape_of_derived(handle, address, count),
    }
}

/// The serial number of the datatype that a handle names, if it names one that has no constant:
/// unlike the handle, no later datatype gets it.
pub fn serial_of(handle: u32) -> Option<u64> {
    TABLE.look(handle, |datatype| datatype.0.serial)
}

/// What a predefined datatype is made of.
#[inline(always)]
pub fn basic_of(handle: u32) -> Option<BasicType> {
    *BASIC.get(handle.wrapping_sub(FIRST) as usize)?
}

/// Bytes of an element of a predefined datatype without gaps.
#[inline(always)]
pub fn dense_size(handle: u32) -> Option<usize> {
    match *DENSE.get(handle.wrapping_sub(FIRST) as usize)? {
        0 => None,
        bytes => Some(bytes.into()),
    }
}

/// Length in bytes of `count` elements at `address`, if the datatype is a predefined one without
/// gaps and the arguments are right.
#[inline(always)]
pub fn dense_bytes(handle: u32, address: usize, count: i64) -> Option<usize> {
    let size = dense_size(handle)?;
    // A negative count is a large one here; a length below 2^39 does not overflow.
    let right = count as u64 <= i32::MAX as u64 && (address != 0 || count == 0);
    right.then(|| count as usize * size)
}

/// Whether the datatype is a predefined integer of 8 bytes.
#[inline(always)]
pub fn is_integer_of_eight(handle: u32) -> bool {
    matches!(basic_of(handle), Some(BasicType::I64 | BasicType::U64))
}

#[inline(never)]
fn shape_of_derived(handle: u32, address: usize, count: i64) -> Result<Shape> {
    if handle == c::DATATYPE_NULL && count == 0 {
        return Ok(Shape::Contiguous { bytes: 0 });
    }
    let datatype = Datatype::resolve_committed(handle)?;
    let shape = datatype.shape(count)?;
    check_buffer(address, count, &datatype, "buf")?;
    Ok(shape)
}

/// Refuses a null address where elements lie (`MPI_ERR_BUFFER` on `argument`). `MPI_BOTTOM` is
/// null, too, so a datatype whose displacements are absolute addresses is accepted.
pub fn check_buffer(
    address: usize,
    count: i64,
    datatype: &Datatype,
    argument: &'static str,
) -> Result<()> {
    let empty = count <= 0 || datatype.size() == 0;
    if address != 0 || empty || datatype.true_lb().unsigned_abs() >= 4096 {
        return Ok(());
    }
    let reason = format!("a null buffer cannot hold {count} elements of {}", datatype.label());
    Err(Error::argument(c::ERR_BUFFER, argument, "NULL", reason))
}

/// `count` as an unsigned number, or `MPI_ERR_COUNT` on `argument`.
#[inline]
pub fn check_count(count: i64, argument: &'static str) -> Result<u64> {
    u64::try_from(count)
        .map_err(|_| Error::argument(c::ERR_COUNT, argument, count, "it must not be negative"))
}

/// `MPI_Type_get_value_index`: the predefined pair of these two types, or `MPI_DATATYPE_NULL`.
pub fn value_index(value: u32, index: u32) -> Result<u32> {
    for (handle, argument) in [(value, "value_type"), (index, "index_type")] {
        if Datatype::resolve_as(handle, argument)?.envelope().combiner != c::COMBINER_NAMED {
            let reason = "only predefined datatypes make pairs";
            return Err(Error::argument(c::ERR_TYPE, argument, show(handle), reason));
        }
    }
    Ok(predefined::pair_of(value, index).unwrap_or(c::DATATYPE_NULL))
}

fn show(handle: u32) -> String {
    match handle {
        c::DATATYPE_NULL => "MPI_DATATYPE_NULL".into(),
        _ => match PREDEFINED.iter().find(|entry| entry.handle == handle) {
            Some(entry) => entry.name.into(),
            None => format!("{handle:#x}"),
        },
    }
}

impl From<TypeLayoutError> for Error {
    fn from(error: TypeLayoutError) -> Error {
        match error {
            TypeLayoutError::OutOfMemory { bytes } => Error::no_type_memory(OutOfMemory { bytes }),
            TypeLayoutError::Overflow { .. } => Error::other(c::ERR_ARG, error.to_string()),
        }
    }
}

fn small(values: &[&[i64]]) -> bool {
    values.iter().all(|list| list.iter().all(|&value| i32::try_from(value).is_ok()))
}

impl TypeArguments {
    /// Of a predefined, named datatype.
    pub fn named() -> TypeArguments {
        TypeArguments {
            combiner: c::COMBINER_NAMED,
            integers: Vec::new(),
            addresses: Vec::new(),
            counts: Vec::new(),
            datatypes: Vec::new(),
        }
    }

    /// Counts that are `int` or `MPI_Count`, displacements that are `MPI_Aint` or `MPI_Count`, and
    /// datatypes.
    pub fn new(
        combiner: i32,
        counts: &[&[i64]],
        displacements: &[i64],
        datatypes: Vec<Datatype>,
    ) -> Result<TypeArguments> {
        let mut arguments = TypeArguments::named();
        (arguments.combiner, arguments.datatypes) = (combiner, datatypes);
        if small(counts) {
            arguments.integers = try_concat(counts).map_err(Error::no_type_memory)?;
            arguments.addresses = try_concat(&[displacements]).map_err(Error::no_type_memory)?;
        } else {
            let counts = try_concat(counts).map_err(Error::no_type_memory)?;
            arguments.counts =
                try_concat(&[&counts, displacements]).map_err(Error::no_type_memory)?;
        }
        Ok(arguments)
    }

    /// As the large form of the call has them.
    fn made_large(&mut self) -> Result<()> {
        let TypeArguments { combiner, integers, addresses, counts, .. } = self;
        if !counts.is_empty() {
            return Ok(()); // they do not fit the plain form
        }
        // Where what is a count lies among the integers.
        let places = match *combiner {
            c::COMBINER_SUBARRAY => 1..integers.len() - 1,
            c::COMBINER_DARRAY => 3..3 + integers[2] as usize,
            _ => 0..integers.len(),
        };
        *counts =
            try_concat(&[&integers[places.clone()], addresses]).map_err(Error::no_type_memory)?;
        integers.drain(places);
        *addresses = Vec::new();
        Ok(())
    }

    /// Of an array constructor: integers before and after `sizes`, which alone can be large.
    pub fn array(
        combiner: i32,
        before: &[i64],
        sizes: &[&[i64]],
        after: &[i64],
        old: &Datatype,
    ) -> Result<TypeArguments> {
        let mut arguments = TypeArguments::named();
        (arguments.combiner, arguments.datatypes) = (combiner, vec![old.clone()]);
        let sizes = try_concat(sizes).map_err(Error::no_type_memory)?;
        let integers: &[&[i64]] = match small(&[&sizes]) {
            true => &[before, &sizes, after],
            false => &[before, after],
        };
        arguments.integers = try_concat(integers).map_err(Error::no_type_memory)?;
        if !small(&[&sizes]) {
            arguments.counts = sizes;
        }
        Ok(arguments)
    }
}

impl Datatype {
    /// The datatype that `handle` names. The error names the argument `datatype`.
    pub fn resolve(handle: u32) -> Result<Datatype> {
        Datatype::resolve_as(handle, "datatype")
    }

    /// The datatype that `handle` names, passed as `argument`.
    pub fn resolve_as(handle: u32, argument: &'static str) -> Result<Datatype> {
        Datatype::predefined(handle).or_else(|| TABLE.get(handle)).ok_or_else(|| {
            let reason = match handle {
                c::DATATYPE_NULL => "a datatype is needed",
                _ => "this is not a datatype, or it has been freed",
            };
            Error::argument(c::ERR_TYPE, argument, show(handle), reason)
        })
    }

    /// The datatype that `handle` names, if it is committed.
    pub fn resolve_committed(handle: u32) -> Result<Datatype> {
        let datatype = Datatype::resolve(handle)?;
        if datatype.committed() {
            return Ok(datatype);
        }
        let reason = "this datatype has not been committed; call MPI_Type_commit first";
        Err(Error::argument(c::ERR_TYPE, "datatype", datatype.label(), reason))
    }

    /// The predefined datatype of the standard ABI with this handle.
    pub fn predefined(handle: u32) -> Option<Datatype> {
        NAMED.get(handle.wrapping_sub(FIRST) as usize)?.clone()
    }

    fn from_predefined(entry: &PredefinedType) -> Datatype {
        let &PredefinedType { handle, name, basic, external } = entry;
        let layout = Datatype::layout_of(basic);
        let core = TypeCore {
            arguments: TypeArguments::named(),
            layout: Arc::new(layout),
            signature: Signature::basic(basic, external),
            basic: Some(basic),
            element: Some(basic),
            permanent: true,
        };
        let datatype = Datatype::new(core);
        datatype.0.handle.store(handle, Ordering::Relaxed);
        datatype.set_name(name);
        datatype
    }

    fn layout_of(basic: BasicType) -> TypeLayout {
        const FITS: &str = "a predefined datatype is small";
        let field = |basic: BasicType| TypeLayout::basic(basic.size(), basic.align()).expect(FITS);
        match basic.pair() {
            None => field(basic),
            Some((value, index)) => {
                let fields = [(1, 0, &field(value)), (1, basic.index_at() as i64, &field(index))];
                TypeLayout::structure(fields).expect(FITS)
            }
        }
    }

    /// The same, which no other names yet, as if made by the large form of the call: its counts and
    /// displacements are `MPI_Count`, whatever their values (MPI 5.0, 5.1.13).
    ///
    /// # Errors
    /// `MPI_ERR_NO_MEM`.
    pub fn made_large(mut self) -> Result<Datatype> {
        if let TypeHandle::Counted(inner) = &mut self.0
            && let Some(inner) = Arc::get_mut(inner)
            && let Some(core) = Arc::get_mut(&mut inner.core)
        {
            core.arguments.made_large()?;
        }
        Ok(self)
    }

    /// A datatype without a handle yet; a permanent one is committed.
    fn new(core: TypeCore) -> Datatype {
        let committed = core.permanent;
        Datatype::with_core(Arc::new(core), committed, AttributeSet::default())
    }

    // flag: a state that is copied from the datatype that it is made of, not a choice.
    fn with_core(core: Arc<TypeCore>, committed: bool, attributes: AttributeSet) -> Datatype {
        // Relaxed: that numbers differ is all that matters.
        static SERIALS: AtomicU64 = AtomicU64::new(1);
        let serial = SERIALS.fetch_add(1, Ordering::Relaxed);
        Datatype(TypeHandle::Counted(Arc::new(TypeInner {
            handle: AtomicU32::new(0),
            serial,
            core,
            committed: AtomicBool::new(committed),
            name: Mutex::default(),
            attributes,
        })))
    }

    /// The same datatype, never freed.
    fn forever(self) -> Datatype {
        match self.0 {
            TypeHandle::Counted(inner) => Datatype(TypeHandle::Forever(Box::leak(Box::new(inner)))),
            forever => Datatype(forever),
        }
    }

    /// Gives the datatype a handle, if it has none yet, and returns it.
    ///
    /// # Errors
    /// `MPI_ERR_NO_MEM` when no handle is left.
    pub fn register(&self) -> Result<u32> {
        let handle = self.handle();
        if handle != 0 {
            return Ok(handle);
        }
        TABLE.insert_with(|handle| {
            self.0.handle.store(handle, Ordering::Relaxed);
            self.clone()
        })?;
        Ok(self.handle())
    }

    /// The datatype's handle, 0 if it was never registered.
    pub fn handle(&self) -> u32 {
        self.0.handle.load(Ordering::Relaxed)
    }

    /// Calls `f` with a handle that names the datatype: its own or, if the program has freed that
    /// meanwhile, a temporary one for the duration of the call. (A reduction under way passes its
    /// datatype to the user's operator.)
    ///
    /// # Errors
    /// `MPI_ERR_NO_MEM` when no handle is left.
    pub fn with_handle<R>(&self, f: impl FnOnce(u32) -> R) -> Result<R> {
        let own = self.handle();
        if self.0.core.permanent
            || TABLE.get(own).is_some_and(|found| std::ptr::eq(&*found.0, &*self.0))
        {
            return Ok(f(own));
        }
        let lent = TABLE.insert(self.clone())?;
        let result = f(lent);
        TABLE.remove(lent);
        Ok(result)
    }

    /// `MPI_Type_free`: deletes the attributes and frees the handle. Operations that still use the
    /// datatype keep it alive.
    pub fn free(handle: u32) -> Result<()> {
        let datatype = Datatype::resolve(handle)?;
        if datatype.0.core.permanent {
            let reason = "a predefined datatype cannot be freed";
            return Err(Error::argument(c::ERR_TYPE, "datatype", datatype.label(), reason));
        }
        datatype.0.attributes.delete_all(handle)?;
        TABLE.remove(handle);
        Ok(())
    }

    /// `MPI_Type_commit`: from now on the datatype may be used in communication.
    pub fn commit(&self) {
        self.0.committed.store(true, Ordering::Relaxed);
    }

    /// Whether the datatype may be used in communication.
    #[inline]
    pub fn committed(&self) -> bool {
        self.0.committed.load(Ordering::Relaxed)
    }

    /// Whether this is a predefined datatype, named or not (`MPI_Type_create_f90_*`).
    pub fn is_predefined(&self) -> bool {
        self.0.core.permanent
    }

    /// The machine type of a predefined datatype or of a duplicate of one: what operators work on.
    #[inline]
    pub fn basic(&self) -> Option<BasicType> {
        self.0.core.basic
    }

    /// The machine type of all its entries, if it is one: what accumulates work on (MPI 5.0,
    /// 12.3.4).
    pub fn element(&self) -> Option<BasicType> {
        self.0.core.element
    }

    /// The name (`MPI_Type_get_name`), empty if none was set.
    pub fn name(&self) -> String {
        lock(&self.0.name).clone()
    }

    /// `MPI_Type_set_name`. A name of `MPI_MAX_OBJECT_NAME` bytes or more is cut.
    pub fn set_name(&self, name: &str) {
        let end = name.floor_char_boundary(c::MAX_OBJECT_NAME - 1);
        *lock(&self.0.name) = name[..end].into();
    }

    /// The datatype in error messages: its name if it has one.
    pub fn label(&self) -> String {
        let name = self.name();
        if name.is_empty() { show(self.handle()) } else { name }
    }

    /// The attributes cached on the datatype.
    pub fn attributes(&self) -> &AttributeSet {
        &self.0.attributes
    }

    /// The compiled byte layout of one element.
    #[inline]
    pub fn layout(&self) -> &Arc<TypeLayout> {
        &self.0.core.layout
    }

    /// Number of bytes of one element.
    #[inline]
    pub fn size(&self) -> i64 {
        self.layout().size() as i64
    }

    /// Lower bound.
    #[inline]
    pub fn lb(&self) -> i64 {
        self.layout().lb()
    }

    /// Distance between elements of an array.
    #[inline]
    pub fn extent(&self) -> i64 {
        self.layout().extent()
    }

    /// Displacement of the first byte.
    pub fn true_lb(&self) -> i64 {
        self.layout().true_lb()
    }

    /// Distance from the first byte to the end of the last.
    pub fn true_extent(&self) -> i64 {
        self.layout().true_ub() - self.layout().true_lb()
    }

    /// The shape of `count` elements.
    pub fn shape(&self, count: i64) -> Result<Shape> {
        let elements = check_count(count, "count")? as usize;
        Shape::of(self.layout(), elements).map_err(|error| {
            let reason = format!("with the datatype {}, {error}", self.label());
            Error::argument(c::ERR_COUNT, "count", count, reason)
        })
    }

    /// What an operation on `count` elements may touch, in bytes relative to the buffer: their
    /// bytes, and also everything between `lb` and `ub`, which users' operators see. Empty where
    /// `count` elements have no [`shape`](Self::shape).
    pub fn bounds(&self, count: i64) -> Range<isize> {
        let layout = self.layout();
        let bounds = || {
            let last = count.checked_sub(1).filter(|&last| last >= 0)?;
            let shift = layout.extent().checked_mul(last)?;
            let low = layout.lb().min(layout.true_lb());
            let high = layout.ub().max(layout.true_ub());
            let (low, high) = (low.checked_add(shift.min(0))?, high.checked_add(shift.max(0))?);
            Some(low as isize..high as isize)
        };
        bounds().unwrap_or(0..0)
    }

    /// How many whole elements `bytes` received bytes are; `None` if they are not whole
    /// (`MPI_Get_count`).
    pub fn count(&self, bytes: u64) -> Option<u64> {
        match self.layout().size() {
            0 => (bytes == 0).then_some(0),
            size => bytes.is_multiple_of(size).then_some(bytes / size),
        }
    }

    /// How many basic elements `bytes` received bytes are; `None` if the last is cut
    /// (`MPI_Get_elements`).
    pub fn elements(&self, bytes: u64) -> Option<u64> {
        self.0.core.signature.elements_in(bytes)
    }

    /// How many bytes this number of basic elements has (`MPI_Status_set_elements`).
    pub fn bytes_of_elements(&self, elements: i64) -> Result<u64> {
        let wanted = check_count(elements, "count")?;
        self.0.core.signature.bytes_of(wanted).ok_or_else(|| {
            let reason = format!("the datatype {} cannot have {elements} elements", self.label());
            Error::argument(c::ERR_COUNT, "count", elements, reason)
        })
    }
}

#[cfg(test)]
mod tests;
