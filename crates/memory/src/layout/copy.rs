//! Packing and unpacking: the loops that move bytes between a layout in memory and their packed
//! order.
//!
//! One set of loops serves both [directions](CopyDirection). Whole nodes take [`full`] and
//! [`repeat`], whose innermost loops work on blocks of a constant length; a range within a node is
//! found by arithmetic ([`range`]) and split into a partial first node, whole nodes, and a partial
//! last node. They recurse into the nodes below: [`elements`](super::elements) calls them for
//! what is not too deep for that.

use super::super::bytes::copy_small;
use super::node::{LayoutNode, LayoutNodeKind, part_at};

/// Which way the bytes go; a type, so that each direction has loops of its own.
pub(in super::super) trait CopyDirection {
    /// Where a block is read and where it is written.
    fn from_to(memory: *mut u8, packed: *mut u8) -> (*const u8, *mut u8);
}

/// From memory to the packed bytes.
pub(in super::super) enum Pack {}

/// From the packed bytes to memory.
pub(in super::super) enum Unpack {}

impl CopyDirection for Pack {
    #[inline(always)]
    fn from_to(memory: *mut u8, packed: *mut u8) -> (*const u8, *mut u8) {
        (memory, packed)
    }
}

impl CopyDirection for Unpack {
    #[inline(always)]
    fn from_to(memory: *mut u8, packed: *mut u8) -> (*const u8, *mut u8) {
        (packed, memory)
    }
}

// Common obligations of the functions below, for the bytes each of them covers: (M) memory is
// readable or writable as `D` asks; (P) so is `packed`; (D) the two are disjoint. Pointers into
// memory step with wrapping arithmetic because a layout may start before its origin and a loop's
// last step leaves the buffer.

/// One block.
///
/// # Safety
/// M, P, D for `len` bytes.
#[inline(always)]
unsafe fn block<D: CopyDirection>(memory: *mut u8, packed: *mut u8, len: usize) {
    // SAFETY: M, P, D.
    unsafe {
        let (from, to) = D::from_to(memory, packed);
        copy_small(from, to, len)
    }
}

/// One block of constant length.
///
/// # Safety
/// M, P, D for `N` bytes.
#[inline(always)]
unsafe fn fixed<D: CopyDirection, const N: usize>(memory: *mut u8, packed: *mut u8) {
    let (from, to) = D::from_to(memory, packed);
    // SAFETY: M, P, D; arrays of bytes need no alignment.
    unsafe { *to.cast::<[u8; N]>() = *from.cast::<[u8; N]>() }
}

/// The whole node.
///
/// # Safety
/// M, P, D for the node at `memory` and its size.
unsafe fn full<D: CopyDirection>(node: &LayoutNode, memory: *mut u8, packed: *mut u8) {
    // SAFETY: each arm covers bytes of the node, at the displacements and positions that its kind
    // defines.
    unsafe {
        match &node.kind {
            LayoutNodeKind::Block => block::<D>(memory, packed, node.size as usize),
            LayoutNodeKind::Loop { count, stride, body } => {
                repeat::<D>(body, *count, *stride, memory, packed)
            }
            LayoutNodeKind::Scatter { len, offsets } => {
                scatter::<D>(*len as usize, offsets, memory, packed)
            }
            LayoutNodeKind::Blocks { starts, offsets } => {
                for (i, at) in offsets.iter().enumerate() {
                    let (start, end) = (starts[i] as usize, starts[i + 1] as usize);
                    block::<D>(
                        memory.wrapping_offset(*at as isize),
                        packed.add(start),
                        end - start,
                    );
                }
            }
            LayoutNodeKind::Sequence { starts, parts } => {
                for (part, start) in parts.iter().zip(starts) {
                    let memory = memory.wrapping_offset(part.offset as isize);
                    full::<D>(&part.node, memory, packed.add(*start as usize));
                }
            }
        }
    }
}

/// `count` whole nodes, `stride` apart.
///
/// # Safety
/// M, P, D for all of them.
pub(super) unsafe fn repeat<D: CopyDirection>(
    node: &LayoutNode,
    count: u64,
    stride: i64,
    memory: *mut u8,
    packed: *mut u8,
) {
    // SAFETY: a loop of loops of blocks, or of blocks, is what `nest` covers; otherwise node after
    // node.
    unsafe {
        match &node.kind {
            LayoutNodeKind::Block => nest::<D>((1, 0), (count, stride), node.size, memory, packed),
            LayoutNodeKind::Loop { count: inner, stride: step, body }
                if matches!(body.kind, LayoutNodeKind::Block) =>
            {
                nest::<D>((count, stride), (*inner, *step), body.size, memory, packed);
            }
            _ => {
                let (mut memory, mut packed) = (memory, packed);
                for _ in 0..count {
                    full::<D>(node, memory, packed);
                    memory = memory.wrapping_offset(stride as isize);
                    packed = packed.add(node.size as usize);
                }
            }
        }
    }
}

/// Runs `$body` with `$n` a constant for the common block lengths, otherwise `$general`.
macro_rules! by_length {
    ($len:expr, $n:ident => $body:expr, $general:expr) => {
        by_length!(@ $len, $n => $body, $general; 1 2 4 8 12 16 24 32 48 64)
    };
    (@ $len:expr, $n:ident => $body:expr, $general:expr; $($constant:literal)*) => {
        match $len {
            $($constant => { const $n: usize = $constant; $body })*
            _ => $general,
        }
    };
}

/// Two nested loops (each a count and a stride) over blocks of `len` bytes.
///
/// # Safety
/// M, P, D for all blocks.
unsafe fn nest<D: CopyDirection>(
    outer: (u64, i64),
    inner: (u64, i64),
    len: u64,
    memory: *mut u8,
    packed: *mut u8,
) {
    // SAFETY: M, P, D; the constant equals `len` in each arm, and the closure gets a block's two
    // addresses.
    unsafe {
        by_length!(len,
            N => nest_by(outer, inner, N, memory, packed, |memory, packed| {
                fixed::<D, N>(memory, packed)
            }),
            nest_by(outer, inner, len as usize, memory, packed, |memory, packed| {
                block::<D>(memory, packed, len as usize);
            })
        );
    }
}

/// Calls `copy` with the memory and packed address of every block of two nested loops.
///
/// # Safety
/// P for all blocks.
#[inline(always)]
unsafe fn nest_by(
    outer: (u64, i64),
    inner: (u64, i64),
    len: usize,
    memory: *mut u8,
    packed: *mut u8,
    copy: impl Fn(*mut u8, *mut u8),
) {
    let (mut row, mut packed) = (memory, packed);
    for _ in 0..outer.0 {
        let mut memory = row;
        for _ in 0..inner.0 {
            copy(memory, packed);
            memory = memory.wrapping_offset(inner.1 as isize);
            // SAFETY: P: the result is at most the end of the packed bytes.
            packed = unsafe { packed.add(len) };
        }
        row = row.wrapping_offset(outer.1 as isize);
    }
}

/// Blocks of `len` bytes at `offsets`.
///
/// # Safety
/// M, P, D for all blocks.
unsafe fn scatter<D: CopyDirection>(len: usize, offsets: &[i64], memory: *mut u8, packed: *mut u8) {
    // SAFETY: M, P, D; the constant equals `len` in each arm.
    unsafe {
        by_length!(len,
            N => for (i, at) in offsets.iter().enumerate() {
                fixed::<D, N>(memory.wrapping_offset(*at as isize), packed.add(i * N));
            },
            for (i, at) in offsets.iter().enumerate() {
                block::<D>(memory.wrapping_offset(*at as isize), packed.add(i * len), len);
            }
        );
    }
}

/// `n` bytes, more than 0, of the node from `start` on.
///
/// # Safety
/// 1. `start + n <= node.size`;
/// 2. M, P, D for these bytes.
pub(super) unsafe fn range<D: CopyDirection>(
    node: &LayoutNode,
    memory: *mut u8,
    start: u64,
    packed: *mut u8,
    n: u64,
) {
    // SAFETY: each arm covers `n` bytes of the node from `start` on, by obligations 1 and 2.
    unsafe {
        if n == node.size {
            return full::<D>(node, memory, packed);
        }
        match &node.kind {
            LayoutNodeKind::Block => {
                block::<D>(memory.wrapping_add(start as usize), packed, n as usize)
            }
            LayoutNodeKind::Loop { stride, body, .. } => {
                repeat_range::<D>(body, *stride, memory, start, packed, n)
            }
            LayoutNodeKind::Scatter { len, offsets } => {
                let (head, first, whole, tail) = split(*len, start, n);
                let at = |index: usize| memory.wrapping_offset(offsets[index] as isize);
                let mut packed = packed;
                let mut index = (start / len) as usize;
                if head > 0 {
                    block::<D>(at(index).wrapping_add(first as usize), packed, head as usize);
                    packed = packed.add(head as usize);
                    index += 1;
                }
                let end = index + whole as usize;
                scatter::<D>(*len as usize, &offsets[index..end], memory, packed);
                if tail > 0 {
                    block::<D>(at(end), packed.add((whole * len) as usize), tail as usize);
                }
            }
            LayoutNodeKind::Blocks { starts, offsets } => {
                parts_range(starts, start, n, |index, within, done, len| {
                    let memory = memory.wrapping_offset((offsets[index] + within as i64) as isize);
                    block::<D>(memory, packed.add(done as usize), len as usize);
                });
            }
            LayoutNodeKind::Sequence { starts, parts } => {
                parts_range(starts, start, n, |index, within, done, len| {
                    let memory = memory.wrapping_offset(parts[index].offset as isize);
                    range::<D>(&parts[index].node, memory, within, packed.add(done as usize), len);
                });
            }
        }
    }
}

/// `n` bytes, more than 0, from `start` on, of a loop of `node`s.
///
/// # Safety
/// 1. `start + n` is at most the packed length of the loop;
/// 2. M, P, D for these bytes.
pub(super) unsafe fn repeat_range<D: CopyDirection>(
    node: &LayoutNode,
    stride: i64,
    memory: *mut u8,
    start: u64,
    packed: *mut u8,
    n: u64,
) {
    let (head, first, whole, tail) = split(node.size, start, n);
    let mut memory = memory.wrapping_offset(((start / node.size) as i64 * stride) as isize);
    let mut packed = packed;
    // SAFETY: head, whole nodes and tail follow one another in the loop from `start` on;
    // obligations 1 and 2.
    unsafe {
        if head > 0 {
            range::<D>(node, memory, first, packed, head);
            memory = memory.wrapping_offset(stride as isize);
            packed = packed.add(head as usize);
        }
        if whole > 0 {
            repeat::<D>(node, whole, stride, memory, packed);
            memory = memory.wrapping_offset((whole as i64 * stride) as isize);
            packed = packed.add((whole * node.size) as usize);
        }
        if tail > 0 {
            range::<D>(node, memory, 0, packed, tail);
        }
    }
}

/// Splits `n` bytes from `start` on, in pieces of `size`: (bytes of a partial first piece, their
/// offset in it, number of whole pieces, bytes of a partial last piece).
fn split(size: u64, start: u64, n: u64) -> (u64, u64, u64, u64) {
    let first = start % size;
    let head = if first == 0 { 0 } else { n.min(size - first) };
    (head, first, (n - head) / size, (n - head) % size)
}

/// Calls `part(index, start within it, bytes before it, bytes)` for each part that `n` bytes from
/// `start` on overlap.
fn parts_range(starts: &[u64], start: u64, n: u64, mut part: impl FnMut(usize, u64, u64, u64)) {
    let (mut index, mut within) = part_at(starts, start);
    let mut done = 0;
    while done < n {
        let len = (starts[index + 1] - starts[index] - within).min(n - done);
        part(index, within, done, len);
        (index, within, done) = (index + 1, 0, done + len);
    }
}
