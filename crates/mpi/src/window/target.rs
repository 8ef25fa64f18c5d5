//! The memory of each rank of a window: where it lies, and how this rank accesses it.

use mica_channel::direct::PeerBuffer;
use mica_channel::memory::{Region, Shape};

use super::attached::PeerAttachments;
use super::place::TargetPlace;
use crate::constants as c;
use crate::error::{Error, Result};

/// One rank of a window, as this rank sees it.
#[derive(Debug)]
pub(super) struct Target {
    pub memory: TargetMemory,
    /// Bytes of its part of the window; 0 if memory is attached later.
    pub bytes: usize,
    /// Its displacement unit in bytes.
    pub unit: usize,
    /// Its number among the [neighbours](super::object::Neighbours).
    pub number: u32,
}

/// How a rank's memory is accessed.
#[derive(Debug)]
pub(super) enum TargetMemory {
    /// By loads and stores.
    Mapped(Region),
    /// By loads and stores as far as they reach, and by the kernel.
    Peer(PeerBuffer),
    /// What the rank has attached, at its own addresses.
    Attached(Box<PeerAttachments>),
    /// It has none.
    Empty,
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

impl Target {
    /// The offset of the displacement `disp`, if the `bytes` bytes that begin `low` after it lie
    /// in the target's part of the window.
    #[inline(always)]
    pub fn locate(&self, disp: isize, low: isize, bytes: usize) -> Option<usize> {
        let at = usize::try_from(disp).ok()?.checked_mul(self.unit)?;
        let first = at.checked_add_signed(low)?;
        (first.checked_add(bytes)? <= self.bytes).then_some(at)
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
            let found = attached.with(first, bytes, |place| f(place.offset(-low)));
            return found?.map(Some).ok_or_else(|| self.not_attached(range));
        }
        let at = self.locate(range.disp, low, bytes);
        let at = at.ok_or_else(|| self.outside(range))? as isize;
        match &self.memory {
            TargetMemory::Mapped(region) => f(TargetPlace::Mapped(region, at)).map(Some),
            TargetMemory::Peer(buffer) => f(TargetPlace::Peer(buffer, at)).map(Some),
            TargetMemory::Attached(_) | TargetMemory::Empty => Err(self.outside(range)),
        }
    }

    fn is_dynamic(&self) -> bool {
        matches!(self.memory, TargetMemory::Attached(_))
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
