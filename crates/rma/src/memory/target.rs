//! The memory of each rank of a window: where it lies, and how this rank accesses it.

use std::sync::OnceLock;

use mica_memory::{Region, RegionRef, Shape};
use mica_node::window::OwnLock;
use mica_node::window::OwnLocks;

use super::access::TargetFlag;
use super::attached::PeerAttachments;
use super::movable::CreatedTarget;
use super::place::{TargetPlace, runs};
use mica_objects::constants as c;
use mica_objects::error::{Error, Result};

/// One rank of a window, as this rank sees it.
#[derive(Debug)]
pub(crate) struct WindowTarget {
    /// Its part of the window, if this rank loads and stores all of it: from the start, or since
    /// the target has migrated it.
    pub mapped: OnceLock<Region>,
    pub memory: TargetMemory,
    /// Bytes of its part of the window; 0 if memory is attached later.
    pub bytes: usize,
    /// Its displacement unit in bytes.
    pub unit: u32,
    /// Its number among the [node peers](super::node_peers::NodePeers), if it is one: locks and
    /// counts are shared then, otherwise they go by messages.
    pub number: Option<u32>,
    /// The locks of a node peer, where accumulates go by loads and stores.
    pub locks: Option<OwnLocks>,
    /// What may be accessed of it now.
    pub flag: TargetFlag,
}

/// How a rank's memory is accessed.
#[derive(Debug)]
pub(crate) enum TargetMemory {
    /// By loads and stores; the bounds are the part of the window.
    Mapped(Region),
    /// By loads and stores as far as they reach, and by the kernel, until the target has migrated
    /// it.
    Created(Box<CreatedTarget>),
    /// What the rank has attached, at its own addresses.
    Attached(Box<PeerAttachments>),
    /// By messages, which the rank carries out.
    Messages {
        /// The window is dynamic: displacements are addresses.
        is_dynamic: bool,
    },
    /// It has none.
    Empty,
}

/// The memory of a target that an operation names, in numbers.
#[derive(Debug, Clone, Copy)]
pub struct TargetBytes {
    /// Rank in the window, unchecked.
    pub rank: i32,
    /// Displacement in the target's unit.
    pub disp: isize,
    /// Bytes from there on.
    pub bytes: usize,
}

/// Memory of a target that an operation names.
#[derive(Debug)]
pub struct TargetRange {
    /// Rank in the window, or `MPI_PROC_NULL`.
    pub rank: i32,
    /// Displacement in the target's unit; in a dynamic window, the address at the target.
    pub disp: isize,
    /// The bytes, relative to the displacement.
    pub shape: Shape,
}

impl WindowTarget {
    /// The window's lock, as the fast path takes it.
    #[inline(always)]
    pub fn fast_path_lock(&self) -> Option<&OwnLock<'_>> {
        self.locks.as_ref()?.lock()
    }

    /// The offset of the displacement `disp`, if the `bytes` bytes that begin `low` after it lie
    /// in the target's part of the window.
    #[inline(always)]
    pub fn locate(&self, disp: isize, low: isize, bytes: usize) -> Option<usize> {
        let at = usize::try_from(disp).ok()?.checked_mul(self.unit as usize)?;
        let first = at.checked_add_signed(low)?;
        (first.checked_add(bytes)? <= self.bytes).then_some(at)
    }

    /// As [`locate`](Self::locate), in mapped memory: the bytes themselves. `None` as well for
    /// displacements that 32 bits cannot hold.
    #[inline(always)]
    pub fn mapped(&self, disp: isize, bytes: usize) -> Option<RegionRef<'_>> {
        let region = self.mapped.get()?;
        // The product has 64 bits at most; a negative displacement is a large one here.
        let at = u64::from(u32::try_from(disp).ok()?) * u64::from(self.unit);
        region.piece(at as usize, bytes)
    }

    /// Calls `f` with the place of the range, whose bytes lie in the target's memory. `None` if
    /// there are no bytes.
    #[inline]
    pub fn reach<R>(
        &self,
        range: &TargetRange,
        f: impl FnOnce(TargetPlace<'_>) -> Result<R>,
    ) -> Result<Option<R>> {
        let (low, bytes) = range.shape.span();
        if bytes == 0 && (range.disp >= 0 || self.is_dynamic()) {
            return Ok(None);
        }
        if let TargetMemory::Attached(attached) = &self.memory {
            let first = (range.disp as usize).wrapping_add_signed(low);
            let pieces = || runs(&range.shape).map(|run| run.start - low..run.end - low);
            let found = attached.with((first, bytes), pieces, |place| f(place.offset(-low)));
            return found?.map(Some).ok_or_else(|| self.not_attached(range));
        }
        let at = self.locate(range.disp, low, bytes);
        let at = at.ok_or_else(|| self.outside(range))? as isize;
        match &self.memory {
            TargetMemory::Mapped(region) => f(TargetPlace::Mapped(region, at)).map(Some),
            TargetMemory::Created(memory) => match self.mapped.get() {
                Some(region) => f(TargetPlace::Mapped(region, at)).map(Some),
                None => {
                    let result = f(TargetPlace::Peer(memory.buffer(), at));
                    memory.note_use(bytes, &self.mapped);
                    result.map(Some)
                }
            },
            TargetMemory::Attached(_) | TargetMemory::Messages { .. } | TargetMemory::Empty => {
                Err(self.outside(range))
            }
        }
    }

    /// As [`reach`](Self::reach), for `bytes` bytes at an address that an origin has sent: an
    /// offset in this rank's part of the window, or an address in a dynamic window. `None` if they
    /// are not there.
    pub fn reach_bytes<R>(
        &self,
        address: u64,
        offset: isize,
        bytes: usize,
        f: impl FnOnce(TargetPlace<'_>) -> Result<R>,
    ) -> Result<Option<R>> {
        let first = (address as usize).wrapping_add_signed(offset);
        match &self.memory {
            TargetMemory::Attached(attached) => {
                attached.with((first, bytes), || std::iter::once(0..bytes as isize), f)
            }
            TargetMemory::Mapped(region) => {
                let is_inside = first <= self.bytes && bytes <= self.bytes - first;
                is_inside.then(|| f(TargetPlace::Mapped(region, first as isize))).transpose()
            }
            _ => Ok(None),
        }
    }

    /// The address of a range for a request: checked here, unless the window is dynamic.
    ///
    /// # Errors
    /// `MPI_ERR_DISP`, `MPI_ERR_RMA_RANGE`.
    pub fn address(&self, range: &TargetRange) -> Result<u64> {
        if self.is_dynamic() {
            return Ok(range.disp as u64);
        }
        let (low, bytes) = range.shape.span();
        let at = self.locate(range.disp, low, bytes);
        at.map(|at| at as u64).ok_or_else(|| self.outside(range))
    }

    fn is_dynamic(&self) -> bool {
        match self.memory {
            TargetMemory::Attached(_) => true,
            TargetMemory::Messages { is_dynamic } => is_dynamic,
            _ => false,
        }
    }

    /// Whether operations on it go by messages.
    #[inline]
    pub fn is_remote(&self) -> bool {
        matches!(self.memory, TargetMemory::Messages { .. })
    }

    #[cold]
    pub fn outside(&self, range: &TargetRange) -> Error {
        let disp = range.disp;
        if disp < 0 {
            let reason = "a displacement is not negative";
            return Error::argument(c::ERR_DISP, "target_disp", disp, reason);
        }
        let (low, bytes) = range.shape.span();
        let reason = format!(
            "rank {} has {} bytes in this window; the operation covers {bytes} bytes from \
             {disp} x {} {low:+} on",
            range.rank, self.bytes, self.unit
        );
        Error::argument(c::ERR_RMA_RANGE, "target_disp", disp, reason)
    }

    #[cold]
    fn not_attached(&self, range: &TargetRange) -> Error {
        let (low, bytes) = range.shape.span();
        let address = range.disp as usize;
        let reason = format!(
            "rank {} has not attached the {bytes} bytes from {:#x} on",
            range.rank,
            address.wrapping_add_signed(low)
        );
        let value = format_args!("{address:#x}");
        Error::argument(c::ERR_RMA_RANGE, "target_disp", value, reason)
    }
}
