//! Sections of arrays that are not contiguous, as buffers of MPI (MPI 5.0, 19.1.12).
//!
//! The elements of a section, in array element order, are a virtual contiguous buffer, to which
//! count and datatype of a call apply. Two ways lead there:
//!
//! - [`typed`] lays the elements that the call names over the section, as one element of a derived
//!   datatype. `geometry` says where the virtual buffer's bytes lie, `decode` takes datatypes apart
//!   into a `tree`, `spread` maps the tree to `pieces` in memory, `create` makes a datatype of
//!   them, and `cache` keeps it. Nothing is copied.
//! - [`copied()`] copies the virtual buffer, for calls that take no such datatype: reductions with
//!   predefined operators, and collective calls with several blocks. `deferred` keeps the copies of
//!   operations that have begun until they are completed (`completion`).
//!
//! Elements that a call does not write are never written here, not even with the same value:
//! another operation may be receiving them.
//!
//! `geometry`, `tree`, `pieces`, `spread`, `arrays` and `copied` call no MPI.

mod arrays;
mod cache;
mod contents;
mod copied;
mod create;
mod decode;
pub mod deferred;
mod geometry;
mod library;
mod pairs;
mod pieces;
mod spread;
mod tree;

use std::ffi::c_int;
use std::rc::Rc;

use self::cache::TypeKey;
use self::create::{WholeData, create};
use self::decode::{TypeDecoder, whole};
use self::deferred::SectionPartitions;
use self::geometry::SectionBytes;
use self::library::{PMPI_Type_get_extent_c, PMPI_Type_get_true_extent_c, check};
use self::pieces::TypePieces;
use self::spread::spread;
use crate::abi::{Word, constants as c};
use crate::argument::to_c;
use crate::descriptor::ArraySection;

pub use self::cache::KeptType;
pub use self::copied::{CopiedSection, SectionAccess, copied};

/// The datatype of which one element is `count` elements of `datatype` (a handle in Fortran), laid
/// over a section that is not contiguous, if it is kept from an earlier call.
#[inline(always)]
pub fn kept(section: &ArraySection, count: i64, datatype: c_int) -> Option<Rc<KeptType>> {
    cache::find(count, to_c(datatype), section.element, section.dimensions)
}

/// Makes that datatype, and keeps it.
///
/// # Errors
/// The error class: `MPI_ERR_BUFFER` when the elements go beyond the section, `MPI_ERR_TYPE` for
/// `MPI_DATATYPE_NULL` and for datatypes that are nested deeper than 500, `MPI_ERR_NO_MEM`.
#[cold]
#[inline(never)]
pub fn typed(section: &ArraySection, count: i64, datatype: c_int) -> Result<Rc<KeptType>, c_int> {
    let datatype = to_c(datatype);
    let data = lay_out(section, count, datatype)?;
    cache::keep(TypeKey::new(count, datatype, section)?, data)
}

fn lay_out(section: &ArraySection, count: i64, datatype: Word) -> Result<WholeData, c_int> {
    let section = SectionBytes::new(section)?;
    let mut pieces = TypePieces::default();
    // Keeps handles that the pieces have.
    let mut decoder = TypeDecoder::default();
    if count != 0 && section.total() != 0 {
        if datatype == c::DATATYPE_NULL {
            return Err(c::ERR_TYPE);
        }
        if let Some(tree) = whole(datatype)? {
            pieces = spread(&section, count, &tree, &mut decoder)?;
        }
    }
    create(pieces.as_slice())
}

/// The partitions of `count` elements of `datatype` (a handle in Fortran) each.
///
/// # Errors
/// The error class: `MPI_ERR_COUNT` for a negative count, or what MPI says of the datatype.
///
/// # Safety
/// MPI is initialized.
pub unsafe fn partitions(count: i64, datatype: c_int) -> Result<SectionPartitions, c_int> {
    if count < 0 {
        return Err(c::ERR_COUNT);
    }
    let datatype = to_c(datatype);
    let (mut lower, mut extent, mut first, mut data) = (0, 0, 0, 0);
    // SAFETY: functions of MPI, and places for their results.
    unsafe {
        check(PMPI_Type_get_extent_c(datatype, &raw mut lower, &raw mut extent))?;
        check(PMPI_Type_get_true_extent_c(datatype, &raw mut first, &raw mut data))?;
    }
    if count == 0 {
        return Ok(SectionPartitions { distance: 0, first: 0, data: 0 });
    }
    let data = extent.saturating_mul(count - 1).saturating_add(data);
    Ok(SectionPartitions { distance: extent.saturating_mul(count), first, data })
}
