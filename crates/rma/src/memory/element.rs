//! The elements of an accumulate: what one is, where they lie, and how they are changed.

use mica_memory::{AtomicWidth, Block, Region, RegionRef, Shape, copy_bytes};
use mica_node::window::AccumulateGate;

use super::place::TargetPlace;
use mica_objects::constants as c;
use mica_objects::datatype::{self, BasicType, Datatype};
use mica_objects::error::{Error, Result};
use mica_objects::op::Op;
use mica_objects::op::kernel::Kernel;

/// Elements that a locked update changes before it lets others in: 128 KiB of doubles, about 3 us.
pub(crate) const BULK_ELEMENTS: usize = 16384;

/// Bytes of the widest elements that the processor changes in one step.
const WIDE: usize = 16;

/// What an accumulate does to each element (MPI 5.0, 12.3.4).
#[derive(Debug, Clone, Copy)]
pub(crate) struct ElementUpdate {
    pub basic: BasicType,
    action: UpdateAction,
}

#[derive(Debug, Clone, Copy)]
enum UpdateAction {
    /// `MPI_NO_OP`.
    Nothing,
    /// `MPI_REPLACE`.
    Replace,
    /// `MPI_SUM` of integers, which the processor adds.
    Add,
    /// `MPI_SUM` of doubles, the most usual one, without a call for each.
    AddDouble,
    Combine(Kernel),
}

/// `MPI_SUM` of elements of 8 bytes that a processor's register holds: counters, mostly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SumOfEight {
    /// Signed or not.
    Integers,
    /// IEEE 754.
    Doubles,
}

impl SumOfEight {
    /// The sum that this is, if `op` is `MPI_SUM` and `datatype` predefined.
    #[inline(always)]
    pub fn of(op: u32, datatype: u32) -> Option<SumOfEight> {
        match datatype::basic_of(datatype)? {
            _ if op != c::SUM => None,
            BasicType::I64 | BasicType::U64 => Some(SumOfEight::Integers),
            BasicType::F64 => Some(SumOfEight::Doubles),
            _ => None,
        }
    }

    /// Adds `input` to the element by a processor atomic; returns the previous value.
    #[inline(always)]
    pub(crate) fn add(self, element: RegionRef<'_>, input: u64) -> u64 {
        match self {
            SumOfEight::Integers => element.atomic_add(AtomicWidth::Eight, input),
            SumOfEight::Doubles => add_double(element, AtomicWidth::Eight, input),
        }
    }
}

#[inline(always)]
fn add_double(element: RegionRef<'_>, width: AtomicWidth, input: u64) -> u64 {
    element.atomic_update(width, |value| (f64::from_bits(input) + f64::from_bits(value)).to_bits())
}

impl ElementUpdate {
    /// The update by the operator `op` of elements of this type.
    ///
    /// # Errors
    /// `MPI_ERR_OP` if the operator is the program's own, or not defined on the type.
    pub fn new(op: u32, basic: BasicType) -> Result<ElementUpdate> {
        ElementUpdate::of(op, basic).ok_or_else(|| no_operator(op, basic))
    }

    /// As [`new`](Self::new); `None` if there is no such update.
    #[inline(always)]
    pub fn of(op: u32, basic: BasicType) -> Option<ElementUpdate> {
        let action = match op {
            c::NO_OP => UpdateAction::Nothing,
            c::REPLACE => UpdateAction::Replace,
            c::SUM if is_integer(basic) => UpdateAction::Add,
            c::SUM if basic == BasicType::F64 => UpdateAction::AddDouble,
            _ => UpdateAction::Combine(Op::kernel_on(op, basic)?),
        };
        Some(ElementUpdate { basic, action })
    }

    /// Bytes of `n` elements side by side, without the padding after the last.
    #[inline]
    pub fn bytes(&self, n: usize) -> usize {
        self.basic.extent() as usize * (n - 1) + used(self.basic)
    }

    /// Whether there is padding between elements, or inside them.
    #[inline]
    pub fn has_gap(&self) -> bool {
        has_gap(self.basic)
    }

    /// The processor's width for one of these elements at `address`, if it has one.
    #[inline(always)]
    pub fn width_at(&self, address: usize) -> Option<AtomicWidth> {
        match has_gap(self.basic) {
            true => None,
            false => AtomicWidth::at(address, self.basic.size() as usize),
        }
    }

    /// The origin's value at `from`; `MPI_NO_OP` has none.
    #[inline(always)]
    pub fn input(&self, from: RegionRef<'_>, width: AtomicWidth) -> u64 {
        match self.action {
            UpdateAction::Nothing => 0,
            _ => from.load(width),
        }
    }

    /// Changes one element by a processor atomic; returns the previous value.
    #[inline(always)]
    pub fn apply_atomically(&self, element: RegionRef<'_>, width: AtomicWidth, input: u64) -> u64 {
        match self.action {
            UpdateAction::Nothing => element.atomic_load(width),
            UpdateAction::Replace => element.atomic_swap(width, input),
            UpdateAction::Add => element.atomic_add(width, input),
            UpdateAction::AddDouble => add_double(element, width, input),
            UpdateAction::Combine(kernel) => element.atomic_update(width, |value| {
                let (input, mut inout) = (to_bytes(input, width), to_bytes(value, width));
                let bytes = width.bytes();
                kernel(&input[..bytes], &mut inout[..bytes]);
                from_bytes(&inout, width)
            }),
        }
    }

    /// Updates `bytes` bytes of contiguous elements by plain loads and stores.
    #[inline]
    pub fn apply(&self, input: RegionRef<'_>, inout: RegionRef<'_>, bytes: usize) {
        match self.action {
            UpdateAction::Nothing => {}
            UpdateAction::Replace => input.copy_to(inout, bytes),
            UpdateAction::Add | UpdateAction::AddDouble => {
                input.combine_into(inout, bytes, sum_of(self.basic))
            }
            UpdateAction::Combine(kernel) => input.combine_into(inout, bytes, kernel),
        }
    }

    /// Changes `n` elements side by side at `place`, in a locked update; stores the previous values
    /// in `result`, if there is one.
    pub fn apply_locked(
        &self,
        place: TargetPlace<'_>,
        input: &Region,
        result: Option<&Region>,
        n: usize,
    ) -> Result<()> {
        let bytes = self.bytes(n);
        if let Some(target) = place.region(bytes) {
            if let Some(result) = result {
                // The input may be the result's buffer: it is used before that is overwritten.
                let previous = Block::allocate(bytes)?;
                copy_bytes(&target, &previous, bytes);
                self.apply(input.at(0), target.at(0), bytes);
                copy_bytes(&previous, result, bytes);
            } else {
                self.apply(input.at(0), target.at(0), bytes);
            }
            return Ok(());
        }
        // The elements are copied here and back.
        let changed = Block::allocate(bytes)?;
        let whole = changed.clone().view(Shape::Contiguous { bytes });
        place.load(&whole, 0, bytes)?;
        let previous = match result {
            None => None,
            Some(_) => {
                let copy = Block::allocate(bytes)?;
                copy_bytes(&changed, &copy, bytes);
                Some(copy)
            }
        };
        self.apply(input.at(0), changed.at(0), bytes);
        if !matches!(self.action, UpdateAction::Nothing) {
            place.store(&whole, 0, bytes)?;
        }
        if let (Some(previous), Some(result)) = (previous, result) {
            copy_bytes(&previous, result, bytes);
        }
        Ok(())
    }
}

impl ElementUpdate {
    /// Changes `n` elements side by side at `place` in the name of rank `me`; stores the previous
    /// values in `result`, if there is one.
    #[expect(clippy::too_many_arguments, reason = "six beside the receiver")]
    pub fn apply_run(
        &self,
        gate: AccumulateGate<'_>,
        me: u32,
        place: TargetPlace<'_>,
        input: &Region,
        result: Option<&Region>,
        n: usize,
    ) -> Result<()> {
        if n == 1
            && let Some(region) = place.region(self.bytes(n))
        {
            let (element, input) = (region.at(0), input.at(0));
            let result = result.map(|result| result.at(0));
            if let Some(width) = self.width_at(region.address()) {
                let _atomic = gate.atomic(me);
                let previous = self.apply_atomically(element, width, self.input(input, width));
                if let Some(result) = result {
                    result.store(width, previous);
                }
                return Ok(());
            }
            let is_wide = self.basic.size() as usize == WIDE && !self.has_gap();
            if is_wide && element.is_wide_atomic() {
                let _atomic = gate.atomic(me);
                self.apply_widely(element, input, result);
                return Ok(());
            }
        }
        let _locked = gate.locked(me);
        self.apply_locked(place, input, result, n)
    }

    /// Changes one element of 16 bytes by a processor atomic; stores the previous value in
    /// `result`, if there is one.
    fn apply_widely(
        &self,
        element: RegionRef<'_>,
        from: RegionRef<'_>,
        result: Option<RegionRef<'_>>,
    ) {
        let mut input = [0; WIDE];
        if !matches!(self.action, UpdateAction::Nothing) {
            from.read_bytes(&mut input);
        }
        let previous = element.wide_update(|mut value| {
            match self.action {
                UpdateAction::Nothing => {}
                UpdateAction::Replace => value = input,
                UpdateAction::Add | UpdateAction::AddDouble => {
                    unreachable!("numbers of 8 bytes at most")
                }
                UpdateAction::Combine(kernel) => kernel(&input, &mut value),
            }
            value
        });
        if let Some(result) = result {
            result.write_bytes(&previous);
        }
    }
}

/// C's and Fortran's integers, logicals, `MPI_BYTE` and similar types (MPI 5.0, 12.3.4).
pub(crate) fn may_be_compared(basic: BasicType) -> bool {
    use BasicType::*;
    matches!(
        basic,
        I8 | I16
            | I32
            | I64
            | I128
            | U8
            | U16
            | U32
            | U64
            | Bool
            | Logical8
            | Logical16
            | Logical32
            | Logical64
            | Logical128
            | Byte
            | Char
    )
}

/// Bytes of the longest type that may be compared.
const COMPARED_MAX: usize = 16;

/// Compares and swaps the element of `bytes` bytes at `place` in the name of rank `me`. `values`
/// are the new value, the expected one, and where the previous one goes.
pub(crate) fn compare_element(
    gate: AccumulateGate<'_>,
    me: u32,
    place: TargetPlace<'_>,
    bytes: usize,
    [new, expected, result]: [&Region; 3],
) -> Result<()> {
    if let Some(region) = place.region(bytes)
        && let Some(width) = AtomicWidth::at(region.address(), bytes)
    {
        let (expected, new) = (expected.at(0).load(width), new.at(0).load(width));
        let atomic = gate.atomic(me);
        let previous = region.at(0).atomic_compare_swap(width, expected, new);
        drop(atomic);
        result.at(0).store(width, previous);
        return Ok(());
    }
    let mut values = [[0; COMPARED_MAX]; 2];
    let [wanted, found] = &mut values;
    expected.read_bytes(&mut wanted[..bytes]);
    if bytes == COMPARED_MAX
        && let Some(region) = place.region(bytes)
        && region.at(0).is_wide_atomic()
    {
        new.read_bytes(found);
        let atomic = gate.atomic(me);
        let previous = region.at(0).wide_compare_swap(*wanted, *found);
        drop(atomic);
        result.write_bytes(&previous);
        return Ok(());
    }
    let element = Block::allocate(bytes)?;
    let view = element.clone().view(Shape::Contiguous { bytes });
    let _locked = gate.locked(me);
    place.load(&view, 0, bytes)?;
    element.read_bytes(&mut found[..bytes]);
    if found[..bytes] == wanted[..bytes] {
        copy_bytes(new, &element, bytes);
        place.store(&view, 0, bytes)?;
    }
    result.write_bytes(&found[..bytes]);
    Ok(())
}

/// The sum by plain loads and stores.
fn sum_of(basic: BasicType) -> Kernel {
    Op::kernel_on(c::SUM, basic).expect("numbers have a sum")
}

/// Whether the processor adds values of this type as integers.
#[inline]
fn is_integer(basic: BasicType) -> bool {
    use BasicType::*;
    matches!(basic, I8 | I16 | I32 | I64 | U8 | U16 | U32 | U64)
}

/// Whether there is padding between elements, or inside them.
#[inline]
fn has_gap(basic: BasicType) -> bool {
    basic.extent() != basic.size()
}

/// Bytes of one element, without the padding after it.
#[inline]
fn used(basic: BasicType) -> usize {
    let used = match basic.pair() {
        Some((_, index)) => basic.index_at() + index.size(),
        None => basic.size(),
    };
    used as usize
}

/// A value's bytes as they lie in memory, the first `width` of eight.
#[inline]
fn to_bytes(value: u64, width: AtomicWidth) -> [u8; 8] {
    match cfg!(target_endian = "little") {
        true => value.to_ne_bytes(),
        false => (value << (64 - 8 * width.bytes())).to_ne_bytes(),
    }
}

/// The value whose bytes in memory are the first `width` of these.
#[inline]
fn from_bytes(bytes: &[u8; 8], width: AtomicWidth) -> u64 {
    let value = u64::from_ne_bytes(*bytes);
    let unused = 64 - 8 * width.bytes();
    match cfg!(target_endian = "little") {
        true => value << unused >> unused,
        false => value >> unused,
    }
}

/// Elements side by side in memory: the offset of the first from a shape's origin, and how many.
pub(crate) type ElementRun = (isize, usize);

/// Where the elements of a shape lie, in message order.
#[derive(Debug)]
pub(crate) struct ElementRuns<'a> {
    shape: &'a Shape,
    size: usize,
    has_gap: bool,
    position: usize,
    /// The rest of a run that was split.
    rest: Option<ElementRun>,
}

impl<'a> ElementRuns<'a> {
    /// The elements of type `basic` of which the shape consists.
    pub fn new(shape: &'a Shape, basic: BasicType) -> ElementRuns<'a> {
        ElementRuns {
            shape,
            size: basic.size() as usize,
            has_gap: has_gap(basic),
            position: 0,
            rest: None,
        }
    }

    /// The next run, if there is one.
    fn peek(&mut self) -> Option<ElementRun> {
        if self.rest.is_none() {
            let (at, bytes) = self.shape.seek(self.position)?;
            let n = match self.has_gap {
                // Its fields may be runs of bytes of their own.
                true => 1,
                false => (bytes / self.size).max(1),
            };
            self.position += n * self.size;
            self.rest = Some((at, n));
        }
        self.rest
    }

    /// Takes `n` elements of the next run, which has as many; returns the offset of the first.
    fn take(&mut self, n: usize, extent: usize) -> isize {
        let (at, left) = self.rest.take().expect("peeked");
        if left > n {
            self.rest = Some((at + (n * extent) as isize, left - n));
        }
        at
    }
}

/// Calls `f` with the offsets of elements that lie side by side in all of `shapes`, and their
/// number, in message order. Ends with the shortest of them.
pub(crate) fn for_each_run<const N: usize>(
    shapes: [&Shape; N],
    basic: BasicType,
    most: usize,
    mut f: impl FnMut([isize; N], usize) -> Result<()>,
) -> Result<()> {
    let extent = basic.extent() as usize;
    let mut lists = shapes.map(|shape| ElementRuns::new(shape, basic));
    loop {
        let mut n = most;
        for list in &mut lists {
            match list.peek() {
                Some((_, left)) => n = n.min(left),
                None => return Ok(()),
            }
        }
        let offsets = lists.each_mut().map(|list| list.take(n, extent));
        f(offsets, n)?;
    }
}

/// The type that all entries of a datatype have.
///
/// # Errors
/// `MPI_ERR_TYPE` if they have several (MPI 5.0, 12.3.4).
#[inline]
pub(crate) fn element_of(handle: u32, argument: &'static str) -> Result<BasicType> {
    match datatype::basic_of(handle) {
        Some(basic) => Ok(basic),
        None => element_of_derived(handle, argument),
    }
}

#[cold]
fn element_of_derived(handle: u32, argument: &'static str) -> Result<BasicType> {
    let datatype = Datatype::resolve_as(handle, argument)?;
    datatype.element().ok_or_else(|| {
        let reason = "all its entries must be of one predefined datatype";
        Error::argument(c::ERR_TYPE, argument, datatype.label(), reason)
    })
}

#[cold]
fn no_operator(op: u32, basic: BasicType) -> Error {
    let reason = match Op::resolve(op) {
        Err(error) => return error,
        Ok(op) if op.is_predefined() => format!("it is not defined on elements of type {basic:?}"),
        Ok(_) => "one-sided communication takes predefined operators only".to_owned(),
    };
    Error::argument(c::ERR_OP, "op", format_args!("{op:#x}"), reason)
}
