//! Packing and unpacking elements of a datatype: by the loops of [`copy`](super::copy), which
//! recurse, or where the layout is too deep for that (programs nest structs as deep as they like)
//! by a loop here. Its place in the tree is a list of [`Stretch`]es on the heap; what has at most
//! [`RECURSION_MAX`] levels is copied by the others.

use super::TypeLayout;
use super::copy::{CopyDirection, range, repeat, repeat_range};
use super::node::{LayoutNode, LayoutNodeKind, PlacedNode, part_at};
use crate::RECURSION_MAX;

/// Moves `n` packed bytes, from `position` on, of `count` elements at `memory`.
///
/// # Safety
/// 1. `position + n` is at most the packed length of `count` elements, and their displacements do
///    not overflow;
/// 2. the bytes of memory that this covers are readable (`Pack`) or writable (`Unpack`);
/// 3. `packed` is writable (`Pack`) or readable (`Unpack`) for `n` bytes, which do not overlap
///    those.
pub(in super::super) unsafe fn elements<D: CopyDirection>(
    layout: &TypeLayout,
    count: usize,
    memory: *mut u8,
    position: usize,
    packed: *mut u8,
    n: usize,
) {
    let memory = memory.wrapping_offset(layout.root.offset as isize);
    let node = &*layout.root.node;
    // SAFETY: obligations 1 to 3, passed on.
    unsafe {
        if node.depth > RECURSION_MAX {
            stretches::<D>(node, layout.extent(), memory, position as u64, packed, n as u64);
        } else if position == 0 && n as u64 == node.size * count as u64 {
            repeat::<D>(node, count as u64, layout.extent(), memory, packed);
        } else {
            repeat_range::<D>(node, layout.extent(), memory, position as u64, packed, n as u64);
        }
    }
}

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
unsafe fn stretches<D: CopyDirection>(
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

#[cfg(test)]
mod tests {
    use super::super::copy::Pack;
    use super::*;

    /// Each level has more parts than are spliced into the next, at uneven distances.
    fn nested(levels: usize) -> TypeLayout {
        let byte = TypeLayout::basic(1, 1).unwrap();
        let mut layout = byte.clone();
        for level in 0..levels as i64 {
            let ragged = (0..40).map(|i| (1, layout.ub() + i * i + level % 3, &byte));
            layout = TypeLayout::structure([(1, 0, &layout)].into_iter().chain(ragged)).unwrap();
        }
        layout
    }

    #[test]
    fn deep_layouts_are_copied_as_shallow_ones_are() {
        // Deep enough for a loop in place of recursion; Miri is slow.
        let layout = nested(if cfg!(miri) { 26 } else { 60 });
        let (size, extent) = (layout.size() as usize, layout.extent() as usize);
        let memory: Vec<u8> = (0..3 * extent).map(|i| (i * 31 % 251) as u8).collect();
        let at = |position: usize| {
            let (at, _) = layout.seek(position as u64);
            memory[at as usize]
        };
        for (start, n) in [(0, 3 * size), (7, 2 * size), (size - 1, 2), (size + 5, size), (0, 1)] {
            let n = if cfg!(miri) { n.min(60) } else { n };
            let mut packed = vec![0; n];
            // SAFETY: the bytes are those of three elements, which `memory` holds.
            unsafe {
                let from = memory.as_ptr().cast_mut();
                elements::<Pack>(&layout, 3, from, start, packed.as_mut_ptr(), n);
            }
            let expected: Vec<u8> = (start..start + n).map(at).collect();
            assert!(packed == expected, "{n} bytes from {start} on");
        }
    }

    #[test]
    fn levels_take_no_stack() {
        let work = || {
            let layout = nested(if cfg!(miri) { 60 } else { 20_000 });
            let size = layout.size();
            assert_eq!(layout.seek(0).0, 0);
            assert_eq!(layout.seek(size - 1).0 + 1, layout.true_ub());
            let twice = layout.hvector(2, 1, 2 * layout.extent()).unwrap();
            assert_eq!(twice.size(), 2 * size);
        };
        // The stack that a thread has at least.
        std::thread::Builder::new().stack_size(64 << 10).spawn(work).unwrap().join().unwrap();
    }
}
