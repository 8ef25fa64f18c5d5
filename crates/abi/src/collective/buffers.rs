//! The buffers of collective calls, as the caller describes them. The exports put the consecutive
//! arguments that describe one buffer into one of these (`BUFFERS` in `bindings/exports.py`);
//! nothing is read or checked before a method asks for it, so that arguments that are significant
//! only at the root are not read elsewhere.

use std::borrow::Borrow;
use std::ffi::{c_int, c_void};

use mica_mpi::collective::{BlockList, BufferArgument};
use mica_mpi::comm::Comm;
use mica_mpi::constants::{BYTE, DATATYPE_NULL, ERR_ARG, ERR_BUFFER, IN_PLACE};
use mica_mpi::datatype::{Datatype, Region, View, check_buffer, check_count};
use mica_mpi::error::{Error, Result};

use super::{at_root, takes_part};
use crate::convert::slice;
use crate::poly::PolyArray;
use crate::types::{MPI_Count, MPI_Datatype};

/// A buffer of blocks with `count` elements each; the call says how many blocks.
#[derive(Clone, Copy)]
pub struct UserBuffer {
    /// The name of the count, for errors.
    argument: &'static str,
    pub(super) address: *const c_void,
    pub(super) count: MPI_Count,
    pub(super) datatype: MPI_Datatype,
}

impl UserBuffer {
    /// The buffer at `address`; `argument` is the name of its count.
    #[inline(always)]
    pub fn new(
        argument: &'static str,
        address: *const c_void,
        count: MPI_Count,
        datatype: MPI_Datatype,
    ) -> Self {
        Self { argument, address, count, datatype }
    }

    /// One with no elements at the null address, for a rank where the arguments are not
    /// significant.
    pub(super) fn none(self) -> Self {
        let datatype = MPI_Datatype::from_raw(BYTE);
        Self::new(self.argument, std::ptr::null(), 0, datatype)
    }

    /// `MPI_DATATYPE_NULL` with a count of 0 is any datatype, in the calls where MPICH and Intel
    /// MPI accept that.
    pub(super) fn or_untyped(self) -> Self {
        Self { datatype: or_byte(self.datatype, self.count), ..self }
    }

    /// The buffer with `blocks` blocks; `None` for `MPI_IN_PLACE`, where count and type are not
    /// checked.
    ///
    /// # Safety
    /// As [`Region::user`] for these elements, unless it is `MPI_IN_PLACE`.
    pub(super) unsafe fn or_in_place(self, blocks: usize) -> Result<Option<BufferArgument>> {
        if self.address.addr() == IN_PLACE {
            return Ok(None);
        }
        // SAFETY: by the contract above.
        unsafe { self.blocks(blocks) }.map(Some)
    }

    /// As [`or_in_place`](Self::or_in_place), for a buffer that cannot be `MPI_IN_PLACE`.
    ///
    /// # Safety
    /// As [`Region::user`] for `blocks` times `count` elements.
    pub(super) unsafe fn blocks(self, blocks: usize) -> Result<BufferArgument> {
        let Self { argument, count, .. } = self;
        let address = plain(self.address)?;
        let datatype = of_type(self.datatype, argument)?;
        // More elements than there can be have no bounds: then an error follows.
        let bounds = datatype.bounds(count.saturating_mul(blocks as i64));
        // SAFETY: by the contract above.
        let region = unsafe { Region::user(address, bounds) };
        let buffer = BufferArgument::new(region, argument, count, &datatype)?;
        check_null(address, argument, count, &datatype)?;
        Ok(buffer)
    }

    /// One block, which every rank has that exchanges data with `root`; `None` too at a rank that
    /// takes no part.
    ///
    /// # Safety
    /// As [`or_in_place`](Self::or_in_place).
    pub(super) unsafe fn of_rank(self, comm: &Comm, root: c_int) -> Result<Option<BufferArgument>> {
        if !takes_part(comm, root) {
            return Ok(None);
        }
        // SAFETY: by the contract above.
        unsafe { self.or_in_place(1) }
    }

    /// A block for each rank, which only `root` has.
    ///
    /// # Safety
    /// As [`blocks`](Self::blocks).
    pub(super) unsafe fn of_root(self, comm: &Comm, root: c_int) -> Result<Option<BufferArgument>> {
        if !at_root(comm, root) {
            return Ok(None);
        }
        // SAFETY: by the contract above.
        unsafe { self.blocks(comm.remote_or_local_size()) }.map(Some)
    }
}

/// A buffer of blocks that each have a count and a displacement: the v- and w-forms.
#[derive(Clone, Copy)]
pub struct UserBlocks {
    /// The name of the counts, for errors.
    argument: &'static str,
    address: *const c_void,
    counts: PolyArray,
    displacements: PolyArray,
    types: BlockTypes,
}

/// The datatypes of blocks.
#[derive(Clone, Copy)]
pub enum BlockTypes {
    /// One for all; displacements are in units of its extent.
    Common(MPI_Datatype),
    /// One for each; displacements are in bytes.
    Each(*const MPI_Datatype),
}

impl From<MPI_Datatype> for BlockTypes {
    fn from(common: MPI_Datatype) -> Self {
        Self::Common(common)
    }
}

impl From<*const MPI_Datatype> for BlockTypes {
    fn from(each: *const MPI_Datatype) -> Self {
        Self::Each(each)
    }
}

impl UserBlocks {
    /// The blocks relative to `address`; `argument` is the name of their counts.
    #[inline]
    pub fn new(
        argument: &'static str,
        address: *const c_void,
        counts: PolyArray,
        displacements: impl Into<PolyArray>,
        types: impl Into<BlockTypes>,
    ) -> Self {
        Self { argument, address, counts, displacements: displacements.into(), types: types.into() }
    }

    /// The blocks, one for each of `size` ranks; `None` for `MPI_IN_PLACE`.
    ///
    /// # Safety
    /// As [`list`](Self::list), unless it is `MPI_IN_PLACE`.
    pub(super) unsafe fn or_in_place(self, size: usize) -> Result<Option<BlockList>> {
        if self.address.addr() == IN_PLACE {
            return Ok(None);
        }
        // SAFETY: by the contract above.
        unsafe { self.list(size) }.map(Some)
    }

    /// As [`or_in_place`](Self::or_in_place), for a buffer that cannot be `MPI_IN_PLACE`.
    ///
    /// # Safety
    /// The arrays have `size` elements; as [`View::user`] for each block.
    pub(super) unsafe fn list(self, size: usize) -> Result<BlockList> {
        let argument = self.argument;
        let named = |e: Error| e.renamed(&[("buffer", neighbors(argument).0)]);
        plain(self.address).map_err(named)?;
        check_arrays(size == 0 || !self.counts.is_null() && !self.displacements.is_null())?;
        let mut views = Vec::with_capacity(size);
        match self.types {
            BlockTypes::Common(datatype) => {
                // One type for all: its name has no plural.
                let datatype = of_type(datatype, argument.trim_end_matches('s'))?;
                let unit = datatype.extent();
                for rank in 0..size {
                    // SAFETY: by the contract above.
                    views.push(unsafe { self.block(rank, unit, |_| Ok(&datatype))? });
                }
            }
            BlockTypes::Each(datatypes) => {
                // SAFETY: by the contract above.
                let datatypes = unsafe { slice(datatypes, size as c_int, "types", "size")? };
                for (rank, &datatype) in datatypes.iter().enumerate() {
                    let of_count = |count| of_type(or_byte(datatype, count), argument);
                    // SAFETY: by the contract above.
                    views.push(unsafe { self.block(rank, 1, of_count)? });
                }
            }
        }
        Ok(BlockList::new(views))
    }

    /// A block for each rank, which only `root` has.
    ///
    /// # Safety
    /// As [`list`](Self::list).
    pub(super) unsafe fn of_root(self, comm: &Comm, root: c_int) -> Result<Option<BlockList>> {
        if !at_root(comm, root) {
            return Ok(None);
        }
        // SAFETY: by the contract above.
        unsafe { self.list(comm.remote_or_local_size()) }.map(Some)
    }

    /// The block of `rank`, whose displacement is in units of `unit` bytes and whose datatype may
    /// depend on its count.
    ///
    /// # Safety
    /// The arrays have more than `rank` elements; as [`View::user`] for this block.
    ///
    /// # Errors
    /// `MPI_ERR_COUNT`; `MPI_ERR_BUFFER` for a block at the null address, `MPI_ERR_ARG` for one
    /// beyond all addresses.
    unsafe fn block<T: Borrow<Datatype>>(
        &self,
        rank: usize,
        unit: i64,
        datatype: impl FnOnce(MPI_Count) -> Result<T>,
    ) -> Result<View> {
        // SAFETY: by the contract above.
        let (count, displacement) =
            unsafe { (self.counts.get(rank), self.displacements.get(rank)) };
        let datatype = datatype(count)?;
        let datatype = datatype.borrow();
        check_count(count, self.argument)?;
        let distance = i128::from(displacement) * i128::from(unit);
        // Blocks without elements may have any displacement.
        let bounds = datatype.bounds(count);
        let fits = |bound: isize| isize::try_from(bound as i128 + distance).is_ok();
        if !(bounds.is_empty() || fits(bounds.start) && fits(bounds.end)) {
            let reason = "a block at this distance in bytes lies outside all memory";
            return Err(Error::argument(ERR_ARG, "displacement", distance, reason));
        }
        let block = self.address.wrapping_byte_offset(distance as isize);
        check_null(block, self.argument, count, datatype)?;
        // SAFETY: by the contract above.
        Ok(unsafe { View::user(block, datatype.shape(count)?) })
    }
}

/// The two operands of a reduction, `count` elements of one datatype in each block; the call says
/// how many blocks each has.
#[derive(Clone, Copy)]
pub struct UserOperands {
    pub(super) send: *const c_void,
    pub(super) receive: *const c_void,
    pub(super) count: MPI_Count,
    pub(super) datatype: MPI_Datatype,
}

impl UserOperands {
    /// The operand at `send`, or `MPI_IN_PLACE`, and the result at `receive`.
    #[inline(always)]
    pub fn new(
        send: *const c_void,
        receive: *const c_void,
        count: MPI_Count,
        datatype: MPI_Datatype,
    ) -> Self {
        Self { send, receive, count, datatype }
    }
}

/// The names of the buffer and the datatype that belong to a count or an array of counts.
fn neighbors(count: &str) -> (&'static str, &'static str) {
    match count {
        "sendcount" => ("sendbuf", "sendtype"),
        "sendcounts" => ("sendbuf", "sendtypes"),
        "recvcount" => ("recvbuf", "recvtype"),
        "recvcounts" => ("recvbuf", "recvtypes"),
        _ => ("buffer", "datatype"),
    }
}

/// This datatype; `MPI_BYTE` for `MPI_DATATYPE_NULL` with a count of 0.
fn or_byte(datatype: MPI_Datatype, count: MPI_Count) -> MPI_Datatype {
    match datatype.raw() {
        DATATYPE_NULL if count == 0 => MPI_Datatype::from_raw(BYTE),
        _ => datatype,
    }
}

/// The datatype that belongs to the count called `argument`.
fn of_type(datatype: MPI_Datatype, argument: &str) -> Result<Datatype> {
    Datatype::resolve_committed(datatype.raw())
        .map_err(|error| error.renamed(&[("datatype", neighbors(argument).1)]))
}

/// Refuses `MPI_IN_PLACE`, which is no address.
pub fn plain(address: *const c_void) -> Result<*const c_void> {
    if address.addr() == IN_PLACE {
        return Err(Error::argument(
            ERR_BUFFER,
            "buffer",
            "MPI_IN_PLACE",
            "not allowed for this buffer",
        ));
    }
    Ok(address)
}

/// Refuses a null address where elements lie. `argument` is the name of their count.
#[inline]
fn check_null(
    address: *const c_void,
    argument: &'static str,
    count: MPI_Count,
    datatype: &Datatype,
) -> Result<()> {
    match address.is_null() {
        true => check_buffer(0, count, datatype, neighbors(argument).0),
        false => Ok(()),
    }
}

/// Refuses null arrays.
pub(super) fn check_arrays(all_given: bool) -> Result<()> {
    if all_given {
        return Ok(());
    }
    Err(Error::argument(
        ERR_ARG,
        "array",
        "NULL",
        "counts, displacements and types are needed for every rank",
    ))
}
