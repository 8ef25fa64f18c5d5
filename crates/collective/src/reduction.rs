//! What is reduced: operator, datatype and number of elements.

pub use mica_algorithms::ScanKind;
use mica_memory::Region;

use super::absent::copy_to_present;
use super::overlap;
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

    /// Refuses a send vector and a result of `count` elements that share bytes.
    pub(super) fn check_apart(
        &self,
        send: Option<&Region>,
        receive: &Region,
        count: usize,
    ) -> Result<()> {
        overlap::check_vectors(&self.datatype, (send, self.count), (receive, count))
    }

    /// New memory for `count` elements of a result that the program does not see.
    pub(super) fn aside(&self, count: usize) -> Result<Region> {
        Ok(self.temporary(count)?.region(0))
    }

    /// A copy of an operand, if there is one.
    pub(super) fn copied(&self, operand: Option<&Region>) -> Result<Option<Region>> {
        let copy = |from: &Region| {
            let copy = self.temporary(self.count)?;
            let from = Elements::new(from.clone(), &self.datatype);
            copy_to_present(&copy.view(0, self.count)?, &from.view(0, self.count)?);
            Ok(copy.region(0))
        };
        operand.map(copy).transpose()
    }

    pub(super) fn temporary(&self, count: usize) -> Result<Elements> {
        Elements::temporary(&self.datatype, count)
    }
}
