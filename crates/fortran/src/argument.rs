//! Kinds of parameters of Fortran.
//!
//! Fortran passes addresses; but for `ierror`, of which the address may be null, all arguments are
//! there.
//!
//! Results go to places of this library first where C's are of another size; they hold a value that
//! no function writes, so what the function has not written stays as the program had it.

use std::ffi::{c_int, c_void};
use std::marker::PhantomData;

pub use mica_front_end::argument::{Length, ParameterKind, Same};
use mica_front_end::array::ArrayArgument;

use crate::abi::descriptor::Descriptor;
use crate::abi::{FileWord, Status as StatusInC, Word, sentinel};

/// A kind of parameter of functions with choice buffers.
pub trait Describable: ParameterKind {
    /// As Fortran passes it where sections of arrays are described.
    type Described: Copy;
}

impl<T: Copy> Describable for Same<T> {
    type Described = T;
}

/// Kinds that are passed in one way everywhere.
macro_rules! passed_alike {
    ($($kind:ident)*) => {$(
        impl Describable for $kind {
            type Described = <$kind as ParameterKind>::Given;
        }
    )*};
}

passed_alike! {
    Handles OutHandles InLogical OutLogical InLogicals OutLogicals
}

/// A number, which C takes by value.
#[derive(Debug)]
pub struct In<T>(PhantomData<T>);

impl<T: Copy> Describable for In<T> {
    type Described = *const T;
}

impl<T: Copy> ParameterKind for In<T> {
    type Given = *const T;
    type Passed = T;
    type Held = T;

    #[inline(always)]
    unsafe fn enter(given: *const T, _len: usize) -> Option<T> {
        // SAFETY: as the caller promises: Fortran has no argument that is not there.
        Some(unsafe { given.read() })
    }

    #[inline(always)]
    fn pass(held: &mut T) -> T {
        *held
    }
}

/// A choice buffer.
#[derive(Debug)]
pub struct ChoiceBuffer;

impl Describable for ChoiceBuffer {
    type Described = *const Descriptor;
}

impl ParameterKind for ChoiceBuffer {
    type Given = *mut c_void;
    type Passed = *mut c_void;
    type Held = *mut c_void;

    #[inline(always)]
    unsafe fn enter(given: *mut c_void, _len: usize) -> Option<*mut c_void> {
        Some(sentinel::buffer(given))
    }

    #[inline(always)]
    fn pass(held: &mut *mut c_void) -> *mut c_void {
        *held
    }
}

/// Defines kinds of addresses for which a variable of the common block may stand.
macro_rules! sentinel_places {
    ($($(#[$doc:meta])* $kind:ident = $to_c:path;)*) => {$(
        $(#[$doc])*
        #[derive(Debug)]
        pub struct $kind<T>(PhantomData<T>);

        impl<T> Describable for $kind<T> {
            type Described = *mut T;
        }

        impl<T> ParameterKind for $kind<T> {
            type Given = *mut T;
            type Passed = *mut T;
            type Held = *mut T;

            #[inline(always)]
            unsafe fn enter(given: *mut T, _len: usize) -> Option<*mut T> {
                Some($to_c(given))
            }

            #[inline(always)]
            fn pass(held: &mut *mut T) -> *mut T {
                *held
            }
        }
    )*};
}

sentinel_places! {
    /// An address of error codes or weights.
    SentinelPlace = sentinel::place;
    /// An address of what may be ignored.
    IgnorablePlace = sentinel::unless_ignored;
}

/// A status, or several: the same in C.
pub type Status = IgnorablePlace<StatusInC>;

/// What C has for a handle.
pub trait HandleWord: Copy + PartialEq {
    /// No function of MPI stores this.
    const NONE: Self;

    /// The word for a handle of Fortran.
    fn to_c(handle: c_int) -> Self;

    /// The handle of Fortran.
    fn to_fortran(self) -> c_int;

    /// The handle in the table of the library of C, which has words.
    #[inline(always)]
    fn to_table(self) -> usize {
        self.to_fortran() as u32 as usize
    }
}

/// An address, whose low half is the handle of Fortran.
impl HandleWord for usize {
    const NONE: usize = usize::MAX;

    #[inline(always)]
    fn to_c(handle: c_int) -> usize {
        handle as u32 as usize
    }

    #[inline(always)]
    fn to_fortran(self) -> c_int {
        self as u32 as c_int
    }
}

/// The handle of Fortran itself.
impl HandleWord for c_int {
    const NONE: c_int = -1;

    #[inline(always)]
    fn to_c(handle: c_int) -> c_int {
        handle
    }

    #[inline(always)]
    fn to_fortran(self) -> c_int {
        self
    }
}

/// The word in C for a handle of Fortran.
#[inline(always)]
pub fn to_c(handle: c_int) -> Word {
    Word::to_c(handle)
}

/// The handle of Fortran for a word in C.
#[inline(always)]
pub fn to_fortran(handle: Word) -> c_int {
    handle.to_fortran()
}

/// A handle.
#[derive(Debug)]
pub struct HandleOf<W>(PhantomData<W>);

/// A handle of anything but a file.
pub type Handle = HandleOf<Word>;
/// A file's handle.
pub type File = HandleOf<FileWord>;

impl<W: HandleWord> Describable for HandleOf<W> {
    type Described = *const c_int;
}

impl<W: HandleWord> ParameterKind for HandleOf<W> {
    type Given = *const c_int;
    type Passed = W;
    type Held = W;

    #[inline(always)]
    unsafe fn enter(given: *const c_int, _len: usize) -> Option<W> {
        // SAFETY: as the caller promises.
        Some(W::to_c(unsafe { given.read() }))
    }

    #[inline(always)]
    fn pass(held: &mut W) -> W {
        *held
    }
}

/// A place of Fortran for a handle, and C's.
#[derive(Debug)]
pub struct HandlePlace<W> {
    place: *mut c_int,
    before: W,
    result: W,
}

impl<W: HandleWord> HandlePlace<W> {
    #[inline(always)]
    fn pass(&mut self) -> *mut W {
        &raw mut self.result
    }

    /// # Safety
    /// The place is writable.
    #[inline(always)]
    unsafe fn leave(self) {
        if self.result != self.before {
            // SAFETY: as the caller promises.
            unsafe { self.place.write(self.result.to_fortran()) };
        }
    }
}

/// Defines a kind of place for a handle by what is in it before the call, and its names for files
/// and for all else.
macro_rules! handle_places {
    ($($(#[$doc:meta])* $kind:ident $other:ident $file:ident($given:ident) = $before:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Debug)]
        pub struct $kind<W>(PhantomData<W>);

        $(#[$doc])*
        pub type $other = $kind<Word>;
        $(#[$doc])*
        pub type $file = $kind<FileWord>;

        impl<W: HandleWord> Describable for $kind<W> {
            type Described = *mut c_int;
        }

        impl<W: HandleWord> ParameterKind for $kind<W> {
            type Given = *mut c_int;
            type Passed = *mut W;
            type Held = HandlePlace<W>;

            #[inline(always)]
            unsafe fn enter($given: *mut c_int, _len: usize) -> Option<HandlePlace<W>> {
                let before = $before;
                Some(HandlePlace { place: $given, before, result: before })
            }

            #[inline(always)]
            fn pass(held: &mut HandlePlace<W>) -> *mut W {
                held.pass()
            }

            #[inline(always)]
            unsafe fn leave(held: HandlePlace<W>) {
                // SAFETY: as the caller promises.
                unsafe { held.leave() }
            }
        }
    )*};
}

handle_places! {
    /// A place for a new handle.
    OutHandleOf OutHandle OutFile(_given) = W::NONE;
    /// A handle that the call may change.
    // SAFETY: readable.
    InOutHandleOf InOutHandle InOutFile(given) = W::to_c(unsafe { given.read() });
}

/// An array of handles that is read.
#[derive(Debug)]
pub struct Handles;

impl ParameterKind for Handles {
    type Given = *const c_int;
    type Passed = *mut Word;
    type Held = ArrayArgument<c_int, Word>;

    unsafe fn enter(given: *const c_int, len: usize) -> Option<Self::Held> {
        // SAFETY: readable for as many elements.
        let element = |i| to_c(unsafe { given.add(i).read() });
        ArrayArgument::new(given.cast_mut(), len, Word::NONE, element)
    }

    fn pass(held: &mut Self::Held) -> *mut Word {
        held.pass()
    }
}

/// An array of places for handles.
#[derive(Debug)]
pub struct OutHandles;

impl ParameterKind for OutHandles {
    type Given = *mut c_int;
    type Passed = *mut Word;
    type Held = ArrayArgument<c_int, Word>;

    unsafe fn enter(given: *mut c_int, len: usize) -> Option<Self::Held> {
        ArrayArgument::new(given, len, Word::NONE, |_| Word::NONE)
    }

    fn pass(held: &mut Self::Held) -> *mut Word {
        held.pass()
    }

    unsafe fn leave(held: Self::Held) {
        held.leave(|element, place| {
            if element != Word::NONE {
                // SAFETY: writable for as many elements.
                unsafe { place.write(to_fortran(element)) };
            }
        });
    }
}

/// What C has for a `LOGICAL`: any value but 0 is true.
#[inline(always)]
pub fn flag_to_c(logical: c_int) -> c_int {
    (logical != 0).into()
}

/// The `LOGICAL` of a flag of C: `MPI_Abi_get_fortran_booleans` gives these values.
#[inline(always)]
pub fn flag_to_fortran(flag: c_int) -> c_int {
    (flag != 0).into()
}

/// A `LOGICAL`.
#[derive(Debug)]
pub struct InLogical;

impl ParameterKind for InLogical {
    type Given = *const c_int;
    type Passed = c_int;
    type Held = c_int;

    #[inline(always)]
    unsafe fn enter(given: *const c_int, _len: usize) -> Option<c_int> {
        // SAFETY: as the caller promises.
        Some(flag_to_c(unsafe { given.read() }))
    }

    #[inline(always)]
    fn pass(held: &mut c_int) -> c_int {
        *held
    }
}

/// A place for a `LOGICAL`.
#[derive(Debug)]
pub struct OutLogical;

/// No function of MPI stores this for true or false.
const NEITHER: c_int = c_int::MIN;

impl ParameterKind for OutLogical {
    type Given = *mut c_int;
    type Passed = *mut c_int;
    type Held = (*mut c_int, c_int);

    #[inline(always)]
    unsafe fn enter(given: *mut c_int, _len: usize) -> Option<Self::Held> {
        Some((given, NEITHER))
    }

    #[inline(always)]
    fn pass(held: &mut Self::Held) -> *mut c_int {
        &raw mut held.1
    }

    #[inline(always)]
    unsafe fn leave(held: Self::Held) {
        if held.1 != NEITHER {
            // SAFETY: writable.
            unsafe { held.0.write(flag_to_fortran(held.1)) };
        }
    }
}

/// An array of `LOGICAL` that is read.
#[derive(Debug)]
pub struct InLogicals;

impl ParameterKind for InLogicals {
    type Given = *const c_int;
    type Passed = *mut c_int;
    type Held = ArrayArgument<c_int, c_int>;

    unsafe fn enter(given: *const c_int, len: usize) -> Option<Self::Held> {
        // SAFETY: readable for as many elements.
        let element = |i| flag_to_c(unsafe { given.add(i).read() });
        ArrayArgument::new(given.cast_mut(), len, NEITHER, element)
    }

    fn pass(held: &mut Self::Held) -> *mut c_int {
        held.pass()
    }
}

/// An array of places for `LOGICAL`.
#[derive(Debug)]
pub struct OutLogicals;

impl ParameterKind for OutLogicals {
    type Given = *mut c_int;
    type Passed = *mut c_int;
    type Held = ArrayArgument<c_int, c_int>;

    unsafe fn enter(given: *mut c_int, len: usize) -> Option<Self::Held> {
        ArrayArgument::new(given, len, NEITHER, |_| NEITHER)
    }

    fn pass(held: &mut Self::Held) -> *mut c_int {
        held.pass()
    }

    unsafe fn leave(held: Self::Held) {
        held.leave(|element, place| {
            if element != NEITHER {
                // SAFETY: writable for as many elements.
                unsafe { place.write(flag_to_fortran(element)) };
            }
        });
    }
}
