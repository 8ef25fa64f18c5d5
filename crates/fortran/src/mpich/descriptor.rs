//! What MPICH's `mpi_f08` passes for a choice buffer: gfortran's own descriptor of an array, since
//! the interfaces are none of C. Its layout is that of gfortran 8 and later (libgfortran.so.5).
//!
//! Intel's compiler passes its own, which begins with the address as well. It has flags, which are
//! not 0, where gfortran has the version 0: by that it is recognized, and refused.

use std::ffi::{c_char, c_int, c_void};

use crate::descriptor::{ArraySection, MAX_RANK, SectionDimension, UnknownCompiler, lie_together};

/// One dimension.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Bounds {
    /// Spans from one element to the next.
    stride: isize,
    lower: isize,
    upper: isize,
}

/// A descriptor. The dimensions follow.
#[repr(C)]
#[derive(Debug)]
pub struct GfortranDescriptor {
    address: *mut c_void,
    offset: isize,
    element: usize,
    version: c_int,
    rank: i8,
    kind: i8,
    attribute: i16,
    /// Bytes that a stride of 1 is; more than an element where it is a component of a structure.
    span: isize,
    dimensions: [Bounds; 0],
}

const _: () = assert!(size_of::<GfortranDescriptor>() == 40 && size_of::<Bounds>() == 24);

/// The version in all descriptors of gfortran so far.
const VERSION: c_int = 0;

/// Those whose descriptors are known.
pub const KNOWN_COMPILERS: &str = "gfortran";

/// Room for dimensions as [`ArraySection`] has them.
#[derive(Debug, Default)]
pub struct BoundsRoom([SectionDimension; MAX_RANK]);

impl Bounds {
    /// The number of elements; below 0 for the last dimension of an array of assumed size.
    #[inline(always)]
    fn extent(&self) -> isize {
        self.upper.wrapping_sub(self.lower).wrapping_add(1)
    }
}

impl GfortranDescriptor {
    /// The address of the first element.
    ///
    /// # Safety
    /// `this` is a descriptor.
    #[inline(always)]
    pub unsafe fn address(this: *const GfortranDescriptor) -> *mut c_void {
        // SAFETY: as the caller promises.
        unsafe { (*this).address }
    }

    /// The dimensions, and the bytes that a stride of 1 is.
    ///
    /// # Errors
    /// When the descriptor is of another compiler.
    ///
    /// # Safety
    /// `this` is a descriptor, which stays for `'a`.
    #[inline(always)]
    unsafe fn bounds<'a>(
        this: *const GfortranDescriptor,
    ) -> Result<(&'a [Bounds], isize), UnknownCompiler> {
        // SAFETY: as the caller promises; Intel's is longer.
        let known = unsafe { &*this };
        let rank = usize::try_from(known.rank).unwrap_or(usize::MAX);
        if known.version != VERSION || rank > MAX_RANK {
            return Err(UnknownCompiler(known.version));
        }
        // SAFETY: as many dimensions follow as the rank says.
        let bounds =
            unsafe { std::slice::from_raw_parts((&raw const (*this).dimensions).cast(), rank) };
        let span = if known.span == 0 { known.element as isize } else { known.span };
        Ok((bounds, span))
    }

    /// What is described.
    ///
    /// # Errors
    /// When the descriptor is of another compiler.
    ///
    /// # Safety
    /// `this` is a descriptor, which stays for `'a`.
    pub unsafe fn section<'a>(
        this: *const GfortranDescriptor,
        room: &'a mut BoundsRoom,
    ) -> Result<ArraySection<'a>, UnknownCompiler> {
        // SAFETY: as the caller promises.
        let ((bounds, span), known) = unsafe { (GfortranDescriptor::bounds(this)?, &*this) };
        let dimensions = &mut room.0[..bounds.len()];
        for (dimension, bounds) in dimensions.iter_mut().zip(bounds) {
            *dimension = SectionDimension {
                lower_bound: bounds.lower,
                extent: bounds.extent(),
                stride: bounds.stride.wrapping_mul(span),
            };
        }
        Ok(ArraySection { address: known.address, element: known.element, dimensions })
    }

    /// Whether the descriptor is of gfortran, and what it describes
    /// [is contiguous](lie_together).
    ///
    /// # Safety
    /// `this` is a descriptor.
    #[inline(always)]
    pub unsafe fn is_packed(this: *const GfortranDescriptor) -> bool {
        // SAFETY: as the caller promises.
        let (Ok((bounds, span)), element) =
            (unsafe { (GfortranDescriptor::bounds(this), (*this).element) })
        else {
            return false;
        };
        lie_together(
            element,
            bounds.iter().map(|dim| (dim.extent(), dim.stride.wrapping_mul(span))),
        )
    }
}

/// What describes a choice buffer.
pub type Descriptor = GfortranDescriptor;
/// Where its dimensions are laid out.
pub type DimensionRoom = BoundsRoom;

/// A text of a function with choice buffers.
pub type DescribedText = *const c_char;

/// The characters of a text, and their number, which follows the arguments.
///
/// # Safety
/// The text has `len` characters.
#[inline(always)]
pub unsafe fn text(text: DescribedText, len: usize) -> (*const c_char, usize) {
    (text, len)
}

/// No text has a descriptor.
///
/// # Safety
/// None.
#[inline(always)]
pub unsafe fn is_known_text(_text: DescribedText) -> bool {
    true
}
