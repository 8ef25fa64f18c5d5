//! Send and receive buffers of one call that share bytes (MPI 5.0, 6.2 and 2.3: buffer arguments
//! must not be aliased).
//!
//! Only definite errors count: bytes that are both sent and received into. Layouts that interleave
//! without sharing a byte, such as the columns of one matrix, are correct. If the buffers lie
//! apart, this costs a comparison of their bounds. If they do not, and are in pieces, at most
//! [`RUNS`] pieces of each are compared; of longer lists, only the first pieces.

use std::borrow::Cow;
use std::ops::Range;
use std::slice;

use mica_memory::{Region, View};

use super::intranode::{CollectiveOperation, Parts};
use super::place::Elements;
use mica_objects::constants as c;
use mica_objects::error::{Error, Result};

/// Maximum number of pieces of a buffer that are compared: this takes some microseconds.
const RUNS: usize = 256;

/// Checks that the `send` and `receive` buffers of a call share no byte.
///
/// # Errors
/// When they share one.
pub(super) fn check(send: &[View], receive: &[View]) -> Result<()> {
    let (Some(sent), Some(received)) = (span(send), span(receive)) else {
        return Ok(());
    };
    if sent.end <= received.start || received.end <= sent.start {
        return Ok(());
    }
    match shared(send, receive) {
        Some(address) => Err(overlapping(&sent, &received, address)),
        None => Ok(()),
    }
}

impl CollectiveOperation {
    /// Checks that what this rank, `me`, sends shares no byte with what it receives into.
    ///
    /// # Errors
    /// When they share one; when a buffer extends past the largest address.
    pub(super) fn check_apart(&self, me: usize) -> Result<()> {
        use UsedBuffer::{Parts, Vector, Whole};
        let (send, receive) = match self {
            CollectiveOperation::Gather { send: Some(send), parts: Some(parts), .. }
            | CollectiveOperation::Allgather { send: Some(send), parts } => {
                (Whole(send), Parts(parts))
            }
            CollectiveOperation::Scatter { parts: Some(parts), receive: Some(receive), .. } => {
                (Parts(parts), Whole(receive))
            }
            CollectiveOperation::Alltoall { send: Some(send), receive } => {
                (Parts(send), Parts(receive))
            }
            CollectiveOperation::Reduce {
                reduction,
                send: Some(send),
                result: Some(result),
                ..
            }
            | CollectiveOperation::Scan { reduction, send: Some(send), result, .. } => {
                (Vector(send, reduction.count), Vector(result, reduction.count))
            }
            CollectiveOperation::ReduceScatter { reduction, send: Some(send), counts, result } => {
                (Vector(send, reduction.count), Vector(result, counts[me]))
            }
            _ => return Ok(()),
        };
        match send.may_share(&receive) {
            true => check(&send.views()?, &receive.views()?),
            false => Ok(()),
        }
    }
}

/// A buffer of a call, as far as the call uses it.
enum UsedBuffer<'a> {
    Whole(&'a View),
    Parts(&'a Parts),
    /// So many elements.
    Vector(&'a Elements, usize),
}

impl UsedBuffer<'_> {
    /// False if the two surely share no byte, which is quickly known of memory in one piece.
    fn may_share(&self, other: &UsedBuffer<'_>) -> bool {
        match (self.region(), other.region()) {
            (Some(own), Some(other)) => own.may_share(&other),
            _ => true,
        }
    }

    fn region(&self) -> Option<Region> {
        match self {
            UsedBuffer::Whole(view) => Some(view.region().clone()),
            UsedBuffer::Parts(Parts::Even(blocks, _)) => Some(blocks.elements().region(0)),
            UsedBuffer::Parts(Parts::Each(_)) => None,
            UsedBuffer::Vector(elements, _) => Some(elements.region(0)),
        }
    }

    fn views(&self) -> Result<Cow<'_, [View]>> {
        Ok(match self {
            UsedBuffer::Whole(view) => Cow::Borrowed(slice::from_ref(*view)),
            UsedBuffer::Parts(Parts::Each(views)) => Cow::Borrowed(views),
            UsedBuffer::Parts(Parts::Even(blocks, ranks)) => {
                Cow::Owned(vec![blocks.view(0, *ranks)?])
            }
            UsedBuffer::Vector(elements, count) => Cow::Owned(vec![elements.view(0, *count)?]),
        })
    }
}

/// The range from the first byte to the last, if there are any.
fn span(views: &[View]) -> Option<Range<usize>> {
    let spans = views.iter().filter(|view| !view.is_empty()).map(|view| {
        let (first, bytes) = view.span();
        first..first.saturating_add(bytes)
    });
    spans.reduce(|a, b| a.start.min(b.start)..a.end.max(b.end))
}

/// At most [`RUNS`] pieces, in order of address, and whether these are all.
fn pieces(views: &[View]) -> (Vec<Range<usize>>, bool) {
    let runs = views.iter().flat_map(|view| view.runs(0));
    let mut pieces: Vec<_> =
        runs.take(RUNS + 1).map(|run| run.address..run.address + run.len).collect();
    let are_all = pieces.len() <= RUNS;
    pieces.truncate(RUNS);
    pieces.sort_unstable_by_key(|piece| piece.start);
    (pieces, are_all)
}

/// The address of a byte that both contain.
fn shared(a: &[View], b: &[View]) -> Option<usize> {
    let ((a, _), (b, _)) = (pieces(a), pieces(b));
    let (mut a, mut b) = (a.iter().peekable(), b.iter().peekable());
    while let (Some(x), Some(y)) = (a.peek(), b.peek()) {
        if x.end <= y.start {
            a.next();
        } else if y.end <= x.start {
            b.next();
        } else {
            return Some(x.start.max(y.start));
        }
    }
    None
}

#[cold]
fn overlapping(send: &Range<usize>, receive: &Range<usize>, address: usize) -> Error {
    let reason = format!(
        "sendbuf ({:#x} to {:#x}) and recvbuf ({:#x} to {:#x}) share the byte at \
         {address:#x}; pass MPI_IN_PLACE to work in place",
        send.start, send.end, receive.start, receive.end
    );
    Error::argument(
        c::ERR_BUFFER,
        "sendbuf, recvbuf",
        format_args!("{:#x}, {:#x}", send.start, receive.start),
        reason,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use mica_memory::{Block, Shape, TypeLayout};
    use std::sync::Arc;

    fn bytes(region: &Region, at: isize, bytes: usize) -> View {
        region.offset(at).view(Shape::Contiguous { bytes })
    }

    /// `count` pieces of 4 bytes, 8 apart.
    fn column(region: &Region, at: isize, count: u64) -> View {
        let int = TypeLayout::basic(4, 4).unwrap();
        let pieces = Arc::new(int.hvector(count, 1, 8).unwrap());
        region.offset(at).view(Shape::of(&pieces, 1).unwrap())
    }

    #[test]
    fn what_shares_a_byte_is_refused_and_nothing_else() {
        let region = Block::allocate(1 << 16).unwrap();
        let refuses = |a: View, b: View| {
            let error = check(&[a], &[b]).err();
            assert!(error.as_ref().is_none_or(|error| error.code() == c::ERR_BUFFER));
            error.is_some()
        };
        assert!(refuses(bytes(&region, 0, 10), bytes(&region, 0, 10)));
        assert!(refuses(bytes(&region, 0, 10), bytes(&region, 9, 10)));
        assert!(!refuses(bytes(&region, 0, 10), bytes(&region, 10, 10)));
        assert!(!refuses(bytes(&region, 0, 0), bytes(&region, 0, 10)));
        assert!(!refuses(column(&region, 0, 9), column(&region, 4, 9)));
        assert!(refuses(column(&region, 0, 9), column(&region, 3, 9)));
        assert!(refuses(column(&region, 0, 9), bytes(&region, 67, 1)));
        assert!(!refuses(column(&region, 0, 9), bytes(&region, 68, 9)));
        // Too many pieces to compare all.
        assert!(!refuses(column(&region, 0, 4000), column(&region, 4, 4000)));
        assert!(refuses(column(&region, 0, 4000), column(&region, 0, 4000)));
    }

    #[test]
    fn lists_of_blocks_are_compared_whole() {
        let region = Block::allocate(100).unwrap();
        let list = |ats: [isize; 3]| ats.map(|at| bytes(&region, at, 10));
        assert!(check(&list([0, 40, 80]), &list([10, 50, 90])).is_ok());
        assert!(check(&list([0, 40, 80]), &list([20, 89, 60])).is_err());
        assert!(check(&[], &list([20, 89, 60])).is_ok());
    }
}
