//! Put and get (MPI 5.0, 12.3.2 and 12.3.3), and their request forms (12.3.5).
//!
//! One copy: from the origin's buffer to the target's memory, or back (chai-2009, 9.2). Complete on
//! return, except for targets that are accessed by messages.

use std::sync::Arc;

use mica_memory::{RegionRef, Shape, View};
use mica_node::counters::AccessClass;

use super::help::{LongTransfer, TransferOperation};
use crate::memory::place::{Direction, TargetPlace, runs};
use crate::memory::target::{TargetBytes, TargetRange, WindowTarget};
use crate::remote::RemoteOperation;
use crate::synchronization::admission::NeededEpoch;
use crate::window::object::{self, Window};
use mica_objects::constants as c;
use mica_objects::error::{Error, Result};

/// `MPI_Put`. Blocks until the target may be accessed.
///
/// # Errors
/// `MPI_ERR_WIN`, `MPI_ERR_RANK`, `MPI_ERR_RMA_SYNC`; `MPI_ERR_DISP` and `MPI_ERR_RMA_RANGE` for
/// memory outside the window; `MPI_ERR_TRUNCATE` when the origin has more bytes than the target.
#[inline]
pub fn put(win: u32, origin: &View, to: &TargetRange) -> Result<()> {
    object::with(win, |window| {
        window.transfer(Direction::Put, origin, to, NeededEpoch::Any)?;
        Ok(())
    })
}

/// `MPI_Get`. Blocks until the target may be accessed.
///
/// # Errors
/// As [`put`], with the sides exchanged.
#[inline]
pub fn get(win: u32, origin: &View, from: &TargetRange) -> Result<()> {
    object::with(win, |window| {
        window.transfer(Direction::Get, origin, from, NeededEpoch::Any)?;
        Ok(())
    })
}

/// `MPI_Rput`: the operation, unless it is complete; when it is, the origin's buffer may be reused.
///
/// # Errors
/// As [`put`]; `MPI_ERR_RMA_SYNC` also in an active target epoch.
pub fn rput(win: u32, origin: &View, to: &TargetRange) -> Result<Option<Arc<RemoteOperation>>> {
    object::with(win, |window| window.transfer(Direction::Put, origin, to, NeededEpoch::Passive))
}

/// `MPI_Rget`: the operation, unless it is complete.
///
/// # Errors
/// As [`rput`].
pub fn rget(win: u32, origin: &View, from: &TargetRange) -> Result<Option<Arc<RemoteOperation>>> {
    object::with(win, |window| window.transfer(Direction::Get, origin, from, NeededEpoch::Passive))
}

impl Window {
    #[inline(always)]
    fn transfer(
        &self,
        direction: Direction,
        origin: &View,
        range: &TargetRange,
        needed: NeededEpoch,
    ) -> Result<Option<Arc<RemoteOperation>>> {
        let Some(rank) = self.target(range.rank)? else {
            return Ok(None);
        };
        let may_leave = direction == Direction::Put && needed == NeededEpoch::Any;
        if may_leave && !self.is_open(rank) && self.leaves_put(origin, range) {
            return Ok(None);
        }
        self.admit(rank, needed)?;
        if let Shape::Contiguous { bytes } = range.shape
            && matches!(*origin.shape(), Shape::Contiguous { bytes: own } if own == bytes)
        {
            let there = TargetBytes { rank: range.rank, disp: range.disp, bytes };
            let here = origin.region();
            if self.copy_at_once(direction, here.at(0), there).is_some() {
                return Ok(None);
            }
            if self.copy_long(direction, here.at(0), there)?.is_some() {
                return Ok(None);
            }
        }
        let target = &self.0.targets[rank];
        if target.is_remote() {
            return self.transfer_by_messages(direction, rank, origin, range);
        }
        if let Some(access) = transfer_slowly(direction, target, origin, range)? {
            self.0.counters.count_operation(access, range.shape.len());
        }
        Ok(None)
    }

    /// As [`copy_at_once`](Self::copy_at_once), of many bytes.
    #[cold]
    #[inline(never)]
    fn copy_long(
        &self,
        direction: Direction,
        here: RegionRef<'_>,
        range: TargetBytes,
    ) -> Result<Option<()>> {
        let Some((target, there)) = self.open_place(range) else {
            return Ok(None);
        };
        self.count(range);
        let rank = range.rank as usize;
        let long = LongTransfer {
            what: TransferOperation::Copy(direction),
            target: rank,
            offset: range.disp as usize * target.unit as usize,
            bytes: range.bytes,
        };
        if !self.may_be_helped(rank)? || !self.transfer_with_help(&long, here, there)? {
            direction.copy(here, there, range.bytes);
        }
        Ok(Some(()))
    }

    /// Leaves a put to a target that has not posted yet, if
    /// [`put_before_post`](Self::put_before_post) can.
    #[cold]
    #[inline(never)]
    fn leaves_put(&self, origin: &View, range: &TargetRange) -> bool {
        let bytes = range.shape.len();
        let is_dense = |shape: &Shape| matches!(shape, Shape::Contiguous { .. });
        if !is_dense(&range.shape) || !is_dense(origin.shape()) || origin.len() != bytes {
            return false;
        }
        let to = TargetBytes { rank: range.rank, disp: range.disp, bytes };
        let target = &self.0.targets[range.rank as usize];
        self.put_before_post(&mut self.epochs(), target, origin.region().at(0), to).is_some()
    }

    #[inline(never)]
    fn transfer_by_messages(
        &self,
        direction: Direction,
        rank: usize,
        origin: &View,
        range: &TargetRange,
    ) -> Result<Option<Arc<RemoteOperation>>> {
        let address = self.0.targets[rank].address(range)?;
        let remote = self.remote();
        match direction {
            Direction::Put => remote.put(rank, address, &range.shape, origin),
            Direction::Get => remote.get(rank, address, &range.shape, origin).map(Some),
        }
    }
}

/// How the bytes were copied; `None`: there were none.
#[inline(never)]
fn transfer_slowly(
    direction: Direction,
    target: &WindowTarget,
    origin: &View,
    range: &TargetRange,
) -> Result<Option<AccessClass>> {
    let (here, there) = (origin.len(), range.shape.len());
    let (from, to) = match direction {
        Direction::Put => (here, there),
        Direction::Get => (there, here),
    };
    if from > to {
        let detail = format!(
            "{from} bytes do not fit into {to} (rank {}, displacement {})",
            range.rank, range.disp
        );
        return Err(Error::other(c::ERR_TRUNCATE, detail));
    }
    target.reach(range, |place| match place {
        TargetPlace::Mapped(region, at) => {
            let there = region.offset(at).view(range.shape.clone());
            match direction {
                Direction::Put => there.copy_from(origin),
                Direction::Get => origin.copy_from(&there),
            };
            Ok(AccessClass::Memory)
        }
        TargetPlace::Peer(..) | TargetPlace::Pieces(..) => {
            let mut position = 0;
            for run in runs(&range.shape) {
                let bytes = run.len().min(origin.len() - position);
                let there = place.offset(run.start);
                match direction {
                    Direction::Put => there.store(origin, position, bytes)?,
                    Direction::Get => there.load(origin, position, bytes)?,
                }
                position += bytes;
            }
            let (low, span) = range.shape.span();
            Ok(place.offset(low).access(span))
        }
    })
}
