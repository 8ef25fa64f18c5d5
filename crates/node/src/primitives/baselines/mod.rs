//! What only the designs stand on that are kept for comparison.

pub mod fifo;
