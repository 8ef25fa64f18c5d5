//! `MPI_Pack`, `MPI_Unpack`, `MPI_Pack_size` (MPI 5.0, 5.2).
//!
//! The packed form is the bytes in the order in which they travel, without a header: what
//! `MPI_PACKED` receives is what was sent, whichever way it was packed.

use mica_memory::{Region, Shape};

use super::{Datatype, shape_of};
use crate::constants as c;
use crate::error::{Error, Result};

/// The part of a packed buffer of `size` bytes from `position` on that `bytes` bytes need, and the
/// position after it.
pub(super) fn window(
    buffer: &Region,
    size: i64,
    size_argument: &'static str,
    position: i64,
    bytes: u64,
) -> Result<(Region, i64)> {
    if size < 0 {
        return Err(Error::argument(c::ERR_ARG, size_argument, size, "it must not be negative"));
    }
    if position < 0 || position > size {
        let reason = format!("a position lies between 0 and {size_argument}, {size}");
        return Err(Error::argument(c::ERR_ARG, "position", position, reason));
    }
    match i64::try_from(bytes).ok().filter(|&bytes| bytes <= size - position) {
        Some(bytes) => Ok((buffer.offset(position as isize), position + bytes)),
        None => {
            let reason = format!("{bytes} bytes from position {position} on do not fit");
            Err(Error::argument(c::ERR_TRUNCATE, size_argument, size, reason))
        }
    }
}

/// Packs `count` elements at `from` into a buffer of `outsize` bytes at `position`; returns the
/// position after them.
pub fn pack(
    from: Region,
    count: i64,
    datatype: u32,
    to: &Region,
    outsize: i64,
    position: i64,
) -> Result<i64> {
    Datatype::resolve(datatype)?;
    let shape = shape_of(datatype, from.address(), count)?;
    let view = from.view(shape);
    let (at, end) = window(to, outsize, "outsize", position, view.len() as u64)?;
    at.view(Shape::Contiguous { bytes: view.len() }).copy_from(&view);
    Ok(end)
}

/// Unpacks `count` elements from a buffer of `insize` bytes at `position` to `to`; returns the
/// position after them.
pub fn unpack(
    from: &Region,
    insize: i64,
    position: i64,
    to: Region,
    count: i64,
    datatype: u32,
) -> Result<i64> {
    Datatype::resolve(datatype)?;
    let shape = shape_of(datatype, to.address(), count)?;
    let view = to.view(shape);
    let (at, end) = window(from, insize, "insize", position, view.len() as u64)?;
    view.copy_from(&at.view(Shape::Contiguous { bytes: view.len() }));
    Ok(end)
}

/// Bytes that `count` elements need in packed form.
pub fn pack_size(count: i64, datatype: u32) -> Result<i64> {
    let datatype = Datatype::resolve_committed(datatype)?;
    let elements = super::check_count(count, "incount")?;
    datatype
        .layout()
        .packed(elements as usize)
        .map(|bytes| bytes as i64)
        .map_err(|error| Error::argument(c::ERR_COUNT, "incount", count, error.to_string()))
}
