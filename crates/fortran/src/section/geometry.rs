//! Where the bytes of a section lie: the virtual contiguous buffer of MPI 5.0, 19.1.12.
//!
//! The elements of a section, in array element order, form a virtual buffer. A position in it is a
//! number in a mixed radix: the lowest digit counts the bytes of a contiguous run, each further one
//! the steps of a dimension. Dimensions that continue each other are one digit, and dimensions of
//! one element are none, so that two sections of the same bytes are equal.

use std::ffi::c_int;

use crate::abi::constants as c;
use crate::descriptor::{ArraySection, MAX_RANK};

/// Digits of a position: the run, and the dimensions, of which Fortran allows 15.
const MAX_DIGITS: usize = MAX_RANK + 1;

/// One digit of a position.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Digit {
    /// Bytes of the virtual buffer that one step stands for.
    pub size: i64,
    /// Bytes in memory from one step to the next.
    pub stride: i64,
    /// The number of steps.
    pub extent: i64,
}

/// The bytes of a section, relative to its address.
#[derive(Clone, Debug)]
pub struct SectionBytes {
    digits: [Digit; MAX_DIGITS],
    len: usize,
    total: i64,
}

impl PartialEq for SectionBytes {
    fn eq(&self, other: &Self) -> bool {
        self.total == other.total && self.digits() == other.digits()
    }
}

impl SectionBytes {
    /// The bytes of a section. An array of assumed size has as many as an address space.
    ///
    /// # Errors
    /// `MPI_ERR_BUFFER` when the descriptor describes no array that fits a memory.
    pub fn new(section: &ArraySection) -> Result<SectionBytes, c_int> {
        let element = i64::try_from(section.element).map_err(|_| c::ERR_BUFFER)?;
        let mut bytes =
            SectionBytes { digits: [Digit::default(); MAX_DIGITS], len: 1, total: element };
        bytes.digits[0] = Digit { size: 1, stride: 1, extent: element };
        if element == 0 || section.dimensions.iter().any(|dimension| dimension.extent == 0) {
            bytes.total = 0;
            bytes.digits[0].extent = 0;
            return Ok(bytes);
        }
        for dimension in section.dimensions {
            let extent = match dimension.extent {
                ..0 => i64::MAX / bytes.total, // of assumed size
                extent => extent as i64,
            };
            bytes.add(extent, dimension.stride as i64)?;
        }
        Ok(bytes)
    }

    /// Adds the next dimension.
    fn add(&mut self, extent: i64, stride: i64) -> Result<(), c_int> {
        if extent == 1 {
            return Ok(());
        }
        let total = self.total.checked_mul(extent).ok_or(c::ERR_BUFFER)?;
        let last = &mut self.digits[self.len - 1];
        if last.stride.checked_mul(last.extent) == Some(stride) {
            last.extent *= extent; // at most `total`
        } else {
            let digit = self.digits.get_mut(self.len).ok_or(c::ERR_BUFFER)?;
            *digit = Digit { size: self.total, stride, extent };
            self.len += 1;
        }
        self.total = total;
        Ok(())
    }

    /// The digits, the run's first.
    pub fn digits(&self) -> &[Digit] {
        &self.digits[..self.len]
    }

    /// Bytes of the virtual buffer.
    pub fn total(&self) -> i64 {
        self.total
    }

    /// Bytes that lie one behind the other.
    pub fn run(&self) -> i64 {
        self.digits[0].extent
    }

    /// Where byte `position` of the virtual buffer lies, from the section's address.
    pub fn displacement(&self, position: i64) -> i64 {
        let mut rest = position;
        let mut found = 0;
        for digit in self.digits().iter().rev() {
            found += rest.div_euclid(digit.size) * digit.stride;
            rest = rest.rem_euclid(digit.size);
        }
        found
    }

    /// The highest digit of which `distance` is a whole number of steps.
    pub fn digit_of(&self, distance: i64) -> usize {
        self.digits().iter().rposition(|digit| distance % digit.size == 0).unwrap_or(0)
    }

    /// Bytes of the virtual buffer that all steps of a digit stand for; `None` for the highest
    /// digit, which is followed by no other.
    pub fn block(&self, digit: usize) -> Option<i64> {
        self.digits().get(digit + 1).map(|next| next.size)
    }
}

#[cfg(test)]
mod tests {
    use std::ptr::null_mut;

    use super::*;
    use crate::descriptor::SectionDimension;

    fn bytes(element: usize, dimensions: &[(isize, isize)]) -> SectionBytes {
        let dimensions: Vec<SectionDimension> = (dimensions.iter())
            .map(|&(extent, stride)| SectionDimension { lower_bound: 1, extent, stride })
            .collect();
        SectionBytes::new(&ArraySection { address: null_mut(), element, dimensions: &dimensions })
            .unwrap()
    }

    #[test]
    fn merges_dimensions_that_continue_each_other() {
        assert_eq!(bytes(4, &[(5, 4), (3, 40)]), bytes(20, &[(3, 40)]));
        assert_eq!(bytes(4, &[(5, 8), (1, 7), (3, 40)]), bytes(4, &[(15, 8)]));
        assert_eq!(bytes(4, &[(5, -4), (3, -20)]), bytes(4, &[(15, -4)]));
        assert_eq!(bytes(4, &[(5, 8), (-1, 80)]).digits().len(), 3);
    }

    #[test]
    fn finds_bytes_in_array_element_order() {
        let section = bytes(4, &[(3, 8), (2, -100)]);
        assert_eq!(section.total(), 24);
        let places: Vec<i64> = (0..24).step_by(4).map(|at| section.displacement(at)).collect();
        assert_eq!(places, [0, 8, 16, -100, -92, -84]);
        assert_eq!(section.displacement(6), 10);
    }

    #[test]
    fn refuses_more_bytes_than_a_memory_has() {
        let dimension = SectionDimension { lower_bound: 1, extent: isize::MAX, stride: 8 };
        let section = ArraySection { address: null_mut(), element: 4, dimensions: &[dimension] };
        assert_eq!(SectionBytes::new(&section), Err(c::ERR_BUFFER));
    }
}
