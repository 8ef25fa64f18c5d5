//! Which path an operation takes on a node: what a communicator knows of its ranks, the choices of
//! `mica_policy` for them, and the limits up to which the fast path may go without asking.

pub mod context;
pub(in crate::intranode) mod fast_limits;
mod known;
pub mod plan;
