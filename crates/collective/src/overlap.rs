//! Send and receive buffers of one call that share bytes (MPI 5.0, 6.2 and 2.3: buffer arguments
//! must not be aliased).
//!
//! Only definite errors count: bytes that are both sent and received into. Layouts that interleave
//! without sharing a byte, such as the columns of one matrix, are correct. If the buffers lie
//! apart, this costs a comparison of their bounds. If they do not, and are in pieces, at most
//! [`RUNS`] pieces of each are compared; of longer lists, only the first pieces.

use std::ops::Range;

use mica_memory::{Region, View};

use super::arguments::BufferArgument;
use super::place::Elements;
use mica_objects::constants as c;
use mica_objects::datatype::Datatype;
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

/// As [`check`], for two buffers, with their numbers of blocks.
///
/// # Errors
/// When they share a byte; when a buffer extends past the largest address.
#[inline]
pub(super) fn check_buffers(
    (send, sent): (&BufferArgument, usize),
    (receive, received): (&BufferArgument, usize),
) -> Result<()> {
    match send.elements.may_share(&receive.elements) {
        true => check(&[send.whole(sent)?], &[receive.whole(received)?]),
        false => Ok(()),
    }
}

/// As [`check`], for two vectors of a datatype, with their numbers of elements.
///
/// # Errors
/// When they share a byte; when a vector extends past the largest address.
pub(super) fn check_vectors(
    datatype: &Datatype,
    (send, sent): (Option<&Region>, usize),
    (receive, received): (&Region, usize),
) -> Result<()> {
    let Some(send) = send.filter(|send| send.may_share(receive)) else {
        return Ok(());
    };
    let view = |region: &Region, count| Elements::new(region.clone(), datatype).view(0, count);
    check(&[view(send, sent)?], &[view(receive, received)?])
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
