//! Lays elements of a datatype over a section: from the type map's displacements in the virtual
//! buffer ([`SectionBytes`]) to those in memory.
//!
//! A part of a datatype that lies in one contiguous run of the section stays whole. Of `count`
//! copies at a distance that is a whole number of steps of some digit of the position, those within
//! one block of that digit are a vector in memory, since a step of the digit is a fixed distance
//! there. Where copies go on beyond the block, as many of them as end at a block's end again
//! (the distance and the block have a least common multiple) form a group, and the groups are
//! copies at a distance of whole blocks: the next digit's. What is left over, and a copy that lies
//! across a block's end, are laid out one by one, the latter taken apart. So the number of pieces
//! depends on the section's rank and on the datatype, not on the count.
//!
//! A predefined datatype that does not lie in one run is laid out as its bytes.
//!
//! All positions are within the virtual buffer, which [`spread`] checks first: so sums and products
//! of them do not overflow.

use std::collections::TryReserveError;
use std::ffi::c_int;
use std::rc::Rc;

use super::geometry::SectionBytes;
use super::pieces::{Piece, PieceShape, TypePieces};
use super::tree::{MaybeTree, TreeParts, TypeTree, group};
use crate::abi::{Word, constants as c};

/// Datatypes in datatypes that are taken apart; each takes about 1 KiB of the stack.
const MAX_NESTING: u32 = 500;

/// Takes datatypes apart.
pub trait TakeApart {
    /// The parts of the datatype `handle`, at least one; `None` for a predefined one, which has
    /// none.
    ///
    /// # Errors
    /// An error class.
    fn parts(&mut self, handle: Word) -> Result<MaybeTree, c_int>;
}

/// The pieces in memory of `count` elements of the datatype `of`.
///
/// # Errors
/// `MPI_ERR_BUFFER` when they go beyond the section, `MPI_ERR_TYPE` when the datatype is nested too
/// deeply, `MPI_ERR_NO_MEM`, and those of `apart`.
pub fn spread<T: TakeApart>(
    section: &SectionBytes,
    count: i64,
    of: &Rc<TypeTree>,
    apart: &mut T,
) -> Result<TypePieces, c_int> {
    let TreeParts::Whole { extent, .. } = of.parts else { return Err(c::ERR_TYPE) };
    let mut list = TypePieces::default();
    if count <= 0 {
        return Ok(list);
    }
    let last = i128::from(count - 1) * i128::from(extent);
    let low = i128::from(of.low) + last.min(0);
    let high = i128::from(of.high) + last.max(0);
    if low < 0 || high > i128::from(section.total()) {
        return Err(c::ERR_BUFFER);
    }
    let mut spreader = Spreader { section, apart, nesting: 0 };
    spreader.copies(0, Copies { count, stride: extent, of }, &mut list)?;
    Ok(list)
}

struct Spreader<'a, T> {
    section: &'a SectionBytes,
    apart: &'a mut T,
    nesting: u32,
}

/// Copies of a part, at equal distances in the virtual buffer.
#[derive(Clone, Copy)]
struct Copies<'a> {
    count: i64,
    stride: i64,
    of: &'a Rc<TypeTree>,
}

fn no_memory(_: TryReserveError) -> c_int {
    c::ERR_NO_MEM
}

impl<T: TakeApart> Spreader<'_, T> {
    /// Lays out one part, whose origin is at position `at`.
    fn place(&mut self, at: i64, tree: &TypeTree, list: &mut TypePieces) -> Result<(), c_int> {
        match &tree.parts {
            TreeParts::Repeat { count, stride, of } => {
                self.copies(at, Copies { count: *count, stride: *stride, of }, list)
            }
            TreeParts::Fields(fields) => {
                fields.iter().try_for_each(|(shift, field)| self.place(at + shift, field, list))
            }
            &TreeParts::Whole { handle, extent } => {
                if is_in_one(self.section.run(), at + tree.low, at + tree.high) {
                    let origin = self.section.displacement(at + tree.low) - tree.low;
                    let shape = PieceShape::Items { handle, extent, count: 1 };
                    return list.push(Piece { at: origin, shape }).map_err(no_memory);
                }
                let Some(parts) = self.apart.parts(handle)? else {
                    return self.bytes(at + tree.low, tree.high - tree.low, list);
                };
                self.deeper(|this| this.place(at, &parts, list))
            }
        }
    }

    /// Lays out the bytes of an item.
    fn bytes(&mut self, at: i64, count: i64, list: &mut TypePieces) -> Result<(), c_int> {
        let parts = TreeParts::Whole { handle: c::BYTE, extent: 1 };
        let byte = Rc::new(TypeTree { low: 0, high: 1, parts });
        self.copies(at, Copies { count, stride: 1, of: &byte }, list)
    }

    /// Lays out copies, of which the first one's origin is at position `at`.
    fn copies(&mut self, at: i64, copies: Copies, list: &mut TypePieces) -> Result<(), c_int> {
        let Copies { count, stride, of } = copies;
        if count <= 1 {
            return if count == 1 { self.place(at, of, list) } else { Ok(()) };
        }
        if let Some(elements) = self.dense(at, copies)?
            && let TreeParts::Repeat { count: inner, stride, of } = &elements.parts
        {
            let all = Copies { count: count * inner, stride: *stride, of };
            return self.deeper(|this| this.copies(at, all, list));
        }
        let digit = self.section.digit_of(stride);
        let Some(block) = self.section.block(digit) else {
            return self.vector(at, copies, digit, list);
        };
        if copies.within(block, at) == count {
            return self.vector(at, copies, digit, list);
        }
        let size = block / gcd(stride.unsigned_abs(), block as u64) as i64;
        if count > size {
            let of_groups = Rc::new(group(size, stride, of));
            let groups = Copies { count: count / size, stride: size * stride, of: &of_groups };
            self.copies(at, groups, list)?;
            let done = count / size * size;
            return self.copies(at + done * stride, Copies { count: count - done, ..copies }, list);
        }
        self.blocks(at, copies, digit, list)
    }

    /// Copies within a block of `digit` are a vector.
    fn vector(
        &mut self,
        at: i64,
        copies: Copies,
        digit: usize,
        list: &mut TypePieces,
    ) -> Result<(), c_int> {
        let steps = self.section.digits()[digit];
        let mut one = TypePieces::default();
        self.place(at, copies.of, &mut one)?;
        let stride = copies.stride / steps.size * steps.stride;
        list.push_copies(copies.count, stride, one).map_err(no_memory)
    }

    /// Block by block; a copy that lies across a block's end by itself.
    fn blocks(
        &mut self,
        at: i64,
        copies: Copies,
        digit: usize,
        list: &mut TypePieces,
    ) -> Result<(), c_int> {
        let Some(block) = self.section.block(digit) else { return Err(c::ERR_BUFFER) };
        let mut done = 0;
        while done < copies.count {
            let here = at + done * copies.stride;
            let rest = Copies { count: copies.count - done, ..copies };
            match rest.within(block, here) {
                0 | 1 => {
                    self.place(here, copies.of, list)?;
                    done += 1;
                }
                count => {
                    self.vector(here, Copies { count, ..copies }, digit, list)?;
                    done += count;
                }
            }
        }
        Ok(())
    }

    /// The parts of the copied datatype, if it is a repetition without gaps (`MPI_Type_contiguous`)
    /// that is better counted by its parts: some copies lie in more than one run.
    fn dense(&mut self, at: i64, copies: Copies) -> Result<MaybeTree, c_int> {
        let TreeParts::Whole { handle, .. } = copies.of.parts else { return Ok(None) };
        let Copies { stride, of, .. } = copies;
        let run = self.section.run();
        let whole = stride > 0
            && (run % stride, at % stride) == (0, 0)
            && (of.low >= 0 && of.high <= stride);
        if whole {
            return Ok(None);
        }
        let mut found = self.apart.parts(handle)?;
        while let Some(TreeParts::Whole { handle, .. }) = found.as_ref().map(|tree| &tree.parts) {
            found = self.apart.parts(*handle)?;
        }
        Ok(found.filter(|tree| match tree.parts {
            TreeParts::Repeat { count, stride: step, .. } => count * step == stride,
            _ => false,
        }))
    }

    fn deeper(&mut self, place: impl FnOnce(&mut Self) -> Result<(), c_int>) -> Result<(), c_int> {
        if self.nesting == MAX_NESTING {
            return Err(c::ERR_TYPE);
        }
        self.nesting += 1;
        let placed = place(self);
        self.nesting -= 1;
        placed
    }
}

impl Copies<'_> {
    /// How many of them, from the first one at position `at`, lie in the block where it begins.
    fn within(&self, block: i64, at: i64) -> i64 {
        let (low, high) = (at + self.of.low, at + self.of.high);
        if !is_in_one(block, low, high) {
            return 0;
        }
        let start = low - low % block;
        let more = match self.stride {
            0 => return self.count,
            1.. => (start + (block - high)) / self.stride,
            ..0 => (low - start) / -self.stride,
        };
        self.count.min(more + 1)
    }
}

/// Whether the bytes from `low` to before `high` lie in one block.
fn is_in_one(block: i64, low: i64, high: i64) -> bool {
    low / block == (high - 1) / block
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}
