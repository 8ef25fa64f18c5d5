//! What Fortran passes for a choice buffer that may be a section of an array: a descriptor of
//! ISO/IEC TS 29113 (Fortran 2018, 18.5.3), whose layout is the compiler's.
//!
//! The fields that are read here are laid out alike by gfortran and flang; the version says
//! which of them it is. Another compiler's would be read wrongly, so it is refused.

use std::ffi::{c_char, c_int, c_void};

use crate::descriptor::{ArraySection, SectionDimension, UnknownCompiler};

/// `CFI_cdesc_t`, as far as compilers agree on it. The dimensions follow.
#[repr(C)]
#[derive(Debug)]
pub struct TsDescriptor {
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

/// Those whose descriptors are known.
pub const KNOWN_COMPILERS: &str = "gfortran and flang";

/// No room for dimensions, which this descriptor has as they are needed.
#[derive(Debug, Default)]
pub struct NoRoom(());

impl TsDescriptor {
    /// The address of the first element.
    ///
    /// # Safety
    /// `this` is a descriptor.
    #[inline(always)]
    pub unsafe fn address(this: *const TsDescriptor) -> *mut c_void {
        // SAFETY: as the caller promises.
        unsafe { (*this).address }
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
        this: *const TsDescriptor,
        _room: &'a mut NoRoom,
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

    /// Whether the descriptor is of a compiler that is known, and what it describes is contiguous.
    ///
    /// # Safety
    /// `this` is a descriptor.
    #[inline(always)]
    pub unsafe fn is_packed(this: *const TsDescriptor) -> bool {
        let mut room = NoRoom::default();
        // SAFETY: as the caller promises.
        unsafe { TsDescriptor::section(this, &mut room) }.is_ok_and(|section| section.is_packed())
    }
}

/// What describes a choice buffer.
pub type Descriptor = TsDescriptor;
/// Where its dimensions are laid out.
pub type DimensionRoom = NoRoom;

/// A text of a function with choice buffers: an interface of C has no other way to pass its length.
pub type DescribedText = *const TsDescriptor;

/// The characters of a text, and their number.
///
/// # Safety
/// The descriptor is one of a text.
#[inline(always)]
pub unsafe fn text(text: DescribedText, _len: usize) -> (*const c_char, usize) {
    // SAFETY: as the caller promises.
    unsafe { ((*text).address.cast_const().cast(), (*text).element) }
}

/// Whether a text's descriptor is of a compiler that is known.
///
/// # Safety
/// As for [`text`].
#[inline(always)]
pub unsafe fn is_known_text(text: DescribedText) -> bool {
    // SAFETY: as the caller promises.
    unsafe { TsDescriptor::is_packed(text) }
}
