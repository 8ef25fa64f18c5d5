//! The memory of a window: where each rank's lies, and how this rank accesses it.

pub(crate) mod access;
pub(crate) mod attached;
pub(crate) mod attachment_list;
pub(crate) mod attachment_table;
pub(crate) mod element;
pub(crate) mod movable;
pub(crate) mod node_peers;
pub(crate) mod place;
pub(crate) mod target;
