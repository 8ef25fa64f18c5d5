//! The calls that order the operations of different ranks.

pub(crate) mod active;
pub(crate) mod admission;
pub(crate) mod passive;
