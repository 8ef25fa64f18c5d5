//! Reductions on an area: operands through cells, or slices read from the members' buffers and
//! stored to them (ma-2011).

pub mod cells;
pub mod direct;
pub mod operands;
