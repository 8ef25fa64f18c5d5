//! What is reduced: operator, datatype and number of elements.

pub use mica_algorithms::ScanKind;

use super::place::Elements;
use mica_objects::datatype::Datatype;
use mica_objects::error::Result;
use mica_objects::op::Op;

/// What is reduced: `count` elements of `datatype` by `op`.
#[derive(Clone, Debug)]
pub struct Reduction {
    /// The operator.
    pub op: Op,
    /// The elements' type.
    pub datatype: Datatype,
    /// Number of elements of the whole vector.
    pub count: usize,
}

impl Reduction {
    /// Bytes of the whole vector.
    pub(super) fn bytes(&self) -> usize {
        self.count.saturating_mul(self.datatype.size() as usize)
    }

    /// New memory for `count` elements.
    pub(super) fn temporary(&self, count: usize) -> Result<Elements> {
        Elements::temporary(&self.datatype, count)
    }
}
