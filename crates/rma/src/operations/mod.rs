//! One-sided operations.

pub(crate) mod accumulate;
pub mod fast_path;
pub(crate) mod help;
pub(crate) mod transfer;
