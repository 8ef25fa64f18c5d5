//! Arguments of collective calls: buffers with their counts and types, checked once, before any
//! schedule is built.

use mica_memory::{Region, View};

use super::place::{Blocks, Elements};
use mica_objects::constants as c;
use mica_objects::datatype::{Datatype, check_count};
use mica_objects::error::{Error, Result};
use mica_objects::op::Op;

/// The arguments of a call that reduces a vector for all: the operand, absent in place, the result,
/// and what they are.
#[derive(Debug)]
pub struct ReductionArguments<'a> {
    /// The operand.
    pub send: Option<Region>,
    /// The result.
    pub receive: Region,
    /// Elements of the call's `count`.
    pub count: i64,
    /// Their type, which is committed.
    pub datatype: &'a Datatype,
    /// The operator.
    pub op: &'a Op,
}

/// A buffer argument: an address, a count that was checked, a committed datatype.
#[derive(Clone, Debug)]
pub struct BufferArgument {
    pub(super) elements: Elements,
    pub(super) count: usize,
}

impl BufferArgument {
    /// `count` elements (the argument called `argument`) of `datatype` at `region`.
    pub fn new(
        region: Region,
        argument: &'static str,
        count: i64,
        datatype: &Datatype,
    ) -> Result<BufferArgument> {
        let count = checked_count(argument, count)?;
        // Refuses a size that no address can span.
        datatype.shape(count as i64)?;
        Ok(BufferArgument { elements: Elements::new(region, datatype), count })
    }

    /// The whole buffer as one message.
    pub(super) fn view(&self) -> Result<View> {
        self.elements.view(0, self.count)
    }

    /// The buffer as `size` consecutive blocks of `count` elements each.
    pub(super) fn blocks(&self, size: usize) -> Result<Blocks> {
        let total = (self.count as i64).checked_mul(size as i64).ok_or_else(|| {
            Error::argument(c::ERR_COUNT, "count", self.count, "too large for the number of ranks")
        })?;
        self.elements.datatype().shape(total)?;
        Ok(Blocks::new(self.elements.clone(), self.count))
    }
}

/// A buffer argument of a v- or w-form: one block for each rank.
#[derive(Clone, Debug)]
pub struct BlockList {
    pub(super) views: Vec<View>,
}

impl BlockList {
    /// These blocks, by rank.
    pub fn new(views: Vec<View>) -> BlockList {
        BlockList { views }
    }
}

#[cold]
pub(super) fn in_place_away_from_root() -> Error {
    Error::argument(
        c::ERR_BUFFER,
        "buffer",
        "MPI_IN_PLACE",
        "only the root of this operation may work in place",
    )
}

pub(super) fn checked_count(argument: &'static str, count: i64) -> Result<usize> {
    check_count(count, argument).map(|count| count as usize)
}
