//! Copying along trees that are too deep for recursion: programs nest structs as deep as they like.
//!
//! The place in the tree is a list of [`Stretch`]es on the heap. What lies below [`RECURSION_MAX`]
//! levels from the leaves is copied by the loops of [`copy`](super::copy).

use super::copy::{CopyDirection, range, repeat_range};
use super::node::{LayoutNode, LayoutNodeKind, PlacedNode, RECURSION_MAX, part_at};

/// `n` bytes from `start` on of copies of a node, or of the parts of a sequence.
struct Stretch<'a> {
    of: Nodes<'a>,
    memory: *mut u8,
    start: u64,
    packed: *mut u8,
    n: u64,
}

enum Nodes<'a> {
    /// Copies of one node, `stride` apart.
    Copies {
        body: &'a LayoutNode,
        stride: i64,
    },
    Parts {
        starts: &'a [u64],
        parts: &'a [PlacedNode],
    },
}

/// `n` bytes, more than 0, from `start` on, of copies of `node`, `stride` apart.
///
/// # Safety
/// 1. `start + n` is at most the packed length of the copies;
/// 2. their memory is readable or writable as `D` asks, and so is `packed`, for these bytes, and
///    the two are disjoint.
pub(super) unsafe fn elements<D: CopyDirection>(
    node: &LayoutNode,
    stride: i64,
    memory: *mut u8,
    start: u64,
    packed: *mut u8,
    n: u64,
) {
    let copies = Nodes::Copies { body: node, stride };
    // The innermost last.
    let mut rest = vec![Stretch { of: copies, memory, start, packed, n }];
    while let Some(stretch) = rest.pop() {
        let Stretch { of, memory, start, packed, n } = stretch;
        let (node, at, within, len) = match &of {
            Nodes::Copies { body, stride } if body.depth <= RECURSION_MAX => {
                // SAFETY: obligations 1 and 2 for this stretch, a part of the bytes.
                unsafe { repeat_range::<D>(body, *stride, memory, start, packed, n) };
                continue;
            }
            Nodes::Copies { body, stride } => {
                let (index, within) = (start / body.size, start % body.size);
                let at = memory.wrapping_offset((index as i64 * stride) as isize);
                (*body, at, within, n.min(body.size - within))
            }
            Nodes::Parts { starts, parts } => {
                let (index, within) = part_at(starts, start);
                let at = memory.wrapping_offset(parts[index].offset as isize);
                (&*parts[index].node, at, within, n.min(starts[index + 1] - start))
            }
        };
        if len < n {
            let packed = packed.wrapping_add(len as usize);
            rest.push(Stretch { of, memory, start: start + len, packed, n: n - len });
        }
        let (memory, start, n) = (at, within, len);
        let of = match &node.kind {
            LayoutNodeKind::Loop { stride, body, .. } if node.depth > RECURSION_MAX => {
                Nodes::Copies { body, stride: *stride }
            }
            LayoutNodeKind::Sequence { starts, parts } if node.depth > RECURSION_MAX => {
                Nodes::Parts { starts, parts }
            }
            _ => {
                // SAFETY: `n` bytes of the node from `start` on are a part of the stretch:
                // obligations 1 and 2.
                unsafe { range::<D>(node, memory, start, packed, n) };
                continue;
            }
        };
        rest.push(Stretch { of, memory, start, packed, n });
    }
}
