//! Arguments that are `int` in `MPI_X` and `MPI_Count` (or `MPI_Aint`) in `MPI_X_c` (MPI 5.0,
//! 19.2): one shim serves both forms.
//!
//! Scalars are widened before the shim sees them; pointers arrive as [`PolyArray`] (read) or
//! [`PolyOut`] (written), which remember the width of what they point to.

use std::ffi::c_int;

use crate::types::{MPI_Aint, MPI_Count};
use mica_memory::try_collect;
use mica_mpi::constants::{ERR_ARG, UNDEFINED};
use mica_mpi::{Error, Result};

/// A caller's array of counts or displacements, 32 or 64 bits each.
#[derive(Clone, Copy, Debug)]
pub struct PolyArray {
    base: *const u8,
    wide: bool,
}

/// Where the caller wants one or more counts or displacements, 32 or 64 bits each.
#[derive(Clone, Copy, Debug)]
pub struct PolyOut {
    base: *mut u8,
    wide: bool,
}

/// Which of a call's two forms was called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CountForm {
    /// `MPI_X`, whose counts are `int`.
    Plain,
    /// `MPI_X_c`, whose counts are `MPI_Count`.
    Large,
}

/// The integer types that polymorphic arguments have in C.
pub trait PolyInt {
    /// Whether it has 64 bits.
    const WIDE: bool;
}

impl PolyInt for c_int {
    const WIDE: bool = false;
}

impl PolyInt for MPI_Count {
    const WIDE: bool = true;
}

impl PolyInt for MPI_Aint {
    const WIDE: bool = true;
}

impl PolyArray {
    /// Whether the caller passed a null pointer.
    #[inline]
    pub fn is_null(self) -> bool {
        self.base.is_null()
    }

    /// Wraps the caller's pointer, which may be null.
    #[inline]
    pub const fn new<T: PolyInt>(base: *const T) -> Self {
        Self { base: base.cast(), wide: T::WIDE }
    }

    /// The caller's pointer.
    #[inline]
    pub fn as_ptr(self) -> *const u8 {
        self.base
    }

    /// Element `i`.
    ///
    /// # Safety
    /// The caller's array is readable and has more than `i` elements.
    #[inline]
    pub unsafe fn get(self, i: usize) -> i64 {
        // SAFETY: by the contract above; the constructor took the width from the pointer's type.
        unsafe {
            if self.wide {
                *self.base.cast::<i64>().add(i)
            } else {
                i64::from(*self.base.cast::<c_int>().add(i))
            }
        }
    }

    /// The first `n` elements; none of them is read when `n` is 0.
    ///
    /// # Errors
    /// `MPI_ERR_NO_MEM`.
    ///
    /// # Safety
    /// The caller's array is readable and has at least `n` elements.
    pub unsafe fn to_vec(self, n: usize) -> Result<Vec<i64>> {
        // SAFETY: every `i` is below `n`.
        Ok(try_collect((0..n).map(|i| unsafe { self.get(i) }))?)
    }
}

impl<T: PolyInt> From<*const T> for PolyArray {
    fn from(base: *const T) -> Self {
        Self::new(base)
    }
}

impl PolyOut {
    /// Wraps the caller's pointer, which may be null.
    #[inline]
    pub const fn new<T: PolyInt>(base: *mut T) -> Self {
        Self { base: base.cast(), wide: T::WIDE }
    }

    /// Whether the caller passed a null pointer.
    #[inline]
    pub fn is_null(self) -> bool {
        self.base.is_null()
    }

    /// This place; null is refused with `MPI_ERR_ARG`.
    #[inline]
    pub fn required(self, argument: &'static str) -> Result<Self> {
        if self.is_null() {
            return Err(no_place(argument));
        }
        Ok(self)
    }

    /// Whether the caller's type can hold `value`.
    #[inline]
    pub fn fits(self, value: i64) -> bool {
        self.wide || c_int::try_from(value).is_ok()
    }

    /// Element `i`, for arguments that are both read and written.
    ///
    /// # Safety
    /// The caller's array is readable and has more than `i` elements.
    #[inline]
    pub unsafe fn get(self, i: usize) -> i64 {
        // SAFETY: by the contract above.
        unsafe { PolyArray { base: self.base, wide: self.wide }.get(i) }
    }

    /// Writes `value` to element `i`. A value that does not fit is cut to its low 32 bits: where it
    /// can be large, ask [`fits`](Self::fits) first, or use
    /// [`set_or_undefined`](Self::set_or_undefined).
    ///
    /// # Safety
    /// The caller's array is writable and has more than `i` elements.
    #[inline]
    pub unsafe fn set(self, i: usize, value: i64) {
        // SAFETY: by the contract above; the constructor took the width from the pointer's type.
        unsafe {
            if self.wide {
                *self.base.cast::<i64>().add(i) = value;
            } else {
                *self.base.cast::<c_int>().add(i) = value as c_int;
            }
        }
    }

    /// Writes `value` to element `i`, or `MPI_UNDEFINED` where it does not fit, as MPI requires of
    /// `MPI_Get_count`, `MPI_Type_size` and similar calls.
    ///
    /// # Safety
    /// The caller's array is writable and has more than `i` elements.
    #[inline]
    pub unsafe fn set_or_undefined(self, i: usize, value: i64) {
        let value = if self.fits(value) { value } else { i64::from(UNDEFINED) };
        // SAFETY: by the contract above.
        unsafe { self.set(i, value) }
    }
}

#[cold]
fn no_place(argument: &'static str) -> Error {
    let reason = "a place for the result is needed";
    Error::argument(ERR_ARG, argument, "NULL", reason)
}

#[cfg(test)]
mod tests {
    use super::*;
    use mica_mpi::constants::ERR_NO_MEM;

    #[test]
    fn both_widths_read_the_same() {
        let narrow: [c_int; 3] = [-1, 0, c_int::MAX];
        let wide: [MPI_Count; 3] = [-1, 0, c_int::MAX.into()];
        // SAFETY: the arrays have three elements.
        let (a, b) = unsafe {
            (
                PolyArray::new(&raw const narrow[0]).to_vec(3).unwrap(),
                PolyArray::new(&raw const wide[0]).to_vec(3).unwrap(),
            )
        };
        assert_eq!(a, wide);
        assert_eq!(b, wide);
        assert!(PolyArray::new(std::ptr::null::<c_int>()).is_null());
    }

    #[test]
    fn more_elements_than_memory_are_an_error() {
        let one: c_int = 1;
        // SAFETY: no element is read, since there is no memory for as many.
        let all = unsafe { PolyArray::new(&raw const one).to_vec(1 << 60) };
        assert_eq!(all.unwrap_err().code(), ERR_NO_MEM);
    }

    #[test]
    fn what_does_not_fit_is_undefined_only_in_the_plain_form() {
        let (mut narrow, mut wide) = ([0 as c_int; 2], [0 as MPI_Count; 2]);
        let big = i64::from(c_int::MAX) + 1;
        for out in [PolyOut::new(&raw mut narrow[0]), PolyOut::new(&raw mut wide[0])] {
            // SAFETY: two elements each.
            unsafe {
                out.set_or_undefined(0, big);
                out.set(1, -7);
                assert_eq!(out.get(1), -7);
            }
        }
        assert_eq!(narrow, [UNDEFINED, -7]);
        assert_eq!(wide, [big, -7]);
        assert!(!PolyOut::new(&raw mut narrow[0]).fits(big));
        assert!(PolyOut::new(&raw mut wide[0]).fits(big));
    }
}
