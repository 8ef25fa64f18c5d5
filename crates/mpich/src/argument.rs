//! Kinds of parameters: how an argument of a function of MPICH's ABI becomes one of the standard
//! ABI's function, and how a result comes back.
//!
//! Results go to places of this library first, which hold a value that no function writes; so what
//! the function has not written stays in the program's place as well. A null place stays null: the
//! library reports it.

use std::ffi::{c_int, c_void};
use std::marker::PhantomData;

use mica_front_end::types::MPI_Status;

use crate::array::Converted;
use crate::generated::constants as c;
use crate::handle::MpichHandle;
use crate::status::{MpichStatus, give, is_ignored, untouched};
use crate::value::ValueKind;

/// A kind of parameter.
pub trait ParameterKind {
    /// As MPICH's ABI has it.
    type Given: Copy;
    /// As the standard ABI has it.
    type Passed: Copy;
    /// What is kept during the call.
    type Held;

    /// Before the call. `len` is the length of an array, 0 else. `None`: no memory.
    ///
    /// # Safety
    /// The argument is as MPI asks of the caller.
    unsafe fn enter(given: Self::Given, len: usize) -> Option<Self::Held>;

    /// The argument of the call.
    fn pass(held: &mut Self::Held) -> Self::Passed;

    /// After the call.
    ///
    /// # Safety
    /// As for [`ParameterKind::enter`].
    #[inline(always)]
    unsafe fn leave(_held: Self::Held) {}
}

/// The length of an array, from a parameter that says it. What it says wrongly is reported by the
/// library, which then reads no element.
pub trait Length: Copy {
    /// The number of elements.
    ///
    /// # Safety
    /// An address is null or that of a length.
    unsafe fn elements(self) -> usize;
}

impl Length for c_int {
    unsafe fn elements(self) -> usize {
        usize::try_from(self).unwrap_or(0)
    }
}

impl Length for i64 {
    unsafe fn elements(self) -> usize {
        usize::try_from(self).unwrap_or(0)
    }
}

impl Length for usize {
    unsafe fn elements(self) -> usize {
        self
    }
}

impl Length for *mut c_int {
    unsafe fn elements(self) -> usize {
        // SAFETY: as the caller promises.
        unsafe { self.as_ref() }.map_or(0, |&len| usize::try_from(len).unwrap_or(0))
    }
}

/// The same in both ABIs.
#[derive(Debug)]
pub struct Same<T>(PhantomData<T>);

impl<T: Copy> ParameterKind for Same<T> {
    type Given = T;
    type Passed = T;
    type Held = T;

    #[inline(always)]
    unsafe fn enter(given: T, _len: usize) -> Option<T> {
        Some(given)
    }

    #[inline(always)]
    fn pass(held: &mut T) -> T {
        *held
    }
}

/// An integer of a kind.
#[derive(Debug)]
pub struct Value<K>(PhantomData<K>);

impl<K: ValueKind> ParameterKind for Value<K> {
    type Given = c_int;
    type Passed = c_int;
    type Held = c_int;

    #[inline(always)]
    unsafe fn enter(given: c_int, _len: usize) -> Option<c_int> {
        Some(K::to_standard(given))
    }

    #[inline(always)]
    fn pass(held: &mut c_int) -> c_int {
        *held
    }
}

/// A handle.
#[derive(Debug)]
pub struct Handle<K>(PhantomData<K>);

impl<K: MpichHandle> ParameterKind for Handle<K> {
    type Given = K::Word;
    type Passed = usize;
    type Held = usize;

    #[inline(always)]
    unsafe fn enter(given: K::Word, _len: usize) -> Option<usize> {
        Some(K::to_standard(given))
    }

    #[inline(always)]
    fn pass(held: &mut usize) -> usize {
        *held
    }
}

/// The address of a buffer, or a constant in its place.
#[derive(Debug)]
pub enum ReadBuffer {}

/// As [`ReadBuffer`], of one that is written.
#[derive(Debug)]
pub enum WriteBuffer {}

#[inline(always)]
fn buffer<T>(given: *const T) -> *const T {
    let address = given.addr();
    if address < c::BUFFER_AUTOMATIC.0 {
        return given;
    }
    match address == c::IN_PLACE.0 {
        true => std::ptr::without_provenance(c::IN_PLACE.1),
        false => std::ptr::without_provenance(c::BUFFER_AUTOMATIC.1),
    }
}

impl ParameterKind for ReadBuffer {
    type Given = *const c_void;
    type Passed = *const c_void;
    type Held = *const c_void;

    #[inline(always)]
    unsafe fn enter(given: *const c_void, _len: usize) -> Option<*const c_void> {
        Some(buffer(given))
    }

    #[inline(always)]
    fn pass(held: &mut *const c_void) -> *const c_void {
        *held
    }
}

impl ParameterKind for WriteBuffer {
    type Given = *mut c_void;
    type Passed = *mut c_void;
    type Held = *mut c_void;

    #[inline(always)]
    unsafe fn enter(given: *mut c_void, _len: usize) -> Option<*mut c_void> {
        Some(buffer(given).cast_mut())
    }

    #[inline(always)]
    fn pass(held: &mut *mut c_void) -> *mut c_void {
        *held
    }
}

/// The place for the address of a buffer that was attached.
#[derive(Debug)]
pub enum DetachedBuffer {}

impl ParameterKind for DetachedBuffer {
    type Given = *mut c_void;
    type Passed = *mut c_void;
    type Held = *mut c_void;

    #[inline(always)]
    unsafe fn enter(given: *mut c_void, _len: usize) -> Option<*mut c_void> {
        Some(given)
    }

    #[inline(always)]
    fn pass(held: &mut *mut c_void) -> *mut c_void {
        *held
    }

    unsafe fn leave(held: *mut c_void) {
        // SAFETY: null, or the place of an address.
        if let Some(address) = unsafe { held.cast::<usize>().as_mut() }
            && *address == c::BUFFER_AUTOMATIC.1
        {
            *address = c::BUFFER_AUTOMATIC.0;
        }
    }
}

/// A position in a file, or the constant for the current one.
#[derive(Debug)]
pub enum Displacement {}

impl ParameterKind for Displacement {
    type Given = i64;
    type Passed = i64;
    type Held = i64;

    #[inline(always)]
    unsafe fn enter(given: i64, _len: usize) -> Option<i64> {
        Some(if given == c::DISPLACEMENT_CURRENT.0 { c::DISPLACEMENT_CURRENT.1 } else { given })
    }

    #[inline(always)]
    fn pass(held: &mut i64) -> i64 {
        *held
    }
}

/// A place for one result, which is `W` in MPICH's ABI and `S` in the standard one.
#[derive(Debug)]
pub struct ConvertedResult<W, S> {
    place: *mut W,
    before: S,
    result: S,
}

impl<W, S: Copy + PartialEq> ConvertedResult<W, S> {
    #[inline(always)]
    fn new(place: *mut W, before: S) -> Option<ConvertedResult<W, S>> {
        Some(ConvertedResult { place, before, result: before })
    }

    #[inline(always)]
    fn pass(&mut self) -> *mut S {
        if self.place.is_null() { std::ptr::null_mut() } else { &raw mut self.result }
    }

    /// # Safety
    /// The place is null or writable.
    #[inline(always)]
    unsafe fn leave(self, convert: impl FnOnce(S) -> W) {
        if self.result != self.before && !self.place.is_null() {
            // SAFETY: as the caller promises.
            unsafe { self.place.write(convert(self.result)) };
        }
    }
}

/// No result: no integer of MPI has this value.
const NO_VALUE: c_int = c_int::MIN + 1;
/// No result: no handle has this value.
const NO_HANDLE: usize = usize::MAX;

/// A place for an integer of a kind.
#[derive(Debug)]
pub struct OutValue<K>(PhantomData<K>);

impl<K: ValueKind> ParameterKind for OutValue<K> {
    type Given = *mut c_int;
    type Passed = *mut c_int;
    type Held = ConvertedResult<c_int, c_int>;

    #[inline(always)]
    unsafe fn enter(given: *mut c_int, _len: usize) -> Option<Self::Held> {
        ConvertedResult::new(given, NO_VALUE)
    }

    #[inline(always)]
    fn pass(held: &mut Self::Held) -> *mut c_int {
        held.pass()
    }

    #[inline(always)]
    unsafe fn leave(held: Self::Held) {
        // SAFETY: as the caller promises.
        unsafe { held.leave(K::to_mpich) }
    }
}

/// An integer of a kind that the call reads and may change.
#[derive(Debug)]
pub struct InOutValue<K>(PhantomData<K>);

impl<K: ValueKind> ParameterKind for InOutValue<K> {
    type Given = *mut c_int;
    type Passed = *mut c_int;
    type Held = ConvertedResult<c_int, c_int>;

    #[inline(always)]
    unsafe fn enter(given: *mut c_int, _len: usize) -> Option<Self::Held> {
        // SAFETY: null or readable.
        let before = unsafe { given.as_ref() }.map_or(NO_VALUE, |&value| K::to_standard(value));
        ConvertedResult::new(given, before)
    }

    #[inline(always)]
    fn pass(held: &mut Self::Held) -> *mut c_int {
        held.pass()
    }

    #[inline(always)]
    unsafe fn leave(held: Self::Held) {
        // SAFETY: as the caller promises.
        unsafe { held.leave(K::to_mpich) }
    }
}

/// A place for a handle.
#[derive(Debug)]
pub struct OutHandle<K>(PhantomData<K>);

impl<K: MpichHandle> ParameterKind for OutHandle<K> {
    type Given = *mut K::Word;
    type Passed = *mut usize;
    type Held = ConvertedResult<K::Word, usize>;

    #[inline(always)]
    unsafe fn enter(given: *mut K::Word, _len: usize) -> Option<Self::Held> {
        ConvertedResult::new(given, NO_HANDLE)
    }

    #[inline(always)]
    fn pass(held: &mut Self::Held) -> *mut usize {
        held.pass()
    }

    #[inline(always)]
    unsafe fn leave(held: Self::Held) {
        // SAFETY: as the caller promises.
        unsafe { held.leave(K::to_mpich) }
    }
}

/// A handle that the call reads and may change.
#[derive(Debug)]
pub struct InOutHandle<K>(PhantomData<K>);

impl<K: MpichHandle> ParameterKind for InOutHandle<K> {
    type Given = *mut K::Word;
    type Passed = *mut usize;
    type Held = ConvertedResult<K::Word, usize>;

    #[inline(always)]
    unsafe fn enter(given: *mut K::Word, _len: usize) -> Option<Self::Held> {
        // SAFETY: null or readable.
        let before = unsafe { given.as_ref() }.map_or(NO_HANDLE, |&handle| K::to_standard(handle));
        ConvertedResult::new(given, before)
    }

    #[inline(always)]
    fn pass(held: &mut Self::Held) -> *mut usize {
        held.pass()
    }

    #[inline(always)]
    unsafe fn leave(held: Self::Held) {
        // SAFETY: as the caller promises.
        unsafe { held.leave(K::to_mpich) }
    }
}

/// An array that is read, or has no elements: null stays null.
#[derive(Debug)]
pub struct ArrayArgument<W, S> {
    given: *mut W,
    len: usize,
    array: Option<Converted<S>>,
}

impl<W: Copy, S: Copy + PartialEq> ArrayArgument<W, S> {
    #[inline(always)]
    fn new(
        given: *mut W,
        len: usize,
        fill: S,
        element: impl Fn(usize) -> S,
    ) -> Option<ArrayArgument<W, S>> {
        let array = match given.is_null() {
            true => None,
            false => Some(Converted::new(len, fill, element)?),
        };
        Some(ArrayArgument { given, len, array })
    }

    #[inline(always)]
    fn pass(&mut self) -> *mut S {
        self.array.as_mut().map_or(std::ptr::null_mut(), Converted::as_mut_ptr)
    }

    /// Stores the elements that the call has changed.
    ///
    /// # Safety
    /// The array is writable for as many elements.
    #[inline(always)]
    unsafe fn leave(self, before: impl Fn(usize) -> S, convert: impl Fn(S) -> W) {
        let Some(array) = &self.array else { return };
        for i in 0..self.len {
            let element = array.get(i);
            if element != before(i) {
                // SAFETY: as the caller promises.
                unsafe { self.given.add(i).write(convert(element)) };
            }
        }
    }
}

/// An array of handles that is read.
#[derive(Debug)]
pub struct Handles<K>(PhantomData<K>);

impl<K: MpichHandle> ParameterKind for Handles<K> {
    type Given = *const K::Word;
    type Passed = *const usize;
    type Held = ArrayArgument<K::Word, usize>;

    #[inline(always)]
    unsafe fn enter(given: *const K::Word, len: usize) -> Option<Self::Held> {
        // SAFETY: readable for as many elements.
        let element = |i| K::to_standard(unsafe { given.add(i).read() });
        ArrayArgument::new(given.cast_mut(), len, NO_HANDLE, element)
    }

    #[inline(always)]
    fn pass(held: &mut Self::Held) -> *const usize {
        held.pass()
    }
}

/// An array of handles that the call may change.
#[derive(Debug)]
pub struct InOutHandles<K>(PhantomData<K>);

impl<K: MpichHandle> ParameterKind for InOutHandles<K> {
    type Given = *mut K::Word;
    type Passed = *mut usize;
    type Held = ArrayArgument<K::Word, usize>;

    #[inline(always)]
    unsafe fn enter(given: *mut K::Word, len: usize) -> Option<Self::Held> {
        // SAFETY: readable for as many elements.
        let element = |i| K::to_standard(unsafe { given.add(i).read() });
        ArrayArgument::new(given, len, NO_HANDLE, element)
    }

    #[inline(always)]
    fn pass(held: &mut Self::Held) -> *mut usize {
        held.pass()
    }

    #[inline(always)]
    unsafe fn leave(held: Self::Held) {
        let given = held.given;
        // SAFETY: readable and writable for as many elements.
        unsafe { held.leave(|i| K::to_standard(given.add(i).read()), K::to_mpich) };
    }
}

/// An array of places for handles.
#[derive(Debug)]
pub struct OutHandles<K>(PhantomData<K>);

impl<K: MpichHandle> ParameterKind for OutHandles<K> {
    type Given = *mut K::Word;
    type Passed = *mut usize;
    type Held = ArrayArgument<K::Word, usize>;

    #[inline(always)]
    unsafe fn enter(given: *mut K::Word, len: usize) -> Option<Self::Held> {
        ArrayArgument::new(given, len, NO_HANDLE, |_| NO_HANDLE)
    }

    #[inline(always)]
    fn pass(held: &mut Self::Held) -> *mut usize {
        held.pass()
    }

    #[inline(always)]
    unsafe fn leave(held: Self::Held) {
        // SAFETY: writable for as many elements.
        unsafe { held.leave(|_| NO_HANDLE, K::to_mpich) };
    }
}

/// An array of integers of a kind that is read.
#[derive(Debug)]
pub struct Values<K>(PhantomData<K>);

impl<K: ValueKind> ParameterKind for Values<K> {
    type Given = *const c_int;
    type Passed = *const c_int;
    type Held = ArrayArgument<c_int, c_int>;

    #[inline(always)]
    unsafe fn enter(given: *const c_int, len: usize) -> Option<Self::Held> {
        // SAFETY: readable for as many elements.
        let element = |i| K::to_standard(unsafe { given.add(i).read() });
        ArrayArgument::new(given.cast_mut(), len, NO_VALUE, element)
    }

    #[inline(always)]
    fn pass(held: &mut Self::Held) -> *const c_int {
        held.pass()
    }
}

/// An array of places for integers of a kind.
#[derive(Debug)]
pub struct OutValues<K>(PhantomData<K>);

impl<K: ValueKind> ParameterKind for OutValues<K> {
    type Given = *mut c_int;
    type Passed = *mut c_int;
    type Held = ArrayArgument<c_int, c_int>;

    #[inline(always)]
    unsafe fn enter(given: *mut c_int, len: usize) -> Option<Self::Held> {
        ArrayArgument::new(given, len, NO_VALUE, |_| NO_VALUE)
    }

    #[inline(always)]
    fn pass(held: &mut Self::Held) -> *mut c_int {
        held.pass()
    }

    #[inline(always)]
    unsafe fn leave(held: Self::Held) {
        // SAFETY: writable for as many elements.
        unsafe { held.leave(|_| NO_VALUE, K::to_mpich) };
    }
}

/// A status that is read.
#[derive(Debug)]
pub enum InStatus {}

impl ParameterKind for InStatus {
    type Given = *const MpichStatus;
    type Passed = *const MPI_Status;
    type Held = Option<MPI_Status>;

    #[inline(always)]
    unsafe fn enter(given: *const MpichStatus, _len: usize) -> Option<Self::Held> {
        if is_ignored(given) {
            return Some(None);
        }
        // SAFETY: readable.
        Some(Some(unsafe { given.read() }.to_standard()))
    }

    #[inline(always)]
    fn pass(held: &mut Self::Held) -> *const MPI_Status {
        held.as_ref().map_or(std::ptr::null(), |status| &raw const *status)
    }
}

/// A status that the call reads and changes.
#[derive(Debug)]
pub enum InOutStatus {}

impl ParameterKind for InOutStatus {
    type Given = *mut MpichStatus;
    type Passed = *mut MPI_Status;
    type Held = (*mut MpichStatus, Option<MPI_Status>);

    #[inline(always)]
    unsafe fn enter(given: *mut MpichStatus, len: usize) -> Option<Self::Held> {
        // SAFETY: as the caller promises.
        Some((given, unsafe { InStatus::enter(given, len) }?))
    }

    #[inline(always)]
    fn pass(held: &mut Self::Held) -> *mut MPI_Status {
        held.1.as_mut().map_or(std::ptr::null_mut(), |status| &raw mut *status)
    }

    unsafe fn leave(held: Self::Held) {
        if let (place, Some(status)) = held {
            // SAFETY: writable.
            unsafe { place.write(MpichStatus::from_standard(&status)) };
        }
    }
}

/// A place for a status.
#[derive(Debug)]
pub enum OutStatus {}

impl ParameterKind for OutStatus {
    type Given = *mut MpichStatus;
    type Passed = *mut MPI_Status;
    type Held = (*mut MpichStatus, MPI_Status);

    #[inline(always)]
    unsafe fn enter(given: *mut MpichStatus, _len: usize) -> Option<Self::Held> {
        Some((given, untouched()))
    }

    #[inline(always)]
    fn pass(held: &mut Self::Held) -> *mut MPI_Status {
        if is_ignored(held.0) { std::ptr::null_mut() } else { &raw mut held.1 }
    }

    #[inline(always)]
    unsafe fn leave(held: Self::Held) {
        if !is_ignored(held.0) {
            // SAFETY: writable.
            unsafe { give(&held.1, held.0) };
        }
    }
}

/// An array of places for statuses.
#[derive(Debug)]
pub enum OutStatuses {}

impl ParameterKind for OutStatuses {
    type Given = *mut MpichStatus;
    type Passed = *mut MPI_Status;
    type Held = ArrayArgument<MpichStatus, MPI_Status>;

    #[inline(always)]
    unsafe fn enter(given: *mut MpichStatus, len: usize) -> Option<Self::Held> {
        let place = if is_ignored(given) { std::ptr::null_mut() } else { given };
        ArrayArgument::new(place, len, untouched(), |_| untouched())
    }

    #[inline(always)]
    fn pass(held: &mut Self::Held) -> *mut MPI_Status {
        held.pass()
    }

    #[inline(always)]
    unsafe fn leave(held: Self::Held) {
        let Some(array) = &held.array else { return };
        for i in 0..held.len {
            // SAFETY: writable for as many elements.
            unsafe { give(&array.get(i), held.given.add(i)) };
        }
    }
}
