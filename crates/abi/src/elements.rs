//! Elements of a datatype in the caller's memory: a message, or one side of a one-sided call. The
//! exports put the consecutive arguments that describe them into one (`SIDES` in
//! `bindings/exports.py`).

use std::ffi::{c_int, c_void};

use mica_memory::{Region, Shape, View};
use mica_mpi::Result;
use mica_mpi::datatype::{self, Datatype};

use crate::types::*;

/// Some elements. What takes their bytes has the obligations of [`View::user`] for them, as long as
/// the bytes are used.
#[derive(Clone, Copy, Debug)]
pub struct UserElements {
    pub(crate) address: *const c_void,
    pub(crate) count: MPI_Count,
    pub(crate) datatype: MPI_Datatype,
}

/// (usual name, name in the send-receive calls) of the send's arguments.
pub const SEND: [(&str, &str); 4] =
    [("buf", "sendbuf"), ("count", "sendcount"), ("datatype", "sendtype"), ("tag", "sendtag")];
/// (usual name, name in the send-receive calls) of the receive's arguments.
pub const RECEIVE: [(&str, &str); 4] =
    [("buf", "recvbuf"), ("count", "recvcount"), ("datatype", "recvtype"), ("tag", "recvtag")];

impl UserElements {
    /// `count` elements of `datatype` at `address`.
    #[inline(always)]
    pub fn new(address: *const c_void, count: MPI_Count, datatype: MPI_Datatype) -> Self {
        Self { address, count, datatype }
    }

    /// Their bytes.
    ///
    /// # Safety
    /// The obligations of [`View::user`].
    #[inline(always)]
    pub unsafe fn view(self) -> Result<View> {
        let shape = datatype::shape_of(self.datatype.raw(), self.address.addr(), self.count)?;
        // SAFETY: passed on to the caller; the shape is that of the elements.
        Ok(unsafe { View::user(self.address, shape) })
    }

    /// As [`view`](Self::view), where an error calls the arguments by the second of the `names`.
    ///
    /// # Safety
    /// The obligations of [`View::user`].
    #[inline(always)]
    pub unsafe fn view_as(self, names: &[(&str, &'static str)]) -> Result<View> {
        // SAFETY: passed on to the caller.
        unsafe { self.view() }.map_err(|error| error.renamed(names))
    }

    /// Calls `f` with their bytes. Compiled twice: for a predefined datatype without gaps and right
    /// arguments, inline, and out of line for all else.
    ///
    /// # Safety
    /// The obligations of [`View::user`].
    #[inline(always)]
    pub unsafe fn with<R>(self, f: impl FnOnce(&View) -> Result<R>) -> Result<R> {
        match datatype::dense_bytes(self.datatype.raw(), self.address.addr(), self.count) {
            // SAFETY: passed on to the caller; the shape is that of the elements.
            Some(bytes) => f(&unsafe { View::user(self.address, Shape::Contiguous { bytes }) }),
            // SAFETY: passed on to the caller.
            None => unsafe { self.with_derived(f) },
        }
    }

    /// # Safety
    /// As [`with`](Self::with).
    #[cold]
    #[inline(never)]
    unsafe fn with_derived<R>(self, f: impl FnOnce(&View) -> Result<R>) -> Result<R> {
        // SAFETY: passed on to the caller.
        f(&unsafe { self.view()? })
    }

    /// The memory that they are in; none if there is no such datatype or number of elements, which
    /// the call then reports.
    ///
    /// # Safety
    /// The obligations of [`Region::user`].
    pub unsafe fn region(self) -> Region {
        let datatype = Datatype::resolve(self.datatype.raw());
        let bounds = datatype.map_or(0..0, |datatype| datatype.bounds(self.count));
        // SAFETY: passed on to the caller.
        unsafe { Region::user(self.address, bounds) }
    }
}

/// The memory of `partitions` partitions of `count` elements; a negative number of them is refused
/// later.
///
/// # Safety
/// The obligations of [`Region::user`].
pub unsafe fn partitions_at(
    address: *const c_void,
    partitions: c_int,
    count: MPI_Count,
    datatype: u32,
) -> Region {
    let total = count.saturating_mul(partitions.into());
    // SAFETY: passed on to the caller.
    unsafe { UserElements::new(address, total, MPI_Datatype::from_raw(datatype)).region() }
}
