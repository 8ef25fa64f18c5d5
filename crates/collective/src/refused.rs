//! How a rank takes part in a call that it refuses, for instance because its buffers share bytes
//! ([`super::overlap`]).
//!
//! A rank with such an error must not leave the others waiting for it. What it sends is valid, so
//! it takes part with a copy of that and with [other memory](DivertedBuffer) to receive into, and
//! then raises its error ([`refused`]). The program may use its buffers from then on, even if the
//! call was non-blocking and others take part later.

use mica_memory::{Shape, View};

use super::arguments::{BlockList, BufferArgument};
use super::intranode::choice::plan::{CollectivePlan, RefusedCall};
use super::place::Elements;
use crate::absent::{copy_to_present, temporary};
use mica_objects::error::{Error, Result};

/// New memory of the same form, for data that the program does not see.
pub(super) trait DivertedBuffer: Sized {
    /// Memory for `blocks` times one block of this.
    ///
    /// # Errors
    /// When there is no memory.
    fn aside(&self, blocks: usize) -> Result<Self>;

    /// As [`aside`](Self::aside), with a copy of the content.
    ///
    /// # Errors
    /// When there is no memory.
    fn copied(&self, blocks: usize) -> Result<Self>;
}

impl DivertedBuffer for BufferArgument {
    fn aside(&self, blocks: usize) -> Result<BufferArgument> {
        let count = self.count.saturating_mul(blocks);
        Ok(BufferArgument {
            elements: Elements::temporary(self.elements.datatype(), count)?,
            count: self.count,
        })
    }

    fn copied(&self, blocks: usize) -> Result<BufferArgument> {
        let copy = self.aside(blocks)?;
        copy_to_present(&copy.whole(blocks)?, &self.whole(blocks)?);
        Ok(copy)
    }
}

impl DivertedBuffer for BlockList {
    fn aside(&self, _: usize) -> Result<BlockList> {
        let aside = |view: &View| {
            let bytes = view.len();
            Ok(temporary(bytes).view(Shape::Contiguous { bytes }))
        };
        let views = self.views.iter().map(aside).collect::<Result<_>>()?;
        Ok(BlockList { views })
    }

    fn copied(&self, blocks: usize) -> Result<BlockList> {
        let copy = self.aside(blocks)?;
        for (to, from) in copy.views.iter().zip(&self.views) {
            copy_to_present(to, from);
        }
        Ok(copy)
    }
}

/// Takes part by `plan`, if there is one, and ends with `error`.
pub(super) fn refused(error: Error, plan: Result<CollectivePlan>) -> Result<CollectivePlan> {
    match plan {
        Ok(plan) => Ok(CollectivePlan::Refused(Box::new(RefusedCall { plan, error }))),
        Err(_) => Err(error),
    }
}
