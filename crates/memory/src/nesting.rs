//! Trees that programs nest as deep as they like, and whose nodes several may share: what walks
//! them takes no stack for their levels.

use std::sync::Arc;

/// Trees of at most this many levels are walked by recursion, which is faster; loops over deeper
/// ones keep their place on the heap. A level takes some 400 bytes of stack, and programs nest as
/// many structs as they like, also in threads with stacks of 16 KiB.
pub const RECURSION_MAX: u32 = 24;

/// A node of such a tree.
pub trait NestedNode: Sized {
    /// Levels of the tree.
    fn depth(&self) -> u32;

    /// Moves the nodes below to `to`, and is a tree of one level then.
    fn give_up_parts(&mut self, to: &mut Vec<Arc<Self>>);
}

/// What `drop` has to do for a node: without recursion where the tree is deep.
#[inline]
pub fn drop_parts<T: NestedNode>(node: &mut T) {
    if node.depth() <= RECURSION_MAX {
        return;
    }
    let mut rest = Vec::new();
    node.give_up_parts(&mut rest);
    while let Some(part) = rest.pop() {
        if let Some(mut part) = Arc::into_inner(part) {
            part.give_up_parts(&mut rest);
        }
    }
}
