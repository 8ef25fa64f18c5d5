//! Designs that are kept for comparison with the default.

pub(super) mod basic;
