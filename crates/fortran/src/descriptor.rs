//! What Fortran passes for a choice buffer that may be a section of an array: a descriptor of
//! ISO/IEC TS 29113 (Fortran 2018, 18.5.3), whose layout is the compiler's.
//!
//! The fields that are read here are laid out alike by gfortran and flang, whose descriptors are
//! told apart by their version. Another compiler's would be read wrongly, so it is refused.

use std::ffi::{c_int, c_void};

/// `CFI_dim_t`: one dimension.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SectionDimension {
    /// The lowest subscript. Nothing follows from it.
    pub lower_bound: isize,
    /// The number of elements; -1 for the last dimension of an array of assumed size.
    pub extent: isize,
    /// Bytes from one element to the next.
    pub stride: isize,
}

/// `CFI_cdesc_t`, as far as compilers agree on it. The dimensions follow.
#[repr(C)]
#[derive(Debug)]
pub struct Descriptor {
    address: *mut c_void,
    element: usize,
    version: c_int,
    rank: u8,
    /// Attribute and type, in an order of the compiler's.
    others: [u8; 3],
    dimensions: [SectionDimension; 0],
}

/// `CFI_VERSION` of gfortran, of flang to version 19, and of later ones.
const VERSIONS: [c_int; 3] = [1, 20_180_515, 20_240_719];

/// A compiler whose descriptors are not known, by their version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownCompiler(pub c_int);

/// An array that a descriptor describes, or a section of one.
#[derive(Clone, Copy, Debug)]
pub struct ArraySection<'a> {
    /// The first element in the array's order.
    pub address: *mut c_void,
    /// Bytes of an element.
    pub element: usize,
    /// From the one whose elements follow one another first.
    pub dimensions: &'a [SectionDimension],
}

impl Descriptor {
    /// The address of the first element.
    ///
    /// # Safety
    /// `this` is a descriptor.
    #[inline(always)]
    pub unsafe fn address(this: *const Descriptor) -> *mut c_void {
        // SAFETY: as the caller promises.
        unsafe { (*this).address }
    }

    /// The bytes of an element, or of a text.
    ///
    /// # Safety
    /// `this` is a descriptor.
    #[inline(always)]
    pub unsafe fn element(this: *const Descriptor) -> usize {
        // SAFETY: as the caller promises.
        unsafe { (*this).element }
    }

    /// What is described.
    ///
    /// # Errors
    /// When the descriptor is of an unknown compiler.
    ///
    /// # Safety
    /// `this` is a descriptor, which stays for `'a`.
    #[inline(always)]
    pub unsafe fn section<'a>(
        this: *const Descriptor,
    ) -> Result<ArraySection<'a>, UnknownCompiler> {
        // SAFETY: as the caller promises.
        let known = unsafe { &*this };
        if !VERSIONS.contains(&known.version) {
            return Err(UnknownCompiler(known.version));
        }
        // SAFETY: as many dimensions follow as the rank says.
        let dimensions = unsafe {
            std::slice::from_raw_parts((&raw const (*this).dimensions).cast(), known.rank.into())
        };
        Ok(ArraySection { address: known.address, element: known.element, dimensions })
    }
}

impl ArraySection<'_> {
    /// Whether each dimension continues the one before it: a test of few registers, which leaves
    /// the arguments of a call where they are. What is packed is contiguous; an empty array may be
    /// contiguous without.
    #[inline(always)]
    pub fn is_packed(&self) -> bool {
        let [first, more @ ..] = self.dimensions else {
            return true;
        };
        let mut expected = self.element as isize;
        if first.stride != expected && first.extent != 1 {
            return false;
        }
        expected = expected.wrapping_mul(first.extent);
        for dimension in more {
            if dimension.stride != expected && dimension.extent != 1 {
                return false;
            }
            expected = expected.wrapping_mul(dimension.extent);
        }
        true
    }

    /// Whether the elements lie one behind the other, or there is at most one. An array of assumed
    /// size does, as far as it goes. No other array has an extent below 0 but an empty one of
    /// gfortran's.
    #[inline(always)]
    pub fn is_contiguous(&self) -> bool {
        let mut expected = self.element as isize;
        let mut is_packed = true;
        for dimension in self.dimensions {
            match dimension.extent {
                ..=0 => return true,
                1 => {}
                extent => {
                    is_packed &= dimension.stride == expected;
                    expected = expected.wrapping_mul(extent);
                }
            }
        }
        is_packed
    }
}
