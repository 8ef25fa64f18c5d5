//! How a rank takes part in a call that it refuses, for instance because its buffers share bytes
//! ([`super::overlap`]).
//!
//! A rank with such an error must not leave the others waiting for it. What it sends is valid, so
//! it takes part with a copy of that and with other memory to receive into
//! ([`CollectiveOperation::diverted`]), and then raises its error ([`refused`]). The program may
//! use its buffers from then on, even if the call was non-blocking and others take part later.

use mica_memory::{Shape, View};

use super::absent::{copy_to_present, temporary};
use super::intranode::choice::plan::{CollectivePlan, RefusedCall};
use super::intranode::{CollectiveOperation, Parts};
use super::place::{Blocks, Elements};
use mica_objects::error::{Error, Result};

/// Takes part by `plan`, if there is one, and ends with `error`.
pub(super) fn refused(error: Error, plan: Result<CollectivePlan>) -> Result<CollectivePlan> {
    match plan {
        Ok(plan) => Ok(CollectivePlan::Refused(Box::new(RefusedCall { plan, error }))),
        Err(_) => Err(error),
    }
}

/// What becomes of the content of a buffer.
#[derive(Clone, Copy)]
enum Content {
    /// It is sent.
    Copied,
    /// It is received.
    New,
}

impl CollectiveOperation {
    /// The same with other memory at this rank, `me`, with a copy of what it sends.
    ///
    /// # Errors
    /// When a buffer extends past the largest address.
    pub(super) fn diverted(self, me: usize) -> Result<CollectiveOperation> {
        use CollectiveOperation as Op;
        use Content::{Copied, New};
        Ok(match self {
            Op::Barrier | Op::Finalize | Op::Bcast { .. } => self,
            Op::Gather { send, parts, root, bytes } => {
                let parts = parts.map(|parts| diverted_parts(&parts, New)).transpose()?;
                Op::Gather { send: send.map(|send| diverted(&send, Copied)), parts, root, bytes }
            }
            Op::Scatter { parts, receive, root, bytes } => {
                let parts = parts.map(|parts| diverted_parts(&parts, Copied)).transpose()?;
                let receive = receive.map(|receive| diverted(&receive, New));
                Op::Scatter { parts, receive, root, bytes }
            }
            Op::Allgather { send, parts } => {
                let parts = diverted_parts(&parts, New)?;
                Op::Allgather { send: send.map(|send| diverted(&send, Copied)), parts }
            }
            Op::Alltoall { send, receive } => {
                let send = send.map(|send| diverted_parts(&send, Copied)).transpose()?;
                Op::Alltoall { send, receive: diverted_parts(&receive, New)? }
            }
            Op::Reduce { reduction, send, result, root } => {
                let count = reduction.count;
                let send = send.map(|send| diverted_vector(&send, count, Copied)).transpose()?;
                let result = result.map(|result| diverted_vector(&result, count, New));
                Op::Reduce { reduction, send, result: result.transpose()?, root }
            }
            Op::ReduceScatter { reduction, send, counts, result } => {
                let count = reduction.count;
                let send = send.map(|send| diverted_vector(&send, count, Copied)).transpose()?;
                let result = diverted_vector(&result, counts[me], New)?;
                Op::ReduceScatter { reduction, send, counts, result }
            }
            Op::Scan { reduction, send, result, kind } => {
                let count = reduction.count;
                let send = send.map(|send| diverted_vector(&send, count, Copied)).transpose()?;
                let result = diverted_vector(&result, count, New)?;
                Op::Scan { reduction, send, result, kind }
            }
        })
    }
}

/// Other memory for a message.
fn diverted(view: &View, content: Content) -> View {
    let bytes = view.len();
    let other = temporary(bytes).view(Shape::Contiguous { bytes });
    if let Content::Copied = content {
        copy_to_present(&other, view);
    }
    other
}

fn diverted_parts(parts: &Parts, content: Content) -> Result<Parts> {
    Ok(match parts {
        Parts::Each(views) => {
            Parts::Each(views.iter().map(|view| diverted(view, content)).collect())
        }
        Parts::Even(blocks, ranks) => {
            let each = blocks.count();
            let all = diverted_vector(blocks.elements(), each.saturating_mul(*ranks), content)?;
            Parts::Even(Blocks::new(all, each), *ranks)
        }
    })
}

fn diverted_vector(elements: &Elements, count: usize, content: Content) -> Result<Elements> {
    let other = Elements::temporary(elements.datatype(), count)?;
    if let Content::Copied = content {
        copy_to_present(&other.view(0, count)?, &elements.view(0, count)?);
    }
    Ok(other)
}
