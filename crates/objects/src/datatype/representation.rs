//! A datatype in a file whose representation gives predefined datatypes other sizes than memory
//! does (MPI 5.0, 14.5).
//!
//! The datatype is made again by the constructors that made it, with other datatypes in place of
//! the predefined ones. What a constructor counts in extents of its argument changes with that;
//! displacements in bytes stay as they are, for which the standard calls such a datatype not
//! portable.

use mica_memory::RECURSION_MAX;

use super::{Datatype, TypeArguments};
use crate::constants as c;
use crate::error::{Error, Result};

impl Datatype {
    /// This datatype with what `stand_in` returns in place of each predefined one. Only its layout
    /// is of use.
    ///
    /// # Errors
    /// Those of `stand_in` and of the constructors; `MPI_ERR_TYPE` for a datatype that is nested
    /// deeper than the library recurses.
    pub fn with_predefined(
        &self,
        stand_in: &mut dyn FnMut(&Datatype) -> Result<Datatype>,
    ) -> Result<Datatype> {
        self.made_again(stand_in, RECURSION_MAX)
    }

    fn made_again(
        &self,
        stand_in: &mut dyn FnMut(&Datatype) -> Result<Datatype>,
        levels: u32,
    ) -> Result<Datatype> {
        let TypeArguments { combiner, integers, addresses, counts, datatypes } =
            &self.0.core.arguments;
        if datatypes.is_empty() || self.0.core.basic.is_some() {
            return stand_in(self);
        }
        let Some(levels) = levels.checked_sub(1) else {
            let reason = "it is nested too deeply for a file in another representation than native";
            return Err(Error::argument(c::ERR_TYPE, "datatype", self.label(), reason));
        };
        // The counts of the large form are followed by its displacements.
        let large = !counts.is_empty();
        let at = |range: std::ops::Range<usize>| match large {
            true => &counts[range],
            false => &integers[range],
        };
        let displacements = |from: usize| match large {
            true => &counts[from..],
            false => &addresses[..],
        };
        let number = |i: usize| at(i..i + 1)[0];
        let mut parts = Vec::with_capacity(datatypes.len());
        for part in datatypes {
            parts.push(part.made_again(stand_in, levels)?);
        }
        let old = &parts[0];
        match *combiner {
            c::COMBINER_DUP => Ok(old.clone()),
            c::COMBINER_CONTIGUOUS => Datatype::contiguous(number(0), old),
            c::COMBINER_VECTOR => Datatype::vector(number(0), number(1), number(2), old),
            c::COMBINER_HVECTOR => {
                Datatype::hvector(number(0), number(1), displacements(2)[0], old)
            }
            c::COMBINER_INDEXED => {
                let n = number(0) as usize;
                Datatype::indexed(at(1..1 + n), at(1 + n..1 + 2 * n), old)
            }
            c::COMBINER_HINDEXED => {
                let n = number(0) as usize;
                Datatype::hindexed(at(1..1 + n), displacements(1 + n), old)
            }
            c::COMBINER_INDEXED_BLOCK => {
                let n = number(0) as usize;
                Datatype::indexed_block(number(1), at(2..2 + n), old)
            }
            c::COMBINER_HINDEXED_BLOCK => {
                Datatype::hindexed_block(number(1), displacements(2), old)
            }
            c::COMBINER_STRUCT => {
                let n = number(0) as usize;
                Datatype::create_struct(at(1..1 + n), displacements(1 + n), &parts)
            }
            c::COMBINER_RESIZED => {
                let bounds = displacements(0);
                Datatype::resized(old, bounds[0], bounds[1])
            }
            c::COMBINER_SUBARRAY => {
                let n = integers[0] as usize;
                let first = usize::from(!large);
                let sizes = |i: usize| at(first + i * n..first + (i + 1) * n);
                let order = integers[integers.len() - 1] as i32;
                Datatype::subarray(sizes(0), sizes(1), sizes(2), order, old)
            }
            c::COMBINER_DARRAY => self.distributed_again(old),
            _ => stand_in(self),
        }
    }

    fn distributed_again(&self, old: &Datatype) -> Result<Datatype> {
        let TypeArguments { integers, counts, .. } = &self.0.core.arguments;
        let small: Vec<i32> = integers.iter().map(|&value| value as i32).collect();
        let n = small[2] as usize;
        let (sizes, rest) = match counts.is_empty() {
            true => (&integers[3..3 + n], &small[3 + n..]),
            false => (&counts[..], &small[3..]),
        };
        let list = |i: usize| &rest[i * n..(i + 1) * n];
        Datatype::darray(small[0], small[1], sizes, list(0), list(1), list(2), rest[3 * n], old)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A predefined datatype with twice as many bytes.
    fn doubled(datatype: &Datatype) -> Result<Datatype> {
        Datatype::contiguous(2 * datatype.size(), &Datatype::resolve(c::BYTE)?)
    }

    #[test]
    fn what_counts_in_extents_grows_and_bytes_stay() {
        let int = Datatype::resolve(c::INT).unwrap();
        let double = Datatype::resolve(c::DOUBLE).unwrap();
        let made = [
            (Datatype::contiguous(3, &int).unwrap(), (24, 24)),
            (Datatype::vector(3, 2, 4, &int).unwrap(), (48, 8 * 10)),
            (Datatype::hvector(3, 1, 100, &int).unwrap(), (24, 208)),
            (Datatype::indexed(&[1, 2], &[0, 4], &int).unwrap(), (24, 8 * 6)),
            (Datatype::hindexed(&[1, 2], &[0, 50], &int).unwrap(), (24, 66)),
            (Datatype::indexed_block(2, &[0, 4], &int).unwrap(), (32, 8 * 6)),
            (Datatype::hindexed_block(2, &[0, 50], &int).unwrap(), (32, 66)),
            (Datatype::create_struct(&[1, 1], &[0, 50], &[int.clone(), double]).unwrap(), (24, 66)),
            (Datatype::resized(&int, 0, 30).unwrap(), (8, 30)),
            (
                Datatype::subarray(&[4, 6], &[2, 3], &[1, 2], c::ORDER_C, &int).unwrap(),
                (48, 8 * 24),
            ),
            (
                Datatype::darray(
                    4,
                    1,
                    &[4, 6],
                    &[c::DISTRIBUTE_BLOCK; 2],
                    &[c::DISTRIBUTE_DFLT_DARG; 2],
                    &[2, 2],
                    c::ORDER_C,
                    &int,
                )
                .unwrap(),
                (48, 8 * 24),
            ),
        ];
        for (datatype, (size, extent)) in made {
            for datatype in [datatype.clone(), datatype.made_large().unwrap()] {
                let other = datatype.with_predefined(&mut doubled).unwrap();
                let found = (other.size(), other.extent());
                assert_eq!(found, (size, extent), "{:?}", datatype.envelope());
            }
        }
    }
}
