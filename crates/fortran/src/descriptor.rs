//! Arrays and sections of arrays that Fortran passes for choice buffers, as their descriptors
//! describe them ([`crate::abi::descriptor`]).

use std::ffi::{c_int, c_void};

/// `CFI_dim_t`: one dimension.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SectionDimension {
    /// The lowest subscript. Nothing follows from it.
    pub lower_bound: isize,
    /// The number of elements; -1 for the last dimension of an array of assumed size.
    pub extent: isize,
    /// Bytes from one element to the next.
    pub stride: isize,
}

/// The dimensions that an array of Fortran may have.
pub const MAX_RANK: usize = 15;

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

    /// Whether [the elements lie one behind the other](lie_together).
    #[inline(always)]
    pub fn is_contiguous(&self) -> bool {
        lie_together(self.element, self.dimensions.iter().map(|dim| (dim.extent, dim.stride)))
    }
}

/// Whether an array is contiguous, or has at most one element: of elements of `element` bytes, with
/// these extents and strides of its dimensions. An array of assumed size is, as far as it goes. No
/// other array has an extent below 0 but an empty one of gfortran's.
#[inline(always)]
pub fn lie_together(element: usize, dimensions: impl Iterator<Item = (isize, isize)>) -> bool {
    let mut expected = element as isize;
    let mut is_packed = true;
    for (extent, stride) in dimensions {
        match extent {
            ..=0 => return true,
            1 => {}
            extent => {
                is_packed &= stride == expected;
                expected = expected.wrapping_mul(extent);
            }
        }
    }
    is_packed
}
