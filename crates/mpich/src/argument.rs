//! Kinds of parameters of MPICH's ABI.
//!
//! Results go to places of this library first, which hold a value that no function writes; so what
//! the function has not written stays in the program's place as well. A null place stays null: the
//! library reports it.

use std::ffi::c_int;
use std::marker::PhantomData;

pub use mica_front_end::argument::{Length, ParameterKind, Same};
use mica_front_end::array::ArrayArgument;
use mica_front_end::types::MPI_Status;

use crate::library::table;
use crate::status::{MpichStatus, from_standard, give, is_ignored, to_standard, untouched};
use crate::value::ErrorCode;
use crate::word::WordKind;

/// A word of a kind.
#[derive(Debug)]
pub struct Value<K>(PhantomData<K>);

impl<K: WordKind> ParameterKind for Value<K> {
    type Given = K::Own;
    type Passed = K::Standard;
    type Held = K::Standard;

    #[inline(always)]
    unsafe fn enter(given: K::Own, _len: usize) -> Option<K::Standard> {
        Some(K::to_standard(given))
    }

    #[inline(always)]
    fn pass(held: &mut K::Standard) -> K::Standard {
        *held
    }
}

/// A place for one result, and what was in it before the call.
#[derive(Debug)]
pub struct ConvertedResult<K: WordKind> {
    place: *mut K::Own,
    before: K::Standard,
    result: K::Standard,
}

impl<K: WordKind> ConvertedResult<K> {
    #[inline(always)]
    fn new(place: *mut K::Own, before: K::Standard) -> Option<ConvertedResult<K>> {
        Some(ConvertedResult { place, before, result: before })
    }

    #[inline(always)]
    fn pass(&mut self) -> *mut K::Standard {
        if self.place.is_null() { std::ptr::null_mut() } else { &raw mut self.result }
    }

    /// # Safety
    /// The place is null or writable.
    #[inline(always)]
    unsafe fn leave(self) {
        if self.result != self.before && !self.place.is_null() {
            // SAFETY: as the caller promises.
            unsafe { self.place.write(K::to_mpich(self.result)) };
        }
    }
}

/// A place for a word of a kind.
#[derive(Debug)]
pub struct OutValue<K>(PhantomData<K>);

impl<K: WordKind> ParameterKind for OutValue<K> {
    type Given = *mut K::Own;
    type Passed = *mut K::Standard;
    type Held = ConvertedResult<K>;

    #[inline(always)]
    unsafe fn enter(given: *mut K::Own, _len: usize) -> Option<Self::Held> {
        ConvertedResult::new(given, K::NONE)
    }

    #[inline(always)]
    fn pass(held: &mut Self::Held) -> *mut K::Standard {
        held.pass()
    }

    #[inline(always)]
    unsafe fn leave(held: Self::Held) {
        // SAFETY: as the caller promises.
        unsafe { held.leave() }
    }
}

/// A word of a kind that the call reads and may change.
#[derive(Debug)]
pub struct InOutValue<K>(PhantomData<K>);

impl<K: WordKind> ParameterKind for InOutValue<K> {
    type Given = *mut K::Own;
    type Passed = *mut K::Standard;
    type Held = ConvertedResult<K>;

    #[inline(always)]
    unsafe fn enter(given: *mut K::Own, _len: usize) -> Option<Self::Held> {
        // SAFETY: null or readable.
        let before = unsafe { given.as_ref() }.map_or(K::NONE, |&own| K::to_standard(own));
        ConvertedResult::new(given, before)
    }

    #[inline(always)]
    fn pass(held: &mut Self::Held) -> *mut K::Standard {
        held.pass()
    }

    #[inline(always)]
    unsafe fn leave(held: Self::Held) {
        // SAFETY: as the caller promises.
        unsafe { held.leave() }
    }
}

/// The code of a call that makes an object, whose handle goes to `place`.
///
/// # Safety
/// `place` is null or writable; `make` stores a handle if it succeeds.
pub unsafe fn made<K: WordKind>(
    place: *mut K::Own,
    make: impl FnOnce(*mut K::Standard) -> c_int,
) -> c_int {
    let mut held = ConvertedResult::<K> { place, before: K::NONE, result: K::NONE };
    let code = make(held.pass());
    // SAFETY: as the caller promises.
    unsafe { held.leave() };
    ErrorCode::to_mpich(code)
}

/// An array of words of a kind that is read.
#[derive(Debug)]
pub struct Values<K>(PhantomData<K>);

impl<K: WordKind> ParameterKind for Values<K> {
    type Given = *const K::Own;
    type Passed = *const K::Standard;
    type Held = ArrayArgument<K::Own, K::Standard>;

    #[inline(always)]
    unsafe fn enter(given: *const K::Own, len: usize) -> Option<Self::Held> {
        // SAFETY: readable for as many elements.
        let element = |i| K::to_standard(unsafe { given.add(i).read() });
        ArrayArgument::new(given.cast_mut(), len, K::NONE, element)
    }

    #[inline(always)]
    fn pass(held: &mut Self::Held) -> *const K::Standard {
        held.pass()
    }
}

/// An array of words of a kind that the call may change.
#[derive(Debug)]
pub struct InOutValues<K>(PhantomData<K>);

impl<K: WordKind> ParameterKind for InOutValues<K> {
    type Given = *mut K::Own;
    type Passed = *mut K::Standard;
    type Held = ArrayArgument<K::Own, K::Standard>;

    #[inline(always)]
    unsafe fn enter(given: *mut K::Own, len: usize) -> Option<Self::Held> {
        // SAFETY: as the caller promises.
        unsafe { Values::<K>::enter(given, len) }
    }

    #[inline(always)]
    fn pass(held: &mut Self::Held) -> *mut K::Standard {
        held.pass()
    }

    #[inline(always)]
    unsafe fn leave(held: Self::Held) {
        held.leave(|element, place| {
            // SAFETY: readable and writable for as many elements.
            unsafe {
                if element != K::to_standard(place.read()) {
                    place.write(K::to_mpich(element));
                }
            }
        });
    }
}

/// An array of places for words of a kind.
#[derive(Debug)]
pub struct OutValues<K>(PhantomData<K>);

impl<K: WordKind> ParameterKind for OutValues<K> {
    type Given = *mut K::Own;
    type Passed = *mut K::Standard;
    type Held = ArrayArgument<K::Own, K::Standard>;

    #[inline(always)]
    unsafe fn enter(given: *mut K::Own, len: usize) -> Option<Self::Held> {
        ArrayArgument::new(given, len, K::NONE, |_| K::NONE)
    }

    #[inline(always)]
    fn pass(held: &mut Self::Held) -> *mut K::Standard {
        held.pass()
    }

    #[inline(always)]
    unsafe fn leave(held: Self::Held) {
        held.leave(|element, place| {
            if element != K::NONE {
                // SAFETY: writable for as many elements.
                unsafe { place.write(K::to_mpich(element)) };
            }
        });
    }
}

/// Places for the codes of spawned processes; how many there are only the library knows.
#[derive(Debug)]
pub enum SpawnedCodes {}

impl ParameterKind for SpawnedCodes {
    type Given = *mut c_int;
    type Passed = *mut c_int;
    type Held = *mut c_int;

    #[inline(always)]
    unsafe fn enter(given: *mut c_int, _len: usize) -> Option<*mut c_int> {
        Some(given)
    }

    #[inline(always)]
    fn pass(held: &mut *mut c_int) -> *mut c_int {
        *held
    }

    unsafe fn leave(held: *mut c_int) {
        // MPI_ERRCODES_IGNORE is null.
        let stored = if held.is_null() { 0 } else { (table().spawned_codes)() };
        for i in 0..stored {
            // SAFETY: the library has stored as many.
            unsafe { *held.add(i) = ErrorCode::to_mpich(*held.add(i)) };
        }
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
        Some(Some(to_standard(unsafe { given.read() })))
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
            unsafe { place.write(from_standard(&status)) };
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
        // SAFETY: writable for as many elements.
        held.leave(|status, place| unsafe { give(&status, place) });
    }
}
