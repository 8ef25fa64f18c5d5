//! The operands of a reduction in memory that ranks share, and their reduction in the order of
//! ranks.

use std::borrow::Borrow;

use mica_memory::{Region, View, copy_bytes};

use crate::place::Elements;
use crate::reduction::Reduction;
use mica_objects::error::Result;

/// Bytes from one element to the next, where elements lie one after the other and none reaches
/// beyond its own extent; `None` for datatypes of another form.
pub fn stride(reduction: &Reduction) -> Option<usize> {
    let datatype = &reduction.datatype;
    let (extent, first) = (datatype.extent(), datatype.true_lb());
    let is_plain = first >= 0 && extent > 0 && first + datatype.true_extent() <= extent;
    is_plain.then_some(extent as usize)
}

impl Reduction {
    /// `count` elements at `region` as a message.
    pub(in crate::intranode) fn elements(&self, region: Region, count: usize) -> Result<View> {
        Elements::new(region, &self.datatype).view(0, count)
    }

    /// `x0 op (x1 op (... xn))` into `result`, where `operand` gives the `members` operands by
    /// number. Of these, only the last may be `result` itself. The order is the same for all ranks
    /// and runs, so the bits are too.
    pub(in crate::intranode) fn fold<R: Borrow<Region>>(
        &self,
        members: usize,
        count: usize,
        result: &Region,
        mut operand: impl FnMut(usize) -> Result<R>,
    ) -> Result<()> {
        if count == 0 || members == 0 {
            return Ok(());
        }
        let last = operand(members - 1)?;
        if last.borrow().address() != result.address() {
            self.copy_elements(last.borrow(), result, count)?;
        }
        for member in (0..members - 1).rev() {
            let operand = operand(member)?;
            self.op.apply(operand.borrow(), result, count, &self.datatype)?;
        }
        Ok(())
    }

    /// Copies `count` elements; gaps between them are left alone.
    pub(in crate::intranode) fn copy_elements(
        &self,
        from: &Region,
        to: &Region,
        count: usize,
    ) -> Result<()> {
        if self.datatype.size() == self.datatype.extent() && self.datatype.true_lb() == 0 {
            copy_bytes(from, to, count * self.datatype.size() as usize);
        } else {
            let to = self.elements(to.clone(), count)?;
            to.copy_from(&self.elements(from.clone(), count)?);
        }
        Ok(())
    }
}

/// The range of elements of part `part`, when `count` elements are shared out among `parts`.
#[inline]
pub fn share(count: usize, part: usize, parts: usize) -> std::ops::Range<usize> {
    let cut = |i: usize| (count as u128 * i as u128 / parts as u128) as usize;
    cut(part)..cut(part + 1)
}
