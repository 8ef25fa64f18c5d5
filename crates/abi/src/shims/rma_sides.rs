//! The target's side of one-sided calls, as the caller describes it; the origin's are
//! [`UserElements`].

use std::ffi::c_int;

use mica_memory::{FEW_BYTES, Region, Shape};
use mica_mpi::constants as c;
use mica_mpi::datatype;
use mica_mpi::window::TargetRange;
use mica_mpi::window::fast_path::TargetBytes;
use mica_mpi::{Error, Result};

use crate::elements::UserElements;
use crate::types::*;

/// (usual name, name in one-sided calls) of the origin's arguments.
pub const ORIGIN: [(&str, &str); 3] =
    [("buf", "origin_addr"), ("count", "origin_count"), ("datatype", "origin_datatype")];
/// (usual name, name in one-sided calls) of the result's arguments.
pub(super) const RESULT: [(&str, &str); 3] =
    [("buf", "result_addr"), ("count", "result_count"), ("datatype", "result_datatype")];

/// Elements in the target's memory.
#[derive(Clone, Copy)]
pub struct TargetElements {
    rank: c_int,
    disp: MPI_Aint,
    count: MPI_Count,
    pub(super) datatype: MPI_Datatype,
}

impl TargetElements {
    /// `count` elements of `datatype` at displacement `disp` of rank `rank`'s window.
    #[inline(always)]
    pub fn new(rank: c_int, disp: MPI_Aint, count: MPI_Count, datatype: MPI_Datatype) -> Self {
        Self { rank, disp, count, datatype }
    }

    /// Whether there is one element.
    #[inline(always)]
    pub(super) fn is_one(self) -> bool {
        self.count == 1
    }

    /// Where the first is: the rank and the displacement.
    #[inline(always)]
    pub(super) fn place(self) -> (c_int, MPI_Aint) {
        (self.rank, self.disp)
    }

    /// The bytes on both sides, if `origin` has as many elements of the same predefined datatype
    /// without gaps, for the fast path.
    ///
    /// # Safety
    /// The obligations of [`View::user`](mica_memory::View::user) for the origin's elements.
    #[inline(always)]
    pub(super) unsafe fn same_bytes(self, origin: UserElements) -> Option<(Region, TargetBytes)> {
        if origin.count != self.count || origin.datatype != self.datatype {
            return None;
        }
        let bytes =
            datatype::dense_bytes(origin.datatype.raw(), origin.address.addr(), origin.count)?;
        // SAFETY: passed on to the caller.
        let region = unsafe { Region::user(origin.address, 0..bytes as isize) };
        Some((region, TargetBytes { rank: self.rank, disp: self.disp, bytes }))
    }

    /// As [`same_bytes`](Self::same_bytes), if they are some, and so few that they are copied
    /// without a call.
    ///
    /// # Safety
    /// As for [`same_bytes`](Self::same_bytes).
    #[inline(always)]
    pub(super) unsafe fn few_bytes(self, origin: UserElements) -> Option<(Region, TargetBytes)> {
        // An element has a byte at least.
        if !(1..=FEW_BYTES as MPI_Count).contains(&origin.count) {
            return None;
        }
        // SAFETY: passed on to the caller.
        let found = unsafe { self.same_bytes(origin)? };
        (found.1.bytes <= FEW_BYTES).then_some(found)
    }

    /// The target's memory.
    ///
    /// # Errors
    /// `MPI_ERR_TYPE`, `MPI_ERR_COUNT`; `MPI_ERR_RMA_RANGE` for more than an address space has.
    #[inline(always)]
    pub fn range(self) -> Result<TargetRange> {
        // The target's address is not known here, and is not null.
        const SOMEWHERE: usize = usize::MAX;
        let shape = match datatype::dense_bytes(self.datatype.raw(), SOMEWHERE, self.count) {
            Some(bytes) => Shape::Contiguous { bytes },
            None => self.shape()?,
        };
        Ok(TargetRange { rank: self.rank, disp: self.disp, shape })
    }

    #[cold]
    #[inline(never)]
    fn shape(self) -> Result<Shape> {
        let names = [("datatype", "target_datatype"), ("count", "target_count")];
        let shape = datatype::shape_of(self.datatype.raw(), usize::MAX, self.count);
        shape.map_err(|error| match error.code() {
            // More bytes than an address space has: outside of any window.
            c::ERR_COUNT if self.count > 0 => {
                Error::argument(c::ERR_RMA_RANGE, "target_disp", self.disp, error.to_string())
            }
            _ => error.renamed(&names),
        })
    }
}
