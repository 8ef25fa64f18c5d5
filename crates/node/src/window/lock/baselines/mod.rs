//! Designs that are kept for comparison with the default.

mod test_and_set;
