//! Dispatches a rank's part in a collective on an area: from the operation to the algorithm that
//! runs it.

use super::cells::{self, RootMembers};
use super::direct::{self, Rooted};
use super::operation::CollectiveOperation;
use crate::intranode::cells::parts::RootBuffer;
use crate::intranode::choice::context::RootedDirection;
use crate::intranode::direct::exposed::{
    AddressAccess, CellFallback, DirectOutcome, ExposureChoice,
};
use crate::intranode::protocol::shared_slot::SharedSlot;
use crate::intranode::protocol::slot::OperationSlot;
use crate::intranode::reduce;
use crate::intranode::reduce::cells::Operands;
use crate::intranode::reduce::direct::AgreedTerms;
use crate::place::Elements;
use mica_objects::error::Result;

/// The path that an operation is to take; the same at all ranks, except for `offers`.
#[derive(Clone, Copy, Debug)]
pub enum PathChoice {
    /// Through cells, after the phase `base`.
    Cells {
        /// The phase before the first.
        base: u32,
    },
    /// Directly, or through cells where direct copy is impossible.
    Direct {
        /// Who copies, if there is a root.
        direction: RootedDirection,
        /// What this rank lets others access; where that is not enough, all go through cells.
        offers: ExposureChoice,
    },
}

/// The path that an operation took; the same at all ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathTaken {
    /// Through cells.
    Cells,
    /// Directly, by loads and stores.
    Mapped,
    /// Directly, or in part, by the kernel.
    ByAddress,
}

impl PathTaken {
    /// Its name in recorded transfers.
    pub const fn name(self) -> &'static str {
        match self {
            PathTaken::Cells => "cells",
            PathTaken::Mapped => "mapped",
            PathTaken::ByAddress => "direct",
        }
    }
}

/// This rank's part in `what`, between [`OperationSlot::begin`] and [`OperationSlot::finish`].
///
/// # Errors
/// When another rank has called something else or takes part with another amount; errors of the
/// operator; when there is no memory.
pub async fn perform(
    slot: &OperationSlot<'_>,
    operation: &CollectiveOperation,
    how: PathChoice,
) -> Result<PathTaken> {
    allocate_cells(slot, operation)?;
    let cells = match how {
        PathChoice::Cells { base } => CellFallback { base, among: None, operand: None },
        PathChoice::Direct { direction, offers } => {
            let (agreed, base) = match slot.may_go_by_address() {
                true => slot.agree_on_cma(0).await?,
                false => (false, 0),
            };
            let reach = slot.group().reach();
            let is_refused = reach.is_some_and(|reach| reach.cma_was_refused());
            // Ranks may differ in this: it only affects what this rank offers and tries.
            let by_address = match agreed && !is_refused {
                true => AddressAccess::Agreed,
                false => AddressAccess::Refused,
            };
            let terms = AgreedTerms { by_address, base };
            // Nothing but the kernel, or XPMEM, reaches memory that is made for one operation.
            let offers = match offers {
                ExposureChoice::Packed
                    if by_address == AddressAccess::Refused
                        && !reach.is_some_and(|reach| reach.maps_all_memory()) =>
                {
                    ExposureChoice::InPlace
                }
                offers => offers,
            };
            match copy_directly(slot, operation, direction, offers, terms).await? {
                DirectOutcome::Directly => {
                    return Ok(match by_address {
                        AddressAccess::Agreed => PathTaken::ByAddress,
                        AddressAccess::Refused => PathTaken::Mapped,
                    });
                }
                DirectOutcome::Not(cells) => cells,
            }
        }
    };
    in_cells(slot, operation, &cells).await.map(|()| PathTaken::Cells)
}

/// Allocates the cells that this rank may write. That is its own; the root of a gather or scatter
/// also writes to each member's cell: its part, or where the part begins.
fn allocate_cells(slot: &OperationSlot<'_>, operation: &CollectiveOperation) -> Result<()> {
    match operation {
        CollectiveOperation::Barrier | CollectiveOperation::Finalize => Ok(()),
        CollectiveOperation::Gather { root, .. } | CollectiveOperation::Scatter { root, .. }
            if *root == slot.me() =>
        {
            (0..slot.size()).try_for_each(|member| slot.allocate_cell(member))
        }
        _ => slot.allocate_cell(slot.me()),
    }
}

/// By direct copy, if all buffers can be accessed.
#[expect(clippy::too_many_lines, reason = "a table, one arm for each collective")]
async fn copy_directly(
    slot: &OperationSlot<'_>,
    operation: &CollectiveOperation,
    direction: RootedDirection,
    offers: ExposureChoice,
    terms: AgreedTerms,
) -> Result<DirectOutcome> {
    let (me, AgreedTerms { by_address, base }) = (slot.me(), terms);
    let rooted = |root, to_root, whole, bytes: Option<usize>| Rooted {
        root,
        to_root,
        whole,
        bytes: bytes.unwrap_or(0),
        direction,
        by_address,
        base,
    };
    match operation {
        // There is nothing to copy.
        CollectiveOperation::Barrier | CollectiveOperation::Finalize => {
            Ok(DirectOutcome::not(base + 1))
        }
        CollectiveOperation::Bcast { view, root } => {
            let rooted = rooted(*root, false, true, Some(view.len()));
            match me == *root {
                true => {
                    let buffer = RootBuffer::Whole(view);
                    rooted.at_root(slot, offers, buffer, || Ok(())).await
                }
                false => rooted.at_other(slot, view).await,
            }
        }
        CollectiveOperation::Gather { send, parts, root, bytes } => {
            let rooted = rooted(*root, true, false, *bytes);
            match (parts, send) {
                (Some(parts), send) if me == *root => {
                    let own = || match send {
                        Some(send) => parts.view(me).map(|own| _ = own.copy_from(send)),
                        None => Ok(()),
                    };
                    rooted.at_root(slot, offers, RootBuffer::Parts(parts), own).await
                }
                (_, Some(send)) => rooted.at_other(slot, send).await,
                (_, None) => Ok(DirectOutcome::Directly),
            }
        }
        CollectiveOperation::Scatter { parts, receive, root, bytes } => {
            let rooted = rooted(*root, false, false, *bytes);
            match (parts, receive) {
                (Some(parts), receive) if me == *root => {
                    let own = || match receive {
                        Some(receive) => parts.view(me).map(|own| _ = receive.copy_from(&own)),
                        None => Ok(()),
                    };
                    rooted.at_root(slot, offers, RootBuffer::Parts(parts), own).await
                }
                (_, Some(receive)) => rooted.at_other(slot, receive).await,
                (_, None) => Ok(DirectOutcome::Directly),
            }
        }
        CollectiveOperation::Allgather { send, parts } => {
            direct::allgather(slot, send.as_ref(), parts, offers, terms).await
        }
        CollectiveOperation::Alltoall { send, receive } => {
            direct::alltoall(slot, send.as_ref(), receive, offers, terms).await
        }
        CollectiveOperation::Reduce { reduction, send, result, root } => {
            let Some(operands) = Operands::dense(reduction, own(send, result)) else {
                return Ok(DirectOutcome::not(base + 1));
            };
            reduce::direct::reduce(slot, operands, result.as_ref(), *root, terms).await
        }
        CollectiveOperation::ReduceScatter { reduction, send, counts, result } => {
            let Some(operands) = Operands::dense(reduction, send.as_ref().unwrap_or(result)) else {
                return Ok(DirectOutcome::not(base + 1));
            };
            reduce::direct::reduce_scatter(slot, operands, counts, result, terms).await
        }
        CollectiveOperation::Scan { reduction, send, result, kind } => {
            let Some(operands) = Operands::dense(reduction, send.as_ref().unwrap_or(result)) else {
                return Ok(DirectOutcome::not(base + 1));
            };
            reduce::direct::scan(slot, operands, result, *kind, terms).await
        }
    }
}

/// Through cells.
async fn in_cells(
    slot: &OperationSlot<'_>,
    operation: &CollectiveOperation,
    cells: &CellFallback,
) -> Result<()> {
    // After this error, the others detect that this rank has left.
    operation.check_longest(slot.group())?;
    let (base, among) = (cells.base, RootMembers(cells.among.as_deref()));
    let kept = cells.operand.as_ref();
    match operation {
        CollectiveOperation::Barrier | CollectiveOperation::Finalize => cells::barrier(slot).await,
        CollectiveOperation::Bcast { view, root } => {
            cells::bcast(slot, view, *root, among, base).await.map(drop)
        }
        CollectiveOperation::Gather { send, parts, root, .. } => {
            let gather = cells::gather(slot, send.as_ref(), parts.as_ref(), *root, among, base);
            gather.await.map(drop)
        }
        CollectiveOperation::Scatter { parts, receive, root, bytes } => {
            let known = (among, bytes.is_some());
            let (parts, receive) = (parts.as_ref(), receive.as_ref());
            cells::scatter(slot, parts, receive, *root, known, base).await.map(drop)
        }
        CollectiveOperation::Allgather { send, parts } => {
            cells::allgather(slot, send.as_ref(), parts, base).await
        }
        CollectiveOperation::Alltoall { send, receive } => {
            cells::alltoall(slot, send.as_ref(), receive, operation.bytes(), base).await
        }
        CollectiveOperation::Reduce { reduction, send, result, root } => {
            let operands = Operands::spaced(reduction, kept.unwrap_or_else(|| own(send, result)))?;
            reduce::cells::reduce(slot, operands, result.as_ref(), *root, base).await
        }
        CollectiveOperation::ReduceScatter { reduction, send, counts, result } => {
            let own = kept.unwrap_or_else(|| send.as_ref().unwrap_or(result));
            let operands = Operands::spaced(reduction, own)?;
            reduce::cells::reduce_scatter(slot, operands, counts, result, base).await
        }
        CollectiveOperation::Scan { reduction, send, result, kind } => {
            let own = kept.unwrap_or_else(|| send.as_ref().unwrap_or(result));
            let operands = Operands::spaced(reduction, own)?;
            reduce::cells::scan(slot, &operands, result, *kind, base).await
        }
    }
}

/// A reduction's operand; in place, it lies where the result goes.
fn own<'a>(send: &'a Option<Elements>, result: &'a Option<Elements>) -> &'a Elements {
    let operand = send.as_ref().or(result.as_ref());
    operand.expect("who works in place has a receive buffer")
}
