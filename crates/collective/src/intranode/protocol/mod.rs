//! How the members of a communicator on a node take part in an operation on their area: whose turn
//! it is, what a stamp and the header beside it say, when memory may be written again.
//!
//! [`group`] is a communicator's members as one rank has them; [`slot`] an operation as the slow
//! path has it, `fast_slot` the few words of it that the fast path keeps in registers; [`header`]
//! what members compare; [`shared_slot`] what algorithms ask of either; [`account`] the bytes
//! moved, for tools; [`tree`] the order in which many members wait for one another.

pub mod account;
pub(crate) mod fast_slot;
pub mod group;
pub mod header;
pub mod shared_slot;
pub mod slot;
pub mod tree;
