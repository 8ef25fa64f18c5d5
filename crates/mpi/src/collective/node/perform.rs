//! A rank's part in a collective on an area, from what it does to the algorithm that does it.

use super::direct::{self, Direction, Rooted};
use super::reduce_cells::{self, Operands};
use super::reduce_direct::{self, Terms};
use super::team::Turn;
use super::{What, cells};
use crate::collective::place::Elements;
use crate::error::Result;

/// How an operation is to go; all ranks say alike, but for `offers`.
#[derive(Clone, Copy, Debug)]
pub enum How {
    /// Through cells, after the phase `base`.
    Cells {
        /// The phase before the first.
        base: u32,
    },
    /// Directly, or through cells where that cannot be.
    Direct {
        /// Who copies where there is a root.
        direction: Direction,
        /// Let others reach this rank's buffers; who does not makes all go through cells.
        offers: bool,
    },
}

/// How it went, for all ranks alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Went {
    /// Through cells.
    Cells,
    /// Directly, by loads and stores.
    Mapped,
    /// Directly, or in part, by the kernel.
    ByAddress,
}

/// This rank's part in `what`, between [`Turn::begin`] and [`Turn::finish`].
///
/// # Errors
/// When another rank has called something else or takes part with another amount; those of the operator; when there is no memory.
pub async fn perform(turn: &Turn<'_>, what: &What, how: How) -> Result<Went> {
    let base = match how {
        How::Cells { base } => base,
        How::Direct { direction, offers } => {
            let (by_address, base) = match turn.may_go_by_address() {
                true => turn.agree_on_cma(0).await?,
                false => (false, 0),
            };
            let way = Terms { by_address, base };
            if directly(turn, what, direction, offers, way).await? {
                return Ok(match by_address {
                    true => Went::ByAddress,
                    false => Went::Mapped,
                });
            }
            base + 1
        }
    };
    in_cells(turn, what, base).await.map(|()| Went::Cells)
}

/// By direct copy; false if not all buffers can be reached.
async fn directly(
    turn: &Turn<'_>,
    what: &What,
    direction: Direction,
    offers: bool,
    way: Terms,
) -> Result<bool> {
    let (me, Terms { by_address, base }) = (turn.me(), way);
    let rooted = |root, to_root, whole, bytes: Option<usize>| Rooted {
        root,
        to_root,
        whole,
        bytes: bytes.unwrap_or(0),
        direction,
        by_address,
        base,
    };
    match what {
        // There is nothing to copy.
        What::Barrier => Ok(false),
        What::Bcast { view, root } => {
            let rooted = rooted(*root, false, true, Some(view.len()));
            match me == *root {
                true => {
                    let message = |_| Ok(view.clone());
                    rooted.at_root(turn, offers, message, || Ok(())).await
                }
                false => rooted.at_other(turn, view).await,
            }
        }
        What::Gather {
            send,
            parts,
            root,
            bytes,
        } => {
            let rooted = rooted(*root, true, false, *bytes);
            match (parts, send) {
                (Some(parts), send) if me == *root => {
                    let own = || match send {
                        Some(send) => parts.view(me).map(|own| _ = own.copy_from(send)),
                        None => Ok(()),
                    };
                    rooted
                        .at_root(turn, offers, |rank| parts.view(rank), own)
                        .await
                }
                (_, Some(send)) => rooted.at_other(turn, send).await,
                (_, None) => Ok(true),
            }
        }
        What::Scatter {
            parts,
            receive,
            root,
            bytes,
        } => {
            let rooted = rooted(*root, false, false, *bytes);
            match (parts, receive) {
                (Some(parts), receive) if me == *root => {
                    let own = || match receive {
                        Some(receive) => parts.view(me).map(|own| _ = receive.copy_from(&own)),
                        None => Ok(()),
                    };
                    rooted
                        .at_root(turn, offers, |rank| parts.view(rank), own)
                        .await
                }
                (_, Some(receive)) => rooted.at_other(turn, receive).await,
                (_, None) => Ok(true),
            }
        }
        What::Allgather { send, parts } => {
            direct::allgather(turn, send.as_ref(), parts, by_address, base).await
        }
        What::Alltoall { send, receive } => {
            direct::alltoall(turn, send.as_ref(), receive, offers, by_address, base).await
        }
        What::Reduce {
            reduction,
            send,
            result,
            root,
        } => {
            let Some(operands) = Operands::dense(reduction, own(send, result)) else {
                return Ok(false);
            };
            reduce_direct::reduce(turn, operands, result.as_ref(), *root, way).await
        }
        What::ReduceScatter {
            reduction,
            send,
            counts,
            result,
        } => {
            let Some(operands) = Operands::dense(reduction, send.as_ref().unwrap_or(result)) else {
                return Ok(false);
            };
            reduce_direct::reduce_scatter(turn, operands, counts, result, way).await
        }
        What::Scan {
            reduction,
            send,
            result,
            exclusive,
        } => {
            let Some(operands) = Operands::dense(reduction, send.as_ref().unwrap_or(result)) else {
                return Ok(false);
            };
            reduce_direct::scan(turn, operands, result, *exclusive, way).await
        }
    }
}

/// Through cells, after the phase `base`.
async fn in_cells(turn: &Turn<'_>, what: &What, base: u32) -> Result<()> {
    match what {
        What::Barrier => cells::barrier(turn).await,
        What::Bcast { view, root } => cells::bcast(turn, view, *root, base).await,
        What::Gather {
            send, parts, root, ..
        } => cells::gather(turn, send.as_ref(), parts.as_ref(), *root, base).await,
        What::Scatter {
            parts,
            receive,
            root,
            bytes,
        } => {
            let told = bytes.is_some();
            cells::scatter(turn, parts.as_ref(), receive.as_ref(), *root, told, base).await
        }
        What::Allgather { send, parts } => cells::allgather(turn, send.as_ref(), parts, base).await,
        What::Alltoall { send, receive } => {
            cells::alltoall(turn, send.as_ref(), receive, what.bytes(), base).await
        }
        What::Reduce {
            reduction,
            send,
            result,
            root,
        } => {
            let operands = Operands::spaced(reduction, own(send, result))?;
            reduce_cells::reduce(turn, operands, result.as_ref(), *root, base).await
        }
        What::ReduceScatter {
            reduction,
            send,
            counts,
            result,
        } => {
            let operands = Operands::spaced(reduction, send.as_ref().unwrap_or(result))?;
            reduce_cells::reduce_scatter(turn, operands, counts, result, base).await
        }
        What::Scan {
            reduction,
            send,
            result,
            exclusive,
        } => {
            let operands = Operands::spaced(reduction, send.as_ref().unwrap_or(result))?;
            reduce_cells::scan(turn, operands, result, *exclusive, base).await
        }
    }
}

/// A reduction's operand: in place it is where the result goes.
fn own<'a>(send: &'a Option<Elements>, result: &'a Option<Elements>) -> &'a Elements {
    let operand = send.as_ref().or(result.as_ref());
    operand.expect("who works in place has a receive buffer")
}
