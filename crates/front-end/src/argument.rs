//! How a front end describes the parameters of its functions: each is of a kind, which says what
//! becomes of an argument on its way to the standard ABI's function, and of a result on its way
//! back.

use std::ffi::c_int;
use std::marker::PhantomData;

/// A kind of parameter.
pub trait ParameterKind {
    /// As the front end gets it.
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

impl Length for usize {
    #[inline(always)]
    unsafe fn elements(self) -> usize {
        self
    }
}

macro_rules! lengths {
    ($($t:ty)*) => {$(
        impl Length for $t {
            #[inline(always)]
            unsafe fn elements(self) -> usize {
                usize::try_from(self).unwrap_or(0)
            }
        }

        impl Length for *const $t {
            #[inline(always)]
            unsafe fn elements(self) -> usize {
                // SAFETY: as the caller promises.
                unsafe { self.as_ref() }.map_or(0, |&len| usize::try_from(len).unwrap_or(0))
            }
        }

        impl Length for *mut $t {
            #[inline(always)]
            unsafe fn elements(self) -> usize {
                // SAFETY: as the caller promises.
                unsafe { self.cast_const().elements() }
            }
        }
    )*};
}

lengths! { c_int i64 }

/// The same on both sides.
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
